"""What is set beside a recommended design: neighbours, floors, stronger attacks, curves for figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.planning.goals import Goal, Width
from epsilometer.planning.scenarios import Truth
from epsilometer.planning.search import Search, Surface
from epsilometer.planning.simulation import Design, Job

STRONG = 0.9
"""The strength that is set beside the scenario's own."""

SHOWN_BASES = 5
"""Numbers of bases that get a curve in the figure."""


@dataclass(frozen=True, kw_only=True)
class StrongerAttack:
    """The recommended design with attacks of another strength."""

    strength: float
    median_width: float
    probability: float


@dataclass(frozen=True, kw_only=True)
class Floor:
    """So many bases whose error rates are known: the median width, and how often it is small enough."""

    bases: int
    median_width: float
    probability: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """The fitted median width and probability of so many bases, for figures only."""

    bases: int
    challenges: FloatArray
    width: FloatArray
    probability: FloatArray


def look_around(search: Search, centre: Design) -> None:
    """Designs of about half and twice the size in either direction, to set beside the chosen one."""
    wanted = []
    for factor in (0.5, 2.0):
        for wish in (
            Design(round(centre.bases * factor), centre.challenges),
            Design(centre.bases, round(centre.challenges * factor)),
        ):
            near = min(
                search.candidates,
                key=lambda d, wish=wish: (  # type: ignore[misc]
                    abs(math.log(d.bases / wish.bases))
                    + abs(math.log(d.challenges / wish.challenges))
                ),
            )
            # Of the largest designs a handful of simulations takes longest and says least.
            if search.cost(near) <= 2.5 * search.cost(centre):
                wanted.append((near, search.fewest))
    search.simulate(list(dict.fromkeys(wanted)))


def floor_widths(search: Search, sizes: set[int]) -> dict[int, FloatArray]:
    """Widths with known rates, for each number of bases."""
    numbers = range(min(search.simulations, 100))
    ordered = sorted(sizes)
    jobs = [Job(Design(n, 0), k, search.truths[k]) for n in ordered for k in numbers]
    widths = np.array([found.width for found in search.run(jobs)]).reshape(len(ordered), -1)
    return dict(zip(ordered, widths, strict=True))


def floor_probability(widths: FloatArray, goals: Sequence[Goal]) -> float | None:
    """How often the width is small enough even so; None if no width is wanted."""
    wanted = next((goal.at_most for goal in goals if isinstance(goal, Width)), None)
    return None if wanted is None else float(np.mean(widths <= wanted))


def stronger_attack(search: Search, design: Design) -> StrongerAttack | None:
    """The same worlds and design, attacked with strength 0.9; None if they are as strong already."""
    if float(np.median([truth.strength for truth in search.truths])) >= STRONG:
        return None
    truths: list[Truth] = [
        truth._replace(strength=max(STRONG, truth.strength)) for truth in search.truths
    ]
    answers = search.run([Job(design, k, truths[k]) for k in range(search.fewest)])
    reached = [min(goal.margin(found) for goal in search.goals) >= 0 for found in answers]
    return StrongerAttack(
        strength=STRONG,
        median_width=float(np.median([found.width for found in answers])),
        probability=float(np.mean(reached)),
    )


def curve_bases(candidates: Sequence[Design], centre: Design) -> list[int]:
    """Numbers of bases for curves and floors: the chosen one, and some on either side."""
    sizes = sorted({design.bases for design in candidates})
    place = sizes.index(centre.bases)
    step = 2 if len(sizes) > SHOWN_BASES else 1
    around = [place + step * k for k in range(-2, 3)]
    return [sizes[i] for i in around if 0 <= i < len(sizes)]


def curves(search: Search, sizes: Sequence[int]) -> tuple[Curve, ...]:
    """Fitted curves over the number of challenges; none if that does not vary."""
    challenges = np.array(sorted({design.challenges for design in search.candidates}))
    if len(challenges) < 2:
        return ()
    simulated = [design for design, found in search.answers.items() for _ in found]
    logs = np.log([found.width for every in search.answers.values() for found in every])
    widths, margins = Surface.fit(simulated, logs), search.surface()
    curves = []
    for bases in sizes:
        line = [Design(bases, int(many)) for many in challenges]
        curves.append(
            Curve(
                bases=bases,
                challenges=challenges.astype(float),
                # A quadratic may turn up beyond the last simulation; more challenges never widen.
                width=np.minimum.accumulate(np.exp(widths.mean(line))),
                probability=np.maximum.accumulate(margins.probability(line)),
            )
        )
    return tuple(curves)
