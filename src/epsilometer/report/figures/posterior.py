"""Figures of the posterior: exceedance probability, marginals, epsilon and strength jointly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import pair_text, percent, probability_text
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.judgement.verdict import Thresholds
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import (
    Axis,
    Band,
    Line,
    Mark,
    Plot,
    Points,
    ReferenceLine,
    Regions,
)
from epsilometer.report.text.rows import LABELS

CURVE_POINTS = 240
"""Points of an exceedance curve."""

FARTHEST_CLAIM = 4.0
"""A claim beyond this multiple of the end of the axis is not drawn."""

DENSITY_POINTS = 500
"""Points of a density, besides those at its breaks."""

DRAWS = 250_000
"""Draws for the joint density: hundreds per bin where the density is high."""

BINS = 200
"""Bins along each axis; finer than the smoothing kernel."""

PAGE_STEP = 2
"""The page has every second bin, and interpolates between them."""

LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Probabilities of the highest-density regions."""


def exceedance_chart(
    posterior: CountPosterior | CurvePosterior,
    *,
    claim: float | None = None,
    thresholds: Thresholds | None = None,
) -> Chart:
    """P(epsilon > e) after and before the data, with the claim if there is one."""
    spread = posterior.quantile("epsilon", np.linspace(0.0005, 0.9995, CURVE_POINTS))
    # All probability may be at 0.
    end = 1.1 * float(spread[-1]) or 1.0
    # A very large claim would squeeze the curve into a corner.
    if claim is not None and claim < FARTHEST_CLAIM * end:
        end = max(end, 1.1 * claim)
    x = np.unique(np.concatenate([np.linspace(0, end, CURVE_POINTS), spread])).tolist()
    after = [posterior.probability_above("epsilon", value) for value in x]
    before = [posterior.prior_probability_above(value) for value in x]
    limits = thresholds or Thresholds()
    low, high = limits.pass_at_most, limits.fail_at_least
    caption = (
        "Read the curve at any claimed epsilon: by the posterior alone, a claim where it is below "
        f"{low:g} passes, and one where it is above {high:g} fails."
    )
    hover = "P(epsilon > {x:.3f}) = {y:.4f}", "prior: P(epsilon > {x:.3f}) = {y:.4f}"
    marks: list[Mark] = [
        Line(x, after, "blue", "posterior", width=1.8, hover=hover[0]),
        Line(x, before, "grey", "prior", width=1.2, dash="dash", hover=hover[1]),
        ReferenceLine(y=low),
        ReferenceLine(y=high),
    ]
    if claim is not None:
        above, prior = (
            posterior.probability_above("epsilon", claim),
            posterior.prior_probability_above(claim),
        )
        caption += (
            f" Epsilon exceeds the claim of {claim:.4g} with probability {probability_text(above)}; "
            f"the prior probability was {probability_text(prior)}."
        )
        if claim > x[-1]:
            caption += " The claim is to the right of the plot."
        else:
            said = "claim {x:.4g}: exceeded with probability {y:.4f}"
            marks.append(ReferenceLine(x=claim, colour="orange", width=1.2, dash="solid"))
            marks.append(Points([claim], [above], "orange", f"claim {claim:.4g}", hover=said))
    plot = Plot(
        Axis("epsilon", (0, x[-1])), Axis("probability of a larger epsilon", (-0.02, 1.02)), marks
    )
    title = "Probability that epsilon exceeds a value"
    return Chart(name="exceedance", title=title, caption=caption, plots=[plot], size=(6.4, 4.2))


def prior_density(posterior: CountPosterior, parameter: str, value: FloatArray) -> FloatArray:
    """The marginal prior density of an estimated parameter."""
    model, counts = posterior.model, posterior.counts
    known = model.priors_of(counts)
    if parameter in known:
        return np.asarray(np.exp(known[parameter].log_density(value)))
    return model.likelihood.prior_density(counts, parameter, value)


def marginals_chart(posterior: CountPosterior, *, level: float) -> Chart:
    """The marginal posterior of every estimated parameter."""
    plots, cut = [], []
    for name in posterior.parameters:
        plot, peak = _marginal(posterior, name, level)
        plots.append(plot)
        if plot.y.ends is not None and plot.y.ends[1] < peak:
            cut.append(LABELS[name])
    caption = (
        f"Shaded: the {percent(level)} credible interval. Dashed: the prior. Where a posterior "
        "looks like "
        "its prior, the data say little."
    )
    if cut:
        caption += f" The peak of {' and '.join(cut)} is cut off so that the rest is visible."
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


def _marginal(posterior: CountPosterior, parameter: str, level: float) -> tuple[Plot, float]:
    """The plot of one parameter, and its largest density, which may be cut off."""
    low, high = posterior.credible_interval(parameter, level)
    start, end = (float(value) for value in posterior.quantile(parameter, [0.001, 0.997]))
    # A posterior of width 0 is drawn too.
    room = max(0.08 * (end - start), 1e-9 * abs(end), 1e-12)
    start, end = start - room, end + room
    if parameter in ("epsilon", "strength", "spread"):
        start = max(start, 0.0)
    if parameter == "strength":
        end = min(end, 1.0)
    points: list[FloatArray] = [np.linspace(start, end, DENSITY_POINTS), np.array([low, high])]
    if isinstance(posterior, GridPosterior) and parameter in posterior.marginals:
        breaks = posterior.marginals[parameter].breaks
        points += [np.linspace(a, b, 6) for a, b in pairwise(breaks)]
    x = np.unique(np.concatenate(points))
    x = x[(x >= start) & (x <= end)]
    density, inside = posterior.density(parameter, x), (x >= low) & (x <= high)
    label, median = LABELS[parameter], posterior.median(parameter)
    height = float(posterior.density(parameter, median))
    hover = f"{label} {{x:.4g}}\ndensity {{y:.4g}}"
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


def joint_density(posterior: CountPosterior) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Density of (epsilon, strength) on a grid: edges in epsilon, edges in strength, values.

    A histogram of draws, smoothed just enough to draw contours.
    """
    from scipy.ndimage import gaussian_filter

    if isinstance(posterior, SamplePosterior):
        pair = [np.ravel(posterior.samples[name]) for name in ("epsilon", "strength")]
    else:
        drawn = posterior.draws(DRAWS, rng=np.random.default_rng(style.FIGURE_SEED))
        pair = [drawn["epsilon"], drawn["strength"]]
    edges = []
    # A long tail of epsilon would leave little room for the rest.
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
    """A robust standard deviation, from the quartiles."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 1.35


def joint_chart(posterior: CountPosterior) -> Chart:
    """Highest-density regions of epsilon and the strength together; both must be estimated."""
    *edges, density = joint_density(posterior)
    x, y = (0.5 * (axis_edges[1:] + axis_edges[:-1]) for axis_edges in edges)
    hover = "epsilon {x:.3f}, strength {y:.3f}\nreached by the smallest region holding {z:.0%}"
    held = _held(density)
    regions = Regions(x, y, density, held, LEVELS, hover)
    some = slice(None, None, PAGE_STEP)
    coarse = Regions(x[some], y[some], density[some, some], held[some, some], LEVELS, hover)
    where = [posterior.median("epsilon")], [posterior.median("strength")]
    hover = "medians: epsilon {x:.3f}, strength {y:.3f}"
    medians = Points(*where, "orange", "medians", size=8.0, rim=0.8, symbol="cross", hover=hover)
    across, up = Axis("epsilon", (x[0], x[-1])), Axis("attack strength", (y[0], y[-1]))
    return Chart(
        name="joint",
        title="Joint posterior of epsilon and the attack strength",
        caption="If the attacks were strong, these error rates imply a small epsilon; if they "
        "were weak, epsilon "
        "may be large. Strength 1 would mean that every attack was the best possible on the worst base; "
        "the strength is estimated, not assumed.",
        plots=[Plot(across, up, [regions, medians])],
        page_plots=lambda: [Plot(across, up, [coarse, medians])],
        size=(6.4, 4.8),
        legend_title="smallest region holding",
    )


def _held(density: FloatArray) -> FloatArray:
    """For each cell, the probability of the smallest region that reaches it."""
    flat = density.ravel()
    order = np.argsort(flat)[::-1]
    content = np.empty(len(flat))
    content[order] = np.cumsum(flat[order]) / flat.sum()
    return content.reshape(density.shape)
