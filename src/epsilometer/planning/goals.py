"""What a plan is asked: the goals of the audit, and the assumed truth.

Goals are a narrow interval, the right verdict, a proof.  The truth is known values, or the posterior of
a pilot.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.curve.summaries import draw_leaks
from epsilometer.errors import InputError
from epsilometer.judgement.verdict import Outcome, Thresholds
from epsilometer.model.counts import AttackCounts
from epsilometer.model.families import Gaussian
from epsilometer.model.family import Curves, Family
from epsilometer.model.models import CountModel, CurveModel
from epsilometer.model.scores import Scores
from epsilometer.posteriors.posterior import CountPosterior

#: Intervals without an upper end count as this wide.
WIDEST = 1000.0

#: Posterior probabilities are clipped here before their odds are computed.
LEAST_PROBABILITY = 1e-12

#: Least margin of a verdict, on either side: checks and proofs decide too, not only the posterior.
DECIDED = 0.25


class Answer(NamedTuple):
    """What a simulated audit reports: interval, P(epsilon > claim), verdict, proof; and the truth.

    ``high`` is infinite if its data set no upper limit; ``most_shown`` is the most that they can show.
    """

    truth: float
    low: float = math.nan
    high: float = math.nan
    above: float = math.nan
    outcome: Outcome | None = None
    proven: float = 0.0
    most_provable: float = math.inf
    most_shown: float = math.nan

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low


@dataclass(frozen=True, kw_only=True)
class IntervalWidth:
    """A credible interval of epsilon of at most this width, with the level of the plan."""

    at_most: float
    words: ClassVar[str] = "a {level:g} % interval of epsilon at most {at_most:g} wide"

    def __post_init__(self) -> None:
        _validate.positive("at_most", self.at_most)

    def margin(self, answer: Answer) -> float:
        """log(goal / width): at least 0 if the goal is reached, and smooth in the audit's size."""
        return math.log(self.at_most / min(max(answer.width, 1e-300), WIDEST))


@dataclass(frozen=True, kw_only=True)
class DecidedClaim:
    """The right verdict on a claimed epsilon: FAIL if the true one is larger, otherwise PASS."""

    claim: float
    thresholds: Thresholds = field(default_factory=Thresholds)
    words: ClassVar[str] = "the right verdict on the claim of {claim:g}"

    def __post_init__(self) -> None:
        _validate.non_negative("claim", self.claim)

    def margin(self, answer: Answer) -> float:
        """Log odds beyond the threshold of the right verdict; at least 0 if that was the verdict."""
        odds = _log_odds(answer.above)
        if answer.truth > self.claim:
            right, beyond = Outcome.FAIL, odds - _log_odds(self.thresholds.fail_at_least)
        else:
            right, beyond = Outcome.PASS, _log_odds(self.thresholds.pass_at_most) - odds
        return max(beyond, DECIDED) if answer.outcome is right else min(beyond, -DECIDED)


@dataclass(frozen=True, kw_only=True)
class ProvenEpsilon:
    """A proof, which assumes no model, that epsilon is at least this."""

    at_least: float
    words: ClassVar[str] = "a proof that epsilon is at least {at_least:g}"

    def __post_init__(self) -> None:
        _validate.positive("at_least", self.at_least)

    def margin(self, answer: Answer) -> float:
        """What is proven beyond the goal."""
        return answer.proven - self.at_least


Goal = IntervalWidth | DecidedClaim | ProvenEpsilon


def check_goals(goals: Sequence[Goal]) -> None:
    """Refuse missing, unknown and repeated goals."""
    kinds = {type(goal) for goal in goals}
    if not goals or not kinds <= set(Goal.__args__) or len(kinds) < len(goals):
        raise InputError(
            "expected goals IntervalWidth(...), DecidedClaim(...) or ProvenEpsilon(...), at most one "
            "of each."
        )


def _log_odds(probability: float) -> float:
    inside = min(max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    return math.log(inside) - math.log1p(-inside)


# --- the assumed truth ----------------------------------------------------------------------------


class CountTruth(NamedTuple):
    """True parameters of the count model.

    ``variance_ratio`` is 1 + (N - 1) tau, the variance of a count over that of a binomial, and
    ``count_correlation`` is that of a base's two counts.  Both are kept constant while the number N of
    challenges varies: the dependence through cross-fed shadow models decreases as 1 / N, so tau and rho
    are not constant, but these two are.
    """

    epsilon: float
    strength: float
    variance_ratio: float = 1.0
    count_correlation: float = 0.0


class CurveTruth(NamedTuple):
    """True trade-off curve, and the Beta distribution of the strengths of attacks on bases."""

    epsilon: float
    curves: Curves | None  # None if nothing leaks
    leak: float
    strength: float
    concentration: float

    def strengths(self, bases: int, *, rng: np.random.Generator) -> FloatArray:
        """Strengths of the attacks on so many bases; the first do not depend on their number."""
        mean, concentration = self.strength, self.concentration
        if mean in (0, 1) or math.isinf(concentration):
            return np.full(bases, mean)
        return rng.beta(mean * concentration, (1 - mean) * concentration, bases)

    def scores(self, strength: float, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        """A score for each model, trained with the point or not."""
        if self.curves is None or strength * self.leak == 0:
            return rng.random(len(member))
        return self.curves.sample(strength * self.leak, member, rng=rng)


@dataclass(frozen=True, kw_only=True)
class AssumedScenario:
    """Known true values of the count model, for audits that are planned with a `CountModel`.

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
    >>> truth = AssumedScenario(epsilon=2.0, strength=0.5)
    >>> truth.truths(2, CountModel(delta=0.1), rng=np.random.default_rng(1))[0].epsilon
    2.0
    """

    epsilon: float
    strength: float
    variance_ratio: float = 1.0
    count_correlation: float = 0.0
    model_kind: ClassVar[type] = CountModel
    #: No pilot.
    pilot: ClassVar[None] = None

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        _validate.unit_interval("strength", self.strength)
        _validate.positive("variance_ratio", self.variance_ratio)
        if not -1 < self.count_correlation < 1:
            raise InputError(
                "expected -1 < count_correlation < 1, "
                f"got count_correlation={self.count_correlation}."
            )

    def truths(self, size: int, model: Any, *, rng: np.random.Generator) -> list[CountTruth]:
        """The same truth ``size`` times."""
        return [CountTruth(**asdict(self))] * size

    def described(self) -> dict[str, object]:
        """The assumptions as plain values."""
        return {"assumed": asdict(self)}


@dataclass(frozen=True, kw_only=True)
class AssumedCurve:
    """A known trade-off curve, for audits that are planned with a `CurveModel`.

    Parameters
    ----------
    epsilon
        The true epsilon at the delta of the audit, above 0.
    family
        Family of the true curve, with continuous scores; default ``Gaussian()``.
    strength
        Mean share of the algorithm's leak that the attacks show, in (0, 1]; 1 is the best possible.
        Canaries of one run all have this strength.
    concentration
        Strengths of bases or points are Beta(m c, (1 - m) c) with mean m; the smaller c, the more they
        differ.  Infinite: all equal, which an audit takes for attacks that find everything.

    Examples
    --------
    >>> round(AssumedCurve(epsilon=4.377178).leak(1e-5), 4)
    1.0
    """

    epsilon: float
    family: Family = field(default_factory=Gaussian)
    strength: float = 1.0
    concentration: float = 8.0
    model_kind: ClassVar[type] = CurveModel
    #: No pilot.
    pilot: ClassVar[None] = None

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        if not _validate.unit_interval("strength", self.strength) > 0:
            raise InputError(f"expected 0 < strength <= 1, got strength={self.strength}.")
        if not self.concentration > 0:
            raise InputError(f"expected concentration > 0, got concentration={self.concentration}.")
        if not hasattr(self.family, "scores_at") or self.family.pieces:
            raise InputError(
                "expected a family of continuous scores, such as Gaussian() or "
                f"LaplaceCurves(), got family={self.family!r}."
            )

    def leak(self, delta: float) -> float:
        """The leak of the algorithm."""
        if delta == 0 and not np.isfinite(self.family.epsilon(1.0, 0.0)):
            raise InputError(f"expected delta > 0: a {self.family.name} curve has no epsilon at 0.")
        return float(self.family.leak_of(self.epsilon, delta))

    def truths(self, size: int, model: Any, *, rng: np.random.Generator) -> list[CurveTruth]:
        """The same truth ``size`` times."""
        curves, leak = Curves(family=self.family), self.leak(model.delta)
        return [CurveTruth(self.epsilon, curves, leak, self.strength, self.concentration)] * size

    def described(self) -> dict[str, object]:
        """The assumptions as plain values."""
        values = {"epsilon": self.epsilon, "family": self.family.name, "strength": self.strength}
        equal = math.isinf(self.concentration)
        return {"assumed": values | {"concentration": None if equal else self.concentration}}


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotScenario:
    """Truths drawn from the posterior of a pilot, so that the plan includes its uncertainty.

    Parameters
    ----------
    posterior
        The posterior of the pilot, of either model.
    extend
        Whether the planned audit keeps the pilot's bases and adds others.  Otherwise it starts from
        scratch.
    """

    posterior: CountPosterior | CurvePosterior
    extend: bool = False
    #: Not known.
    epsilon: ClassVar[None] = None

    def __post_init__(self) -> None:
        data = self.posterior.data
        if isinstance(data, AttackCounts) and data.dependent:
            raise InputError(
                "expected a pilot with one attack per base, got groups of several: audits with "
                "dependent attacks cannot be planned."
            )
        if self.extend and isinstance(data, Scores) and (data.one_run or data.models is not None):
            raise InputError(
                "expected a pilot of separate models to extend, got one run or a pool."
            )

    @property
    def model_kind(self) -> type:
        """The model of the pilot."""
        return type(self.posterior.model)

    @property
    def pilot(self) -> AttackCounts | Scores | None:
        """Data that the planned audit starts from."""
        return self.posterior.data if self.extend else None

    def truths(
        self, size: int, model: Any, *, rng: np.random.Generator
    ) -> list[CountTruth] | list[CurveTruth]:
        """Draws from the pilot's posterior."""
        if model != self.posterior.model:
            raise InputError("expected the model of the pilot, got another one.")
        if isinstance(self.posterior, CurvePosterior):
            return _drawn_curves(self.posterior, size, rng)
        counts = self.posterior.counts
        drawn = self.posterior.draws(size, rng=rng)
        for name, value in model.fixed_values(counts).items():
            drawn[name] = np.full(size, value)
        moments = model.likelihood.count_moments(counts, drawn)
        columns = np.broadcast_arrays(drawn["epsilon"], drawn["strength"], *moments)
        return [CountTruth(*map(float, row)) for row in zip(*columns, strict=True)]

    def described(self) -> dict[str, object]:
        """The pilot in numbers."""
        return {
            "pilot": {
                "bases": len(self.posterior.data),
                "largest_challenges": self.posterior.data.largest_trials,
                "extended": self.extend,
                "epsilon": list(self.posterior.credible_interval("epsilon", 0.9)),
            }
        }


def _drawn_curves(
    posterior: CurvePosterior, size: int, rng: np.random.Generator
) -> list[CurveTruth]:
    solution = posterior.solution
    drawn, laws = draw_leaks(solution, size, rng=rng), solution.distributions
    truths = []
    for component, law, leak in zip(*drawn[:3], strict=True):
        curves = solution.components[component].curves if component >= 0 else None
        epsilon = 0.0 if curves is None else float(curves.epsilon(leak, posterior.model.delta))
        shape = float(laws.means[law]), float(laws.concentrations[law])
        truths.append(CurveTruth(epsilon, curves, float(leak), *shape))
    return truths


Scenario = AssumedScenario | AssumedCurve | PilotScenario
