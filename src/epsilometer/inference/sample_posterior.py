"""The posterior that MCMC returns: draws, and how far they can be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError
from epsilometer.inference.mcmc.diagnostics import Diagnostics
from epsilometer.inference.posterior import Posterior, check_probability
from epsilometer.inference.provenance import Provenance
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel

if TYPE_CHECKING:
    import xarray


class SamplePosterior(Posterior):
    """A posterior by sampling: every answer carries Monte Carlo error, see ``diagnostics``.

    Parameters
    ----------
    samples
        For each estimated parameter its draws after warm-up, of shape (chain, draw).
    """

    def __init__(
        self,
        *,
        counts: AttackCounts,
        model: AuditModel,
        provenance: Provenance,
        samples: Mapping[str, FloatArray],
        diagnostics: Diagnostics,
    ) -> None:
        super().__init__(counts=counts, model=model, provenance=provenance)
        if set(samples) != set(self.parameters):
            raise InputError(
                f"expected samples of {', '.join(self.parameters)}, got {', '.join(samples)}."
            )
        self.samples = {name: np.asarray(samples[name], dtype=float) for name in self.parameters}
        shapes = {draws.shape for draws in self.samples.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            raise InputError(f"expected samples of one shape (chain, draw), got {sorted(shapes)}.")
        self.diagnostics = diagnostics

    @property
    def trustworthy(self) -> bool:
        """Whether the chains meet the thresholds of ``diagnostics``."""
        return self.diagnostics.converged

    @property
    def engine_words(self) -> str:
        """Whether the chains converged, with the worst figures over the parameters."""
        figures = self.diagnostics.parameters.values()
        r_hat = max(item.r_hat for item in figures)
        return (
            f"MCMC; {'converged' if self.trustworthy else 'NOT CONVERGED'}; largest R-hat "
            f"{f'{r_hat:.4f}' if np.isfinite(r_hat) else 'infinite'}, fewest effective draws "
            f"{min(item.bulk_effective_size for item in figures):.0f} (bulk) and "
            f"{min(item.tail_effective_size for item in figures):.0f} (tail)"
        )

    @property
    def quality(self) -> dict[str, object]:
        """The figures of every parameter."""
        return {"diagnostics": self.diagnostics.to_dict()}

    @property
    def chains(self) -> SamplePosterior:
        """Itself."""
        return self

    def quantile(self, parameter: str, probability: ArrayLike) -> FloatArray:
        """Quantiles of the pooled draws."""
        target = check_probability(probability)
        fixed = self._fixed_value(parameter)
        if fixed is not None:
            return np.full(target.shape, fixed)
        return np.asarray(np.quantile(self.samples[parameter], target))

    def probability_above(self, parameter: str, value: float) -> float:
        """The share of draws above ``value``."""
        fixed = self._fixed_value(parameter)
        if fixed is not None:
            return float(fixed > value)
        return float(np.mean(self.samples[parameter] > value))

    def mean(self, parameter: str) -> float:
        """The mean of the pooled draws."""
        fixed = self._fixed_value(parameter)
        return float(self.samples[parameter].mean()) if fixed is None else fixed

    def standard_deviation(self, parameter: str) -> float:
        """The standard deviation of the pooled draws."""
        fixed = self._fixed_value(parameter)
        return 0.0 if fixed is not None else float(self.samples[parameter].std(ddof=1))

    def density(self, parameter: str, value: ArrayLike) -> FloatArray:
        """A Gaussian kernel estimate, reflected at 0 and at the end of the parameter's prior.

        Good for a plot; quantiles and probabilities come from the draws themselves.
        """
        points = np.asarray(value, dtype=float)
        fixed = self._fixed_value(parameter)
        if fixed is not None:
            return np.where(points == fixed, np.inf, 0.0)
        prior = self.model.priors_of(self.counts).get(parameter)
        low, high = (-np.inf, np.inf) if prior is None else (0.0, prior.end)
        estimate = _kernel_density(self.samples[parameter].ravel(), points.ravel(), low, high)
        return estimate.reshape(points.shape)

    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws with replacement from the pooled chains."""
        flat = {name: draws.ravel() for name, draws in self.samples.items()}
        total = len(next(iter(flat.values())))
        chosen = rng.integers(total, size=size)
        return {name: draws[chosen] for name, draws in flat.items()}

    def to_datatree(self) -> xarray.DataTree:
        """Draws, diagnostics and counts as a DataTree."""
        from epsilometer.inference import trees

        return trees.samples_to_datatree(self)


def _kernel_density(draws: FloatArray, points: FloatArray, low: float, high: float) -> FloatArray:
    """Gaussian kernel density with Silverman's bandwidth on draws binned to a fine grid."""
    spread = min(float(draws.std()), float(np.subtract(*np.quantile(draws, [0.75, 0.25]))) / 1.34)
    if not spread > 0:
        spread = float(draws.std()) or 1e-9
    width = 0.9 * spread * len(draws) ** -0.2
    # Bins a tenth of the bandwidth wide change the estimate by less than one part in a thousand.
    bins = int(np.clip(np.ptp(draws) / (0.1 * width), 1, 20_000))
    mass, edges = np.histogram(draws, bins=bins)
    used = mass > 0
    centres, mass = 0.5 * (edges[:-1] + edges[1:])[used], mass[used] / len(draws)
    if np.isfinite(low):
        centres, mass = np.append(centres, 2 * low - centres), np.append(mass, mass)
    if np.isfinite(high):
        top = centres > high - 10 * width
        centres = np.append(centres, 2 * high - centres[top])
        mass = np.append(mass, mass[top])
    result = np.zeros(len(points))
    for start in range(0, len(points), 256):
        chunk = points[start : start + 256]
        z = (chunk[:, None] - centres) / width
        result[start : start + 256] = np.exp(-0.5 * z * z) @ mass
    result /= width * np.sqrt(2 * np.pi)
    return np.where((points >= low) & (points <= high), result, 0.0)
