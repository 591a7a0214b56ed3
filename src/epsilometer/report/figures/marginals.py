"""The density of each estimated parameter, its credible interval and its prior."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.posterior import Posterior
from epsilometer.model.dependence import IndependentRows
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Fixed
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, GREY, ORANGE, Panel
from epsilometer.report.summary import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

POINTS = 500
TALLEST = 8.0
"""Largest density shown, in units of one over the width of the 90 % interval; a normal one has 1.3."""


def prior_density(posterior: Posterior, parameter: str, value: FloatArray) -> FloatArray:
    """The marginal prior density of an estimated parameter."""
    model, counts = posterior.model, posterior.counts
    if parameter in ("epsilon", "strength"):
        return np.asarray(np.exp(getattr(model, parameter).log_density(value)))
    if parameter == "spread":
        dependence = model.dependence
        assert not isinstance(dependence, IndependentRows)
        assert not isinstance(dependence.spread, Fixed)
        return np.asarray(np.exp(dependence.spread.log_density(value)))
    likelihood = model.likelihood
    assert isinstance(likelihood, CorrelatedNormal)
    from scipy.special import ndtr, ndtri

    scale = likelihood.within_correlation_scale
    low, high = likelihood.within_correlation_bounds(counts)
    at_low, at_high = ndtr(low / scale), ndtr(high / scale)
    if parameter == "within_correlation":
        peak = 1 / (scale * np.sqrt(2 * np.pi) * (at_high - at_low))
        inside = (value > low) & (value < high)
        return np.where(inside, peak * np.exp(-0.5 * (value / scale) ** 2), 0.0)
    # Given tau the cross correlation is uniform within its bound: average over tau.
    share = (np.arange(2000) + 0.5) / 2000
    bound = likelihood.cross_correlation_bound(
        counts, scale * ndtri(at_low + share * (at_high - at_low))
    )
    allowed = np.abs(value)[..., None] < bound
    return np.asarray((allowed / (2 * bound)).mean(axis=-1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginal:
    """One parameter: its density and its prior's at ``x``."""

    parameter: str
    x: FloatArray
    density: FloatArray
    prior: FloatArray
    interval: tuple[float, float]
    median: float
    median_density: float
    heading: str

    @classmethod
    def of(cls, posterior: Posterior, parameter: str, level: float) -> Marginal:
        """The marginal of one parameter, with enough points for a spike."""
        low, high = posterior.credible_interval(parameter, level)
        start, end = (float(value) for value in posterior.quantile(parameter, [0.001, 0.997]))
        # A posterior without width still gets a picture.
        room = max(0.08 * (end - start), 1e-9 * abs(end), 1e-12)
        start, end = start - room, end + room
        if parameter in ("epsilon", "strength", "spread"):
            start = max(start, 0.0)
        if parameter == "strength":
            end = min(end, 1.0)
        points: list[FloatArray] = [np.linspace(start, end, POINTS), np.array([low, high])]
        if isinstance(posterior, GridPosterior):
            breaks = (
                posterior.marginals[parameter].breaks if parameter in posterior.marginals else ()
            )
            points += [np.linspace(a, b, 6) for a, b in pairwise(breaks)]
        x = np.unique(np.concatenate(points))
        x = x[(x >= start) & (x <= end)]
        median = posterior.median(parameter)
        return cls(
            parameter=parameter,
            x=x,
            density=posterior.density(parameter, x),
            prior=prior_density(posterior, parameter, x),
            interval=(low, high),
            median=median,
            median_density=float(posterior.density(parameter, median)),
            heading=f"{style.median_text(posterior, parameter)}  ({style.pair_text(low, high)})",
        )

    @property
    def label(self) -> str:
        """The parameter as people read it."""
        return LABELS[self.parameter]

    @property
    def top(self) -> float:
        """Where the axis of the density ends: a spike may be cut, so that the rest can be seen."""
        peak = 1.06 * float(self.density.max())
        width = self.interval[1] - self.interval[0]
        return min(peak, TALLEST / width) if width > 0 else peak

    @property
    def cut(self) -> bool:
        """Whether the density rises above the plot."""
        return self.top < float(self.density.max())


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalsChart(Chart):
    """The marginal posterior of every estimated parameter."""

    marginals: tuple[Marginal, ...]
    level: float

    name = "marginals"
    title = "Marginal posteriors"

    @classmethod
    def of(cls, posterior: Posterior, *, level: float) -> MarginalsChart:
        """The chart of all estimated parameters."""
        found = tuple(Marginal.of(posterior, name, level) for name in posterior.parameters)
        return cls(marginals=found, level=level)

    @property
    def caption(self) -> str:
        text = (
            f"Shaded: the {100 * self.level:g} % credible interval. Dashed: the prior, before any "
            "data. Where a posterior looks like its prior, the attacks said little."
        )
        cut = [marginal.label for marginal in self.marginals if marginal.cut]
        if cut:
            text += f" The peak of {' and '.join(cut)} is cut off so that the rest can be seen."
        return text

    def draw(self) -> Figure:
        columns = 1 if len(self.marginals) == 1 else 2
        rows = -(-len(self.marginals) // columns)
        figure = style.new_figure(4.6 * columns + 0.4, 3.4 * rows + 0.4)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for spare in grid[len(self.marginals) :]:
            spare.set_axis_off()
        for axes, one in zip(grid, self.marginals, strict=False):
            low, high = one.interval
            axes.plot(one.x, one.density, color=BLUE, linewidth=1.6, label="posterior")
            axes.fill_between(
                one.x, one.density, where=(one.x >= low) & (one.x <= high), color=BLUE,
                alpha=0.25, linewidth=0, label=f"{100 * self.level:g} % interval",
            )  # fmt: skip
            axes.plot(one.x, one.prior, "--", color=GREY, linewidth=1.2, label="prior")
            axes.vlines(
                one.median, 0, one.median_density, color=ORANGE, linewidth=1.6, label="median"
            )
            axes.set(
                xlim=(one.x[0], one.x[-1]),
                ylim=(0, one.top),
                xlabel=one.label,
                ylabel="density",
                title=one.heading,
            )
            axes.title.set_fontsize(10.5)
            style.tidy(axes)
            style.calm_ticks(axes)
        grid[0].legend(fontsize=8.5, frameon=False)
        figure.suptitle(f"{self.title}: median ({100 * self.level:g} % credible interval)")
        return figure

    def panels(self) -> list[Panel]:
        return [self._panel(one) for one in self.marginals]

    def _panel(self, one: Marginal) -> Panel:
        low, high = one.interval
        inside = (one.x >= low) & (one.x <= high)
        x = style.numbers(one.x)
        data = [
            {
                "type": "scatter",
                "mode": "lines",
                "x": style.numbers(one.x[inside]),
                "y": style.numbers(one.density[inside]),
                "fill": "tozeroy",
                "fillcolor": style.SHADE.format(0.25),
                "line": {"width": 0},
                "name": f"{100 * self.level:g} % interval",
                "hoverinfo": "skip",
            },
            style.line(
                x,
                style.numbers(one.density),
                "@blue",
                width=2,
                name="posterior",
                hover=f"{one.label} %{{x:.4g}}<br>density %{{y:.4g}}",
            ),
            style.line(x, style.numbers(one.prior), "@grey", dash="dash", name="prior"),
            style.line(
                [one.median, one.median],
                [0, one.median_density],
                "@orange",
                width=2,
                name="median",
                hover=f"median {one.median:.4g}",
            ),
        ]
        frame = style.layout(
            one.label,
            "density",
            xaxis={"range": [float(one.x[0]), float(one.x[-1])]},
            yaxis={"range": [0, one.top]},
            title={"text": one.heading},
            showlegend=True,
        )
        return style.panel(data, frame)
