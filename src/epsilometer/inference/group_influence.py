"""Epsilon's posterior without each group of dependent attacks.

Given epsilon, the strength and the spread the groups are independent, so the posterior without one is
the posterior divided by that group's likelihood at the nodes of the posterior's own grid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.exact_groups import STRONGEST, GroupLikelihood
from epsilometer.inference.exact_problem import Level
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.panels import PanelDensity
from epsilometer.inference.spread_grid import BEYOND, SpreadGrid
from epsilometer.model.dependence import IndependentRows
from epsilometer.model.priors import Fixed

FloatArray = NDArray[np.float64]

FAINT = 1e-9
LARGEST_SHARE = 1e-3
"""Of the new posterior on cells fainter than `FAINT`: others like them were dropped from the grid."""


LARGEST_AT_CUT = 0.05
"""Of the new posterior on a panel of the spread beside which others were given up."""


def without_each_group(
    posterior: GridPosterior,
    probabilities: FloatArray,
    *,
    report: Callable[[str], None] | None = None,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Quantiles (row, probability) of epsilon without the row's group, and whether to trust them.

    Rows that are groups of one are not left out here: their quantiles are those of the whole posterior
    and are marked as not reliable.
    """
    counts, grid, cells = posterior.counts, posterior.nuisance, posterior.cells
    whole = posterior.quantile("epsilon", probabilities)
    quantiles = np.tile(whole, (len(counts), 1))
    reliable = np.zeros(len(counts), dtype=bool)
    if not isinstance(grid, SpreadGrid):
        return quantiles, reliable
    if report:
        report("likelihoods of the groups")
    level = Level.number(max(posterior.accuracy.levels - 1, 0), correlated=True)
    likelihood = GroupLikelihood.of(counts, posterior.model, level, grid)
    groups = [rows for rows in counts.members if len(rows) > 1]
    log_cell = np.log(cells.mass)
    ratio = np.zeros((len(groups), len(cells.mass)))
    at_cut = np.zeros_like(ratio)
    cut_nodes = _nodes_at_cuts(grid, posterior)
    nuisance = cells.log_nuisance if cells.log_nuisance.size else np.zeros((len(cells.mass), 1))
    weighted = nuisance + grid.log_weight
    share = weighted - np.logaddexp.reduce(weighted, axis=1)[:, None]
    for row in np.unique(cells.row):
        mine = np.flatnonzero(cells.row == row)
        epsilon = float(cells.epsilon[row])
        strength = np.minimum(cells.strength[mine], STRONGEST)
        found = likelihood.by_group(epsilon, likelihood.densities(epsilon), strength)
        for number, logs in enumerate(found):
            whole_ratio = np.logaddexp.reduce(share[mine] - logs, axis=1)
            ratio[number, mine] = whole_ratio
            if cut_nodes.any():
                rest = np.exp(share[mine] - logs - whole_ratio[:, None])
                at_cut[number, mine] = rest[:, cut_nodes].sum(axis=1)
    marginal = posterior.marginals["epsilon"]
    rows_mass = np.bincount(cells.row, cells.mass, minlength=len(cells.epsilon))
    known = np.flatnonzero(rows_mass)
    for number, members in enumerate(groups):
        log_weight = log_cell + ratio[number]
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        by_row = np.bincount(cells.row, weight, minlength=len(cells.epsilon))[known]
        change = np.log(np.maximum(by_row, 1e-300)) - np.log(rows_mass[known])
        # Rows of which no cell was kept follow their neighbours.
        change = np.interp(np.arange(len(cells.epsilon)), known, change)
        change = change.reshape(marginal.values.shape)
        density = PanelDensity(
            breaks=marginal.breaks, values=marginal.values * np.exp(change - change.max())
        )
        quantiles[members] = density.quantile(probabilities)
        at_ends = density.cdf([density.breaks[1], density.breaks[-2]])
        faint = float(weight[cells.mass < FAINT].sum())
        cut = max(float(at_ends[0]) if density.breaks[0] > 0 else 0.0, 1 - float(at_ends[1]))
        in_reach = float(weight @ at_cut[number]) < LARGEST_AT_CUT
        good = faint < LARGEST_SHARE and cut < LARGEST_SHARE and posterior.trustworthy and in_reach
        reliable[members] = good
    return quantiles, reliable


def _nodes_at_cuts(grid: SpreadGrid, posterior: GridPosterior) -> NDArray[np.bool_]:
    """Nodes of the spread on an outer panel that is not at an end of the prior."""
    found = np.zeros(len(grid), dtype=bool)
    if "spread" in posterior.parameters:
        if grid.breaks[0] > 0:
            found[: grid.count] = True
        dependence = posterior.model.dependence
        assert not isinstance(dependence, IndependentRows)
        assert not isinstance(dependence.spread, Fixed)
        if grid.breaks[-1] < 0.9 * float(dependence.spread.upper_quantile(BEYOND)):
            found[-grid.count :] = True
    return found
