"""The posterior of the exact engine: densities on panels, and a grid to draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.exact.groups import Surface
from epsilometer.engines.exact.integrate import Solution
from epsilometer.engines.exact.nuisance import NuisanceGrid
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.posteriors import panels, trees
from epsilometer.posteriors.panels import PanelDensity, invert, panel_nodes
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.provenance import Accuracy, Provenance

if TYPE_CHECKING:
    import xarray

POOLED_POINTS = 4000  # strengths at which the rows' distribution functions are summed


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Nodes of (epsilon, strength) that represent the posterior, for drawing and for reweighting.

    ``row`` numbers the epsilons; within a row strengths increase.  ``log_nuisance`` is the log
    likelihood at the nuisance nodes, up to a constant per cell, empty without nuisance parameters.
    """

    epsilon: FloatArray
    row: IntArray
    strength: FloatArray
    mass: FloatArray
    log_nuisance: FloatArray


@dataclass(frozen=True, kw_only=True)
class GridAccuracy(Accuracy):
    """The exact engine's error estimate: of quantiles and means; and the method it used."""

    method: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GridPosterior(CountPosterior):
    """A posterior by quadrature: quantiles and probabilities have no Monte Carlo error.

    ``surface`` is what it was integrated from; it is not stored in files.
    """

    marginals: Mapping[str, PanelDensity]
    cells: Cells
    nuisance: NuisanceGrid
    log_evidence: float
    accuracy: GridAccuracy
    surface: Surface | None = None

    @property
    def accurate(self) -> bool:
        return self.accuracy.met

    @property
    def engine_description(self) -> str:
        return f"exact quadrature; {self.accuracy}"

    @property
    def quality(self) -> dict[str, object]:
        return {"accuracy": self.accuracy.to_dict(), "log_evidence": self.log_evidence}

    def _estimated(self, parameter: str) -> PanelDensity:
        return self.marginals[parameter]

    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Draw all estimated parameters jointly, ``size`` times, independently.

        Epsilon is drawn from its marginal; the strength from the conditional at one of the two
        neighbouring rows of the grid, the nearer with higher probability; (tau, r) from the likelihood
        in the resulting cell.  Fixed parameters are left out.
        """
        size = _validate.whole_number("size", size, least=0)
        cells = self.cells
        drawn: dict[str, FloatArray] = {}
        rows, row_of_cell = np.unique(cells.row, return_inverse=True)
        if "epsilon" in self.parameters:
            drawn["epsilon"] = invert(self.marginals["epsilon"], rng.random(size))
            row = _neighbour(cells.epsilon[rows], drawn["epsilon"], rng.random(size))
        else:
            row = np.zeros(size, dtype=np.int64)
        first = np.searchsorted(row_of_cell, np.arange(len(rows) + 1)).astype(np.int64)
        conditionals = [
            _Conditional.of_row(cells.strength[start:end], cells.mass[start:end])
            for start, end in pairwise(first)
        ]
        strength, cell = _strength(conditionals, first, row, rng.random(size))
        if "strength" in self.parameters:
            drawn["strength"] = _corrected(self, conditionals, strength)
        return drawn | self.nuisance.draw(self, cell, rng)

    def to_datatree(self) -> xarray.DataTree:
        return trees.grid_to_datatree(self)


def from_solution(
    counts: AttackCounts, model: CountModel, solution: Solution, *, method: str = "grid"
) -> GridPosterior:
    """Compute marginals, evidence and cells from the rows of a solution."""
    top = float(solution.log_rows.max())
    density = solution.marginal()
    evidence = float((density * solution.row_mass()).sum())
    marginals: dict[str, PanelDensity] = {}
    if model.epsilon.fixed_value is None:
        marginals["epsilon"] = PanelDensity(breaks=solution.panels.epsilon, values=density)
    masses = solution.node_masses()
    cells = _cells(solution, masses)
    if model.strength.fixed_value is None:
        marginals["strength"] = _strength_density(model, solution, masses, cells)
    marginals |= solution.nuisance.marginals(model, counts, solution.nuisance_probability())
    return GridPosterior(
        counts=counts,
        model=model,
        provenance=Provenance(engine="exact", settings={}, seconds=0.0),
        marginals=marginals,
        cells=cells,
        nuisance=solution.nuisance,
        log_evidence=top + float(np.log(evidence / prior_share(model, counts))),
        accuracy=GridAccuracy(error=np.inf, tolerance=0.0, levels=1, method=method),
    )


def prior_share(model: CountModel, counts: AttackCounts) -> float:
    """The prior probability of the epsilons at which the likelihood is used; the evidence is over these.

    It is 1 except for the published density of correlated counts, which is not used below half a count.
    """
    if model.epsilon.fixed_value is not None:
        return 1.0
    return model.epsilon.probability_above(model.likelihood.smallest_epsilon(counts))


def _cells(solution: Solution, masses: FloatArray) -> Cells:
    """The nodes with the posterior's mass, leaving out nodes below 1e-12 each."""
    quadrature = solution.rows.quadrature
    mass = (masses * np.exp(quadrature.log_weights)).ravel()
    mass = mass / mass.sum()
    keep = np.flatnonzero(mass > 1e-12)
    epsilon = solution.rows.epsilon
    logs = solution.rows.log_likelihood.reshape(len(mass), -1)[keep]
    several = len(solution.nuisance) > 1
    logs = logs - logs.max(axis=1, keepdims=True) if several else logs[:, :0]
    row = (keep // (len(mass) // len(epsilon))).astype(np.int64)
    strength = quadrature.nodes.ravel()[keep]
    return Cells(epsilon=epsilon, row=row, strength=strength, mass=mass[keep], log_nuisance=logs)


STRENGTH_QUANTILES = np.array(
    [1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.07, 0.15, 0.25, 0.4, 0.55, 0.7, 0.8, 0.88, 0.94, 0.98]
    + [0.993, 0.999, 0.9999, 1 - 1e-6]
)


def _strength_density(
    model: CountModel, solution: Solution, masses: FloatArray, cells: Cells
) -> PanelDensity:
    """The marginal of the strength: rows interpolated to common strengths and summed."""
    order = np.argsort(cells.strength)
    cumulative = np.cumsum(cells.mass[order])
    quantiles = np.interp(STRENGTH_QUANTILES, cumulative, cells.strength[order])
    breaks = _spread(np.concatenate([[0.0], quantiles, [1.0]]))
    weights = np.exp(solution.rows.quadrature.log_weights)
    share = (masses * weights).sum(axis=(1, 2))
    # Rows in the far tails of epsilon contribute nothing visible.
    kept = np.flatnonzero(share > 1e-10 * share.sum())
    rows = solution.rows.take(kept)
    scaled = np.where(weights[kept] > 0, masses[kept], 0.0)
    count = 10

    def evaluate(nodes: FloatArray) -> FloatArray:
        flat = nodes.ravel()
        total = np.maximum(rows.interpolate(scaled, flat).sum(axis=0), 0.0)
        return np.asarray((total * np.exp(model.strength.log_density(flat))).reshape(nodes.shape))

    values = evaluate(panel_nodes(breaks, count))
    for _ in range(3):
        # Finer panels would only resolve the joints between the rows' own polynomials.
        split = panels.unresolved(breaks, values, 1e-5) & (np.diff(breaks) > 2e-9)
        if not split.any():
            break
        breaks = panels.split_panels(breaks, split)
        kept = np.repeat(~split, 1 + split)
        finer = np.empty((len(kept), count))
        finer[kept] = values[~split]
        finer[~kept] = evaluate(panel_nodes(breaks, count)[~kept])
        values = finer
    return PanelDensity(breaks=breaks, values=values)


def _spread(breaks: FloatArray) -> FloatArray:
    """Drop breaks that nearly coincide with the one before; keep both ends."""
    kept = [breaks[0]]
    for value in breaks[1:-1]:
        if value - kept[-1] > 1e-9 and breaks[-1] - value > 1e-9:
            kept.append(value)
    return np.array([*kept, breaks[-1]])


# --- joint draws ----------------------------------------------------------------------------------
#
# The quadrature nodes represent the joint posterior; drawing the nodes themselves would repeat a few
# values, so every coordinate is inverted continuously between them.


def _neighbour(nodes: FloatArray, value: FloatArray, uniform: FloatArray) -> IntArray:
    """The index of one of the two nodes around each value, with linear probability."""
    if len(nodes) == 1:
        return np.zeros(len(value), dtype=np.int64)
    left = np.clip(np.searchsorted(nodes, value) - 1, 0, len(nodes) - 2)
    share = (value - nodes[left]) / (nodes[left + 1] - nodes[left])
    return np.asarray(left + (uniform < share), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class _Conditional:
    """The distribution of the strength in one row: its cumulative mass, linear between points.

    The cumulative mass at a Gauss node is approximated by the mass before it plus half its own;
    :func:`_corrected` corrects the error.
    """

    points: FloatArray
    cumulative: FloatArray
    after: FloatArray

    @classmethod
    def of_row(cls, nodes: FloatArray, mass: FloatArray) -> _Conditional:
        mass = mass / mass.sum()
        after = np.cumsum(mass)
        if len(nodes) == 1:
            return cls(points=nodes, cumulative=np.ones(1), after=after)
        low = max(0.0, nodes[0] - 0.5 * (nodes[1] - nodes[0]))
        high = min(1.0, nodes[-1] + 0.5 * (nodes[-1] - nodes[-2]))
        points = np.concatenate([[low], nodes, [high]])
        cumulative = np.concatenate([[0.0], after - 0.5 * mass, [1.0]])
        return cls(points=points, cumulative=cumulative, after=after)


def _strength(
    rows: Sequence[_Conditional], first: IntArray, row: IntArray, uniform: FloatArray
) -> tuple[FloatArray, IntArray]:
    """For each row drawn, a strength from its conditional and the cell that contains it."""
    strength = np.empty(len(row))
    cell = np.empty(len(row), dtype=np.int64)
    order = np.argsort(row, kind="stable")
    bounds = np.searchsorted(row[order], np.arange(len(rows) + 1))
    for index in np.unique(row):
        mine = order[bounds[index] : bounds[index + 1]]
        conditional = rows[index]
        strength[mine] = np.interp(uniform[mine], conditional.cumulative, conditional.points)
        inside = np.searchsorted(conditional.after, uniform[mine])
        cell[mine] = first[index] + np.minimum(inside, len(conditional.after) - 1)
    return strength, cell


def _corrected(
    posterior: GridPosterior, rows: Sequence[_Conditional], strength: FloatArray
) -> FloatArray:
    """Shift the strengths, preserving their order, so that their marginal is the posterior's.

    Linear interpolation distorts every row slightly and in the same way; the exact marginal is known,
    so the common part of the distortion can be removed.
    """
    if "epsilon" in posterior.parameters:
        epsilon = posterior.cells.epsilon[np.unique(posterior.cells.row)]
        points, cumulative = panels.table(posterior.marginals["epsilon"])
        mass, middle = np.diff(cumulative), 0.5 * (points[1:] + points[:-1])
        count = len(epsilon)
        share = np.interp(middle, epsilon, np.arange(count))
        left = np.minimum(share.astype(np.int64), max(count - 2, 0))
        near, far = mass * (1 - (share - left)), mass * (share - left)
        sums = np.bincount(left, near, count + 1) + np.bincount(left + 1, far, count + 1)
        weight = np.asarray(sums[:count], dtype=np.float64)
    else:
        weight = np.ones(1)
    pooled = np.unique(np.concatenate([row.points for row in rows]))
    every = max(1, len(pooled) // POOLED_POINTS)
    pooled = np.append(pooled[:-1:every], pooled[-1])
    total: FloatArray = np.zeros(len(pooled))
    for w, row in zip(weight / weight.sum(), rows, strict=True):
        total += w * np.interp(pooled, row.points, row.cumulative)
    return invert(posterior.marginals["strength"], np.interp(strength, pooled, total))
