"""Nuisance parameters of a likelihood on a grid: nodes, marginals and draws.

rho is represented by the fraction r = rho / bound(tau) of its largest admissible value, which is uniform
on (-1, 1) for any tau.  tau has a Gauss rule for its own prior, so that only the likelihood, and not the
prior, has to be smooth.  A likelihood without nuisance parameters has a grid of one point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedCounts
from epsilometer.model.models import CountModel
from epsilometer.posteriors import panels
from epsilometer.posteriors.panels import PanelDensity

if TYPE_CHECKING:
    from epsilometer.engines.exact.posterior import GridPosterior

Arrays = dict[str, tuple[tuple[str, ...], FloatArray]]

FARTHEST_PRIOR = 6.0  # prior standard deviations of tau that are covered (beyond them 1e-9)
NARROWEST_SPREAD = 0.2  # the smallest spread of counts, relative to a binomial's standard deviation
PANEL_NODES = 8  # of the panels of the marginals
#: Points per side on which (tau, r) is drawn: at most a fiftieth of the prior's width apart.
FINE = 48
# A node of relative likelihood below e^-700 is practically impossible, but keeps a logarithm.
LEAST_LOG_NUISANCE = -700.0
CELLS_AT_ONCE = 2048  # cells whose (tau, r) densities are in memory at the same time: 40 MB


class NuisanceGrid:
    """Nodes of the nuisance parameters with their prior weights.

    The defaults are those of a grid without parameters.
    """

    #: Log prior weight of each node.
    log_weight: FloatArray

    @property
    def typical_node(self) -> int:
        """A node whose likelihood is about as narrow as those that matter."""
        return 0

    def __len__(self) -> int:
        return len(self.log_weight)

    def marginals(
        self, model: CountModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        """Marginal densities, from the posterior probability of each node."""
        return {}

    def draw(
        self, posterior: GridPosterior, cell: IntArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Draw the parameters in each of the given cells."""
        return {}

    def stored(self) -> Arrays:
        """Arrays to store in a file, as names with dimensions and values."""
        return {}

    def nodes_at_cuts(self, model: CountModel) -> BoolArray:
        """Nodes next to others that were dropped because the posterior had no mass there."""
        return np.zeros(len(self), dtype=bool)


@dataclass(frozen=True, kw_only=True)
class NoNuisance(NuisanceGrid):
    """The grid of a likelihood without nuisance parameters: one point."""

    log_weight = np.zeros(1)


@dataclass(frozen=True, kw_only=True)
class CorrelationGrid(NuisanceGrid):
    """Nodes (tau_a, r_b) and prior weights; axis order of flattened arrays is (tau, r).

    ``reach`` is the range of tau that it covers; r goes from -1 to 1.
    """

    reach: tuple[float, float]
    tau: FloatArray
    r: FloatArray
    log_weight: FloatArray

    @classmethod
    def of_prior(
        cls, likelihood: CorrelatedCounts, counts: AttackCounts, size: tuple[int, int]
    ) -> CorrelationGrid:
        """A grid for the prior, ``size`` nodes for (tau, r); the likelihood varies less with r."""
        low, high = likelihood.within_correlation_bounds(counts)
        farthest = FARTHEST_PRIOR * likelihood.within_correlation_scale
        reach = max(low, -farthest), min(high, farthest)
        tau, tau_weight = _prior_gauss(likelihood, counts, reach, size[0])
        r, weights = panels.gauss_legendre(size[1])
        log_weight = np.log(tau_weight)[:, None] + np.log(0.5 * weights)[None, :]
        return cls(reach=reach, tau=tau, r=r, log_weight=log_weight.ravel())

    @property
    def typical_node(self) -> int:
        # The second smallest tau, in the middle of r; the smallest has negligible weight.
        return min(1, len(self.tau) - 1) * len(self.r) + len(self.r) // 2

    def marginals(
        self, model: CountModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        """Marginals of tau and rho from the posterior mass at the nodes.

        The logarithm of the ratio of posterior to prior is interpolated between the nodes, preserving
        its shape, and held constant beyond the outermost ones.
        """
        likelihood = cast("CorrelatedCounts", model.likelihood)
        log_ratio = np.log(np.maximum(probability, 1e-300)) - self.log_weight
        log_ratio = log_ratio.reshape(len(self.tau), -1)
        tau_breaks, r_breaks = np.linspace(*self.reach, 13), np.linspace(-1.0, 1.0, 9)
        tau, tau_weights = panels.panel_rule(tau_breaks, PANEL_NODES)
        r, r_weights = panels.panel_rule(r_breaks, PANEL_NODES)
        fine = shape_preserving(self.tau, log_ratio, tau.ravel())
        fine = shape_preserving(self.r, fine.T, r.ravel()).T
        fine = np.exp(fine - fine.max()) * np.exp(log_prior_tau(likelihood, tau.ravel()))[:, None]
        tau_density = fine @ r_weights.ravel()
        r_density = tau_weights.ravel() @ fine
        # rho = r bound(tau): for each rho integrate over the taus that allow it.
        bound = likelihood.cross_correlation_bound(counts, tau.ravel())
        rho_breaks = float(bound.max()) * np.linspace(-1, 1, 33)
        rho = panels.panel_nodes(rho_breaks, PANEL_NODES)
        joint = _rows_interpolated(fine, r_breaks, rho.ravel()[:, None] / bound[None, :])
        rho_density = (joint / bound * tau_weights.ravel()).sum(axis=1)
        return {
            name: PanelDensity(breaks=breaks, values=np.maximum(values, 0).reshape(-1, PANEL_NODES))
            for name, breaks, values in (
                ("within_correlation", tau_breaks, tau_density),
                ("cross_correlation", rho_breaks, rho_density),
                ("_r", r_breaks, r_density),
            )
        }

    def draw(
        self, posterior: GridPosterior, cell: IntArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Draw tau and r in each given cell, on a fine mesh.

        One cell's log likelihood can fall too steeply between nodes for a polynomial, but that of all
        cells together does not, and the difference is nearly linear.  So the density on the mesh is the
        joint one of all cells, interpolated by a polynomial, times the cell's share, interpolated
        linearly.
        """
        likelihood = cast("CorrelatedCounts", posterior.model.likelihood)
        cells, shape = posterior.cells, (len(self.tau), len(self.r))
        steps = (np.arange(FINE, dtype=np.float64) + 0.5) / FINE
        low, high = self.reach
        tau, r = np.asarray(low + (high - low) * steps), np.asarray(-1.0 + 2.0 * steps)
        logs = np.maximum(cells.log_nuisance, LEAST_LOG_NUISANCE) + self.log_weight
        cell_log = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        joint_log = np.log(np.maximum(cells.mass @ np.exp(cell_log), 1e-300))
        smooth = (
            panels.lagrange(self.tau, tau).T
            @ (joint_log - self.log_weight).reshape(shape)
            @ panels.lagrange(self.r, r)
        ) + log_prior_tau(likelihood, tau)[:, None]
        to_tau, to_r = panels.linear_matrix(self.tau, tau), panels.linear_matrix(self.r, r)

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
        # As for the strength: correct the interpolation error of the marginals, which are known.
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
            drawn.append(spread_out(posterior.marginals[name], masses, index, offset))
        bound = likelihood.cross_correlation_bound(posterior.counts, drawn[0])
        return {"within_correlation": drawn[0], "cross_correlation": drawn[1] * bound}

    def stored(self) -> Arrays:
        return {
            "nuisance_tau": (("nuisance_tau_node",), self.tau),
            "nuisance_r": (("nuisance_r_node",), self.r),
            "nuisance_log_weight": (("nuisance",), self.log_weight),
            "nuisance_box": (("nuisance_box_side",), np.array([*self.reach, -1.0, 1.0])),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, FloatArray]) -> CorrelationGrid:
        """From the arrays of :meth:`stored` in a file."""
        tau, r, log_weight = (arrays[f"nuisance_{name}"] for name in ("tau", "r", "log_weight"))
        if len(log_weight) != len(tau) * len(r):
            raise InputError("expected a weight for every node of the nuisance grid.")
        low, high = (float(end) for end in arrays["nuisance_box"][:2])
        return cls(reach=(low, high), tau=tau, r=r, log_weight=log_weight)


def _prior_gauss(
    likelihood: CorrelatedCounts, counts: AttackCounts, reach: tuple[float, float], count: int
) -> tuple[FloatArray, FloatArray]:
    """Gauss nodes and weights for the prior of tau truncated to its range, by the Stieltjes procedure.

    In the variable v = sqrt(1 + (N - 1) tau), the standard deviation of a count over a binomial's,
    the likelihood is smooth down to v = 0, where tau meets its bound.  The prior mass below
    `NARROWEST_SPREAD` (1.2 % for 100 trials and the default scale) is placed there: no grid could
    resolve counts that hardly vary, and the likelihood hardly changes any more.
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
    ends = [math.sqrt(max(1 + (largest - 1) * tau, 0.0)) for tau in reach]
    start = max(ends[0], NARROWEST_SPREAD)
    half = 0.5 * (ends[1] - start)
    fine, weights = panels.gauss_legendre(200)
    root = start + half * (1 + fine)
    mass = half * weights * np.exp(-0.5 * (tau_of(root) / scale) ** 2)
    mass *= 2 * root / ((largest - 1) * scale * math.sqrt(2 * math.pi))
    # The part of the prior below the start is an atom there.
    cut = below((start * start - 1) / (largest - 1)) - below(reach[0])
    x, mass = np.append(fine, -1.0), np.append(mass, max(cut, 0.0))
    nodes, shares = gauss_of_masses(x, mass, count)
    return tau_of(start + half * (1 + nodes)), mass.sum() / (below(high) - below(low)) * shares


def gauss_of_masses(x: FloatArray, mass: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Gauss nodes and weights, which add up to 1, for masses at many points (Stieltjes)."""
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
    return nodes, vectors[0] ** 2


def spread_out(
    marginal: PanelDensity, masses: FloatArray, node: IntArray, offset: FloatArray
) -> FloatArray:
    """Values at nodes with these masses, each at an ``offset`` within its share of the marginal."""
    before = np.concatenate([[0.0], np.cumsum(masses)])
    return panels.invert(marginal, (before[node] + offset * masses[node]) / before[-1])


def log_prior_tau(likelihood: CorrelatedCounts, tau: FloatArray) -> FloatArray:
    """Log prior density of tau up to a constant."""
    return np.asarray(-0.5 * (tau / likelihood.within_correlation_scale) ** 2)


def shape_preserving(nodes: FloatArray, values: FloatArray, points: FloatArray) -> FloatArray:
    """Monotone cubic interpolation along the first axis; polynomials overshoot on so few nodes."""
    from scipy.interpolate import PchipInterpolator

    inside = np.clip(points, nodes[0], nodes[-1])
    return np.asarray(PchipInterpolator(nodes, values, axis=0)(inside))


def _rows_interpolated(values: FloatArray, breaks: FloatArray, x: FloatArray) -> FloatArray:
    """values[k] is a function on panels; evaluate function k at x[:, k], 0 beyond the panels."""
    shaped = values.reshape(len(values), -1, PANEL_NODES)
    inside = (x > breaks[0]) & (x < breaks[-1])
    panel, local = panels.locate(breaks, x)
    coefficients = (shaped @ panels.analysis_matrix(PANEL_NODES).T)[np.arange(len(values)), panel]
    return np.where(inside, panels.legendre_sum(np.moveaxis(coefficients, -1, 0), local), 0.0)
