"""Every estimator on the same data, or on a file of data: the functions of ``report.comparison``."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from epsilometer.report.text import comparison
from epsilometer.estimating import is_source
from epsilometer.inputs.recorded import PUBLISHED_MODEL, WHOLE_CURVE
from epsilometer.inputs.sources import source_of

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.baselines.scores import CanaryScoreAuditor
    from epsilometer.engines.curve.posterior import CurvePosterior
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.scores import Scores
    from epsilometer.posteriors.posterior import CountPosterior
    from epsilometer.report.text.comparison import Comparison

    File = str | PathLike[str]

__all__ = ["compare_counts", "compare_scores"]


def compare_counts(
    counts: AttackCounts | Losses | File,
    *,
    delta: float,
    significance: float = 0.05,
    posteriors: Sequence[tuple[str, CountPosterior]] = (),
) -> Comparison:
    """Compare every estimator from counts; each end errs with probability ``significance``.

    With several bases: the largest ends, with the error shared among the bases, and the ends of all
    counts pooled.  Posteriors, each with a name, come first; they use all bases in their own way.
    Counts can be given as the path of a file, a store or a result folder.
    """
    known: Any = source_of(counts).data(PUBLISHED_MODEL) if is_source(counts) else counts
    return comparison.compare_counts(
        known, delta=delta, significance=significance, posteriors=posteriors
    )


def compare_scores(
    scores: CanaryScoreAuditor | Scores | Losses | File,
    *,
    delta: float,
    significance: float = 0.05,
    posteriors: Sequence[tuple[str, CurvePosterior]] = (),
    one_run: bool | None = None,
) -> Comparison:
    """Compare every estimator from scores; bounds err with probability ``significance``.

    With several bases: the largest bound of any base, with the error shared among the bases; scores of
    different bases are never pooled.  Posteriors of the whole curve, each with a name, come first.

    Parameters
    ----------
    scores
        Scores, losses, or the path of a file, a store or a result folder.
    one_run
        Whether the scores are of canaries in one training run, which one-run bounds need.  Default:
        True for a :class:`CanaryScoreAuditor`; :class:`Scores` know it.
    """
    known: Any = source_of(scores).data(WHOLE_CURVE) if is_source(scores) else scores
    return comparison.compare_scores(
        known, delta=delta, significance=significance, posteriors=posteriors, one_run=one_run
    )
