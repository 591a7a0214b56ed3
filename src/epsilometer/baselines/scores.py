"""Epsilon from scores of canaries.

Threshold selection is in `thresholds.py`, the bounds at given thresholds in the estimators' modules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.baselines import thresholds
from epsilometer.baselines.estimator import CountEstimator, check_significance
from epsilometer.baselines.one_run import check_fair_coin, epsilon_one_run
from epsilometer.baselines.one_run_fdp import ApproximateDP, Family, epsilon_one_run_fdp
from epsilometer.baselines.thresholds import Cuts, Explicit, Ranks, ThresholdStrategy, ValueStrategy
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts

# A bound of epsilon at each of several cuts, each with the given error probability.
CutBound = Callable[["CanaryScoreAuditor", Cuts, float], FloatArray]

RANKS = Ranks()
ANY_ALGORITHM = ApproximateDP()


class CanaryScoreAuditor:
    """Attack scores of canaries that were in the training set and of canaries that were not.

    Every bound takes ``significance`` (the probability that it exceeds the true epsilon) and ``delta``,
    and corrects for the choice of its threshold as described in `thresholds.py`; default: `Ranks()`.

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
        return AttackCounts(
            false_positives=cuts.false_positives,
            trials_h0=self.num_out,
            false_negatives=cuts.false_negatives,
            trials_h1=self.num_in,
        )

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
        cuts = thresholds.rank_cuts(
            *self.in_order, threshold_strategy, one_sided=estimator.one_sided
        )
        bounds = bound(self, cuts, significance / len(cuts))
        # Ranks give upper limits of the rates only; a reflected attack would need lower ones.
        right_side = (
            cuts.false_positives * self.num_in + cuts.false_negatives * self.num_out
            < self.num_in * self.num_out
        )
        return float(np.where(right_side, bounds, 0.0).max())

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
        bound = partial(epsilon_one_run, delta=_validate.delta(delta))
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
        bound = partial(epsilon_one_run_fdp, delta=_validate.delta(delta), family=family)
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
        cuts = thresholds.hull_cuts(*self.in_order)
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
            cuts = thresholds.cuts_at(*self.in_order, together[len(together) - ranks])
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
        if isinstance(strategy, thresholds.Split):
            return self._split_bound(bound, significance, strategy)
        if isinstance(strategy, Explicit):
            cuts = thresholds.cuts_at(*self.in_order, np.array([strategy.threshold]))
        else:
            cuts = thresholds.hull_cuts(*self.in_order)
        return float(bound(self, cuts, significance / len(cuts)).max())

    def _split_bound(
        self,
        bound: CutBound,
        significance: float,
        strategy: thresholds.Split,
    ) -> float:
        """Choose the threshold on one part, compute the bound on the other."""
        parts, rng = [], np.random.default_rng(strategy.seed)
        for scores in (self._members, self._others):
            first = int(len(scores) * strategy.threshold_estimation_frac)
            if not 0 < first < len(scores):
                return 0.0  # too few scores to split
            parts.append(np.split(rng.permutation(scores), [first]))
        choosing, judging = (CanaryScoreAuditor(*part) for part in zip(*parts, strict=True))
        cuts = thresholds.hull_cuts(*choosing.in_order)
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
