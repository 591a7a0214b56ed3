"""The density of each estimated parameter, its credible interval and its prior."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.posterior import Posterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot
from epsilometer.report.summary import LABELS
from epsilometer.report.text import pair_text, percent

POINTS = 500
"""Smooth at the width of a plot; a spike gets points of its own."""


def prior_density(posterior: Posterior, parameter: str, value: FloatArray) -> FloatArray:
    """The marginal prior density of an estimated parameter."""
    model, counts = posterior.model, posterior.counts
    known = model.priors_of(counts)
    if parameter in known:
        return np.asarray(np.exp(known[parameter].log_density(value)))
    return model.likelihood.prior_density(counts, parameter, value)


def marginals_chart(posterior: Posterior, *, level: float) -> Chart:
    """The marginal posterior of every estimated parameter."""
    plots, cut = [], []
    for name in posterior.parameters:
        plot, peak = _plot(posterior, name, level)
        plots.append(plot)
        if plot.y.ends is not None and plot.y.ends[1] < peak:
            cut.append(LABELS[name])
    caption = (
        f"Shaded: the {percent(level)} credible interval. Dashed: the prior, before any "
        "data. Where a posterior looks like its prior, the attacks said little."
    )
    if cut:
        caption += f" The peak of {' and '.join(cut)} is cut off so that the rest can be seen."
    columns = 1 if len(plots) == 1 else 2
    return Chart(
        name="marginals",
        title="Marginal posteriors",
        subtitle=f": median ({percent(level)} credible interval)",
        caption=caption,
        plots=plots,
        size=(4.6 * columns + 0.4, 3.4 * -(-len(plots) // columns) + 0.4),
        columns=columns,
    )


def _plot(posterior: Posterior, parameter: str, level: float) -> tuple[Plot, float]:
    """One parameter, with enough points for a spike; and its largest density, which may be cut."""
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
    if isinstance(posterior, GridPosterior) and parameter in posterior.marginals:
        breaks = posterior.marginals[parameter].breaks
        points += [np.linspace(a, b, 6) for a, b in pairwise(breaks)]
    x = np.unique(np.concatenate(points))
    x = x[(x >= start) & (x <= end)]
    density, inside = posterior.density(parameter, x), (x >= low) & (x <= high)
    label, median = LABELS[parameter], posterior.median(parameter)
    height = float(posterior.density(parameter, median))
    hover = f"{label} %{{x:.4g}}<br>density %{{y:.4g}}"
    marks: list[Mark] = [
        Band(x[inside], None, density[inside], "blue", f"{percent(level)} interval", opacity=0.25),
        Line(x, density, "blue", "posterior", hover=hover),
        Line(x, prior_density(posterior, parameter, x), "grey", "prior", width=1.2, dash="dash"),
        Line([median] * 2, [0, height], "orange", "median", hover=f"median {median:.4g}"),
    ]
    peak = float(density.max())
    up = Axis("density", (0, style.end_of_densities(peak, high - low)))
    heading = f"{style.median_text(posterior, parameter)}  ({pair_text(low, high)})"
    return Plot(Axis(label, (x[0], x[-1])), up, marks, title=heading), peak
