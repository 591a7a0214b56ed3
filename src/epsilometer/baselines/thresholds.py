"""Threshold strategies: where to cut scores, and how to correct for choosing the cut on the data.

A threshold chosen because it looks best on the data, and then treated as fixed in advance, overstates
epsilon.  Each class is a valid correction, except `Bonferroni`, which is jax_privacy's and corrects too
little (see its docstring).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError


@dataclass(frozen=True)
class Explicit:
    """One threshold, fixed before the scores were seen; scores at or above it are called members."""

    threshold: float

    def __post_init__(self) -> None:
        if np.isnan(self.threshold):
            raise InputError("expected a number as threshold, got threshold=nan.")


@dataclass(frozen=True)
class Ranks:
    """Thresholds at ranks fixed in advance, with the error shared among them.

    For bounds from two rates the ranks are within one group's own scores: the k-th highest non-member
    for k = 1, 2, 3, 4, 6, 8, 12, ... (``ratio`` apart).  The false-positive rate above it has the same
    limit as k - 1 false positives at a threshold fixed in advance (the rate follows Beta(k, N0 - k + 1)
    at most, ties included), and the members are independent of it.  So the union bound over the ranks is
    exact for any scores.  Two-sided bounds add the ranks of the lowest members.

    For the one-run bounds the ranks are over all scores, which carry no information about membership.

    Parameters
    ----------
    ratio
        Ratio of successive ranks; above 1.  More ranks share the error more but cover more thresholds.
    """

    ratio: float = 1.5

    def __post_init__(self) -> None:
        if not _validate.positive("ratio", self.ratio) > 1:
            raise InputError(f"expected ratio > 1, got ratio={self.ratio}.")

    def of(self, size: int) -> IntArray:
        """The ranks, from 1 to at most ``size``."""
        most = int(np.ceil(np.log(max(size, 2)) / np.log(self.ratio)))
        ranks = np.unique(np.ceil(self.ratio ** np.arange(most + 1)).astype(np.int64))
        return ranks[ranks <= size]


@dataclass(frozen=True)
class Split:
    """Choose the threshold on one part of the scores, bound epsilon on the rest.

    Parameters
    ----------
    threshold_estimation_frac
        Share of both groups that the threshold is chosen on, in (0, 1).
    seed
        Seed of the random split.
    """

    threshold_estimation_frac: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.open_unit_interval("threshold_estimation_frac", self.threshold_estimation_frac)


@dataclass(frozen=True)
class Bonferroni:
    """jax_privacy's default: the vertices of the ROC hull of the scores share the error.

    For comparison with its numbers.  The vertices and their number depend on the same data, so the
    correction is too small: it counts the few cuts that won, not the many that could have.
    """


ValueStrategy = Explicit | Split | Bonferroni
ThresholdStrategy = Ranks | ValueStrategy


@dataclass(frozen=True)
class Cuts:
    """Errors at several cuts: false positives, false negatives, and the thresholds."""

    thresholds: FloatArray
    false_positives: IntArray
    false_negatives: IntArray

    def __len__(self) -> int:
        """Number of cuts."""
        return len(self.thresholds)


def cuts_at(members: FloatArray, others: FloatArray, thresholds: FloatArray) -> Cuts:
    """Errors when scores at or above each threshold are called members; both groups sorted."""
    missed = np.searchsorted(members, thresholds, side="left")
    rejected = np.searchsorted(others, thresholds, side="left")
    return Cuts(thresholds, len(others) - rejected, missed.astype(np.int64))


def rank_cuts(members: FloatArray, others: FloatArray, ranks: Ranks, *, one_sided: bool) -> Cuts:
    """Cuts at fixed ranks of each group's own scores, with errors counted as described in `Ranks`."""
    of_others = ranks.of(len(others))
    above = others[len(others) - of_others]
    # Members are the scores strictly above, that is, all but those at or below.
    missed = np.searchsorted(members, above, side="right")
    parts = [(above, of_others - 1, missed)]
    if not one_sided:
        of_members = ranks.of(len(members))
        below = members[of_members - 1]
        called = len(others) - np.searchsorted(others, below, side="left")
        parts.append((below, called, of_members - 1))
    thresholds, positives, negatives = map(np.concatenate, zip(*parts, strict=True))
    return Cuts(thresholds, positives.astype(np.int64), negatives.astype(np.int64))


def hull_cuts(members: FloatArray, others: FloatArray) -> Cuts:
    """Cuts at the vertices of the upper hull of the ROC curve, from all called members to none."""
    distinct = np.append(np.union1d(members, others), np.inf)
    every = cuts_at(members, others, distinct)
    misses = every.false_negatives.tolist()
    rejected = (len(others) - every.false_positives).tolist()
    kept: list[int] = []
    for i, (x, y) in enumerate(zip(misses, rejected, strict=True)):
        # Drop vertices on or under the chord to the new point.
        while len(kept) >= 2:
            x0, y0 = misses[kept[-2]], rejected[kept[-2]]
            x1, y1 = misses[kept[-1]], rejected[kept[-1]]
            if (y1 - y0) * (x - x1) > (y - y1) * (x1 - x0):
                break
            kept.pop()
        kept.append(i)
    chosen = np.array(kept)
    return Cuts(
        every.thresholds[chosen], every.false_positives[chosen], every.false_negatives[chosen]
    )
