"""Figures of the count model: error rates, marginals, epsilon and strength jointly, chains."""

from collections.abc import Callable, Iterable
from itertools import cycle, islice, pairwise
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import estimate_text, pair_text, percent
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.judgement.count_result import CountResult
from epsilometer.model.region import critical_epsilon
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Heat, Line, Mark, Plot, Points, Reference
from epsilometer.report.text.rows import LABELS

#: Grid points along each axis.
POINTS = 101


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
    hover = "false-positive rate {x:.3g}, false-negative rate {y:.3g}"
    hover += "\nallowed with probability {z:.3f}"
    marks: list[Mark] = [Heat(ticks, ticks, shade, hover)]
    for epsilon, label, dash in edges:
        x, y = region_boundary(epsilon, delta)
        # Both edges as one line, so that the legend has one entry.
        both = [*x, np.nan, *(1 - x)], [*y, np.nan, *(1 - y)]
        marks.append(Line(*both, "blue", label, width=1.3, dash=dash))
    label = "attack" if len(counts) == 1 else f"attacks ({len(counts):,})"
    return Chart(
        title="Error rates that the posterior of epsilon allows",
        subtitle=f" (delta = {delta:g})",
        caption="Dots: the attacks. Differential privacy rules out the corner near (0, 0) and the "
        "opposite one, the more the smaller epsilon. The darker the shade, the higher the posterior "
        f"probability that epsilon at delta = {delta:g} allows these error rates.",
        plots=[style.error_rates(counts, label, marks)],
        size=(6.4, 6.0),
        legend="below",
    )


#: Points of a density, besides those at its breaks.
DENSITY_POINTS = 500

#: Joint draws of epsilon and the strength.
DRAWS = 800


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
        title="Joint posterior of epsilon and the attack strength",
        caption="If the attacks were strong, these error rates imply a small epsilon; if they were "
        "weak, epsilon may be large. The strength is estimated, not assumed.",
        plots=[Plot(Axis("epsilon"), Axis("attack strength"), marks)],
        size=(6.4, 4.8),
    )


#: Maximum number of points per chain.
TRACE_POINTS = 600

#: As Vehtari et al. (2021).
RANK_BINS = 20

#: Maximum number of chains drawn.
MOST_CHAINS = 12


def rank_counts(draws: FloatArray, bins: int = RANK_BINS) -> FloatArray:
    """How many of each chain's draws fall into each part of the ranks among all: (chain, bin).

    Chains that sample the same distribution fill every part alike (Vehtari et al., 2021).
    """
    from scipy.stats import rankdata

    rank = rankdata(draws, method="average").reshape(draws.shape)
    edges = np.linspace(0.5, draws.size + 0.5, bins + 1)
    return np.stack([np.histogram(row, bins=edges)[0] for row in rank]).astype(float)


def trace_marks(draws: FloatArray) -> list[Mark]:
    """The path of every chain, thinned."""
    every = max(1, -(-draws.shape[1] // TRACE_POINTS))
    x = np.arange(draws.shape[1], dtype=float)[::every]
    hover = "{y:.4g} at iteration {x}"
    return _each_chain(((x, chain[::every]) for chain in draws), hover, width=0.5)


def rank_marks(draws: FloatArray) -> list[Mark]:
    """Ranks of each chain's draws among all draws."""
    # Counts over their expectation: 1 everywhere for chains that agree.
    shares = rank_counts(draws) / (draws.shape[1] / RANK_BINS)
    x = (np.arange(RANK_BINS) + 0.5) / RANK_BINS
    hover, look = "{y:.2f} of a uniform share", {"width": 1.2}
    return [*_each_chain(((x, row) for row in shares), hover, **look), Reference(y=1)]


def _each_chain(
    lines: Iterable[tuple[FloatArray, FloatArray]], hover: str, **look: Any
) -> list[Mark]:
    """One line per chain."""
    kept = islice(lines, MOST_CHAINS)
    look |= {"opacity": 0.75}
    return [
        Line(x, y, colour, f"chain {k}", hover=f"chain {k}: {hover}", **look)
        for k, ((x, y), colour) in enumerate(zip(kept, cycle(style.SEVERAL), strict=False), start=1)
    ]


def traces_chart(result: CountResult) -> Chart | None:
    """The path of every chain; None for posteriors without chains."""
    return _of_each_parameter(
        result,
        trace_marks,
        ("iteration", ""),
        title="Traces of the chains after warm-up",
        caption="Converged chains look like noise around one value, and like each other.",
    )


def ranks_chart(result: CountResult) -> Chart | None:
    """The ranks of every chain; None for posteriors without chains."""
    return _of_each_parameter(
        result,
        rank_marks,
        ("rank among all draws, smallest to largest", "share"),
        title="Ranks of each chain among all draws",
        caption="Share of each chain's draws in each twentieth of all ranks, relative to a uniform "
        "share. A chain with a slope explores another region than the others.",
    )


def _of_each_parameter(
    result: CountResult,
    marks: Callable[[FloatArray], list[Mark]],
    axes: tuple[str, str],
    **words: Any,
) -> Chart | None:
    """One plot per parameter; the second of ``axes`` is appended to the parameter's name."""
    chains, (across, up) = result.posterior.chains, axes
    if chains is None or not chains.parameters:
        return None
    plots = [
        Plot(Axis(across), Axis(f"{LABELS[name]}\n{up}".rstrip(), from_zero=bool(up)), marks(draws))
        for name, draws in chains.samples.items()
    ]
    size = (7.2, 1.7 * len(plots) + 1.0)
    return Chart(plots=plots, size=size, share_x=True, legend="below", **words)
