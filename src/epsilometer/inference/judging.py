"""``judge`` and ``judge_curve``: verdicts of posteriors and proofs on a claim."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import overload

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.inference import claimed_curve
from epsilometer.inference.claimed_curve import Claim, CurveVerdict
from epsilometer.inference.delta_curve import DeltaCurve
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.profile.curve import ProfileCurve
from epsilometer.inference.profile.posterior import ProfilePosterior
from epsilometer.inference.profile.result import ProfileResult
from epsilometer.inference.result import Question, Result
from epsilometer.inference.verdict import Thresholds, Verdict
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import ERROR


@singledispatch
def result_of(
    posterior: object, question: Question, scores: Scores | None = None
) -> Result | ProfileResult:
    """The result for either kind of posterior; ``scores`` are of the models that were counted."""
    raise InputError(f"expected a posterior, got {posterior!r}.")


@result_of.register
def _(posterior: Posterior, question: Question, scores: Scores | None = None) -> Result:
    return Result(posterior=posterior, question=question, scores=scores)


@result_of.register
def _(
    posterior: ProfilePosterior, question: Question, scores: Scores | None = None
) -> ProfileResult:
    return ProfileResult(posterior=posterior, question=question)


@overload
def judge_curve(
    curve: DeltaCurve,
    claim: Claim,
    *,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
    error: float = ERROR,
) -> CurveVerdict: ...


@overload
def judge_curve(
    curve: ProfileCurve,
    claim: Claim | None = None,
    *,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
    error: float = ERROR,
) -> Verdict: ...


def judge_curve(
    curve: DeltaCurve | ProfileCurve,
    claim: Claim | None = None,
    *,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
    error: float = ERROR,
) -> CurveVerdict | Verdict:
    """Judge claims by epsilon over delta and by what its data prove.

    For posteriors at single deltas (:func:`epsilometer.estimate_curve`) the result has a verdict at each
    delta and one overall; for a curve of the whole-curve model it is one verdict on the claimed curve.

    Parameters
    ----------
    claim
        One epsilon for every delta, or any callable that takes a delta and returns the epsilon claimed
        there: a :class:`ClaimedCurve`, ``accountant.get_epsilon`` of dp_accounting, or
        ``claimed_epsilon`` of an algorithm.  Infinite means that nothing is claimed.  Default for a
        :class:`ProfileCurve`: its own claim.
    thresholds, accept_untrusted, error
        As in :func:`judge`.

    Raises
    ------
    InputError
        If nothing is claimed at any of the curve's deltas.
    """
    how = {"accept_untrusted": accept_untrusted, "error": error}
    if hasattr(curve, "points"):
        if claim is None:
            raise InputError("expected a claim to judge the curve by, got none.")
        return claimed_curve.judge_curve(curve, claim, thresholds=thresholds, **how)  # type: ignore[arg-type]
    own: ProfileCurve = curve if claim is None else replace(curve, claim=claim)
    question = Question(thresholds=thresholds or Thresholds(), **how)  # type: ignore[arg-type]
    verdict = ProfileResult(
        posterior=own.posterior, over_delta=own, question=question
    ).curve_verdict
    if verdict is None:
        raise InputError("expected a claim to judge the curve by, got none.")
    return verdict


def judge(
    posterior: Posterior | ProfilePosterior,
    *,
    claim: float,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
    error: float = ERROR,
    independent: bool = True,
) -> Verdict:
    """Judge a claimed epsilon by a posterior and by what its data prove.

    Parameters
    ----------
    claim
        The epsilon claimed at the delta of the posterior's model, at least 0.
    thresholds
        Posterior probabilities at which to PASS or FAIL.  Default: 0.05 and 0.95.
    accept_untrusted
        Also PASS or FAIL if the engine did not reach its accuracy.
    error
        Error probability of a proof.
    independent
        Whether models of different bases were trained independently.

    Examples
    --------
    >>> import epsilometer as em
    >>> counts = em.AttackCounts(
    ...     false_positives=[40], trials_h0=1000, false_negatives=[250], trials_h1=1000
    ... )
    >>> judge(em.estimate(counts, em.AuditModel(delta=0.01)), claim=1.0).label
    'FAIL (proven)'
    """
    question = Question(
        claim=_validate.non_negative("claim", claim),
        thresholds=thresholds or Thresholds(),
        accept_untrusted=accept_untrusted,
        error=error,
        independent=independent,
    )
    verdict = result_of(posterior, question).verdict
    assert verdict is not None  # there is a claim
    return verdict
