"""An audit that stops by itself: after each batch of bases it looks how wide the interval is.

The order of bases and the sizes at which it looks are fixed by the configuration, and every model has a
stream of its own, so an audit that was ended and started again looks at the same numbers and stops at
the same base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from epsilometer.cli import results

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.result import AttackResult
    from epsilometer.cli.audit_config import AuditConfig
    from epsilometer.inference.posterior import Posterior
    from epsilometer.measurement.engine import Measurement
    from epsilometer.measurement.plan import Plan

Concluded = tuple["Posterior", dict[str, Any], "AttackResult", "Losses"]

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
        size = max(size + 2, math.ceil(1.25 * size))
    yield most


def measure_until(
    settings: AuditConfig,
    wanted: float,
    measured: Callable[[Plan], Measurement],
    concluded: Callable[[AuditConfig, Measurement], list[Concluded]],
) -> tuple[AuditConfig, Measurement, list[Concluded], Stopping]:
    """Measure and estimate in steps until every variant's interval is at most ``wanted`` wide.

    Returns the configuration with the plan that was carried out, all that it led to, and how it ended.
    """
    bases = settings.plan.challenge_bases
    most = len(settings.plan.bases)
    level = settings.file.estimate.level
    looks: list[Look] = []
    trained = 0
    for size in look_sizes(most):
        kept = size if isinstance(bases, int) else bases[:size]
        now = replace(settings, plan=replace(settings.plan, challenge_bases=kept))
        step = measured(now.plan)
        trained += step.trained
        measurement = replace(step, trained=trained, reused=step.reused + step.trained - trained)
        found = concluded(now, measurement)
        width = max(_width(posterior, level) for posterior, *_ in found)
        looks.append(Look(size, width))
        # An interval that missed its accuracy is no reason to stop.
        enough = width <= wanted and all(posterior.trustworthy for posterior, *_ in found)
        results.warn(f"{size:,} of {most:,} bases: width {width:.3g}, wanted {wanted:g}")
        if enough:
            break
    stopping = Stopping(
        wanted=wanted, level=level, looks=tuple(looks), most_bases=most, reached=enough
    )
    for _, summary, *_ in found:
        summary["stopping"] = stopping.described()
    return now, measurement, found, stopping


def _width(posterior: Posterior, level: float) -> float:
    low, high = posterior.credible_interval("epsilon", level)
    return high - low
