"""What the data say and what the prior says: epsilon under a narrower and a wider prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.inference.checks.sensitivity import OtherPrior
from epsilometer.inference.posterior import Posterior
from epsilometer.model.priors import Prior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Plot
from epsilometer.report.text import pair_text, percent

POINTS = 500
"""Smooth at the width of a plot."""

COLOURS = ("green", "blue", "orange")
"""From the narrowest prior to the widest."""


class _Version(NamedTuple):
    """Epsilon under one prior: what it is asked for, as functions."""

    factor: float
    prior: Prior
    quantile: Callable[[list[float]], FloatArray]
    density: Callable[[FloatArray], FloatArray]

    @property
    def label(self) -> str:
        return "as reported" if self.factor == 1 else f"prior scale x {self.factor:g}"


def prior_chart(posterior: Posterior, others: Sequence[OtherPrior], *, level: float) -> Chart:
    """Posteriors and priors of epsilon for several scales of the prior, and the intervals."""
    quantile, density = (
        partial(posterior.quantile, "epsilon"),
        partial(posterior.density, "epsilon"),
    )
    versions = [_Version(1.0, posterior.model.epsilon, quantile, density)]
    for other in others:
        found = other.epsilon
        versions.append(_Version(other.factor, other.model.epsilon, found.quantile, found.density))
    versions.sort(key=lambda version: version.factor)
    reach = np.array([version.quantile([0.002, 0.985]) for version in versions])
    low, high = float(reach[:, 0].min()), float(reach[:, 1].max())
    room = 0.08 * (high - low) or 1e-9
    x = np.linspace(max(low - room, 0.0), high + room, POINTS)
    says = "<br>epsilon %{x:.3f}, density %{y:.4g}"
    thin: dict[str, Any] = {"width": 1.0, "dash": "dash", "listed": False}
    densities, rows, intervals, peaks = [], [], [], []
    for row, (version, colour) in enumerate(zip(versions, COLOURS, strict=False)):
        label = version.label
        after, before = version.density(x), np.exp(version.prior.log_density(x))
        densities += [
            Line(x, after, colour, label, hover=f"{label}, posterior{says}"),
            Line(x, before, colour, label, hover=f"{label}, prior{says}", **thin),
        ]
        low, median, high = map(float, version.quantile([0.5 - level / 2, 0.5, 0.5 + level / 2]))
        rows.append(style.interval_row(row, median, (low, high), level, colour, label))
        intervals.append((low, high))
        peaks.append(float(after.max()))
    names, ends = [version.label for version in versions], (x[0], x[-1])
    top = style.end_of_densities(max(peaks), min(high - low for low, high in intervals))
    across = Axis(f"epsilon: median and {percent(level)} interval", ends)
    said = {v.factor: pair_text(*ends) for v, ends in zip(versions, intervals, strict=True)}
    own = said.pop(1.0)
    moved = " and ".join(f"{text} with the scale x {factor:g}" for factor, text in said.items())
    return Chart(
        name="prior",
        title="Prior against posterior, and other priors",
        caption=f"Solid: posteriors; dashed: their priors. The {percent(level)} interval is {own}; "
        f"it would be {moved}. What moves with the prior is the prior's opinion; what stays is what "
        "the attacks said.",
        plots=[
            Plot(Axis("epsilon", ends), Axis("density", (0, top)), densities),
            Plot(across, Axis("", (-0.6, len(names) - 0.4), names=names), rows, legend=False),
        ],
        size=(6.6, 4.8),
        heights=[4, 1],
        share_x=True,
    )
