"""Error rates on the unit square, shaded by the probability that R(epsilon, delta) contains them."""

from __future__ import annotations

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import pair_text, percent
from epsilometer.judgement.count_result import CountResult
from epsilometer.model.region import critical_epsilon
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import HeatMap, Line, Mark

POINTS = 101
"""Grid points along each axis."""


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


def region_chart(result: CountResult) -> Chart:
    """The attacks, and the error rates that the posterior allows."""
    posterior, level = result.posterior, result.level
    median, delta, counts = posterior.median("epsilon"), posterior.model.delta, posterior.counts
    edges: list[tuple[float, str | None, str]] = [(median, f"epsilon = {median:.3g}", "solid")]
    if "epsilon" in posterior.parameters:
        low, high = posterior.credible_interval("epsilon", level)
        text = f"{percent(level)} interval, {pair_text(low, high)}"
        edges += [(low, text, "dash"), (high, None, "dash")]
    ticks = (np.arange(POINTS) + 0.5) / POINTS
    shade = region_probability(posterior, ticks[None, :], ticks[:, None])
    hover = (
        "false-positive rate {x:.3g}, false-negative rate {y:.3g}\nallowed with probability {z:.3f}"
    )
    marks: list[Mark] = [HeatMap(ticks, ticks, shade, hover)]
    for epsilon, label, dash in edges:
        x, y = region_boundary(epsilon, delta)
        # Both edges as one line, so that the legend has one entry.
        both = [*x, np.nan, *(1 - x)], [*y, np.nan, *(1 - y)]
        marks.append(Line(*both, "blue", label, width=1.3, dash=dash))
    marks.append(Line([0, 1], [1, 0], "grey", "guessing", width=1, dash="dot"))
    where = counts.false_positive_rates, counts.false_negative_rates
    label = "attack" if len(counts) == 1 else f"attacks ({len(counts):,})"
    marks.append(style.attack_points(counts, *where, label=label))
    return Chart(
        name="region",
        title="Error rates that the posterior of epsilon allows",
        subtitle=f" (delta = {delta:g})",
        caption="Each dot is the attack on one challenge base. Differential privacy rules out the "
        "corner near (0, 0), where both error rates are small, and the opposite corner; the smaller "
        "epsilon, the larger these corners. The darker the shade, the higher the posterior probability "
        f"that epsilon at delta = {delta:g} allows these error rates.",
        plots=[style.unit_square("false-positive rate", "false-negative rate", marks)],
        size=(6.4, 6.0),
        legend="below",
    )
