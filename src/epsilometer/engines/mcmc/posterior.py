"""The posterior from MCMC: draws and their convergence diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.engines.mcmc.diagnostics import Diagnostics
from epsilometer.errors import InputError
from epsilometer.posteriors import trees
from epsilometer.posteriors.marginals import Draws
from epsilometer.posteriors.posterior import CountPosterior

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SamplePosterior(CountPosterior):
    """A posterior by sampling: every result has Monte Carlo error, see ``diagnostics``.

    Parameters
    ----------
    samples
        For each estimated parameter its draws after warm-up, of shape (chain, draw).
    """

    samples: Mapping[str, FloatArray]
    diagnostics: Diagnostics

    def __post_init__(self) -> None:
        if set(self.samples) != set(self.parameters):
            raise InputError(
                f"expected samples of {', '.join(self.parameters)}, got {', '.join(self.samples)}."
            )
        samples = {name: np.asarray(self.samples[name], dtype=float) for name in self.parameters}
        shapes = {draws.shape for draws in samples.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            raise InputError(f"expected samples of one shape (chain, draw), got {sorted(shapes)}.")
        object.__setattr__(self, "samples", samples)

    @property
    def accurate(self) -> bool:
        return self.diagnostics.converged

    @property
    def engine_description(self) -> str:
        figures = self.diagnostics.parameters.values()
        r_hat = max(item.r_hat for item in figures)
        return (
            f"MCMC; {'converged' if self.accurate else 'NOT CONVERGED'}; largest R-hat "
            f"{f'{r_hat:.4f}' if np.isfinite(r_hat) else 'infinite'}, fewest effective draws "
            f"{min(item.bulk_effective_size for item in figures):.0f} (bulk) and "
            f"{min(item.tail_effective_size for item in figures):.0f} (tail)"
        )

    @property
    def quality(self) -> dict[str, object]:
        return {"diagnostics": self.diagnostics.to_dict()}

    @property
    def chains(self) -> SamplePosterior:
        return self

    def _estimated(self, parameter: str) -> Draws:
        prior = self.model.priors_of(self.counts).get(parameter)
        low, high = (-np.inf, np.inf) if prior is None else (0.0, prior.end)
        return Draws(values=self.samples[parameter], low=low, high=high)

    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws with replacement from the pooled chains."""
        size = _validate.whole_number("size", size, least=0)
        chosen = rng.integers(next(iter(self.samples.values())).size, size=size)
        return {name: draws.ravel()[chosen] for name, draws in self.samples.items()}

    def to_datatree(self) -> xarray.DataTree:
        return trees.samples_to_datatree(self)
