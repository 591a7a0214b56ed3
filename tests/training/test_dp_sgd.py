"""DP-SGD: steps against slow loops, noise and sampling with their distributions, the accountant."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from opacus.accountants import RDPAccountant
from opacus.optimizers import DPOptimizer
from scipy.special import ndtr
from torch import nn

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as protocols
from epsilometer.model.families import Gaussian
from epsilometer.model.gaussian_mechanism import gaussian_epsilon
from epsilometer.training import pytorch
from epsilometer.training.accounting import EPSILON_ERROR, LARGEST_FINE_EPSILON
from tests.training import modules
from tests.training.samples import RECORDS, data, stream

USUAL: dict[str, Any] = {
    "module": modules.fixed_network,
    "noise_multiplier": 1.5,
    "max_grad_norm": 0.7,
    "batch_size": 6,
    "steps": 4,
    "learning_rate": 0.3,
    "records": RECORDS,
}


def usual(**settings: Any) -> em.DpSgd:
    return em.DpSgd(**(USUAL | settings))


# --- one step, record by record -------------------------------------------------------------------


def by_hand(algorithm: em.DpSgd, dataset: em.rows.Dataset, *, divisor: float | None = None) -> Any:
    """Parameters after training without noise in which every record takes part, in double precision.

    A loop over records: gradient, its length, clipped, summed, divided by the expected batch size.
    """
    module = modules.fixed_network().double()
    velocity: Any = 0.0
    for _ in range(algorithm.steps):
        total: Any = 0.0
        for features, label in zip(dataset.features, np.asarray(dataset.labels), strict=True):
            scores = module(torch.tensor(features)[None])
            loss = nn.functional.cross_entropy(scores, torch.tensor([int(label)]))
            parts = torch.autograd.grad(loss, list(module.parameters()))
            gradient = torch.cat([part.ravel() for part in parts]).numpy()
            length = math.sqrt(float(gradient @ gradient))
            total = total + gradient * min(1.0, algorithm.max_grad_norm / length)
        velocity = algorithm.momentum * velocity + total / (divisor or algorithm.batch_size)
        before = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
        after = torch.tensor(before - algorithm.learning_rate * velocity)
        nn.utils.vector_to_parameters(after, module.parameters())
    return nn.utils.parameters_to_vector(module.parameters()).detach().numpy()


def far(algorithm: em.DpSgd, expected: Any) -> float:
    """Largest difference divided by the largest change made by training."""
    start = algorithm.parameters(modules.fixed_network())
    found = algorithm.parameters(algorithm.train(data(), stream()))
    return float(np.abs(found - expected).max() / np.abs(expected - start).max())


#: Single precision (6e-8 of weights near 1, changes near 0.1), and 1e-6 that Opacus adds to
#: lengths.
NEAR = 1e-4


def without_noise(max_grad_norm: float, **settings: Any) -> em.DpSgd:
    # 12 records where 20 are public: neither the rate, which is 1, nor the divisor may depend on it.
    public = {"noise_multiplier": 0.0, "batch_size": 20, "records": 20}
    return usual(**(public | {"max_grad_norm": max_grad_norm} | settings))


@pytest.mark.parametrize(
    ("max_grad_norm", "momentum", "steps"),  # all, some and none are clipped
    [(0.3, 0.0, 1), (0.3, 0.6, 3), (1.2, 0.6, 3), (50.0, 0.0, 3)],
)
def test_steps_are_those_of_a_loop_over_records(
    max_grad_norm: float, momentum: float, steps: int
) -> None:
    algorithm = without_noise(max_grad_norm, momentum=momentum, steps=steps)
    assert far(algorithm, by_hand(algorithm, data())) < NEAR


class NoClipping(DPOptimizer):  # type: ignore[misc]
    def clip_and_accumulate(self) -> None:
        for part in self.params:
            part.summed_grad = part.grad_sample.sum(dim=0)


class ClippedBatch(DPOptimizer):  # type: ignore[misc]
    """Clips the sum instead of the summands."""

    def clip_and_accumulate(self) -> None:
        sums = [part.grad_sample.sum(dim=0) for part in self.params]
        length = math.sqrt(sum(float((part**2).sum()) for part in sums))
        for part, total in zip(self.params, sums, strict=True):
            part.summed_grad = total * min(1.0, self.max_grad_norm / length)


class LayerByLayer(DPOptimizer):  # type: ignore[misc]
    """Clips each layer's gradient to the whole bound."""

    def clip_and_accumulate(self) -> None:
        for part in self.params:
            lengths = part.grad_sample.flatten(1).norm(dim=1)
            factors = (self.max_grad_norm / lengths).clamp(max=1.0)
            part.summed_grad = torch.einsum("i,i...", factors, part.grad_sample)


@dataclass(frozen=True, kw_only=True)
class Sabotaged(em.DpSgd):
    """DP-SGD with another optimizer; factors change noise and divisor."""

    kind: type[DPOptimizer] = DPOptimizer
    noise_factor: float = 1.0
    divisor_factor: float = 1.0

    def optimizer(self, parameters: Any, seed: int) -> Any:
        return self.kind(
            torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum),
            noise_multiplier=self.noise_factor * self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            expected_batch_size=self.divisor_factor * self.batch_size,
            generator=torch.Generator().manual_seed(seed),
        )


@pytest.mark.parametrize(
    "slip",
    [
        {"kind": NoClipping},
        {"kind": ClippedBatch},
        {"kind": LayerByLayer},
        {"divisor_factor": RECORDS / 20},  # the actual number of records
    ],
    ids=["no clipping", "clipped batch", "layer by layer", "private divisor"],
)
def test_slips_fail_the_same_check(slip: dict[str, Any]) -> None:
    right = without_noise(0.3, steps=1)
    expected = by_hand(right, data())
    settings = USUAL | {"noise_multiplier": 0.0, "max_grad_norm": 0.3, "steps": 1}
    settings |= {"batch_size": 20, "records": 20}
    assert far(Sabotaged(**settings), expected) < NEAR
    assert far(Sabotaged(**settings, **slip), expected) > 100 * NEAR


# --- noise ----------------------------------------------------------------------------------------

#: Standard errors: a false alarm in 1.7 million for each check.
Z = 5.0

WIDE = partial(nn.Linear, 100, 100)


def deviation_too_far(algorithm: em.DpSgd, noises: Any) -> float:
    """Standard errors between the noise deviation and the correct one, sqrt(T) times that of a step."""
    step = algorithm.noise_multiplier * algorithm.max_grad_norm / algorithm.batch_size
    expected = algorithm.learning_rate * step * math.sqrt(algorithm.steps)
    found = float(np.sqrt(np.mean(np.square(noises))))
    return abs(found / expected - 1) * math.sqrt(2 * noises.size)


def noise_of(algorithm: em.DpSgd) -> Any:
    """The effect of noise on the parameters: the same streams with and without it.

    Steps do not depend on each other here: the data has one record, of zeros, whose clipped gradient is
    0 in all weights, and at most a share of the bound in the biases, which are excluded.
    """
    settings = {name: getattr(algorithm, name) for name in USUAL} | {"noise_multiplier": 0.0}
    silent = em.DpSgd(**settings)
    dataset = em.rows.Dataset(features=np.zeros((1, 100)), labels=np.zeros(1, dtype=np.int64))
    both = [
        [made.parameters(made.train(dataset, stream(number)))[: 100 * 100] for number in range(2)]
        for made in (algorithm, silent)
    ]
    return np.subtract(*map(np.concatenate, both)).astype(np.float64)


NOISY = USUAL | {"module": WIDE, "noise_multiplier": 1.7, "max_grad_norm": 0.3, "batch_size": 5}


@pytest.mark.parametrize("steps", [1, 25])
def test_noise_has_its_standard_deviation(steps: int) -> None:
    algorithm = em.DpSgd(**(NOISY | {"steps": steps}))
    noises = noise_of(algorithm)
    assert deviation_too_far(algorithm, noises) < Z
    assert abs(noises.mean()) < Z * noises.std() / math.sqrt(noises.size)
    # Different in every step, parameter and model.
    assert len(np.unique(noises)) > 0.99 * noises.size


@pytest.mark.parametrize(
    "factor", [1 / 0.3, 1 / 5, 1 / math.sqrt(5), 1.05], ids=["no bound", "batch", "root", "5 %"]
)
def test_noise_of_another_size_fails_the_same_check(factor: float) -> None:
    wrong = Sabotaged(**(NOISY | {"steps": 4}), noise_factor=factor)
    assert deviation_too_far(wrong, noise_of(wrong)) > Z


def test_a_step_without_records_is_noise_alone() -> None:
    # Of a million public records one is present: no step uses it.
    algorithm = em.DpSgd(**(NOISY | {"steps": 25, "records": 10**6}))
    noises = noise_of(algorithm)
    assert deviation_too_far(algorithm, noises) < Z
    silent = em.DpSgd(**(NOISY | {"records": 10**6, "noise_multiplier": 0.0}))
    dataset = em.rows.Dataset(features=np.ones((1, 100)), labels=np.zeros(1, dtype=np.int64))
    trained = silent.train(dataset, stream())
    with pytorch.seeded(stream()):
        start = WIDE()
    assert torch.equal(trained.weight, start.weight)


# --- sampling -------------------------------------------------------------------------------------


class Counting(DPOptimizer):  # type: ignore[misc]
    sizes: list[int]

    def clip_and_accumulate(self) -> None:
        self.sizes.append(len(self.params[0].grad_sample))
        super().clip_and_accumulate()


@dataclass(frozen=True, kw_only=True)
class Counted(em.DpSgd):
    """Records the number of records that took part in each step."""

    sizes: list[int]

    def optimizer(self, parameters: Any, seed: int) -> Any:
        usual = super().optimizer(parameters, seed)
        usual.__class__ = Counting
        usual.sizes = self.sizes
        return usual


def sampling_too_far(sizes: list[int], present: int, rate: float) -> tuple[float, float]:
    """Standard errors of the mean and of the variance of batch sizes from those of a binomial."""
    variance = present * rate * (1 - rate)
    fourth = variance * (1 + 3 * (present - 2) * rate * (1 - rate))  # central moment of a binomial
    mean_error = math.sqrt(variance / len(sizes))
    variance_error = math.sqrt((fourth - variance**2) / len(sizes))
    return (
        abs(float(np.mean(sizes)) - present * rate) / mean_error,
        abs(float(np.var(sizes)) - variance) / variance_error,
    )


def test_records_take_part_at_the_public_rate() -> None:
    sizes: list[int] = []
    # 12 records are present, 20 are public, 5 of which are expected in a step.
    Counted(**(USUAL | {"batch_size": 5, "records": 20, "steps": 500}), sizes=sizes).train(
        data(), stream()
    )
    assert len(sizes) == 500
    assert min(sizes) == 0  # with probability 1 - 1e-7: (3/4)^12 = 3 % of steps are empty
    assert max(sampling_too_far(sizes, RECORDS, 5 / 20)) < Z
    # A rate based on the actual number of records, and batches of a fixed size, fail the same check.
    assert sampling_too_far(sizes, RECORDS, 5 / RECORDS)[0] > Z
    assert sampling_too_far([3] * 500, RECORDS, 5 / 20)[1] > Z


# --- the claim ------------------------------------------------------------------------------------


def claimed(noise: float, rate: float, steps: int, delta: float) -> float:
    algorithm = usual(noise_multiplier=noise, batch_size=int(100 * rate), records=100, steps=steps)
    return algorithm.claimed_epsilon(delta)


#: The accountant uses a thousandth of delta in addition to its margin; epsilon changes by less.
ROUNDING = 2e-3


@pytest.mark.parametrize(
    ("noise", "steps", "delta"), [(1.0, 1, 1e-3), (4.0, 16, 0.1), (10.0, 7, 1e-3), (2.0, 30, 1e-6)]
)
def test_with_all_records_it_is_the_gaussian_mechanism(
    noise: float, steps: int, delta: float
) -> None:
    # T steps of noise s are one of noise s / sqrt(T), exactly.
    exact = gaussian_epsilon(delta, sensitivity=1.0, noise=noise / math.sqrt(steps))
    assert 0 <= claimed(noise, 1.0, steps, delta) - exact < EPSILON_ERROR + ROUNDING
    # Noise that is 5 % too large, or a step that is not counted, would break the claim.
    assert claimed(1.05 * noise, 1.0, steps, delta) < exact
    if steps == 16:
        assert claimed(noise, 1.0, steps - 1, delta) < exact


def sampled_delta(epsilon: float, noise: float, rate: float) -> float:
    """Delta of one sampled step, exactly: the larger of adding and removing a record."""
    # The mixture against the normal: rate times a Gaussian mechanism at a larger epsilon.
    inner = math.log1p(math.expm1(epsilon) / rate)
    less = rate * float(Gaussian().delta(1 / noise, inner)[0])
    # The normal against the mixture: below the point where their ratio is exp(epsilon).
    if math.exp(-epsilon) <= 1 - rate:
        return less
    edge = 0.5 + noise**2 * math.log((math.exp(-epsilon) - (1 - rate)) / rate)
    mixture = (1 - rate) * ndtr(edge / noise) + rate * ndtr((edge - 1) / noise)
    return max(less, float(ndtr(edge / noise) - math.exp(epsilon) * mixture))


@pytest.mark.parametrize(
    ("noise", "rate", "delta"),
    [(0.6, 0.05, 1e-6), (0.6, 0.6, 1e-3), (2.0, 0.05, 0.02), (2.0, 0.6, 1e-6), (2.0, 0.05, 1e-3)],
)
def test_one_sampled_step_has_a_closed_form(noise: float, rate: float, delta: float) -> None:
    found = claimed(noise, rate, 1, delta)
    assert sampled_delta(found, noise, rate) <= delta
    below = found - EPSILON_ERROR - ROUNDING
    if below > 0:
        assert sampled_delta(below, noise, rate) > delta


def test_it_is_the_tighter_accountant() -> None:
    noise, rate, steps = 1.0, 0.1, 100
    other = RDPAccountant()
    other.history = [(noise, rate, steps)]
    found = claimed(noise, rate, steps, 1e-3)
    assert 0.5 * other.get_epsilon(1e-3) < found < other.get_epsilon(1e-3)
    assert found < claimed(noise, rate, steps + 10, 1e-3)


def test_no_claim_and_no_steps() -> None:
    assert usual(noise_multiplier=0.0).claimed_epsilon(0.1) == math.inf
    assert usual().claimed_epsilon(0.0) == math.inf
    assert usual(noise_multiplier=100.0).claimed_epsilon(0.1) == 0.0
    assert LARGEST_FINE_EPSILON < claimed(0.1, 1.0, 30, 1e-3) < math.inf


def test_a_delta_beyond_the_accountant() -> None:
    with pytest.raises(
        InputError, match=r"the accountant gives no epsilon at delta=0\.9999: Cannot"
    ):
        usual().claimed_epsilon(0.9999)


def test_claims_pass_through_perturbation() -> None:
    inside = usual()
    assert isinstance(inside, protocols.Claims)
    # Noise on the release is post-processing: the claim still holds, and does not improve.
    wrapped = em.training.NoiseLevels(algorithm=inside, scales=(0.0, 1.0))
    assert wrapped.claimed_epsilon(0.01) == inside.claimed_epsilon(0.01)
    silent = em.PyTorch(module=modules.dropping, fit=modules.fit)
    assert not isinstance(silent, protocols.Claims)
    outside = em.training.OutputPerturbation(algorithm=silent, scale=1.0)
    assert outside.claimed_epsilon(0.01) == math.inf


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"noise_multiplier": -1.0}, "noise_multiplier >= 0"),
        ({"max_grad_norm": 0.0}, "max_grad_norm > 0"),
        ({"batch_size": 0}, "batch_size >= 1"),
        ({"batch_size": RECORDS + 1}, f"batch_size <= {RECORDS}"),
        ({"steps": 0}, "steps >= 1"),
        ({"records": 0}, "records >= 1"),
        ({"learning_rate": 0.0}, "learning_rate > 0"),
        ({"momentum": 1.0}, "momentum < 1"),
        ({"module": modules.frozen}, "Linear has no trainable parameters"),
        ({"module": modules.with_batch_normalisation}, "batch normalisation, got Sequential"),
    ],
)
def test_out_of_range(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        usual(**settings)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (None, "needs integer labels"),
        (np.arange(RECORDS) / 2, "needs integer labels"),
        (np.arange(RECORDS) - 100, "expected labels from 0, got -100"),  # PyTorch ignores -100
    ],
)
def test_labels(labels: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        usual().train(em.rows.Dataset(features=data().features, labels=labels), stream())


def test_trained_models_carry_no_traces_of_training() -> None:
    model = usual().train(data(), stream())
    fresh = modules.fixed_network()
    for one, other in zip(model.modules(), fresh.modules(), strict=True):
        assert set(vars(one)) == set(vars(other))
    assert all(not vars(part) and part.grad is None for part in model.parameters())
    assert copy.deepcopy(model).state_dict().keys() == fresh.state_dict().keys()
