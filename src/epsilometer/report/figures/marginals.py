"""The density of each estimated parameter, its credible interval and its prior."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.posterior import Posterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Sheet
from epsilometer.report.summary import LABELS

POINTS = 500
"""Smooth at the width of a plot; a spike gets points of its own."""


def prior_density(posterior: Posterior, parameter: str, value: FloatArray) -> FloatArray:
    """The marginal prior density of an estimated parameter."""
    model, counts = posterior.model, posterior.counts
    known = model.priors_of(counts)
    if parameter in known:
        return np.asarray(np.exp(known[parameter].log_density(value)))
    return model.likelihood.prior_density(counts, parameter, value)


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
        low, high = self.interval
        return style.end_of_densities(float(self.density.max()), high - low)

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

    def sheet(self, *, fine: bool) -> Sheet:
        columns = 1 if len(self.marginals) == 1 else 2
        size = (4.6 * columns + 0.4, 3.4 * -(-len(self.marginals) // columns) + 0.4)
        title = f"{self.title}: median ({100 * self.level:g} % credible interval)"
        return Sheet(title, [self._plot(one) for one in self.marginals], size, columns=columns)

    def _plot(self, one: Marginal) -> Plot:
        low, high = one.interval
        kept = (one.x >= low) & (one.x <= high)
        inside, held = one.x[kept], f"{100 * self.level:g} % interval"
        hover = f"{one.label} %{{x:.4g}}<br>density %{{y:.4g}}"
        median, said = [one.median] * 2, f"median {one.median:.4g}"
        marks: list[Mark] = [
            Band(inside, None, one.density[kept], "blue", held, opacity=0.25),
            Line(one.x, one.density, "blue", "posterior", hover=hover),
            Line(one.x, one.prior, "grey", "prior", width=1.2, dash="dash"),
            Line(median, [0, one.median_density], "orange", "median", hover=said),
        ]
        across, up = Axis(one.label, (one.x[0], one.x[-1])), Axis("density", (0, one.top))
        return Plot(across, up, marks, title=one.heading)
