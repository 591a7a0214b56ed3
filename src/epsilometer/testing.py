"""Assert a privacy claim in a test suite, with the same verdict as the command line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from epsilometer import _validate
from epsilometer._warnings import says_once, tell
from epsilometer.errors import EpsilometerWarning, NotConvergedError

if TYPE_CHECKING:
    from epsilometer.judgement.verdict import Thresholds, Verdict
    from epsilometer.model.models import CountModel, CurveModel

__all__ = ["InconclusiveWarning", "assert_private"]


class InconclusiveWarning(EpsilometerWarning):
    """The posterior does not settle the claim, or there are caveats against its verdict."""


@says_once
def assert_private(
    data: Any,
    *,
    epsilon: float,
    delta: float | None = None,
    model: CountModel | CurveModel | str | None = None,
    thresholds: Thresholds | None = None,
    fail_on: Literal["proven", "conditional", "fail", "inconclusive"] = "fail",
    error: float | None = None,
    independent: bool | None = None,
) -> Verdict:
    """Fail a test if attacks refute that an algorithm is (epsilon, delta)-differentially private.

    Parameters
    ----------
    data
        Whatever you hold, as for :func:`epsilometer.estimate`: a file, a data frame, arrays, scores,
        losses, counts, a store, a result folder, a result.
    epsilon
        The claimed epsilon.  Infinity promises nothing, and fails.
    delta
        The claimed delta, in [0, 1).  A result has its own delta and model.  Otherwise scores and losses
        are analysed with the curve model; counts are modelled as correlated if they state that models
        were cross-fed, and as independent if not.  To choose yourself, pass ``model``.
    model
        The statistical model, with its delta; or ``"curve"`` or ``"count"``.
    thresholds
        Posterior probabilities below and above which the claim is decided; default: 0.05 and 0.95.
    fail_on
        ``proven``: the test fails only if the claim is refuted; any other verdict except PASS warns.
        ``conditional``: it also fails if gradient canaries refute the claim provided that their noise
        is independent.  ``fail``: a judged FAIL fails the test too.  ``inconclusive``: so does
        INCONCLUSIVE.
    error
        Error probability of a proof; default: 0.05, or the one stored in the result.
    independent
        Whether models of different bases were trained independently; default: True, or what the result
        states.  If they were not, proofs average over bases.

    Returns
    -------
    Verdict
        PASS, or any verdict that ``fail_on`` tolerates.

    Raises
    ------
    AssertionError
        If ``fail_on`` covers the verdict.
    NotConvergedError
        If the engine did not reach its accuracy and nothing is proven, so there is no verdict.

    Examples
    --------
    >>> import epsilometer as em
    >>> leaking = em.AttackCounts(
    ...     false_positives=[40], trials_h0=1000, false_negatives=[250], trials_h1=1000
    ... )
    >>> assert_private(leaking, epsilon=1.0, delta=1e-3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: FAIL (proven): the attacks prove that epsilon is at least 2.5...
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    from epsilometer.auditing.answering import result_for
    from epsilometer.judgement.verdict import FAIL_ON, Outcome
    from epsilometer.report.text.sentences import verdict_sentence

    _validate.one_of("fail_on", fail_on, [gate for gate in FAIL_ON if gate != "never"])
    if epsilon != math.inf:
        epsilon = _validate.non_negative("epsilon", epsilon)
    result = result_for(
        data,
        claim=epsilon,
        delta=delta,
        model=model,
        thresholds=thresholds,
        error=error,
        independent=independent,
    )
    verdict = result.verdict
    assert verdict is not None  # epsilon is always claimed
    if not result.accurate and not verdict.grounds.without_engine:
        raise NotConvergedError(f"no verdict: {result.posterior.engine_description}.")
    if verdict.stops(fail_on):
        raise AssertionError(verdict_sentence(result))
    if verdict.outcome is not Outcome.PASS:
        tell([verdict_sentence(result)], InconclusiveWarning)
    if result.warnings:
        tell([f"{verdict.label}, but: {' '.join(result.warnings)}"], InconclusiveWarning)
    return verdict
