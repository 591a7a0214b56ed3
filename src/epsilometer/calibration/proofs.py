"""Proofs on known mechanisms: how often a true claim is refuted, and the power against a false one.

A true claim is tested after every pair of models, and counts as refuted if any of these tests refutes
it. The control is the Clopper-Pearson bound, checked equally often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.baselines.estimator import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.baselines.thresholds import Split
from epsilometer.calibration.attacks import draw_bases
from epsilometer.calibration.mechanisms import Mechanism
from epsilometer.calibration.tally import Sums
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import Scores
from epsilometer.proofs import bets
from epsilometer.proofs.claim_tests import FixedCounts, OneRunTest
from epsilometer.proofs.proof import largest_refuted, prove

PROOF, PEEKING = "proof, any time", "control: Clopper-Pearson at every look"
COUNTED, SCAN, SPLIT = "proof from counts", "ROC scan, Clopper-Pearson", "ROC scan, split"
FIXED, ONE_RUN, STEINKE = "Clopper-Pearson, best base", "one run, f-DP", "one run, Steinke"

CUT = 0.1
"""False-positive rate of the threshold that is fixed in advance for Clopper-Pearson."""


@dataclass(frozen=True)
class RefutationTally(Sums):
    """Number of runs, how often the claim was refuted, and the sum of the proven epsilons."""

    refuted: int = 0
    sum_at_least: float = 0.0


def path(scores: Scores, epsilon: float, delta: float) -> FloatArray:
    """Log e-value against a claim after each pair of models, for all bases in parallel."""
    grown = []
    for base in scores.bases:
        met = bets.outcomes(*base.in_training_order)
        growth = bets.log_growth(bets.returns(met, epsilon, delta))
        grown.append(np.cumsum(growth.reshape(len(growth), -1), axis=0).T)
    return bets.mixed(np.stack(grown))


@cache
def threshold(mechanism: Mechanism) -> float:
    """A threshold that is exceeded with probability CUT without the point, as closely as ties allow."""
    rng = np.random.default_rng(0)
    reference = mechanism.scores(np.zeros(100_000, dtype=bool), rng)
    cut = float(np.quantile(reference, 1 - CUT, method="lower"))
    if (reference > cut).mean() == 0:  # ties account for the whole rate
        return float(np.min(reference))
    return cut


def called(scores: Scores, mechanism: Mechanism) -> list[tuple[BoolArray, BoolArray]]:
    """Whether a threshold fixed in advance calls each model a member, without and with the point."""
    cut = threshold(mechanism)  # type: ignore[arg-type]  # mechanisms are frozen
    return [tuple(side > cut for side in base.in_training_order) for base in scores.bases]  # type: ignore[misc]


def counts_of(decided: list[tuple[BoolArray, BoolArray]], size: int) -> AttackCounts:
    """Errors of the first ``size`` models per side."""
    return AttackCounts(
        false_positives=[int(without[:size].sum()) for without, _ in decided],
        trials_h0=size,
        false_negatives=[int((~with_point[:size]).sum()) for _, with_point in decided],
        trials_h1=size,
    )


@dataclass(frozen=True, kw_only=True)
class RefutationCell:
    """A true claim, tested after every pair of models, for all bases in parallel."""

    delta: float = 1e-5
    mechanism: Mechanism
    bases: int
    models: int
    runs: int

    chunk: ClassVar[int] = 250

    @property
    def weight(self) -> int:
        """Approximate relative duration of a chunk."""
        return self.bases * self.models

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies of the proof and of the control."""
        truth = self.mechanism.epsilon(self.delta)
        tallies = {PROOF: RefutationTally(), PEEKING: RefutationTally()}
        for _ in range(runs):
            scores = _drawn(self.mechanism, self.bases, self.models, rng)
            proof = bool(path(scores, truth, self.delta).max() >= -np.log(significance))
            peeked = self._peeked(scores, truth, significance)
            for label, refuted in ((PROOF, proof), (PEEKING, peeked)):
                tallies[label] += RefutationTally(runs=1, refuted=int(refuted))
        return {label: tally.as_dict() for label, tally in tallies.items()}

    def _peeked(self, scores: Scores, truth: float, significance: float) -> bool:
        """Whether any base's bound, with the error shared by bases, ever exceeds the truth."""
        looks = np.arange(1, self.models + 1)
        for without, with_point in called(scores, self.mechanism):
            counts = AttackCounts(
                false_positives=np.cumsum(without),
                trials_h0=looks,
                false_negatives=np.cumsum(~with_point),
                trials_h1=looks,
            )
            bound = ClopperPearson().lower(counts, self.delta, significance / self.bases)
            if (bound > truth).any():
                return True
        return False


@dataclass(frozen=True, kw_only=True)
class PowerCell:
    """A false claim, ``factor`` times the truth, and the bound of each method with ``sizes`` models."""

    delta: float = 1e-5
    mechanism: Mechanism
    bases: int
    sizes: tuple[int, ...]
    factor: float = 0.5
    runs: int

    chunk: ClassVar[int] = 10

    @property
    def weight(self) -> int:
        """Approximate relative duration of a chunk."""
        return 10 * self.bases * sum(self.sizes)

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by method and size, as in ``proof, any time @ 100``."""
        claim = self.factor * self.mechanism.epsilon(self.delta)
        tallies: dict[str, RefutationTally] = {}
        for _ in range(runs):
            whole = _drawn(self.mechanism, self.bases, max(self.sizes), rng)
            decided = called(whole, self.mechanism)
            for size in self.sizes:
                for label, bound in self._methods(whole, decided, size).items():
                    at_least = bound(significance)
                    name = f"{label} @ {size}"
                    tallies[name] = tallies.get(name, RefutationTally()) + RefutationTally(
                        runs=1, refuted=int(claim < at_least), sum_at_least=at_least
                    )
        return {name: tally.as_dict() for name, tally in tallies.items()}

    def _methods(
        self, whole: Scores, decided: list[tuple[BoolArray, BoolArray]], size: int
    ) -> dict[str, Callable[[float], float]]:
        """Every method, as a function of its error probability."""
        sides = [tuple(side[:size] for side in base.in_training_order) for base in whole.bases]
        scores = Scores(without=[s[0] for s in sides], with_point=[s[1] for s in sides])
        counts = counts_of(decided, size)
        auditors = [CanaryScoreAuditor(with_point, without) for without, with_point in sides]
        delta = self.delta

        def scanned(error: float, **how: Any) -> float:
            share = error / len(auditors)
            return max(a.epsilon_lower(ClopperPearson(), share, delta, **how) for a in auditors)

        methods: dict[str, Callable[[float], float]] = {
            PROOF: lambda error: prove(scores, delta=delta, error=error).at_least,
            COUNTED: lambda error: largest_refuted(FixedCounts(counts=counts), delta, error),
            FIXED: lambda error: best_base(ClopperPearson(), counts, delta, error),
            SCAN: scanned,
            SPLIT: lambda error: scanned(error, threshold_strategy=Split()),
        }
        if self.bases == 1:
            # As many scores as canaries of one run: exactly half of them included, as a fair coin may
            # do.
            run = Scores.of_canaries(sides[0][1], sides[0][0])
            methods[ONE_RUN] = lambda error: OneRunTest(scores=run).bound(delta, error)
            methods[STEINKE] = lambda error: auditors[0].epsilon_one_run(error, delta)
        return methods


def _drawn(mechanism: Mechanism, bases: int, models: int, rng: np.random.Generator) -> Scores:
    return draw_bases(mechanism, power=1.0, strengths=None, bases=bases, models=models, rng=rng)
