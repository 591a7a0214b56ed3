"""Diagnostics of Markov chains: traces and ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle, islice
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.judgement.count_result import CountResult
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, ReferenceLine
from epsilometer.report.text.rows import LABELS

TRACE_POINTS = 600
"""Maximum number of points per chain."""

RANK_BINS = 20
"""As Vehtari et al. (2021)."""

MOST_CHAINS = 12
"""Maximum number of chains drawn."""


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
    return [*_each_chain(((x, row) for row in shares), hover, **look), ReferenceLine(y=1)]


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
        name="traces",
        title="Traces of the chains after warm-up",
        caption="Converged chains look like noise around one value, and like each other.",
    )


def ranks_chart(result: CountResult) -> Chart | None:
    """The ranks of every chain; None for posteriors without chains."""
    return _of_each_parameter(
        result,
        rank_marks,
        ("rank among all draws, smallest to largest", "share"),
        name="ranks",
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
