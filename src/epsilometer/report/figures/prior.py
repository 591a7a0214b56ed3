"""What the data say and what the prior says: epsilon under a narrower and a wider prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.posterior import Posterior
from epsilometer.inference.sensitivity import OtherPrior
from epsilometer.model.priors import Fixed
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, GREEN, ORANGE, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

POINTS = 500
LINES = (("@green", GREEN), ("@blue", BLUE), ("@orange", ORANGE))


@dataclass(frozen=True, kw_only=True, eq=False)
class Version:
    """epsilon under one prior."""

    factor: float
    posterior: FloatArray
    prior: FloatArray
    interval: tuple[float, float]
    median: float

    @property
    def label(self) -> str:
        """How wide this prior is."""
        return "as reported" if self.factor == 1 else f"prior scale x {self.factor:g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorChart(Chart):
    """Posteriors and priors of epsilon for several scales of the prior, and the intervals."""

    epsilon: FloatArray
    versions: tuple[Version, ...]
    level: float

    name = "prior"
    title = "Prior against posterior, and other priors"

    @classmethod
    def of(cls, posterior: Posterior, others: Sequence[OtherPrior], *, level: float) -> PriorChart:
        """The chart of a posterior beside what other priors would have made of the counts."""
        low, high = (float(value) for value in posterior.quantile("epsilon", [0.002, 0.985]))
        for other in others:
            start, end = other.epsilon.quantile([0.002, 0.985])
            low, high = min(low, float(start)), max(high, float(end))
        room = 0.08 * (high - low) or 1e-9
        points = np.linspace(max(low - room, 0.0), high + room, POINTS)
        prior = posterior.model.epsilon
        assert not isinstance(prior, Fixed)
        versions = [
            Version(
                factor=1.0,
                posterior=posterior.density("epsilon", points),
                prior=np.exp(prior.log_density(points)),
                interval=posterior.credible_interval("epsilon", level),
                median=posterior.median("epsilon"),
            )
        ]
        for other in others:
            scaled = other.model.epsilon
            assert not isinstance(scaled, Fixed)
            versions.append(
                Version(
                    factor=other.factor,
                    posterior=other.epsilon.density(points),
                    prior=np.exp(scaled.log_density(points)),
                    interval=other.credible_interval(level),
                    median=float(other.epsilon.quantile(0.5)),
                )
            )
        ordered = tuple(sorted(versions, key=lambda version: version.factor))
        return cls(epsilon=points, versions=ordered, level=level)

    @property
    def caption(self) -> str:
        own = next(version for version in self.versions if version.factor == 1)
        moved = " and ".join(
            f"{style.pair_text(*version.interval)} with the scale x {version.factor:g}"
            for version in self.versions
            if version.factor != 1
        )
        return (
            f"Solid: posteriors; dashed: their priors. The {100 * self.level:g} % interval is "
            f"{style.pair_text(*own.interval)}; it would be {moved}. "
            "What moves with the prior is the prior's opinion; what stays is what the attacks said."
        )

    def draw(self) -> Figure:
        figure = style.new_figure(6.6, 4.8)
        axes, strip = figure.subplots(2, 1, height_ratios=[4, 1], sharex=True)
        for row, (version, (_, colour)) in enumerate(zip(self.versions, LINES, strict=False)):
            axes.plot(self.epsilon, version.posterior, color=colour, label=version.label)
            axes.plot(self.epsilon, version.prior, "--", color=colour, linewidth=1)
            strip.plot(version.interval, [row, row], color=colour, linewidth=3)
            strip.plot(version.median, row, "o", color=colour, markersize=6)
        axes.set(ylabel="density", title=self.title, xlim=(self.epsilon[0], self.epsilon[-1]))
        axes.set_ylim(0, self.top)
        axes.legend(frameon=False, fontsize=9)
        strip.set(xlabel=f"epsilon: median and {100 * self.level:g} % interval", yticks=[])
        strip.margins(y=0.3)
        for each in (axes, strip):
            style.tidy(each)
        return figure

    @property
    def top(self) -> float:
        """End of the axis of densities; as for marginals, a spike may be cut."""
        width = min(version.interval[1] - version.interval[0] for version in self.versions)
        peak = 1.06 * max(float(version.posterior.max()) for version in self.versions)
        return min(peak, 8 / width) if width > 0 else peak

    def panels(self) -> list[Panel]:
        densities: list[dict[str, Any]] = []
        intervals: list[dict[str, Any]] = []
        x = style.numbers(self.epsilon)
        for row, (version, (colour, _)) in enumerate(zip(self.versions, LINES, strict=False)):
            for values, dash, kind in (
                (version.posterior, "solid", "posterior"),
                (version.prior, "dash", "prior"),
            ):
                densities.append(
                    style.line(
                        x,
                        style.numbers(values),
                        colour,
                        width=2 if dash == "solid" else 1.2,
                        dash=dash,
                        name=version.label,
                        legendgroup=version.label,
                        showlegend=dash == "solid",
                        hover=f"{version.label}, {kind}<br>epsilon %{{x:.3f}}, density %{{y:.4g}}",
                    )
                )
            low, high = version.interval
            intervals.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [version.median],
                    "y": [row],
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": [high - version.median],
                        "arrayminus": [version.median - low],
                        "color": colour,
                        "thickness": 3,
                        "width": 0,
                    },
                    "marker": {"color": colour, "size": 10},
                    "hovertemplate": f"{version.label}<br>median {version.median:.4g}, "
                    f"{100 * self.level:g} % interval {low:.4g} to {high:.4g}<extra></extra>",
                }
            )
        ends = [float(self.epsilon[0]), float(self.epsilon[-1])]
        return [
            style.panel(
                densities,
                style.layout(
                    "epsilon",
                    "density",
                    xaxis={"range": ends},
                    yaxis={"range": [0, self.top]},
                    showlegend=True,
                ),
            ),
            style.panel(
                intervals,
                style.layout(
                    f"epsilon, {100 * self.level:g} % interval",
                    "",
                    xaxis={"range": ends},
                    yaxis={
                        "tickvals": list(range(len(self.versions))),
                        "ticktext": [version.label for version in self.versions],
                        "range": [-0.6, len(self.versions) - 0.4],
                        "automargin": True,
                    },
                ),
            ),
        ]
