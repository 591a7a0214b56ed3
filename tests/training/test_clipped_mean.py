"""The clipped mean: its privacy is known, so measurements on it can be checked."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from epsilometer.errors import InputError
from epsilometer.measurement.bases import Include, Replace
from epsilometer.measurement.designs import CrossFed
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Dataset, Point, Population
from epsilometer.model.gaussian_mechanism import gaussian_epsilon
from epsilometer.training.clipped_mean import ClippedMean
from epsilometer.training.output_perturbation import NoiseLevels, OutputPerturbation


@pytest.mark.parametrize(("delta", "noise"), [(1e-6, 0.02), (1e-3, 0.005), (0.05, 0.1)])
@pytest.mark.parametrize("adjacency", [Include(), Replace()], ids=["include", "replace"])
def test_epsilon_is_that_of_the_gaussian_mechanism(
    delta: float, noise: float, adjacency: Include | Replace
) -> None:
    algorithm = ClippedMean(noise=noise, records=50, bound=2.0)
    # One record's share of the mean, bound / records; twice that if another replaces it.
    sensitivity = 0.04 * (1 if adjacency.name == "include" else 2)
    epsilon = algorithm.epsilon(delta, adjacency)
    assert algorithm.claimed_epsilon(delta) <= epsilon
    assert epsilon == gaussian_epsilon(delta, sensitivity=sensitivity, noise=noise)


def test_without_noise_there_is_no_privacy() -> None:
    algorithm = ClippedMean(noise=0.0, records=10)
    assert algorithm.epsilon(1e-3) == algorithm.claimed_epsilon(1e-3) == math.inf
    dataset = Dataset(features=np.array([[3.0, 4.0], [0.3, 0.4]]))
    released = algorithm.train(dataset, np.random.default_rng(1))
    image = Dataset(features=dataset.features.reshape(2, 1, 2))
    assert (algorithm.train(image, np.random.default_rng(1)) == released).all()
    # (3, 4) is clipped to length 1; (0.3, 0.4) is unchanged.
    np.testing.assert_allclose(released, [0.09, 0.12], rtol=1e-15)


def test_records_are_clipped_and_zeros_stay() -> None:
    algorithm = ClippedMean(noise=0.0, records=1, bound=2.0)
    rng = np.random.default_rng(1)
    for row, expected in (([0.0, 0.0], [0.0, 0.0]), ([0.0, 1.5], [0.0, 1.5]), ([-9, 0], [-2.0, 0])):
        features = np.array([row])
        assert algorithm.train(Dataset(features=features), rng).tolist() == expected
    assert algorithm.loss(np.ones(2), Point(features=np.zeros(2))) == 0.0


def test_noise_has_its_standard_deviation() -> None:
    algorithm = ClippedMean(noise=0.7, records=5)
    dataset = Dataset(features=np.zeros((5, 4000)))
    released = algorithm.train(dataset, np.random.default_rng(3))
    # The standard error of a standard deviation is sigma / sqrt(2 n); five of them.
    assert abs(released.std() - 0.7) < 5 * 0.7 / math.sqrt(8000)
    assert abs(released.mean()) < 5 * 0.7 / math.sqrt(4000)


# --- measured against the closed form -------------------------------------------------------------

BASES, REPLICATES, RECORDS, BOUND = 20, 150, 30, 1.5


@cache
def measured(noise: float, adjacency: Include | Replace) -> Any:
    """Scores of the attack on the losses of all bases."""
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((60, 8))
    rows *= BOUND / np.linalg.norm(rows, axis=1, keepdims=True)
    plan = Plan(
        population=Population(features=rows),
        algorithm=ClippedMean(noise=noise, records=RECORDS, bound=BOUND),
        design=CrossFed(replicates=REPLICATES),
        challenge_bases=BASES,
        dataset_size=RECORDS - 1,
        adjacency=adjacency,
        seed=5,
    )
    return plan.design.attack(measure(plan).only)


def counts(noise: float, adjacency: Include | Replace, alpha: float) -> tuple[int, int, int]:
    """False positives and false negatives over all bases, and trials under each hypothesis."""
    result = measured(noise, adjacency).counts(alpha)
    assert (result.trials_h0 == REPLICATES).all()
    return (
        int(result.false_positives.sum()),
        int(result.false_negatives.sum()),
        BASES * REPLICATES,
    )


def too_far(found: int, trials: int, rate: float) -> float:
    """Standard errors of a binomial count between found and expected."""
    return abs(found - trials * rate) / math.sqrt(trials * rate * (1 - rate))


#: A false alarm in 1.7 million for a binomial count.  Cross-feeding fits the attack to 149 shadows,
#: so thresholds are off by about a twelfth of a standard deviation, in each base in a different
#: direction; over 20 bases this adds less than a standard error.
Z = 5.0


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_measured_errors_follow_the_closed_form(ratio: float, alpha: float) -> None:
    sensitivity = BOUND / RECORDS
    false_positives, false_negatives, trials = counts(sensitivity / ratio, Include(), alpha)
    miss = float(ndtr(-ndtri(alpha) - ratio))  # 1 - Phi(Phi^-1(alpha) + ratio)
    assert too_far(false_positives, trials, alpha) < Z
    assert too_far(false_negatives, trials, miss) < Z
    # A sensitivity that is wrong by a factor of two fails the same check, in either direction.
    for wrong in (ratio / 2, 2 * ratio):
        assert too_far(false_negatives, trials, float(ndtr(-ndtri(alpha) - wrong))) > Z


def test_replacing_shows_no_more_than_the_loss_can_see() -> None:
    # The loss depends on the direction of z only; z' adds its own share along it, which differs by base.
    sensitivity = BOUND / RECORDS
    _, found, trials = counts(sensitivity, Replace(), 0.1)
    least = float(ndtr(-ndtri(0.1) - 2.0))  # misses at twice the share, the worst case
    assert found > trials * least


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"noise": -0.1, "records": 3}, "noise"),
        ({"noise": 0.1, "records": 0}, "records"),
        ({"noise": 0.1, "records": 3, "bound": 0.0}, "bound"),
    ],
)
def test_out_of_range(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ClippedMean(**settings)


# --- perturbed outputs ----------------------------------------------------------------------------


class Bare:
    """Trains, but exposes no parameters."""

    def train(self, dataset: Any, rng: Any) -> None: ...

    def loss(self, model: Any, point: Any) -> float:
        return 0.0


MEAN = ClippedMean(noise=0.0, records=3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: OutputPerturbation(algorithm=Bare(), scale=1.0), "exposes its parameters"),
        (lambda: OutputPerturbation(algorithm=MEAN, scale=-1.0), "scale"),
        (
            lambda: OutputPerturbation(
                algorithm=NoiseLevels(algorithm=MEAN, scales=(1.0,)), scale=1.0
            ),
            "a single variant",
        ),
        (lambda: NoiseLevels(algorithm=MEAN, scales=()), "distinct noise scales"),
        (lambda: NoiseLevels(algorithm=MEAN, scales=(1.0, 1)), "distinct noise scales"),
        (lambda: NoiseLevels(algorithm=MEAN, scales=(math.inf,)), "scale"),
        (lambda: NoiseLevels(algorithm=Bare(), scales=(1.0,)), "exposes its parameters"),
    ],
)
def test_wrappers_refuse(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_perturbation_adds_its_noise_to_that_of_training() -> None:
    inner = ClippedMean(noise=0.3, records=3)
    perturbed = OutputPerturbation(algorithm=inner, scale=0.4)
    dataset = Dataset(features=np.zeros((3, 4000)))
    released = perturbed.train(dataset, np.random.default_rng(8))
    # 0.3 and 0.4 combine to 0.5; five standard errors.
    assert abs(released.std() - 0.5) < 5 * 0.5 / math.sqrt(8000)
