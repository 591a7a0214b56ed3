"""Whether Markov chains can be believed: traces, ranks, effective draws, autocorrelations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, ClassVar

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.inference.mcmc.diagnostics import LEAST_EFFECTIVE_SIZE, diagnose_parameter
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Rule, Sheet
from epsilometer.report.summary import LABELS

PRINT_TRACE_POINTS, PAGE_TRACE_POINTS = 2000, 500
"""More than a plot has dots across, and than a page should hold of each of many chains."""

MOST_LAGS = 200
"""A chain that remembers for longer is seen to do so."""

RANK_BINS = 20
"""As Vehtari et al. (2021)."""

STAGES = 10
"""Parts of the chains after which effective draws are counted."""

MOST_PAGE_CHAINS = 12
"""Twice round the colours; more cannot be told apart."""


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

    across: ClassVar[Axis]
    up: ClassVar[Axis] = Axis("")
    """Its title follows the name of the parameter."""

    @abstractmethod
    def marks(self, draws: FloatArray, *, fine: bool) -> list[Mark]:
        """What is drawn of one parameter."""

    def sheet(self, *, fine: bool) -> Sheet:
        plots = []
        for name in self.posterior.parameters:
            up = replace(self.up, title="\n".join(filter(None, (LABELS[name], self.up.title))))
            plots.append(Plot(self.across, up, self.marks(self.posterior.samples[name], fine=fine)))
        size = (7.2, 1.7 * len(plots) + 1.0)
        return Sheet(self.title, plots, size, share_x=True, legend="above")


def _each_chain(
    lines: Iterable[tuple[FloatArray, FloatArray]], hover: str, *, fine: bool, **look: Any
) -> list[Mark]:
    """A line a chain; of many chains the page shows some."""
    kept = list(lines) if fine else list(lines)[:MOST_PAGE_CHAINS]
    colours = cycle(style.SEVERAL)
    return [
        Line(
            x, y, colour, f"chain {k}", opacity=0.75, hover=f"chain {k}: {hover}", digits=6, **look
        )
        for k, ((x, y), colour) in enumerate(zip(kept, colours, strict=False), start=1)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceChart(_ChainsChart):
    """Every chain's path, thinned to what an eye can see."""

    name = "traces"
    title = "Traces of the chains after warm-up"
    across = Axis("iteration")

    @property
    def caption(self) -> str:
        return "Good chains look like noise around one level, and like each other."

    def marks(self, draws: FloatArray, *, fine: bool) -> list[Mark]:
        every = max(1, draws.shape[1] // (PRINT_TRACE_POINTS if fine else PAGE_TRACE_POINTS))
        x = np.arange(draws.shape[1], dtype=float)[::every]
        hover = "%{y:.4g} at iteration %{x}"
        return _each_chain(((x, chain[::every]) for chain in draws), hover, fine=fine, width=0.5)


@dataclass(frozen=True, kw_only=True, eq=False)
class AutocorrelationChart(_ChainsChart):
    """How long each chain remembers."""

    name = "autocorrelations"
    title = "Autocorrelation of the chains"
    across = Axis("lag in iterations")

    @property
    def caption(self) -> str:
        return "How long a chain remembers where it was: the sooner it falls to 0, the better."

    def marks(self, draws: FloatArray, *, fine: bool) -> list[Mark]:
        longest = max(1, min(MOST_LAGS, draws.shape[1] - 1))
        lags = np.arange(longest + 1, dtype=float)
        lines = ((lags, autocorrelation(chain, longest)) for chain in draws)
        chains = _each_chain(lines, "%{y:.3f} at lag %{x}", fine=fine, width=1.3)
        return [*chains, Rule(y=0, dash="solid")]


@dataclass(frozen=True, kw_only=True, eq=False)
class RankChart(_ChainsChart):
    """Ranks of each chain's draws among all draws."""

    name = "ranks"
    title = "Ranks of each chain among all draws"
    across = Axis("rank among all draws, smallest to largest")
    up = Axis("share", from_zero=True)

    @property
    def caption(self) -> str:
        return (
            "How often each chain visits each twentieth of all draws, against an equal share. A chain "
            "that leans to one side has not seen what the others have."
        )

    def marks(self, draws: FloatArray, *, fine: bool) -> list[Mark]:
        # Counts over their expectation: 1 everywhere for chains that agree.
        shares = rank_counts(draws) / (draws.shape[1] / RANK_BINS)
        x = (np.arange(RANK_BINS) + 0.5) / RANK_BINS
        hover, look = "%{y:.2f} of an equal share", {"width": 1.2, "step": "mid"}
        return [*_each_chain(((x, row) for row in shares), hover, fine=fine, **look), Rule(y=1)]


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectiveSizeChart(_ChainsChart):
    """Effective draws after each part of the chains."""

    name = "effective-draws"
    title = "Effective draws as the chains grow"
    across = Axis("draws of all chains")
    up = Axis("effective draws", from_zero=True)

    @property
    def caption(self) -> str:
        return (
            "What the draws are worth: how many independent ones would know the middle (bulk) and the "
            "tails as well. It should grow steadily and end above "
            f"{LEAST_EFFECTIVE_SIZE:.0f}."
        )

    def marks(self, draws: FloatArray, *, fine: bool) -> list[Mark]:
        lengths = np.unique(np.linspace(0, draws.shape[1], STAGES + 1).round().astype(int)[1:])
        figures = [diagnose_parameter(draws[:, :length]) for length in lengths]
        bulk = [each.bulk_effective_size for each in figures]
        tail = [each.tail_effective_size for each in figures]
        x, hover = lengths * len(draws), "%{y:,.0f} of %{x:,} draws"
        return [
            Line(x, bulk, "blue", "bulk", marker="circle", hover=f"bulk: {hover}"),
            Line(x, tail, "orange", "tail", marker="square", hover=f"tail: {hover}"),
            Rule(y=LEAST_EFFECTIVE_SIZE),
        ]
