"""Gradient canaries: sums by hand, distributions, sampling, refusals, detectable mistakes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from opacus import PrivacyEngine
from opacus.optimizers import (
    AdaClipDPOptimizer,
    DPOptimizer,
    DPOptimizerFastGradientClipping,
    DPPerLayerOptimizer,
)
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as protocols
from epsilometer.training import gradient_canaries
from epsilometer.training.accounting import accounted_epsilon
from tests.training.samples import RECORDS, data, stream
from tests.training.test_dp_sgd import USUAL, ClippedBatch, NoClipping, usual

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]

#: Standard errors: a false alarm in 1.7 million for each check.
Z = 5.0

NORM = 0.7
SHAPES = ((4, 3), (4,))
SIZE = 16


def optimizer(kind: Any = DPOptimizer, *, noise: float = 0.0, **settings: Any) -> Any:
    """An optimizer of two parameters at 0, with 16 numbers in total."""
    parts = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    return kind(
        torch.optim.SGD(parts, lr=1.0),
        noise_multiplier=noise,
        max_grad_norm=settings.pop("max_grad_norm", NORM),
        expected_batch_size=1,
        generator=torch.Generator().manual_seed(3),
        **settings,
    )


def canaries(made: Any, count: int = 10, **settings: Any) -> em.GradientCanaries:
    usual: dict[str, Any] = {"included": np.arange(count) % 2 == 0, "sampling_rate": 1.0}
    usual["draw"] = lambda: np.ones(count, dtype=bool)
    return em.GradientCanaries(made, **(usual | {"rng": np.random.default_rng(1)} | settings))


def step(made: Any, records: int = 3, seed: int = 1) -> None:
    """One batch of made-up gradients of records, some longer than the norm."""
    generator = torch.Generator().manual_seed(seed)
    made.zero_grad()
    for part in made.params:
        part.grad_sample = torch.randn((records, *part.shape), generator=generator)
    made.step()


def flat(parts: Any) -> Any:
    return np.concatenate([part.detach().numpy().ravel() for part in parts]).astype(float)


def coordinates(found: em.GradientCanaries) -> Any:
    """The position of each canary among all 16 numbers."""
    return found._offset + np.array([0, 12])[found._part]


def clipped_sum(records: int, seed: int = 1) -> Any:
    """By hand, record by record."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn((records, *s), generator=generator).flatten(1).numpy() for s in SHAPES]
    total = np.zeros(SIZE)
    for row in np.concatenate(rows, axis=1).astype(float):
        total += row * min(1.0, NORM / float(np.linalg.norm(row)))
    return total


# --- sums -----------------------------------------------------------------------------------------

BOUNDS = {"together": 2**20, "in parts": 3 * 4 * SIZE, "one by one": 1}


@pytest.mark.parametrize("records", [0, 1, 3])
@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
def test_sums_are_records_and_canaries_each_clipped(
    bound: int, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient_canaries, "LARGEST_BATCH", bound)
    made = optimizer()
    found = canaries(made)
    step(made, records)
    expected = clipped_sum(records)
    expected[coordinates(found)[found.included]] += NORM
    np.testing.assert_allclose(-flat(made.params), expected, atol=1e-5)
    # Each has its own coordinate, and the records' contribution is not in the scores.
    assert len(set(coordinates(found))) == 10
    np.testing.assert_allclose(found._sums.total, found.included, atol=1e-5)


def test_without_known_records_scores_use_the_released_sum() -> None:
    made = optimizer()
    found = canaries(made, known_records=False)
    step(made)
    released = -flat(made.params)[coordinates(found)] / NORM
    np.testing.assert_allclose(found._sums.total, released, atol=1e-5)


# Without clipping the last sum replaces the one before: parts must not rely on being added.
@pytest.mark.parametrize(
    ("slip", "bound"), [(NoClipping, 2**20), (NoClipping, 1), (ClippedBatch, 2**20)]
)
def test_slips_of_clipping_fail_the_same_check(
    slip: Any, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient_canaries, "LARGEST_BATCH", bound)
    made = optimizer(slip)
    found = canaries(made)
    step(made, 0)
    added = found._sums.total[found.included]
    expected = 10.0 if slip is NoClipping else 1 / math.sqrt(5)
    np.testing.assert_allclose(added, expected, rtol=1e-5)


def test_gradients_are_unchanged_except_for_the_mark() -> None:
    made = optimizer()
    canaries(made)
    step(made)
    assert [len(part.grad_sample) for part in made.params] == [3, 3]
    with pytest.raises(ValueError, match="haven't been cleared"):
        made.step()


class Spying(DPOptimizer):  # type: ignore[misc]
    def clip_and_accumulate(self) -> None:
        self.rows.append(len(self.params[0].grad_sample))
        super().clip_and_accumulate()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_canaries, "LARGEST_BATCH", 3 * 4 * SIZE + 1)
    made = optimizer(Spying)
    made.rows = []
    canaries(made, 16, included=np.ones(16, dtype=bool))
    step(made, 2)
    assert made.rows == [2, 3, 3, 3, 3, 3, 1]
    monkeypatch.setattr(gradient_canaries, "LARGEST_BATCH", 18 * 4 * SIZE)
    step(made, 2)
    assert made.rows[7:] == [18]


# --- laws -----------------------------------------------------------------------------------------


def test_coordinates_have_the_mean_and_variance_of_theory() -> None:
    rate, noise, steps, count = 0.3, 1.5, 500, 16
    made = optimizer(noise=noise)
    rng = np.random.default_rng(5)
    found = canaries(
        made, count, draw=lambda: rng.random(count) < rate, sampling_rate=rate, rng=rng
    )
    for number in range(steps):
        step(made, 2, number)
    for member, mean in ((False, 0.0), (True, rate)):
        own = found.included == member
        variance = noise**2 + (rate * (1 - rate) if member else 0.0)
        size = steps * int(own.sum())
        means, variances = found._sums.means()[own], found._sums.variances()[own]
        assert abs(means.mean() - mean) < Z * math.sqrt(variance / size)
        # The fourth moment is that of a normal to a few per cent.
        assert abs(variances.mean() / variance - 1) < Z * math.sqrt(2.1 / size)


# --- with a PrivacyEngine -------------------------------------------------------------------------


class Eager(UniformWithReplacementSampler):  # type: ignore[misc]
    """Samples twice as often as it states."""

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.steps):
            mask = torch.rand(self.num_samples, generator=self.generator) < 2 * self.sample_rate
            yield mask.nonzero().ravel().tolist()


def records(count: int = 60) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn((count, 5), generator=generator)
    return TensorDataset(features, torch.arange(count) % 3)


def private(batch: int = 6, seed: int = 1, **settings: Any) -> tuple[Any, Any, Any, Any]:
    """Engine, module, optimizer and loader, with all random numbers from the seed."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    engine = PrivacyEngine()
    made = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        data_loader=DataLoader(
            records(), batch_size=batch, generator=torch.Generator().manual_seed(seed)
        ),
        noise_generator=torch.Generator().manual_seed(seed),
        **({"noise_multiplier": 1.0, "max_grad_norm": 1.0} | settings),
    )
    return engine, *made


def loop(module: Any, made: Any, loader: Any, epochs: int) -> None:
    for _ in range(epochs):
        for features, labels in loader:
            made.zero_grad()
            nn.functional.cross_entropy(module(features), labels, reduction="mean").backward()
            made.step()


def attached(
    sampler: Any = UniformWithReplacementSampler, epochs: int = 20, **settings: Any
) -> tuple[em.GradientCanaries, Any]:
    engine, module, made, loader = private()
    loader.batch_sampler.__class__ = sampler
    found = em.GradientCanaries.attach(
        made,
        loader,
        count=50,
        rng=np.random.default_rng(1),
        accountant=engine.accountant,
        **settings,
    )
    loop(module, made, loader, epochs)
    return found, engine


def test_one_call_in_a_loop() -> None:
    found, engine = attached()
    scores = found.scores()
    assert scores.one_run
    inside = int(found.included.sum())
    assert (scores.trials_h1[0], scores.trials_h0[0]) == (inside, 50 - inside)
    assert (found.steps, found.sampling_rate) == (200, 0.1)
    assert found.claimed_epsilon(1e-3) == engine.get_epsilon(1e-3)
    assert found._done == [(1.0, 0.1, 200)]
    # Participation is a coin with the sampling rate for each canary.
    chances = 200 * inside
    assert abs(found._taken / chances - 0.1) < Z * math.sqrt(0.1 * 0.9 / chances)
    # 200 steps of rate 0.1 and noise 1: 0.86 is expected, with a standard error of 0.05.
    assert scores.bases[0].auc() > 0.61
    assert estimate(scores, found.model(1e-3)).median("epsilon") > 1


def test_batches_without_records_and_large_ones_in_parts() -> None:
    """One record per batch is expected, so a third of all batches are empty."""
    ends = []
    for most in (None, 1):
        _, module, made, loader = private(batch=1)
        found = em.GradientCanaries.attach(made, loader, count=30, rng=np.random.default_rng(1))
        if most is None:
            loop(module, made, loader, 1)
        else:
            with BatchMemoryManager(
                data_loader=loader, max_physical_batch_size=most, optimizer=made
            ) as parts:
                loop(module, made, parts, 1)
        assert min(found._sizes) == 0
        assert max(found._sizes) > 1
        ends.append((flat(module.parameters()), found.each_score(), found._sizes))
    assert ends[0][2] == ends[1][2]
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=1e-5)
    np.testing.assert_allclose(ends[0][1], ends[1][1], atol=1e-4)


def test_a_loader_that_samples_too_often_takes_the_canaries_along() -> None:
    found, _ = attached(Eager)
    chances = 200 * int(found.included.sum())
    assert abs(found._taken / chances - 0.2) < Z * math.sqrt(0.2 * 0.8 / chances)
    found.scores()  # records and canaries take part equally: it is the claim that is wrong


def test_rates_that_differ_are_refused() -> None:
    with pytest.raises(InputError, match=r"got 0\.\d* of records and 0\.3\d* of canaries"):
        attached(sampling_rate=0.3, epochs=10)[0].scores()
    attached(sampling_rate=0.1, epochs=10)[0].scores()


def test_batches_of_one_size_are_refused() -> None:
    _, module, made, _ = private()
    shuffled = DataLoader(records(), batch_size=6)
    found = em.GradientCanaries.attach(
        made, shuffled, count=50, rng=np.random.default_rng(1), sampling_rate=0.1
    )
    loop(module, made, shuffled, 5)
    with pytest.raises(InputError, match=r"\(Poisson\), got 50 batches of 6 to 6"):
        found.scores()


def test_loaders_that_split_batches_or_fill_empty_ones() -> None:
    _, _, made, loader = private()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=made) as parts:
        found = em.GradientCanaries.attach(made, parts, count=5, rng=np.random.default_rng(1))
    assert (found.sampling_rate, found._records) == (0.1, 60)
    _, _, made, loader = private()
    loader.collate_fn.rand_on_empty = True  # then a batch of one record may have been empty
    found = em.GradientCanaries.attach(made, loader, count=5, rng=np.random.default_rng(1))
    assert found._records is None


def test_changing_noise_is_accounted_for() -> None:
    made = optimizer(noise=20.0)
    found = canaries(made, sampling_rate=0.5)
    for noise in (20.0, 20.0, 10.0):
        made.noise_multiplier = noise
        step(made)
    assert found._done == [(20.0, 0.5, 2), (10.0, 0.5, 1)]
    assert found.claimed_epsilon(0.1) == accounted_epsilon(found._done, 0.1)


# --- refusals -------------------------------------------------------------------------------------


ADAPTIVE = {
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.1,
    "max_clipbound": 1.0,
    "min_clipbound": 0.1,
    "unclipped_num_std": 1.0,
}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (DPOptimizerFastGradientClipping, {}),
        (DPPerLayerOptimizer, {"max_grad_norm": [1.0, 1.0]}),
        (AdaClipDPOptimizer, {"noise": 1.0} | ADAPTIVE),
    ],
)
def test_other_optimizers(kind: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"one machine, got {kind.__name__}"):
        canaries(optimizer(kind, **settings))
    with pytest.raises(InputError, match="returned by make_private, got SGD"):
        canaries(torch.optim.SGD([nn.Parameter(torch.zeros(16))], lr=1.0))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"count": 76}, "canaries <= 75, got canaries=76"),
        ({"count": 1}, "count >= 2"),
        ({"sampling_rate": 1.5}, "0 < sampling_rate <= 1"),
        ({"data_loader": DataLoader(records(), batch_size=6)}, "Poisson .* got BatchSampler"),
    ],
)
def test_out_of_range(settings: dict[str, Any], words: str) -> None:
    _, _, made, loader = private()
    given = {"data_loader": loader, "count": 10, "rng": np.random.default_rng(1)} | settings
    with pytest.raises(InputError, match=words):
        em.GradientCanaries.attach(made, **given)


def test_out_of_order() -> None:
    made = optimizer()
    found = canaries(made)
    with pytest.raises(InputError, match="expected training steps after attach"):
        found.scores()
    with pytest.raises(InputError, match="without canaries, got one that already has some"):
        canaries(made)
    with pytest.raises(InputError, match="to clip before it adds noise"):
        made.add_noise()
    for part in made.params:
        part.grad_sample = None
    with pytest.raises(InputError, match="expected a backward pass"):
        made.clip_and_accumulate()
    for part in made.params:
        part.grad_sample = [torch.zeros((1, *part.shape))] * 2
    with pytest.raises(InputError, match="one backward pass per step, got 2"):
        made.clip_and_accumulate()


# --- DpSgd ----------------------------------------------------------------------------------------


def coins(count: int = 30) -> Any:
    return np.random.default_rng(2).random(count) < 0.5


def test_the_same_stream_gives_the_same_scores() -> None:
    algorithm = usual(gradient_canaries=30)
    one, same, other = (algorithm.gradient_scores(data(), coins(), stream(n)) for n in (0, 0, 1))
    assert one.tobytes() == same.tobytes()
    assert (one != other).all()


def test_models_and_identity_do_not_know_of_canaries() -> None:
    without, some = usual(), usual(gradient_canaries=30, known_records=False)
    both = [made.parameters(made.train(data(), stream())) for made in (without, some)]
    np.testing.assert_array_equal(both[0], both[1])
    assert protocols.identity(without) == protocols.identity(some)
    assert "gradient_canaries" not in str(protocols.identity(some))


class Twice(em.DpSgd):
    def participants(self, count: int, rng: np.random.Generator) -> Any:
        return rng.random(count) < 2 * self.sampling_rate


def test_canaries_are_sampled_as_records_are(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = USUAL | {"batch_size": 1, "steps": 100, "gradient_canaries": 40}
    taken: list[int] = []

    def count(self: em.GradientCanaries) -> Any:
        taken.append(self._taken)
        return np.zeros(40)

    monkeypatch.setattr(em.GradientCanaries, "each_score", count)
    for kind in (em.DpSgd, Twice):
        kind(**settings).gradient_scores(data(), np.ones(40, dtype=bool), stream())
    means = np.array(taken) / (40 * 100)
    error = Z * math.sqrt(1 / RECORDS / 4000)
    assert abs(means[0] - 1 / RECORDS) < error
    assert abs(means[1] - 2 / RECORDS) < 2 * error


class Absent(em.DpSgd):
    def participants(self, count: int, rng: np.random.Generator) -> Any:
        return np.zeros(count, dtype=bool)


def test_canaries_that_never_take_part_are_uninformative() -> None:
    settings = USUAL | {"module": nn_wide, "steps": 20, "gradient_canaries": 1000}
    seen = [
        kind(**settings).audit_gradients(data(), stream()).bases[0].auc()
        for kind in (em.DpSgd, Absent)
    ]
    error = math.sqrt(1 / 3000)  # of an AUC of 500 + 500 scores without an effect
    assert seen[0] > 0.5 + 2 * Z * error
    assert abs(seen[1] - 0.5) < Z * error


def nn_wide() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 200), nn.Tanh(), nn.Linear(200, 3))


@pytest.mark.parametrize("included", [coins(29), coins().astype(float)], ids=["size", "type"])
def test_coins_that_are_none(included: Any) -> None:
    with pytest.raises(InputError, match=r"one coin .* per gradient canary"):
        usual(gradient_canaries=30).gradient_scores(data(), included, stream())
    with pytest.raises(InputError, match="gradient_canaries=0"):
        usual().audit_gradients(data(), stream())
    with pytest.raises(InputError, match="gradient_canaries <= 43"):  # all parameters
        usual(gradient_canaries=44)
