"""The one call that users make: counts and a model in, a posterior out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, overload

from epsilometer.errors import InputError
from epsilometer.inference.exact import ExactSettings, estimate_exact
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel

if TYPE_CHECKING:
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.sample_posterior import SamplePosterior


@overload
def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: ExactSettings | None = None,
    *,
    report: Callable[[str], None] | None = None,
) -> GridPosterior: ...


@overload
def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: McmcSettings,
    *,
    report: Callable[[str], None] | None = None,
) -> SamplePosterior: ...


def estimate(
    counts: AttackCounts,
    model: AuditModel,
    engine: ExactSettings | McmcSettings | None = None,
    *,
    report: Callable[[str], None] | None = None,
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
    if engine is None or isinstance(engine, ExactSettings):
        return estimate_exact(counts, model, engine, report=report)
    from epsilometer.inference.mcmc import McmcSettings, estimate_mcmc

    if not isinstance(engine, McmcSettings):
        raise InputError(f"expected ExactSettings or McmcSettings, got engine={engine!r}.")
    return estimate_mcmc(counts, model, engine, report=report)
