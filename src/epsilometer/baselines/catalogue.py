"""All estimators that ship, in display order; those from scores are bounds of `scores.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from epsilometer.baselines import intervals, one_run
from epsilometer.baselines.estimator import CountEstimator, Kind, check_significance
from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.baselines.one_run import ANY_ALGORITHM, Family, GaussianDP
from epsilometer.baselines.scores import RANKS, CanaryScoreAuditor, Ranks, Split, ThresholdStrategy

FAIR_COIN = "each canary included by a fair coin; scores higher for members"


@dataclass(frozen=True, kw_only=True)
class ScoreEstimator:
    """An estimator from scores; like `CountEstimator`, but for one set of scores at a time.

    ``lower`` takes the scores, delta and the significance.
    """

    label: str
    assumes: str
    lower: Callable[[CanaryScoreAuditor, float, float], float]
    kind: Kind = Kind.EXACT_BOUND
    gaussian: bool = False
    #: Whether it needs canaries of one training run, each included by a fair coin.
    one_run: bool = False


def roc_scan(estimator: CountEstimator, strategy: ThresholdStrategy = RANKS) -> ScoreEstimator:
    """A scan over thresholds with an estimator from counts."""
    bound = partial(CanaryScoreAuditor.epsilon_lower, estimator=estimator)
    needs = "independent scores, higher for members"
    name = f"ROC scan, {estimator.label}"
    return _scan(name, bound, strategy, needs=needs, gaussian=estimator.gaussian)


def one_run_scan(strategy: ThresholdStrategy = RANKS, *, one_sided: bool = True) -> ScoreEstimator:
    """Steinke's bound at the best number of guesses."""
    bound = partial(CanaryScoreAuditor.epsilon_one_run, one_sided=one_sided)
    return _scan("one-run scan" if one_sided else "one-run scan, both ends", bound, strategy)


def one_run_fdp_scan(family: Family = ANY_ALGORITHM) -> ScoreEstimator:
    """Mahloujifar's bound at the best number of guesses."""
    bound = partial(CanaryScoreAuditor.epsilon_one_run_fdp, family=family)
    name = "one-run scan, f-DP" + (", Gaussian" if family.gaussian else "")
    return _scan(name, bound, RANKS, gaussian=family.gaussian)


def raw_counts(min_count: int = 50) -> ScoreEstimator:
    """The largest log((TPR - delta) / FPR) with enough false positives: an estimate without an error."""
    return ScoreEstimator(
        label="raw counts",
        assumes="nothing, and states no error: it may be above or below the truth by chance",
        lower=lambda scores, delta, _: scores.epsilon_raw_counts(min_count, delta),
        kind=Kind.POINT,
    )


def _scan(
    name: str,
    bound: Callable[..., float],
    strategy: ThresholdStrategy,
    *,
    needs: str = FAIR_COIN,
    gaussian: bool = False,
) -> ScoreEstimator:
    """A bound at the best of several thresholds, corrected for selection by the strategy."""
    return ScoreEstimator(
        one_run=needs == FAIR_COIN,
        label=name if isinstance(strategy, Ranks) else f"{name}, {type(strategy).__name__}",
        assumes=f"a Gaussian trade-off curve; {needs}" if gaussian else needs,
        lower=lambda scores, delta, significance: bound(
            scores, significance=significance, delta=delta, threshold_strategy=strategy
        ),
        gaussian=gaussian,
    )


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
    >>> strong = CanaryScoreAuditor(range(100, 200), range(100))
    >>> weak = CanaryScoreAuditor(range(100), range(100))
    >>> scan = roc_scan(intervals.ClopperPearson())
    >>> best_scores(scan, [weak, strong], 0.0) == scan.lower(strong, 0.0, 0.025)
    True
    """
    share = check_significance(significance) / len(bases)
    return max(estimator.lower(base, delta, share) for base in bases)


FROM_COUNTS: tuple[CountEstimator, ...] = (
    intervals.ClopperPearson(),
    intervals.Jeffreys(),
    JointBeta(),
    intervals.Katz(),
    intervals.AdjustedLog(),
    intervals.Bailey(),
    intervals.InverseSinh(),
    one_run.OneRunBound(),
    one_run.OneRunFdpBound(),
    intervals.GaussianRates(),
)

FROM_SCORES: tuple[ScoreEstimator, ...] = (
    roc_scan(intervals.ClopperPearson()),
    roc_scan(intervals.ClopperPearson(), Split()),
    one_run_scan(),
    one_run_scan(one_sided=False),
    one_run_fdp_scan(),
    roc_scan(intervals.GaussianRates()),
    one_run_fdp_scan(GaussianDP()),
    raw_counts(),
)
