"""Where to cut scores into members and non-members, and what choosing the cut costs.

A cut chosen because it looks best on the data, and then judged as if it had been fixed beforehand,
overstates epsilon: the choice must be paid for.  Each class is one honest way to pay, except
`Bonferroni`, which is jax_privacy's and pays too little (see its note).
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
            raise InputError("expected a threshold, got threshold=nan.")


@dataclass(frozen=True)
class Ranks:
    """Thresholds at ranks fixed beforehand, with the error shared among them.

    For bounds from two rates the ranks are of one group's own scores: the k-th highest non-member for
    k = 1, 2, 3, 4, 6, 8, 12, ... (``ratio`` apart).  The false-positive rate above it has the
    same limit as k - 1 false positives of a threshold fixed beforehand (the rate follows
    Beta(k, N0 - k + 1) at most, ties included), and the members are independent of it.  So the union
    bound over the ranks is exact for any scores.  Two-sided bounds add the ranks of the lowest members.

    For the one-run bounds the ranks are of all scores together, which tell nothing of membership.

    Parameters
    ----------
    ratio
        Above 1: how far apart the ranks are.  More ranks cost more and miss less.
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
        Of the random split.
    """

    threshold_estimation_frac: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.open_unit_interval("threshold_estimation_frac", self.threshold_estimation_frac)


@dataclass(frozen=True)
class MultiSplit:
    """Split many times and take the median of bounds at half the error (Meinshausen et al. 2009).

    Twice the median of p-values is a p-value, however they depend on each other.
    """

    num_samples: int = 100
    threshold_estimation_frac: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.open_unit_interval("threshold_estimation_frac", self.threshold_estimation_frac)
        _validate.whole_number("num_samples", self.num_samples)


@dataclass(frozen=True)
class Bonferroni:
    """jax_privacy's default: the vertices of the scores' own ROC hull, the error shared among them.

    For comparison with its numbers.  The vertices, and how many there are, come from the same data, so
    the correction is too small: it counts the few cuts that won, not the many that could have.
    """


ValueStrategy = Explicit | Split | MultiSplit | Bonferroni
ThresholdStrategy = Ranks | ValueStrategy


@dataclass(frozen=True)
class Cuts:
    """Errors at several cuts: false positives and false negatives, and the cuts' scores."""

    thresholds: FloatArray
    false_positives: IntArray
    false_negatives: IntArray

    def __len__(self) -> int:
        """How many cuts."""
        return len(self.thresholds)


def cuts_at(members: FloatArray, others: FloatArray, thresholds: FloatArray) -> Cuts:
    """Errors when scores at or above each threshold are called members; both groups sorted."""
    missed = np.searchsorted(members, thresholds, side="left")
    rejected = np.searchsorted(others, thresholds, side="left")
    return Cuts(thresholds, len(others) - rejected, missed.astype(np.int64))


def rank_cuts(members: FloatArray, others: FloatArray, ranks: Ranks, *, one_sided: bool) -> Cuts:
    """Cuts at fixed ranks of each group's own scores, that group's errors counted as `Ranks` says."""
    of_others = ranks.of(len(others))
    above = others[len(others) - of_others]
    # Members are the scores strictly above: as many as are not at or below it.
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
