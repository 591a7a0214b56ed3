"""Duplicate records: a challenge point with a copy in the training data leaks less than it could.

Records are equal if features and label agree; equal features under different labels are reported
separately.  They are found by hashes of 64 bits: one false warning among a billion populations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import IntArray
from epsilometer.measurement.bases import Base, ChallengeBase
from epsilometer.measurement.pool import PoolBase
from epsilometer.measurement.population import Population

MOST_DUPLICATES_NAMED = 3
"""Bases, groups or records that are named one by one; the rest are counted."""

HARDLY_BOTH = "a model can hardly learn both, so"


class Duplicates(NamedTuple):
    """Records like a point: ``equal`` in everything, or ``relabelled``: equal except for the label."""

    equal: IntArray
    relabelled: IntArray


class Groups(NamedTuple):
    """Groups of matching records: ``equal`` in everything, or ``relabelled``."""

    equal: list[IntArray]
    relabelled: list[IntArray]


def duplicates_of(population: Population, point: int, records: ArrayLike) -> Duplicates:
    """The records that match a point, excluding the point itself.

    Parameters
    ----------
    population
        The population of all records.
    point
        Index of the point.
    records
        Indices to search.

    Examples
    --------
    >>> population = Population(features=[[1.0], [2.0], [1.0], [1.0]], labels=[0, 0, 0, 1])
    >>> found = duplicates_of(population, 0, [1, 2, 3])
    >>> found.equal.tolist(), found.relabelled.tolist()
    ([2], [3])
    """
    among, hashes = np.asarray(records, dtype=np.int64), population.row_hashes
    copies = among[(hashes[among] == hashes[point]) & (among != point)]
    if population.labels is None:
        return Duplicates(copies, copies[:0])
    same = population.labels[copies] == population.labels[point]
    return Duplicates(copies[same], copies[~same])


def duplicates_within(population: Population, records: ArrayLike) -> Groups:
    """Groups of two or more matching records.

    A group is ``relabelled`` if its records have the same features but not all the same label.

    Examples
    --------
    >>> population = Population(features=[[1.0], [2.0], [1.0], [1.0]], labels=[0, 0, 0, 1])
    >>> equal, relabelled = duplicates_within(population, [0, 1, 2, 3])
    >>> [group.tolist() for group in equal], [group.tolist() for group in relabelled]
    ([[0, 2]], [[0, 2, 3]])
    """
    among, hashes = np.unique(np.asarray(records, dtype=np.int64)), population.row_hashes
    alike = among[np.argsort(hashes[among], kind="stable")]
    parts = np.split(alike, np.flatnonzero(np.diff(hashes[alike])) + 1)
    duplicates = Groups([], [])
    for part in sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0])):
        labels = np.zeros(len(part)) if population.labels is None else population.labels[part]
        kinds = np.unique(labels)
        if len(kinds) > 1:
            duplicates.relabelled.append(part)
        same = [part[labels == kind] for kind in kinds]
        duplicates.equal.extend(members for members in same if len(members) > 1)
    duplicates.equal.sort(key=lambda members: int(members[0]))
    return duplicates


def base_warnings(population: Population, names: Sequence[str], bases: Iterable[Base]) -> list[str]:
    """Warnings about bases whose challenge point is always trained on."""
    equal: list[str] = []
    relabelled: list[str] = []
    for name, base in zip(names, bases, strict=True):
        if isinstance(base, PoolBase):
            return pool_warnings(population, base.records)
        if not isinstance(base, ChallengeBase):
            continue
        copies = duplicates_of(population, base.challenge, base.records(0))
        made = base.challenge >= population.records
        point = f"challenge point ({'crafted' if made else f'record {base.challenge}'})"
        if len(copies.equal):
            equal.append(
                f"base {name}: its {point} is also in D as {_listed(copies.equal)}: the attack cannot "
                "tell them apart, so this base underestimates the leakage."
            )
        elif len(copies.relabelled):
            relabelled.append(
                f"base {name}: D has the features of its {point} under another label, as "
                f"{_listed(copies.relabelled)}: {HARDLY_BOTH} this base may underestimate the leakage."
            )
    more = "bases have a copy of their challenge point in D"
    more_relabelled = "bases have the features of their point in D under another label"
    return [*_first(equal, more), *_first(relabelled, more_relabelled)]


def pool_warnings(population: Population, pool: ArrayLike) -> list[str]:
    """Warnings about duplicate records in a pool."""
    duplicates = duplicates_within(population, pool)
    equal = [
        f"pool: {_listed(group)} are equal: a model without one may be trained on the other, so they "
        "underestimate the leakage."
        for group in duplicates.equal
    ]
    relabelled = [
        f"pool: {_listed(group)} have the same features under different labels: {HARDLY_BOTH} they may "
        "underestimate the leakage."
        for group in duplicates.relabelled
    ]
    more = "groups in the pool consist of equal records"
    more_relabelled = "groups in the pool have the same features under several labels"
    return [*_first(equal, more), *_first(relabelled, more_relabelled)]


def _first(sentences: list[str], rest: str) -> list[str]:
    """The first few sentences, and one that counts the rest."""
    more = len(sentences) - MOST_DUPLICATES_NAMED
    if more <= 1:  # replacing a single sentence by a count would save nothing
        return sentences
    return [*sentences[:MOST_DUPLICATES_NAMED], f"{more:,} more {rest}."]


def _listed(records: IntArray) -> str:
    numbers = [str(number) for number in records[:MOST_DUPLICATES_NAMED].tolist()]
    more = len(records) - len(numbers)
    rest = f" and {more:,} more" if more else ""
    return f"record{'s' if len(records) > 1 else ''} {', '.join(numbers)}{rest}"
