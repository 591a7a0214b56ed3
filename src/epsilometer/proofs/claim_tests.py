"""Tests of a claim: from scores of models, from error counts, or from canaries of one training run.

Each test gives a log e-value against the claim: the e-value has mean at most 1 if the claim is true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Protocol

import numpy as np
from scipy.stats import chi2, rankdata

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.baselines.estimator import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import Scores
from epsilometer.proofs import bets, count_bets
from epsilometer.proofs.canaries import OneRunTest

DEPENDENT = (
    "decisions or scores depend on each other (counts of cross-fed models, canaries of a run together "
    "with other models, or a statistic that uses several models at once) and prove nothing; pass the "
    "losses, the store or the result folder, and a statistic that uses one model at a time."
)

#: Standardised rank correlation above which scores are not considered to be in training order.
SORTED = 4.0


#: P-value of the sum of squares below which they are not either.
UNFAIR_SUM_OF_SQUARES = 1e-5


class ClaimTest(Protocol):
    """Computes e-values against a claim."""

    @property
    def any_time(self) -> bool:
        """Whether it is valid at any time; otherwise for one planned analysis."""

    @property
    def assumes(self) -> str:
        """The assumptions, in words."""

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        """Log e-value against (epsilon, delta)-DP."""

    def most_provable(self, delta: float, error: float) -> float:
        """The largest epsilon that the best possible outcome would prove; infinite if unknown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreStream:
    """Scores of separately trained models, in the order in which they were trained.

    Attributes
    ----------
    independent
        Whether models of different bases are independent; otherwise bases are averaged.
    """

    bases: Sequence[FloatPair]
    ordered: bool = True
    independent: bool = True

    @classmethod
    def of(cls, bases: Sequence[BaseScores], *, independent: bool = True) -> ScoreStream:
        """From bases; bases in unknown or sorted order are shuffled."""
        pairs = [base.in_training_order for base in bases]
        ordered = all(base.arrival is not None for base in bases) and not _sorted(pairs)
        if not ordered:
            pairs = [_shuffled(base) for base in bases]
        return cls(bases=pairs, ordered=ordered, independent=independent)

    @property
    def any_time(self) -> bool:
        return self.ordered

    @property
    def assumes(self) -> str:
        premise = "models trained independently"
        if not self.independent:
            premise = "models of one base trained independently; bases may share models"
        if self.ordered:
            return premise
        return (
            f"{premise}; one planned analysis, because the order of the models is unknown and was drawn "
            "at random"
        )

    @cached_property
    def _tallies(self) -> tuple[FloatArray, FloatArray]:
        """The distinct outcomes of bets, and how often each occurred: (base, rate, outcome)."""
        digits = 3 ** np.arange(bets.OUTCOMES)
        codes = np.arange(digits[-1] * 3)
        often = np.zeros((len(self.bases), len(bets.TARGET_RATES), len(codes)))
        for base, (without, with_point) in enumerate(self.bases):
            met = bets.outcomes(without, with_point)
            # Each is lost, won or (2) not bet on.
            numbers = np.where(np.isnan(met), 2, met).astype(np.int64) @ digits
            for rate in range(len(bets.TARGET_RATES)):
                often[base, rate] = np.bincount(numbers[:, rate], minlength=len(codes))
        kinds = (codes[:, None] // digits % 3).astype(float)
        kinds[kinds == 2] = np.nan
        seen = (often.sum(axis=(0, 1)) > 0) & ~np.isnan(kinds).all(axis=1)
        return kinds[seen], often[..., seen]

    def log_capitals(self, epsilon: float, delta: float) -> FloatArray:
        """Log capital of every bettor on every base."""
        kinds, often = self._tallies
        growth = bets.log_growth(bets.returns(kinds, epsilon, delta))
        return np.tensordot(often, growth, axes=1).reshape(len(self.bases), -1)

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        capitals = self.log_capitals(epsilon, delta)
        return float(bets.mixed(capitals, independent=self.independent))

    def most_provable(self, delta: float, error: float) -> float:
        del delta, error
        return math.inf


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
    """The models of a base in random order, seeded only by the ranks of their scores."""
    digest = sha256(base.zeros.tobytes() + base.ones.tobytes()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
    without, with_point = base.by_hypothesis
    return rng.permutation(without), rng.permutation(with_point)


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedCounts:
    """Error counts of decision rules fixed in advance, analysed once.

    The mean of two e-values: the mixture of `count_bets.py`, and an all-or-nothing e-value from the
    Clopper-Pearson bound of the best base.
    """

    counts: AttackCounts
    independent: bool = True

    any_time = False

    @property
    def _independent(self) -> bool:
        return self.independent and not (self.counts.dependent or self.counts.repeated_names)

    @property
    def assumes(self) -> str:
        rows = "" if self._independent else " within a row"
        return (
            f"independent decisions{rows}, decision rules and numbers of challenges fixed in advance, "
            "one planned analysis"
        )

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        values = count_bets.log_e_values(self.counts, epsilon, delta)
        # Rates that suit one base may not suit another: half of the weight is on common rates.
        alone = np.logaddexp.reduce(values, axis=1, keepdims=True) - np.log(values.shape[1])
        both = [bets.mixed(logs, independent=self._independent) for logs in (values, alone)]
        mixture = float(np.logaddexp(*both) - np.log(2))
        # With half of the error, the Clopper-Pearson bound of the best base: 2 / error below it, else 0.
        bound = best_base(ClopperPearson(), self.counts, delta, error / 2)
        fixed = np.log(2 / error) if epsilon < bound else -np.inf
        return float(np.logaddexp(mixture, fixed) - np.log(2))

    def most_provable(self, delta: float, error: float) -> float:
        del delta, error
        return math.inf


@dataclass(frozen=True, kw_only=True, eq=False)
class Joined:
    """Several claim tests: multiplied if their models are independent, otherwise averaged."""

    parts: tuple[ClaimTest, ...]
    independent: bool = True

    @property
    def any_time(self) -> bool:
        return all(part.any_time for part in self.parts)

    @property
    def assumes(self) -> str:
        return "; ".join(part.assumes for part in self.parts)

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        logs = [part.log_e_value(epsilon, delta, error) for part in self.parts]
        if self.independent:
            return sum(logs)
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))

    def most_provable(self, delta: float, error: float) -> float:
        return max(part.most_provable(delta, error) for part in self.parts)


def of_scores(scores: Scores, *, independent: bool = True) -> ClaimTest:
    """The claim test for scores; bases that are counts at one threshold are treated as counts."""
    if scores.dependent:
        raise InputError(DEPENDENT)
    if scores.one_run:
        return OneRunTest(scores=scores, independent=independent)
    parts: list[ClaimTest] = []
    ranked = [base for base in scores.bases if not base.grouped]
    if ranked:
        parts.append(ScoreStream.of(ranked, independent=independent))
    counted = [(n, b) for n, b in zip(scores.names, scores.bases, strict=True) if b.grouped]
    if counted:
        parts.append(FixedCounts(counts=_counts(counted), independent=independent))
    return parts[0] if len(parts) == 1 else Joined(parts=tuple(parts), independent=independent)


def _counts(bases: Sequence[tuple[str, BaseScores]]) -> AttackCounts:
    """Error counts recovered from bases that were made from counts: value 1 means called a member."""
    called = [np.array(base.value == 1.0) for _, base in bases]
    return AttackCounts(
        false_positives=[int(b.zeros[c].sum()) for (_, b), c in zip(bases, called, strict=True)],
        trials_h0=[b.trials_h0 for _, b in bases],
        false_negatives=[int(b.ones[~c].sum()) for (_, b), c in zip(bases, called, strict=True)],
        trials_h1=[b.trials_h1 for _, b in bases],
        names=[name for name, _ in bases],
    )
