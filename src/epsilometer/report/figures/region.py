"""Error rates on the unit square, shaded by the probability that R(epsilon, delta) contains them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import FloatArray
from epsilometer._text import pair_text, percent
from epsilometer.checks.predictive import fold
from epsilometer.model.region import critical_epsilon
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, HeatMap, Line, Mark, Plot

PRINT_POINTS, PAGE_POINTS = 401, 101
CORNER_POINTS, PAGE_CORNER_POINTS = 251, 91
"""Grid points along each axis, for print and for the page."""

LARGE_EPSILON = 2.0
"""Above this epsilon the corner of the region is drawn again, enlarged."""


def region_probability(
    posterior: CountPosterior, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Posterior probability that R(epsilon, delta) contains each point: P(epsilon >= critical)."""
    critical = critical_epsilon(alpha, beta, posterior.model.delta)
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


class _Edge(NamedTuple):
    """The edge of the region for one epsilon."""

    epsilon: float
    label: str | None
    dash: str = "solid"

    def line(self, x: ArrayLike, y: ArrayLike) -> Line:
        return Line(x, y, "blue", self.label, width=1.3, dash=self.dash)


def region_chart(posterior: CountPosterior, *, level: float) -> Chart:
    """The attacks, and the error rates that the posterior allows."""
    median, delta = posterior.median("epsilon"), posterior.model.delta
    edges = [_Edge(median, f"epsilon = {median:g} (fixed)")]
    if "epsilon" in posterior.parameters:
        low, high = posterior.credible_interval("epsilon", level)
        edges = [
            _Edge(median, f"median, epsilon = {style.median_text(posterior, 'epsilon')}"),
            _Edge(low, f"{percent(level)} interval, {pair_text(low, high)}", "dash"),
            _Edge(high, None, "dash"),
        ]
    caption = (
        "Each dot is the attack on one challenge base. Differential privacy rules out the corner near "
        "(0, 0), where both error rates are small, and the opposite corner; the smaller epsilon, the "
        "larger these corners. The darker the shade, the higher the posterior probability that epsilon "
        f"at delta = {delta:g} allows these error rates."
    )
    enlarged = median > LARGE_EPSILON
    if enlarged:
        caption += (
            " The second plot enlarges the corner on logarithmic axes; a count of 0 is drawn as "
            "a third of an "
            "error, and attacks worse than guessing are reflected."
        )
    plots = partial(_plots, posterior, edges, enlarged=enlarged)
    return Chart(
        name="region",
        title="Error rates that the posterior of epsilon allows",
        subtitle=f" (delta = {delta:g})",
        caption=caption,
        plots=plots(fine=True),
        page_plots=partial(plots, fine=False),
        size=(11.4 if enlarged else 6.4, 6.0),
        columns=1 + enlarged,
        legend="below",
        bar=True,
    )


def _plots(
    posterior: CountPosterior, edges: list[_Edge], *, enlarged: bool, fine: bool
) -> list[Plot]:
    points = PRINT_POINTS if fine else PAGE_POINTS
    counts = posterior.counts
    marks: list[Mark] = [_shaded(posterior, (np.arange(points) + 0.5) / points)]
    for edge in edges:
        x, y = region_boundary(edge.epsilon, posterior.model.delta)
        # Both edges as one line, so that the legend has one entry.
        marks.append(edge.line([*x, np.nan, *(1 - x)], [*y, np.nan, *(1 - y)]))
    marks.append(Line([0, 1], [1, 0], "grey", "guessing", width=1, dash="dot"))
    where = counts.false_positive_rates, counts.false_negative_rates
    label = "attack" if len(counts) == 1 else f"attacks ({len(counts):,})"
    marks.append(style.attack_points(counts, *where, label=label))
    whole = style.unit_square("false-positive rate", "false-negative rate", marks)
    return [whole, _corner(posterior, edges, fine)] if enlarged else [whole]


def _corner(posterior: CountPosterior, edges: list[_Edge], fine: bool) -> Plot:
    """The corner near (0, 0) on logarithmic axes; no errors stand at a third of one."""
    counts, delta, thin = posterior.counts, posterior.model.delta, 1 if fine else 4
    alpha, beta = fold(counts.false_positive_rates, counts.false_negative_rates)
    alpha = np.maximum(alpha, 1 / (3 * counts.trials_h0))
    beta = np.maximum(beta, 1 / (3 * counts.trials_h1))
    smallest = np.exp(-max(edge.epsilon for edge in edges))
    floor = max(float(min(alpha.min(), beta.min(), smallest)) / 2, 1e-12)
    ticks = np.geomspace(floor, 1.0, CORNER_POINTS if fine else PAGE_CORNER_POINTS)
    marks: list[Mark] = [_shaded(posterior, ticks, above=False)]
    for edge in edges:
        large = _up_to_one(float(region_boundary(edge.epsilon, delta)[0][1]), floor)
        small = np.exp(-edge.epsilon) * (1 - delta - large)
        large, small = large[small > 0][::thin], small[small > 0][::thin]
        marks += [edge.line(large, small), edge.line(small, large)]
    guess = _up_to_one(floor, floor)[::thin]
    marks.append(Line(guess, 1 - guess, "grey", "guessing", width=1, dash="dot"))
    marks.append(style.attack_points(counts, alpha, beta))
    across, up = (
        Axis(f"false-{kind} rate, enlarged", (floor, 1.05), logarithmic=True)
        for kind in ("positive", "negative")
    )
    return Plot(across, up, marks, legend=False, square=True)


def _shaded(posterior: CountPosterior, ticks: FloatArray, *, above: bool = True) -> HeatMap:
    """The probability of each point; those above the line of guessing may be left out."""
    shade = region_probability(posterior, ticks[None, :], ticks[:, None])
    if not above:
        shade = np.where(ticks[None, :] + ticks[:, None] > 1, np.nan, shade)
    hover = (
        "false-positive rate {x:.3g}, false-negative rate {y:.3g}\nallowed with probability {z:.3f}"
    )
    return HeatMap(ticks, ticks, shade, "probability that the region contains the point", hover)


def _up_to_one(start: float, floor: float) -> FloatArray:
    """Rates that are dense on a logarithmic axis both of themselves and of what is left to 1."""
    rising, falling = np.geomspace(start, 0.5, 200), np.geomspace(0.5, floor, 200)
    return np.concatenate([rising, 1 - falling])
