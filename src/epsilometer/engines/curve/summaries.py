"""What a solution says: the probability of each family, the mean strength, the leaks of bases, draws.

The strength distributions of a solution represent a whole region; each mean has a cell around it with
its prior probability.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve.solve import LeakGrid, Solution
from epsilometer.model import strengths
from epsilometer.model.models import Component, CurveModel
from epsilometer.model.strengths import Region, StrengthDistributions
from epsilometer.posteriors.tabulated import Tabulated, trimmed

#: Strength distributions with a smaller probability, under one component, are left out.
NEGLIGIBLE_DISTRIBUTION = 1e-6

#: Number of leaks of the algorithm used to find the worst of several bases.
MOST_ALGORITHM_LEAKS = 80

#: Marks draws without any leak.
NOTHING = -1


# --- families and strengths ------------------------------------------------------------------------


@dataclass(frozen=True)
class FamilyShare:
    """The probability of one family with a mixing rate and interpretation.

    ``shape`` is the range of a shape that has nine tenths of it.
    """

    family: str
    mixing: float
    interpretation: str
    probability: float
    prior: float
    shape: tuple[float, float] | None = None


def family_shares(model: CurveModel, solution: Solution) -> tuple[FamilyShare, ...]:
    """All of the model, the likeliest first; components that were dropped have probability 0."""
    found: dict[tuple[str, float, str], list[tuple[Component, float]]] = {}
    for component, weight in zip(solution.components, solution.weights.tolist(), strict=True):
        found.setdefault(_identity(component), []).append((component, weight))
    before: dict[tuple[str, float, str], float] = {}
    for component in model.components:
        name = _identity(component)
        before[name] = before.get(name, 0.0) + component.probability
    nothing = float(model.no_leak or 0.0)
    rows = [
        FamilyShare(
            *name,
            probability=sum(weight for _, weight in found.get(name, [])),
            prior=(1 - nothing) * prior,
            shape=_range_of(found.get(name, [])),
        )
        for name, prior in before.items()
    ]
    if nothing:
        rows.append(FamilyShare("no leak", 1.0, "none", solution.no_leak, nothing))
    return tuple(sorted(rows, key=lambda row: -row.probability))


def _identity(component: Component) -> tuple[str, float, str]:
    """The family, the rate and the interpretation of a component."""
    curves = component.curves
    said = str(curves.interpretation) if curves.mixed else "none"
    return component.group, curves.rate, said


def _range_of(parts: list[tuple[Component, float]]) -> tuple[float, float] | None:
    """The shapes that hold the middle nine tenths of the probability."""
    shapes = [(part.curves.family.shape, weight) for part, weight in parts]
    known = sorted((shape, weight) for shape, weight in shapes if shape is not None)
    if not known or not sum(weight for _, weight in known) > 0:
        return None
    values, weights = (np.array(column) for column in zip(*known, strict=True))
    reached = np.cumsum(weights) / weights.sum()
    low, high = (values[np.searchsorted(reached, share)] for share in (0.05, 0.95))
    return float(low), float(high)


def _cells(distributions: StrengthDistributions, region: Region) -> tuple[IntArray, FloatArray]:
    """The cell of each Beta distribution, and the increasing ends of all cells."""
    beta = np.isfinite(distributions.concentrations)
    _, which = np.unique(distributions.means[beta], return_inverse=True)
    prior = np.bincount(which, distributions.weights[beta])
    low, high = strengths.probability_below_mean(strengths.mean_at(np.array(region[:2])))
    share = low + (high - low) * np.append(0.0, np.cumsum(prior) / prior.sum())
    edges = strengths.mean_of_probability(np.minimum(share, 1.0))
    # Below 1, where all strengths are 1.
    edges[-1] = min(edges[-1], 1 - 1e-9)
    return which, edges


def mean_strength(solution: Solution, region: Region) -> Tabulated:
    """The posterior of the mean; 1 means that every attack was the best possible."""
    distributions, weights = solution.distributions, solution.distribution_weights
    which, edges = _cells(distributions, region)
    mass = np.bincount(which, weights[np.isfinite(distributions.concentrations)])
    cumulative = np.append(0.0, np.cumsum(mass)) / weights.sum()
    return Tabulated(points=np.append(edges, 1.0), cumulative=np.append(cumulative, 1.0))


def drawn_means(
    solution: Solution, region: Region, distribution: IntArray, *, rng: np.random.Generator
) -> FloatArray:
    """Draw means uniformly from the cells of the given distributions."""
    distributions = solution.distributions
    beta = np.isfinite(distributions.concentrations)
    if not beta.any():
        return distributions.means[distribution]
    which, edges = _cells(distributions, region)
    cell = np.zeros(len(beta), dtype=np.int64)
    cell[beta] = which
    low, high = edges[cell[distribution]], edges[cell[distribution] + 1]
    drawn = low + (high - low) * rng.random(len(distribution))
    return np.where(beta[distribution], drawn, distributions.means[distribution])


# --- leaks of single bases, and of the worst --------------------------------------------------------


class Part(NamedTuple):
    """Probabilities of leaks under one component.

    Edges of cells, largest first, and a column of probabilities for each base.
    """

    component: int
    edges: FloatArray
    mass: FloatArray


def common_leaks(solution: Solution, component: int) -> tuple[FloatArray, FloatArray]:
    """Edges of cells of the leak of all bases if their strengths are equal, and probabilities."""
    same = np.isinf(solution.distributions.concentrations)
    fixed = float(solution.distributions.means[same][0]) if same.any() else 1.0
    return fixed * solution.edges, solution.probability[component][same].sum(axis=0)


def leaks_of_bases(solution: Solution) -> list[Part]:
    """Probabilities of each base's own leak."""
    totals = [np.zeros(solution.grids[grid].likelihood.shape) for grid in solution.grid_of]
    finite = np.isfinite(solution.distributions.concentrations)
    for distribution in np.flatnonzero(finite).tolist():
        weights = solution.strength_rows(distribution)
        for number in range(len(totals)):
            table, likelihood = solution.probability[number], solution.grid(number).likelihood
            if table[distribution].sum() > NEGLIGIBLE_DISTRIBUTION:
                average = weights @ likelihood
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.where(average > 0, table[distribution][:, None] / average, 0.0)
                totals[number] += likelihood * (weights.T @ share)
    parts = []
    for number, total in enumerate(totals):
        edges, mass = common_leaks(solution, number)
        parts.append((number, edges, np.repeat(mass[:, None], solution.bases, axis=1)))
        parts.append((number, np.exp(solution.axis.column_edges), total))
    return [Part(number, *trimmed(*part)) for number, *part in parts if part[1].sum() > 0]


def leaks_of_worst(solution: Solution) -> list[Part]:
    """Probabilities of the largest leak of any of several bases, in a single column."""
    parts = []
    columns = np.exp(solution.axis.column_edges)
    for number, grid in enumerate(solution.grids):
        # Both interpretations of a mixture have the same likelihoods.
        components = [c for c, which in enumerate(solution.grid_of) if which == number]
        mass = _worst(solution, grid, components)
        for component, probability in zip(components, mass, strict=True):
            edges, same = common_leaks(solution, component)
            parts.append(Part(component, edges, same[:, None]))
            parts.append(Part(component, columns, probability[:, None]))
    return [part for part in parts if part.mass.sum() > 0]


def _worst(solution: Solution, grid: LeakGrid, components: list[int]) -> FloatArray:
    """Probability that the largest leak of any base is in each column: (components, columns)."""
    below = np.zeros((len(components), len(solution.axis.columns)))
    for distribution in range(len(solution.distributions.weights)):
        rows = np.stack([solution.probability[component][distribution] for component in components])
        if (
            np.isfinite(solution.distributions.concentrations[distribution])
            and rows.sum() > NEGLIGIBLE_DISTRIBUTION
        ):
            below += _all_below(solution, grid, distribution, rows)
    return -np.diff(below, axis=1, append=0.0)


def _all_below(
    solution: Solution, grid: LeakGrid, distribution: int, rows: FloatArray
) -> FloatArray:
    """Probability that no base has a leak above each column: (components, columns)."""
    kept = np.flatnonzero(rows.max(axis=0) > 1e-9)
    if not len(kept):
        return np.zeros((len(rows), len(solution.axis.columns)))
    kept = kept[:: max(1, -(-len(kept) // MOST_ALGORITHM_LEAKS))]
    share = rows[:, kept]
    share = share * (rows.sum() / max(share.sum(), 1e-300))
    weights = solution.strength_rows(distribution, kept)
    return np.asarray(share @ _all_reached(weights, grid.likelihood))


@numba.njit(nogil=True, cache=True)
def _all_reached(weights: FloatArray, likelihood: FloatArray) -> FloatArray:
    """Products over bases of the share of the average that a column and smaller leaks have."""
    rows, columns = weights.shape
    product = np.ones((rows, columns))
    running = np.empty(columns)
    for row in range(rows):
        for base in range(likelihood.shape[1]):
            total = 0.0
            for column in range(columns - 1, -1, -1):
                total += weights[row, column] * likelihood[column, base]
                running[column] = total
            if total > 0:
                for column in range(columns):
                    product[row, column] *= running[column] / total
    return product


def work(solution: Solution) -> float:
    """Number of multiplications for the leaks of single bases."""
    distributions = sum(
        float((table.sum(axis=1) > NEGLIGIBLE_DISTRIBUTION).sum()) for table in solution.probability
    )
    axis = solution.axis
    return distributions * len(axis.rows) * len(axis.columns) * solution.bases


# --- joint draws -------------------------------------------------------------------------------------


class DrawnLeaks(NamedTuple):
    """Draws: component (-1: no leak), strength distribution, leak of the algorithm and of each base."""

    component: IntArray
    distribution: IntArray
    leak: FloatArray
    base_leak: FloatArray


def draw_leaks(solution: Solution, size: int, *, rng: np.random.Generator) -> DrawnLeaks:
    """Draw cells by probability, positions uniformly within them, and bases given the algorithm."""
    component, distribution, row, mass = _cell_index(solution)
    bases = solution.bases
    cumulative = np.cumsum(mass)
    place = rng.random(size) * (cumulative[-1] + solution.no_leak)
    cell = np.minimum(np.searchsorted(cumulative, place, side="right"), len(mass) - 1)
    nothing = place >= cumulative[-1]
    components, distributions, rows = component[cell], distribution[cell], row[cell]
    prior = solution.distributions.weights
    distributions[nothing] = rng.choice(len(prior), size=int(nothing.sum()), p=prior / prior.sum())
    leak = np.zeros(size)
    base_leak = np.zeros((size, bases))
    axis = solution.axis
    within = rng.random(size)
    edges, ends = axis.row_edges, axis.column_edges
    for number in np.unique(components[~nothing]).tolist():
        grid = solution.grid(number)
        for which in np.unique(distributions[(components == number) & ~nothing]).tolist():
            chosen = np.flatnonzero((components == number) & (distributions == which) & ~nothing)
            place = rows[chosen]
            leak[chosen] = np.exp(edges[place] + within[chosen] * (edges[place + 1] - edges[place]))
            if np.isinf(solution.distributions.concentrations[which]):
                value = float(solution.distributions.means[which])
                base_leak[chosen] = value * leak[chosen, None]
                continue
            weights = solution.strength_rows(which, place)
            for base in range(bases):
                running = np.cumsum(weights * grid.likelihood[:, base], axis=1)
                at = rng.random(len(chosen)) * running[:, -1]
                column = np.minimum((running <= at[:, None]).sum(axis=1), len(ends) - 2)
                drawn = ends[column] + rng.random(len(chosen)) * (ends[column + 1] - ends[column])
                # No base leaks more than the algorithm.
                base_leak[chosen, base] = np.minimum(np.exp(drawn), leak[chosen])
    components = np.where(nothing, NOTHING, components)
    return DrawnLeaks(components, distributions, leak, base_leak)


def _cell_index(solution: Solution) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Component, distribution and row of every cell with probability, and that probability."""
    places = [np.nonzero(table > 1e-14) for table in solution.probability]
    component = np.repeat(np.arange(len(places)), [len(rows) for _, rows in places])
    distribution, row = np.concatenate(places, axis=1)
    mass = [table[place] for table, place in zip(solution.probability, places, strict=True)]
    return component, distribution, row, np.concatenate(mass)
