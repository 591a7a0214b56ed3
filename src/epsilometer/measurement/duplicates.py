"""Duplicate records: a challenge point with a copy in the training data leaks less than it could.

Records are duplicates if their features agree, whatever their labels: a model can hardly learn two
labels for one record.  They are found by hashes of 64 bits: one false warning among a billion
populations.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import IntArray
from epsilometer.measurement.bases import Base, ChallengeBase
from epsilometer.measurement.pool import PoolBase
from epsilometer.measurement.population import Population

#: Bases, groups or records that are named one by one; the rest are counted.
MOST_DUPLICATES_NAMED = 3


def duplicates_of(population: Population, point: int, records: ArrayLike) -> IntArray:
    """The records, among those searched, with the features of a point; without the point itself.

    Examples
    --------
    >>> population = Population(features=[[1.0], [2.0], [1.0], [1.0]], labels=[0, 0, 0, 1])
    >>> duplicates_of(population, 0, [1, 2, 3]).tolist()
    [2, 3]
    """
    among, hashes = np.asarray(records, dtype=np.int64), population.row_hashes
    return np.asarray(among[(hashes[among] == hashes[point]) & (among != point)])


def duplicates_within(population: Population, records: ArrayLike) -> list[IntArray]:
    """Groups of two or more records with the same features.

    Examples
    --------
    >>> population = Population(features=[[1.0], [2.0], [1.0], [1.0]], labels=[0, 0, 0, 1])
    >>> [group.tolist() for group in duplicates_within(population, [0, 1, 2, 3])]
    [[0, 2, 3]]
    """
    among, hashes = np.unique(np.asarray(records, dtype=np.int64)), population.row_hashes
    alike = among[np.argsort(hashes[among], kind="stable")]
    parts = np.split(alike, np.flatnonzero(np.diff(hashes[alike])) + 1)
    return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))


def base_warnings(population: Population, names: Sequence[str], bases: Iterable[Base]) -> list[str]:
    """Warnings about challenge points whose features are always trained on."""
    sentences = []
    for name, base in zip(names, bases, strict=True):
        if isinstance(base, PoolBase):
            return pool_warnings(population, base.records)
        if not isinstance(base, ChallengeBase):
            continue
        copies = duplicates_of(population, base.challenge, base.records(0))
        if len(copies):
            made = base.challenge >= population.records
            point = "crafted" if made else f"record {base.challenge}"
            sentences.append(
                f"base {name}: its challenge point ({point}) is also in D as "
                f"{_listed(population, base.challenge, copies)}: the attack can hardly tell them apart, "
                "so this base underestimates the leakage."
            )
    return _first(sentences, "bases have a copy of their challenge point in D")


def pool_warnings(population: Population, pool: ArrayLike) -> list[str]:
    """Warnings about duplicate records in a pool."""
    sentences = [
        f"pool: {_listed(population, group[0], group)} are equal: a model without one may be trained on "
        "the other, so they underestimate the leakage."
        for group in duplicates_within(population, pool)
    ]
    return _first(sentences, "groups in the pool consist of equal records")


def _first(sentences: list[str], rest: str) -> list[str]:
    """The first few sentences, and one that counts the rest."""
    more = len(sentences) - MOST_DUPLICATES_NAMED
    if more <= 1:  # replacing a single sentence by a count would save nothing
        return sentences
    return [*sentences[:MOST_DUPLICATES_NAMED], f"{more:,} more {rest}."]


def _listed(population: Population, point: int, records: IntArray) -> str:
    """Records by number; says so if one has another label than the point."""
    numbers = [str(number) for number in records[:MOST_DUPLICATES_NAMED].tolist()]
    more = len(records) - len(numbers)
    rest = f" and {more:,} more" if more else ""
    labels = population.labels
    other = labels is not None and bool((labels[records] != labels[point]).any())
    note = " (with other labels)" if other else ""
    return f"record{'s' if len(records) > 1 else ''} {', '.join(numbers)}{rest}{note}"
