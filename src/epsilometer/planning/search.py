"""The cheapest design that reaches a goal often enough, found with few simulations.

Margins (see `goals.py`) are smooth in the logarithms of both sizes, so a surface fitted to a few
simulations of scattered designs says where to look.  What is reported of a design comes from its own
simulations, never from the surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.planning.goals import Answer, Goal, Width
from epsilometer.planning.scenarios import Truth
from epsilometer.planning.simulation import Design, Job, Run

EXPLORING = 3
"""Simulations of each design that is only tried to fit the surface."""

FIRST_LOOK = 8
"""Simulations after which a design that is asked can be seen to fall far short."""

MOST_ROUNDS = 10
"""Designs that are looked at closely before the search gives up."""

CERTAIN = 0.5
"""A margin beyond which, in all simulations of a design, larger ones are not tried."""

DESCENTS, SURFACE_ERROR = 3, 0.35
"""How often a cheaper design is asked though its fitted probability is short, and by how much."""

FAR_WEIGHT = 0.02
"""What designs far from the goal count, beside those next to it."""

LEAST_SPREAD = 0.02
"""Of margins, so that a few that agree do not make the surface sure."""

PULL = 1e-3
"""Weight that draws the curvature of the surface to 0 where few designs were simulated."""


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A quadratic in (log bases, log challenges) with a normal spread about it."""

    coefficients: FloatArray
    spread: float

    @classmethod
    def fit(
        cls, designs: Sequence[Design], values: FloatArray, *, near: float | None = None
    ) -> Surface:
        """Least squares; with ``near``, designs whose fitted value is close to it count most."""
        features = _features(designs)
        # One size alone leaves its columns undetermined; a small pull on curvature decides.
        pull = np.diag([0.0, 0.0, 0.0, *[math.sqrt(PULL * len(values))] * 3])
        weight: FloatArray = np.ones(len(values))
        for _ in range(1 if near is None else 4):
            root = np.sqrt(weight)
            left = np.concatenate([features * root[:, None], pull])
            right = np.concatenate([values * root, np.zeros(6)])
            coefficients, *_ = np.linalg.lstsq(left, right, rcond=1e-10)
            fitted = features @ coefficients
            spread = math.sqrt(float(np.average((values - fitted) ** 2, weights=weight)))
            spread = max(spread, LEAST_SPREAD)
            if near is not None:
                # By what is fitted, not by what was found: that would favour chance.
                weight = FAR_WEIGHT + np.exp(-0.5 * ((fitted - near) / (2 * spread)) ** 2)
        return cls(coefficients=coefficients, spread=spread)

    def mean(self, designs: Sequence[Design]) -> FloatArray:
        """The fitted value of each design."""
        return np.asarray(_features(designs) @ self.coefficients)

    def probability(self, designs: Sequence[Design]) -> FloatArray:
        """The probability of a value of at least 0."""
        from scipy.special import ndtr

        return np.asarray(ndtr(self.mean(designs) / self.spread))


def _features(designs: Sequence[Design]) -> FloatArray:
    # About the middle of usual sizes, where the pull on curvature does no harm.
    x = np.log([design.bases for design in designs]) - math.log(20)
    y = np.log([design.challenges for design in designs]) - math.log(200)
    return np.stack([np.ones(len(x)), x, y, x * x, x * y, y * y], axis=1)


@dataclass(kw_only=True, eq=False)
class Search:
    """Simulations made so far, and what they say.

    Attributes
    ----------
    cost
        Models that a design needs.
    report
        Told in words of every design that is the best so far.
    """

    run: Run
    truths: Sequence[Truth]
    goals: Sequence[Goal]
    probability: float
    candidates: Sequence[Design]
    cost: Callable[[Design], int]
    report: Callable[[str], None] = lambda _: None
    answers: dict[Design, list[Answer]] = field(default_factory=dict)
    asked: set[Design] = field(default_factory=set)

    @property
    def simulations(self) -> int:
        """Of each design that is reported."""
        return len(self.truths)

    @property
    def fewest(self) -> int:
        """Simulations after which a design's own share is quoted."""
        return max(8, self.simulations // 4)

    def simulate(self, wanted: Sequence[tuple[Design, int]]) -> None:
        """See to it that each design has been simulated so often."""
        jobs = [
            Job(design, number, self.truths[number])
            for design, size in wanted
            for number in range(len(self.answers.get(design, ())), min(size, self.simulations))
        ]
        for job, answer in zip(jobs, self.run(jobs), strict=True):
            self.answers.setdefault(job.design, []).append(answer)

    def margins(self, design: Design) -> FloatArray:
        """The worst margin of each simulation."""
        return np.array(
            [min(goal.margin(found) for goal in self.goals) for found in self.answers[design]]
        )

    def reached(self, design: Design) -> float:
        """The share of simulations in which every goal was reached."""
        return float(np.mean(self.margins(design) >= 0))

    def explore(self) -> None:
        """Try few simulations of scattered designs, small ones first, large ones only where needed."""
        bases = _thinned(sorted({design.bases for design in self.candidates}))
        challenges = _thinned(sorted({design.challenges for design in self.candidates}))
        cheapest = math.inf
        for few in bases:
            for many in challenges:
                design = Design(few, many)
                if self.cost(design) > 2 * cheapest:
                    break
                self.simulate([(design, EXPLORING)])
                margins = self.margins(design)
                if margins.min() >= 0:
                    cheapest = min(cheapest, self.cost(design))
                if margins.min() >= CERTAIN or (margins.max() < 0 and self._below_floor(few)):
                    break

    def _below_floor(self, bases: int) -> bool:
        """Whether the width wanted is not reached though every error rate is known: quick to tell."""
        wanted = [goal for goal in self.goals if isinstance(goal, Width)]
        jobs = [Job(Design(bases, 0), number, self.truths[number]) for number in range(EXPLORING)]
        return bool(wanted) and all(wanted[0].margin(found) < 0 for found in self.run(jobs))

    def surface(self) -> Surface:
        """Fitted to all margins so far."""
        designs = [design for design, found in self.answers.items() for _ in found]
        margins = np.concatenate([self.margins(design) for design in self.answers])
        return Surface.fit(designs, np.clip(margins, -6, 6), near=0.0)

    def closely(self, design: Design) -> bool:
        """Whether it has been simulated so often that its own share counts."""
        return len(self.answers.get(design, ())) >= self.fewest

    def examine(self, design: Design) -> None:
        """Simulate a design in full, or until it is clear that it falls short."""
        first, told = not self.asked, False
        self.asked.add(design)
        size = min(FIRST_LOOK, self.simulations)
        while True:
            self.simulate([(design, size)])
            share = self.reached(design)
            if not told and (first or share >= self.probability):
                self._tell(design, "first answer" if first else "better")
                told = True
            error = math.sqrt(self.probability * (1 - self.probability) / size)
            # Two standard errors, and one simulation more: a few tell little.
            if size >= self.simulations or share < self.probability - 2 * error - 1 / size:
                return
            size = min(max(2 * size, self.fewest), self.simulations)

    def _tell(self, design: Design, what: str) -> None:
        size = len(self.answers[design])
        self.report(
            f"{what}: {design.bases:,} bases with {design.challenges:,} challenges each; "
            f"{round(size * self.reached(design))} of {size} simulated audits reach the goal"
        )

    def cheapest(self, *, descents: int = 0) -> Design | None:
        """The cheapest candidate found that reaches the goals often enough, examined in full; or None.

        Every round asks the cheapest design that the surface thinks good enough.  Once there is none
        cheaper than the best, up to ``descents`` rounds ask those that it thinks nearly so: it may err.
        """
        self.explore()
        for _ in range(MOST_ROUNDS):
            best = self.best()
            open_ = [design for design in self.candidates if self._worth_asking(design, best)]
            if not open_:
                break
            expected = self.surface().probability(open_)
            enough = [d for d, p in zip(open_, expected, strict=True) if p >= self.probability]
            likeliest = int(np.argmax(expected))
            if enough:
                asked = min(enough, key=self._rank)
            elif best is None:  # the surface may err: ask the largest design itself
                asked = max(open_)
            elif descents and expected[likeliest] >= self.probability - SURFACE_ERROR:
                descents, asked = descents - 1, open_[likeliest]
            else:
                break
            self.examine(asked)
        return self.best()

    def best(self) -> Design | None:
        """The cheapest design whose own simulations reached the goals often enough."""
        good = [
            design
            for design in self.candidates
            if self.closely(design) and self.reached(design) >= self.probability
        ]
        return min(good, key=self._rank) if good else None

    def _rank(self, design: Design) -> tuple[int, Design]:
        return self.cost(design), design

    def _worth_asking(self, design: Design, best: Design | None) -> bool:
        """Whether its own simulations could change the answer."""
        cheaper = best is None or self.cost(design) < self.cost(best)
        return cheaper and design not in self.asked and not self._hopeless(design)

    def _hopeless(self, design: Design) -> bool:
        """Whether a design at least as large in both sizes was seen to fall short."""
        return any(
            other.bases >= design.bases
            and other.challenges >= design.challenges
            and self.reached(other) < self.probability
            for other in self.asked
        )


def _thinned(sizes: Sequence[int]) -> list[int]:
    """About every tripling, which is enough for a quadratic; both ends included."""
    kept = [sizes[0]]
    for size in sizes[1:-1]:
        if size >= 3 * kept[-1] and sizes[-1] >= 1.5 * size:
            kept.append(size)
    return kept if len(sizes) == 1 else [*kept, sizes[-1]]
