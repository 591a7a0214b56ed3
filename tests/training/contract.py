"""The contract of every adapter, whatever library it wraps; test classes inherit it."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.measurement import algorithm as protocols

RECORDS = 12


def stream(number: int = 0) -> np.random.Generator:
    return np.random.default_rng([9, number])


def made_up(records: int = 40, *, classes: int = 3) -> em.Population:
    """Normal features, and labels that depend on them slightly."""
    rng = np.random.default_rng(4)
    features = rng.standard_normal((records, 4))
    labels = (
        (features[:, 0] + rng.standard_normal(records)).argsort().argsort() * classes // records
    )
    return em.Population(features=features, labels=labels)


POPULATION = made_up()


def data(first: int = 0) -> em.rows.Dataset:
    # Every third record of the population: all classes occur.
    return POPULATION.take((np.arange(RECORDS) * 3 + first) % 40)


def losses(algorithm: Any, model: Any) -> list[float]:
    return [algorithm.loss(model, POPULATION.point(index)) for index in range(40)]


class Contract:
    """Needs a fixture ``algorithm``."""

    draws = True
    """Whether models depend on the stream at all."""

    def test_keeps_the_protocols(self, algorithm: Any) -> None:
        protocols.check(algorithm)
        assert isinstance(algorithm, protocols.HasParameters)
        assert protocols.identity(algorithm) == protocols.identity(copy.deepcopy(algorithm))

    def test_training_depends_on_data_and_stream_alone(self, algorithm: Any) -> None:
        found = losses(algorithm, algorithm.train(data(), stream()))
        np.random.seed(1)  # noqa: NPY002 - global randomness must not matter
        random.seed(1)
        assert losses(algorithm, algorithm.train(data(), stream())) == found
        assert losses(algorithm, algorithm.train(data(1), stream())) != found
        other = losses(algorithm, algorithm.train(data(), stream(1)))
        assert (other != found) == self.draws

    def test_global_randomness_is_left_as_it_was(self, algorithm: Any) -> None:
        def next_draws() -> list[float]:
            return [float(np.random.random()), random.random()]  # noqa: NPY002

        np.random.seed(7)  # noqa: NPY002
        random.seed(7)
        expected = next_draws()
        np.random.seed(7)  # noqa: NPY002
        random.seed(7)
        algorithm.loss(algorithm.train(data(), stream()), POPULATION.point(0))
        assert next_draws() == expected

    def test_the_data_set_is_left_and_not_needed_afterwards(self, algorithm: Any) -> None:
        given = data()
        model = algorithm.train(given, stream())
        np.testing.assert_array_equal(given.features, data().features)
        before = losses(algorithm, model)
        given.features[:] = np.nan
        assert losses(algorithm, model) == before

    def test_losses_are_finite_numbers_that_repeat(self, algorithm: Any) -> None:
        model = algorithm.train(data(), stream())
        found = losses(algorithm, model)
        assert all(type(loss) is float for loss in found)
        assert np.isfinite(found).all()
        assert losses(algorithm, model) == found

    def test_other_parameters_leave_the_model_as_it_was(self, algorithm: Any) -> None:
        model = algorithm.train(data(), stream())
        before, parameters = losses(algorithm, model), algorithm.parameters(model)
        assert parameters.ndim == 1
        other = algorithm.with_parameters(model, parameters + 1.0)
        np.testing.assert_array_equal(algorithm.parameters(other), parameters + 1.0)
        assert losses(algorithm, algorithm.with_parameters(other, parameters)) == before
        assert losses(algorithm, model) == before

    def test_can_be_sent(self, algorithm: Any) -> None:
        there = pickle.loads(pickle.dumps(algorithm))
        model = there.train(data(), stream())
        found = losses(algorithm, algorithm.train(data(), stream()))
        assert losses(there, pickle.loads(pickle.dumps(model))) == found
        assert protocols.identity(there) == protocols.identity(algorithm)

    # One separate process shows whether the algorithm can be sent; a second would only cost time.
    @pytest.mark.parametrize(
        ("executor", "workers"),
        [("threads", 2), pytest.param("processes", 1, marks=pytest.mark.slow)],
    )
    def test_who_trains_does_not_matter(self, algorithm: Any, executor: str, workers: int) -> None:
        plan = em.Plan(
            population=POPULATION,
            algorithm=algorithm,
            design=em.CrossFed(replicates=4),
            challenge_bases=2,
            dataset_size=RECORDS,
            seed=1,
        )
        alone = em.measure(plan)
        together = em.measure(plan, executor=executor, workers=workers)
        assert not together.failures
        assert together.only == alone.only
