"""Search for the cheapest design that reaches a goal often enough, with few simulations.

Margins (see `goals.py`) are smooth in the logarithms of both sizes, so a surface fitted to a few
simulations of scattered designs tells which design to examine next.  The reported numbers of a design
come from its own simulations, never from the surface.

The work of a simulation is proportional to its number of bases.  A quick search has a limit on the work,
so it takes about the same time for every question and gives the same answer on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from epsilometer._arrays import FloatArray, OnMessage
from epsilometer.planning.goals import Answer, Goal, width_of, worst_margin
from epsilometer.planning.scenarios import Truth
from epsilometer.planning.simulation import CandidateDesign, Run, SimulationJob

EXPLORING = 3
"""Simulations of each design that is only tried to fit the surface."""

FIRST_SIMULATIONS = 8
"""Simulations after which an examined design can be rejected."""

EXPLORING_SHARE = 0.35
"""Share of the work limit that is spent on exploring."""

FIRST_SHARE = 0.5
"""Share of the work left that the first simulations of a design may take in a limited search."""

SAFE_SHARE = 0.5
"""How far above the required probability a limited search aims until it has found a design."""

MOST_EXAMINED = 10
"""Designs that are examined before the search gives up."""

BRACKET = 2.0
"""A limited search ends when a design of at least 1 / 2 of the best one's cost falls short."""

CERTAIN_MARGIN = 0.5
"""If all simulations of a design exceed this margin, larger designs are not explored."""

DESCENTS, SURFACE_ERROR = 3, 0.35
"""How many cheaper designs with a fitted probability that is too low are examined, and how much."""

FAR_WEIGHT = 0.02
"""Weight of designs far from the goal, relative to those near it."""

LEAST_SPREAD = 0.02
"""Smallest standard deviation of margins, so that a few equal ones do not make the surface certain."""

PULL = 1e-3
"""Penalty on the curvature of the surface, for regions with few simulated designs."""

STRONG = 0.9
"""Attack strength that the scenario's own is compared with."""

SHOWN_BASES = 5
"""Number of curves in the figure, one per number of bases."""


@dataclass(frozen=True, kw_only=True)
class StrongerAttack:
    """The recommended design with attacks of another strength."""

    strength: float
    median_width: float
    probability: float


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Bases with known error rates: the median width, and how often it is small enough."""

    bases: int
    median_width: float
    probability: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """The fitted median width and probability for one number of bases; for figures only."""

    bases: int
    challenges: FloatArray
    width: FloatArray
    probability: FloatArray


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A quadratic function of (log bases, log challenges) with normal errors."""

    coefficients: FloatArray
    spread: float

    @classmethod
    def fit(
        cls, designs: Sequence[CandidateDesign], values: FloatArray, *, near: float | None = None
    ) -> Surface:
        """Least squares; with ``near``, designs with a fitted value close to it have most weight."""
        features = _features(designs)
        # With one size only, some columns are undetermined; the penalty on curvature decides.
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
                # Weights from fitted values: observed ones would favour chance results.
                weight = FAR_WEIGHT + np.exp(-0.5 * ((fitted - near) / (2 * spread)) ** 2)
        return cls(coefficients=coefficients, spread=spread)

    def mean(self, designs: Sequence[CandidateDesign]) -> FloatArray:
        """The fitted value of each design."""
        return np.asarray(_features(designs) @ self.coefficients)

    def probability(self, designs: Sequence[CandidateDesign]) -> FloatArray:
        """The probability of a value of at least 0."""
        return np.asarray(ndtr(self.mean(designs) / self.spread))


def _features(designs: Sequence[CandidateDesign]) -> FloatArray:
    # Centred at usual sizes, where the penalty on curvature does no harm.
    x = np.log([design.bases for design in designs]) - math.log(20)
    y = np.log([design.challenges for design in designs]) - math.log(200)
    return np.stack([np.ones(len(x)), x, y, x * x, x * y, y * y], axis=1)


@dataclass(kw_only=True, eq=False)
class Search:
    """The simulations so far, and the choice of the next design.

    ``work_limit`` bounds the sum of the numbers of bases of all simulations.
    """

    run: Run
    truths: Sequence[Truth]
    goals: Sequence[Goal]
    probability: float
    candidates: Sequence[CandidateDesign]
    cost: Callable[[CandidateDesign], int]  # models to train
    on_message: OnMessage = lambda _: None  # called with every design that is the best so far
    work_limit: float = math.inf
    exploring: int = EXPLORING
    work: int = 0
    out_of_work: bool = False  # whether the limit ended the search
    answers: dict[CandidateDesign, list[Answer]] = field(default_factory=dict)
    examined: set[CandidateDesign] = field(default_factory=set)

    @property
    def limited(self) -> bool:
        """Whether there is a limit on the work."""
        return math.isfinite(self.work_limit)

    @property
    def simulations(self) -> int:
        """Number of simulations of a recommended design."""
        return len(self.truths)

    @property
    def fewest(self) -> int:
        """Number of simulations from which a design's own share is reported."""
        return max(FIRST_SIMULATIONS, self.simulations // 4)

    def simulate(self, wanted: Sequence[tuple[CandidateDesign, int]]) -> None:
        """Simulate each design until it has the given number of simulations."""
        jobs = [
            SimulationJob(design, number, self.truths[number])
            for design, size in wanted
            for number in range(len(self.answers.get(design, ())), min(size, self.simulations))
        ]
        self.work += sum(job.design.bases for job in jobs)
        for job, answer in zip(jobs, self.run(jobs), strict=True):
            self.answers.setdefault(job.design, []).append(answer)

    def margins(self, design: CandidateDesign) -> FloatArray:
        """The worst margin of each simulation."""
        return np.array([worst_margin(self.goals, answer) for answer in self.answers[design]])

    def reached(self, design: CandidateDesign) -> float:
        """The share of simulations in which every goal was reached."""
        return float(np.mean(self.margins(design) >= 0))

    def explore(self) -> None:
        """Simulate scattered designs a few times, small ones first, large ones only if needed."""
        bases = _thinned(sorted({design.bases for design in self.candidates}))
        challenges = _thinned(sorted({design.challenges for design in self.candidates}))
        cheapest = math.inf
        for few in bases:
            for many in challenges:
                design = CandidateDesign(few, many)
                if self.cost(design) > 2 * cheapest:
                    break
                needed = self.exploring * few
                if self.answers and self.work + needed > EXPLORING_SHARE * self.work_limit:
                    return
                self.simulate([(design, self.exploring)])
                margins = self.margins(design)
                if margins.min() >= 0:
                    cheapest = min(cheapest, self.cost(design))
                if margins.min() >= CERTAIN_MARGIN or (
                    margins.max() < 0 and self._below_floor(few)
                ):
                    break

    def known_rates(self, bases: int, size: int) -> list[Answer]:
        """Simulated audits whose error rates are known, which take hardly any work."""
        known = CandidateDesign(bases, 0)
        return self.run([SimulationJob(known, k, self.truths[k]) for k in range(size)])

    def _below_floor(self, bases: int) -> bool:
        """Whether the width goal is missed even with known error rates."""
        wanted = width_of(self.goals)
        return wanted is not None and all(
            wanted.margin(answer) < 0 for answer in self.known_rates(bases, EXPLORING)
        )

    def surface(self) -> Surface:
        """Fitted to all margins so far."""
        designs = [design for design, answers in self.answers.items() for _ in answers]
        margins = np.concatenate([self.margins(design) for design in self.answers])
        return Surface.fit(designs, np.clip(margins, -6, 6), near=0.0)

    def closely(self, design: CandidateDesign) -> bool:
        """Whether a design has enough simulations to report its share."""
        return len(self.answers.get(design, ())) >= self.fewest

    def examine(self, design: CandidateDesign) -> None:
        """Simulate a design in full, or until it clearly falls short; a few times if work is limited."""
        first, announced = not self.examined, False
        self.examined.add(design)
        size = min(FIRST_SIMULATIONS, self.simulations)
        while True:
            self.simulate([(design, size)])
            share = self.reached(design)
            if not announced and (first or share >= self.probability):
                self._announce(design, "first answer" if first else "better")
                announced = True
            error = math.sqrt(self.probability * (1 - self.probability) / size)
            # Two standard errors and one simulation: with few simulations the share is uncertain.
            short = share < self.probability - 2 * error - 1 / size
            if self.limited:
                # Other designs first, unless one simulation decides; the best is confirmed at the end.
                left = self.work_limit - self.work
                near = abs(share - self.probability) <= 1 / size
                short = not near or (self.simulations - size) * design.bases > left
            if size >= self.simulations or short:
                return
            size = min(max(2 * size, self.fewest), self.simulations)

    def _announce(self, design: CandidateDesign, what: str) -> None:
        size = len(self.answers[design])
        self.on_message(
            f"{what}: {design.bases:,} bases with {design.challenges:,} challenges each; "
            f"{round(size * self.reached(design))} of {size} simulated audits reach the goal"
        )

    def cheapest(self, *, descents: int = 0) -> CandidateDesign | None:
        """The cheapest candidate found that reaches the goals often enough; None if none was found.

        Every round examines the cheapest design with a sufficient fitted probability.  Once none is
        cheaper than the best, a limited search bisects the cost until the best is bracketed, and
        otherwise up to ``descents`` rounds examine designs with a slightly lower probability, as the
        surface is approximate.
        """
        self.explore()
        for _ in range(MOST_EXAMINED):
            best = self.best()
            open_ = [design for design in self.candidates if self._worth_examining(design, best)]
            if self.limited and best is not None and self.bracketed(best):
                self._confirm(best)
                if self.best() == best:
                    break
                continue
            if not open_:
                break
            expected = self.surface().probability(open_)
            wanted = self.probability
            if self.limited and best is None:
                wanted += SAFE_SHARE * (1 - wanted)
            enough = [d for d, p in zip(open_, expected, strict=True) if p >= wanted]
            likeliest = int(np.argmax(expected))
            # A first choice that fell short shows that the surface is off: bisect without it.
            lost = self.limited and best is None and bool(self.examined)
            if enough and not lost:
                chosen = min(self._within_reach(enough), key=self.rank)
            elif self.limited:
                chosen = self._halfway(open_, expected, best)
            elif best is None:  # the surface is approximate: examine the largest design itself
                chosen = max(open_)
            elif descents and expected[likeliest] >= self.probability - SURFACE_ERROR:
                descents, chosen = descents - 1, open_[likeliest]
            else:
                break
            needed = FIRST_SIMULATIONS * chosen.bases
            if self.examined and self.work + needed > self.work_limit:
                break
            self.examine(chosen)
        return self._confirmed() if self.limited else self.best()

    def bracketed(self, best: CandidateDesign) -> bool:
        """Whether a design of at least 1 / 2 of the best one's cost falls short, or none is cheaper."""
        cheaper = [d for d in self.candidates if self.cost(d) < self.cost(best)]
        return not any(self._worth_examining(d, best) for d in cheaper) or (
            BRACKET * self._costliest_failure(best) >= self.cost(best)
        )

    def _costliest_failure(self, best: CandidateDesign | None) -> float:
        """The highest cost, below that of the best, of an examined design that falls short; or 0."""
        most = math.inf if best is None else self.cost(best)
        short = [d for d in self.examined if self.reached(d) < self.probability]
        return max((self.cost(d) for d in short if self.cost(d) < most), default=0)

    def _halfway(
        self,
        designs: Sequence[CandidateDesign],
        expected: FloatArray,
        best: CandidateDesign | None,
    ) -> CandidateDesign:
        """Bisection: the likeliest design up to the middle cost between a failure and the best.

        Without a failure, from the cheapest design on; without a best one, up to the largest, but to
        four times the failure's cost at once.  Designs beyond the work left are avoided.
        """
        costs, failed = [self.cost(design) for design in designs], self._costliest_failure(best)
        low = max(failed, min(costs))
        middle = math.sqrt(low * (max(costs) if best is None else self.cost(best)))
        if failed and best is None:
            middle = min(middle, BRACKET**2 * failed)
        left, largest = self.work_limit - self.work, max(designs)
        hopeless = len(self.examined) > 1 and not any(map(self.reached, self.examined))
        if hopeless and FIRST_SIMULATIONS * largest.bases <= left:
            return largest
        below = [
            (probability, -design.bases, design)
            for design, probability, cost in zip(designs, expected.tolist(), costs, strict=True)
            if low <= cost <= middle and FIRST_SIMULATIONS * design.bases <= left
        ]
        if best is None:  # more bases as well: the surface may only ask for more challenges
            most = max((design.bases for design in self.examined), default=0)
            below = [
                candidate for candidate in below if most < candidate[-1].bases <= 1.5 * most
            ] or below
        if below:
            return max(below)[-1]
        return (
            max(designs) if best is None else min(designs, key=lambda d: (d.bases, -d.challenges))
        )

    def _confirm(self, design: CandidateDesign) -> None:
        """Simulate a design in full, as far as the work left allows."""
        left = max(self.work_limit - self.work, 0) // design.bases
        self.simulate([(design, len(self.answers[design]) + int(left))])

    def _confirmed(self) -> CandidateDesign | None:
        """The best design after as many more simulations of it as the work left allows."""
        best = self.best()
        while best is not None:
            self._confirm(best)
            if self.best() == best:
                break
            best = self.best()
        if best is None:  # too few simulations to exclude designs, or too little work
            largest = max(self.candidates)
            self.out_of_work = largest not in self.examined or any(
                map(self._undecided, self.examined)
            )
        else:
            self.out_of_work = not self.bracketed(best)
        return best

    def _undecided(self, design: CandidateDesign) -> bool:
        """Whether a design falls short by no more than two standard errors and one simulation."""
        size = len(self.answers[design])
        error = math.sqrt(self.probability * (1 - self.probability) / size)
        return self.reached(design) >= self.probability - 2 * error - 1 / size

    def _within_reach(self, designs: Sequence[CandidateDesign]) -> Sequence[CandidateDesign]:
        """In a limited search, the designs that the simulations so far surround and that it can afford.

        All of them if there is no such design.
        """
        if not self.limited:
            return designs
        most = max(design.bases for design in self.answers)
        left = FIRST_SHARE * (self.work_limit - self.work)
        near = [d for d in designs if d.bases <= most and FIRST_SIMULATIONS * d.bases <= left]
        return near or designs

    def best(self) -> CandidateDesign | None:
        """The cheapest design whose own simulations reached the goals often enough."""
        good = [
            design
            for design in self.candidates
            if self.closely(design) and self.reached(design) >= self.probability
        ]
        return min(good, key=self.rank) if good else None

    def rank(self, design: CandidateDesign) -> tuple[int, CandidateDesign]:
        """By cost, and then by size."""
        return self.cost(design), design

    def _worth_examining(self, design: CandidateDesign, best: CandidateDesign | None) -> bool:
        """Whether it is cheaper than the best, and no larger design was found to fall short."""
        if design in self.examined or (best is not None and self.cost(design) >= self.cost(best)):
            return False
        return not any(
            other.bases >= design.bases
            and other.challenges >= design.challenges
            and self.reached(other) < self.probability
            for other in self.examined
        )

    def simulate_alternatives(self, centre: CandidateDesign) -> None:
        """Simulate designs of about half and twice the size in either direction, for comparison."""

        def nearest(bases: int, challenges: int) -> CandidateDesign:
            def apart(design: CandidateDesign) -> float:
                both = design.bases / bases, design.challenges / challenges
                return sum(abs(math.log(ratio)) for ratio in both)

            return min(self.candidates, key=apart)

        near = []
        for factor in (0.5, 2.0):
            near.append(nearest(round(centre.bases * factor), centre.challenges))
            near.append(nearest(centre.bases, round(centre.challenges * factor)))
        # A few simulations of the largest designs take longest and tell least.
        most = 2.5 * self.cost(centre)
        self.simulate([(d, self.fewest) for d in dict.fromkeys(near) if self.cost(d) <= most])

    def floor_of(self, bases: int) -> Floor:
        """The result of simulations with known rates."""
        answers = self.known_rates(bases, min(self.simulations, 100))
        median, goal = float(np.median([answer.width for answer in answers])), width_of(self.goals)
        share = (
            None
            if goal is None
            else float(np.mean([goal.margin(answer) >= 0 for answer in answers]))
        )
        return Floor(bases=bases, median_width=median, probability=share)

    def stronger_attack(self, design: CandidateDesign) -> StrongerAttack | None:
        """The same truths and design with attacks of strength 0.9; None if they are that strong."""
        if float(np.median([truth.strength for truth in self.truths])) >= STRONG:
            return None
        strong = [
            SimulationJob(design, number, truth._replace(strength=max(STRONG, truth.strength)))
            for number, truth in enumerate(self.truths[: self.fewest])
        ]
        answers = self.run(strong)
        return StrongerAttack(
            strength=STRONG,
            median_width=float(np.median([answer.width for answer in answers])),
            probability=float(
                np.mean([worst_margin(self.goals, answer) >= 0 for answer in answers])
            ),
        )

    def curve_bases(self, centre: CandidateDesign) -> list[int]:
        """Numbers of bases for curves and floors: that of the chosen design, and some on either side."""
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
        simulated = [design for design, answers in self.answers.items() for _ in answers]
        logs = np.log([answer.width for answers in self.answers.values() for answer in answers])
        widths, margins = Surface.fit(simulated, logs), self.surface()

        def curve(bases: int) -> Curve:
            line = [CandidateDesign(bases, int(many)) for many in challenges]
            return Curve(
                bases=bases,
                challenges=challenges.astype(float),
                # A quadratic may rise beyond the last simulation; more challenges never widen it.
                width=np.minimum.accumulate(np.exp(widths.mean(line))),
                probability=np.maximum.accumulate(margins.probability(line)),
            )

        return tuple(map(curve, sizes))


def _thinned(sizes: Sequence[int]) -> list[int]:
    """Sizes that grow by a factor of about 3, enough for a quadratic; both ends included."""
    kept = [sizes[0]]
    for size in sizes[1:-1]:
        if size >= 3 * kept[-1] and sizes[-1] >= 1.5 * size:
            kept.append(size)
    return kept if len(sizes) == 1 else [*kept, sizes[-1]]
