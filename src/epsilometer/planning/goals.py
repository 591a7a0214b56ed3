"""The goals of an audit: a narrow interval, the right verdict, a proof."""

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

DECIDED = 0.25
"""Least margin of a verdict, on either side: checks and proofs decide too, not only the posterior."""


class Answer(NamedTuple):
    """What a simulated audit reports: interval, P(epsilon > claim), verdict, proof; and the truth."""

    truth: float
    low: float = math.nan
    high: float = math.nan
    above: float = math.nan
    outcome: Outcome | None = None
    proven: float = 0.0
    most_provable: float = math.inf

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
        return math.log(self.at_most / max(answer.width, 1e-300))


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


def worst_margin(goals: Sequence[Goal], answer: Answer) -> float:
    """The smallest margin; at least 0 if every goal is reached."""
    return min(goal.margin(answer) for goal in goals)


def _log_odds(probability: float) -> float:
    inside = min(max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    return math.log(inside) - math.log1p(-inside)
