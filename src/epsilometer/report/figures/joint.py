"""The joint posterior of epsilon and the strength of the attacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.posterior import Posterior
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import ORANGE, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

DRAWS = 250_000
BINS = 200
LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Probabilities of the highest-density regions."""

SHADES = ("#08519C", "#4292C6", "#9ECAE1", "#DEEBF7")
OPACITIES = (0.95, 0.65, 0.35, 0.15)


def joint_density(
    posterior: Posterior, *, draws: int = DRAWS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Density of (epsilon, strength) on a grid: edges in epsilon, edges in strength, values.

    A histogram of draws, smoothed just enough to draw contours.
    """
    from scipy.ndimage import gaussian_filter

    if isinstance(posterior, SamplePosterior):
        pair = [np.ravel(posterior.samples[name]) for name in ("epsilon", "strength")]
    else:
        drawn = posterior.draws(draws, rng=np.random.default_rng(style.FIGURE_SEED))
        pair = [drawn["epsilon"], drawn["strength"]]
    edges = []
    # epsilon may have a long tail, which would leave little room for the rest.
    for values, most, shown in zip(pair, (np.inf, 1.0), (0.996, 0.9999), strict=True):
        low, high = np.quantile(values, [0.0005, shown])
        room = max(0.06 * (high - low), 1e-9 * abs(high), 1e-12)
        edges.append(np.linspace(max(low - room, 0.0), min(high + room, most), BINS + 1))
    counts = np.histogram2d(pair[0], pair[1], bins=edges)[0]
    # Fewer draws need a wider kernel: Scott's rule, in bins.
    width = [
        float(np.clip(_spread(values) / (edge[1] - edge[0]) * len(values) ** (-1 / 6), 1.2, 12))
        for values, edge in zip(pair, edges, strict=True)
    ]
    smooth = gaussian_filter(counts, width, mode="reflect")
    area = np.diff(edges[0])[0] * np.diff(edges[1])[0]
    return edges[0], edges[1], smooth / (smooth.sum() * area)


def _spread(values: FloatArray) -> float:
    """A standard deviation that heavy tails do not move."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 1.35


@dataclass(frozen=True, kw_only=True, eq=False)
class JointChart(Chart):
    """Highest-density regions of epsilon and the strength together."""

    epsilon: FloatArray
    strength: FloatArray
    density: FloatArray
    medians: tuple[float, float]

    name = "joint"
    title = "Joint posterior of epsilon and the attack strength"

    @classmethod
    def of(cls, posterior: Posterior) -> JointChart:
        """The chart of a posterior in which both are estimated."""
        epsilon, strength, density = joint_density(posterior)
        return cls(
            epsilon=0.5 * (epsilon[1:] + epsilon[:-1]),
            strength=0.5 * (strength[1:] + strength[:-1]),
            density=density,
            medians=(posterior.median("epsilon"), posterior.median("strength")),
        )

    @property
    def caption(self) -> str:
        return (
            "How the answer trades off: strong attacks that err this often leave epsilon small, weak "
            "attacks would leave room for a large one. Strength 1 would mean that every attack was "
            "the best possible on the worst base; it is estimated, never assumed."
        )

    def held(self) -> FloatArray:
        """For each cell, the probability of the smallest region that reaches it."""
        flat = self.density.ravel()
        order = np.argsort(flat)[::-1]
        content = np.empty(len(flat))
        content[order] = np.cumsum(flat[order]) / flat.sum()
        return content.reshape(self.density.shape)

    def draw(self) -> Figure:
        from matplotlib.patches import Patch

        falling = np.sort(self.density.ravel())[::-1]
        held = np.cumsum(falling) / falling.sum()
        cuts = [falling[min(int(np.searchsorted(held, p)), len(held) - 1)] for p in LEVELS]
        levels = np.unique([*cuts, float(falling[0]) * 1.0001])
        figure = style.new_figure(6.4, 4.8)
        axes = figure.add_subplot()
        shades = list(SHADES[: len(levels) - 1])[::-1]
        axes.contourf(self.epsilon, self.strength, self.density.T, levels=levels, colors=shades)
        axes.contour(
            self.epsilon, self.strength, self.density.T, levels=levels[:-1], colors="white",
            linewidths=0.5,
        )  # fmt: skip
        (marker,) = axes.plot(
            *self.medians,
            "P",
            color=ORANGE,
            markeredgecolor="white",
            markersize=10,
            linestyle="none",
            label="medians",
        )
        patches: list[Any] = [
            Patch(color=shade, label=f"{100 * p:g} %")
            for p, shade in zip(LEVELS, reversed(shades), strict=False)
        ]
        axes.legend(
            handles=[*patches, marker], title="smallest region holding", fontsize=9, framealpha=0.92
        )
        axes.set(
            xlim=(self.epsilon[0], self.epsilon[-1]),
            ylim=(self.strength[0], self.strength[-1]),
            xlabel="epsilon",
            ylabel="attack strength",
            title=self.title,
        )
        style.tidy(axes)
        style.calm_ticks(axes)
        return figure

    def panels(self) -> list[Panel]:
        steps: list[list[Any]] = []
        for start, end, opacity in zip(
            (0.0, *LEVELS), (*LEVELS, 1.0), (*OPACITIES, 0), strict=True
        ):
            shade = style.SHADE.format(opacity)
            steps += [[start, shade], [end, shade]]
        data: list[dict[str, Any]] = [
            {
                "type": "heatmap",
                "x": style.numbers(self.epsilon),
                "y": style.numbers(self.strength),
                "z": style.numbers(self.held().T, 3),
                "zmin": 0,
                "zmax": 1,
                "colorscale": steps,
                "showscale": False,
                "hovertemplate": "epsilon %{x:.3f}, strength %{y:.3f}<br>reached by the smallest "
                "region holding %{z:.0%}<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "x": [self.medians[0]],
                "y": [self.medians[1]],
                "marker": {"color": "@orange", "size": 11, "symbol": "cross"},
                "name": "medians",
                "hovertemplate": "medians: epsilon %{x:.3f}, strength %{y:.3f}<extra></extra>",
            },
        ]
        # A heatmap has no entry in a legend, so traces without points stand in for its shades.
        data += [
            {
                "type": "scatter",
                "mode": "markers",
                "x": [None],
                "y": [None],
                "marker": {"color": style.SHADE.format(opacity), "size": 14, "symbol": "square"},
                "name": f"smallest region holding {100 * level:g} %",
                "hoverinfo": "skip",
            }
            for level, opacity in zip(LEVELS, OPACITIES, strict=True)
        ]
        frame = style.layout(
            "epsilon",
            "attack strength",
            xaxis={"range": [float(self.epsilon[0]), float(self.epsilon[-1])]},
            yaxis={"range": [float(self.strength[0]), float(self.strength[-1])]},
            showlegend=True,
        )
        return [style.panel(data, frame)]
