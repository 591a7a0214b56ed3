"""Verdicts on claims about known mechanisms: how often each outcome occurs, and on which grounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsilometer.calibration.attacks import draw_bases, draw_counts
from epsilometer.calibration.mechanisms import Mechanism
from epsilometer.calibration.tally import Sums
from epsilometer.errors import ContradictionError
from epsilometer.model.counts import AttackCounts

CLAIM_FACTORS = (0.5, 1.0, 2.0)
"""Claims as multiples of the truth; for a mechanism that leaks nothing, epsilons themselves."""

SCORES, COUNTS = "scores", "counts"

RATE = 0.1
"""False-positive rate of the attacks whose errors are counted."""


@dataclass(frozen=True)
class VerdictTally(Sums):
    """Number of runs, and of verdicts of each kind; the rest are INCONCLUSIVE."""

    fail_proven: int = 0
    fail_judged: int = 0
    pass_judged: int = 0


NAMES = {
    "FAIL (proven)": "fail_proven",
    "FAIL (judged)": "fail_judged",
    "PASS (judged)": "pass_judged",
}
"""Fields of the tally by the label of a verdict."""


@dataclass(frozen=True, kw_only=True)
class VerdictCell:
    """Audits of a known mechanism, with claims below, at and above the truth.

    From ``scores`` of models with the curve model, or from ``counts`` at one rate with the
    count model.  ``models`` are trained without the point in each base, and as many with it.
    """

    delta: float = 1e-5
    mechanism: Mechanism
    power: float = 1.0
    data: str = SCORES
    bases: int
    models: int = 100
    runs: int

    chunk: ClassVar[int] = 10

    @property
    def weight(self) -> int:
        """Approximate relative duration of a chunk: the longest are started first."""
        return self.bases * self.models * (10 if self.data == SCORES else 1)

    def claims(self) -> dict[float, float]:
        """The claimed epsilon for each factor."""
        truth = self.mechanism.epsilon(self.delta)
        return {factor: factor * (truth or 1.0) for factor in CLAIM_FACTORS}

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by factor; proofs have error probability ``significance``."""
        tallies = {factor: VerdictTally() for factor in CLAIM_FACTORS}
        for _ in range(runs):
            posterior = self._posterior(rng)
            for factor, claim in self.claims().items():
                label = "" if posterior is None else self._label(posterior, claim, significance)
                kinds = {NAMES[label]: 1} if label in NAMES else {}
                tallies[factor] += VerdictTally(runs=1, **kinds)
        return {f"{factor:g}": tally.as_dict() for factor, tally in tallies.items()}

    def _posterior(self, rng: np.random.Generator) -> Any:
        from epsilometer.engines.curve.engine import CurveSettings
        from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
        from epsilometer.model.count_model import CountModel
        from epsilometer.model.curve_model import CurveModel

        if self.data == SCORES:
            scores = draw_bases(
                self.mechanism,
                power=self.power,
                strengths=None,
                bases=self.bases,
                models=self.models,
                rng=rng,
            )
            return CurveSettings().estimate_quickly(scores, CurveModel(delta=self.delta))
        x, y = draw_counts(
            self.mechanism,
            RATE,
            power=self.power,
            trials=self.models,
            shape=(1, self.bases),
            rng=rng,
        )
        counts = AttackCounts(
            false_positives=x[0],
            trials_h0=self.models,
            false_negatives=y[0],
            trials_h1=self.models,
        )
        try:
            return estimate_exact(
                counts, CountModel(delta=self.delta), ExactSettings(tolerance=0.02)
            )
        except ContradictionError:  # no posterior, no verdict
            return None

    @staticmethod
    def _label(posterior: Any, claim: float, significance: float) -> str:
        from epsilometer.judgement.judging import result_of
        from epsilometer.judgement.question import Question

        # A single coarse resolution, as in the study of intervals, does not verify its accuracy.
        question = Question(claim=claim, accept_untrusted=True, error=significance)
        verdict = result_of(posterior, question).verdict
        assert verdict is not None
        return verdict.label
