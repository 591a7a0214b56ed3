"""What an audit is to reach, and what it costs to train its models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.inference.verdict import Outcome, Thresholds

LEAST_PROBABILITY = 1e-12
"""Posterior probabilities are cut here before their odds are taken."""


class Answer(NamedTuple):
    """What a simulated audit found: the ends of its interval, and P(epsilon > claim) or NaN."""

    low: float
    high: float
    above: float = math.nan

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.high - self.low


@dataclass(frozen=True, kw_only=True)
class IntervalWidth:
    """A credible interval of epsilon that is at most so wide; its level is the plan's."""

    at_most: float

    def __post_init__(self) -> None:
        _validate.positive("at_most", self.at_most)

    def margin(self, answer: Answer) -> float:
        """log(wanted / found): at least 0 where the goal is reached, and smooth in the audit's size."""
        return math.log(self.at_most / max(answer.width, 1e-300))


@dataclass(frozen=True, kw_only=True)
class DecidedClaim:
    """PASS or FAIL on a claimed epsilon, whichever it is."""

    claim: float
    thresholds: Thresholds = field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        _validate.non_negative("claim", self.claim)

    def margin(self, answer: Answer) -> float:
        """How far the log odds of epsilon > claim are beyond the nearer threshold; >= 0 if settled."""
        odds = _log_odds(answer.above)
        below = _log_odds(self.thresholds.pass_at_most) - odds
        return max(below, odds - _log_odds(self.thresholds.fail_at_least))

    def outcome(self, answer: Answer) -> Outcome:
        """The verdict of one simulated audit."""
        return self.thresholds.outcome(answer.above)


Goal = IntervalWidth | DecidedClaim


def width_of(goals: Sequence[Goal]) -> IntervalWidth | None:
    """The width asked for, if one was."""
    return next((goal for goal in goals if isinstance(goal, IntervalWidth)), None)


def claim_of(goals: Sequence[Goal]) -> DecidedClaim | None:
    """The claim to be settled, if there is one."""
    return next((goal for goal in goals if isinstance(goal, DecidedClaim)), None)


def check_goals(goals: Sequence[Goal]) -> None:
    """Refuse no goal, one of another kind, and two of one kind."""
    kinds = [type(goal) for goal in goals]
    if not goals or not set(kinds) <= {IntervalWidth, DecidedClaim} or len(set(kinds)) < len(kinds):
        raise InputError(
            "expected a goal IntervalWidth(...), a goal DecidedClaim(...), or one of each."
        )


def worst_margin(goals: Sequence[Goal], answer: Answer) -> float:
    """At least 0 where every goal is reached."""
    return min(goal.margin(answer) for goal in goals)


def _log_odds(probability: float) -> float:
    inside = min(max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    return math.log(inside) - math.log1p(-inside)


@dataclass(frozen=True, kw_only=True)
class CrossFedModels:
    """Every model is a challenge and a shadow of the rest: 2 models a challenge, one a hypothesis."""

    models_per_challenge: ClassVar[int] = 2
    """Models for one challenge under each hypothesis."""


@dataclass(frozen=True, kw_only=True)
class SeparateShadows:
    """Each challenge has shadow models of its own, under both hypotheses.

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
        """The two challenged models, and the shadows of each."""
        return 2 * (1 + self.shadows_h0 + self.shadows_h1)


Cost = CrossFedModels | SeparateShadows
