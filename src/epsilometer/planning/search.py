"""The cheapest design that reaches a goal often enough, found with few simulations; its surroundings.

Margins (see `goals.py`) are smooth in the logarithms of both sizes, so a surface fitted to a few
simulations of scattered designs says where to look.  What is reported of a design comes from its own
simulations, never from the surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from epsilometer._arrays import FloatArray, Say
from epsilometer.planning.goals import Answer, Goal, width_of, worst_margin
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
        return np.asarray(ndtr(self.mean(designs) / self.spread))


def _features(designs: Sequence[Design]) -> FloatArray:
    # About the middle of usual sizes, where the pull on curvature does no harm.
    x = np.log([design.bases for design in designs]) - math.log(20)
    y = np.log([design.challenges for design in designs]) - math.log(200)
    return np.stack([np.ones(len(x)), x, y, x * x, x * y, y * y], axis=1)


@dataclass(kw_only=True, eq=False)
class Search:
    """Simulations made so far, and what they say."""

    run: Run
    truths: Sequence[Truth]
    goals: Sequence[Goal]
    probability: float
    candidates: Sequence[Design]
    cost: Callable[[Design], int]  # models to train
    report: Say = lambda _: None  # told of every design that is the best so far
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
        return np.array([worst_margin(self.goals, found) for found in self.answers[design]])

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

    def known_rates(self, bases: int, size: int) -> list[Answer]:
        """Simulated audits of so many bases whose error rates are known: quick."""
        return self.run([Job(Design(bases, 0), k, self.truths[k]) for k in range(size)])

    def _below_floor(self, bases: int) -> bool:
        """Whether the width wanted is not reached though every error rate is known."""
        wanted = width_of(self.goals)
        return wanted is not None and all(
            wanted.margin(found) < 0 for found in self.known_rates(bases, EXPLORING)
        )

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
                asked = min(enough, key=self.rank)
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
        return min(good, key=self.rank) if good else None

    def rank(self, design: Design) -> tuple[int, Design]:
        """By cost, and then by size."""
        return self.cost(design), design

    def _worth_asking(self, design: Design, best: Design | None) -> bool:
        """Whether it is cheaper than the best, and none that holds it was seen to fall short."""
        if design in self.asked or (best is not None and self.cost(design) >= self.cost(best)):
            return False
        return not any(
            other.bases >= design.bases
            and other.challenges >= design.challenges
            and self.reached(other) < self.probability
            for other in self.asked
        )

    def look_around(self, centre: Design) -> None:
        """Designs of about half and twice the size in either direction, to set beside the chosen one."""

        def nearest(bases: int, challenges: int) -> Design:
            def apart(design: Design) -> float:
                both = design.bases / bases, design.challenges / challenges
                return sum(abs(math.log(ratio)) for ratio in both)

            return min(self.candidates, key=apart)

        near = []
        for factor in (0.5, 2.0):
            near.append(nearest(round(centre.bases * factor), centre.challenges))
            near.append(nearest(centre.bases, round(centre.challenges * factor)))
        # Of the largest designs a handful of simulations takes longest and says least.
        most = 2.5 * self.cost(centre)
        self.simulate([(d, self.fewest) for d in dict.fromkeys(near) if self.cost(d) <= most])

    def floor_of(self, bases: int) -> Floor:
        """What simulations with known rates say of so many bases."""
        found = self.known_rates(bases, min(self.simulations, 100))
        median, goal = float(np.median([each.width for each in found])), width_of(self.goals)
        share = None if goal is None else float(np.mean([goal.margin(each) >= 0 for each in found]))
        return Floor(bases=bases, median_width=median, probability=share)

    def stronger_attack(self, design: Design) -> StrongerAttack | None:
        """The same worlds and design, attacked with strength 0.9; None if they are as strong already."""
        if float(np.median([truth.strength for truth in self.truths])) >= STRONG:
            return None
        strong = [
            Job(design, number, truth._replace(strength=max(STRONG, truth.strength)))
            for number, truth in enumerate(self.truths[: self.fewest])
        ]
        found = self.run(strong)
        return StrongerAttack(
            strength=STRONG,
            median_width=float(np.median([each.width for each in found])),
            probability=float(np.mean([worst_margin(self.goals, each) >= 0 for each in found])),
        )

    def curve_bases(self, centre: Design) -> list[int]:
        """Numbers of bases for curves and floors: the chosen one, and some on either side."""
        sizes = sorted({design.bases for design in self.candidates})
        place = sizes.index(centre.bases)
        step = 2 if len(sizes) > SHOWN_BASES else 1
        around = [place + step * k for k in range(-2, 3)]
        return [sizes[i] for i in around if 0 <= i < len(sizes)]

    def curves(self, sizes: Sequence[int]) -> tuple[Curve, ...]:
        """Fitted curves over the number of challenges; none if that does not vary."""
        challenges = np.array(sorted({design.challenges for design in self.candidates}))
        if len(challenges) < 2:
            return ()
        simulated = [design for design, found in self.answers.items() for _ in found]
        logs = np.log([found.width for every in self.answers.values() for found in every])
        widths, margins = Surface.fit(simulated, logs), self.surface()

        def curve(bases: int) -> Curve:
            line = [Design(bases, int(many)) for many in challenges]
            return Curve(
                bases=bases,
                challenges=challenges.astype(float),
                # A quadratic may turn up beyond the last simulation; more challenges never widen.
                width=np.minimum.accumulate(np.exp(widths.mean(line))),
                probability=np.maximum.accumulate(margins.probability(line)),
            )

        return tuple(map(curve, sizes))


def _thinned(sizes: Sequence[int]) -> list[int]:
    """About every tripling, which is enough for a quadratic; both ends included."""
    kept = [sizes[0]]
    for size in sizes[1:-1]:
        if size >= 3 * kept[-1] and sizes[-1] >= 1.5 * size:
            kept.append(size)
    return kept if len(sizes) == 1 else [*kept, sizes[-1]]
