"""What a proof can be made from: scores of models, error counts, canaries of one training run.

Each kind gives a log e-value against a claim: a number whose exponential has mean 1 at most if the claim
is true.
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
from epsilometer.baselines.bases import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.one_run import check_fair_coin, fair_coin
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import BaseScores, Scores
from epsilometer.proofs import bets, count_bets

DEPENDENT = (
    "decisions or scores depend on each other (counts of cross-fed models, canaries of a run beside "
    "other models, or a statistic that looks at several models at once) and prove nothing; give the "
    "losses, the store or the result folder, and a statistic that looks at one model."
)

SORTED = 4.0
"""Standard deviations of a rank correlation from which scores are not in the order of models."""


UNLIKELY = 1e-5
"""Probability of a sum of squares below which they are not either."""


class ClaimTest(Protocol):
    """Something that e-values come from."""

    @property
    def any_time(self) -> bool:
        """Whether it holds however often somebody looked; else for one look that was planned."""

    @property
    def assumes(self) -> str:
        """What must hold for it, in words."""

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        """Against (epsilon, delta)-DP."""

    def most_provable(self, delta: float, error: float) -> float:
        """What the best of all outcomes would have proven with so much data; infinite if unknown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreStream:
    """Scores of models that were trained on their own, in the order in which they came.

    Attributes
    ----------
    independent
        Whether models of different bases are independent; else bases are averaged.
    """

    bases: Sequence[FloatPair]
    ordered: bool = True
    independent: bool = True

    @classmethod
    def of(cls, bases: Sequence[BaseScores], *, independent: bool = True) -> ScoreStream:
        """From bases; those whose order is unknown, or is that of the scores, are shuffled."""
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
        found = "models trained independently"
        if not self.independent:
            found = "models of one base trained independently; bases may share models"
        if self.ordered:
            return found
        return f"{found}; one look, for the order of the models is unknown and was drawn at random"

    @cached_property
    def _tallies(self) -> list[list[tuple[FloatArray, FloatArray]]]:
        """For each base and rate the different outcomes of its bets, and how often each was met."""
        found = []
        for without, with_point in self.bases:
            met = bets.outcomes(without, with_point)
            rates = []
            for number in range(len(bets.RATES)):
                own = met[:, number]
                kinds, often = np.unique(
                    own[~np.isnan(own).all(axis=1)], axis=0, return_counts=True
                )
                rates.append((kinds, often.astype(float)))
            found.append(rates)
        return found

    def log_capitals(self, epsilon: float, delta: float) -> FloatArray:
        """Log capital of every bettor on every base."""
        shape = (len(bets.RATES), bets.DIRECTIONS, len(bets.STAKES))
        found = np.zeros((len(self.bases), *shape))
        for base, rates in enumerate(self._tallies):
            for number, (kinds, often) in enumerate(rates):
                if len(often):
                    growth = bets.log_growth(bets.returns(kinds, epsilon, delta))
                    found[base, number] = np.tensordot(often, growth, axes=1)
        return found.reshape(len(self.bases), -1)

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        capitals = self.log_capitals(epsilon, delta)
        return float(bets.mixed(capitals, independent=self.independent))

    def most_provable(self, delta: float, error: float) -> float:
        del delta, error
        return math.inf


def _sorted(pairs: Sequence[FloatPair]) -> bool:
    """Whether scores, or their distances from the middle, follow the order given.

    Such an order is that of a sorted file, not of models.  Of all sides the largest rank correlation,
    their sum and their sum of squares are looked at.
    """
    for far in (False, True):
        found = []
        for side in (side for pair in pairs for side in pair if len(side) > 2):
            ranks = rankdata(side)
            ranks = np.abs(ranks - np.median(ranks)) if far else ranks
            if np.ptp(ranks) > 0:
                correlation = np.corrcoef(rankdata(ranks), np.arange(len(ranks)))[0, 1]
                found.append(correlation * np.sqrt(len(ranks) - 1))
        if not found:
            continue
        size, scores = len(found), np.array(found)
        together = abs(scores.sum()) / np.sqrt(size)
        squares = float(chi2.sf(scores @ scores, size))
        if max(np.abs(scores).max(), together) > SORTED or squares < UNLIKELY:
            return True
    return False


def _shuffled(base: BaseScores) -> FloatPair:
    """The models of a base in an order that depends on nothing but their scores' ranks."""
    digest = sha256(base.zeros.tobytes() + base.ones.tobytes()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
    without, with_point = base.by_hypothesis
    return rng.permutation(without), rng.permutation(with_point)


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedCounts:
    """Error counts of rules that were fixed beforehand, looked at once.

    The mean of two e-values: the mixture of `count_bets.py`, and an all-or-nothing one from
    Clopper-Pearson's bound of the best base.
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
        return f"independent decisions{rows}, rules and numbers of challenges fixed beforehand, one look"

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        values = count_bets.log_e_values(self.counts, epsilon, delta)
        # Rates that suit one base may not suit another: half on the same rates everywhere.
        alone = np.logaddexp.reduce(values, axis=1, keepdims=True) - np.log(values.shape[1])
        both = [bets.mixed(each, independent=self._independent) for each in (values, alone)]
        mixture = float(np.logaddexp(*both) - np.log(2))
        # With half of the error Clopper-Pearson's bound of the best base: 2 / error below it, else 0.
        bound = best_base(ClopperPearson(), self.counts, delta, error / 2)
        fixed = np.log(2 / error) if epsilon < bound else -np.inf
        return float(np.logaddexp(mixture, fixed) - np.log(2))

    def most_provable(self, delta: float, error: float) -> float:
        del delta, error
        return math.inf


ONE_SIDED = 0.01
"""Probability, over all runs, that some coins come up on one side; such runs have no scores here."""


def check_coins(scores: Scores) -> None:
    """Raise :class:`InputError` unless the coins of every run may be fair.

    Runs whose coins all came up alike are not there.  Where that is likely, those that are there have
    coins that depend on each other, and one-run bounds do not hold.
    """
    sizes = scores.trials_h0 + scores.trials_h1
    if float(np.sum(2.0 ** (1.0 - sizes))) > ONE_SIDED:
        raise InputError(
            f"expected more canaries in each run, got runs of {int(sizes.min())} to {int(sizes.max())}: "
            "coins that all come up alike are left out, and too many would be."
        )
    check_fair_coin(scores.trials_h1, scores.trials_h0, runs=len(scores))


def auditor_of(base: BaseScores) -> CanaryScoreAuditor:
    """Other people's bounds on a base: of ranks in place of scores, which may be infinite."""
    ranks = -np.arange(len(base.value), dtype=float)
    return CanaryScoreAuditor(np.repeat(ranks, base.ones), np.repeat(ranks, base.zeros))


@dataclass(frozen=True, kw_only=True, eq=False)
class OneRun:
    """Canaries of one training run: the f-DP bound of Mahloujifar et al. (2024), looked at once.

    Its e-value is 1 / error below the bound and 0 above.  Canaries of several runs are taken together
    if coins were flipped anew for each; else the best run counts, and runs share the error.

    Attributes
    ----------
    independent
        Whether every run has coins of its own.
    """

    scores: Scores
    independent: bool = True

    any_time = False

    @property
    def assumes(self) -> str:
        found = "each canary in by a fair coin of its own, one look"
        if len(self.scores) == 1:
            return found
        anew = "flipped anew for every run" if self.independent else "perhaps the same in every run"
        return f"each canary in by a fair coin of its own, {anew}; one look"

    @cached_property
    def _found(self) -> dict[tuple[float, float], float]:
        return {}

    def bound(self, delta: float, error: float) -> float:
        """Epsilon is at least this, except with probability ``error``."""
        if (delta, error) not in self._found:
            check_coins(self.scores)
            parts = [self.scores.all_runs] if self.independent else self.scores.bases
            share = error / len(parts)
            found = [auditor_of(base).epsilon_one_run_fdp(share, delta) for base in parts]
            self._found[delta, error] = max(found)
        return self._found[delta, error]

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        return -math.log(error) if epsilon < self.bound(delta, error) else -math.inf

    def most_provable(self, delta: float, error: float) -> float:
        base = self.scores.all_runs
        if not bool(fair_coin(base.trials_h1, base.trials_h0)):
            return math.inf
        perfect = CanaryScoreAuditor(
            np.arange(base.trials_h1) + 1.0, -np.arange(base.trials_h0, dtype=float)
        )
        return perfect.epsilon_one_run_fdp(error, delta)


@dataclass(frozen=True, kw_only=True, eq=False)
class Joined:
    """Several kinds of evidence: multiplied if their models are independent, else averaged."""

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
    """The evidence of scores; bases that are counts at one threshold are judged as counts."""
    if scores.dependent:
        raise InputError(DEPENDENT)
    if scores.one_run:
        return OneRun(scores=scores, independent=independent)
    parts: list[ClaimTest] = []
    ranked = [base for base in scores.bases if not base.grouped]
    if ranked:
        parts.append(ScoreStream.of(ranked, independent=independent))
    counted = [(n, b) for n, b in zip(scores.names, scores.bases, strict=True) if b.grouped]
    if counted:
        parts.append(FixedCounts(counts=_counts(counted), independent=independent))
    return parts[0] if len(parts) == 1 else Joined(parts=tuple(parts), independent=independent)


def _counts(bases: Sequence[tuple[str, BaseScores]]) -> AttackCounts:
    """Counts back from bases that were made from them: value 1 is called a member."""
    called = [np.array(base.value == 1.0) for _, base in bases]
    return AttackCounts(
        false_positives=[int(b.zeros[c].sum()) for (_, b), c in zip(bases, called, strict=True)],
        trials_h0=[b.trials_h0 for _, b in bases],
        false_negatives=[int(b.ones[~c].sum()) for (_, b), c in zip(bases, called, strict=True)],
        trials_h1=[b.trials_h1 for _, b in bases],
        names=[name for name, _ in bases],
    )
