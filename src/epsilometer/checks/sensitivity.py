"""Prior sensitivity: the posterior of epsilon under a narrower and a wider prior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer._display import Displayed
from epsilometer.engines.exact.engine import as_grid_posterior, estimate_on, surface_of
from epsilometer.errors import InputError
from epsilometer.posteriors.marginals import Marginal
from epsilometer.posteriors.posterior import CountPosterior

PRIOR_FACTORS = (0.5, 2.0)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AlternativePrior(Displayed, view="checks.PRIOR"):
    """The posterior of epsilon with the scale of its prior multiplied by ``factor``."""

    factor: float
    posterior: Any

    @property
    def model(self) -> Any:
        """The model with that prior."""
        return self.posterior.model

    @property
    def epsilon(self) -> Marginal:
        """The distribution of epsilon."""
        epsilon: Marginal = self.posterior.marginal("epsilon")
        return epsilon

    def credible_interval(self, level: float) -> tuple[float, float]:
        """The central interval of epsilon."""
        low, high = self.posterior.credible_interval("epsilon", level)
        return low, high


def prior_sensitivity(
    posterior: CountPosterior,
    *,
    factors: Sequence[float] = PRIOR_FACTORS,
    on_message: OnMessage | None = None,
) -> tuple[AlternativePrior, ...]:
    """Return epsilon's posterior under priors whose scale is multiplied by each factor.

    The exact engine integrates the same surface under the other prior, also for posteriors from MCMC.

    Raises
    ------
    InputError
        If the model holds epsilon fixed.
    """
    model, counts = posterior.model, posterior.counts
    if model.epsilon.fixed_value is not None:
        raise InputError("expected a prior of epsilon to rescale, got a fixed epsilon.")
    exact = as_grid_posterior(posterior, on_message=on_message)
    surface = surface_of(exact).first()
    priors = []
    for factor in factors:
        if on_message:
            on_message(f"prior scale x {factor:g}")
        other = replace(model, epsilon=model.epsilon.rescaled(_validate.positive("factor", factor)))
        found = estimate_on(surface, counts, other, exact.engine)
        priors.append(AlternativePrior(factor=factor, posterior=found))
    return tuple(priors)
