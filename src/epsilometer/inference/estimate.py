"""The main function: estimate a posterior from counts or scores and a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from epsilometer._arrays import Say
from epsilometer._deprecated import renamed_parameters
from epsilometer._progress import OnProgress, progress_of
from epsilometer.errors import InputError
from epsilometer.inference.exact.engine import ExactSettings
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.profile.engine import ProfileSettings
from epsilometer.inference.profile.posterior import ProfilePosterior
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.profile import ProfileModel
from epsilometer.model.scores import Scores

if TYPE_CHECKING:
    from epsilometer.inference.mcmc.driver import McmcSettings
    from epsilometer.inference.sample_posterior import SamplePosterior

ENGINES: dict[type, Any] = {AuditModel: ExactSettings, ProfileModel: ProfileSettings}
"""Default engine of each model."""

READS: dict[type, tuple[type, ...]] = {
    AuditModel: (AttackCounts,),
    ProfileModel: (Scores, AttackCounts),
}
"""Input types of each model."""


@overload
def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: ExactSettings | None = None,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> GridPosterior: ...


@overload
def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: McmcSettings,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> SamplePosterior: ...


@overload
def estimate(
    counts: Scores | AttackCounts,
    model: ProfileModel,
    engine: ProfileSettings | None = None,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> ProfilePosterior: ...


@renamed_parameters(report="on_message", progress="on_progress")
def estimate(
    counts: AttackCounts | Scores,
    model: AuditModel | ProfileModel,
    engine: ExactSettings | McmcSettings | ProfileSettings | None = None,
    *,
    on_progress: OnProgress = None,
    on_message: Say | None = None,
) -> GridPosterior | SamplePosterior | ProfilePosterior:
    """Estimate epsilon, the strength of the attacks and the model's other parameters.

    Parameters
    ----------
    counts
        Error counts, one entry per challenge base, or :class:`Scores` of all models for a
        :class:`ProfileModel`, which also accepts counts, as one threshold per base.
    model
        The assumptions: an :class:`AuditModel`, or a :class:`ProfileModel` of the whole curve.
    engine
        ``ExactSettings(...)`` or ``McmcSettings(...)`` for an audit model, ``ProfileSettings(...)`` for
        a profile model.  Default: the model's exact engine.
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
    >>> posterior = estimate(counts, AuditModel(delta=0.01))
    >>> posterior.trustworthy
    True
    """
    default = ENGINES.get(type(model))
    if default is None:
        raise InputError(f"expected AuditModel or ProfileModel, got model={model!r}.")
    if not isinstance(counts, READS[type(model)]):
        raise InputError(
            f"expected {' or '.join(each.__name__ for each in READS[type(model)])} for "
            f"{type(model).__name__}, got {type(counts).__name__}."
        )
    chosen: Any = default() if engine is None else engine
    if not hasattr(chosen, "estimate"):
        raise InputError(f"expected settings of an engine, got engine={engine!r}.")
    if isinstance(chosen, ProfileSettings) != (default is ProfileSettings):
        raise InputError(f"{type(chosen).__name__} cannot be used with {type(model).__name__}.")
    with progress_of(on_progress, on_message, state=_iterations) as (progress, report):
        return chosen.estimate(counts, model, report=report, progress=progress)  # type: ignore[no-any-return]


def _iterations(done: int, total: int) -> tuple[str, int, int]:
    return f"{done:,} of {total:,} iterations", done, total
