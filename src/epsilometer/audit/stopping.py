"""When an audit that stops by itself looks how wide the interval is, and what it says of its end.

The order of bases and the sizes at which it looks are fixed by the configuration, and every model has a
stream of its own, so an audit that was ended and started again looks at the same numbers and stops at
the same base.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

FIRST_LOOK = 5
"""Bases before the first look: of fewer the interval is hardly ever narrow, and then by chance."""

WHY_VALID = (
    "A credible interval may be looked at as often as one likes: it states what the counts say under "
    "the model, and stopping adds nothing to that. A confidence bound would have to pay for each look."
)


class Look(NamedTuple):
    """What was seen after so many bases."""

    bases: int
    width: float


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """How an audit came to its end."""

    wanted: float
    level: float
    looks: tuple[Look, ...]
    most_bases: int
    reached: bool

    @property
    def sentence(self) -> str:
        """How many bases were used, how often it was looked, and why that does no harm."""
        last = self.looks[-1]
        times = "once" if len(self.looks) == 1 else f"{len(self.looks)} times"
        end = (
            f"Stopped after {last.bases:,} of {self.most_bases:,} challenge bases: the "
            f"{100 * self.level:g} % interval is {last.width:.3g} wide, at most {self.wanted:g} was "
            f"wanted. It was looked at {times}."
        )
        if not self.reached:
            end = (
                f"All {last.bases:,} challenge bases were used and the {100 * self.level:g} % interval "
                f"is still {last.width:.3g} wide, more than the {self.wanted:g} wanted (looked at "
                f"{times}); `epsilometer plan --pilot` tells how many more it would take."
            )
        return f"{end} {WHY_VALID}"

    def described(self) -> dict[str, Any]:
        """As plain values, for the summary."""
        return {
            "wanted_width": self.wanted,
            "level": self.level,
            "reached": self.reached,
            "bases_used": self.looks[-1].bases,
            "most_bases": self.most_bases,
            "looks": [look._asdict() for look in self.looks],
            "sentence": self.sentence,
        }


def look_sizes(most: int) -> Iterator[int]:
    """Numbers of bases after which to look: about a quarter more each time, ``most`` the last.

    Examples
    --------
    >>> list(look_sizes(20))
    [5, 7, 9, 12, 15, 19, 20]
    """
    size = min(FIRST_LOOK, most)
    while size < most:
        yield size
        # A quarter more narrows the interval by about a tenth: fewer would hardly show.
        size = max(size + 2, math.ceil(1.25 * size))
    yield most
