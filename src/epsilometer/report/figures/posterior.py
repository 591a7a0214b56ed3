"""Figures of the posterior: exceedance probability, marginals, epsilon and strength jointly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import estimate_text, percent, probability_text
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.result import Result
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Points, ReferenceLine
from epsilometer.report.text.rows import LABELS

CURVE_POINTS = 240
"""Points of an exceedance curve."""

FARTHEST_CLAIM = 4.0
"""A claim beyond this multiple of the end of the axis is not drawn."""

DENSITY_POINTS = 500
"""Points of a density, besides those at its breaks."""

DRAWS = 800
"""Joint draws of epsilon and the strength."""


def exceedance_chart(result: Result) -> Chart:
    """P(epsilon > e) after and before the data, with the claim if there is one."""
    posterior, claim = result.posterior, result.claims.get(result.delta)
    spread = posterior.quantile("epsilon", np.linspace(0.0005, 0.9995, CURVE_POINTS))
    # All probability may be at 0.
    end = 1.1 * float(spread[-1]) or 1.0
    # A very large claim would squeeze the curve into a corner.
    if claim is not None and claim < FARTHEST_CLAIM * end:
        end = max(end, 1.1 * claim)
    x = np.unique(np.concatenate([np.linspace(0, end, CURVE_POINTS), spread])).tolist()
    after = [posterior.probability_above("epsilon", value) for value in x]
    before = [posterior.prior_probability_above(value) for value in x]
    low, high = result.question.thresholds.pass_at_most, result.question.thresholds.fail_at_least
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
        above = posterior.probability_above("epsilon", claim)
        prior = posterior.prior_probability_above(claim)
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
    no_leak = style.no_leak_text(posterior)
    if no_leak:
        caption += f" The curve starts below 1: with probability {no_leak} nothing leaks."
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


def marginals_chart(result: CountResult) -> Chart | None:
    """The marginal posterior of every estimated parameter; None if there is none."""
    posterior, level = result.posterior, result.level
    if not posterior.parameters:
        return None
    plots, cut = [], []
    for name in posterior.parameters:
        plot, peak = _marginal(posterior, name, level)
        plots.append(plot)
        if plot.y.ends is not None and plot.y.ends[1] < peak:
            cut.append(LABELS[name])
    caption = (
        f"Shaded: the {percent(level)} credible interval. Dashed: the prior. Where a posterior looks "
        "like its prior, the data say little."
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
    heading = estimate_text(median, low, high)
    return Plot(Axis(label, (x[0], x[-1])), up, marks, title=heading), peak


def joint_chart(result: CountResult) -> Chart:
    """Joint draws of epsilon and the strength; both must be estimated."""
    posterior = result.posterior
    drawn = posterior.draws(DRAWS, rng=np.random.default_rng(1))
    # A long tail of epsilon would leave little room for the rest.
    kept = drawn["epsilon"] <= posterior.quantile("epsilon", 0.996)
    epsilon, strength = drawn["epsilon"][kept], drawn["strength"][kept]
    medians = [posterior.median("epsilon")], [posterior.median("strength")]
    said = "epsilon {x:.3f}, strength {y:.3f}"
    marks: list[Mark] = [
        Points(epsilon, strength, "blue", "draws", size=3, opacity=0.35),
        Points(*medians, "orange", "medians", size=8.0, rim=0.8, symbol="cross", hover=said),
    ]
    return Chart(
        name="joint",
        title="Joint posterior of epsilon and the attack strength",
        caption="If the attacks were strong, these error rates imply a small epsilon; if they were "
        "weak, epsilon may be large. Strength 1 would mean that every attack was the best possible on "
        "the worst base; the strength is estimated, not assumed.",
        plots=[Plot(Axis("epsilon"), Axis("attack strength"), marks)],
        size=(6.4, 4.8),
    )
