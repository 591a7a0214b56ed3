"""The exact engine: the posterior by deterministic quadrature, with a checked error estimate.

The latent error rates are integrated analytically in all but one dimension, so the posterior of
(epsilon, strength) needs two-dimensional quadrature, and nuisance parameters add a small grid.  The
same surface is integrated in successive refinement steps until the difference between the last two, the
error estimate, is within the tolerance.  Only the cells of correlated counts are compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer.engines.exact.groups import GroupSurface, SpreadGrid, Surface
from epsilometer.engines.exact.integrate import Panels, integrate
from epsilometer.engines.exact.posterior import GridPosterior, from_solution
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.engines.exact.surface import AttackSurface
from epsilometer.engines.exact.treatments import log_choices
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.posteriors.panels import PanelDensity
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.provenance import Provenance

# Quantiles that must agree between refinement steps, as must the means.
PROBED = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
EVIDENCE_SHARE = 0.2  # an error of .005 in the log evidence counts like .001 in a quantile
# Weight of changes of the strength's quantiles if masses come from fluxes. Panels are refined
# for epsilon and resolve less at a given strength: in some of 70 difficult problems the error
# in the strength was three times the difference between two refinement steps.
STRENGTH_FACTOR = 4.0


@dataclass(frozen=True, kw_only=True)
class ExactSettings:
    """Settings of the exact engine.

    Parameters
    ----------
    tolerance
        Largest acceptable change, between two refinement steps, of the 5 % to 95 % quantiles and the
        mean of epsilon (relative above 1) and of the strength.  Default: 1e-3, or 1e-2 for the
        correlated likelihood and for groups of dependent attacks.  The log evidence may change by five
        times as much.
    most_levels
        Largest number of refinement steps; if they do not suffice, the posterior is not trustworthy.
    """

    tolerance: float | None = None
    most_levels: int = 4

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            _validate.positive("tolerance", self.tolerance)
        _validate.whole_number("most_levels", self.most_levels, least=2, most=6)

    def estimate(
        self,
        counts: AttackCounts,
        model: CountModel,
        *,
        on_message: OnMessage | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> GridPosterior:
        """:func:`estimate_exact` with these settings; ``on_progress`` is not called."""
        return estimate_exact(counts, model, self, on_message=on_message)

    def tolerance_on(self, surface: Surface) -> float:
        """The tolerance, or the default for a surface."""
        # Plane quadrature, for correlated counts or groups, is less accurate than fluxes.
        usual = 1e-2 if surface.planar else 1e-3
        return usual if self.tolerance is None else self.tolerance


def estimate_exact(
    counts: AttackCounts,
    model: CountModel,
    settings: ExactSettings | None = None,
    *,
    on_message: OnMessage | None = None,
) -> GridPosterior:
    """Return the posterior of the model given the counts, by quadrature.

    ``on_message`` is called with a line of text as work proceeds.  The cost is linear in the number of
    distinct counts.  ``posterior.accuracy`` holds the error estimate and whether it meets the tolerance.

    Raises
    ------
    ContradictionError
        If the counts have no weight anywhere under the model.
    """
    return estimate_on(make_surface(counts, model), counts, model, settings, on_message=on_message)


def estimate_quickly(
    counts: AttackCounts, model: CountModel, surface: Surface | None = None
) -> GridPosterior:
    """The posterior without refinement, so without an error estimate.

    Quantiles are accurate to 1e-3 for binomial counts, log evidence to a few tenths for correlated ones.
    """
    surface = make_surface(counts, model) if surface is None else surface
    resolution = Resolution.number(0, planar=surface.planar)
    solution, _ = integrate(surface, model, resolution)
    return from_solution(counts, model, solution, method=_method(surface, model))


def make_surface(counts: AttackCounts, model: CountModel, deltas: Sequence[float] = ()) -> Surface:
    """The likelihood of counts as an unrefined surface, for the model's delta or for several.

    Raises
    ------
    InputError
        If the counts are incompatible with the model, or the engine does not support it.
    """
    model.check(counts)
    deltas = tuple(deltas) or (model.delta,)
    if not model.scatters(counts):
        return AttackSurface.of(counts, model.likelihood, deltas)
    if model.likelihood.parameters:
        raise InputError(
            "correlated counts in groups are not supported: use one row per base, or the binomial "
            "likelihood if every challenge had its own shadow models."
        )
    if model.dependence.scatter is not None and model.fixed_values(counts).get("spread") == 0:
        # Members share their rates, so a group is one attack up to binomial constants.
        pooled = counts.pooled()
        offset = float(log_choices(counts).sum() - log_choices(pooled).sum())
        return replace(AttackSurface.of(pooled, model.likelihood, deltas), log_offset=offset)
    return GroupSurface.of(counts, model, deltas=deltas, refinement=0)


def as_grid_posterior(
    posterior: CountPosterior, *, on_message: OnMessage | None = None
) -> GridPosterior:
    """The posterior by quadrature: itself, or for Markov chains the exact engine's estimate."""
    if getattr(posterior, "cells", None) is not None:
        return cast("GridPosterior", posterior)
    return estimate_exact(posterior.counts, posterior.model, on_message=on_message)


def surface_of(posterior: GridPosterior) -> Surface:
    """The surface that a posterior was integrated from; recomputed for one loaded from a file."""
    if posterior.surface is not None:
        return posterior.surface
    counts, model, refinement = posterior.counts, posterior.model, posterior.accuracy.levels - 1
    surface = make_surface(counts, model)
    if isinstance(surface, GroupSurface):
        grid = cast("SpreadGrid", posterior.nuisance)
        surface = surface.of(counts, model, deltas=(model.delta,), refinement=refinement, grid=grid)
    elif refinement:
        surface = surface.finer(refinement, None)
    return surface.reaching(float(posterior.cells.epsilon.max()) * 1.01)


def estimate_on(
    surface: Surface,
    counts: AttackCounts,
    model: CountModel,
    settings: ExactSettings | None = None,
    *,
    on_message: OnMessage | None = None,
) -> GridPosterior:
    """The posterior from an unrefined surface, which other priors, deltas and fixed values share."""
    tolerance = (settings or ExactSettings()).tolerance_on(surface)
    settings = replace(settings or ExactSettings(), tolerance=tolerance)
    started = time.perf_counter()
    start: Panels | None = None
    previous: GridPosterior | None = None
    errors: list[float] = []
    for number in range(settings.most_levels):
        if on_message:
            on_message(f"refinement step {number + 1}")
        resolution = Resolution.number(number, planar=surface.planar)
        solution, surface = integrate(surface, model, resolution, start)
        posterior = from_solution(counts, model, solution, method=_method(surface, model))
        start = solution.panels
        if previous is not None:
            factor = 1.0 if surface.planar else STRENGTH_FACTOR
            errors.append(max(difference(previous, posterior, factor), surface.common_error))
            if errors[-1] <= tolerance:
                break
        previous = posterior
        if number + 1 < settings.most_levels:
            surface = surface.finer(number + 1, solution)
    levels, seconds = len(errors) + 1, time.perf_counter() - started
    accuracy = replace(posterior.accuracy, error=errors[-1], tolerance=tolerance, levels=levels)
    provenance = Provenance(engine="exact", settings=asdict(settings), seconds=seconds)
    return replace(
        posterior, accuracy=accuracy, provenance=provenance, engine=settings, surface=surface
    )


def _method(surface: Surface, model: CountModel) -> str:
    for name, prior in (("epsilon", model.epsilon), ("strength", model.strength)):
        if surface.method == "grid" and prior.fixed_value is not None:
            return f"fixed {name}"
    return surface.method


def difference(coarse: GridPosterior, fine: GridPosterior, strength_factor: float) -> float:
    """The largest change of the checked quantities between two refinement steps, relative above 1."""
    worst = EVIDENCE_SHARE * abs(fine.log_evidence - coarse.log_evidence)
    for name, factor in (("epsilon", 1.0), ("strength", strength_factor)):
        if name in fine.parameters:
            worst = max(worst, factor * distance(fine.marginals[name], coarse.marginals[name]))
    return worst


def distance(fine: PanelDensity, coarse: PanelDensity) -> float:
    """The largest difference in quantiles and mean between two densities, relative above 1."""
    quantiles = fine.quantile(PROBED)
    moved = np.abs(coarse.quantile(PROBED) - quantiles) / np.maximum(1.0, quantiles)
    mean = fine.mean()
    return max(float(moved.max()), abs(coarse.mean() - mean) / max(1.0, mean))
