"""When an audit that stops by itself looks, what it waits for, and what it says of its end.

The order of bases and the sizes at which it looks are fixed by the configuration, and every model has a
stream of its own, so an audit that was ended and started again looks at the same numbers and stops at
the same base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import prove


class Answer(Protocol):
    """What a width is taken of."""

    @property
    def trustworthy(self) -> bool: ...
    def credible_interval(self, parameter: str, level: float) -> tuple[float, float]: ...


class Look(NamedTuple):
    """What was seen after so many bases: the width of the interval, or the e-value."""

    bases: int
    seen: float
    reached: bool


class Goal(Protocol):
    """What an audit waits for."""

    @property
    def first_look(self) -> int:
        """Bases before the first look."""

    def look(
        self,
        bases: int,
        scores: Callable[[], Sequence[Scores]],
        answers: Callable[[], Sequence[Answer]],
    ) -> Look:
        """Look at all variants, from their scores or their posteriors."""

    def progress(self, look: Look) -> str:
        """What was seen, in a few words."""

    def seen(self, last: Look) -> str:
        """What the last look saw, reached or not, in a clause."""

    @property
    def why_valid(self) -> str:
        """Why looking often does no harm."""

    def described(self, looks: Sequence[Look]) -> dict[str, Any]:
        """As plain values, for the summary."""


@dataclass(frozen=True, kw_only=True)
class UntilWidth:
    """Stop as soon as the interval of every variant is at most ``wanted`` wide."""

    wanted: float
    level: float

    # Of fewer bases the interval is hardly ever narrow, and then by chance.
    first_look = 5

    def look(
        self,
        bases: int,
        scores: Callable[[], Sequence[Scores]],
        answers: Callable[[], Sequence[Answer]],
    ) -> Look:
        found = answers()
        ends = [each.credible_interval("epsilon", self.level) for each in found]
        width = max(high - low for low, high in ends)
        # An interval that missed its accuracy is no reason to stop.
        reached = width <= self.wanted and all(each.trustworthy for each in found)
        return Look(bases, width, reached)

    def progress(self, look: Look) -> str:
        return f"width {look.seen:.3g}, wanted {self.wanted:g}"

    def seen(self, last: Look) -> str:
        interval = f"the {100 * self.level:g} % interval"
        if last.reached:
            return f"{interval} is {last.seen:.3g} wide, at most {self.wanted:g} was wanted"
        return (
            f"{interval} is still {last.seen:.3g} wide, more than the {self.wanted:g} wanted; "
            "`epsilometer plan --pilot` tells how many more it would take"
        )

    why_valid = (
        "A credible interval may be looked at as often as one likes: it states what the data say under "
        "the model, and stopping adds nothing to that. The proof holds for all looks together; other "
        "bounds would have to pay for each."
    )

    def described(self, looks: Sequence[Look]) -> dict[str, Any]:
        return {
            "wanted_width": self.wanted,
            "level": self.level,
            "looks": [{"bases": look.bases, "width": look.seen} for look in looks],
        }


@dataclass(frozen=True, kw_only=True)
class UntilProven:
    """Stop as soon as the claim is refuted for every variant."""

    claim: float
    delta: float
    error: float

    first_look = 1

    def look(
        self,
        bases: int,
        scores: Callable[[], Sequence[Scores]],
        answers: Callable[[], Sequence[Answer]],
    ) -> Look:
        proofs = [
            prove(each, delta=self.delta, claim=self.claim, error=self.error) for each in scores()
        ]
        e_value = min(proof.e_value or 0.0 for proof in proofs)
        # What holds for one look only is no reason to stop looking.
        return Look(bases, e_value, all(proof.refuted and proof.any_time for proof in proofs))

    def progress(self, look: Look) -> str:
        return f"e-value {look.seen:.3g} against the claim, refuted from {1 / self.error:g}"

    def seen(self, last: Look) -> str:
        return f"the claim of {self.claim:g} is {'' if last.reached else 'not '}refuted"

    @property
    def why_valid(self) -> str:
        return (
            f"The proof errs with probability {100 * self.error:g} % at most, all looks together, "
            "whenever one stops; the posterior may be looked at as often as one likes too."
        )

    def described(self, looks: Sequence[Look]) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "error": self.error,
            "looks": [{"bases": look.bases, "e_value": look.seen} for look in looks],
        }


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """How an audit came to its end."""

    goal: Goal
    looks: tuple[Look, ...]
    most_bases: int

    @property
    def sentence(self) -> str:
        """How it ended, how often it was looked, and why that does no harm."""
        last, goal = self.looks[-1], self.goal
        times = "once" if len(self.looks) == 1 else f"{len(self.looks)} times"
        end = f"All {last.bases:,} challenge bases were used and {goal.seen(last)}"
        if last.reached:
            end = (
                f"Stopped after {last.bases:,} of {self.most_bases:,} challenge bases: "
                f"{goal.seen(last)}"
            )
        return f"{end}. It was looked at {times}. {goal.why_valid}"

    def described(self) -> dict[str, Any]:
        """As plain values, for the summary."""
        last = self.looks[-1]
        return self.goal.described(self.looks) | {
            "reached": last.reached,
            "bases_used": last.bases,
            "most_bases": self.most_bases,
            "sentence": self.sentence,
        }


def look_sizes(most: int, first: int = UntilWidth.first_look) -> Iterator[int]:
    """Numbers of bases after which to look: about a quarter more each time, ``most`` the last.

    Examples
    --------
    >>> list(look_sizes(20))
    [5, 7, 9, 12, 15, 19, 20]
    """
    size = min(first, most)
    while size < most:
        yield size
        # A quarter more narrows the interval by about a tenth: fewer would hardly show.
        size = max(size + 2, math.ceil(1.25 * size))
    yield most
