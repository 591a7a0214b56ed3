"""One estimate from several challenge bases: the best of them, corrected for selection, or all pooled.

Both concern the algorithm, whose epsilon is at least that of every base's attack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from epsilometer.baselines.estimator import CountEstimator, check_significance
from epsilometer.baselines.score_estimators import ScoreEstimator
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts


def best_base(
    estimator: CountEstimator, counts: AttackCounts, delta: float, significance: float = 0.05
) -> float:
    """Largest lower bound of any base, each with an equal share of the error (union bound).

    Examples
    --------
    >>> from epsilometer.baselines.intervals import ClopperPearson
    >>> counts = AttackCounts(
    ...     false_positives=[10, 40], trials_h0=100, false_negatives=[10, 40], trials_h1=100
    ... )
    >>> round(best_base(ClopperPearson(), counts, 0.0), 4)
    1.4645
    """
    share = check_significance(significance) / len(counts)
    return float(estimator.lower(counts, delta, share).max())


def best_interval(
    estimator: CountEstimator, counts: AttackCounts, delta: float, significance: float = 0.1
) -> tuple[float, float]:
    """Interval for the epsilon of the strongest attack.

    For the largest lower end the error is shared among the bases, since any of them may be too high.
    The largest upper end needs no correction: it holds if that of the strongest attack does.
    """
    share = check_significance(significance) / len(counts)
    low, _ = estimator.interval(counts, delta, share)
    _, high = estimator.interval(counts, delta, significance)
    return float(low.max()), float(high.max())


def best_scores(
    estimator: ScoreEstimator,
    bases: Sequence[CanaryScoreAuditor],
    delta: float,
    significance: float = 0.05,
) -> float:
    """Largest lower bound from the scores of any base, each with an equal share of the error.

    Scores of different bases are never compared with each other, since their scales may differ.

    Examples
    --------
    >>> from epsilometer.baselines.intervals import ClopperPearson
    >>> from epsilometer.baselines.score_estimators import roc_scan
    >>> strong = CanaryScoreAuditor(range(100, 200), range(100))
    >>> weak = CanaryScoreAuditor(range(100), range(100))
    >>> scan = roc_scan(ClopperPearson())
    >>> best_scores(scan, [weak, strong], 0.0) == scan.lower(strong, 0.0, 0.025)
    True
    """
    share = check_significance(significance) / len(bases)
    return max(estimator.lower(base, delta, share) for base in bases)


def pooled(counts: AttackCounts) -> AttackCounts:
    """The counts of all bases added up, as one base.

    The region R is convex, so the mean error rates of attacks on a private algorithm also lie in it; and
    a sum of trials with different rates has less variance than a binomial with their mean (Hoeffding
    1956), so exact limits remain valid.  Both rates must be means with the same weights, so all bases
    must have the same ratio of trials_h0 to trials_h1.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10, 40], trials_h0=100, false_negatives=[10, 40], trials_h1=100
    ... )
    >>> pooled(counts).false_positives.tolist()
    [50]
    """
    h0, h1 = counts.trials_h0.tolist(), counts.trials_h1.tolist()
    if any(a * h1[0] != b * h0[0] for a, b in zip(h0, h1, strict=True)):
        raise InputError(
            "expected the same ratio of trials_h0 to trials_h1 in all bases to pool them, got several."
        )
    names = ("all bases",) * len(counts)
    return replace(counts, names=names, groups=names).pooled()
