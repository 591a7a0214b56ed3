"""Privacy as an assertion in a test suite: the verdict of the command line, for pytest and others."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from epsilometer import _validate
from epsilometer.errors import InputError, NotConvergedError

if TYPE_CHECKING:
    from epsilometer.inference.verdict import Thresholds, Verdict
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel
    from epsilometer.model.profile import ProfileModel
    from epsilometer.model.scores import Scores

__all__ = ["InconclusiveWarning", "assert_private"]

FAIL_ON = ("fail", "inconclusive")


class InconclusiveWarning(UserWarning):
    """The posterior lies on both sides of the claim, or something speaks against its verdict."""


def assert_private(
    counts: AttackCounts | Scores | str | PathLike[str],
    *,
    epsilon: float,
    delta: float | None = None,
    model: AuditModel | ProfileModel | None = None,
    thresholds: Thresholds | None = None,
    fail_on: Literal["fail", "inconclusive"] = "fail",
) -> Verdict:
    """Fail a test if attacks refute that an algorithm is (epsilon, delta)-differentially private.

    Parameters
    ----------
    counts
        Error counts of attacks, or a file of them; or :class:`~epsilometer.Scores` of all models.
    epsilon
        The claimed epsilon.
    delta
        The claimed delta, in [0, 1); counts are taken to be independent, scores are read by the
        whole-curve model.  Or give a model:
    model
        What is assumed, with its delta: priors, ``likelihood=CorrelatedCells()`` for cross-fed
        models.
    thresholds
        Where sides are taken; 0.05 and 0.95 unless given.
    fail_on
        ``fail``: an inconclusive verdict only warns.  ``inconclusive``: it fails the test too.

    Returns
    -------
    Verdict
        PASS, or INCONCLUSIVE if that was let through.

    Raises
    ------
    AssertionError
        If the verdict is FAIL, or INCONCLUSIVE and that is refused.
    NotConvergedError
        If the engine did not reach its accuracy, so that there is no verdict.

    Examples
    --------
    >>> import epsilometer as em
    >>> harmless = em.AttackCounts(
    ...     false_positives=[500], trials_h0=1000, false_negatives=[495], trials_h1=1000
    ... )
    >>> str(assert_private(harmless, epsilon=5.0, delta=1e-3).outcome)
    'PASS'
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    from epsilometer.inference.estimate import estimate
    from epsilometer.inference.profile.result import ProfileResult
    from epsilometer.inference.result import Question, Result
    from epsilometer.inference.verdict import Outcome, Thresholds
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel
    from epsilometer.model.profile import ProfileModel
    from epsilometer.model.scores import Scores
    from epsilometer.report import profile_summary, summary

    _validate.one_of("fail_on", fail_on, FAIL_ON)
    epsilon = _validate.non_negative("epsilon", epsilon)
    if (delta is None) == (model is None):
        raise InputError("expected either delta or a model, which has one.")
    if model is None:
        assert delta is not None
        kind = ProfileModel if isinstance(counts, Scores) else AuditModel
        model = kind(delta=delta)
    known = isinstance(counts, AttackCounts | Scores)
    posterior: Any = estimate(counts if known else AttackCounts.read(counts), model)  # type: ignore[arg-type]
    if not posterior.trustworthy:
        raise NotConvergedError(f"no verdict: {posterior.engine_words}.")
    asked = Question(claim=epsilon, thresholds=thresholds or Thresholds())
    result: Any = Result(posterior=posterior, asked=asked)
    finding: Any = summary.finding
    if hasattr(posterior, "scores"):
        result = ProfileResult(posterior=posterior, asked=asked)
        finding = profile_summary.finding
    verdict: Verdict | None = result.verdict
    assert verdict is not None  # something is claimed
    if verdict.outcome is Outcome.FAIL or (
        verdict.outcome is Outcome.INCONCLUSIVE and fail_on == "inconclusive"
    ):
        raise AssertionError(finding(result))
    if verdict.outcome is Outcome.INCONCLUSIVE:
        warnings.warn(finding(result), InconclusiveWarning, stacklevel=2)
    if result.doubts:
        text = f"{verdict.outcome}, but: {' '.join(result.doubts)}"
        warnings.warn(text, InconclusiveWarning, stacklevel=2)
    return verdict
