"""Nuisance parameters of a likelihood on a grid: their nodes, their marginals, draws of them.

rho is handled as the fraction r = rho / bound(tau) of its largest admissible value, which is uniform
on (-1, 1) whatever tau.  tau has a Gauss rule made for its own prior, so that only the likelihood,
and not the prior, has to be smooth.  A likelihood without such parameters has a grid of one point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.inference.exact import panels
from epsilometer.inference.exact.cells import Cells
from epsilometer.inference.exact.panels import PanelDensity, invert, rule
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal

Marginals = Mapping[str, PanelDensity]
Arrays = dict[str, tuple[tuple[str, ...], FloatArray]]

FARTHEST = 6.0
"""tau is followed this many prior standard deviations out (probability 1e-9), unless data insist."""

FINE = 48
"""Points a side on which (tau, r) is drawn: at most a fiftieth of the prior's width apart."""

LEAST_LOG = -700.0
"""A node of relative likelihood below e^-700 is as good as impossible, but keeps a logarithm."""

CELLS_AT_ONCE = 2048
"""Cells whose (tau, r) densities are held in memory at the same time: 40 MB."""


class NuisanceGrid(Protocol):
    """Nodes of the nuisance parameters with their prior weights."""

    @property
    def log_weight(self) -> FloatArray:
        """Log prior weight of each node."""

    @property
    def typical_node(self) -> int:
        """A node whose likelihood is about as narrow as those that matter."""

    def __len__(self) -> int:
        """The number of nodes."""

    def marginals(
        self, model: AuditModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        """Marginal densities, from the posterior probability of each node."""

    def draw(
        self,
        model: AuditModel,
        counts: AttackCounts,
        marginals: Marginals,
        cells: Cells,
        cell: IntArray,
        rng: np.random.Generator,
    ) -> dict[str, FloatArray]:
        """Draw the parameters in each of the given cells."""

    def stored(self) -> Arrays:
        """What a file keeps of it, as names with dimensions and values."""

    def nodes_at_cuts(self, model: AuditModel) -> BoolArray:
        """Nodes beside which others were given up because the posterior had nothing there."""


@dataclass(frozen=True, kw_only=True)
class NoNuisance:
    """The grid of a likelihood without parameters of its own: one point."""

    @property
    def log_weight(self) -> FloatArray:
        return np.zeros(1)

    @property
    def typical_node(self) -> int:
        return 0

    def __len__(self) -> int:
        return 1

    def marginals(
        self, model: AuditModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        return {}

    def draw(
        self,
        model: AuditModel,
        counts: AttackCounts,
        marginals: Marginals,
        cells: Cells,
        cell: IntArray,
        rng: np.random.Generator,
    ) -> dict[str, FloatArray]:
        return {}

    def stored(self) -> Arrays:
        return {}

    def nodes_at_cuts(self, model: AuditModel) -> BoolArray:
        return np.zeros(1, dtype=bool)


@dataclass(frozen=True, kw_only=True)
class NuisanceBox:
    """The part of (tau, r) space that a grid covers."""

    tau_low: float
    tau_high: float
    r_low: float
    r_high: float


@dataclass(frozen=True, kw_only=True)
class CorrelationGrid:
    """Nodes (tau_a, r_b) and prior weights; axis order of flattened arrays is (tau, r)."""

    box: NuisanceBox
    tau: FloatArray
    r: FloatArray
    log_weight: FloatArray

    @classmethod
    def of_prior(
        cls, likelihood: CorrelatedNormal, counts: AttackCounts, size: tuple[int, int]
    ) -> CorrelationGrid:
        """A grid for the prior, so many nodes for tau and for r: the likelihood varies less with r."""
        low, high = likelihood.within_correlation_bounds(counts)
        reach = FARTHEST * likelihood.within_correlation_scale
        box = NuisanceBox(
            tau_low=max(low, -reach), tau_high=min(high, reach), r_low=-1.0, r_high=1.0
        )
        tau, tau_weight = _prior_gauss(likelihood, counts, box, size[0])
        r, weights = panels.gauss_legendre(size[1])
        log_weight = np.log(tau_weight)[:, None] + np.log(0.5 * weights)[None, :]
        return cls(box=box, tau=tau, r=r, log_weight=log_weight.ravel())

    @property
    def typical_node(self) -> int:
        # The smallest tau but one, in the middle of r; the very smallest has next to no weight.
        return min(1, len(self.tau) - 1) * len(self.r) + len(self.r) // 2

    def __len__(self) -> int:
        return len(self.log_weight)

    def marginals(
        self, model: AuditModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        return _densities(cast("CorrelatedNormal", model.likelihood), counts, self, probability)

    def draw(
        self,
        model: AuditModel,
        counts: AttackCounts,
        marginals: Marginals,
        cells: Cells,
        cell: IntArray,
        rng: np.random.Generator,
    ) -> dict[str, FloatArray]:
        likelihood = cast("CorrelatedNormal", model.likelihood)
        drawn = _draw_unit(likelihood, self, marginals, cells, cell, rng)
        bound = likelihood.cross_correlation_bound(counts, drawn[0])
        return {"within_correlation": drawn[0], "cross_correlation": drawn[1] * bound}

    def stored(self) -> Arrays:
        box = self.box
        return {
            "nuisance_tau": (("nuisance_tau_node",), self.tau),
            "nuisance_r": (("nuisance_r_node",), self.r),
            "nuisance_log_weight": (("nuisance",), self.log_weight),
            "nuisance_box": (
                ("nuisance_box_side",),
                np.array([box.tau_low, box.tau_high, box.r_low, box.r_high]),
            ),
        }

    def nodes_at_cuts(self, model: AuditModel) -> BoolArray:
        return np.zeros(len(self), dtype=bool)

    @classmethod
    def restored(cls, arrays: Mapping[str, FloatArray]) -> CorrelationGrid:
        """From what :meth:`stored` left in a file."""
        box = [float(side) for side in arrays["nuisance_box"]]
        found = cls(
            box=NuisanceBox(tau_low=box[0], tau_high=box[1], r_low=box[2], r_high=box[3]),
            tau=arrays["nuisance_tau"],
            r=arrays["nuisance_r"],
            log_weight=arrays["nuisance_log_weight"],
        )
        if len(found.log_weight) != len(found.tau) * len(found.r):
            raise InputError("expected a weight for every node of the nuisance grid.")
        return found


NARROWEST = 0.2
"""Counts are never taken to spread less than this share of a binomial's standard deviation."""


def _prior_gauss(
    likelihood: CorrelatedNormal, counts: AttackCounts, box: NuisanceBox, count: int
) -> tuple[FloatArray, FloatArray]:
    """Gauss nodes and weights for the prior of tau cut to the box, by the Stieltjes procedure.

    In the variable v = sqrt(1 + (N - 1) tau), the standard deviation of a count over a binomial's,
    the likelihood is smooth down to v = 0, where tau meets its bound.  What the prior has below
    `NARROWEST` (1.2 % for 100 trials and the default scale) is put there: no grid could follow counts
    that hardly spread, and the likelihood hardly changes any more.
    """
    from scipy.special import ndtr

    scale = likelihood.within_correlation_scale
    largest = max(int(counts.trials_h0.max()), int(counts.trials_h1.max()))
    if largest == 1:
        return np.zeros(1), np.ones(1)

    def tau_of(root: FloatArray) -> FloatArray:
        return np.asarray((root * root - 1) / (largest - 1))

    def below(tau: float) -> float:
        return float(ndtr(tau / scale))

    low, high = likelihood.within_correlation_bounds(counts)
    ends = [math.sqrt(max(1 + (largest - 1) * tau, 0.0)) for tau in (box.tau_low, box.tau_high)]
    start = max(ends[0], NARROWEST)
    half = 0.5 * (ends[1] - start)
    fine, weights = panels.gauss_legendre(200)
    root = start + half * (1 + fine)
    mass = half * weights * np.exp(-0.5 * (tau_of(root) / scale) ** 2)
    mass *= 2 * root / ((largest - 1) * scale * math.sqrt(2 * math.pi))
    # The part of the prior below the start is an atom there.
    cut = below((start * start - 1) / (largest - 1)) - below(box.tau_low)
    x, mass = np.append(fine, -1.0), np.append(mass, max(cut, 0.0))
    total = mass.sum()
    previous, current = np.zeros_like(x), np.ones_like(x)
    diagonal, off = np.zeros(count), np.zeros(count)
    norm_before = 1.0
    for k in range(count):
        norm = float(mass @ (current * current))
        diagonal[k] = float(mass @ (x * current * current)) / norm
        off[k] = norm / norm_before if k else 0.0
        previous, current = current, (x - diagonal[k]) * current - off[k] * previous
        norm_before = norm
    matrix = np.diag(diagonal) + np.diag(np.sqrt(off[1:]), 1) + np.diag(np.sqrt(off[1:]), -1)
    nodes, vectors = np.linalg.eigh(matrix)
    return tau_of(start + half * (1 + nodes)), total / (below(high) - below(low)) * vectors[0] ** 2


def interpolation_matrix(nodes: FloatArray, points: FloatArray) -> FloatArray:
    """Matrix (points, nodes) of polynomial interpolation, by the barycentric formula."""
    gaps = nodes[:, None] - nodes[None, :]
    np.fill_diagonal(gaps, 1.0)
    scale = 4 / (nodes.max() - nodes.min())
    weights = 1 / np.prod(gaps * scale, axis=1)
    difference = points[:, None] - nodes[None, :]
    exact = np.abs(difference) < 1e-14
    terms = weights / np.where(exact, 1.0, difference)
    matrix = terms / terms.sum(axis=1, keepdims=True)
    hit = exact.any(axis=1)
    matrix[hit] = exact[hit].astype(float)
    return np.asarray(matrix)


def log_prior_tau(likelihood: CorrelatedNormal, tau: FloatArray) -> FloatArray:
    """Log prior density of tau up to a constant."""
    return np.asarray(-0.5 * (tau / likelihood.within_correlation_scale) ** 2)


def _densities(
    likelihood: CorrelatedNormal,
    counts: AttackCounts,
    grid: CorrelationGrid,
    probability: FloatArray,
) -> dict[str, PanelDensity]:
    """Marginals of tau and rho from the posterior mass at the nodes of the grid.

    The logarithm of the ratio of posterior to prior is interpolated between the nodes, keeping
    its shape, and held constant beyond the outermost ones.
    """
    shape = (len(grid.tau), len(grid.r))
    log_ratio = np.log(np.maximum(probability, 1e-300)) - grid.log_weight
    log_ratio = log_ratio.reshape(shape)
    tau_breaks = np.linspace(grid.box.tau_low, grid.box.tau_high, 13)
    r_breaks = np.linspace(grid.box.r_low, grid.box.r_high, 9)
    tau, tau_weights = _panel_nodes(tau_breaks)
    r, r_weights = _panel_nodes(r_breaks)
    fine = _shape_preserving(grid.tau, log_ratio, tau.ravel())
    fine = _shape_preserving(grid.r, fine.T, r.ravel()).T
    fine = np.exp(fine - fine.max()) * np.exp(log_prior_tau(likelihood, tau.ravel()))[:, None]
    tau_density = fine @ r_weights.ravel()
    r_density = tau_weights.ravel() @ fine
    # rho = r bound(tau): for each rho integrate over the taus that allow it.
    bound = likelihood.cross_correlation_bound(counts, tau.ravel())
    top_bound = float(bound.max())
    rho_breaks = top_bound * np.linspace(-1, 1, 33)
    rho, _ = _panel_nodes(rho_breaks)
    joint_r = rho.ravel()[:, None] / bound[None, :]
    inside = (joint_r > grid.box.r_low) & (joint_r < grid.box.r_high)
    spline = _rows_interpolated(fine, r_breaks, joint_r, inside)
    rho_density = (spline / bound * tau_weights.ravel()).sum(axis=1)
    return {
        "within_correlation": PanelDensity(
            breaks=tau_breaks, values=np.maximum(tau_density, 0).reshape(tau.shape)
        ),
        "cross_correlation": PanelDensity(
            breaks=rho_breaks, values=np.maximum(rho_density, 0).reshape(rho.shape)
        ),
        "_r": PanelDensity(breaks=r_breaks, values=np.maximum(r_density, 0).reshape(r.shape)),
    }


def _shape_preserving(nodes: FloatArray, values: FloatArray, points: FloatArray) -> FloatArray:
    """Monotone cubic interpolation along the first axis; polynomials overshoot on so few nodes."""
    from scipy.interpolate import PchipInterpolator

    inside = np.clip(points, nodes[0], nodes[-1])
    return np.asarray(PchipInterpolator(nodes, values, axis=0)(inside))


def _panel_nodes(breaks: FloatArray, count: int = 8) -> tuple[FloatArray, FloatArray]:
    points, weights = panels.gauss_legendre(count)
    half = 0.5 * np.diff(breaks)[:, None]
    return breaks[:-1, None] + half * (1 + points), half * weights


def _rows_interpolated(
    values: FloatArray, breaks: FloatArray, x: FloatArray, inside: BoolArray
) -> FloatArray:
    """values[k] is a function on panels; evaluate function k at x[:, k], 0 where not inside."""
    count = values.shape[1] // (len(breaks) - 1)
    reference = rule(count, 0.0, 0.0)
    shaped = values.reshape(len(values), -1, count)
    safe = np.where(inside, x, 0.5 * (breaks[0] + breaks[-1]))
    panel = np.clip(np.searchsorted(breaks, safe, side="right") - 1, 0, len(breaks) - 2)
    width = np.diff(breaks)[panel]
    local = (safe - breaks[panel]) / width
    gap = local[..., None] - reference.nodes
    gap = np.where(np.abs(gap) < 1e-14, 1e-14, gap)
    terms = reference.barycentric / gap
    index = np.broadcast_to(np.arange(len(values)), x.shape)
    found = (terms * shaped[index, panel]).sum(axis=-1) / terms.sum(axis=-1)
    return np.where(inside, found, 0.0)


def _linear_matrix(nodes: FloatArray, points: FloatArray) -> FloatArray:
    """Matrix (points, nodes) of linear interpolation, constant beyond the outer nodes."""
    unit = np.eye(len(nodes))
    return np.stack([np.interp(points, nodes, column) for column in unit], axis=1)


def _draw_unit(
    likelihood: CorrelatedNormal,
    grid: CorrelationGrid,
    marginals: Marginals,
    cells: Cells,
    cell: IntArray,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Draw tau and r in each given cell, on a fine mesh.

    One cell's log likelihood can fall too steeply from node to node for a polynomial, but that of
    all cells together does not, and how a cell differs from them is nearly linear.  So the density
    on the mesh is the joint one of all cells, interpolated by a polynomial, times the cell's share,
    interpolated linearly.
    """
    box, shape = grid.box, (len(grid.tau), len(grid.r))
    steps = (np.arange(FINE, dtype=np.float64) + 0.5) / FINE
    tau = np.asarray(box.tau_low + (box.tau_high - box.tau_low) * steps)
    r = np.asarray(box.r_low + (box.r_high - box.r_low) * steps)
    logs = np.maximum(cells.log_nuisance, LEAST_LOG) + grid.log_weight
    cell_log = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
    joint_log = np.log(np.maximum(cells.mass @ np.exp(cell_log), 1e-300))
    smooth = (
        interpolation_matrix(grid.tau, tau)
        @ (joint_log - grid.log_weight).reshape(shape)
        @ interpolation_matrix(grid.r, r).T
    ) + log_prior_tau(likelihood, tau)[:, None]
    to_tau, to_r = _linear_matrix(grid.tau, tau), _linear_matrix(grid.r, r)

    def mesh_density(numbers: IntArray) -> FloatArray:
        share = (cell_log[numbers] - joint_log).reshape(-1, *shape)
        flat = (to_tau @ share @ to_r.T + smooth).reshape(len(share), -1)
        density = np.exp(flat - flat.max(axis=1, keepdims=True))
        return np.asarray(density / density.sum(axis=1, keepdims=True))

    uniform = rng.random(len(cell))
    picked = np.empty(len(cell), dtype=np.int64)
    order = np.argsort(cell, kind="stable")
    distinct, starts = np.unique(cell[order], return_index=True)
    ends = np.append(starts[1:], len(cell))
    for block in range(0, len(distinct), CELLS_AT_ONCE):
        part = slice(block, block + CELLS_AT_ONCE)
        cumulative = np.cumsum(mesh_density(distinct[part]), axis=1)
        for row, start, end in zip(cumulative, starts[part], ends[part], strict=True):
            mine = order[start:end]
            picked[mine] = np.searchsorted(row, uniform[mine] * row[-1], side="right")
    picked = np.minimum(picked, FINE * FINE - 1)
    # As for the strength: undo what interpolation did to the marginals, which are known.
    shares = (np.arange(CELLS_AT_ONCE) + 0.5) / CELLS_AT_ONCE
    cumulative_mass = np.cumsum(cells.mass)
    spread = np.searchsorted(cumulative_mass, shares * cumulative_mass[-1])
    mixture = mesh_density(spread).mean(axis=0).reshape(FINE, FINE)
    jitter = rng.random((2, len(cell)))
    drawn = []
    for name, axis, index, offset in (
        ("within_correlation", 1, picked // FINE, jitter[0]),
        ("_r", 0, picked % FINE, jitter[1]),
    ):
        masses = mixture.sum(axis=axis)
        before = np.concatenate([[0.0], np.cumsum(masses)])
        level = (before[index] + offset * masses[index]) / before[-1]
        drawn.append(invert(marginals[name], level))
    return drawn
