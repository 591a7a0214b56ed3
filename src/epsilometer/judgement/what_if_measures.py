"""Posteriors without their prior: the numbers that a page reweights when a reader moves a slider.

A *measure* lists components.  A component has an even axis of log leak, smallest first, and for each
cell of it the log weight that, times the prior density of epsilon, is the posterior probability.  A
*map* gives epsilon as a function of log leak at each delta.  For the count model the leak is epsilon
itself.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from epsilometer._arrays import FloatArray
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.curve.solve import Solution
from epsilometer.engines.exact.over_delta import DeltaCurve, estimate_curve
from epsilometer.model.mixtures import Curves
from epsilometer.model.priors import Prior
from epsilometer.posteriors.panels import PanelDensity

NEGLIGIBLE_CELL = 1e-7
"""Posterior probability below which a component is left out, whichever prior was tried."""

FAR = 26.0
"""Minus the log probability from which cells are left out, whichever prior was tried."""

MAP_ERROR = 1e-4
"""Relative error of epsilon between the knots of a map, or a tenth of that as an absolute error."""

KNOTS = (10, 16, 24, 36, 54, 80, 120)
"""Knots of a map: the first number that suffices is used."""

WIDEST_CELL, CELLS_PER_DEVIATION, SMALLEST = 0.04, 5.0, 1e-6
"""Cells of log epsilon for the count model: their width, and the smallest epsilon relative to the
largest."""

OVERLAP = 1e-3
"""Part of both peaks at which two densities are matched."""

FAINT = 1e-9
"""Densities below this part of their peak are polynomials' rounding errors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Component:
    """Log weights of cells around leaks that are even in the logarithm, smallest first."""

    first: float
    step: float
    log_weights: FloatArray
    map_number: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Log leak at the outer ends of the cells."""
        half = self.step / 2
        return self.first - half, self.first + self.step * (len(self.log_weights) - 1) + half

    def described(self, shift: float) -> dict[str, Any]:
        """As plain values; weights relative to ``shift``."""
        return {
            "first": self.first,
            "step": self.step,
            "weights": packed(self.log_weights - shift),
            "map": self.map_number,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Measure:
    """Components, and the log weight of no leak at all."""

    components: tuple[Component, ...]
    log_no_leak: float = -np.inf

    def described(self) -> dict[str, Any]:
        """As plain values, the largest weight 0."""
        shift = max(float(component.log_weights.max()) for component in self.components)
        nothing = self.log_no_leak - shift
        return {
            "noLeak": nothing if np.isfinite(nothing) else None,
            "components": [component.described(shift) for component in self.components],
        }


def packed(values: FloatArray) -> str:
    """Numbers as little-endian 32-bit floats in base64."""
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


# --- the curve model ------------------------------------------------------------------------


def measure_of_curves(
    posterior: CurvePosterior, solutions: Sequence[Solution]
) -> tuple[Measure, list[Curves]]:
    """The measure of a posterior, from solutions with several priors; and its distinct maps."""
    maps: dict[tuple[str, float], int] = {}
    curves_of: list[Curves] = []
    components = []
    for number, component in enumerate(posterior.solution.components):
        if max(solution.weights[number] for solution in solutions) < NEGLIGIBLE_CELL:
            continue
        curves = component.curves
        key = (curves.family.name, curves.rate if curves.subsampled else 1.0)
        if key not in maps:
            maps[key] = len(maps)
            curves_of.append(curves)
        components.append(_component(posterior, solutions, number, maps[key]))
    nothing = float(posterior.model.no_leak or 0.0)
    log_no_leak = float(np.log(nothing / (1 - nothing))) if nothing else -np.inf
    return Measure(components=tuple(components), log_no_leak=log_no_leak), curves_of


def _component(
    posterior: CurvePosterior, solutions: Sequence[Solution], number: int, map_number: int
) -> Component:
    """Of each row the log weight from the solution in which it matters most."""
    curves, delta = posterior.solution.components[number].curves, posterior.model.delta
    grid = posterior.solution.grids[posterior.solution.grid_of[number]]
    best = np.full(len(grid.leaks), -np.inf)
    weights = np.full(len(grid.leaks), np.nan)
    nothing = float(posterior.model.no_leak or 0.0)
    for solution in solutions:
        rows = solution.grids[solution.grid_of[number]].rows
        epsilon = curves.epsilon(grid.leaks[rows], delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(solution.probability[number].sum(axis=0))
            log_weights = logs + solution.log_evidence - np.log1p(-nothing)
            log_weights = log_weights - solution.model.epsilon.log_density(epsilon)
        better = np.isfinite(log_weights) & (logs > best[rows])
        best[rows] = np.where(better, logs, best[rows])
        weights[rows] = np.where(better, log_weights, weights[rows])
    known = np.flatnonzero(np.isfinite(weights) & (best > -FAR))
    inside = np.arange(known[0], known[-1] + 1)
    filled = np.interp(inside, known, weights[known])
    return Component(
        first=float(np.log(grid.leaks[inside[-1]])),
        step=posterior.solution.step,
        log_weights=filled[::-1],
        map_number=map_number,
    )


def share_beyond(measure: Measure, curves: Sequence[Curves], prior: Prior, delta: float) -> float:
    """Posterior probability beyond the ends of the axes, if likelihoods stayed as they are there."""
    inside = math.exp(measure.log_no_leak) if np.isfinite(measure.log_no_leak) else 0.0
    beyond = 0.0
    shift = max(float(component.log_weights.max()) for component in measure.components)
    inside *= math.exp(-shift)
    for component in measure.components:
        assert component.map_number is not None
        curve, size = curves[component.map_number], len(component.log_weights)
        centres = np.exp(component.first + component.step * np.arange(size))
        weights = np.exp(component.log_weights - shift)
        inside += float(weights @ np.exp(prior.log_density(curve.epsilon(centres, delta))))
        last = curve.epsilon(np.exp(component.ends[1] - np.array([component.step, 0.0])), delta)
        width = float(last[1] - last[0])
        if width > 0:
            beyond += float(weights[-1]) / width * prior.probability_above(float(last[1]))
    return beyond / (inside + beyond)


def map_of_curves(
    curves: Curves, ends: tuple[float, float], deltas: Sequence[float]
) -> dict[str, Any]:
    """Epsilon at each delta, as cubic splines over the cube root of the leak.

    Epsilon is 0 up to the first knot.  ``ends`` are log leaks.
    """
    low, high = (math.exp(end / 3) for end in ends)
    starts = [_start(curves, low, high, delta) for delta in deltas]
    tables = [
        _knots(curves, start, high, delta) for start, delta in zip(starts, deltas, strict=True)
    ]
    return {
        "end": high,
        "starts": starts,
        "knots": [len(values) for values in tables],
        "values": packed(np.concatenate(tables)),
    }


def _start(curves: Curves, low: float, high: float, delta: float) -> float:
    """Cube root of the leak from which epsilon is above 0."""
    leak = curves.largest_leak(0.0, delta)
    if leak > 0:
        return float(np.clip(np.cbrt(leak), low, high))
    return low if np.any(curves.epsilon(np.array([high**3]), delta) > 0) else high


def _knots(curves: Curves, start: float, end: float, delta: float) -> FloatArray:
    """Epsilon at as few knots as suffice."""
    if not end > start:
        return np.zeros(KNOTS[0])
    for count in KNOTS:
        axis = np.linspace(start, end, 2 * count - 1)
        exact = curves.epsilon(axis**3, delta)
        between = CubicSpline(axis[::2], exact[::2])(axis[1::2])
        allowed = MAP_ERROR * np.maximum(exact[1::2], 0.1)
        if np.all(np.abs(between - exact[1::2]) <= allowed):
            break
    return exact[::2]


def finite_deltas(curves: Sequence[Curves], largest: float, deltas: FloatArray) -> FloatArray:
    """The deltas at which all curves have an epsilon."""
    leak = np.array([np.exp(largest)])
    return np.array(
        [
            delta
            for delta in deltas.tolist()
            if all(np.isfinite(curve.epsilon(leak, delta)).all() for curve in curves)
        ]
    )


# --- the count model --------------------------------------------------------------------------


def measure_of_densities(found: Sequence[tuple[Prior, PanelDensity]]) -> Measure:
    """The measure behind posterior densities that differ in their priors only."""
    low = min(max(density.breaks[0], SMALLEST * density.breaks[-1]) for _, density in found)
    high = max(density.breaks[-1] for _, density in found)
    step = min(_cell(density) for _, density in found)
    axis = np.arange(np.log(low), np.log(high) + step, step)
    epsilon = np.exp(axis)
    logs, heights = [], []
    for prior, density in found:
        height = density.density(epsilon) / density.values.max()
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(height) - prior.log_density(epsilon)
        known = (height > FAINT) & np.isfinite(value)
        logs.append(np.where(known, value, 0.0))
        heights.append(np.where(known, height, 0.0))
    # Each is known up to a factor: they must agree where both matter most.
    weights, best = logs[0], heights[0]
    for value, height in zip(logs[1:], heights[1:], strict=True):
        meet = int(np.argmax(np.minimum(best, height)))
        shifted = value + (weights[meet] - value[meet])
        weights = np.where(height > best, shifted, weights)
        best = np.maximum(best, height)
    known = np.flatnonzero(best > 0)
    inside = np.arange(known[0], known[-1] + 1)
    filled = np.interp(inside, known, weights[known])
    # The width of a cell in epsilon.
    widths = axis[inside] + np.log(2 * np.sinh(step / 2))
    component = Component(first=float(axis[inside[0]]), step=step, log_weights=filled + widths)
    return Measure(components=(component,))


def _cell(density: PanelDensity) -> float:
    """A width of cells of log epsilon that a density is smooth on."""
    low, middle, high = density.quantile([0.16, 0.5, 0.84]).tolist()
    return float(min(WIDEST_CELL, (high - low) / 2 / middle / CELLS_PER_DEVIATION))


def measures_over_deltas(
    posterior: Any, priors: Sequence[Prior], deltas: Sequence[float]
) -> list[Measure]:
    """A measure at each delta, where each delta has its own model.

    Between the first prior and the last, densities must overlap; the others are tried where they do
    not.
    """
    outer = [priors[0], priors[-1]]
    curves = _curves(posterior, outer, deltas)
    if not all(_overlap([curve.at(delta) for curve in curves]) for delta in deltas):
        outer, curves = list(priors), _curves(posterior, priors, deltas)
    return [
        measure_of_densities(
            [(prior, curve.at(delta)) for prior, curve in zip(outer, curves, strict=True)]
        )
        for delta in deltas
    ]


def _curves(posterior: Any, priors: Sequence[Prior], deltas: Sequence[float]) -> list[DeltaCurve]:
    return [
        estimate_curve(posterior.counts, replace(posterior.model, epsilon=prior), deltas)
        for prior in priors
    ]


def _overlap(densities: Sequence[PanelDensity]) -> bool:
    """Whether there is an epsilon at which both densities are far above rounding errors."""
    epsilon = np.linspace(0, max(density.breaks[-1] for density in densities), 2000)
    heights = [density.density(epsilon) / density.values.max() for density in densities]
    return bool(np.min(heights, axis=0).max() > OVERLAP)
