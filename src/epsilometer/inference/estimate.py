"""The one call that users make: counts and a model in, a posterior out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, overload

from epsilometer._arrays import Say
from epsilometer.errors import InputError
from epsilometer.inference.exact.engine import ExactSettings
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel

if TYPE_CHECKING:
    from epsilometer.inference.mcmc.driver import McmcSettings
    from epsilometer.inference.sample_posterior import SamplePosterior


@overload
def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: ExactSettings | None = None,
    *,
    report: Say | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> GridPosterior: ...


@overload
def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: McmcSettings,
    *,
    report: Say | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SamplePosterior: ...


def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: ExactSettings | McmcSettings | None = None,
    *,
    report: Say | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> GridPosterior | SamplePosterior:
    """Estimate epsilon, the strength of the attacks and, where modelled, the correlations.

    Parameters
    ----------
    counts
        Error counts, one entry a challenge base.
    model
        What is assumed: delta, priors, likelihood.
    engine
        ``ExactSettings(...)``, the default, or ``McmcSettings(...)``.
    report
        Called with a line of text now and then, for a progress display.
    progress
        Called with iterations done and to do; the exact engine cannot know these.

    Returns
    -------
    Posterior
        Look at ``posterior.trustworthy`` before you quote it.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    ... )
    >>> posterior = estimate(counts, AuditModel(delta=0.01))
    >>> posterior.trustworthy
    True
    """
    engine = ExactSettings() if engine is None else engine
    if not hasattr(engine, "estimate"):
        raise InputError(f"expected ExactSettings or McmcSettings, got engine={engine!r}.")
    return engine.estimate(counts, model, report=report, progress=progress)
