"""The main function: estimate a posterior from counts or scores and a model."""

from typing import Any

from epsilometer._arrays import OnMessage
from epsilometer._progress import OnProgress, progress_of
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.engines.exact.engine import ExactSettings
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel, CurveModel
from epsilometer.model.scores import Scores

#: Default engine and input types of each model.
DEFAULTS: dict[type, tuple[Any, tuple[type, ...]]] = {
    CountModel: (ExactSettings, (AttackCounts,)),
    CurveModel: (CurveSettings, (Scores, AttackCounts)),
}


def estimate(
    counts: AttackCounts | Scores,
    model: CountModel | CurveModel,
    engine: Any = None,
    *,
    on_progress: OnProgress = None,
    on_message: OnMessage | None = None,
) -> Any:
    """Estimate epsilon, the strength of the attacks and the model's other parameters.

    Parameters
    ----------
    counts
        Error counts, one entry per challenge base, or :class:`Scores` of all models for a
        :class:`CurveModel`, which also accepts counts, as one threshold per base.
    model
        The assumptions: a :class:`CountModel`, or a :class:`CurveModel` of the whole curve.
    engine
        ``ExactSettings(...)`` or ``McmcSettings(...)`` for the count model, ``CurveSettings(...)`` for
        the curve model.  Default: the model's exact engine.
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
    >>> counts = AttackCounts(
    ...     false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ... )
    >>> posterior = estimate(counts, CountModel(delta=0.01))
    >>> posterior.trustworthy
    True
    """
    if type(model) not in DEFAULTS:
        raise InputError(f"expected CountModel or CurveModel, got model={model!r}.")
    default, reads = DEFAULTS[type(model)]
    if not isinstance(counts, reads):
        raise InputError(
            f"expected {' or '.join(kind.__name__ for kind in reads)} for "
            f"{type(model).__name__}, got {type(counts).__name__}."
        )
    chosen: Any = default() if engine is None else engine
    if not hasattr(chosen, "estimate"):
        raise InputError(f"expected settings of an engine, got engine={engine!r}.")
    if isinstance(chosen, CurveSettings) != (default is CurveSettings):
        raise InputError(f"{type(chosen).__name__} cannot be used with {type(model).__name__}.")
    with progress_of(on_progress, on_message, state=_iterations) as (progress, message):
        return chosen.estimate(counts, model, on_message=message, on_progress=progress)


def _iterations(done: int, total: int) -> tuple[str, int, int]:
    return f"{done:,} of {total:,} iterations", done, total
