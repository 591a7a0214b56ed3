"""Audits in one training run whose canaries interfere: proofs, bounds and intervals against the truth.

Scores of a run are drawn by a mechanism of `interference.py`.  Every method reads the same kind of data,
whether what it assumes holds there or not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.baselines.gaussian import GaussianRates
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.one_run_fdp import GaussianDP
from epsilometer.baselines.score_estimators import (
    ScoreEstimator,
    one_run_fdp_scan,
    one_run_scan,
    roc_scan,
)
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.calibration.interference import Interference
from epsilometer.calibration.tally import Sums
from epsilometer.errors import InputError
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import prove

if TYPE_CHECKING:
    from epsilometer.model.profile import ProfileModel

PROOF = "prove"
ESTIMATORS: tuple[ScoreEstimator, ...] = (
    one_run_scan(),
    one_run_scan(one_sided=False),
    one_run_fdp_scan(),
    one_run_fdp_scan(GaussianDP()),
    roc_scan(ClopperPearson()),
    roc_scan(GaussianRates()),
)
"""Beside the proof, in the order of the tables; of several runs they read all canaries as one."""

WHOLE_CURVE, AS_GAUSSIAN = "whole curve", "Gaussian, strength 1"

ROUNDING = 1e-6
"""An epsilon above the truth by no more than this is not above it: proofs are that accurate."""


@dataclass(frozen=True)
class BoundTally(Sums):
    """Of ``runs``: how often the bound was above the truth, and the sum of the bounds."""

    above: int = 0
    sum_at_least: float = 0.0

    @classmethod
    def of(cls, bound: float, *, truth: float) -> BoundTally:
        """One run."""
        return cls(runs=1, above=int(bound > truth + ROUNDING), sum_at_least=bound)

    def columns(self) -> dict[str, Any]:
        """Its columns in a table."""
        mean = round(self.sum_at_least / self.runs, 6)
        return {"runs": self.runs, "above": self.above, "mean_at_least": mean}


@dataclass(frozen=True)
class IntervalTally(Sums):
    """Of ``runs``: intervals wholly above the truth and wholly below it, and sums of quantiles."""

    above: int = 0
    below: int = 0
    sum_low: float = 0.0
    sum_median: float = 0.0
    sum_high: float = 0.0

    @classmethod
    def of(cls, quantiles: FloatArray, *, truth: float) -> IntervalTally:
        """One run: lower end, median and upper end."""
        # What threads change is far behind six decimals.
        low, median, high = np.round(quantiles, 6).tolist()
        return cls(
            runs=1,
            above=int(low > truth + ROUNDING),
            below=int(high < truth - ROUNDING),
            sum_low=low,
            sum_median=median,
            sum_high=high,
        )

    def columns(self) -> dict[str, Any]:
        """Its columns in a table."""
        sums = {"low": self.sum_low, "median": self.sum_median, "high": self.sum_high}
        return {
            "runs": self.runs,
            "covers": self.runs - self.above - self.below,
            "above": self.above,
            "below": self.below,
            **{f"mean_{end}": round(total / self.runs, 6) for end, total in sums.items()},
        }


@dataclass(frozen=True, kw_only=True)
class OneRunCell:
    """Canaries of ``training_runs`` runs, ``canaries`` in all, each in by a fair coin."""

    delta: float = 1e-5
    mechanism: Interference
    canaries: int = 1000
    training_runs: int = 1
    runs: int

    def __post_init__(self) -> None:
        each, rest = divmod(self.canaries, self.training_runs)
        if rest or each % self.mechanism.group:
            raise InputError(
                f"expected runs of whole clusters of {self.mechanism.group}, got "
                f"canaries={self.canaries} in training_runs={self.training_runs}."
            )

    def draw(self, rng: np.random.Generator) -> list[FloatPair]:
        """Scores of each run: of canaries that are not in, and of those that are."""
        found = []
        for _ in range(self.training_runs):
            member = rng.random(self.canaries // self.training_runs) < 0.5
            scores = self.mechanism.scores(member, rng)
            found.append((scores[~member], scores[member]))
        return found


def scores_of(drawn: list[FloatPair]) -> Scores:
    """As an audit has them: a base for each run."""
    without, with_point = zip(*drawn, strict=True)
    return Scores(without=without, with_point=with_point, one_run=True)


@dataclass(frozen=True, kw_only=True)
class OneRunBoundCell(OneRunCell):
    """What is proven, by each method."""

    chunk: ClassVar[int] = 100

    @property
    def weight(self) -> int:
        """How long a chunk takes, roughly."""
        return self.canaries // 100

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by method."""
        truth = self.mechanism.epsilon(self.delta)
        found = dict.fromkeys([PROOF, *(each.label for each in ESTIMATORS)], BoundTally())
        for _ in range(runs):
            for label, bound in self._bounds(self.draw(rng), significance).items():
                found[label] += BoundTally.of(bound, truth=truth)
        return {label: tally.as_dict() for label, tally in found.items()}

    def _bounds(self, drawn: list[FloatPair], error: float) -> dict[str, float]:
        without, with_point = map(np.concatenate, zip(*drawn, strict=True))
        auditor = CanaryScoreAuditor(with_point, without)

        def said(bound: Callable[[], float]) -> float:
            # Coins that look unfair are refused once in two hundred times; who refuses says nothing.
            with contextlib.suppress(InputError):
                return bound()
            return 0.0

        found = {
            PROOF: said(lambda: prove(scores_of(drawn), delta=self.delta, error=error).at_least)
        }
        for each in ESTIMATORS:
            found[each.label] = said(lambda each=each: each.lower(auditor, self.delta, error))  # type: ignore[misc]
        return found


@dataclass(frozen=True, kw_only=True)
class OneRunIntervalCell(OneRunCell):
    """Intervals of the whole-curve model, which takes canaries as independent."""

    chunk: ClassVar[int] = 10

    @property
    def weight(self) -> int:
        """How long a chunk takes, roughly."""
        return self.canaries

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by model; either end of an interval errs with ``significance``."""
        from epsilometer.inference.profile.engine import ProfileSettings

        truth, settings = self.mechanism.epsilon(self.delta), ProfileSettings()
        wanted = [significance, 0.5, 1 - significance]
        models = read_as(self.delta)
        found = dict.fromkeys(models, IntervalTally())
        for _ in range(runs):
            scores = scores_of(self.draw(rng))
            for label, model in models.items():
                quantiles = settings.estimate_quickly(scores, model).quantile("epsilon", wanted)
                found[label] += IntervalTally.of(quantiles, truth=truth)
        return {label: tally.as_dict() for label, tally in found.items()}


def read_as(delta: float) -> dict[str, ProfileModel]:
    """The models that read the scores: the default, and one curve with the best attack told."""
    from epsilometer.model.families import families_of
    from epsilometer.model.mixtures import NoMixing
    from epsilometer.model.profile import ProfileModel
    from epsilometer.model.strengths import FixedStrength

    told = ProfileModel(
        delta=delta,
        families=families_of("gaussian"),
        mixing=NoMixing(),
        strength=FixedStrength(value=1.0),
    )
    return {WHOLE_CURVE: ProfileModel(delta=delta), AS_GAUSSIAN: told}
