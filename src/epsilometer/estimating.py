"""The calls that users make on data or on files of data: estimate, prove, judge.

The functions of :mod:`epsilometer.inference` and :mod:`epsilometer.proofs` take data in memory; these
also read files, stores and result folders.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from epsilometer import _validate
from epsilometer._arrays import Say
from epsilometer._progress import OnProgress
from epsilometer.engines import estimate as estimates
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import PUBLISHED_MODEL, WHOLE_CURVE
from epsilometer.inputs.sources import source_of
from epsilometer.model.count_model import CountModel
from epsilometer.model.curve_model import CurveModel
from epsilometer.proofs import proof as proofs

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.engines.curve.engine import CurveSettings
    from epsilometer.engines.curve.posterior import CurvePosterior
    from epsilometer.engines.exact.engine import ExactSettings
    from epsilometer.engines.exact.posterior import GridPosterior
    from epsilometer.engines.mcmc.driver import McmcSettings
    from epsilometer.engines.mcmc.posterior import SamplePosterior
    from epsilometer.judgement.curve_result import ProfileResult
    from epsilometer.judgement.result import Result
    from epsilometer.judgement.verdict import Thresholds
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.pool_scores import PoolScores
    from epsilometer.model.scores import Scores

    File = str | PathLike[str]
    """The path of counts, scores, losses, a store, a result folder or a posterior."""


@overload
def estimate(
    counts: AttackCounts | Losses | File,
    model: CountModel,
    engine: ExactSettings | None = None,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> GridPosterior: ...


@overload
def estimate(
    counts: AttackCounts | Losses | File,
    model: CountModel,
    engine: McmcSettings,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> SamplePosterior: ...


@overload
def estimate(
    counts: Scores | AttackCounts | Losses | File,
    model: CurveModel,
    engine: CurveSettings | None = None,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> CurvePosterior: ...


def estimate(
    counts: AttackCounts | Scores | Losses | File,
    model: CountModel | CurveModel,
    engine: ExactSettings | McmcSettings | CurveSettings | None = None,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> GridPosterior | SamplePosterior | CurvePosterior:
    """Estimate the posterior of epsilon, the attack strength and the other parameters of a model.

    Parameters
    ----------
    counts
        Error counts with one entry per challenge base, :class:`Scores` or :class:`Losses` of all
        models; or the path of a file of these, of a store, or of a result folder.  A
        :class:`CurveModel` reads scores and losses, and counts as one threshold per base; an
        :class:`CountModel` reads counts, and losses as counts of the default attack.
    model
        The assumptions: an :class:`CountModel`, or a :class:`CurveModel` of the whole trade-off
        curve.
    engine
        ``ExactSettings(...)`` or ``McmcSettings(...)`` for an audit model, ``CurveSettings(...)`` for
        a profile model; default: the exact engine of the model.
    on_progress
        None shows a progress bar in a notebook only, ``"bar"`` everywhere, ``"none"`` nowhere.  A
        function is called with the number of iterations done and the total; MCMC only.
    on_message
        Called with a line of text from time to time, for a progress display.

    Returns
    -------
    Posterior
        Check ``posterior.trustworthy`` before you quote it.

    Examples
    --------
    >>> from epsilometer.model.counts import AttackCounts
    >>> counts = AttackCounts(
    ...     false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ... )
    >>> posterior = estimate(counts, CountModel(delta=0.01))
    >>> posterior.trustworthy
    True
    """
    data: Any = counts
    if type(model) in estimates.ENGINES and is_source(counts):
        published = estimates.ENGINES[type(model)] is estimates.ENGINES[CountModel]
        data = source_of(counts).data(PUBLISHED_MODEL if published else WHOLE_CURVE)
    run: Any = estimates.estimate
    return run(data, model, engine, on_progress=on_progress, on_message=on_message)  # type: ignore[no-any-return]


def prove(
    data: Scores | AttackCounts | PoolScores | Losses | File,
    *,
    delta: float,
    claim: float | None = None,
    error: float = proofs.ERROR,
    independent: bool = True,
) -> proofs.Proof:
    """Prove a lower bound on epsilon, and test whether the attacks refute a claim.

    It needs no model of the algorithm and no prior: the claim bounds the error rates of every attack.

    Parameters
    ----------
    data
        Scores or losses of models in training order: the proof is anytime-valid.  Error counts of
        decision rules fixed in advance, canaries of one run, or points that share models: valid for
        one planned analysis.  Or the path of a file of these, of a store, or of a result folder.
    delta
        In [0, 1).
    claim
        The claimed epsilon, at least 0.
    error
        Probability that the proof is wrong, in (0, 1).
    independent
        Whether models of different bases were trained independently; if not, bases are averaged.
        Points that share models are always averaged.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilometer.model.scores import Scores
    >>> rng = np.random.default_rng(1)
    >>> scores = Scores(without=[rng.normal(size=500)], with_point=[rng.normal(size=500) + 2])
    >>> proof = prove(scores, delta=1e-5, claim=1.0)
    >>> proof.refuted, proof.any_time, 1.5 < proof.at_least < 3
    (True, True, True)
    """
    known: Any = source_of(data).provable if is_source(data) else data
    return proofs.prove(known, delta=delta, claim=claim, error=error, independent=independent)


def is_source(given: object) -> bool:
    """Whether data have to be read or scored first: a path, or losses."""
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses

    return isinstance(given, str | PathLike | Losses | PoolLosses)


def default_model(data: Any, delta: float) -> CountModel | CurveModel:
    """The model for data without a chosen one: by their kind, and how they were measured."""
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.curve_model import CurveModel
    from epsilometer.model.from_words import likelihood_for, model_of

    if isinstance(data, AttackCounts):
        return model_of(delta, likelihood=likelihood_for(data))
    return CurveModel(delta=delta)


def result_for(
    given: Any,
    *,
    claim: float,
    delta: float | None = None,
    model: Any = None,
    thresholds: Thresholds | None = None,
    error: float | None = None,
    independent: bool | None = None,
) -> Result | ProfileResult:
    """The result of judging a claim; ``given`` is anything that ``inputs.source_of`` takes.

    A result keeps its posterior, unless another delta or a model is given.  Other data are
    estimated with the model, or with the default one at ``delta``.
    """
    from epsilometer.judgement.judging import result_of
    from epsilometer.judgement.result import Question
    from epsilometer.judgement.verdict import Thresholds
    from epsilometer.proofs.proof import ERROR

    estimate = estimates.estimate
    if delta is not None and model is not None:
        raise InputError("expected either delta or a model, which has one, got both.")
    if delta is not None:
        delta = _validate.delta(delta)
    source = source_of(given)
    recorded, posterior = source.recorded, None
    if model is not None:
        published = not hasattr(model, "families")
        if type(model) not in estimates.ENGINES:
            raise InputError(f"expected CountModel or CurveModel, got model={model!r}.")
        posterior = estimate(source.data(PUBLISHED_MODEL if published else WHOLE_CURVE), model)
    elif recorded is not None:
        posterior = recorded.posterior
        if delta is not None and delta != recorded.delta:
            other = replace(posterior.model, delta=delta)
            posterior = estimate(recorded.data, other, posterior.engine)
    elif delta is None:
        raise InputError("expected either delta or a model, which has one.")
    else:
        data = source.data(source.kind)
        chosen: Any = default_model(data, delta)
        posterior = estimate(data, chosen)
    known = {} if recorded is None else recorded.asked
    if thresholds is None and known:
        limits = {name: known[name] for name in ("pass_at_most", "fail_at_least")}
        thresholds = Thresholds(**limits)
    if independent is None:
        independent = not known.get("shared_models", False)
    asked = Question(
        claim=claim,
        thresholds=thresholds or Thresholds(),
        error=known.get("error", ERROR) if error is None else error,
        independent=independent,
    )
    return result_of(posterior, asked, source.models)
