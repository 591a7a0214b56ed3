"""Epsilon from scores of canaries, and where to cut them; the estimators' modules have the bounds.

A threshold chosen because it looks best on the data, and then treated as fixed in advance, overstates
epsilon.  Each class is a valid correction, except `Bonferroni`, which is jax_privacy's and corrects too
little (see its docstring).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import Columns, FloatArray, IntArray
from epsilometer.baselines import one_run
from epsilometer.baselines.estimator import CountEstimator, check_significance
from epsilometer.baselines.one_run import ANY_ALGORITHM, Family, check_fair_coin
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts, counts_of


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
class Cuts(Columns):
    """Errors at several cuts: false positives, false negatives, and the thresholds."""

    thresholds: FloatArray
    false_positives: IntArray
    false_negatives: IntArray


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
    return every.take(np.array(kept))


# --- bounds ---------------------------------------------------------------------------------------

# A bound of epsilon at each of several cuts, each with the given error probability.
CutBound = Callable[["CanaryScoreAuditor", Cuts, float], FloatArray]

RANKS = Ranks()


class CanaryScoreAuditor:
    """Attack scores of canaries that were in the training set and of canaries that were not.

    Every bound takes ``significance`` (the probability that it exceeds the true epsilon) and ``delta``,
    and corrects for the choice of its threshold; default: `Ranks()`.

    Parameters
    ----------
    in_canary_scores, out_canary_scores
        One-dimensional, finite, at least one each; higher suggests membership.

    Examples
    --------
    >>> from scipy.special import ndtri
    >>> from epsilometer.baselines.intervals import ClopperPearson
    >>> grid = ndtri((np.arange(1000) + 0.5) / 1000)
    >>> auditor = CanaryScoreAuditor(grid + 1, grid)
    >>> rule = ClopperPearson(one_sided=True)
    >>> round(auditor.epsilon_lower(rule, 0.05, threshold_strategy=Explicit(0.5)), 7)
    0.6692209
    """

    def __init__(self, in_canary_scores: ArrayLike, out_canary_scores: ArrayLike) -> None:
        self._members = _checked("in_canary_scores", in_canary_scores)
        self._others = _checked("out_canary_scores", out_canary_scores)
        # Both groups in ascending order.
        self.in_order = np.sort(self._members), np.sort(self._others)

    @property
    def num_in(self) -> int:
        """Number of included canaries."""
        return len(self._members)

    @property
    def num_out(self) -> int:
        """Number of excluded canaries."""
        return len(self._others)

    def counts_of(self, cuts: Cuts) -> AttackCounts:
        """Error counts at several cuts, as if each were a challenge base."""
        return counts_of(cuts.false_positives, self.num_out, cuts.false_negatives, self.num_in)

    def epsilon_lower(
        self,
        estimator: CountEstimator,
        significance: float = 0.05,
        delta: float = 0.0,
        *,
        threshold_strategy: ThresholdStrategy = RANKS,
    ) -> float:
        """Lower bound by any estimator from counts, at the best of the strategy's cuts.

        For an estimator with ``one_sided`` `Ranks` tries only cuts with few false positives; otherwise
        also cuts with few false negatives.
        """

        def bound(auditor: CanaryScoreAuditor, cuts: Cuts, error: float) -> FloatArray:
            return estimator.lower(auditor.counts_of(cuts), delta, error)

        significance = check_significance(significance)
        if not isinstance(threshold_strategy, Ranks):
            return self._best(bound, significance, threshold_strategy)
        cuts = rank_cuts(*self.in_order, threshold_strategy, one_sided=estimator.one_sided)
        bounds = bound(self, cuts, significance / len(cuts))
        # Ranks give upper limits of the rates only; a reflected attack would need lower ones.
        wrong = cuts.false_positives * self.num_in + cuts.false_negatives * self.num_out
        return float(np.where(wrong < self.num_in * self.num_out, bounds, 0.0).max())

    def epsilon_one_run(
        self,
        significance: float,
        delta: float,
        one_sided: bool = True,
        *,
        threshold_strategy: ThresholdStrategy = RANKS,
    ) -> float:
        """Steinke's bound, for canaries included by a fair coin each, all in one run.

        Parameters
        ----------
        one_sided
            Guess only the highest scores to be members; otherwise also as many of the lowest to be
            non-members, which needs `Ranks`.
        """
        bound = partial(one_run.epsilon_one_run, delta=_validate.delta(delta))
        return self._best_guesses(bound, significance, threshold_strategy, one_sided)

    def epsilon_one_run_fdp(
        self,
        significance: float,
        delta: float,
        one_sided: bool = True,
        *,
        threshold_strategy: ThresholdStrategy = RANKS,
        family: Family = ANY_ALGORITHM,
    ) -> float:
        """Mahloujifar's bound from the same guesses; jax_privacy uses ``family=GaussianDP()``."""
        bound = partial(one_run.epsilon_one_run_fdp, delta=_validate.delta(delta), family=family)
        return self._best_guesses(bound, significance, threshold_strategy, one_sided)

    def epsilon_raw_counts(self, min_count: int = 50, delta: float = 0.0) -> float:
        """Largest log((TPR - delta) / FPR) with at least ``min_count`` false positives: an estimate.

        It has no stated error and is not a bound.
        """
        least = _validate.whole_number("min_count", min_count)
        delta = _validate.delta(delta)
        if least >= self.num_out:
            return 0.0
        smallest = least / self.num_out
        cuts = hull_cuts(*self.in_order)
        fpr = cuts.false_positives / self.num_out
        tpr = 1 - cuts.false_negatives / self.num_in
        kept = cuts.false_positives >= least
        # Between vertices the attack may mix their thresholds.
        mixed = np.interp(smallest, fpr[::-1], tpr[::-1])
        fpr, tpr = np.append(fpr[kept], smallest), np.append(tpr[kept], mixed)
        with np.errstate(divide="ignore"):
            values = np.log(np.maximum(tpr - delta, 0.0)) - np.log(fpr)
        return max(0.0, float(values.max()))

    def _best_guesses(
        self,
        epsilon: Callable[..., FloatArray],
        significance: float,
        strategy: ThresholdStrategy,
        one_sided: bool,
    ) -> float:
        """The largest one-run bound over the strategy's cuts; ranks are over all scores."""

        def bound(auditor: CanaryScoreAuditor, cuts: Cuts, error: float) -> FloatArray:
            guesses, right = auditor._guesses(cuts, one_sided=one_sided)
            canaries = auditor.num_in + auditor.num_out
            return epsilon(canaries, guesses, right, significance=error)

        check_fair_coin(self.num_in, self.num_out)
        significance = check_significance(significance)
        if isinstance(strategy, Ranks):
            together = np.sort(np.concatenate(self.in_order))
            most = len(together) if one_sided else len(together) // 2
            ranks = strategy.of(max(most, 1))
            cuts = cuts_at(*self.in_order, together[len(together) - ranks])
            return float(bound(self, cuts, significance / len(ranks)).max())
        if not one_sided:
            raise InputError("expected threshold_strategy=Ranks() for one_sided=False.")
        return self._best(bound, significance, strategy)

    def _guesses(self, cuts: Cuts, *, one_sided: bool) -> tuple[IntArray, IntArray]:
        """Number of guesses at each cut, and how many of these are correct."""
        right = self.num_in - cuts.false_negatives
        guesses = right + cuts.false_positives
        if one_sided:
            return guesses, right
        together = np.sort(np.concatenate(self.in_order))
        lowest = together[np.minimum(guesses, len(together)) - 1]  # as many from below
        # Scores that are also among the highest, through ties, are not guessed twice.
        lowest = np.minimum(lowest, np.nextafter(cuts.thresholds, -np.inf))
        missed, rejected = (np.searchsorted(group, lowest, side="right") for group in self.in_order)
        return guesses + rejected + missed, right + rejected

    def _best(self, bound: CutBound, significance: float, strategy: ValueStrategy) -> float:
        """The largest bound over the strategy's cuts, each with its share of the error."""
        if isinstance(strategy, Split):
            return self._split_bound(bound, significance, strategy)
        if isinstance(strategy, Explicit):
            cuts = cuts_at(*self.in_order, np.array([strategy.threshold]))
        else:
            cuts = hull_cuts(*self.in_order)
        return float(bound(self, cuts, significance / len(cuts)).max())

    def _split_bound(self, bound: CutBound, significance: float, strategy: Split) -> float:
        """Choose the threshold on one part, compute the bound on the other."""
        parts, rng = [], np.random.default_rng(strategy.seed)
        for scores in (self._members, self._others):
            first = int(len(scores) * strategy.threshold_estimation_frac)
            if not 0 < first < len(scores):
                return 0.0  # too few scores to split
            parts.append(np.split(rng.permutation(scores), [first]))
        choosing, judging = (CanaryScoreAuditor(*part) for part in zip(*parts, strict=True))
        cuts = hull_cuts(*choosing.in_order)
        best = int(np.argmax(bound(choosing, cuts, significance)))
        return judging._best(bound, significance, Explicit(float(cuts.thresholds[best])))


def _checked(name: str, scores: ArrayLike) -> FloatArray:
    array = np.asarray(scores, dtype=float)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"expected {name} to be one-dimensional and not empty, got shape {array.shape}."
        )
    if not np.all(np.isfinite(array)):
        raise InputError(f"expected finite {name}, got {array[~np.isfinite(array)][0]}.")
    return array
