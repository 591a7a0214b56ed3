"""Claim test of separately trained models, in pairs: bets against a claim, base by base.

`outcomes` places thresholds, `bettors` has the bets, `capital` adds them up.  Under the claim the
capital does not grow on average, whatever was learnt from earlier pairs: it is an e-process.  The
probability that it ever reaches 1 / error is at most error (Ville's inequality): valid at any time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from scipy.stats import chi2, rankdata

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.model.base_scores import BaseScores
from epsilometer.proofs import bettors, capital, outcomes
from epsilometer.proofs.ceiling import ceiling
from epsilometer.proofs.refuting import LOG_E_VALUE_ROUNDING

#: Standardised rank correlation above which scores are not considered to be in training order.
SORTED = 4.0

#: P-value of the sum of squares below which they are not either.
UNFAIR_SUM_OF_SQUARES = 1e-5

#: Bettors that are tried before all others: most claims below the bound are refuted by these alone.
FAVOURITES = 8

#: Everything that a pair can do for a bettor: each model on its own side of its threshold.
BEST = outcomes.HIGH_WITH | outcomes.LOW_WITHOUT

_GATES = np.array(bettors.GATES)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bets:
    """The outcomes of bets on the pairs of many bases.

    Attributes
    ----------
    codes
        The outcome of every pair for every placement; the pairs of all bases are concatenated.
    cut_errors
        The errors that the cut made on the past of every pair.
    starts
        Where the pairs of each base begin, and where the last ends.
    incomplete
        How many pairs of each base were begun, but are not complete.
    """

    codes: np.ndarray
    cut_errors: FloatArray
    starts: IntArray
    incomplete: IntArray

    @classmethod
    def on(cls, pairs: Sequence[FloatPair], incomplete: Sequence[int] | None = None) -> Bets:
        """Bets on the scores of complete pairs, for each base in the order of training."""
        sizes = [len(without) for without, _ in pairs]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        sides = [np.concatenate(side).astype(float) for side in zip(*pairs, strict=True)]
        codes, errors = outcomes.outcomes_of(sides[0], sides[1], starts)
        missing = np.zeros(len(sizes), np.int64) if incomplete is None else np.array(incomplete)
        return cls(codes=codes, cut_errors=errors, starts=starts, incomplete=missing)

    @classmethod
    def best(cls, sizes: Sequence[int] | IntArray) -> Bets:
        """The best possible outcome for bases with so many pairs."""
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        pair = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        codes = np.full((outcomes.PLACEMENTS, len(pair)), BEST, dtype=np.uint8)
        codes[:, pair < outcomes.PAIRS_BEFORE_BETS] = outcomes.NO_BET
        for number, rate in enumerate(outcomes.RANK_RATES):
            codes[number, rate * (pair + 1) < outcomes.LEAST_BEYOND] = outcomes.NO_BET
        nothing = np.zeros(len(starts) - 1, np.int64)
        return cls(
            codes=codes, cut_errors=np.zeros((2, len(pair))), starts=starts, incomplete=nothing
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, base: int) -> Bets:
        own = slice(self.starts[base], self.starts[base + 1])
        return Bets(
            codes=self.codes[:, own],
            cut_errors=self.cut_errors[:, own],
            starts=np.array([0, own.stop - own.start]),
            incomplete=self.incomplete[base : base + 1],
        )

    @property
    def _data(self) -> tuple[np.ndarray, FloatArray, IntArray, IntArray]:
        return self.codes, self.cut_errors, self.starts, self.incomplete

    def log_shares(self, against: bettors.Bettors, chosen: IntArray) -> FloatArray:
        """Log capital of each of the chosen bettors with each gate, times its prior weight."""
        capitals = capital.multiplied(*self._data, against.placement, against.log_e, _GATES, chosen)
        return np.asarray(capitals + _log_weight(against, chosen)[:, None])

    def log_mixtures(self, against: bettors.Bettors) -> FloatArray:
        """Log capital of all bettors together, on each base alone."""
        chosen = np.flatnonzero(against.weight > 0)
        weight = _log_weight(against, chosen)
        return np.asarray(
            capital.by_base(*self._data, against.placement, against.log_e, _GATES, chosen, weight)
        )

    def path(self, epsilon: float, delta: float, *, power: float = 1.0) -> FloatArray:
        """Log capital after every pair, replicate by replicate over all bases; see `capital.along`."""
        against = bettors.bettors_against(epsilon, delta)
        sizes = np.diff(self.starts)
        base = np.repeat(np.arange(len(sizes)), sizes)
        pair = np.arange(len(base)) - np.repeat(self.starts[:-1], sizes)
        order = np.stack([base, pair], axis=1)[np.lexsort([base, pair])]
        return np.asarray(
            capital.along(
                self.codes,
                self.cut_errors,
                self.starts,
                order,
                against.placement,
                against.log_e,
                _GATES,
                against.weight,
                power,
            )
        )


def _log_weight(against: bettors.Bettors, chosen: IntArray) -> FloatArray:
    return np.asarray(np.log(against.weight[chosen]) - math.log(len(_GATES)))


@dataclass(frozen=True, kw_only=True, eq=False)
class PairTest:
    """Bets on bases with separately trained models.

    Attributes
    ----------
    bets
        On the complete pairs, in the order in which they were trained.
    ordered
        Whether this order is known; otherwise it was drawn at random.
    planned
        Whether the numbers of models must have been fixed in advance.
    independent
        Whether models of different bases are independent; otherwise bases are averaged.
    """

    bets: Bets
    ordered: bool = True
    planned: bool = False
    independent: bool = True

    @classmethod
    def of(cls, bases: Sequence[BaseScores], *, independent: bool = True) -> PairTest:
        """From bases; bases in unknown or sorted order are shuffled."""
        pairs = [base.complete_pairs for base in bases]
        ordered = all(base.arrival is not None for base in bases) and not _sorted(
            [base.in_training_order for base in bases]
        )
        if not ordered:
            pairs = [_shuffled(base) for base in bases]
        return cls(
            bets=Bets.on(pairs, [base.incomplete for base in bases]),
            ordered=ordered,
            planned=any(base.planned for base in bases),
            independent=independent,
        )

    @property
    def any_time(self) -> bool:
        return self.ordered and not self.planned

    @property
    def assumes(self) -> str:
        premise = "models trained independently"
        if not self.independent:
            premise = "models of one base trained independently; bases may share models"
        if not self.ordered:
            premise += (
                "; one planned analysis, because the order of the models is unknown and was drawn at "
                "random"
            )
        elif self.planned:
            premise += (
                "; one planned analysis with numbers of models fixed in advance, because there are not "
                "equally many without and with the point"
            )
        return premise

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        del error
        against = bettors.bettors_against(epsilon, delta)
        if not self.independent:
            mixtures = self.bets.log_mixtures(against)
            return float(np.logaddexp.reduce(mixtures) - np.log(len(mixtures)))
        chosen = np.flatnonzero(against.weight > 0)
        shares = self.bets.log_shares(against, chosen)
        self._favourites[:] = chosen[np.argsort(-shares.max(axis=1))[:FAVOURITES]].tolist()
        return float(np.logaddexp.reduce(shares, axis=None))

    @cached_property
    def _favourites(self) -> list[int]:
        """The bettors with most capital against the claim that was tested last."""
        return []

    def refutes(self, epsilon: float, delta: float, error: float) -> bool:
        needed = -math.log(error) - LOG_E_VALUE_ROUNDING
        if self.independent and self._favourites:
            against = bettors.bettors_against(epsilon, delta)
            chosen = np.array(
                [n for n in self._favourites if against.weight[n] > 0], dtype=np.int64
            )
            # The capital of some bettors is a part of that of all.
            if (
                len(chosen)
                and np.logaddexp.reduce(self.bets.log_shares(against, chosen), axis=None) >= needed
            ):
                return True
        return self.log_e_value(epsilon, delta, error) >= needed

    def at_best(self, times: float = 1.0) -> PairTest:
        """The same test with the best possible outcome, of so many times as many models."""
        sizes = np.ceil(times * (np.diff(self.bets.starts) + self.bets.incomplete)).astype(np.int64)
        return PairTest(bets=Bets.best(sizes), independent=self.independent)

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        best = self.at_best(times)
        return ceiling(lambda epsilon: best.refutes(epsilon, delta, error))


def _sorted(pairs: Sequence[FloatPair]) -> bool:
    """Whether scores, or their distances from the median, are correlated with their order.

    Such an order comes from a sorted file, not from training.  Tests the largest rank correlation over
    all sides, their sum and their sum of squares.
    """
    for far in (False, True):
        z_scores = []
        for side in (side for pair in pairs for side in pair if len(side) > 2):
            ranks = rankdata(side)
            ranks = np.abs(ranks - np.median(ranks)) if far else ranks
            if np.ptp(ranks) > 0:
                correlation = np.corrcoef(rankdata(ranks), np.arange(len(ranks)))[0, 1]
                z_scores.append(correlation * np.sqrt(len(ranks) - 1))
        if not z_scores:
            continue
        size, scores = len(z_scores), np.array(z_scores)
        together = abs(scores.sum()) / np.sqrt(size)
        squares = float(chi2.sf(scores @ scores, size))
        if max(np.abs(scores).max(), together) > SORTED or squares < UNFAIR_SUM_OF_SQUARES:
            return True
    return False


def _shuffled(base: BaseScores) -> FloatPair:
    """The models of a base in random order, seeded only by the ranks of their scores; whole pairs."""
    digest = sha256(base.zeros.tobytes() + base.ones.tobytes()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
    without, with_point = (rng.permutation(side) for side in base.by_hypothesis)
    pairs = min(len(without), len(with_point))
    return without[:pairs], with_point[:pairs]
