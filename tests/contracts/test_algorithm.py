"""The contract of algorithms, run on those that ship."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epsilometer.measurement import algorithm as protocols
from epsilometer.measurement.population import Dataset, Population
from epsilometer.training.clipped_mean import ClippedMean
from epsilometer.training.network import FixedInitialisation, Network
from epsilometer.training.output_perturbation import NoiseLevels, OutputPerturbation

MEAN = ClippedMean(noise=0.3, records=12)
SMALL: dict[str, Any] = {"hidden": 5, "classes": 3, "epochs": 4, "batch_size": 5}
NETWORK = Network(**SMALL)
ALGORITHMS: dict[str, Any] = {
    "clipped mean": MEAN,
    "output perturbation": OutputPerturbation(algorithm=MEAN, scale=0.2),
    "noise levels": NoiseLevels(algorithm=MEAN, scales=(0.0, 0.2)),
    "network": NETWORK,
    "network with a fixed start": Network(**SMALL, initialisation=FixedInitialisation(seed=3)),
    "dense network": Network(**SMALL, sparse=False),
    "perturbed network": OutputPerturbation(algorithm=NETWORK, scale=0.2),
    "noise levels of a network": NoiseLevels(algorithm=NETWORK, scales=(0.0, 0.2)),
}
ONE_BY_ONE = {"network", "network with a fixed start", "dense network"}
"""Algorithms that do not train many models at once."""

POPULATION = Population(
    features=np.random.default_rng(4).standard_normal((40, 3)), labels=np.arange(40) % 3
)


@pytest.fixture(params=ALGORITHMS)
def algorithm(request: pytest.FixtureRequest) -> Any:
    return ALGORITHMS[request.param]


@pytest.fixture(params=[name for name in ALGORITHMS if name not in ONE_BY_ONE])
def trains_many(request: pytest.FixtureRequest) -> Any:
    return ALGORITHMS[request.param]


def dataset(first: int = 0) -> Dataset:
    return POPULATION.take(np.arange(first, first + 12))


def stream(number: int = 0) -> np.random.Generator:
    return np.random.default_rng([9, number])


def same(one: Any, other: Any) -> bool:
    return pickle.dumps(one) == pickle.dumps(other)


def test_keeps_the_protocol(algorithm: Any) -> None:
    protocols.check(algorithm)
    assert isinstance(algorithm, protocols.HasParameters)
    assert protocols.identity(algorithm) == protocols.identity(copy.deepcopy(algorithm))


def test_identities_differ() -> None:
    # Everything except what may grow: the scales of noise are not part of an identity.
    identities = [repr(protocols.identity(algorithm)) for algorithm in ALGORITHMS.values()]
    assert len(set(identities)) == len(ALGORITHMS)


def test_only_those_that_say_so_train_one_by_one() -> None:
    found = {
        name
        for name, algorithm in ALGORITHMS.items()
        if not isinstance(algorithm, protocols.TrainsMany)
    }
    assert found == ONE_BY_ONE
    # A network's batches consist of records, not of models.
    for name in found:
        assert protocols.batch_size_of(ALGORITHMS[name]) == 1


def test_training_depends_on_data_and_stream_alone(algorithm: Any) -> None:
    model = algorithm.train(dataset(), stream())
    np.random.seed(1)  # noqa: NPY002 - global randomness must not matter
    assert same(algorithm.train(dataset(), stream()), model)
    assert not same(algorithm.train(dataset(), stream(1)), model)
    assert not same(algorithm.train(dataset(1), stream()), model)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_many_at_once_are_what_each_would_be_alone(trains_many: Any, number: int) -> None:
    datasets = [dataset(first) for first in range(number)]
    models = trains_many.train_many(datasets, [stream(n) for n in range(number)])
    assert len(models) == number
    for first, model in enumerate(models):
        assert same(model, trains_many.train(dataset(first), stream(first)))


def test_the_data_set_is_not_needed_afterwards(algorithm: Any) -> None:
    given = dataset()
    model = algorithm.train(given, stream())
    before = algorithm.loss(model, POPULATION.point(20))
    given.features[:] = np.nan
    assert algorithm.loss(model, POPULATION.point(20)) == before


def test_training_leaves_the_data_set(algorithm: Any) -> None:
    given = dataset()
    algorithm.train(given, stream())
    assert same(given.features, dataset().features)
    assert same(given.labels, dataset().labels)


def test_losses_are_finite_numbers_that_repeat(algorithm: Any) -> None:
    model = algorithm.train(dataset(), stream())
    kept = pickle.dumps(model)
    losses = [algorithm.loss(model, POPULATION.point(index)) for index in range(40)]
    assert all(type(loss) is float for loss in losses)
    assert np.isfinite(losses).all()
    assert losses == [algorithm.loss(model, POPULATION.point(index)) for index in range(40)]
    assert pickle.dumps(model) == kept
    assert len(set(losses)) == 40


def test_other_parameters_leave_the_model_as_it_was(algorithm: Any) -> None:
    model = algorithm.train(dataset(), stream())
    kept = pickle.dumps(model)
    parameters = algorithm.parameters(model)
    other = algorithm.with_parameters(model, parameters + 1.0)
    assert pickle.dumps(model) == kept
    np.testing.assert_array_equal(algorithm.parameters(other), parameters + 1.0)
    back = algorithm.with_parameters(other, parameters)
    assert algorithm.loss(back, POPULATION.point(20)) == algorithm.loss(model, POPULATION.point(20))


@pytest.mark.parametrize("send", [pickle.loads, lambda data: copy.deepcopy(pickle.loads(data))])
def test_can_be_sent(algorithm: Any, send: Callable[[bytes], Any]) -> None:
    there = send(pickle.dumps(algorithm))
    model = there.train(dataset(), stream())
    assert same(model, algorithm.train(dataset(), stream()))
    received = send(pickle.dumps(model))
    assert algorithm.loss(received, POPULATION.point(20)) == there.loss(model, POPULATION.point(20))
    assert protocols.identity(there) == protocols.identity(algorithm)


@pytest.mark.parametrize("name", ["noise levels", "noise levels of a network"])
def test_releases_depend_on_model_and_stream_alone(name: str) -> None:
    levels = ALGORITHMS[name]
    model = levels.train(dataset(), stream())
    kept = pickle.dumps(model)
    released = levels.release(model, "0.2", stream(5))
    assert same(released, levels.release(model, "0.2", stream(5)))
    assert not same(released, levels.release(model, "0.2", stream(6)))
    assert pickle.dumps(model) == kept
    assert same(levels.release(model, "0.0", stream(5)), model)


@pytest.mark.parametrize("inner", [ClippedMean(noise=0.0, records=12), NETWORK])
def test_one_level_is_output_perturbation_in_other_words(inner: Any) -> None:
    # The same noise on the same model: a wrapper draws from the stream where training stopped.
    single = OutputPerturbation(algorithm=inner, scale=0.2)
    rng = stream()
    model = inner.train(dataset(), rng)
    released = NoiseLevels(algorithm=inner, scales=(0.2,)).release(model, "0.2", rng)
    assert same(released, single.train(dataset(), stream()))
