"""The joint probability model: assumptions about epsilon, the attacks and their counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import Dependence, ScatteredMembers
from epsilometer.model.likelihoods import IndependentBinomial, Likelihood
from epsilometer.model.priors import Beta, HalfNormal, Prior, StrengthPrior


@dataclass(frozen=True, kw_only=True)
class CountModel:
    """All assumptions of the count model, as published; only the counts are observed.

    The log of the joint density, equation (4) of the paper, or (10) with correlations, is
    log p(epsilon) + log p(s) [+ log p(tau, rho)] + sum over bases of
    log Unif(alpha_i, beta_i; R_s(epsilon, delta)) + log g(X_i, Y_i | alpha_i, beta_i).

    Parameters
    ----------
    delta
        The delta of (epsilon, delta)-DP, in [0, 1).  Required: there is no sensible default.
    epsilon
        Prior of epsilon, or ``Fixed(value=...)`` above 0.
    strength
        Prior of the strength of the attacks, or ``Fixed(value=...)`` in [0, 1].  1 is the limit in
        which every attack is the best possible on the worst base.
    likelihood
        How counts arise from error rates.
    dependence
        How attacks of one group depend on each other.  It matters only for counts with groups.

    Examples
    --------
    >>> CountModel(delta=1e-3).strength
    Beta(a=1.0, b=1.0)
    """

    delta: float
    epsilon: Prior = field(default_factory=HalfNormal)
    strength: StrengthPrior = field(default_factory=Beta)
    likelihood: Likelihood = field(default_factory=IndependentBinomial)
    dependence: Dependence = field(default_factory=ScatteredMembers)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        for name, kind, what in (
            ("epsilon", Prior, "a prior for epsilon"),
            ("strength", StrengthPrior, "a prior for strength"),
            ("likelihood", Likelihood, "a likelihood"),
            ("dependence", Dependence, "a dependence"),
        ):
            value = getattr(self, name)
            if isinstance(value, type) or not isinstance(value, kind):
                raise InputError(f"expected {what}, got {name}={value!r}.")
        if self.epsilon.fixed_value is not None:
            _validate.positive("epsilon", self.epsilon.fixed_value)
        if self.strength.fixed_value is not None:
            _validate.unit_interval("strength", self.strength.fixed_value)

    def scatters(self, counts: AttackCounts) -> bool:
        """Whether some rows belong to a group whose members scatter around its average."""
        return counts.dependent and self.dependence.spread is not None

    def priors_of(self, counts: AttackCounts) -> dict[str, Prior]:
        """The priors of epsilon, of the strength and, for groups that scatter, of the spread."""
        priors: dict[str, Prior] = {"epsilon": self.epsilon, "strength": self.strength}
        if counts.dependent and self.dependence.spread is not None:
            priors["spread"] = self.dependence.spread
        return priors

    def fixed_values(self, counts: AttackCounts) -> dict[str, float]:
        """The parameters that are held fixed, with their values."""
        return {
            name: prior.fixed_value
            for name, prior in self.priors_of(counts).items()
            if prior.fixed_value is not None
        }

    def parameters_of(self, counts: AttackCounts) -> tuple[str, ...]:
        """The names of the parameters estimated from these counts, in a fixed order."""
        free = [n for n, prior in self.priors_of(counts).items() if prior.fixed_value is None]
        place = len(free) - ("spread" in free)
        return (*free[:place], *self.likelihood.parameters, *free[place:])

    def check(self, counts: AttackCounts) -> None:
        """Refuse counts that are incompatible with the model."""
        self.likelihood.check(counts)
        if counts.dependent and self.dependence.sums_only and self.likelihood.parameters:
            raise InputError(
                "expected the binomial likelihood with PooledGroups, which has its own normal "
                "approximation; for correlated counts in groups use ScatteredMembers."
            )
