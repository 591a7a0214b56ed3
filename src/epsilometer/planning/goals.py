"""The goals of an audit, and the cost of its models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.judgement.verdict import Outcome, Thresholds

LEAST_PROBABILITY = 1e-12
"""Posterior probabilities are clipped here before their odds are computed."""


class Answer(NamedTuple):
    """The result of a simulated audit: the ends of its interval, and P(epsilon > claim) or NaN."""

    low: float
    high: float
    above: float = math.nan

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low


@dataclass(frozen=True, kw_only=True)
class IntervalWidth:
    """A credible interval of epsilon of at most this width, with the level of the plan."""

    at_most: float

    def __post_init__(self) -> None:
        _validate.positive("at_most", self.at_most)

    def margin(self, answer: Answer) -> float:
        """log(goal / width): at least 0 if the goal is reached, and smooth in the audit's size."""
        return math.log(self.at_most / max(answer.width, 1e-300))


@dataclass(frozen=True, kw_only=True)
class DecidedClaim:
    """A verdict, PASS or FAIL, on a claimed epsilon."""

    claim: float
    thresholds: Thresholds = field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        _validate.non_negative("claim", self.claim)

    def margin(self, answer: Answer) -> float:
        """Log odds of epsilon > claim beyond the nearer threshold; >= 0 if decided."""
        odds = _log_odds(answer.above)
        below = _log_odds(self.thresholds.pass_at_most) - odds
        return max(below, odds - _log_odds(self.thresholds.fail_at_least))

    def outcome(self, answer: Answer) -> Outcome:
        """The verdict of one simulated audit."""
        return self.thresholds.outcome(answer.above)


Goal = IntervalWidth | DecidedClaim


def width_of(goals: Sequence[Goal]) -> IntervalWidth | None:
    """The required width, if any."""
    return next((goal for goal in goals if isinstance(goal, IntervalWidth)), None)


def claim_of(goals: Sequence[Goal]) -> DecidedClaim | None:
    """The claim to decide, if any."""
    return next((goal for goal in goals if isinstance(goal, DecidedClaim)), None)


class WithGoals:
    """A plan of any design."""

    goals: tuple[Goal, ...]
    level: float
    """Probability of the credible interval."""

    @property
    def width_goal(self) -> IntervalWidth | None:
        """The required width, if any."""
        return width_of(self.goals)

    @property
    def claim_goal(self) -> DecidedClaim | None:
        """The claim to decide, if any."""
        return claim_of(self.goals)


def check_goals(goals: Sequence[Goal]) -> None:
    """Refuse missing, unknown and repeated goals."""
    kinds = [type(goal) for goal in goals]
    if not goals or not set(kinds) <= {IntervalWidth, DecidedClaim} or len(set(kinds)) < len(kinds):
        raise InputError(
            "expected a goal IntervalWidth(...), a goal DecidedClaim(...), or one of each."
        )


def worst_margin(goals: Sequence[Goal], answer: Answer) -> float:
    """The smallest margin; at least 0 if every goal is reached."""
    return min(goal.margin(answer) for goal in goals)


def _log_odds(probability: float) -> float:
    inside = min(max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    return math.log(inside) - math.log1p(-inside)


@dataclass(frozen=True, kw_only=True)
class CrossFedModels:
    """Every model is a challenge and a shadow model of the rest: 2 models per challenge."""

    models_per_challenge: ClassVar[int] = 2
    """Models for one challenge under each hypothesis."""


@dataclass(frozen=True, kw_only=True)
class SeparateShadows:
    """Each challenge has separate shadow models under both hypotheses.

    Examples
    --------
    >>> SeparateShadows(shadows_h0=10, shadows_h1=10).models_per_challenge
    42
    """

    shadows_h0: int
    shadows_h1: int

    def __post_init__(self) -> None:
        _validate.whole_number("shadows_h0", self.shadows_h0)
        _validate.whole_number("shadows_h1", self.shadows_h1)

    @property
    def models_per_challenge(self) -> int:
        """The two challenged models and their shadow models."""
        return 2 * (1 + self.shadows_h0 + self.shadows_h1)


Cost = CrossFedModels | SeparateShadows
