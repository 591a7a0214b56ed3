"""Convergence diagnostics: rank-normalised R-hat and effective sample sizes.

The definitions and the thresholds are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner,
"Rank-normalization, folding, and localization: an improved R-hat", Bayesian Analysis 16 (2021).
ArviZ computes them; it is loaded when first needed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import plain

LARGEST_R_HAT = 1.01
LEAST_EFFECTIVE_SIZE = 400.0


@dataclass(frozen=True, kw_only=True)
class ParameterDiagnostics:
    """Diagnostics of one parameter; a chain that never moved has R-hat inf and effective sizes 0."""

    r_hat: float
    bulk_effective_size: float
    tail_effective_size: float
    mean_standard_error: float

    @property
    def converged(self) -> bool:
        """Whether R-hat < 1.01 and both effective sizes are at least 400."""
        sizes = self.bulk_effective_size, self.tail_effective_size
        return self.r_hat < LARGEST_R_HAT and all(size >= LEAST_EFFECTIVE_SIZE for size in sizes)


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Diagnostics of every parameter, and the acceptance rate of random-walk proposals."""

    parameters: Mapping[str, ParameterDiagnostics]
    acceptance_rate: float

    @property
    def converged(self) -> bool:
        """Whether every parameter meets the thresholds of Vehtari et al. (2021)."""
        return all(figures.converged for figures in self.parameters.values())

    def to_dict(self) -> dict[str, object]:
        """Plain numbers for JSON, with None for infinity."""
        rate, parameters = self.acceptance_rate, plain(dict(self.parameters))
        return {"converged": self.converged, "acceptance_rate": rate, "parameters": parameters}


NEVER_MOVED = ParameterDiagnostics(
    r_hat=math.inf, bulk_effective_size=0.0, tail_effective_size=0.0, mean_standard_error=math.inf
)


def diagnose_parameter(draws: FloatArray) -> ParameterDiagnostics:
    """Return the diagnostics of one parameter from its draws, of shape (chain, draw).

    Chains that never moved, non-finite values and fewer than 8 draws per chain all count as not
    converged rather than as NaN.
    """
    from arviz_stats import base

    array_stats: Any = base.array_stats  # type: ignore[attr-defined]

    if draws.shape[1] < 8 or not np.all(np.isfinite(draws)) or np.any(np.ptp(draws, axis=1) == 0):
        return NEVER_MOVED
    # A single chain is compared with itself, first half against second.
    chains = draws
    if len(draws) == 1:
        half = draws.shape[1] // 2
        chains = np.stack([draws[0, :half], draws[0, -half:]])
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(all="ignore"):
        diagnostics = {
            "r_hat": array_stats.rhat(chains, method="rank", **axes),
            "bulk_effective_size": array_stats.ess(draws, method="bulk", **axes),
            "tail_effective_size": array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes),
            "mean_standard_error": array_stats.mcse(draws, method="mean", **axes),
        }
    finite = {name: float(value) for name, value in diagnostics.items() if math.isfinite(value)}
    return replace(NEVER_MOVED, **finite)


def diagnose(samples: Mapping[str, FloatArray], *, acceptance_rate: float) -> Diagnostics:
    """Return the diagnostics of all parameters, from draws of shape (chain, draw)."""
    parameters = {name: diagnose_parameter(draws) for name, draws in samples.items()}
    return Diagnostics(parameters=parameters, acceptance_rate=acceptance_rate)
