"""Diagnostics of Markov chains: traces, ranks, effective sample sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.mcmc.diagnostics import LEAST_EFFECTIVE_SIZE, diagnose_parameter
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.judgement.count_result import CountResult
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, ReferenceLine
from epsilometer.report.text.rows import LABELS

PRINT_TRACE_POINTS, PAGE_TRACE_POINTS = 2000, 500
"""Maximum number of points per chain."""

RANK_BINS = 20
"""As Vehtari et al. (2021)."""

STAGES = 10
"""Number of lengths of the chains at which effective draws are computed."""

MOST_PAGE_CHAINS = 12
"""Maximum number of chains on the page."""


def rank_counts(draws: FloatArray, bins: int = RANK_BINS) -> FloatArray:
    """How many of each chain's draws fall into each part of the ranks among all: (chain, bin).

    Chains that sample the same distribution fill every part alike (Vehtari et al., 2021).
    """
    from scipy.stats import rankdata

    rank = rankdata(draws, method="average").reshape(draws.shape)
    edges = np.linspace(0.5, draws.size + 0.5, bins + 1)
    return np.stack([np.histogram(row, bins=edges)[0] for row in rank]).astype(float)


def trace_marks(draws: FloatArray, fine: bool) -> list[Mark]:
    """The path of every chain, thinned."""
    every = max(1, draws.shape[1] // (PRINT_TRACE_POINTS if fine else PAGE_TRACE_POINTS))
    x = np.arange(draws.shape[1], dtype=float)[::every]
    hover = "{y:.4g} at iteration {x}"
    return _each_chain(((x, chain[::every]) for chain in draws), hover, fine, width=0.5)


def rank_marks(draws: FloatArray, fine: bool) -> list[Mark]:
    """Ranks of each chain's draws among all draws."""
    # Counts over their expectation: 1 everywhere for chains that agree.
    shares = rank_counts(draws) / (draws.shape[1] / RANK_BINS)
    x = (np.arange(RANK_BINS) + 0.5) / RANK_BINS
    hover, look = "{y:.2f} of a uniform share", {"width": 1.2, "step": "mid"}
    return [*_each_chain(((x, row) for row in shares), hover, fine, **look), ReferenceLine(y=1)]


def effective_size_marks(draws: FloatArray, fine: bool) -> list[Mark]:
    """Effective draws after each part of the chains."""
    lengths = np.unique(np.linspace(0, draws.shape[1], STAGES + 1).round().astype(int)[1:])
    figures = [diagnose_parameter(draws[:, :length]) for length in lengths]
    bulk = [figure.bulk_effective_size for figure in figures]
    tail = [figure.tail_effective_size for figure in figures]
    x, hover = lengths * len(draws), "{y:,.0f} of {x:,} draws"
    return [
        Line(x, bulk, "blue", "bulk", marker="circle", hover=f"bulk: {hover}"),
        Line(x, tail, "orange", "tail", marker="square", hover=f"tail: {hover}"),
        ReferenceLine(y=LEAST_EFFECTIVE_SIZE),
    ]


def _each_chain(
    lines: Iterable[tuple[FloatArray, FloatArray]], hover: str, fine: bool, **look: Any
) -> list[Mark]:
    """One line per chain; the page shows at most ``MOST_PAGE_CHAINS``."""
    kept = lines if fine else islice(lines, MOST_PAGE_CHAINS)
    look |= {"opacity": 0.75}
    return [
        Line(x, y, colour, f"chain {k}", hover=f"chain {k}: {hover}", **look)
        for k, ((x, y), colour) in enumerate(zip(kept, cycle(style.SEVERAL), strict=False), start=1)
    ]


class _Kind(NamedTuple):
    """A figure with one plot per parameter; ``up`` is appended to the parameter's name."""

    name: str
    title: str
    across: str
    up: str
    caption: str
    marks: Callable[[FloatArray, bool], list[Mark]]


KINDS = (
    _Kind(
        "traces",
        "Traces of the chains after warm-up",
        "iteration",
        "",
        "Converged chains look like noise around one value, and like each other.",
        trace_marks,
    ),
    _Kind(
        "ranks",
        "Ranks of each chain among all draws",
        "rank among all draws, smallest to largest",
        "share",
        "Share of each chain's draws in each twentieth of all ranks, relative to a uniform "
        "share. A chain "
        "with a slope explores another region than the others.",
        rank_marks,
    ),
    _Kind(
        "effective-draws",
        "Effective draws as the chains grow",
        "draws of all chains",
        "effective draws",
        "Number of independent draws with the same accuracy, in the centre (bulk) and in the tails. It "
        "should grow steadily and end above "
        f"{LEAST_EFFECTIVE_SIZE:.0f}.",
        effective_size_marks,
    ),
)


NAMES = tuple(kind.name for kind in KINDS)
"""Names of the figures."""


def chain_chart(posterior: CountPosterior, name: str) -> Chart | None:
    """One of the figures of Markov chains; None for other posteriors."""
    chains = posterior.chains
    if chains is None or not chains.parameters:
        return None
    kind = KINDS[NAMES.index(name)]
    return Chart(
        name=kind.name,
        title=kind.title,
        caption=kind.caption,
        plots=_plots(chains, kind, fine=True),
        page_plots=partial(_plots, chains, kind, fine=False),
        size=(7.2, 1.7 * len(chains.parameters) + 1.0),
        share_x=True,
        legend="above",
    )


def chain_chart_of(result: CountResult, name: str) -> Chart | None:
    """The same of a result."""
    return chain_chart(result.posterior, name)


def _plots(chains: SamplePosterior, kind: _Kind, *, fine: bool) -> list[Plot]:
    plots = []
    for name in chains.parameters:
        up = Axis(f"{LABELS[name]}\n{kind.up}".rstrip(), from_zero=bool(kind.up))
        plots.append(Plot(Axis(kind.across), up, kind.marks(chains.samples[name], fine)))
    return plots
