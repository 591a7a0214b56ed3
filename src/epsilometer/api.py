"""The calls that users make: estimate, prove, judge, compare, plan, write_report; not `em.audit`.

Each takes whatever a user holds (see `inputs/held.py`), makes a few calls into the rooms below, and says
what to know before its answer is quoted as :class:`~epsilometer.EpsilometerWarning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from epsilometer._arrays import OnMessage
from epsilometer._progress import OnProgress
from epsilometer._warnings import says_once, tell
from epsilometer.auditing import answering
from epsilometer.comparison import estimators
from epsilometer.engines import estimate as engines
from epsilometer.errors import InputError
from epsilometer.inputs.held import source_of
from epsilometer.inputs.source import LossOptions
from epsilometer.judgement.objections import beyond_reach
from epsilometer.judgement.verdict import Thresholds
from epsilometer.model.models import CurveModel
from epsilometer.proofs import proof as proofs

if TYPE_CHECKING:
    from epsilometer.comparison.estimators import Comparison
    from epsilometer.engines.curve.engine import CurveSettings
    from epsilometer.engines.curve.posterior import CurvePosterior
    from epsilometer.engines.exact.engine import ExactSettings
    from epsilometer.engines.exact.posterior import GridPosterior
    from epsilometer.engines.mcmc.driver import McmcSettings
    from epsilometer.engines.mcmc.posterior import SamplePosterior
    from epsilometer.judgement.origin import Origin
    from epsilometer.judgement.verdict import Verdict
    from epsilometer.model.models import CountModel
    from epsilometer.planning.goals import Goal, Scenario
    from epsilometer.planning.plan import AuditPlan
    from epsilometer.posteriors.posterior import Posterior


class Shown(TypedDict, total=False):
    """Who hears of the progress of an estimate, and the score of failed models."""

    failures: str | None
    on_progress: OnProgress
    on_message: OnMessage | None


@overload
def estimate(
    data: Any, model: CurveModel, engine: CurveSettings | None = None, **shown: Unpack[Shown]
) -> CurvePosterior: ...


@overload
def estimate(
    data: Any, model: CountModel, engine: ExactSettings | None = None, **shown: Unpack[Shown]
) -> GridPosterior: ...


@overload
def estimate(
    data: Any, model: CountModel, engine: McmcSettings, **shown: Unpack[Shown]
) -> SamplePosterior: ...


@overload
def estimate(
    data: Any,
    model: str | None = None,
    engine: None = None,
    *,
    delta: float | None = None,
    **shown: Unpack[Shown],
) -> Posterior: ...


@says_once
def estimate(
    data: Any,
    model: CountModel | CurveModel | str | None = None,
    engine: ExactSettings | McmcSettings | CurveSettings | None = None,
    *,
    delta: float | None = None,
    failures: str | None = None,
    on_progress: OnProgress = None,
    on_message: OnMessage | None = None,
) -> Any:
    """Estimate the posterior of epsilon, the attack strength and the other parameters of a model.

    Parameters
    ----------
    data
        Whatever you hold: the path of a file, a store or a result folder; a data frame or a dict with
        the columns of such a file; two arrays of scores ``(without, with_point)``; :class:`Scores`,
        :class:`Losses`, :class:`PoolLosses`, :class:`AttackCounts`; what :func:`measure` returns; a
        result.
    model
        The assumptions, with their delta: a :class:`CurveModel` of the whole trade-off curve, or a
        :class:`CountModel`.  Or ``"curve"`` or ``"count"``, with ``delta``.  Default: the curve model
        for scores and losses, the count model for counts.
    engine
        ``ExactSettings(...)`` or ``McmcSettings(...)`` for the count model, ``CurveSettings(...)`` for
        the curve model; default: the exact engine of the model.
    delta
        The delta of (epsilon, delta)-DP, in [0, 1), if no model is given.
    failures
        For losses: the score of models that failed, as for :func:`audit`.  Default: that of the audit of
        a result folder, or ``"lowest"``.
    on_progress
        None shows a progress bar in notebooks and terminals, ``"bar"`` everywhere, ``"none"`` nowhere.
        A function is called with the number of iterations done and the total; MCMC only.
    on_message
        Called with a line of text from time to time, for a progress display.

    Returns
    -------
    Posterior
        Check ``posterior.trustworthy`` before you quote it; ``posterior.warnings`` are said as
        :class:`EpsilometerWarning` too.

    Examples
    --------
    >>> posterior = estimate({"without": [0.1, 0.4, 0.2], "with_point": [1.9, 1.1, 0.8]}, delta=1e-3)
    >>> posterior.trustworthy
    True
    """
    source = source_of(data, LossOptions(failures=failures))
    known, chosen = answering.prepared(source, model, delta)
    posterior = engines.estimate(
        known, chosen, engine, on_progress=on_progress, on_message=on_message
    )
    tell(posterior.warnings)
    return posterior


@says_once
def prove(
    data: Any,
    *,
    delta: float | None = None,
    claim: float | None = None,
    error: float | None = None,
    independent: bool | None = None,
    failures: str | None = None,
) -> proofs.Proof:
    """Prove a lower bound on epsilon, and test whether the attacks refute a claim.

    It needs no model of the algorithm and no prior: the claim bounds the error rates of every attack.

    Parameters
    ----------
    data
        As for :func:`estimate`.  Proofs from scores or losses of models in training order are
        anytime-valid.  Those from error counts of decision rules fixed in advance, canaries of one run,
        or points that share models are valid for one planned analysis.
    delta
        In [0, 1); default: that of a result.
    claim
        The claimed epsilon, at least 0.
    error
        Probability that the proof is wrong, in (0, 1); default: that of a result, or 0.05.
    independent
        Whether models of different bases were trained independently; if not, bases are averaged.
        Default: what a result says, or True.  Points that share models are always averaged.
    failures
        As for :func:`estimate`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> proof = prove((rng.normal(size=500), rng.normal(size=500) + 2), delta=1e-5, claim=1.0)
    >>> proof.refuted, proof.any_time, 1.5 < proof.at_least < 3
    (True, True, True)
    """
    source = source_of(data, LossOptions(failures=failures))
    if delta is None:
        if source.result is None:
            raise InputError("expected `delta=` with 0 <= delta < 1: it has no default.")
        delta = source.result.delta
    provable = source.provable
    asked = answering.question_of(source, delta, error=error, independent=independent)
    sure: Any = {"error": asked.error, "independent": asked.independent}
    proof = proofs.prove(provable, delta=delta, claim=claim, **sure)
    tell(provable.flaws)
    if claim is not None:
        tell(filter(None, [beyond_reach(provable, {proof.delta: claim}, asked, [proof])]))
    return proof


@says_once
def judge(
    posterior: Any,
    claim: Any,
    *,
    deltas: Sequence[float] = (),
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
    error: float | None = None,
    independent: bool | None = None,
) -> Verdict:
    """Judge a claimed epsilon by a posterior, and by what its data prove.

    Parameters
    ----------
    posterior
        As :func:`estimate` returns it; a result; or the path of a result folder.
    claim
        The claimed epsilon; a function from delta to epsilon, such as that of an accountant; an
        accountant; or a :class:`~epsilometer.judgement.ClaimedCurve`.  Infinity promises nothing.
    deltas
        Judge the claim at all of these together; default: the delta of the model.
    thresholds
        Posterior probabilities at which the verdict is PASS or FAIL; default: 0.05 and 0.95.
    accept_untrusted
        Judge also if the engine did not reach its accuracy.
    error
        Error probability of the proof; default: that of a result, or 0.05.
    independent
        Whether models of different bases were trained independently; default: what a result says, or
        True.

    Examples
    --------
    >>> from epsilometer.model.counts import AttackCounts
    >>> counts = AttackCounts(
    ...     false_positives=[5], trials_h0=100, false_negatives=[30], trials_h1=100
    ... )
    >>> judge(estimate(counts, delta=1e-5), 0.5).label
    'FAIL (proven)'
    """
    source = source_of(posterior)
    if source.result is None:
        raise InputError(
            "expected a posterior, a result or a result folder, got data: estimate them first, "
            "em.estimate(data, delta=...)."
        )
    result = answering.result_for(
        source,
        claim=claim,
        deltas=tuple(deltas) or None,
        thresholds=thresholds,
        accept_untrusted=accept_untrusted,
        error=error,
        independent=independent,
    )
    verdict = result.verdict
    if verdict is None:
        raise InputError("expected a claimed epsilon, got none.")
    tell(result.warnings)
    return verdict


@says_once
def write_report(
    posterior: Any,
    path: str | PathLike[str],
    *,
    delta: float | None = None,
    claim: Any = None,
    level: float | None = None,
    thresholds: Thresholds | None = None,
    error: float | None = None,
    independent: bool | None = None,
    deltas: Sequence[float] = (),
    origin: Origin | None = None,
    on_message: OnMessage | None = None,
) -> Verdict | None:
    """Write a report as one HTML file, and return its verdict.

    Parameters
    ----------
    posterior
        As :func:`estimate` returns it, a result, or the path of a result folder.  Or data, as for
        :func:`estimate`, with ``delta``: they are estimated with the default model.
    path
        File to write; an existing file is replaced.
    claim, deltas, thresholds, error, independent
        As for :func:`judge`; without a claim the page has no verdict.
    level
        Probability of the credible intervals.
    origin
        Origin of the data: plan, attack, error curves.
    on_message
        Called with a line of text during the computation, for a progress display.
    """
    result = answering.result_for(
        posterior,
        delta=delta,
        claim=claim,
        level=level,
        thresholds=thresholds,
        error=error,
        independent=independent,
        deltas=tuple(deltas) or None,
        origin=origin,
        on_message=on_message,
    )
    result.report(path)
    tell(result.warnings)
    return result.verdict


@says_once
def compare(
    data: Any,
    *,
    delta: float | None = None,
    model: CountModel | CurveModel | str | None = None,
    significance: float = 0.05,
    posteriors: Sequence[tuple[str, Any]] | None = None,
    independent: bool | None = None,
    failures: str | None = None,
    on_message: OnMessage | None = None,
) -> Comparison:
    """Compare every estimator of epsilon on the same data.

    Bounds err with probability ``significance`` at each end.  With several bases a row has the largest
    ends, with the error divided among the bases.

    Parameters
    ----------
    data, delta, model, failures
        As for :func:`estimate`; scores are compared with estimators that use scores, counts with those
        that use counts.
    significance
        Error probability of a bound, in (0, 0.5).
    posteriors
        The posteriors in the first rows, each with its name; default: that of the model, and for scores
        also with attacks of strength 1.
    independent
        As for :func:`prove`, whose bound is one of the rows.
    on_message
        Called with a line of text from time to time.
    """
    source = source_of(data, LossOptions(failures=failures))
    held, chosen = answering.prepared(source, model, delta)
    known: Any = source.result
    if posteriors is None:
        own = known.posterior if known is not None and known.posterior.model == chosen else None
        posteriors = estimators.posteriors_of(held, chosen, known=own, on_message=on_message)
    comparison = estimators.compare(
        held,
        delta=chosen.delta,
        significance=significance,
        posteriors=posteriors,
        independent=source.asked.get("independent", True) if independent is None else independent,
    )
    tell(held.flaws)
    return comparison


def plan(
    model: CountModel | CurveModel, scenario: Scenario, *goals: Goal, **settings: Any
) -> AuditPlan:
    """Plan the size of an audit that reaches its goals, by simulation.

    Parameters
    ----------
    model
        The assumptions of the planned audit: a :class:`CurveModel`, or a :class:`CountModel` if only
        counts will be known.
    scenario
        The assumed truth: ``AssumedCurve`` for a curve model, ``AssumedScenario`` for a count model, or
        ``PilotScenario``; all are in ``em.goals``.
    goals
        ``em.goals.IntervalWidth(...)``, ``em.goals.DecidedClaim(...)``,
        ``em.goals.ProvenEpsilon(...)``, or several of them.
    settings
        Those of :func:`epsilometer.planning.plan.plan_audit`, such as ``design``:
        ``em.goals.ManyModels(...)``, ``em.goals.OneRunCanaries(...)`` or ``em.goals.PoolModels(...)``.
    """
    from epsilometer.planning.plan import plan_audit

    return plan_audit(model, scenario, *goals, **settings)
