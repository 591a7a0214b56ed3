"""Correct DP-SGD, and six versions with one bug each.  All of them claim the same epsilon."""

import torch
from opacus.optimizers import DPOptimizer

import epsilometer as em


def network():
    """64 pixels in, 10 logits out; 3,010 parameters."""
    return torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.Tanh(), torch.nn.Linear(40, 10))


SETTINGS = {
    "module": network,
    "noise_multiplier": 5.0,
    "max_grad_norm": 4.0,
    "batch_size": 100,
    "steps": 40,
    "learning_rate": 0.1,
    "records": 500,
    "gradient_canaries": 3000,
}


class IgnoresTheMultiplier(DPOptimizer):
    """Noise scaled by the norm; the multiplier is ignored."""

    def add_noise(self):
        for part in self.params:
            noise = torch.randn(part.shape, generator=self.generator)
            part.grad = part.summed_grad + self.max_grad_norm * noise


class ForgetsTheNorm(DPOptimizer):
    """Noise that is not scaled by the norm: correct only for a norm of 1."""

    def add_noise(self):
        for part in self.params:
            noise = torch.randn(part.shape, generator=self.generator)
            part.grad = part.summed_grad + self.noise_multiplier * noise


class ClipsTheBatch(DPOptimizer):
    """Clips the mean gradient of a batch, with noise for single records."""

    def clip_and_accumulate(self):
        for part in self.params:
            part.grad = part.grad_sample.sum(dim=0) / self.expected_batch_size
        torch.nn.utils.clip_grad_norm_(self.params, self.max_grad_norm)
        for part in self.params:
            part.summed_grad = part.grad * self.expected_batch_size


class ForgetsToClip(DPOptimizer):
    """Sums unclipped gradients."""

    def clip_and_accumulate(self):
        for part in self.params:
            part.summed_grad = part.grad_sample.sum(dim=0)


class RepeatsTheNoise(DPOptimizer):
    """Seeded in every step: the same noise in every step."""

    def add_noise(self):
        self.generator.manual_seed(1)
        super().add_noise()


class SamplesTwiceAsOften(em.DpSgd):
    """Each record takes part twice as often as the accountant assumes."""

    def participants(self, count, rng):
        return rng.random(count) < 2 * self.sampling_rate


def with_optimizer(kind):
    """DP-SGD with another optimizer."""

    class Slip(em.DpSgd):
        def optimizer(self, parameters, seed):
            optimizer = super().optimizer(parameters, seed)
            optimizer.__class__ = kind
            return optimizer

    return Slip(**SETTINGS)


correct = em.DpSgd(**SETTINGS)

ALGORITHMS = {
    "correct": correct,
    "noise multiplier ignored": with_optimizer(IgnoresTheMultiplier),
    "noise not scaled by the norm": with_optimizer(ForgetsTheNorm),
    "batches clipped": with_optimizer(ClipsTheBatch),
    "clipping forgotten": with_optimizer(ForgetsToClip),
    "same noise in every step": with_optimizer(RepeatsTheNoise),
    "sampled twice as often": SamplesTwiceAsOften(**SETTINGS),
}
