"""The posterior of epsilon at many deltas for the cost of a few.

Two savings.  Masses of R(t, d) are tabulated for d in [0, delta] anyway, so a table for the largest
delta serves every smaller one, and panels that resolve one posterior serve its neighbours.  And the log
density of epsilon is a smooth function of delta: it is solved at a few deltas, called anchors, and
interpolated between them, but only where held-out solves agree.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair, OnMessage
from epsilometer.engines.exact.engine import PROBED, ExactSettings, distance, make_surface
from epsilometer.engines.exact.groups import Surface
from epsilometer.engines.exact.integrate import Panels, Solution, first_end, integrate
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.posteriors.over_delta import DeltaCurve, SweepPoint
from epsilometer.posteriors.panels import PanelDensity, lagrange, remainder
from epsilometer.posteriors.provenance import Provenance

#: Deltas solved with error estimates before anything is interpolated.
FIRST_ANCHORS = 3

#: Number of anchors used to interpolate a value.
INTERPOLATED = 4

#: Share of the tolerance allowed for the interpolation error at a held-out solve within a gap.
SHARE = 0.2

#: The sharpness at which the posterior starts to depend on delta: sets the scale of the delta axis.
BEND = 0.3

#: Densities below this share of their peak are not distinguished: panels end there.
FLOOR = 1e-6

#: A density still above this share of its peak at the end of its panels was cut off.
EDGE = 1e-5


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
    chosen = np.array(_validate.deltas(np.ravel(deltas).tolist()))
    settings = engine or ExactSettings()
    model.likelihood.check(counts)
    started = time.perf_counter()
    anchors = _Anchors(counts, model, chosen, settings, on_message or (lambda _: None))
    points = _sweep(anchors)
    how = {
        "tolerance": anchors.tolerance,
        "most_levels": settings.most_levels,
        "levels": anchors.refinements,
        "method": "shared tables",
        "deltas_solved": sum(point.solved for point in points),
    }
    seconds = time.perf_counter() - started
    provenance = Provenance(engine="exact", settings=how, seconds=seconds)
    return DeltaCurve(
        counts=counts,
        model=model,
        points=points,
        tolerance=anchors.tolerance,
        provenance=provenance,
    )


def _sweep(anchors: _Anchors) -> tuple[SweepPoint, ...]:
    """Posteriors of epsilon at all deltas, solved or interpolated."""
    deltas, axes, enough = anchors.deltas, anchors.axes, SHARE * anchors.tolerance
    # Evenly spread, and the ends first: the panels of the others lie between theirs.
    wanted = np.linspace(axes[0][0], axes[0][-1], FIRST_ANCHORS)
    first = sorted({int(np.argmin(np.abs(axes[0] - value))) for value in wanted})
    for index in [first[-1], *first[:-1]]:
        anchors.solve(index, certain=True)
    held_out, chosen = np.zeros(len(deltas)), [INTERPOLATIONS[0]] * len(deltas)
    gaps = list(pairwise(first))
    while gaps:
        low, high = gaps.pop()
        errors = np.zeros(len(INTERPOLATIONS))
        for middle in _middles(axes, low, high):
            guesses = [anchors.interpolated(middle, *how) for how in INTERPOLATIONS]
            anchors.solve(middle, certain=False)
            distances = _distances(anchors.densities[middle], guesses, enough)
            errors = np.maximum(errors, np.nan_to_num(distances, nan=np.inf))
        held_out[low + 1 : high] = errors.min()
        chosen[low + 1 : high] = [INTERPOLATIONS[int(np.argmin(errors))]] * (high - low - 1)
        if errors.min() > enough:
            inside = [low, *(i for i in sorted(anchors.densities) if low < i < high), high]
            gaps += [(a, b) for a, b in pairwise(inside) if b > a + 1]
    points = []
    for index, delta in enumerate(deltas.tolist()):
        density, error = anchors.densities.get(index), anchors.refinement_error(index)
        solved = density is not None
        if density is None:
            density = anchors.interpolated(index, *chosen[index])
            error = max(error, float(held_out[index]))
        points.append(SweepPoint(delta=delta, density=density, error=error, solved=solved))
    return tuple(points)


def _axes(sharpness: float, deltas: FloatArray) -> FloatPair:
    """Two axes of delta on which posteriors may change smoothly.

    With informative attacks, the posterior depends on delta only once delta shifts a critical epsilon
    by a good part of its width; with weak attacks it may depend on the logarithm of any delta.
    """
    positive = deltas[deltas > 0]
    least = 0.1 * float(positive[0]) if len(positive) else 1.0
    return np.log(deltas + BEND / sharpness), np.log(deltas + least)


def _middles(axes: FloatPair, low: int, high: int) -> list[int]:
    """The indices in the middle of a gap, along each axis."""
    if high <= low + 1:
        return []
    inner = np.arange(low + 1, high)
    nearest = (np.abs(axis[inner] - 0.5 * (axis[low] + axis[high])) for axis in axes)
    return sorted({int(inner[np.argmin(gap)]) for gap in nearest})


def _distances(
    density: PanelDensity, guesses: Sequence[PanelDensity], enough: float
) -> list[float]:
    """The largest difference of each guess in quantiles and mean, relative above 1.

    A first-order estimate is used if it is below ``enough``, which saves computing a guess's quantiles;
    where a density has a valley the first-order estimate is far too large.
    """
    quantiles, mean = density.quantile(PROBED), density.mean()
    slopes = np.maximum(density.density(quantiles), 1e-300)
    found = []
    for guess in guesses:
        gap = np.abs(guess.cdf(quantiles) - PROBED) / slopes
        moved = float((gap / np.maximum(1.0, quantiles)).max())
        if moved > enough:
            found.append(distance(density, guess))
        else:
            found.append(max(moved, abs(guess.mean() - mean) / max(1.0, mean)))
    return found


#: How to interpolate: along which axis, and whether epsilon is measured in units of the median.
INTERPOLATIONS = tuple((axis, in_medians) for in_medians in (False, True) for axis in (0, 1))


class _Anchors:
    """The deltas solved so far, by index, and interpolation between them.

    Tables are shared by all deltas; panels are reused from the nearest one.
    """

    def __init__(
        self,
        counts: AttackCounts,
        model: CountModel,
        deltas: FloatArray,
        settings: ExactSettings,
        on_message: OnMessage,
    ) -> None:
        surface = make_surface(counts, model, deltas.tolist())
        self.deltas, self._model, self._on_message = deltas, model, on_message
        self._most_levels, self.tolerance = settings.most_levels, settings.tolerance_on(surface)
        self.axes = _axes(surface.guess.sharpness(1e-6) / 1e-6, deltas)
        self.refinements = 1
        self.densities: dict[int, PanelDensity] = {}
        self._medians: dict[int, float] = {}
        self._errors: dict[int, float] = {}
        self._surfaces: dict[int, Surface] = {0: surface}
        self._solutions: dict[int, Solution] = {}
        self._panels: dict[tuple[int, int], Panels] = {}

    def solve(self, index: int, *, certain: bool) -> None:
        """Solve at one of the deltas; with ``certain`` also compare refinements, for its own error.

        Plane quadrature always compares: its panels are refined in the first step only.
        """
        if index in self.densities:
            return
        near = min(self.densities, key=lambda i: abs(i - index), default=None)
        self._on_message(f"delta {self.deltas[index]:.3g}")
        compared = certain or self._surfaces[0].planar
        before: PanelDensity | None = None
        for number in range(0 if compared else self.refinements - 1, self._most_levels):
            density = self._solved(index, number, near)
            if before is not None:
                self._errors[index] = distance(density, before)
                self.refinements = max(self.refinements, number + 1)
            before = density
            if not compared or self._errors.get(index, np.inf) <= self.tolerance:
                break
        self.densities[index] = density
        self._medians[index] = float(density.quantile(0.5))

    def _solved(self, index: int, number: int, near: int | None) -> PanelDensity:
        """Solve at one refinement; panels of another delta are discarded if they are inadequate."""
        own_panels = self._panels.get((index, number - 1))
        other = None if near is None or own_panels is not None else self._panels.get((near, number))
        planar = self._surfaces[0].planar
        resolution = Resolution.number(number, planar=planar)
        if own_panels is None:
            # This delta's own panels have not been determined: refine as in the first step.
            first = Resolution.number(0, planar=planar)
            resolution = replace(resolution, rounds=first.rounds, tolerance=first.tolerance)
        if other is not None:
            # Panels that are the same at neighbouring deltas make densities easy to interpolate.
            density = self._integrated(index, number, replace(resolution, rounds=1), other)
            if not self._cut_off(density) and remainder(density) <= resolution.tolerance:
                return density
        return self._integrated(index, number, resolution, own_panels)

    def _integrated(
        self, index: int, number: int, resolution: Resolution, start: Panels | None
    ) -> PanelDensity:
        if number not in self._surfaces:
            coarser = max(step for step in self._surfaces if step < number)
            nearest = self._solutions[coarser]
            self._surfaces[number] = self._surfaces[coarser].finer(number, nearest)
        model = replace(self._model, delta=float(self.deltas[index]))
        surface = self._surfaces[number]
        solution, self._surfaces[number] = integrate(surface, model, resolution, start)
        self._solutions[number] = solution
        self._panels[index, number] = solution.panels
        return PanelDensity(breaks=solution.panels.epsilon, values=solution.marginal())

    def _cut_off(self, density: PanelDensity) -> bool:
        """Whether panels made for another delta end where this density does not."""
        least = EDGE * density.values.max()
        end = first_end(self._model.epsilon)
        above = density.breaks[-1] < end and density.values[-1, -1] > least
        smallest = self._surfaces[0].smallest_epsilon
        below = density.breaks[0] > smallest and density.values[0, 0] > least
        return bool(above or below)

    def refinement_error(self, index: int) -> float:
        """The change between refinements; where not compared, the larger of the two neighbours'."""
        below = max(i for i in self._errors if i <= index)
        above = min(i for i in self._errors if i >= index)
        # Both ends were compared, so neither side is empty.
        return max(self._errors[below], self._errors[above])

    def interpolated(self, index: int, along: int, in_medians: bool) -> PanelDensity:
        """The density at a delta that was not solved, from those on either side."""
        known = sorted(self.densities)
        place = int(np.searchsorted(known, index))
        used = known[max(place - INTERPOLATED // 2, 0) : place + INTERPOLATED // 2]
        axis = self.axes[along]
        weights = lagrange(axis[used], np.array(axis[index]))
        scales = np.ones(len(used))
        if in_medians:
            medians = np.array([self._medians[i] for i in used])
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
