"""The unit square of error rates, shaded by how surely the region R(epsilon, delta) reaches there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import FloatArray
from epsilometer.inference.checks.predictive import fold
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.region_probability import region_probability
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, HeatMap, Line, Mark, Plot, Sheet

PRINT_POINTS, PAGE_POINTS = 401, 101
CORNER_POINTS, PAGE_CORNER_POINTS = 251, 91
"""Shades along each axis: so many that none is seen in print, and few enough for a page."""

LARGE_EPSILON = 2.0
"""Above this the corner of the region is drawn once more, enlarged."""


def region_boundary(epsilon: float, delta: float) -> tuple[FloatArray, FloatArray]:
    """The lower boundary of R(epsilon, delta), from (0, 1 - delta) to (1 - delta, 0)."""
    corner = (1 - delta) * np.exp(-epsilon) / (1 + np.exp(-epsilon))
    return np.array([0.0, corner, 1 - delta]), np.array([1 - delta, corner, 0.0])


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """The edge of the region for one epsilon."""

    epsilon: float
    label: str | None
    dashed: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionChart(Chart):
    """Attacks among the error rates that the posterior allows."""

    posterior: Posterior
    boundaries: tuple[Boundary, ...]

    name = "region"
    title = "Error rates that the posterior of epsilon allows"

    @classmethod
    def of(cls, posterior: Posterior, *, level: float) -> RegionChart:
        """The chart of a posterior with its median and interval."""
        if "epsilon" in posterior.parameters:
            low, high = posterior.credible_interval("epsilon", level)
            interval = f"{100 * level:g} % interval, {style.pair_text(low, high)}"
            middle = f"median, epsilon = {style.median_text(posterior, 'epsilon')}"
            lines: tuple[Boundary, ...] = (
                Boundary(epsilon=posterior.median("epsilon"), label=middle, dashed=False),
                Boundary(epsilon=low, label=interval, dashed=True),
                Boundary(epsilon=high, label=None, dashed=True),
            )
        else:
            fixed = posterior.median("epsilon")
            lines = (Boundary(epsilon=fixed, label=f"epsilon = {fixed:g} (fixed)", dashed=False),)
        return cls(posterior=posterior, boundaries=lines)

    @property
    def caption(self) -> str:
        text = (
            "Each dot is the attack on one challenge base: how often it raised a false alarm, and how "
            "often it missed a member. Differential privacy forbids the corner near (0, 0), where "
            "both are rare, and the corner opposite it; the smaller epsilon, the more it forbids. "
            f"The darker the ground, the surer the posterior is that delta = {self._delta:g} and the "
            "true epsilon allow an attack there."
        )
        if self.enlarged:
            text += (
                " The second plot enlarges the corner on logarithmic axes; a count of 0 is drawn as a "
                "third of an error, and attacks worse than guessing are reflected."
            )
        return text

    @property
    def enlarged(self) -> bool:
        """Whether epsilon is so large that the edge hugs the axes."""
        return self.boundaries[0].epsilon > LARGE_EPSILON

    @property
    def _delta(self) -> float:
        return self.posterior.model.delta

    def corner_dots(self) -> tuple[FloatArray, FloatArray]:
        """The attacks as the enlarged corner shows them; no errors stand at a third of one."""
        counts = self.posterior.counts
        alpha, beta = fold(counts.false_positive_rates, counts.false_negative_rates)
        return (
            np.maximum(alpha, 1 / (3 * counts.trials_h0)),
            np.maximum(beta, 1 / (3 * counts.trials_h1)),
        )

    def corner_floor(self) -> float:
        """The smallest rate that the enlarged corner shows."""
        alpha, beta = self.corner_dots()
        largest = max(line.epsilon for line in self.boundaries)
        return max(min(float(alpha.min()), float(beta.min()), float(np.exp(-largest))) / 2, 1e-12)

    def corner_edge(self, epsilon: float) -> list[tuple[FloatArray, FloatArray]]:
        """The two edges of the region in the enlarged corner, dense enough for log axes."""
        corner, floor = float(region_boundary(epsilon, self._delta)[0][1]), self.corner_floor()
        large = _up_to_one(corner, floor)
        small = np.exp(-epsilon) * (1 - self._delta - large)
        kept = small > 0
        return [(large[kept], small[kept]), (small[kept], large[kept])]

    def sheet(self, *, fine: bool) -> Sheet:
        points = PRINT_POINTS if fine else PAGE_POINTS
        counts = self.posterior.counts
        marks: list[Mark] = [self._shaded((np.arange(points) + 0.5) / points)]
        for line in self.boundaries:
            x, y = region_boundary(line.epsilon, self._delta)
            # Both edges as one line, so that the legend has one entry.
            marks.append(_edge([*x, np.nan, *(1 - x)], [*y, np.nan, *(1 - y)], line))
        marks.append(Line([0, 1], [1, 0], "grey", "guessing", width=1, dash="dot"))
        where = counts.false_positive_rates, counts.false_negative_rates
        label = "attack" if len(counts) == 1 else f"attacks ({len(counts):,})"
        marks.append(style.attack_points(counts, *where, label=label))
        plots = [style.unit_square("false-positive rate", "false-negative rate", marks)]
        if self.enlarged:
            plots.append(self._corner(fine))
        title = f"{self.title} (delta = {self._delta:g})"
        size = (11.4 if self.enlarged else 6.4, 6.0)
        return Sheet(title, plots, size, columns=len(plots), legend="below", bar=True)

    def _corner(self, fine: bool) -> Plot:
        floor, thin = self.corner_floor(), 1 if fine else 4
        ticks = np.geomspace(floor, 1.0, CORNER_POINTS if fine else PAGE_CORNER_POINTS)
        marks: list[Mark] = [self._shaded(ticks, above=False)]
        for line in self.boundaries:
            marks += [_edge(x[::thin], y[::thin], line) for x, y in self.corner_edge(line.epsilon)]
        guess = _up_to_one(floor, floor)[::thin]
        marks.append(Line(guess, 1 - guess, "grey", "guessing", width=1, dash="dot"))
        marks.append(style.attack_points(self.posterior.counts, *self.corner_dots()))
        across, up = (
            Axis(f"false-{kind} rate, enlarged", (floor, 1.05), logarithmic=True)
            for kind in ("positive", "negative")
        )
        return Plot(across, up, marks, legend=False, square=True)

    def _shaded(self, ticks: FloatArray, *, above: bool = True) -> HeatMap:
        """The probability of each point; those above the line of guessing may be left out."""
        shade = region_probability(self.posterior, ticks[None, :], ticks[:, None])
        if not above:
            shade = np.where(ticks[None, :] + ticks[:, None] > 1, np.nan, shade)
        hover = (
            "false-positive rate %{x:.3g}, false-negative rate %{y:.3g}<br>"
            "allowed with probability %{z:.3f}"
        )
        return HeatMap(ticks, ticks, shade, "probability that the region holds the point", hover)


def _up_to_one(start: float, floor: float) -> FloatArray:
    """Rates that are dense on a logarithmic axis both of themselves and of what is left to 1."""
    rising, falling = np.geomspace(start, 0.5, 200), np.geomspace(0.5, floor, 200)
    return np.concatenate([rising, 1 - falling])


def _edge(x: ArrayLike, y: ArrayLike, edge: Boundary) -> Line:
    return Line(x, y, "blue", edge.label, width=1.3, dash="dash" if edge.dashed else "solid")
