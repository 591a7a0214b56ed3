"""The posterior of epsilon at many deltas for the price of a few: what `delta_curve.py` rests on.

Two savings.  Masses of R(t, d) are tabulated for d in [0, delta] anyway, so a table for the largest
delta serves every smaller one, and the panels that resolve one posterior serve its neighbours.  And the
log density of epsilon is a smooth function of delta: it is solved at a few deltas, called anchors, and
interpolated between them, but only where solves that took no part in it agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import masses
from epsilometer.inference.delta_solver import Probe, SeparateSolver, SharedSolver, Solver
from epsilometer.inference.exact import ExactSettings
from epsilometer.inference.exact_problem import Level
from epsilometer.inference.exact_solve import make_problem
from epsilometer.inference.panels import PanelDensity
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal

FloatArray = NDArray[np.float64]

FIRST_ANCHORS = 3
"""Deltas that are solved at rising levels before anything is interpolated."""

INTERPOLATED = 4
"""Anchors that a value between them is interpolated from."""

SHARE = 0.2
"""Part of the tolerance by which interpolation may miss a held-out solve in the middle of a gap."""

BEND = 0.3
"""The sharpness at which the posterior begins to follow delta: the scale of the axis of delta."""

FLOOR = 1e-13
"""Densities below this part of their peak are not told apart."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """The posterior of epsilon at one delta."""

    delta: float
    density: PanelDensity
    error: float
    solved: bool
    """Whether it was solved; otherwise it is interpolated between solved ones."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What came of it: points in the order of the deltas, and what was needed."""

    points: tuple[Point, ...]
    tolerance: float
    levels: int
    method: str


def sweep(
    counts: AttackCounts,
    model: AuditModel,
    deltas: FloatArray,
    settings: ExactSettings,
    report: Callable[[str], None],
) -> Sweep:
    """Posteriors of epsilon at increasing deltas."""
    planar = isinstance(model.likelihood, CorrelatedNormal) or model.scatters(counts)
    tolerance = settings.tolerance or (1e-2 if planar else 1e-3)
    settings = replace(settings, tolerance=tolerance)
    solver: Solver
    if model.scatters(counts):
        solver = SeparateSolver(counts, model, settings)
    else:
        solver = SharedSolver(counts, model, deltas, settings)
    axes = _axes(counts, model, deltas)
    anchors = _Anchors(solver, deltas, axes, report)
    first = _evenly(axes[0], FIRST_ANCHORS)
    # The ends first: the panels of the others lie between theirs.
    for index in [first[-1], *first[:-1]]:
        anchors.solve(index, certain=True)
    held_out, ways = np.zeros(len(deltas)), [WAYS[0]] * len(deltas)
    gaps = list(pairwise(first))
    while gaps:
        low, high = gaps.pop()
        errors = np.zeros(len(WAYS))
        for middle in _middles(axes, low, high):
            guesses = [anchors.interpolated(middle, way) for way in WAYS]
            anchors.solve(middle, certain=False)
            probe = Probe.of(anchors.densities[middle])
            errors = np.maximum(
                errors, [probe.distance(guess, SHARE * tolerance) for guess in guesses]
            )
        held_out[low + 1 : high] = errors.min()
        ways[low + 1 : high] = [WAYS[int(np.argmin(errors))]] * (high - low - 1)
        if errors.min() > SHARE * tolerance:
            inside = [low, *(i for i in sorted(anchors.densities) if low < i < high), high]
            gaps += [(a, b) for a, b in pairwise(inside) if b > a + 1]
    points = []
    for index, delta in enumerate(deltas):
        solved = index in anchors.densities
        error = anchors.level_error(index)
        points.append(
            Point(
                delta=float(delta),
                density=anchors.densities[index]
                if solved
                else anchors.interpolated(index, ways[index]),
                error=error if solved else max(error, float(held_out[index])),
                solved=solved,
            )
        )
    return Sweep(
        points=tuple(points), tolerance=tolerance, levels=solver.levels, method=solver.method
    )


def _axes(
    counts: AttackCounts, model: AuditModel, deltas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Two axes of delta on which posteriors may change smoothly.

    Where attacks tell something, the posterior follows delta only from where it moves a critical level
    by a good part of its width; after weak attacks it may follow the logarithm of any delta.
    """
    level = Level.number(0, correlated=isinstance(model.likelihood, CorrelatedNormal))
    family = make_problem(counts, model, level).family
    bend = 1e-6 * BEND / masses.sharpness(family, 1e-6)
    positive = deltas[deltas > 0]
    least = 0.1 * float(positive[0]) if len(positive) else 1.0
    return np.log(deltas + bend), np.log(deltas + least)


@dataclass(frozen=True, kw_only=True)
class _Way:
    """One way to interpolate: along which axis, and whether epsilon is measured in medians."""

    axis: int
    in_medians: bool


WAYS = tuple(_Way(axis=axis, in_medians=scaled) for scaled in (False, True) for axis in (0, 1))


def _evenly(axis: FloatArray, count: int) -> list[int]:
    """Indices whose values are spread evenly, both ends among them."""
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
    """The deltas solved so far, by index, and what lies between them."""

    def __init__(
        self,
        solver: Solver,
        deltas: FloatArray,
        axes: Sequence[FloatArray],
        report: Callable[[str], None],
    ) -> None:
        self._solver, self._deltas, self._axes, self._report = solver, deltas, axes, report
        self.densities: dict[int, PanelDensity] = {}
        self.errors: dict[int, float] = {}
        self._medians: dict[int, float] = {}

    def solve(self, index: int, *, certain: bool) -> None:
        """Solve at one of the deltas; ``certain`` asks for an error estimate of its own."""
        if index in self.densities:
            return
        delta = float(self._deltas[index])
        near = min(self.densities, key=lambda i: abs(i - index), default=None)
        self._report(f"delta {delta:.3g}")
        density, error = self._solver.solve(
            delta, None if near is None else float(self._deltas[near]), certain=certain
        )
        self.densities[index] = density
        self._medians[index] = float(density.quantile(0.5))
        if error is not None:
            self.errors[index] = error

    def level_error(self, index: int) -> float:
        """The change between levels, the larger of those on either side where they were not compared."""
        below = [i for i in self.errors if i <= index]
        above = [i for i in self.errors if i >= index]
        # Both ends were compared, so neither side is empty.
        return max(self.errors[max(below)], self.errors[min(above)])

    def interpolated(self, index: int, way: _Way) -> PanelDensity:
        """The density at a delta that was not solved, from those on either side."""
        known = sorted(self.densities)
        place = int(np.searchsorted(known, index))
        used = known[max(place - INTERPOLATED // 2, 0) : place + INTERPOLATED // 2]
        axis = self._axes[way.axis]
        weights = masses.lagrange(axis[used], np.array(axis[index]))
        medians = np.array([self._medians[i] for i in used])
        scales = np.ones(len(used))
        if way.in_medians:
            scales = medians / np.exp(weights @ np.log(medians))
        sides = [k for k, i in enumerate(used) if i in known[max(place - 1, 0) : place + 1]]
        finest = max(sides, key=lambda k: self.densities[used[k]].values.size)
        base = self.densities[used[finest]]
        nodes = base.nodes / scales[finest]
        logs = np.zeros_like(nodes)
        for weight, i, scale in zip(weights, used, scales, strict=True):
            values = self.densities[i].density(nodes * scale)
            logs += weight * np.log(np.maximum(values, FLOOR * values.max()))
        return PanelDensity(breaks=base.breaks / scales[finest], values=np.exp(logs - logs.max()))
