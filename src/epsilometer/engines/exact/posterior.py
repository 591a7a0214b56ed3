"""The posterior of the exact engine: densities on panels, and a grid to draw from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.exact.draws import Cells, draw
from epsilometer.engines.exact.integrate import Panels, Solution
from epsilometer.engines.exact.nuisance import NuisanceGrid
from epsilometer.engines.exact.surface import Surface
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors import trees
from epsilometer.posteriors.panels import PanelDensity, panel_nodes, split_panels, unresolved
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.provenance import Provenance

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The exact engine's error estimate.

    ``error`` is the largest change of any checked quantile or mean between the last two refinement
    steps, relative for values above 1; ``levels`` is the number of steps.
    """

    error: float
    tolerance: float
    levels: int
    method: str

    @property
    def met(self) -> bool:
        """Whether the error estimate is within the tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GridPosterior(CountPosterior):
    """A posterior by quadrature: quantiles and probabilities have no Monte Carlo error.

    ``surface`` and ``panels`` are what it was integrated from; they are not stored in files.
    """

    marginals: Mapping[str, PanelDensity]
    cells: Cells
    nuisance: NuisanceGrid
    log_evidence: float
    accuracy: Accuracy
    surface: Surface | None = None
    panels: Panels | None = None

    @property
    def accurate(self) -> bool:
        return self.accuracy.met

    @property
    def engine_description(self) -> str:
        accuracy = self.accuracy
        shown = f"{accuracy.error:.1e}" if np.isfinite(accuracy.error) else "unknown"
        return (
            f"exact quadrature; estimated error {shown}, tolerance {accuracy.tolerance:.0e} "
            f"{'met' if accuracy.met else 'NOT MET'}"
        )

    @property
    def quality(self) -> dict[str, object]:
        accuracy = {**asdict(self.accuracy), "met": bool(self.accuracy.met)}
        return {"accuracy": accuracy, "log_evidence": self.log_evidence}

    def _estimated(self, parameter: str) -> PanelDensity:
        return self.marginals[parameter]

    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        return draw(self, size, rng=rng)

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
        marginals["epsilon"] = PanelDensity(breaks=solution.breaks, values=density)
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
        accuracy=Accuracy(error=np.inf, tolerance=0.0, levels=1, method=method),
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
    return Cells(
        epsilon=epsilon,
        row=(keep // (len(mass) // len(epsilon))).astype(np.int64),
        strength=quadrature.nodes.ravel()[keep],
        mass=mass[keep],
        log_nuisance=logs,
    )


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
        split = unresolved(breaks, values, 1e-5) & (np.diff(breaks) > 2e-9)
        if not split.any():
            break
        breaks = split_panels(breaks, split)
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
