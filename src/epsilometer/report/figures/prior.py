"""What the data say and what the prior says: epsilon under a narrower and a wider prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.inference.checks.sensitivity import OtherPrior
from epsilometer.inference.posterior import Posterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Plot, Sheet

POINTS = 500
"""Smooth at the width of a plot."""

COLOURS = ("green", "blue", "orange")
"""From the narrowest prior to the widest."""


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

    @property
    def top(self) -> float:
        """End of the axis of densities; as for marginals, a spike may be cut."""
        width = min(version.interval[1] - version.interval[0] for version in self.versions)
        return style.end_of_densities(max(v.posterior.max() for v in self.versions), width)

    def sheet(self, *, fine: bool) -> Sheet:
        densities, intervals = [], []
        x = self.epsilon
        for row, (version, colour) in enumerate(zip(self.versions, COLOURS, strict=False)):
            label = version.label
            says = "<br>epsilon %{x:.3f}, density %{y:.4g}"
            after, before = f"{label}, posterior{says}", f"{label}, prior{says}"
            thin: dict[str, Any] = {"width": 1.0, "dash": "dash", "listed": False}
            densities += [
                Line(x, version.posterior, colour, label, hover=after),
                Line(x, version.prior, colour, label, hover=before, **thin),
            ]
            ends = (version.median, version.interval, self.level)
            intervals.append(style.interval_row(row, *ends, colour, label))
        ends_of_x, names = (x[0], x[-1]), [version.label for version in self.versions]
        rows = Axis("", (-0.6, len(names) - 0.4), names=names)
        across = Axis(f"epsilon: median and {100 * self.level:g} % interval", ends_of_x)
        plots = [
            Plot(Axis("epsilon", ends_of_x), Axis("density", (0, self.top)), densities),
            Plot(across, rows, intervals, legend=False),
        ]
        return Sheet(self.title, plots, (6.6, 4.8), heights=[4, 1], share_x=True)
