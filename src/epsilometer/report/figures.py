"""Figures of a posterior, for print.  They show what the posterior says and compute nothing new.

Colours are from Okabe and Ito's set, told apart by the colour-blind; shades differ in lightness.
Each function returns a matplotlib ``Figure`` that no window or global state knows of.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.posterior import Posterior
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.model import region
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.report.summary import LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#555555"
CHAIN_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9", "#E69F00")

REGION_POINTS = 401
CORNER_POINTS = 251

LARGE_EPSILON = 3.5
"""Above this the corner of the region is drawn once more, enlarged."""

JOINT_DRAWS = 250_000
JOINT_BINS = 200
JOINT_LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Probabilities of the highest-density regions drawn in the joint figure."""

MOST_TRACE_POINTS = 2000
MOST_LAGS = 200
FIGURE_SEED = 1
"""Figures of one posterior are always the same."""


def figures(posterior: Posterior, *, level: float = 0.9) -> dict[str, Figure]:
    """Every figure that makes sense for this posterior, by the name of its file."""
    made = {"region.png": region_figure(posterior, level=level)}
    if "epsilon" in posterior.parameters and "strength" in posterior.parameters:
        made["joint.png"] = joint_figure(posterior)
    if posterior.parameters:
        made["marginals.png"] = marginals_figure(posterior, level=level)
    if isinstance(posterior, SamplePosterior):
        made["traces.png"] = trace_figure(posterior)
        made["autocorrelations.png"] = autocorrelation_figure(posterior)
    return made


FIGURE_NAMES = ("region.png", "joint.png", "marginals.png", "traces.png", "autocorrelations.png")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG; the bytes depend on the figure alone."""
    figure.savefig(path, format="png", dpi=160, metadata={"Software": None})


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


# --- the region -------------------------------------------------------------------------------


def region_probability(posterior: Posterior, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Posterior probability that R(epsilon, delta) holds each point: P(epsilon >= critical)."""
    critical = region.critical_epsilon(alpha, beta, posterior.model.delta)
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


def region_figure(posterior: Posterior, *, level: float = 0.9) -> Figure:
    """The unit square of error rates, shaded by how surely the region reaches there.

    Where epsilon is large the edge hugs the axes, so the corner is shown again on logarithmic axes.
    """
    from matplotlib.colors import LinearSegmentedColormap

    delta = posterior.model.delta
    if "epsilon" in posterior.parameters:
        low, high = posterior.credible_interval("epsilon", level)
        median = f"median, epsilon = {_short(posterior, 'epsilon')}"
        lines: list[tuple[float, str, str | None]] = [
            (posterior.median("epsilon"), "-", median),
            (low, "--", f"{100 * level:g} % interval, {_pair(low, high)}"),
            (high, "--", None),
        ]
    else:
        fixed = posterior.median("epsilon")
        lines = [(fixed, "-", f"epsilon = {fixed:g} (fixed)")]
    zoomed = lines[0][0] > LARGE_EPSILON
    figure = _figure(11.4 if zoomed else 6.4, 6.0)
    square, *corner = figure.subplots(1, 2 if zoomed else 1, squeeze=False)[0]
    shades = LinearSegmentedColormap.from_list("region", ["#FFFFFF", "#C6DBEF", "#6BAED6"])
    ticks = (np.arange(REGION_POINTS) + 0.5) / REGION_POINTS
    shade = region_probability(posterior, ticks[None, :], ticks[:, None])
    image = square.imshow(
        shade,
        origin="lower",
        extent=(0, 1, 0, 1),
        cmap=shades,
        vmin=0,
        vmax=1,
        interpolation="bilinear",
    )
    for epsilon, style, label in lines:
        x, y = region_boundary(epsilon, delta)
        square.plot(x, y, style, color=BLUE, linewidth=1.3, label=label)
        square.plot(1 - x, 1 - y, style, color=BLUE, linewidth=1.3)
    square.plot([0, 1], [1, 0], ":", color=GREY, linewidth=1, label="guessing")
    counts = posterior.counts
    dots = _dots(len(counts))
    square.plot(
        counts.false_positive_rates,
        counts.false_negative_rates,
        label="attack" if len(counts) == 1 else f"attacks ({len(counts):,})",
        **dots,
    )
    square.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="false-negative rate")
    square.set_aspect("equal")
    if corner:
        _corner(corner[0], posterior, lines, shades, dots)
    figure.suptitle(f"Error rates that the posterior of epsilon allows (delta = {delta:g})")
    figure.legend(*square.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    bar = figure.colorbar(image, ax=[square, *corner], shrink=0.85, pad=0.02)
    bar.set_label("probability that the region holds the point")
    return figure


def _dots(count: int) -> dict[str, Any]:
    """Markers that can be told apart when few and do not drown the figure when many."""
    return {
        "marker": "o",
        "linestyle": "none",
        "color": ORANGE,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6 if count <= 200 else 0.0,
        "markersize": float(np.clip(14 / count**0.25, 1.8, 7.5)),
        "alpha": float(np.clip(30 / count**0.5, 0.25, 1.0)),
        "clip_on": False,
        "zorder": 5,
    }


def _corner(
    axes: Axes,
    posterior: Posterior,
    lines: list[tuple[float, str, str | None]],
    shades: Any,
    dots: dict[str, Any],
) -> None:
    """The corner of small error rates on log axes; attacks worse than guessing are reflected."""
    counts, delta = posterior.counts, posterior.model.delta
    alpha, beta = counts.false_positive_rates, counts.false_negative_rates
    above = alpha + beta > 1
    alpha, beta = np.where(above, 1 - alpha, alpha), np.where(above, 1 - beta, beta)
    # A rate of 0 is shown at a third of an error.
    alpha = np.maximum(alpha, 1 / (3 * counts.trials_h0))
    beta = np.maximum(beta, 1 / (3 * counts.trials_h1))
    least = min(float(alpha.min()), float(beta.min()), float(np.exp(-max(e for e, *_ in lines))))
    floor = max(least / 2, 1e-12)
    ticks = np.geomspace(floor, 1.0, CORNER_POINTS)
    shade = region_probability(posterior, ticks[None, :], ticks[:, None])
    shade = np.where(ticks[None, :] + ticks[:, None] > 1, np.nan, shade)
    axes.pcolormesh(ticks, ticks, shade, cmap=shades, vmin=0, vmax=1, rasterized=True)
    for epsilon, style, _ in lines:
        corner = float(region_boundary(epsilon, delta)[0][1])
        large = np.concatenate([np.geomspace(corner, 0.5, 200), 1 - np.geomspace(0.5, floor, 200)])
        small = np.exp(-epsilon) * (1 - delta - large)
        kept = small > 0
        for x, y in ((large[kept], small[kept]), (small[kept], large[kept])):
            axes.plot(x, y, style, color=BLUE, linewidth=1.3)
    guess = np.concatenate([np.geomspace(floor, 0.5, 200), 1 - np.geomspace(0.5, floor, 200)])
    axes.plot(guess, 1 - guess, ":", color=GREY, linewidth=1)
    axes.plot(alpha, beta, **dots)
    axes.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1))
    axes.set(xlabel="false-positive rate (log scale)", ylabel="false-negative rate (log scale)")
    axes.set_title("the corner enlarged; no errors drawn as a third of one", fontsize=10)
    axes.set_aspect("equal")


# --- the joint density ------------------------------------------------------------------------


def joint_density(
    posterior: Posterior, *, draws: int = JOINT_DRAWS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Density of (epsilon, strength) on a grid: edges in epsilon, edges in strength, values.

    A histogram of draws, smoothed just enough to draw contours.
    """
    from scipy.ndimage import gaussian_filter

    if isinstance(posterior, SamplePosterior):
        pair = [np.ravel(posterior.samples[name]) for name in ("epsilon", "strength")]
    else:
        drawn = posterior.draws(draws, rng=np.random.default_rng(FIGURE_SEED))
        pair = [drawn["epsilon"], drawn["strength"]]
    edges = []
    for values, most in zip(pair, (np.inf, 1.0), strict=True):
        low, high = np.quantile(values, [0.0005, 0.996])
        room = max(0.06 * (high - low), 1e-9 * abs(high), 1e-12)
        edges.append(np.linspace(max(low - room, 0.0), min(high + room, most), JOINT_BINS + 1))
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
    """A standard deviation that heavy tails do not move."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 1.35


def joint_figure(posterior: Posterior) -> Figure:
    """Highest-density regions of epsilon and the strength together."""
    from matplotlib.patches import Patch

    epsilon, strength, density = joint_density(posterior)
    falling = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    cuts = [falling[min(int(np.searchsorted(held, p)), len(held) - 1)] for p in JOINT_LEVELS]
    levels = np.unique([*cuts, float(falling[0]) * 1.0001])
    figure = _figure(6.4, 4.8)
    axes = figure.add_subplot()
    middle = [0.5 * (edges[1:] + edges[:-1]) for edges in (epsilon, strength)]
    shades = ["#DEEBF7", "#9ECAE1", "#4292C6", "#08519C"][-(len(levels) - 1) :]
    axes.contourf(*middle, density.T, levels=levels, colors=shades)
    axes.contour(*middle, density.T, levels=levels[:-1], colors="white", linewidths=0.5)
    (marker,) = axes.plot(
        posterior.median("epsilon"),
        posterior.median("strength"),
        "P",
        color=ORANGE,
        markeredgecolor="white",
        markersize=10,
        linestyle="none",
        label="medians",
    )
    patches: list[Any] = [
        Patch(color=shade, label=f"{100 * p:g} %")
        for p, shade in zip(JOINT_LEVELS, reversed(shades), strict=False)
    ]
    axes.legend(
        handles=[*patches, marker], title="smallest region holding", fontsize=9, framealpha=0.92
    )
    axes.set(
        xlim=(epsilon[0], epsilon[-1]),
        ylim=(strength[0], strength[-1]),
        xlabel="epsilon",
        ylabel="attack strength",
        title="Joint posterior of epsilon and the attack strength",
    )
    _tidy(axes)
    _calm_ticks(axes)
    return figure


# --- marginals --------------------------------------------------------------------------------


def prior_density(posterior: Posterior, parameter: str, value: FloatArray) -> FloatArray:
    """The marginal prior density of an estimated parameter."""
    model, counts = posterior.model, posterior.counts
    if parameter in ("epsilon", "strength"):
        return np.asarray(np.exp(getattr(model, parameter).log_density(value)))
    likelihood = model.likelihood
    assert isinstance(likelihood, CorrelatedNormal)
    from scipy.special import ndtr, ndtri

    scale = likelihood.within_correlation_scale
    low, high = likelihood.within_correlation_bounds(counts)
    at_low, at_high = ndtr(low / scale), ndtr(high / scale)
    if parameter == "within_correlation":
        peak = 1 / (scale * np.sqrt(2 * np.pi) * (at_high - at_low))
        inside = (value > low) & (value < high)
        return np.where(inside, peak * np.exp(-0.5 * (value / scale) ** 2), 0.0)
    # Given tau the cross correlation is uniform within its bound: average over tau.
    share = (np.arange(2000) + 0.5) / 2000
    bound = likelihood.cross_correlation_bound(
        counts, scale * ndtri(at_low + share * (at_high - at_low))
    )
    allowed = np.abs(value)[..., None] < bound
    return np.asarray((allowed / (2 * bound)).mean(axis=-1))


def marginals_figure(posterior: Posterior, *, level: float = 0.9) -> Figure:
    """The density of each estimated parameter, its credible interval shaded, its prior dashed."""
    names = posterior.parameters
    columns = 1 if len(names) == 1 else 2
    rows = -(-len(names) // columns)
    figure = _figure(4.6 * columns + 0.4, 3.4 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, name in zip(grid.ravel(), names, strict=True):
        low, high = posterior.credible_interval(name, level)
        start, end = posterior.quantile(name, [0.001, 0.997])
        # A posterior without width still gets a picture.
        room = max(0.08 * (end - start), 1e-9 * abs(end), 1e-12)
        start, end = start - room, end + room
        if name in ("epsilon", "strength"):
            start = max(start, 0.0)
        if name == "strength":
            end = min(end, 1.0)
        x = np.unique(np.concatenate([np.linspace(start, end, 500), [low, high]]))
        density = posterior.density(name, x)
        inside = (x >= low) & (x <= high)
        axes.plot(x, density, color=BLUE, linewidth=1.6, label="posterior")
        axes.fill_between(
            x, density, where=inside, color=BLUE, alpha=0.25, linewidth=0,
            label=f"{100 * level:g} % interval",
        )  # fmt: skip
        axes.plot(
            x, prior_density(posterior, name, x), "--", color=GREY, linewidth=1.2, label="prior"
        )
        median = posterior.median(name)
        axes.vlines(
            median, 0, float(posterior.density(name, median)), color=ORANGE, linewidth=1.6,
            label="median",
        )  # fmt: skip
        axes.set(
            xlim=(start, end),
            ylim=(0, 1.06 * float(density.max())),
            xlabel=LABELS[name],
            ylabel="density",
            title=f"{_short(posterior, name)}  ({_pair(low, high)})",
        )
        axes.title.set_fontsize(10.5)
        _tidy(axes)
        _calm_ticks(axes)
    grid.ravel()[0].legend(fontsize=8.5, frameon=False)
    figure.suptitle(f"Marginal posteriors: median ({100 * level:g} % credible interval)")
    return figure


# --- chains -----------------------------------------------------------------------------------


def autocorrelation(chain: FloatArray, lags: int) -> FloatArray:
    """Autocorrelation of one chain at lags 0 to ``lags``; 1, 0, 0, ... for one that is stuck."""
    size = len(chain)
    centred = chain - chain.mean()
    if not np.any(centred):
        return np.asarray(np.eye(1, lags + 1)[0])
    transform = np.fft.rfft(centred, 2 * size)
    covariance = np.fft.irfft(transform * np.conj(transform))[: lags + 1]
    return np.asarray(covariance / covariance[0])


def trace_figure(posterior: SamplePosterior) -> Figure:
    """Every chain's path, thinned to what an eye can see."""
    figure, panels = _chain_panels(posterior, "Traces of the chains after warm-up")

    def trace(axes: Axes, chain: FloatArray, style: dict[str, Any]) -> None:
        every = max(1, len(chain) // MOST_TRACE_POINTS)
        axes.plot(np.arange(len(chain))[::every], chain[::every], linewidth=0.5, **style)

    _draw_chains(posterior, panels, trace)
    for axes, name in panels:
        axes.set(ylabel=LABELS[name])
        axes.margins(x=0)
    panels[-1][0].set_xlabel("iteration")
    return figure


def autocorrelation_figure(posterior: SamplePosterior) -> Figure:
    """How long each chain remembers: autocorrelation against the lag."""
    figure, panels = _chain_panels(posterior, "Autocorrelation of the chains")
    length = next(iter(posterior.samples.values())).shape[1]
    lags = max(1, min(MOST_LAGS, length - 1))

    def line(axes: Axes, chain: FloatArray, style: dict[str, Any]) -> None:
        axes.plot(np.arange(lags + 1), autocorrelation(chain, lags), linewidth=1.3, **style)

    _draw_chains(posterior, panels, line)
    for axes, name in panels:
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set(ylabel=LABELS[name], ylim=(min(-0.15, axes.get_ylim()[0]), 1.05), xlim=(0, lags))
    panels[-1][0].set_xlabel("lag in iterations")
    return figure


def _chain_panels(posterior: SamplePosterior, title: str) -> tuple[Figure, list[tuple[Axes, str]]]:
    names = posterior.parameters
    figure = _figure(7.2, 1.7 * len(names) + 1.0)
    grid = figure.subplots(len(names), 1, squeeze=False, sharex=True)
    figure.suptitle(title)
    panels = list(zip(grid.ravel(), names, strict=True))
    for axes, _ in panels:
        _tidy(axes)
    return figure, panels


def _draw_chains(
    posterior: SamplePosterior,
    panels: list[tuple[Axes, str]],
    draw: Callable[[Axes, FloatArray, dict[str, Any]], None],
) -> None:
    """Draw each chain in its colour; a legend while the chains can be told apart."""
    for axes, name in panels:
        chains = posterior.samples[name]
        for number, chain in enumerate(chains):
            colour = CHAIN_COLOURS[number % len(CHAIN_COLOURS)]
            style = {"color": colour, "alpha": 0.75, "label": f"chain {number + 1}"}
            draw(axes, chain, style)
    first = panels[0][0]
    if 1 < len(posterior.samples[panels[0][1]]) <= len(CHAIN_COLOURS):
        legend = first.legend(
            loc="lower right", bbox_to_anchor=(1, 1), ncols=6, fontsize=8, frameon=False
        )
        for handle in legend.get_lines():
            handle.set_linewidth(2)


# --- numbers ----------------------------------------------------------------------------------


def _calm_ticks(axes: Axes) -> None:
    """Few ticks, and a common offset where the range is narrow, so that labels never collide."""
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))


def _digits(low: float, high: float) -> int:
    width = high - low
    return int(np.clip(1 - np.floor(np.log10(width)), 2, 10)) if width > 0 else 4


def _short(posterior: Posterior, name: str) -> str:
    """The median with as many decimals as the spread supports."""
    low, high = posterior.credible_interval(name, 0.9)
    return f"{posterior.median(name):.{_digits(low, high)}f}"


def _pair(low: float, high: float) -> str:
    digits = _digits(low, high)
    return f"{low:.{digits}f} to {high:.{digits}f}"
