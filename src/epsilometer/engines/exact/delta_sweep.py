"""The posterior of epsilon at many deltas for the cost of a few.

Two savings.  Masses of R(t, d) are tabulated for d in [0, delta] anyway, so a table for the largest
delta serves every smaller one, and panels that resolve one posterior serve its neighbours.  And the log
density of epsilon is a smooth function of delta: it is solved at a few deltas, called anchors, and
interpolated between them, but only where held-out solves agree.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from epsilometer._arrays import FloatArray, FloatPair, OnMessage
from epsilometer.engines.exact.engine import PROBED, ExactSettings, distance, make_surface
from epsilometer.engines.exact.integrate import Panels, Solution, first_end, integrate
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.engines.exact.surface import Surface
from epsilometer.errors import InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.deltas import checked_deltas
from epsilometer.posteriors.over_delta import DeltaCurve, SweepPoint
from epsilometer.posteriors.panels import PanelDensity, lagrange, remainder
from epsilometer.posteriors.provenance import Provenance

FIRST_ANCHORS = 3
"""Deltas solved with error estimates before anything is interpolated."""

INTERPOLATED = 4
"""Number of anchors used to interpolate a value."""

SHARE = 0.2
"""Share of the tolerance allowed for the interpolation error at a held-out solve within a gap."""

BEND = 0.3
"""The sharpness at which the posterior starts to depend on delta: sets the scale of the delta axis."""

FLOOR = 1e-6
"""Densities below this share of their peak are not distinguished: panels end there."""

EDGE = 1e-5
"""A density still above this share of its peak at the end of its panels was cut off."""


def estimate_curve(
    counts: AttackCounts,
    model: CountModel,
    deltas: Sequence[float] | FloatArray,
    engine: ExactSettings | None = None,
    *,
    on_message: OnMessage | None = None,
) -> DeltaCurve:
    """Estimate epsilon at each of several deltas, far cheaper than in separate runs.

    Parameters
    ----------
    counts
        Error counts, one entry per challenge base.
    model
        The model; its delta is replaced by each of ``deltas``.
    deltas
        Distinct, each in [0, 1), in any order.
    engine
        Settings of the exact engine; MCMC cannot estimate curves.
    on_message
        Called with a line of text from time to time, for a progress display.

    Returns
    -------
    DeltaCurve
        At each delta the posterior of ``estimate(counts, replace(model, delta=delta))``, to the engine's
        tolerance.  Check ``curve.trustworthy`` before you quote it.

    Raises
    ------
    InputError
        If epsilon is fixed, so there is nothing to estimate, or the deltas are invalid.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[100], trials_h0=1000, false_negatives=[300], trials_h1=1000
    ... )
    >>> curve = estimate_curve(counts, CountModel(delta=0.0), [1e-6, 1e-4, 1e-2])
    >>> curve.median.round(2).tolist(), curve.trustworthy
    ([2.54, 2.54, 2.52], True)
    """
    if engine is not None and not isinstance(engine, ExactSettings):
        raise InputError(f"expected ExactSettings for curves over delta, got engine={engine!r}.")
    if model.epsilon.fixed_value is not None:
        raise InputError(
            f"expected a prior of epsilon to estimate a curve, got epsilon={model.epsilon!r}."
        )
    chosen = checked_deltas(deltas)
    settings = engine or ExactSettings()
    model.likelihood.check(counts)
    started = time.perf_counter()
    swept = sweep(counts, model, chosen, settings, on_message or (lambda _: None))
    return DeltaCurve(
        counts=counts,
        model=model,
        points=swept.points,
        tolerance=swept.tolerance,
        provenance=Provenance(
            engine="exact",
            settings={
                "tolerance": swept.tolerance,
                "most_levels": settings.most_levels,
                "levels": swept.refinements,
                "method": "shared tables",
                "deltas_solved": sum(point.solved for point in swept.points),
            },
            seconds=time.perf_counter() - started,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The result: points in the order of the deltas, the tolerance and the refinement steps used."""

    points: tuple[SweepPoint, ...]
    tolerance: float
    refinements: int


def sweep(
    counts: AttackCounts,
    model: CountModel,
    deltas: FloatArray,
    settings: ExactSettings,
    on_message: OnMessage,
) -> Sweep:
    """Posteriors of epsilon at increasing deltas."""
    solver = _Solver(counts, model, deltas, settings)
    tolerance = solver.tolerance
    axes = _axes(solver.sharpness, deltas)
    anchors = _Anchors(solver, deltas, axes, on_message)
    first = _evenly(axes[0], FIRST_ANCHORS)
    # The ends first: the panels of the others lie between theirs.
    for index in [first[-1], *first[:-1]]:
        anchors.solve(index, certain=True)
    held_out, chosen = np.zeros(len(deltas)), [INTERPOLATIONS[0]] * len(deltas)
    gaps = list(pairwise(first))
    while gaps:
        low, high = gaps.pop()
        errors = np.zeros(len(INTERPOLATIONS))
        for middle in _middles(axes, low, high):
            guesses = [
                anchors.interpolated(middle, interpolation) for interpolation in INTERPOLATIONS
            ]
            anchors.solve(middle, certain=False)
            probe = _Probe.of(anchors.densities[middle])
            distances = [probe.distance(guess, SHARE * tolerance) for guess in guesses]
            errors = np.maximum(errors, np.nan_to_num(distances, nan=np.inf))
        held_out[low + 1 : high] = errors.min()
        chosen[low + 1 : high] = [INTERPOLATIONS[int(np.argmin(errors))]] * (high - low - 1)
        if errors.min() > SHARE * tolerance:
            inside = [low, *(i for i in sorted(anchors.densities) if low < i < high), high]
            gaps += [(a, b) for a, b in pairwise(inside) if b > a + 1]
    points = []
    for index, delta in enumerate(deltas):
        solved = index in anchors.densities
        error = anchors.refinement_error(index)
        points.append(
            SweepPoint(
                delta=float(delta),
                density=anchors.densities[index]
                if solved
                else anchors.interpolated(index, chosen[index]),
                error=error if solved else max(error, float(held_out[index])),
                solved=solved,
            )
        )
    return Sweep(points=tuple(points), tolerance=tolerance, refinements=solver.refinements)


def _axes(sharpness: float, deltas: FloatArray) -> FloatPair:
    """Two axes of delta on which posteriors may change smoothly.

    With informative attacks, the posterior depends on delta only once delta shifts a critical epsilon
    by a good part of its width; with weak attacks it may depend on the logarithm of any delta.
    """
    positive = deltas[deltas > 0]
    least = 0.1 * float(positive[0]) if len(positive) else 1.0
    return np.log(deltas + BEND / sharpness), np.log(deltas + least)


@dataclass(frozen=True, kw_only=True)
class _Probe:
    """A density with its quantiles, to compare others with; quantiles cost much more than look-ups."""

    density: PanelDensity
    quantiles: FloatArray
    slopes: FloatArray

    @classmethod
    def of(cls, density: PanelDensity) -> _Probe:
        quantiles = density.quantile(PROBED)
        return cls(density=density, quantiles=quantiles, slopes=density.density(quantiles))

    def distance(self, other: PanelDensity, enough: float) -> float:
        """The largest difference in quantiles and mean, relative above 1.

        A first-order estimate is returned if it is below ``enough``, which saves computing the other's
        quantiles; where a density has a valley the first-order estimate is far too large.
        """
        mean = self.density.mean()
        gap = np.abs(other.cdf(self.quantiles) - PROBED) / np.maximum(self.slopes, 1e-300)
        moved = float((gap / np.maximum(1.0, self.quantiles)).max())
        if moved > enough:
            return distance(self.density, other)
        return max(moved, abs(other.mean() - mean) / max(1.0, mean))


class _Solver:
    """Solve for one of many deltas: tables are shared, panels are reused from the nearest delta."""

    def __init__(
        self, counts: AttackCounts, model: CountModel, deltas: FloatArray, settings: ExactSettings
    ) -> None:
        surface = make_surface(counts, model, tuple(float(delta) for delta in deltas))
        self._model, self._settings = model, settings.for_surface(surface)
        self._surfaces: dict[int, Surface] = {0: surface}
        self._panels: dict[tuple[float, int], Panels] = {}
        self._solutions: dict[int, Solution] = {}
        self.refinements = 1
        self.sharpness = surface.guess.sharpness(1e-6) / 1e-6

    @property
    def tolerance(self) -> float:
        """The requested tolerance."""
        assert self._settings.tolerance is not None
        return self._settings.tolerance

    def solve(
        self, delta: float, near: float | None, *, certain: bool
    ) -> tuple[PanelDensity, float | None]:
        """The density and its error.  Unless ``certain``, refinements are not compared: error None.

        Plane quadrature always compares: its panels are refined in the first step only.
        """
        planar = self._surfaces[0].planar
        start = 0 if certain or planar else self.refinements - 1
        before: PanelDensity | None = None
        error: float | None = None
        for number in range(start, self._settings.most_levels):
            density = self._solve_at(delta, number, near)
            if before is not None:
                error = distance(density, before)
                self.refinements = max(self.refinements, number + 1)
            before = density
            if not certain and not planar:
                break
            if error is not None and error <= self.tolerance:
                break
        return density, error

    def _solve_at(self, delta: float, number: int, near: float | None) -> PanelDensity:
        """Solve at one refinement; panels of another delta are discarded if they are inadequate."""
        model = replace(self._model, delta=delta)
        own_panels = self._panels.get((delta, number - 1))
        other = None if near is None or own_panels is not None else self._panels.get((near, number))
        planar = self._surfaces[0].planar
        resolution = Resolution.number(number, planar=planar)
        if own_panels is None:
            # This delta's own panels have not been determined: refine as in the first step.
            first = Resolution.number(0, planar=planar)
            resolution = replace(resolution, rounds=first.rounds, tolerance=first.tolerance)
        if other is not None:
            # Panels that are the same at neighbouring deltas make densities easy to interpolate.
            once = replace(resolution, rounds=1)
            density = self._integrated(number, model, once, other)
            if not self._cut_off(density) and remainder(density) <= resolution.tolerance:
                return density
        return self._integrated(number, model, resolution, own_panels)

    def _integrated(
        self, number: int, model: CountModel, resolution: Resolution, start: Panels | None
    ) -> PanelDensity:
        if number not in self._surfaces:
            coarser = max(step for step in self._surfaces if step < number)
            nearest = self._solutions[coarser]
            self._surfaces[number] = self._surfaces[coarser].finer(number, nearest)
        solution, self._surfaces[number] = integrate(
            self._surfaces[number], model, resolution, start
        )
        self._solutions[number] = solution
        self._panels[model.delta, number] = solution.panels
        return PanelDensity(breaks=solution.breaks, values=solution.marginal())

    def _cut_off(self, density: PanelDensity) -> bool:
        """Whether panels made for another delta end where this density does not."""
        least = EDGE * density.values.max()
        end = first_end(self._model.epsilon)
        above = density.breaks[-1] < end and density.values[-1, -1] > least
        smallest = self._surfaces[0].smallest_epsilon
        below = density.breaks[0] > smallest and density.values[0, 0] > least
        return bool(above or below)


@dataclass(frozen=True, kw_only=True)
class _Interpolation:
    """How to interpolate: along which axis, and whether epsilon is measured in units of the median."""

    axis: int
    in_medians: bool


INTERPOLATIONS = tuple(
    _Interpolation(axis=axis, in_medians=scaled) for scaled in (False, True) for axis in (0, 1)
)


def _evenly(axis: FloatArray, count: int) -> list[int]:
    """Indices whose values are evenly spread, including both ends."""
    wanted = np.linspace(axis[0], axis[-1], count)
    return sorted({int(np.argmin(np.abs(axis - value))) for value in wanted})


def _middles(axes: Sequence[FloatArray], low: int, high: int) -> list[int]:
    """The indices in the middle of a gap, along each axis."""
    if high <= low + 1:
        return []
    inner = np.arange(low + 1, high)
    return sorted(
        {
            int(inner[np.argmin(np.abs(axis[inner] - 0.5 * (axis[low] + axis[high])))])
            for axis in axes
        }
    )


class _Anchors:
    """The deltas solved so far, by index, and interpolation between them."""

    def __init__(
        self, solver: _Solver, deltas: FloatArray, axes: Sequence[FloatArray], on_message: OnMessage
    ) -> None:
        self._solver, self._deltas, self._axes, self._on_message = solver, deltas, axes, on_message
        self.densities: dict[int, PanelDensity] = {}
        self.errors: dict[int, float] = {}
        self._medians: dict[int, float] = {}

    def solve(self, index: int, *, certain: bool) -> None:
        """Solve at one of the deltas; with ``certain`` also estimate its own error."""
        if index in self.densities:
            return
        delta = float(self._deltas[index])
        near = min(self.densities, key=lambda i: abs(i - index), default=None)
        self._on_message(f"delta {delta:.3g}")
        density, error = self._solver.solve(
            delta, None if near is None else float(self._deltas[near]), certain=certain
        )
        self.densities[index] = density
        self._medians[index] = float(density.quantile(0.5))
        if error is not None:
            self.errors[index] = error

    def refinement_error(self, index: int) -> float:
        """The change between refinements; where not compared, the larger of the two neighbours'."""
        below = [i for i in self.errors if i <= index]
        above = [i for i in self.errors if i >= index]
        # Both ends were compared, so neither side is empty.
        return max(self.errors[max(below)], self.errors[min(above)])

    def interpolated(self, index: int, interpolation: _Interpolation) -> PanelDensity:
        """The density at a delta that was not solved, from those on either side."""
        known = sorted(self.densities)
        place = int(np.searchsorted(known, index))
        used = known[max(place - INTERPOLATED // 2, 0) : place + INTERPOLATED // 2]
        axis = self._axes[interpolation.axis]
        weights = lagrange(axis[used], np.array(axis[index]))
        medians = np.array([self._medians[i] for i in used])
        scales = np.ones(len(used))
        if interpolation.in_medians:
            with np.errstate(divide="ignore", over="ignore"):
                scales = medians / np.exp(weights @ np.log(medians))
        sides = [k for k, i in enumerate(used) if i in known[max(place - 1, 0) : place + 1]]
        finest = max(sides, key=lambda k: self.densities[used[k]].values.size)
        base = self.densities[used[finest]]
        if not np.all(np.isfinite(scales)) or not np.all(np.diff(base.breaks / scales[finest]) > 0):
            # Medians too far apart to be interpolated: the comparison will detect it.
            return base
        nodes = base.nodes / scales[finest]
        logs, faint = np.zeros_like(nodes), np.zeros(nodes.shape, dtype=bool)
        for weight, i, scale in zip(weights, used, scales, strict=True):
            values = self.densities[i].density(nodes * scale)
            least = FLOOR * self.densities[i].values.max()
            logs += weight * np.log(np.maximum(values, least))
            faint |= values <= least
        # Weights may be large, and could make the ends of panels negative.
        logs = np.where(faint, np.log(np.maximum(base.values, 1e-300)), logs)
        return PanelDensity(breaks=base.breaks / scales[finest], values=np.exp(logs - logs.max()))
