"""What is taken to be true while an audit is planned: assumed values, or a pilot's posterior."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.inference.posterior import Posterior
from epsilometer.model.counts import AttackCounts


class Truth(NamedTuple):
    """One state of the world.

    ``variance_ratio`` is 1 + (N - 1) tau, the variance of a count over that of a binomial, and
    ``count_correlation`` is that of a base's two counts.  Both are held while the number N of
    challenges varies: what shadow models share in cross-feeding fades as 1 / N, so tau and rho do not
    stay but these two do.
    """

    epsilon: float
    strength: float
    variance_ratio: float = 1.0
    count_correlation: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AssumedScenario:
    """Known values, as if the truth had been told.

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
    """There is none."""

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
        """The same truth, so often."""
        del rng
        return [Truth(**asdict(self))] * size

    def described(self) -> dict[str, object]:
        """What is assumed, as plain values."""
        return {"assumed": asdict(self)}


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotScenario:
    """Truths drawn from the posterior of a pilot, so that the plan carries the pilot's uncertainty.

    Parameters
    ----------
    posterior
        The pilot's, by any engine.
    extend
        Whether the pilot's counts are part of the audit that is planned: its bases stay as they are
        and others are added.  Otherwise the audit starts afresh.
    """

    posterior: Posterior
    extend: bool = False

    def __post_init__(self) -> None:
        if self.posterior.counts.dependent:
            raise InputError(
                "expected a pilot with one attack a base, got groups of several: audits whose attacks "
                "depend on each other cannot be planned."
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
    """The most challenges that any base has under either hypothesis."""
    return int(max(counts.trials_h0.max(), counts.trials_h1.max()))
