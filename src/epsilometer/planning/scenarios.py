"""The assumed truth of a plan: known values, or the posterior of a pilot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors.posterior import CountPosterior


class Truth(NamedTuple):
    """One set of true parameters.

    ``variance_ratio`` is 1 + (N - 1) tau, the variance of a count over that of a binomial, and
    ``count_correlation`` is that of a base's two counts.  Both are kept constant while the
    number N of challenges varies: the dependence through cross-fed shadow models decreases as 1 / N, so
    tau and rho are not constant, but these two are.
    """

    epsilon: float
    strength: float
    variance_ratio: float = 1.0
    count_correlation: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AssumedScenario:
    """Known true values.

    Parameters
    ----------
    epsilon
        The true epsilon, above 0.
    strength
        The true strength of the attacks, in [0, 1].
    variance_ratio
        Variance of a count over that of a binomial; above 0.
    count_correlation
        Correlation of the two counts of a base, in (-1, 1).

    Examples
    --------
    >>> AssumedScenario(epsilon=2.0, strength=0.5).truths(2, rng=np.random.default_rng(1))[0].epsilon
    2.0
    """

    epsilon: float
    strength: float
    variance_ratio: float = 1.0
    count_correlation: float = 0.0
    pilot: ClassVar[None] = None
    """No pilot."""

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        _validate.unit_interval("strength", self.strength)
        _validate.positive("variance_ratio", self.variance_ratio)
        if not -1 < self.count_correlation < 1:
            raise InputError(
                "expected -1 < count_correlation < 1, "
                f"got count_correlation={self.count_correlation}."
            )

    def truths(self, size: int, *, rng: np.random.Generator) -> list[Truth]:
        """The same truth ``size`` times."""
        del rng
        return [Truth(**asdict(self))] * size

    def described(self) -> dict[str, object]:
        """The assumptions as plain values."""
        return {"assumed": asdict(self)}


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotScenario:
    """Truths drawn from the posterior of a pilot, so that the plan includes its uncertainty.

    Parameters
    ----------
    posterior
        The posterior of the pilot, from any engine.
    extend
        Whether the planned audit keeps the pilot's bases and adds others.  Otherwise it starts from
        scratch.
    """

    posterior: CountPosterior
    extend: bool = False

    def __post_init__(self) -> None:
        if self.posterior.counts.dependent:
            raise InputError(
                "expected a pilot with one attack per base, got groups of several: audits with "
                "dependent attacks cannot be planned."
            )

    @property
    def pilot(self) -> AttackCounts | None:
        """Counts that the planned audit starts from."""
        return self.posterior.counts if self.extend else None

    def truths(self, size: int, *, rng: np.random.Generator) -> list[Truth]:
        """Draws from the pilot's posterior."""
        model, counts = self.posterior.model, self.posterior.counts
        drawn = self.posterior.draws(size, rng=rng)
        for name, value in model.fixed_values(counts).items():
            drawn[name] = np.full(size, value)
        moments = model.likelihood.count_moments(counts, drawn)
        columns = np.broadcast_arrays(drawn["epsilon"], drawn["strength"], *moments)
        return [Truth(*map(float, row)) for row in zip(*columns, strict=True)]

    def described(self) -> dict[str, object]:
        """The pilot in numbers."""
        return {
            "pilot": {
                "bases": len(self.posterior.counts),
                "largest_challenges": largest_challenges(self.posterior.counts),
                "extended": self.extend,
                "epsilon": list(self.posterior.credible_interval("epsilon", 0.9)),
                "strength": list(self.posterior.credible_interval("strength", 0.9)),
            }
        }


Scenario = AssumedScenario | PilotScenario


def largest_challenges(counts: AttackCounts) -> int:
    """The largest number of challenges of any base under either hypothesis."""
    return int(max(counts.trials_h0.max(), counts.trials_h1.max()))
