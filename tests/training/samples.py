"""Records, streams and losses that tests of trainings share."""

from __future__ import annotations

from typing import Any

import numpy as np

import epsilometer as em

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
