"""DP-SGD for softmax regression: correct, and with a bug that accuracy does not reveal."""

import torch
from opacus.optimizers import DPOptimizer

import epsilometer as em


def softmax_regression():
    """64 pixels in, 10 logits out; all weights start at 0."""
    module = torch.nn.Linear(64, 10)
    for part in module.parameters():
        torch.nn.init.zeros_(part)
    return module


SETTINGS = {
    "module": softmax_regression,
    "noise_multiplier": 4.0,
    "max_grad_norm": 0.1,
    "batch_size": 50,
    "steps": 20,
    "learning_rate": 0.5,
    "records": 100,
}

correct = em.DpSgd(**SETTINGS)


class ClipsTheBatch(DPOptimizer):
    """Clips the mean gradient of a batch, as is common to keep training stable.

    Differential privacy needs every record's gradient clipped before they are averaged.  The noise is
    right, the accountant is told the same numbers, and the model learns better than it should.
    """

    def clip_and_accumulate(self):
        for part in self.params:
            part.grad = part.grad_sample.sum(dim=0) / self.expected_batch_size
        torch.nn.utils.clip_grad_norm_(self.params, self.max_grad_norm)
        for part in self.params:
            part.summed_grad = part.grad * self.expected_batch_size


class Slip(em.DpSgd):
    """DP-SGD with the wrong optimizer; the claim is still the accountant's."""

    def optimizer(self, parameters, seed):
        return ClipsTheBatch(
            torch.optim.SGD(parameters, lr=self.learning_rate),
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            expected_batch_size=self.batch_size,
            generator=torch.Generator().manual_seed(seed),
        )


broken = Slip(**SETTINGS)
