"""Assert a privacy claim in a test suite, with the same verdict as the command line."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from epsilometer import _validate
from epsilometer.errors import NotConvergedError

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.judgement.verdict import Thresholds, Verdict
    from epsilometer.model.count_model import CountModel
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.curve_model import CurveModel
    from epsilometer.model.scores import Scores

__all__ = ["InconclusiveWarning", "assert_private"]


class InconclusiveWarning(UserWarning):
    """The posterior does not settle the claim, or there are caveats against its verdict."""


def assert_private(
    counts: AttackCounts | Scores | Losses | str | PathLike[str],
    *,
    epsilon: float,
    delta: float | None = None,
    model: CountModel | CurveModel | None = None,
    thresholds: Thresholds | None = None,
    fail_on: Literal["proven", "fail", "inconclusive"] = "fail",
    error: float | None = None,
    independent: bool | None = None,
) -> Verdict:
    """Fail a test if attacks refute that an algorithm is (epsilon, delta)-differentially private.

    Parameters
    ----------
    counts
        Error counts of attacks, :class:`~epsilometer.Scores` or :class:`~epsilometer.Losses` of all
        models; or the path of a file with any of these, of a store, or of a result folder.
    epsilon
        The claimed epsilon.
    delta
        The claimed delta, in [0, 1).  A result folder has its own delta and model.  Otherwise scores and
        losses are analysed with the whole-curve model; counts are modelled as correlated if they state
        that models were cross-fed, and as independent if not.  To choose yourself, pass ``model``.
    model
        The statistical model, with its delta: priors and likelihood.
    thresholds
        Posterior probabilities below and above which the claim is decided; default: 0.05 and 0.95.
    fail_on
        ``proven``: the test fails only if the claim is refuted; any other verdict except PASS warns.
        ``fail``: a judged FAIL fails the test too.  ``inconclusive``: so does INCONCLUSIVE.
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
    from epsilometer.report.text import profile_summary, summary
    from epsilometer.estimating import result_for
    from epsilometer.judgement.verdict import FAIL_ON, Grounds, Outcome

    _validate.one_of("fail_on", fail_on, FAIL_ON)
    epsilon = _validate.non_negative("epsilon", epsilon)
    if error is not None:
        _validate.open_unit_interval("error", error)
    result: Any = result_for(
        counts,
        claim=epsilon,
        delta=delta,
        model=model,
        thresholds=thresholds,
        error=error,
        independent=independent,
    )
    posterior = result.posterior
    verdict: Verdict | None = result.verdict
    assert verdict is not None  # epsilon is always claimed
    if not posterior.trustworthy and verdict.grounds is not Grounds.PROVEN:
        raise NotConvergedError(f"no verdict: {posterior.engine_description}.")
    finding: Any = profile_summary.finding if hasattr(posterior, "scores") else summary.finding
    if verdict.label in FAIL_ON[fail_on]:
        raise AssertionError(finding(result))
    if verdict.outcome is not Outcome.PASS:
        warnings.warn(finding(result), InconclusiveWarning, stacklevel=2)
    if result.data_warnings:
        text = f"{verdict.label}, but: {' '.join(result.data_warnings)}"
        warnings.warn(text, InconclusiveWarning, stacklevel=2)
    return verdict
