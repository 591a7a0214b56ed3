"""A grid of the within correlation alone, for a likelihood without cross correlation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.exact.nuisance import (
    CELLS_AT_ONCE,
    FARTHEST_PRIOR,
    FINE,
    LEAST_LOG_NUISANCE,
    PANEL_NODES,
    Arrays,
    NuisanceGrid,
    gauss_of_masses,
    shape_preserving,
)
from epsilometer.errors import InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import KupperHaseman
from epsilometer.posteriors import panels
from epsilometer.posteriors.panels import PanelDensity

if TYPE_CHECKING:
    from epsilometer.engines.exact.posterior import GridPosterior


@dataclass(frozen=True, kw_only=True)
class WithinGrid(NuisanceGrid):
    """Nodes of tau and prior weights; ``end`` is the largest |tau|."""

    end: float
    tau: FloatArray
    log_weight: FloatArray

    @classmethod
    def of_prior(
        cls, likelihood: KupperHaseman, counts: AttackCounts, size: tuple[int, int]
    ) -> WithinGrid:
        """A Gauss rule for the prior of tau."""
        _, high = likelihood.within_correlation_bounds(counts)
        end = min(high, FARTHEST_PRIOR * likelihood.within_correlation_scale)
        fine, weights = panels.gauss_legendre(200)
        tau = 0.5 * end * (1 + fine)
        mass = 0.5 * end * weights * np.exp(likelihood.log_prior(counts, within_correlation=tau))
        nodes, shares = gauss_of_masses(fine, mass, size[0])
        return cls(end=end, tau=0.5 * end * (1 + nodes), log_weight=np.log(mass.sum() * shares))

    def marginals(
        self, model: CountModel, counts: AttackCounts, probability: FloatArray
    ) -> dict[str, PanelDensity]:
        """The ratio of posterior to prior is interpolated between the nodes, preserving its shape."""
        likelihood = cast("KupperHaseman", model.likelihood)
        log_ratio = np.log(np.maximum(probability, 1e-300)) - self.log_weight
        breaks = np.linspace(0.0, self.end, 13)
        tau = panels.panel_nodes(breaks, PANEL_NODES)
        logs = shape_preserving(self.tau, log_ratio[:, None], tau.ravel())[:, 0]
        logs = logs - logs.max() + likelihood.log_prior(counts, within_correlation=tau.ravel())
        values = np.exp(logs).reshape(-1, PANEL_NODES)
        return {"within_correlation": PanelDensity(breaks=breaks, values=values)}

    def draw(
        self, posterior: GridPosterior, cell: IntArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Draw tau in each given cell on a fine mesh; its log likelihood there is nearly linear."""
        likelihood = cast("KupperHaseman", posterior.model.likelihood)
        mesh = self.end * (np.arange(FINE, dtype=np.float64) + 0.5) / FINE
        prior = likelihood.log_prior(posterior.counts, within_correlation=mesh)
        to_mesh = panels.linear_matrix(self.tau, mesh)
        logs = np.maximum(posterior.cells.log_nuisance, LEAST_LOG_NUISANCE)
        picked = np.empty(len(cell), dtype=np.int64)
        uniform = rng.random(len(cell))
        for start in range(0, len(cell), CELLS_AT_ONCE):
            part = slice(start, start + CELLS_AT_ONCE)
            mesh_logs = logs[cell[part]] @ to_mesh.T + prior
            below = np.cumsum(np.exp(mesh_logs - mesh_logs.max(axis=1, keepdims=True)), axis=1)
            picked[part] = (below < uniform[part, None] * below[:, -1:]).sum(axis=1)
        tau = self.end * (np.minimum(picked, FINE - 1) + rng.random(len(cell))) / FINE
        return {"within_correlation": tau}

    def stored(self) -> Arrays:
        return {
            "nuisance_within": (("nuisance",), self.tau),
            "nuisance_log_weight": (("nuisance",), self.log_weight),
            "nuisance_box": (("nuisance_box_side",), np.array([0.0, self.end])),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, FloatArray]) -> WithinGrid:
        """From the arrays of :meth:`stored` in a file."""
        tau, log_weight = arrays["nuisance_within"], arrays["nuisance_log_weight"]
        if len(tau) != len(log_weight):
            raise InputError("expected a weight for every node of the nuisance grid.")
        return cls(end=float(arrays["nuisance_box"][1]), tau=tau, log_weight=log_weight)
