"""The posterior that the exact engine returns: densities on panels, and a grid to draw from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilometer.inference import panels
from epsilometer.inference.exact_problem import Solution
from epsilometer.inference.nuisance import NuisanceGrid
from epsilometer.inference.panels import PanelDensity
from epsilometer.inference.posterior import Posterior, check_probability, prior_share
from epsilometer.inference.provenance import Provenance
from epsilometer.inference.rows import rule
from epsilometer.inference.spread_grid import SpreadGrid
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Beta, Fixed

if TYPE_CHECKING:
    import xarray

FloatArray = NDArray[np.float64]

FINE = 48
"""Points a side on which (tau, r) is drawn and its marginals are tabulated."""


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """What the exact engine says of its own error.

    ``error`` is the largest change of any probed quantile or mean between the last two levels,
    relative for values above 1.
    """

    error: float
    tolerance: float
    levels: int
    method: str

    @property
    def met(self) -> bool:
        """Whether the error estimate is within the tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The joint posterior as weighted nodes, for drawing.

    ``row`` numbers the epsilons; within a row strengths increase.  ``log_nuisance`` is the log
    likelihood at the nuisance nodes, up to a constant a cell, empty without correlations.
    """

    epsilon: FloatArray
    row: NDArray[np.int64]
    strength: FloatArray
    mass: FloatArray
    log_nuisance: FloatArray


class GridPosterior(Posterior):
    """A posterior by quadrature: quantiles and probabilities carry no Monte Carlo error."""

    def __init__(
        self,
        *,
        counts: AttackCounts,
        model: AuditModel,
        provenance: Provenance,
        marginals: Mapping[str, PanelDensity],
        cells: Cells,
        nuisance: NuisanceGrid | SpreadGrid,
        log_evidence: float,
        accuracy: Accuracy,
    ) -> None:
        super().__init__(counts=counts, model=model, provenance=provenance)
        self.marginals = dict(marginals)
        self.cells = cells
        self.nuisance = nuisance
        self.log_evidence = log_evidence
        self.accuracy = accuracy

    @property
    def trustworthy(self) -> bool:
        return self.accuracy.met

    def quantile(self, parameter: str, probability: ArrayLike) -> FloatArray:
        target = check_probability(probability)
        fixed = self._fixed_value(parameter)
        if fixed is not None:
            return np.full(target.shape, fixed)
        return self.marginals[parameter].quantile(target)

    def probability_above(self, parameter: str, value: float) -> float:
        fixed = self._fixed_value(parameter)
        if fixed is not None:
            return float(fixed > value)
        return float(1 - self.marginals[parameter].cdf(value))

    def mean(self, parameter: str) -> float:
        fixed = self._fixed_value(parameter)
        return self.marginals[parameter].mean() if fixed is None else fixed

    def standard_deviation(self, parameter: str) -> float:
        fixed = self._fixed_value(parameter)
        return 0.0 if fixed is not None else float(np.sqrt(self.marginals[parameter].variance()))

    def density(self, parameter: str, value: ArrayLike) -> FloatArray:
        if self._fixed_value(parameter) is not None:
            return np.where(np.asarray(value) == self._fixed_value(parameter), np.inf, 0.0)
        return self.marginals[parameter].density(value)

    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        from epsilometer.inference import grid_draws

        return grid_draws.draw(self, size, rng=rng)

    def to_datatree(self) -> xarray.DataTree:
        from epsilometer.inference import trees

        return trees.grid_to_datatree(self)

    def finished(
        self, *, error: float, tolerance: float, levels: int, provenance: Provenance
    ) -> GridPosterior:
        """The same posterior with its error estimate and provenance."""
        return GridPosterior(
            counts=self.counts,
            model=self.model,
            provenance=provenance,
            marginals=self.marginals,
            cells=self.cells,
            nuisance=self.nuisance,
            log_evidence=self.log_evidence,
            accuracy=Accuracy(
                error=error, tolerance=tolerance, levels=levels, method=self.accuracy.method
            ),
        )


def from_solution(counts: AttackCounts, model: AuditModel, solution: Solution) -> GridPosterior:
    """Marginals, evidence and cells from the rows of a solution."""
    log_rows = solution.log_rows
    top = float(log_rows.max())
    scaled = np.exp(log_rows - top)
    row_mass = solution.row_mass()
    per_node = (scaled * row_mass[:, :, None]).sum(axis=(0, 1))
    evidence = float(per_node.sum())
    marginals: dict[str, PanelDensity] = {}
    if not isinstance(model.epsilon, Fixed):
        marginals["epsilon"] = PanelDensity(breaks=solution.breaks, values=scaled.sum(axis=-1))
    cells = _cells(model, solution, row_mass, top)
    if isinstance(model.strength, Beta):
        marginals["strength"] = _strength_density(model, solution, row_mass, cells, top)
    grid = solution.nuisance
    if isinstance(grid, SpreadGrid):
        if "spread" in model.parameters_of(counts):
            marginals["spread"] = grid.density(per_node / evidence)
    elif isinstance(model.likelihood, CorrelatedNormal):
        marginals |= _nuisance_densities(model.likelihood, counts, grid, per_node / evidence)
    return GridPosterior(
        counts=counts,
        model=model,
        provenance=Provenance.now(engine="exact", settings={}, seconds=0.0),
        marginals=marginals,
        cells=cells,
        nuisance=solution.nuisance,
        log_evidence=top + float(np.log(evidence / prior_share(model, counts))),
        accuracy=Accuracy(error=np.inf, tolerance=0.0, levels=1, method=solution.method),
    )


def _cells(model: AuditModel, solution: Solution, row_mass: FloatArray, top: float) -> Cells:
    log_weight = solution.nuisance.log_weight
    mass = row_mass.ravel()
    if isinstance(model.epsilon, Fixed):
        epsilon, offset = np.array([model.epsilon.value]), np.zeros(1)
    else:
        epsilon = _row_epsilons(solution)
        offset = model.epsilon.log_density(epsilon)
    if solution.rows is None:
        assert isinstance(model.strength, Fixed)
        logs = solution.log_rows.reshape(-1, len(log_weight)) - top
        strength = np.full(len(logs), model.strength.value)
        row = np.arange(len(logs))
    else:
        quadrature = solution.rows.quadrature
        full = solution.rows.log_likelihood + quadrature.log_weights[..., None] + log_weight
        logs = (full + (offset - top)[:, None, None, None]).reshape(-1, len(log_weight))
        strength = quadrature.nodes.ravel()
        row = np.repeat(np.arange(len(epsilon)), logs.shape[0] // len(epsilon))
    cell_mass = mass[row] * np.exp(logs).sum(axis=-1)
    cell_mass = cell_mass / cell_mass.sum()
    keep = cell_mass > 1e-12
    log_nuisance = (logs - log_weight)[keep] if len(log_weight) > 1 else logs[keep][:, :0]
    if log_nuisance.size:
        log_nuisance = log_nuisance - log_nuisance.max(axis=1, keepdims=True)
    return Cells(
        epsilon=epsilon,
        row=row[keep].astype(np.int64),
        strength=strength[keep],
        mass=cell_mass[keep],
        log_nuisance=log_nuisance,
    )


def _row_epsilons(solution: Solution) -> FloatArray:
    points, _ = panels.gauss_legendre(solution.log_rows.shape[1])
    half = 0.5 * np.diff(solution.breaks)[:, None]
    return np.asarray((solution.breaks[:-1, None] + half * (1 + points)).ravel())


STRENGTH_QUANTILES = np.array(
    [1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.07, 0.15, 0.25, 0.4, 0.55, 0.7, 0.8, 0.88, 0.94, 0.98]
    + [0.993, 0.999, 0.9999, 1 - 1e-6]
)


def _strength_density(
    model: AuditModel, solution: Solution, row_mass: FloatArray, cells: Cells, top: float
) -> PanelDensity:
    """The marginal of the strength: rows interpolated to common strengths and added up."""
    assert isinstance(model.strength, Beta)
    order = np.argsort(cells.strength)
    cumulative = np.cumsum(cells.mass[order])
    found = np.interp(STRENGTH_QUANTILES, cumulative, cells.strength[order])
    breaks = _spread(np.concatenate([[0.0], found, [1.0]]))
    rows = solution.rows
    assert rows is not None
    prior = model.strength
    offset = (
        np.zeros(1) if isinstance(model.epsilon, Fixed) else model.epsilon.log_density(rows.epsilon)
    )
    logs = rows.log_likelihood + (
        solution.nuisance.log_weight + (offset - top)[:, None, None, None]
    )
    used = np.isfinite(rows.quadrature.log_weights)[..., None]
    scaled = np.exp(np.where(used, logs, -np.inf)).sum(axis=-1)
    scaled *= row_mass.ravel()[:, None, None]
    count = 10

    def evaluate(breaks: FloatArray) -> FloatArray:
        points, _ = panels.gauss_legendre(count)
        nodes = breaks[:-1, None] + 0.5 * np.diff(breaks)[:, None] * (1 + points)
        flat = nodes.ravel()
        total = np.maximum(rows.interpolate(scaled, flat).sum(axis=0), 0.0)
        return np.asarray((total * np.exp(prior.log_density(flat))).reshape(nodes.shape))

    values = evaluate(breaks)
    for _ in range(3):
        half = 0.5 * np.diff(breaks)
        _, weights = panels.gauss_legendre(count)
        mass = float(np.sum(half[:, None] * values * weights))
        left = panels.tail(values @ panels.analysis_matrix(count).T) * half
        # Finer than this only resolves the joints between the rows' own polynomials.
        split = (left > 1e-5 * mass) & (half > 1e-9)
        if not split.any():
            break
        breaks = np.sort(np.concatenate([breaks, 0.5 * (breaks[:-1] + breaks[1:])[split]]))
        values = evaluate(breaks)
    return PanelDensity(breaks=breaks, values=values)


def _spread(breaks: FloatArray) -> FloatArray:
    """Drop breaks that all but coincide with the one before; keep both ends."""
    kept = [breaks[0]]
    for value in breaks[1:-1]:
        if value - kept[-1] > 1e-9 and breaks[-1] - value > 1e-9:
            kept.append(value)
    return np.array([*kept, breaks[-1]])


# --- correlations -----------------------------------------------------------------------------


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


def _nuisance_densities(
    likelihood: CorrelatedNormal,
    counts: AttackCounts,
    grid: NuisanceGrid,
    probability: FloatArray,
) -> dict[str, PanelDensity]:
    """Marginals of tau and rho from the posterior mass at the nodes of the grid.

    The logarithm of the ratio of posterior to prior is interpolated between the nodes, keeping
    its shape, and held constant beyond the outermost ones.
    """
    assert grid.box is not None
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
    values: FloatArray, breaks: FloatArray, x: FloatArray, inside: NDArray[np.bool_]
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
