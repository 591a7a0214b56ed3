"""``judge``: the verdict of a posterior and a proof on a claim; the one place that makes results."""

from collections.abc import Callable
from typing import Any

from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.errors import InputError
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.model.scores import Scores
from epsilometer.posteriors.posterior import CountPosterior


def result_of(
    posterior: Any,
    question: Question | None = None,
    *,
    scores: Scores | None = None,
    beside: Callable[[], CountPosterior] | None = None,
    **context: Any,
) -> Result:
    """The result of either model: the only place where results are made.

    Parameters
    ----------
    scores
        Scores of the models that were counted; for the count model.
    beside
        Returns the count model's posterior of the same models, to compare with; for the curve model.
    context
        ``origin`` and ``on_message`` of the result.
    """
    asked = question or Question()
    if isinstance(posterior, CountPosterior):
        return CountResult(posterior=posterior, question=asked, scores=scores, **context)
    if not isinstance(posterior, CurvePosterior):
        raise InputError(
            f"expected a posterior, as em.estimate(...) returns it, got {type(posterior).__name__}."
        )
    return CurveResult(posterior=posterior, question=asked, count_posterior=beside, **context)
