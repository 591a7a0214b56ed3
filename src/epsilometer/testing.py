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


class InconclusiveWarning(UserWarning):
    """The posterior lies on both sides of the claim, or something speaks against its verdict."""


def assert_private(
    counts: AttackCounts | Scores | str | PathLike[str],
    *,
    epsilon: float,
    delta: float | None = None,
    model: AuditModel | ProfileModel | None = None,
    thresholds: Thresholds | None = None,
    fail_on: Literal["proven", "fail", "inconclusive"] = "fail",
    error: float = 0.05,
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
        What is assumed, with its delta: priors, ``likelihood=CorrelatedNormal()`` for cross-fed
        models.
    thresholds
        Where sides are taken; 0.05 and 0.95 unless given.
    fail_on
        ``proven``: only a refuted claim fails the test; any other verdict but PASS warns.  ``fail``: a
        judgement fails it too.  ``inconclusive``: and so does an open verdict.
    error
        Probability that a proof errs.

    Returns
    -------
    Verdict
        PASS, or what ``fail_on`` lets through.

    Raises
    ------
    AssertionError
        If the verdict is one that ``fail_on`` refuses.
    NotConvergedError
        If the engine did not reach its accuracy and nothing is proven, so that there is no verdict.

    Examples
    --------
    >>> import epsilometer as em
    >>> leaking = em.AttackCounts(
    ...     false_positives=[40], trials_h0=1000, false_negatives=[250], trials_h1=1000
    ... )
    >>> assert_private(leaking, epsilon=1.0, delta=1e-3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: FAIL (proven): the attacks prove that epsilon is at least 2.4...
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    from epsilometer.inference.estimate import estimate
    from epsilometer.inference.judging import result_of
    from epsilometer.inference.result import Question
    from epsilometer.inference.verdict import FAIL_ON, Grounds, Outcome, Thresholds
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
    asked = Question(claim=epsilon, thresholds=thresholds or Thresholds(), error=error)
    result: Any = result_of(posterior, asked)
    verdict: Verdict | None = result.verdict
    assert verdict is not None  # something is claimed
    if not posterior.trustworthy and verdict.grounds is not Grounds.PROVEN:
        raise NotConvergedError(f"no verdict: {posterior.engine_words}.")
    finding: Any = profile_summary.finding if hasattr(posterior, "scores") else summary.finding
    if verdict.label in FAIL_ON[fail_on]:
        raise AssertionError(finding(result))
    if verdict.outcome is not Outcome.PASS:
        warnings.warn(finding(result), InconclusiveWarning, stacklevel=2)
    if result.doubts:
        text = f"{verdict.label}, but: {' '.join(result.doubts)}"
        warnings.warn(text, InconclusiveWarning, stacklevel=2)
    return verdict
