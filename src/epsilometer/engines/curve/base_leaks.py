"""The leak of each base, and of the worst of them, from a solution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.solve import LeakGrid, Solution

NEGLIGIBLE_DISTRIBUTION = 1e-6
"""Strength distributions with a smaller probability, under one component, are left out."""

MOST_ALGORITHM_LEAKS, MOST_BASE_LEAKS = 80, 100
"""Numbers of leaks used to find the worst of several bases: of the algorithm, and of the worst base,
first over the whole range and then where it has probability."""


class Part(NamedTuple):
    """Probabilities of leaks under one component: leaks, largest first, and a column for each base."""

    component: int
    leaks: FloatArray
    mass: FloatArray


def _distributions(solution: Solution, component: int) -> Iterator[tuple[int, FloatArray]]:
    """Strength distributions that matter under a component, with the probabilities of its rows."""
    table = solution.probability[component]
    for distribution in np.flatnonzero(table.sum(axis=1) > NEGLIGIBLE_DISTRIBUTION).tolist():
        yield distribution, table[distribution]


def _grid(solution: Solution, component: int) -> LeakGrid:
    return solution.grids[solution.grid_of[component]]


def common_leaks(solution: Solution, component: int) -> tuple[FloatArray, FloatArray]:
    """Leaks of all bases if their strengths are equal, and their probabilities."""
    same = np.isinf(solution.distributions.concentrations)
    fixed = float(solution.distributions.means[same][0]) if same.any() else 1.0
    return fixed * solution.rows_of(component), solution.probability[component][same].sum(axis=0)


def leaks_of_bases(solution: Solution) -> list[Part]:
    """Probabilities of each base's own leak."""
    bases = solution.grids[0].likelihood.shape[1]
    parts = []
    for component in range(len(solution.components)):
        grid = _grid(solution, component)
        leaks, mass = common_leaks(solution, component)
        parts.append(Part(component, leaks, np.repeat(mass[:, None], bases, axis=1)))
        likelihood = grid.likelihood[grid.columns]
        total = np.zeros(likelihood.shape)
        for distribution, rows in _distributions(solution, component):
            if np.isinf(solution.distributions.concentrations[distribution]):
                continue
            weights = solution.strength_rows(grid, distribution)
            average = weights @ likelihood
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(average > 0, rows[:, None] / average, 0.0)
            total += likelihood * (weights.T @ share)
        parts.append(Part(component, grid.leaks[grid.columns], total))
    return [part for part in parts if part.mass.sum() > 0]


def leaks_of_worst(solution: Solution) -> list[Part]:
    """Probabilities of the largest leak of any base, in a single column."""
    bases = solution.grids[0].likelihood.shape[1]
    if bases == 1:
        return leaks_of_bases(solution)
    parts = []
    for number, grid in enumerate(solution.grids):
        # Both interpretations of a mixture have the same likelihoods.
        components = [c for c, which in enumerate(solution.grid_of) if which == number]
        columns = grid.leaks[grid.columns]
        first, last = 0, len(columns)
        cuts = _cuts(first, last, last)
        mass = _worst(solution, grid, components, cuts)
        if len(cuts) < len(columns) and mass.sum() > 0:
            # A weak base needs many columns, and the worst one may lie between two cuts.
            some = np.flatnonzero(mass.sum(axis=0) > NEGLIGIBLE_DISTRIBUTION * mass.sum())
            stops = np.append(cuts[1:], len(columns))
            first, last = int(cuts[some[0]]), int(stops[some[-1]])
            cuts = _cuts(first, last, len(columns))
            mass = _worst(solution, grid, components, cuts)
        inside = np.flatnonzero((cuts >= first) & (cuts < last))
        # A cell extends from its cut to the next; it is represented by its middle in the logarithm.
        stops = np.append(cuts[1:], len(columns))
        middle = np.sqrt(columns[cuts] * columns[stops - 1])[inside]
        for component, probability in zip(components, mass, strict=True):
            leaks, same = common_leaks(solution, component)
            parts.append(Part(component, leaks, same[:, None]))
            parts.append(Part(component, middle, probability[inside, None]))
    return [part for part in parts if part.mass.sum() > 0]


def _cuts(first: int, last: int, end: int) -> IntArray:
    """Columns that divide the range from first to last evenly, and one beyond each end."""
    every = max(1, -(-(last - first) // MOST_BASE_LEAKS))
    cuts = np.unique([0, *range(first, last, every), last])
    return np.asarray(cuts[cuts < end])


def _worst(solution: Solution, grid: LeakGrid, components: list[int], cuts: IntArray) -> FloatArray:
    """Probability that the largest leak of any base lies in each cell: (components, cuts)."""
    below = np.zeros((len(components), len(cuts)))
    for distribution in range(len(solution.distributions.weights)):
        rows = np.stack([solution.probability[component][distribution] for component in components])
        if (
            np.isfinite(solution.distributions.concentrations[distribution])
            and rows.sum() > NEGLIGIBLE_DISTRIBUTION
        ):
            below += _all_below(solution, grid, distribution, rows, cuts)
    return -np.diff(below, axis=1, append=0.0)


def _all_below(
    solution: Solution, grid: LeakGrid, distribution: int, rows: FloatArray, cuts: IntArray
) -> FloatArray:
    """Probability that no base has a leak larger than each cut: (components, cuts)."""
    kept = np.flatnonzero(rows.max(axis=0) > 1e-9)
    if not len(kept):
        return np.zeros((len(rows), len(cuts)))
    kept = kept[:: max(1, -(-len(kept) // MOST_ALGORITHM_LEAKS))]
    share = rows[:, kept]
    share = share * (rows.sum() / max(share.sum(), 1e-300))
    weights = solution.strength_rows(grid, distribution)[kept]
    product = np.ones((len(kept), len(cuts)))
    for base in grid.likelihood[grid.columns].T:
        cells = np.add.reduceat(weights * base, cuts, axis=1)
        reached = np.cumsum(cells[:, ::-1], axis=1)[:, ::-1]
        product *= reached / np.maximum(reached[:, :1], 1e-300)
    return np.asarray(share @ product)


def work(solution: Solution) -> float:
    """Number of multiplications for the leaks of single bases."""
    multiplications = 0.0
    for number, table in enumerate(solution.probability):
        grid = solution.grids[solution.grid_of[number]]
        distributions = float((table.sum(axis=1) > NEGLIGIBLE_DISTRIBUTION).sum())
        columns = grid.columns.stop - grid.columns.start
        multiplications += distributions * table.shape[1] * columns * grid.likelihood.shape[1]
    return multiplications
