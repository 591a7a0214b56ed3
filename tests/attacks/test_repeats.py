"""Identical models although training should be random."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer._arrays import FloatArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.repeats import first_repeats, repeats
from epsilometer.measurement.engine import check_training, measure
from epsilometer.measurement.population import Dataset
from tests.attacks.test_result import losses_of
from tests.measurement.algorithms import NoisyMean, Nothing, plan

rng = np.random.default_rng(5)


def constant(bases: int, models: int) -> FloatArray:
    return np.repeat(rng.normal(size=(bases, 1)), models, axis=1)


def test_equal_models_are_seen() -> None:
    (text,) = repeats(losses_of(constant(3, 4), constant(3, 4)))
    assert text.startswith("All 4 models of base 0 without the challenge point have the same loss")
    assert "those of 5 others" in text
    assert "seed" in text


def test_equal_models_of_one_hypothesis_are_seen() -> None:
    (text,) = repeats(losses_of(rng.normal(size=(2, 5)), constant(2, 5)))
    assert "All 5 models of base 0 with the challenge point" in text


def test_a_constant_loss_has_its_own_message() -> None:
    (text,) = repeats(losses_of(np.zeros((2, 5)), np.zeros((2, 5))))
    assert "all losses are 0: does loss(model, point) use the model" in text


def test_a_repeated_sequence_is_seen() -> None:
    table = np.tile(rng.normal(size=(2, 5)), 3)
    (text,) = repeats(losses_of(table, table + 1))
    assert "repeat the same sequence of losses" in text
    table[1, 7] += 1e-9
    assert repeats(losses_of(table, table + 1)) == []


@pytest.mark.parametrize(
    "found",
    [
        losses_of(rng.normal(size=(5, 20)), rng.normal(size=(5, 20))),
        losses_of(rng.normal(size=(5, 2)) * 0, rng.normal(size=(5, 2)) * 0),
        losses_of(rng.integers(2, size=(40, 3)) * 1.0, rng.integers(2, size=(40, 3)) * 1.0),
        losses_of(rng.integers(4, size=(9, 12)) * 1.0, rng.integers(4, size=(9, 12)) * 1.0),
        losses_of(np.maximum(rng.normal(size=(9, 12)) + 1, 0), rng.normal(size=(9, 12)) ** 2),
    ],
    ids=["continuous", "two models", "0 and 1", "four values", "clipped"],
)
def test_others_are_not(found: Losses) -> None:
    assert repeats(found) == []


def test_the_first_models_tell() -> None:
    assert first_repeats([0.25, 0.25], "0") is None
    assert first_repeats([0.25, 0.25, 0.5], "0") is None
    assert first_repeats([1.0, 1.0, 1.0], "0") is None
    assert "first 3 models of base 0 without" in str(first_repeats([0.25] * 3, "0"))


class Seeded(NoisyMean):
    """Fixes its own seed."""

    fingerprint = "seeded"

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        return super().train(dataset, np.random.default_rng(0))


def test_a_fixed_seed_is_reported_early_and_at_the_end() -> None:
    said: list[str] = []
    measured = measure(plan(Seeded()), on_message=said.append)
    assert len(said) == 1
    assert said[0].startswith("warning: the first 3 models of base 0")
    assert "All 5 models of base 0" in measured.warnings[0]
    trial = check_training(plan(Seeded()))
    assert trial.models_trained == 4  # a third one without the point, to be sure
    assert trial.warnings == [said[0].removeprefix("warning: ")]


def test_training_that_does_not_is_not_warned_about() -> None:
    said: list[str] = []
    assert measure(plan(), on_message=said.append).warnings == said == []
    assert check_training(plan()).warnings == []
    assert measure(plan(Nothing()), on_message=said.append).warnings != said == []
