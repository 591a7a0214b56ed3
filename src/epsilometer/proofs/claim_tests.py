"""Tests of a claim: from scores of models, from error counts, or from canaries of one training run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsilometer.baselines.estimator import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs import count_bets
from epsilometer.proofs.canaries import OneRunTest
from epsilometer.proofs.evidence import Evidence, ranked
from epsilometer.proofs.pairs import PairTest
from epsilometer.proofs.refuting import ClaimTest, log_mean, with_bound
from epsilometer.proofs.shared_models import SharedModels

DEPENDENT = (
    "decisions or scores depend on each other (counts of cross-fed models, canaries of a run together "
    "with other models, or a statistic that uses several models at once) and prove nothing; pass the "
    "losses, the store or the result folder, and a statistic that uses one model at a time."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedCounts(ClaimTest):
    """Error counts of decision rules fixed in advance, analysed once.

    The mean of two e-values: the mixture of `count_bets.py`, and an all-or-nothing e-value from the
    Clopper-Pearson bound of the best base.
    """

    counts: AttackCounts
    independent: bool = True

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
        alone = log_mean(values, axis=1)[:, None]
        both = [count_bets.mixed(logs, independent=self._independent) for logs in (values, alone)]
        bound = best_base(ClopperPearson(), self.counts, delta, error / 2)
        return with_bound(float(log_mean(both)), epsilon, bound, error)

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        won = log_mean(count_bets.log_e_values(self.counts, epsilon, delta), axis=1)
        rule = (("the decision rule that was fixed in advance", 1.0),)
        return Evidence(epsilon=epsilon, bases=ranked(self.counts.names, won), thresholds=rule)

    def at_best(self, times: float = 1.0) -> FixedCounts:
        sizes = (self.counts.trials_h0, self.counts.trials_h1)
        trials = [np.ceil(times * size).astype(np.int64) for size in sizes]
        none = np.zeros_like(trials[0])
        counts = counts_of(none, trials[0], none, trials[1])
        return FixedCounts(counts=counts, independent=self._independent)


@dataclass(frozen=True, kw_only=True, eq=False)
class Joined(ClaimTest):
    """Scores and counts: multiplied if their models are independent, otherwise averaged.

    Counts are analysed once, so both are.
    """

    parts: tuple[PairTest | FixedCounts, ...]
    independent: bool = True

    @property
    def assumes(self) -> str:
        return "; ".join(part.assumes for part in self.parts)

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        logs = [part.log_e_value(epsilon, delta, error) for part in self.parts]
        return sum(logs) if self.independent else float(log_mean(logs))

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        parts = [part.evidence(epsilon, delta, error) for part in self.parts]
        bases, thresholds = (
            ranked(*zip(*(row for part in parts for row in getattr(part, name)), strict=True))
            for name in ("bases", "thresholds")
        )
        return Evidence(epsilon=epsilon, bases=bases, thresholds=thresholds)

    def at_best(self, times: float = 1.0) -> Joined:
        best = tuple(part.at_best(times) for part in self.parts)
        return Joined(parts=best, independent=self.independent)


def claim_test_of(data: object, *, independent: bool = True) -> ClaimTest:
    """The claim test for scores or counts; bases that are counts at one threshold are counts."""
    if isinstance(data, AttackCounts):
        if data.cross_fed:
            raise InputError(DEPENDENT)
        return FixedCounts(counts=data, independent=independent)
    if not isinstance(data, Scores | PoolScores):
        raise InputError(f"expected scores or error counts, got {data!r}.")
    if data.dependent:
        raise InputError(DEPENDENT)
    if isinstance(data, PoolScores):
        return SharedModels.of_pool(data)
    if data.models is not None:
        return SharedModels.of_scores(data)
    if data.one_run:
        return OneRunTest(scores=data, independent=independent)
    parts: list[PairTest | FixedCounts] = []
    named = list(zip(data.bases, data.names, strict=True))
    if trained := [each for each in named if not each[0].grouped]:
        order = data.planned_order if len(trained) == len(named) else None
        bases, names = zip(*trained, strict=True)
        parts.append(PairTest.of(bases, names, independent=independent, order=order))
    if grouped := [each for each in named if each[0].grouped]:
        parts.append(FixedCounts(counts=_counts(grouped), independent=independent))
    return parts[0] if len(parts) == 1 else Joined(parts=tuple(parts), independent=independent)


def _counts(named: Sequence[tuple[BaseScores, str]]) -> AttackCounts:
    """Error counts recovered from bases that were made from counts: value 1 means called a member."""
    bases = [base for base, _ in named]
    return counts_of(
        [base.zeros[base.value == 1].sum() for base in bases],
        [base.trials_h0 for base in bases],
        [base.ones[base.value != 1].sum() for base in bases],
        [base.trials_h1 for base in bases],
        names=[name for _, name in named],
    )
