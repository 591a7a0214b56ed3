"""The grid of the spread, over which groups of dependent attacks are integrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.engines.exact.nuisance import LEAST_LOG_NUISANCE, Arrays, NuisanceGrid
from epsilometer.errors import InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import LARGEST_SPREAD
from epsilometer.model.priors import Prior
from epsilometer.posteriors import panels
from epsilometer.posteriors.panels import PanelDensity, invert

if TYPE_CHECKING:
    from epsilometer.engines.exact.posterior import GridPosterior

FIRST_QUANTILES = np.array([0.2, 0.5, 0.8, 0.97])
"""Quantiles of the prior at the breaks between the first panels."""

BEYOND_LAST_PANEL = 1e-5
"""Prior probability beyond the last panel."""

NEGLIGIBLE_PANEL = 1e-4
"""Posterior probability below which a panel at an end is dropped."""


@dataclass(frozen=True, kw_only=True)
class SpreadGrid(NuisanceGrid):
    """Gauss-Legendre nodes on panels of the spread, with the prior's weights.

    A fixed spread is one node of weight 1 without panels.
    """

    breaks: FloatArray
    spread: FloatArray
    log_weight: FloatArray

    @property
    def count(self) -> int:
        """Nodes on a panel."""
        return len(self.spread) // (len(self.breaks) - 1)

    def density(self, probability: FloatArray) -> PanelDensity:
        """The density with the given probabilities at the nodes."""
        _, weights = panels.gauss_legendre(self.count)
        half = 0.5 * np.diff(self.breaks)[:, None]
        shaped = probability.reshape(len(half), self.count)
        return PanelDensity(breaks=self.breaks, values=shaped / (half * weights))

    def marginals(
        self, model: CountModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        """The marginal of the spread, unless it is fixed."""
        return {"spread": self.density(probability)} if len(self.breaks) else {}

    def draw(
        self, posterior: GridPosterior, cell: IntArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Draw the spread in each given cell: a node, spread out over its share of the marginal."""
        if not len(self.breaks):
            return {}
        cells = posterior.cells
        logs = np.maximum(cells.log_nuisance, LEAST_LOG_NUISANCE) + self.log_weight
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        cumulative = np.cumsum(weights, axis=1)
        cumulative /= cumulative[:, -1:]
        node = (cumulative[cell] < rng.random(len(cell))[:, None]).sum(axis=1)
        share = cells.mass @ (weights / weights.sum(axis=1, keepdims=True))
        before = np.concatenate([[0.0], np.cumsum(share)])
        target = (before[node] + rng.random(len(cell)) * share[node]) / before[-1]
        return {"spread": invert(posterior.marginals["spread"], target)}

    def stored(self) -> Arrays:
        """Arrays to store in a file."""
        return {
            "nuisance_spread": (("nuisance",), self.spread),
            "nuisance_log_weight": (("nuisance",), self.log_weight),
        }

    def nodes_at_cuts(self, model: CountModel) -> BoolArray:
        """Nodes of the spread on an outer panel that is not at an end of the prior."""
        cut_nodes = np.zeros(len(self), dtype=bool)
        prior = model.dependence.spread
        if len(self.breaks) and prior is not None:
            cut_nodes[: self.count] |= self.breaks[0] > 0
            cut_nodes[-self.count :] |= self.breaks[-1] < 0.9 * float(
                prior.upper_quantile(BEYOND_LAST_PANEL)
            )
        return cut_nodes

    @classmethod
    def restored(cls, arrays: Mapping[str, FloatArray], breaks: FloatArray) -> SpreadGrid:
        """From the arrays of :meth:`stored` in a file, and the breaks of the marginal."""
        grid = cls(
            breaks=breaks,
            spread=arrays["nuisance_spread"],
            log_weight=arrays["nuisance_log_weight"],
        )
        if len(grid.spread) != len(grid.log_weight):
            raise InputError("expected a weight for every node of the spread.")
        return grid


def first_spread_grid(prior: Prior, count: int) -> SpreadGrid:
    """Panels between quantiles of the prior."""
    fixed = prior.fixed_value
    if fixed is not None:
        return SpreadGrid(breaks=np.zeros(0), spread=np.array([fixed]), log_weight=np.zeros(1))
    end = min(float(prior.upper_quantile(BEYOND_LAST_PANEL)), LARGEST_SPREAD)
    inner = np.asarray(prior.quantile(FIRST_QUANTILES))
    breaks = np.unique(np.concatenate([[0.0], inner[inner < 0.9 * end], [end]]))
    return spread_grid(prior, breaks, count)


def spread_grid(prior: Prior, breaks: FloatArray, count: int) -> SpreadGrid:
    """Gauss-Legendre nodes between the given breaks."""
    points, weights = panels.gauss_legendre(count)
    half = 0.5 * np.diff(breaks)[:, None]
    spread = (breaks[:-1, None] + half * (1 + points)).ravel()
    log_weight = np.log((half * weights).ravel()) + prior.log_density(spread)
    return SpreadGrid(breaks=breaks, spread=spread, log_weight=log_weight)


def refined(grid: SpreadGrid, prior: Prior, probability: FloatArray, count: int) -> SpreadGrid:
    """A grid for the next step, finer where a coarser one found the posterior without resolving it."""
    if prior.fixed_value is not None:
        return grid
    density = grid.density(probability)
    half = 0.5 * np.diff(grid.breaks)
    left = panels.tail(density.values @ panels.analysis_matrix(grid.count).T) * half
    mass = probability.reshape(len(half), -1).sum(axis=1)
    live = np.flatnonzero(mass > NEGLIGIBLE_PANEL)
    kept = slice(int(live[0]), int(live[-1]) + 1)
    middles = 0.5 * (grid.breaks[:-1] + grid.breaks[1:])[kept]
    split = left[kept] > 0.02
    breaks = np.sort(np.append(grid.breaks[kept.start : kept.stop + 1], middles[split]))
    if kept.stop == len(half) and breaks[-1] < LARGEST_SPREAD:
        # The prior is negligible beyond this end, but the data may say otherwise.
        breaks = np.append(breaks, min(2 * breaks[-1], LARGEST_SPREAD))
    if kept.start == 0 and breaks[0] > 0:
        breaks = np.append(0.0, breaks)
    return spread_grid(prior, breaks, count)
