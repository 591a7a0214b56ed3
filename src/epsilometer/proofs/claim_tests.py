"""Tests of a claim: from scores of models, from error counts, or from canaries of one training run.

Each test gives a log e-value against the claim: the e-value has mean at most 1 if the claim is true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from epsilometer.baselines.estimator import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.scores import Scores
from epsilometer.proofs import count_bets
from epsilometer.proofs.canaries import OneRunTest
from epsilometer.proofs.ceiling import ceiling
from epsilometer.proofs.evidence import Evidence, ranked
from epsilometer.proofs.pairs import PairTest
from epsilometer.proofs.refuting import LOG_E_VALUE_ROUNDING, refuted_up_to

DEPENDENT = (
    "decisions or scores depend on each other (counts of cross-fed models, canaries of a run together "
    "with other models, or a statistic that uses several models at once) and prove nothing; pass the "
    "losses, the store or the result folder, and a statistic that uses one model at a time."
)


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

    def refutes(self, epsilon: float, delta: float, error: float) -> bool:
        """Whether the e-value against (epsilon, delta)-DP is at least 1 / error."""

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        """The largest epsilon that the best possible outcome would prove.

        With ``times`` as many models of every base, or canaries of every run.
        """

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        """Where the e-value against (epsilon, delta)-DP comes from."""


class ByEValue:
    """Refutes a claim by its e-value, and nothing faster."""

    def refutes(self: ClaimTest, epsilon: float, delta: float, error: float) -> bool:
        return self.log_e_value(epsilon, delta, error) >= -math.log(error) - LOG_E_VALUE_ROUNDING


def largest_refuted(test: ClaimTest, delta: float, error: float) -> float:
    """The epsilon up to which every claim is refuted; see `refuting.py`."""
    return refuted_up_to(lambda epsilon: test.refutes(epsilon, delta, error))


def most_refuted(best: ClaimTest, delta: float, error: float) -> float:
    """The same for a best possible outcome; see `ceiling.py`."""
    return ceiling(lambda epsilon: best.refutes(epsilon, delta, error))


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedCounts(ByEValue):
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
        both = [count_bets.mixed(logs, independent=self._independent) for logs in (values, alone)]
        mixture = float(np.logaddexp(*both) - np.log(2))
        # With half of the error, the Clopper-Pearson bound of the best base: 2 / error below it, else 0.
        bound = best_base(ClopperPearson(), self.counts, delta, error / 2)
        fixed = np.log(2 / error) if epsilon < bound else -np.inf
        return float(np.logaddexp(mixture, fixed) - np.log(2))

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        del error
        values = count_bets.log_e_values(self.counts, epsilon, delta)
        won = np.logaddexp.reduce(values, axis=1) - np.log(values.shape[1])
        rule = (("the decision rule that was fixed in advance", 1.0),)
        return Evidence(epsilon=epsilon, bases=ranked(self.counts.names, won), thresholds=rule)

    def at_best(self, times: float = 1.0) -> FixedCounts:
        """The same test if the attacks had made no error."""
        sizes = (self.counts.trials_h0, self.counts.trials_h1)
        trials = [np.ceil(times * size).astype(np.int64) for size in sizes]
        none = np.zeros_like(trials[0])
        counts = counts_of(none, trials[0], none, trials[1])
        return FixedCounts(counts=counts, independent=self._independent)

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        return most_refuted(self.at_best(times), delta, error)


@dataclass(frozen=True, kw_only=True, eq=False)
class Joined(ByEValue):
    """Several claim tests: multiplied if their models are independent, otherwise averaged."""

    parts: tuple[PairTest | FixedCounts, ...]
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

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        parts = [part.evidence(epsilon, delta, error) for part in self.parts]
        bases, thresholds = (
            ranked(*zip(*(row for part in parts for row in getattr(part, name)), strict=True))
            for name in ("bases", "thresholds")
        )
        return Evidence(epsilon=epsilon, bases=bases, thresholds=thresholds)

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        best = tuple(part.at_best(times) for part in self.parts)
        return most_refuted(Joined(parts=best, independent=self.independent), delta, error)


def of_scores(scores: Scores, *, independent: bool = True) -> ClaimTest:
    """The claim test for scores; bases that are counts at one threshold are treated as counts."""
    if scores.dependent:
        raise InputError(DEPENDENT)
    if scores.one_run:
        return OneRunTest(scores=scores, independent=independent)
    parts: list[PairTest | FixedCounts] = []
    named = list(zip(scores.bases, scores.names, strict=True))
    if trained := [(base, name) for base, name in named if not base.grouped]:
        order = scores.planned_order if len(trained) == len(scores) else None
        how: Any = {"independent": independent, "order": order}
        parts.append(PairTest.of(*zip(*trained, strict=True), **how))
    counted = [(name, base) for base, name in named if base.grouped]
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
