"""Claim test of separately trained models, in pairs: bets against a claim, base by base.

`outcomes` places thresholds, `bettors` has the bets, `capital` adds them up.  Under the claim the
capital does not grow on average, whatever was learnt from earlier pairs: it is an e-process.  The
probability that it ever reaches 1 / error is at most error (Ville's inequality): valid at any time.

Where the order of all pairs was fixed before they were trained, bettors that won earlier get more of the
capital, and a claim that was refuted after some pair stays refuted: the *ordered* form.  Otherwise the
result depends on the order within bases alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import chi2, rankdata

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.model.base_scores import BaseScores, seeded_by
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.proofs.bettors import Bettors, bettors_against
from epsilometer.proofs.capital import along, capitals
from epsilometer.proofs.evidence import Evidence, ranked, thresholds_of
from epsilometer.proofs.outcomes import Outcomes, best_outcomes, outcomes_of
from epsilometer.proofs.refuting import ClaimTest, least_log_e_value, log_mean

#: Standardised rank correlation above which scores are not considered to be in training order.
SORTED = 4.0

#: P-value of the sum of squares below which they are not either.
UNFAIR_SUM_OF_SQUARES = 1e-5

#: Bettors that are tried before all others: most claims below the bound are refuted by these alone.
FAVOURITES = 8

#: The ordered form spreads the capital by what bettors won, to this power.
LEADERS = 2.0

#: Why there may be only one analysis, as planned.
UNORDERED = ", because the order of the models is unknown and was drawn at random"
UNEQUAL = (
    " with numbers of models fixed in advance, because there are not equally many without and with the "
    "point"
)
AVERAGED = ", because bases are averaged"


def multiplied(outcomes: Outcomes, bettors: Bettors, chosen: IntArray) -> FloatArray:
    """Log capital of the chosen bettors over all bases, times their weights."""
    logs = capitals(outcomes, bettors, chosen).sum(axis=0)
    return np.asarray(logs + np.log(bettors.weight[chosen]))


def log_mixtures(outcomes: Outcomes, bettors: Bettors) -> FloatArray:
    """Log capital of all bettors together, on each base alone."""
    logs = capitals(outcomes, bettors, bettors.used) + np.log(bettors.weight[bettors.used])
    return np.asarray(np.logaddexp.reduce(logs, axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class PairTest(ClaimTest):
    """Bets on bases with separately trained models.

    Attributes
    ----------
    outcomes
        Of the complete pairs, in the order in which they were trained.
    planned_order
        The order of the pairs of all bases, if it was fixed in advance: (base, pair) rows.
    once
        Why there may be only one analysis, as planned; empty if it may be repeated at any time.
    independent
        Whether models of different bases are independent; otherwise bases are averaged.
    names
        Of the bases.
    """

    outcomes: Outcomes
    planned_order: IntArray | None = None
    once: str = ""
    independent: bool = True
    names: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        bases: Sequence[BaseScores],
        names: Sequence[str] = (),
        *,
        independent: bool = True,
        order: PlannedOrder | None = None,
    ) -> PairTest:
        """From bases; bases in unknown or sorted order are shuffled."""
        ordered = all(base.arrival is not None for base in bases) and not _sorted(
            [base.in_training_order for base in bases]
        )
        pairs = [base.complete_pairs if ordered else _shuffled(base) for base in bases]
        rows = None
        if order is not None and ordered and independent:
            rows = order.leading([len(without) for without, _ in pairs])
        unequal = any(base.planned for base in bases)
        reasons = ((not ordered, UNORDERED), (unequal, UNEQUAL), (not independent, AVERAGED))
        return cls(
            outcomes=outcomes_of(pairs, [base.incomplete for base in bases]),
            planned_order=rows,
            once=next((why for holds, why in reasons if holds), ""),
            independent=independent,
            names=names,
        )

    @property
    def any_time(self) -> bool:
        # A mean over bases, looked at while bases are added, is no e-process.
        return self.independent and not self.once

    @property
    def assumes(self) -> str:
        premise = "models trained independently"
        if not self.independent:
            premise = "models of one base trained independently; bases may share models"
        once = f"; one planned analysis{self.once}" if self.once else ""
        return premise + once + self._left_out

    @property
    def _left_out(self) -> str:
        """How many pairs do not count, or count as lost."""
        complete, lost = self.outcomes.starts[-1], self.outcomes.incomplete.sum()
        if self.planned_order is not None:
            waiting = complete - len(self.planned_order)
            return f"; {waiting:,} pairs wait for earlier ones of the plan" if waiting else ""
        if not lost:
            return ""
        return (
            f"; {lost:,} of {complete + lost:,} pairs count as lost, because one of their models, or of "
            "an earlier pair of the base, is missing"
        )

    def path(self, epsilon: float, delta: float, *, enough: float = math.inf) -> FloatArray:
        """Log capital after every pair: in the planned order, else base by base."""
        order, power = self.planned_order, LEADERS
        if order is None:
            order, power = every_pair(self.outcomes.starts), 1.0
        bettors = bettors_against(epsilon, delta)
        return np.asarray(along(self.outcomes, order, bettors, power, enough))

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        """Log e-value against a claim; of the ordered form, the largest so far."""
        if self.planned_order is not None:
            return float(self.path(epsilon, delta).max(initial=0.0))
        bettors = bettors_against(epsilon, delta)
        if not self.independent:
            return float(log_mean(log_mixtures(self.outcomes, bettors)))
        logs = multiplied(self.outcomes, bettors, bettors.used)
        self._favourites[:] = bettors.used[np.argsort(-logs)[:FAVOURITES]].tolist()
        return float(np.logaddexp.reduce(logs))

    @cached_property
    def _favourites(self) -> list[int]:
        """The bettors with most capital against the claim that was tested last."""
        return []

    def refutes(self, epsilon: float, delta: float, error: float) -> bool:
        needed = least_log_e_value(error)
        if self.planned_order is not None:
            return bool(self.path(epsilon, delta, enough=needed).max(initial=0.0) >= needed)
        if self.independent and self._favourites:
            bettors = bettors_against(epsilon, delta)
            chosen = np.intersect1d(self._favourites, bettors.used)
            # The capital of some bettors is a part of that of all.
            if np.logaddexp.reduce(multiplied(self.outcomes, bettors, chosen)) >= needed:
                return True
        return self.log_e_value(epsilon, delta, error) >= needed

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        bettors = bettors_against(epsilon, delta)
        used, path = bettors.used, np.empty(0)
        logs = capitals(self.outcomes, bettors, used)
        together = logs.sum(axis=0) if self.independent else logs
        weighed = np.log(bettors.weight[used]) + together
        share = np.exp(weighed - np.logaddexp.reduce(weighed, axis=None))
        if self.independent:
            path, won = self.path(epsilon, delta), logs @ share
        else:  # no base multiplies what others have
            won, share = np.logaddexp.reduce(weighed, axis=1), share.sum(axis=0)
        if self.planned_order is not None:
            # Each base has what was won on its pairs until the capital was largest.
            counted = int(np.argmax(np.append(0.0, path)))
            base, gains = self.planned_order[:counted, 0], np.diff(path, prepend=0.0)[:counted]
            won = np.bincount(base, gains, len(logs))
        bases = ranked(self.names or [str(n) for n in range(len(logs))], won)
        parts, ordered = thresholds_of(bettors, used, share), self.planned_order is not None
        return Evidence(epsilon=epsilon, bases=bases, thresholds=parts, path=path, ordered=ordered)

    def at_best(self, times: float = 1.0) -> PairTest:
        sizes = np.diff(self.outcomes.starts) + self.outcomes.incomplete
        best = best_outcomes(np.ceil(times * sizes).astype(np.int64))
        order = None if self.planned_order is None else every_pair(best.starts)
        return PairTest(outcomes=best, planned_order=order, independent=self.independent)


def every_pair(starts: IntArray) -> IntArray:
    """All pairs, base by base: (base, pair) rows."""
    base = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.stack([base, np.arange(len(base)) - starts[base]], axis=1)


def _sorted(pairs: Sequence[FloatPair]) -> bool:
    """Whether scores, or their distances from the median, are correlated with their order.

    Such an order comes from a sorted file, not from training.  Tests the largest rank correlation over
    all sides, their sum and their sum of squares.
    """
    by_size: dict[int, list[FloatArray]] = {}
    for side in (side for pair in pairs for side in pair if len(side) > 2):
        by_size.setdefault(len(side), []).append(side)
    for far in (False, True):
        z_scores: list[float] = []
        for size, sides in by_size.items():
            ranks = rankdata(np.stack(sides), axis=1)
            if far:
                ranks = rankdata(np.abs(ranks - np.median(ranks, axis=1, keepdims=True)), axis=1)
            ranks -= ranks.mean(axis=1, keepdims=True)
            place = np.arange(size) - (size - 1) / 2
            spread = np.sqrt((ranks**2).sum(axis=1) * (place @ place))
            differ = spread > 0
            z_scores += (np.sqrt(size - 1) * (ranks @ place)[differ] / spread[differ]).tolist()
        if not z_scores:
            continue
        scores = np.array(z_scores)
        together = abs(scores.sum()) / np.sqrt(len(scores))
        squares = float(chi2.sf(scores @ scores, len(scores)))
        if max(np.abs(scores).max(), together) > SORTED or squares < UNFAIR_SUM_OF_SQUARES:
            return True
    return False


def _shuffled(base: BaseScores) -> FloatPair:
    """The models of a base in random order, seeded only by the ranks of their scores; whole pairs."""
    rng = seeded_by(base.zeros, base.ones)
    without, with_point = (rng.permutation(side) for side in base.by_hypothesis)
    return without[: len(with_point)], with_point[: len(without)]
