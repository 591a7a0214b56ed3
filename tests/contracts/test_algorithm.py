"""The contract of algorithms, run on all that ship."""

from __future__ import annotations

import copy
import pickle
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge, SGDClassifier

import epsilometer as em
from epsilometer.measurement import algorithm as protocols
from epsilometer.training import (
    ClippedMean,
    FixedInitialisation,
    Network,
    NoiseLevels,
    OutputPerturbation,
)
from tests.training import modules, opacus_loops
from tests.training.samples import POPULATION, RECORDS, data, losses, stream
from tests.training.test_dp_sgd import usual as dp_sgd

MEAN = ClippedMean(noise=0.3, records=RECORDS)
SMALL: dict[str, Any] = {"hidden": 5, "classes": 3, "epochs": 4, "batch_size": 5}
NETWORK = Network(**SMALL)
ALGORITHMS: dict[str, Any] = {
    "clipped mean": MEAN,
    "output perturbation": OutputPerturbation(algorithm=MEAN, scale=0.2),
    "noise levels": NoiseLevels(algorithm=MEAN, scales=(0.0, 0.2)),
    "network": NETWORK,
    "network with a fixed start": Network(**SMALL, initialisation=FixedInitialisation(seed=3)),
    "perturbed network": OutputPerturbation(algorithm=NETWORK, scale=0.2),
    "noise levels of a network": NoiseLevels(algorithm=NETWORK, scales=(0.0, 0.2)),
    "classifier": em.ScikitLearn(
        estimator=SGDClassifier(loss="log_loss", max_iter=5, tol=None, random_state=1)
    ),
    "regressor": em.ScikitLearn(estimator=Ridge()),
    "PyTorch": em.PyTorch(module=modules.dropping, fit=modules.fit),
    "Opacus": em.Opacus(module=modules.dropping, fit=opacus_loops.fit),
    "DP-SGD": dp_sgd(module=modules.dropping),
}
MANY = [name for name, each in ALGORITHMS.items() if isinstance(each, protocols.TrainsMany)]


@pytest.fixture(params=ALGORITHMS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def trained(name: str) -> Any:
    """One model, which no test may change."""
    return ALGORITHMS[name].train(data(), stream())


@cache
def expected(name: str) -> list[float]:
    return losses(ALGORITHMS[name], trained(name))


def test_keeps_the_protocol(name: str) -> None:
    algorithm = ALGORITHMS[name]
    protocols.check(algorithm)
    assert isinstance(algorithm, protocols.HasParameters)
    assert protocols.identity(algorithm) == protocols.identity(copy.deepcopy(algorithm))


def test_identities_differ() -> None:
    # Everything except what may grow: the scales of noise are not part of an identity.
    identities = [repr(protocols.identity(algorithm)) for algorithm in ALGORITHMS.values()]
    assert len(set(identities)) == len(ALGORITHMS)


def next_draws() -> list[float]:
    return [float(np.random.random()), random.random()]  # noqa: NPY002


def test_training_depends_on_data_and_stream_alone(name: str) -> None:
    algorithm, given = ALGORITHMS[name], data()
    found = []
    for seed in (1, 2):  # global randomness neither matters nor changes
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = next_draws()
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        model = algorithm.train(given, stream())
        found.append(losses(algorithm, model))
        assert next_draws() == before
    assert found[0] == found[1] == expected(name)
    other_data = losses(algorithm, algorithm.train(data(1), stream()))
    other_stream = losses(algorithm, algorithm.train(data(), stream(1)))
    assert other_data != found[0]
    assert (other_stream != found[0]) == (name != "regressor")  # ridge regression draws nothing
    # The data are neither changed nor needed afterwards.
    np.testing.assert_array_equal(given.features, data().features)
    np.testing.assert_array_equal(np.asarray(given.labels), np.asarray(data().labels))
    given.features[:] = np.nan
    assert losses(algorithm, model) == found[0]


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("many", MANY)
def test_many_at_once_are_what_each_would_be_alone(many: str, number: int) -> None:
    algorithm = ALGORITHMS[many]
    models = algorithm.train_many(
        [data(first) for first in range(number)], [stream(n) for n in range(number)]
    )
    assert len(models) == number
    for first, model in enumerate(models):
        alone = algorithm.train(data(first), stream(first))
        assert losses(algorithm, model) == losses(algorithm, alone)


def test_only_wrappers_and_means_train_many() -> None:
    assert [*list(ALGORITHMS)[:3], *list(ALGORITHMS)[5:7]] == MANY
    # A network's batches consist of records, not of models.
    for name in set(ALGORITHMS) - set(MANY):
        assert protocols.batch_size_of(ALGORITHMS[name]) == 1


def test_losses_are_finite_numbers_that_repeat(name: str) -> None:
    assert all(type(loss) is float for loss in expected(name))
    assert np.isfinite(expected(name)).all()
    assert len(set(expected(name))) > 35
    assert losses(ALGORITHMS[name], trained(name)) == expected(name)


def test_other_parameters_leave_the_model_as_it_was(name: str) -> None:
    algorithm, model = ALGORITHMS[name], trained(name)
    parameters = algorithm.parameters(model)
    assert parameters.ndim == 1
    other = algorithm.with_parameters(model, parameters + 1.0)
    np.testing.assert_array_equal(algorithm.parameters(other), parameters + 1.0)
    assert losses(algorithm, algorithm.with_parameters(other, parameters)) == expected(name)
    assert losses(algorithm, model) == expected(name)


def test_can_be_sent(name: str) -> None:
    there = pickle.loads(pickle.dumps(ALGORITHMS[name]))
    model = pickle.loads(pickle.dumps(there.train(data(), stream())))
    assert losses(there, model) == expected(name)
    assert protocols.identity(there) == protocols.identity(ALGORITHMS[name])


# One separate process shows whether the algorithm can be sent; a second would only cost time.
@pytest.mark.parametrize(
    ("executor", "workers"),
    [("threads", 2), pytest.param("processes", 1, marks=pytest.mark.slow)],
)
def test_who_trains_does_not_matter(name: str, executor: str, workers: int) -> None:
    plan = em.Plan(
        population=POPULATION,
        algorithm=ALGORITHMS[name],
        design=em.CrossFed(replicates=3),
        challenge_bases=1,
        dataset_size=RECORDS,
        seed=1,
    )
    alone = em.measure(plan)
    together = em.measure(plan, executor=executor, workers=workers)
    assert not together.failures
    assert together.losses == alone.losses


@pytest.mark.parametrize("levels", ["noise levels", "noise levels of a network"])
def test_releases_depend_on_model_and_stream_alone(levels: str) -> None:
    algorithm, model = ALGORITHMS[levels], trained(levels)
    kept = pickle.dumps(model)
    released, same, other = (
        pickle.dumps(algorithm.release(model, "0.2", stream(n))) for n in (5, 5, 6)
    )
    assert released == same != other
    assert pickle.dumps(model) == kept == pickle.dumps(algorithm.release(model, "0.0", stream(5)))


@pytest.mark.parametrize("inner", [ClippedMean(noise=0.0, records=12), NETWORK])
def test_one_level_is_output_perturbation_in_other_words(inner: Any) -> None:
    # The same noise on the same model: a wrapper draws from the stream where training stopped.
    single = OutputPerturbation(algorithm=inner, scale=0.2)
    rng = stream()
    model = inner.train(data(), rng)
    released = NoiseLevels(algorithm=inner, scales=(0.2,)).release(model, "0.2", rng)
    assert pickle.dumps(released) == pickle.dumps(single.train(data(), stream()))
