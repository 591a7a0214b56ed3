"""Whether Markov chains can be believed: traces, ranks, effective draws, autocorrelations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.diagnostics import LEAST_EFFECTIVE_SIZE, diagnose_parameter
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, CHAIN_COLOURS, CHAIN_NAMES, GREY, ORANGE, Panel
from epsilometer.report.summary import LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

PRINT_TRACE_POINTS = 2000
PAGE_TRACE_POINTS = 500
MOST_LAGS = 200
RANK_BINS = 20
STAGES = 10
"""Parts of the chains after which effective draws are counted."""

MOST_PAGE_CHAINS = 12


def autocorrelation(chain: FloatArray, lags: int) -> FloatArray:
    """Autocorrelation of one chain at lags 0 to ``lags``; 1, 0, 0, ... for one that is stuck."""
    size = len(chain)
    centred = chain - chain.mean()
    if not np.any(centred):
        return np.asarray(np.eye(1, lags + 1)[0])
    transform = np.fft.rfft(centred, 2 * size)
    covariance = np.fft.irfft(transform * np.conj(transform))[: lags + 1]
    return np.asarray(covariance / covariance[0])


def rank_counts(draws: FloatArray, bins: int = RANK_BINS) -> FloatArray:
    """How many of each chain's draws fall into each part of the ranks among all: (chain, bin).

    Chains that sample the same distribution fill every part alike (Vehtari et al., 2021).
    """
    from scipy.stats import rankdata

    rank = rankdata(draws, method="average").reshape(draws.shape)
    edges = np.linspace(0.5, draws.size + 0.5, bins + 1)
    return np.stack([np.histogram(row, bins=edges)[0] for row in rank]).astype(float)


@dataclass(frozen=True, kw_only=True, eq=False)
class _ChainsChart(Chart):
    """What the charts of chains share: a plot a parameter, a colour a chain."""

    posterior: SamplePosterior

    @property
    def _length(self) -> int:
        return int(next(iter(self.posterior.samples.values())).shape[1])

    def _frame(self, x_title: str) -> tuple[Figure, list[tuple[Axes, str]]]:
        """A printed plot for each parameter, one under the other."""
        names = self.posterior.parameters
        figure = style.new_figure(7.2, 1.7 * len(names) + 1.0)
        grid = figure.subplots(len(names), 1, squeeze=False, sharex=True).ravel()
        figure.suptitle(self.title)
        for axes, name in zip(grid, names, strict=True):
            style.tidy(axes)
            axes.set(ylabel=LABELS[name])
        grid[-1].set_xlabel(x_title)
        return figure, list(zip(grid, names, strict=True))

    def _draw(
        self, x_title: str, draw: Callable[[Axes, FloatArray, dict[str, Any]], None]
    ) -> tuple[Figure, list[tuple[Axes, str]]]:
        """Draw each chain in its colour; a legend while the chains can be told apart."""
        figure, panels = self._frame(x_title)
        for axes, name in panels:
            for number, chain in enumerate(self.posterior.samples[name]):
                colour = CHAIN_COLOURS[number % len(CHAIN_COLOURS)]
                draw(axes, chain, {"color": colour, "alpha": 0.75, "label": f"chain {number + 1}"})
        first, name = panels[0]
        if 1 < len(self.posterior.samples[name]) <= len(CHAIN_COLOURS):
            legend = first.legend(
                loc="lower right", bbox_to_anchor=(1, 1), ncols=6, fontsize=8, frameon=False
            )
            for handle in legend.get_lines():
                handle.set_linewidth(2)
        return figure, panels

    def _plots(
        self,
        x_title: str,
        lines: Callable[[FloatArray], list[tuple[Any, Any]]],
        *,
        hover: str,
        y_title: str = "",
        shape: str = "linear",
        **frame: Any,
    ) -> list[Panel]:
        """A plot of the page for each parameter; ``lines`` makes one line a chain of its draws."""
        found = []
        for name in self.posterior.parameters:
            data = []
            chains = lines(self.posterior.samples[name])[:MOST_PAGE_CHAINS]
            for number, (x, y) in enumerate(chains):
                trace = style.line(
                    style.numbers(x),
                    style.numbers(y, 6),
                    CHAIN_NAMES[number % len(CHAIN_NAMES)],
                    width=1.2,
                    opacity=0.8,
                    name=f"chain {number + 1}",
                    hover=f"chain {number + 1}: {hover}",
                )
                trace["line"]["shape"] = shape
                data.append(trace)
            shown = style.layout(x_title, f"{LABELS[name]}{y_title}", showlegend=True, **frame)
            found.append(style.panel(data, shown))
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceChart(_ChainsChart):
    """Every chain's path, thinned to what an eye can see."""

    name = "traces"
    title = "Traces of the chains after warm-up"

    @property
    def caption(self) -> str:
        return "Good chains look like noise around one level, and like each other."

    def thinned(self, chain: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
        """Iterations and values, at most about so many."""
        every = max(1, len(chain) // most)
        return np.arange(len(chain), dtype=float)[::every], chain[::every]

    def draw(self) -> Figure:
        def line(axes: Axes, chain: FloatArray, look: dict[str, Any]) -> None:
            axes.plot(*self.thinned(chain, PRINT_TRACE_POINTS), linewidth=0.5, **look)

        figure, panels = self._draw("iteration", line)
        for axes, _ in panels:
            axes.margins(x=0)
        return figure

    def panels(self) -> list[Panel]:
        def lines(draws: FloatArray) -> list[tuple[Any, Any]]:
            return [self.thinned(chain, PAGE_TRACE_POINTS) for chain in draws]

        return self._plots("iteration", lines, hover="%{y:.4g} at iteration %{x}")


@dataclass(frozen=True, kw_only=True, eq=False)
class AutocorrelationChart(_ChainsChart):
    """How long each chain remembers."""

    name = "autocorrelations"
    title = "Autocorrelation of the chains"

    @property
    def caption(self) -> str:
        return "How long a chain remembers where it was: the sooner it falls to 0, the better."

    @property
    def lags(self) -> int:
        """The longest lag shown."""
        return max(1, min(MOST_LAGS, self._length - 1))

    def draw(self) -> Figure:
        lags = np.arange(self.lags + 1)

        def line(axes: Axes, chain: FloatArray, look: dict[str, Any]) -> None:
            axes.plot(lags, autocorrelation(chain, self.lags), linewidth=1.3, **look)

        figure, panels = self._draw("lag in iterations", line)
        for axes, _ in panels:
            axes.axhline(0, color=GREY, linewidth=0.8)
            axes.set(ylim=(min(-0.15, axes.get_ylim()[0]), 1.05), xlim=(0, self.lags))
        return figure

    def panels(self) -> list[Panel]:
        def lines(draws: FloatArray) -> list[tuple[Any, Any]]:
            lags = np.arange(self.lags + 1)
            return [(lags, autocorrelation(chain, self.lags)) for chain in draws]

        return self._plots("lag in iterations", lines, hover="%{y:.3f} at lag %{x}")


@dataclass(frozen=True, kw_only=True, eq=False)
class RankChart(_ChainsChart):
    """Ranks of each chain's draws among all draws."""

    name = "ranks"
    title = "Ranks of each chain among all draws"

    @property
    def caption(self) -> str:
        return (
            "How often each chain visits each twentieth of all draws, against an equal share. A chain "
            "that leans to one side has not seen what the others have."
        )

    def shares(self, draws: FloatArray) -> FloatArray:
        """Counts over their expectation: 1 everywhere for chains that agree."""
        return np.asarray(rank_counts(draws) / (draws.shape[1] / RANK_BINS))

    def _steps(self) -> FloatArray:
        return np.asarray((np.arange(RANK_BINS) + 0.5) / RANK_BINS)

    def draw(self) -> Figure:
        figure, panels = self._frame("rank among all draws, smallest to largest")
        for axes, name in panels:
            for number, row in enumerate(self.shares(self.posterior.samples[name])):
                colour = CHAIN_COLOURS[number % len(CHAIN_COLOURS)]
                axes.step(self._steps(), row, where="mid", color=colour, linewidth=1.2)
            axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
            axes.set_ylim(bottom=0)
        return figure

    def panels(self) -> list[Panel]:
        def lines(draws: FloatArray) -> list[tuple[Any, Any]]:
            return [(self._steps(), row) for row in self.shares(draws)]

        return self._plots(
            "rank among all draws",
            lines,
            hover="%{y:.2f} of an equal share",
            y_title=": share",
            shape="hvh",
            yaxis={"rangemode": "tozero"},
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectiveSizeChart(_ChainsChart):
    """Effective draws after each part of the chains."""

    name = "effective-draws"
    title = "Effective draws as the chains grow"

    @property
    def caption(self) -> str:
        return (
            "What the draws are worth: how many independent ones would know the middle (bulk) and the "
            "tails as well. It should grow steadily and end above "
            f"{LEAST_EFFECTIVE_SIZE:.0f}."
        )

    def growth(self, draws: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draws so far, and effective draws in bulk and tail."""
        lengths = np.unique(np.linspace(0, draws.shape[1], STAGES + 1).round().astype(int)[1:])
        figures = [diagnose_parameter(draws[:, :length]) for length in lengths]
        return (
            np.asarray(lengths * len(draws), dtype=float),
            np.array([each.bulk_effective_size for each in figures]),
            np.array([each.tail_effective_size for each in figures]),
        )

    def draw(self) -> Figure:
        figure, panels = self._frame("draws of all chains")
        for axes, name in panels:
            size, bulk, tail = self.growth(self.posterior.samples[name])
            axes.plot(size, bulk, "o-", color=BLUE, markersize=4, label="bulk")
            axes.plot(size, tail, "s-", color=ORANGE, markersize=4, label="tail")
            axes.axhline(LEAST_EFFECTIVE_SIZE, color=GREY, linewidth=0.8, linestyle=":")
            axes.set_ylim(bottom=0)
        panels[0][0].legend(fontsize=8.5, frameon=False)
        return figure

    def panels(self) -> list[Panel]:
        found = []
        for name in self.posterior.parameters:
            size, bulk, tail = self.growth(self.posterior.samples[name])
            data = [
                style.line(
                    style.numbers(size),
                    style.numbers(values),
                    colour,
                    name=label,
                    hover=f"{label}: %{{y:,.0f}} of %{{x:,}} draws",
                )
                for values, colour, label in ((bulk, "@blue", "bulk"), (tail, "@orange", "tail"))
            ]
            frame = style.layout(
                "draws of all chains",
                f"{LABELS[name]}: effective draws",
                yaxis={"rangemode": "tozero"},
                shapes=[style.horizontal(LEAST_EFFECTIVE_SIZE)],
                showlegend=True,
            )
            found.append(style.panel(data, frame))
        return found
