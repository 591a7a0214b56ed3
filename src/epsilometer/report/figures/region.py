"""The unit square of error rates, shaded by how surely the region R(epsilon, delta) reaches there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.posterior import Posterior
from epsilometer.inference.predictive import fold
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, GREY, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

PRINT_POINTS = 401
PAGE_POINTS = 101
CORNER_POINTS = 251
PAGE_CORNER_POINTS = 91

LARGE_EPSILON = 2.0
"""Above this the corner of the region is drawn once more, enlarged."""

SHADES = ["#FFFFFF", "#C6DBEF", "#6BAED6"]


def region_probability(posterior: Posterior, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Posterior probability that R(epsilon, delta) holds each point: P(epsilon >= critical)."""
    critical = region.critical_epsilon(alpha, beta, posterior.model.delta)
    probability = np.concatenate(
        [[0.0], np.geomspace(1e-6, 0.01, 60), np.linspace(0.01, 0.99, 981)[1:-1]]
    )
    probability = np.concatenate([probability, 1 - probability[60::-1]])
    quantiles = posterior.quantile("epsilon", probability)
    if quantiles[0] == quantiles[-1]:
        return np.asarray(quantiles[0] >= critical, dtype=float)
    return np.asarray(1 - np.interp(critical, np.maximum.accumulate(quantiles), probability))


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

    @property
    def _dots_label(self) -> str:
        count = len(self.posterior.counts)
        return "attack" if count == 1 else f"attacks ({count:,})"

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
        large = np.concatenate([np.geomspace(corner, 0.5, 200), 1 - np.geomspace(0.5, floor, 200)])
        small = np.exp(-epsilon) * (1 - self._delta - large)
        kept = small > 0
        return [(large[kept], small[kept]), (small[kept], large[kept])]

    # --- print ---

    def draw(self) -> Figure:
        from matplotlib.colors import LinearSegmentedColormap

        figure = style.new_figure(11.4 if self.enlarged else 6.4, 6.0)
        square, *corner = figure.subplots(1, 2 if self.enlarged else 1, squeeze=False)[0]
        shades = LinearSegmentedColormap.from_list("region", SHADES)
        ticks = _cells(PRINT_POINTS)
        image = square.imshow(
            region_probability(self.posterior, ticks[None, :], ticks[:, None]),
            origin="lower",
            extent=(0, 1, 0, 1),
            cmap=shades,
            vmin=0,
            vmax=1,
            interpolation="bilinear",
        )
        for line in self.boundaries:
            x, y = region_boundary(line.epsilon, self._delta)
            mark = "--" if line.dashed else "-"
            square.plot(x, y, mark, color=BLUE, linewidth=1.3, label=line.label)
            square.plot(1 - x, 1 - y, mark, color=BLUE, linewidth=1.3)
        square.plot([0, 1], [1, 0], ":", color=GREY, linewidth=1, label="guessing")
        counts = self.posterior.counts
        dots = style.dots(len(counts))
        square.plot(
            counts.false_positive_rates,
            counts.false_negative_rates,
            label=self._dots_label,
            **dots,
        )
        square.set(
            xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="false-negative rate"
        )
        square.set_aspect("equal")
        if corner:
            self._draw_corner(corner[0], shades, dots)
        figure.suptitle(f"{self.title} (delta = {self._delta:g})")
        figure.legend(*square.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        bar = figure.colorbar(image, ax=[square, *corner], shrink=0.85, pad=0.02)
        bar.set_label("probability that the region holds the point")
        return figure

    def _draw_corner(self, axes: Axes, shades: Any, dots: dict[str, Any]) -> None:
        floor = self.corner_floor()
        ticks, shade = self._corner_shade(CORNER_POINTS)
        axes.pcolormesh(ticks, ticks, shade, cmap=shades, vmin=0, vmax=1, rasterized=True)
        for line in self.boundaries:
            for x, y in self.corner_edge(line.epsilon):
                axes.plot(x, y, "--" if line.dashed else "-", color=BLUE, linewidth=1.3)
        axes.plot(*_guessing(floor), ":", color=GREY, linewidth=1)
        axes.plot(*self.corner_dots(), **dots)
        axes.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1))
        axes.set(xlabel="false-positive rate (log scale)", ylabel="false-negative rate (log scale)")
        axes.set_title(
            "the corner enlarged; a count of 0 drawn as a third of an error", fontsize=10
        )
        axes.set_aspect("equal")

    def _corner_shade(self, points: int) -> tuple[FloatArray, FloatArray]:
        ticks = np.geomspace(self.corner_floor(), 1.0, points)
        shade = region_probability(self.posterior, ticks[None, :], ticks[:, None])
        return ticks, np.where(ticks[None, :] + ticks[:, None] > 1, np.nan, shade)

    # --- page ---

    def panels(self) -> list[Panel]:
        counts = self.posterior.counts
        ticks = _cells(PAGE_POINTS)
        shade = region_probability(self.posterior, ticks[None, :], ticks[:, None])
        data = [_shaded(ticks, shade)]
        for line in self.boundaries:
            x, y = region_boundary(line.epsilon, self._delta)
            # Both edges in one trace, so that the legend has one entry.
            across = [*style.numbers(x), None, *style.numbers(1 - x)]
            up = [*style.numbers(y), None, *style.numbers(1 - y)]
            data.append(_edge(across, up, line))
        data.append(_dotted([0, 1], [1, 0]))
        data.append(_attacks(counts.false_positive_rates, counts.false_negative_rates, counts))
        data[-1]["name"] = self._dots_label
        rates = {"range": [-0.015, 1.015], "constrain": "domain"}
        square = style.layout(
            "false-positive rate",
            "false-negative rate",
            xaxis=rates,
            yaxis=rates | {"scaleanchor": "x"},
            showlegend=True,
        )
        found = [style.panel(data, square, square=True)]
        if self.enlarged:
            found.append(self._corner_panel())
        return found

    def _corner_panel(self) -> Panel:
        floor = self.corner_floor()
        ticks, shade = self._corner_shade(PAGE_CORNER_POINTS)
        data = [_shaded(ticks, shade)]
        for line in self.boundaries:
            for x, y in self.corner_edge(line.epsilon):
                data.append(_edge(style.numbers(x[::4]), style.numbers(y[::4]), line))
        guess = _guessing(floor)
        data.append(_dotted(style.numbers(guess[0][::8]), style.numbers(guess[1][::8])))
        data.append(_attacks(*self.corner_dots(), self.posterior.counts))
        axis = {"type": "log", "range": [float(np.log10(floor)), 0.02], "constrain": "domain"}
        frame = style.layout(
            "false-positive rate, enlarged",
            "false-negative rate, enlarged",
            xaxis=axis | {"dtick": 1},
            yaxis=axis | {"dtick": 1, "scaleanchor": "x"},
        )
        return style.panel(data, frame, square=True)


def _cells(points: int) -> FloatArray:
    return np.asarray((np.arange(points) + 0.5) / points)


def _guessing(floor: float) -> tuple[FloatArray, FloatArray]:
    guess = np.concatenate([np.geomspace(floor, 0.5, 200), 1 - np.geomspace(0.5, floor, 200)])
    return guess, 1 - guess


def _shaded(ticks: FloatArray, shade: FloatArray) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "x": style.numbers(ticks),
        "y": style.numbers(ticks),
        "z": style.numbers(shade, 4),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, style.SHADE.format(0)], [1, style.SHADE.format(0.5)]],
        "showscale": False,
        "hovertemplate": "false-positive rate %{x:.3g}, false-negative rate %{y:.3g}<br>"
        "allowed with probability %{z:.3f}<extra></extra>",
    }


def _edge(x: list[Any], y: list[Any], edge: Boundary) -> dict[str, Any]:
    dash, label = "dash" if edge.dashed else "solid", edge.label
    return style.line(x, y, "@blue", dash=dash, name=label or "", showlegend=label is not None)


def _dotted(x: list[Any], y: list[Any]) -> dict[str, Any]:
    return style.line(x, y, "@grey", width=1, dash="dot", name="guessing")


def _attacks(alpha: FloatArray, beta: FloatArray, counts: AttackCounts) -> dict[str, Any]:
    size = float(np.clip(18 / len(counts) ** 0.2, 4, 10))
    return {
        "type": "scatter",
        "mode": "markers",
        "x": style.numbers(alpha),
        "y": style.numbers(beta),
        "marker": {
            "color": "@orange",
            "size": size,
            "opacity": float(np.clip(30 / len(counts) ** 0.5, 0.35, 1.0)),
            "line": {"color": "@paper", "width": 0.8 if len(counts) <= 200 else 0},
        },
        "cliponaxis": False,
    } | style.hover_of_bases(counts)
