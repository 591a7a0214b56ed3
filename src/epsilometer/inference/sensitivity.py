"""How far the answer is the prior's: the posterior of epsilon under a narrower and a wider prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.inference.exact import estimate_exact
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.panels import PanelDensity
from epsilometer.inference.posterior import Posterior
from epsilometer.model.joint import AuditModel
from epsilometer.model.priors import Fixed, Uniform

FACTORS = (0.5, 2.0)

NEGLIGIBLE = 1e-6
"""Probability in an outermost panel from which the grid may be too short for another prior."""

MOST_AMPLIFIED = 10.0
"""How many times its old mass, on average, a panel's new mass may be: its errors grow as much."""

ROUNDING = 1e-16


@dataclass(frozen=True, kw_only=True, eq=False)
class OtherPrior:
    """The posterior of epsilon if the scale of its prior were ``factor`` times as large."""

    factor: float
    model: AuditModel
    epsilon: PanelDensity

    def credible_interval(self, level: float) -> tuple[float, float]:
        """The central interval of epsilon."""
        level = _validate.level(level)
        low, high = self.epsilon.quantile([0.5 - level / 2, 0.5 + level / 2])
        return float(low), float(high)


def prior_sensitivity(
    posterior: Posterior,
    *,
    factors: Sequence[float] = FACTORS,
    report: Callable[[str], None] | None = None,
) -> tuple[OtherPrior, ...]:
    """Return epsilon's posterior under priors whose scale is multiplied by each factor.

    An exact posterior is reweighted at its own nodes by the ratio of the priors, which is as
    accurate as it was itself.  Where its grid may be too short for that, and for draws, the exact
    engine runs anew.

    Raises
    ------
    InputError
        If the model holds epsilon fixed.
    """
    if isinstance(posterior.model.epsilon, Fixed):
        raise InputError("expected a prior of epsilon to rescale, got a fixed epsilon.")
    return tuple(_other(posterior, _validate.positive("factor", f), report) for f in factors)


def _other(posterior: Posterior, factor: float, report: Callable[[str], None] | None) -> OtherPrior:
    prior = posterior.model.epsilon
    assert not isinstance(prior, Fixed)
    model = replace(posterior.model, epsilon=prior.rescaled(factor))
    density = None
    # A uniform prior ends abruptly, inside or outside the grid: reweighting cannot follow it.
    if isinstance(posterior, GridPosterior) and not isinstance(prior, Uniform):
        density = _reweighted(posterior, model)
    if density is None:
        if report:
            report(f"prior scale x {factor:g}")
        density = estimate_exact(posterior.counts, model).marginals["epsilon"]
    return OtherPrior(factor=factor, model=model, epsilon=density)


def _reweighted(posterior: GridPosterior, new: AuditModel) -> PanelDensity | None:
    """The density times the ratio of the priors; None if the grid was not made for that."""
    old, density = posterior.model, posterior.marginals["epsilon"]
    assert not isinstance(old.epsilon, Fixed)
    assert not isinstance(new.epsilon, Fixed)
    nodes = density.nodes
    log_ratio = new.epsilon.log_density(nodes) - old.epsilon.log_density(nodes)
    values = density.values * np.exp(log_ratio - log_ratio.max())
    if not values.max() > 0:
        return None
    result = PanelDensity(breaks=density.breaks, values=values)
    ends = result.cdf([result.breaks[1], result.breaks[-2]])
    smallest = new.likelihood.smallest_epsilon(posterior.counts)
    cut_below = ends[0] > NEGLIGIBLE and density.breaks[0] > smallest
    if cut_below or 1 - ends[1] > NEGLIGIBLE:
        return None
    # Panels were refined for the old posterior; where that is nearly 0, they hold little but errors.
    before, after = (np.diff(each.cdf(each.breaks)) for each in (density, result))
    amplified = float(np.sum(after**2 / np.maximum(before, ROUNDING)))
    return result if amplified <= MOST_AMPLIFIED else None
