"""The grid of the spread, over which groups of dependent attacks are integrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import panels
from epsilometer.inference.panels import PanelDensity
from epsilometer.model.dependence import LARGEST_SPREAD, SpreadPrior
from epsilometer.model.priors import Fixed

FloatArray = NDArray[np.float64]

FIRST_QUANTILES = np.array([0.2, 0.5, 0.8, 0.97])
"""Of the prior: where its first panels meet."""

BEYOND = 1e-5
"""Of the prior beyond the last panel."""

NEGLIGIBLE = 1e-4
"""Of the posterior on a panel at an end that is given up."""


@dataclass(frozen=True, kw_only=True)
class SpreadGrid:
    """Gauss-Legendre nodes on panels of the spread, and the prior's weights at them.

    A fixed spread is one node of weight 1 without panels.
    """

    breaks: FloatArray
    spread: FloatArray
    log_weight: FloatArray

    def __len__(self) -> int:
        return len(self.log_weight)

    @property
    def count(self) -> int:
        """Nodes on a panel."""
        return len(self.spread) // (len(self.breaks) - 1)

    def density(self, probability: FloatArray) -> PanelDensity:
        """The density that has the given probabilities at the nodes."""
        _, weights = panels.gauss_legendre(self.count)
        half = 0.5 * np.diff(self.breaks)[:, None]
        shaped = probability.reshape(len(half), self.count)
        return PanelDensity(breaks=self.breaks, values=shaped / (half * weights))


def first_spread_grid(prior: SpreadPrior, count: int) -> SpreadGrid:
    """Panels between quantiles of the prior."""
    if isinstance(prior, Fixed):
        return SpreadGrid(
            breaks=np.zeros(0), spread=np.array([prior.value]), log_weight=np.zeros(1)
        )
    end = min(float(prior.upper_quantile(BEYOND)), LARGEST_SPREAD)
    inner = np.asarray(prior.quantile(FIRST_QUANTILES))
    breaks = np.unique(np.concatenate([[0.0], inner[inner < 0.9 * end], [end]]))
    return spread_grid(prior, breaks, count)


def spread_grid(prior: SpreadPrior, breaks: FloatArray, count: int) -> SpreadGrid:
    """Gauss-Legendre nodes between the given breaks."""
    assert not isinstance(prior, Fixed)
    points, weights = panels.gauss_legendre(count)
    half = 0.5 * np.diff(breaks)[:, None]
    spread = (breaks[:-1, None] + half * (1 + points)).ravel()
    log_weight = np.log((half * weights).ravel()) + prior.log_density(spread)
    return SpreadGrid(breaks=breaks, spread=spread, log_weight=log_weight)


def refined(
    grid: SpreadGrid, prior: SpreadPrior, probability: FloatArray, count: int
) -> SpreadGrid:
    """A grid for the next level: fine where a coarser one found the posterior and did not resolve it."""
    if isinstance(prior, Fixed):
        return grid
    density = grid.density(probability)
    half = 0.5 * np.diff(grid.breaks)
    left = panels.tail(density.values @ panels.analysis_matrix(grid.count).T) * half
    mass = probability.reshape(len(half), -1).sum(axis=1)
    live = np.flatnonzero(mass > NEGLIGIBLE)
    kept = slice(int(live[0]), int(live[-1]) + 1)
    middles = 0.5 * (grid.breaks[:-1] + grid.breaks[1:])[kept]
    split = left[kept] > 0.02
    breaks = np.sort(np.append(grid.breaks[kept.start : kept.stop + 1], middles[split]))
    if kept.stop == len(half) and breaks[-1] < LARGEST_SPREAD:
        # The prior all but ended here; the data may not have heard of it.
        breaks = np.append(breaks, min(2 * breaks[-1], LARGEST_SPREAD))
    if kept.start == 0 and breaks[0] > 0:
        breaks = np.append(0.0, breaks)
    return spread_grid(prior, breaks, count)
