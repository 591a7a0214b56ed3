"""One-run audits whose canaries interfere: proofs, bounds and intervals compared with the truth.

Scores of a run are drawn from a mechanism of `interference.py`.  Every method is applied to the same
kind of data, whether or not its assumptions hold there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.baselines.catalogue import (
    ScoreEstimator,
    one_run_fdp_scan,
    one_run_scan,
    roc_scan,
)
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates
from epsilometer.baselines.one_run_fdp import GaussianDP
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.calibration.interference import Interference
from epsilometer.calibration.tally import Sums
from epsilometer.errors import InputError
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import prove

if TYPE_CHECKING:
    from epsilometer.model.curve_model import CurveModel

PROOF = "prove"
ESTIMATORS: tuple[ScoreEstimator, ...] = (
    one_run_scan(),
    one_run_scan(one_sided=False),
    one_run_fdp_scan(),
    one_run_fdp_scan(GaussianDP()),
    roc_scan(ClopperPearson()),
    roc_scan(GaussianRates()),
)
"""In addition to the proof, in table order; several runs are treated as one set of canaries."""

WHOLE_CURVE, AS_GAUSSIAN = "whole curve", "Gaussian, strength 1"

PROVEN_ABOVE_THE_TRUTH = 1e-6
"""A bound at most this far above the truth does not count as above it: the accuracy of proofs."""


@dataclass(frozen=True)
class BoundTally(Sums):
    """Number of runs, how often the bound was above the truth, and the sum of the bounds."""

    above: int = 0
    sum_at_least: float = 0.0

    @classmethod
    def of(cls, bound: float, *, truth: float) -> BoundTally:
        """One run."""
        return cls(runs=1, above=int(bound > truth + PROVEN_ABOVE_THE_TRUTH), sum_at_least=bound)

    def columns(self) -> dict[str, Any]:
        """The columns of a table row."""
        mean = round(self.sum_at_least / self.runs, 6)
        return {"runs": self.runs, "above": self.above, "mean_at_least": mean}


@dataclass(frozen=True)
class IntervalTally(Sums):
    """Number of runs, of intervals entirely above or below the truth, and sums of quantiles."""

    above: int = 0
    below: int = 0
    sum_low: float = 0.0
    sum_median: float = 0.0
    sum_high: float = 0.0

    @classmethod
    def of(cls, quantiles: FloatArray, *, truth: float) -> IntervalTally:
        """One run: lower end, median and upper end."""
        # Rounded to six decimals, since threads can change later digits.
        low, median, high = np.round(quantiles, 6).tolist()
        return cls(
            runs=1,
            above=int(low > truth + PROVEN_ABOVE_THE_TRUTH),
            below=int(high < truth - PROVEN_ABOVE_THE_TRUTH),
            sum_low=low,
            sum_median=median,
            sum_high=high,
        )

    def columns(self) -> dict[str, Any]:
        """The columns of a table row."""
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
    """Canaries of ``training_runs`` runs, ``canaries`` in total, each included by a fair coin."""

    delta: float = 1e-5
    mechanism: Interference
    canaries: int = 1000
    training_runs: int = 1
    runs: int

    def __post_init__(self) -> None:
        per_run, rest = divmod(self.canaries, self.training_runs)
        if rest or per_run % self.mechanism.group:
            raise InputError(
                f"expected runs made of whole clusters of {self.mechanism.group}, got "
                f"canaries={self.canaries} in training_runs={self.training_runs}."
            )

    def draw(self, rng: np.random.Generator) -> list[FloatPair]:
        """Scores of excluded and of included canaries, for each run."""
        runs = []
        for _ in range(self.training_runs):
            member = rng.random(self.canaries // self.training_runs) < 0.5
            scores = self.mechanism.scores(member, rng)
            runs.append((scores[~member], scores[member]))
        return runs


def scores_of(drawn: list[FloatPair]) -> Scores:
    """The scores as in an audit: one base per run."""
    without, with_point = zip(*drawn, strict=True)
    return Scores(without=without, with_point=with_point, one_run=True)


@dataclass(frozen=True, kw_only=True)
class OneRunBoundCell(OneRunCell):
    """Proven bounds, by method."""

    chunk: ClassVar[int] = 100

    @property
    def weight(self) -> int:
        """Approximate relative duration of a chunk."""
        return self.canaries // 100

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by method."""
        truth = self.mechanism.epsilon(self.delta)
        tallies = dict.fromkeys(
            [PROOF, *(estimator.label for estimator in ESTIMATORS)], BoundTally()
        )
        for _ in range(runs):
            for label, bound in self._bounds(self.draw(rng), significance).items():
                tallies[label] += BoundTally.of(bound, truth=truth)
        return {label: tally.as_dict() for label, tally in tallies.items()}

    def _bounds(self, drawn: list[FloatPair], error: float) -> dict[str, float]:
        without, with_point = map(np.concatenate, zip(*drawn, strict=True))
        auditor = CanaryScoreAuditor(with_point, without)

        def bound_or_zero(bound: Callable[[], float]) -> float:
            # Coins that look unfair are refused once in two hundred times: no bound.
            with contextlib.suppress(InputError):
                return bound()
            return 0.0

        bounds = {
            PROOF: bound_or_zero(
                lambda: prove(scores_of(drawn), delta=self.delta, error=error).at_least
            )
        }
        for estimator in ESTIMATORS:
            lower = partial(estimator.lower, auditor, self.delta, error)
            bounds[estimator.label] = bound_or_zero(lower)
        return bounds


@dataclass(frozen=True, kw_only=True)
class OneRunIntervalCell(OneRunCell):
    """Intervals of the curve model, which treats canaries as independent."""

    chunk: ClassVar[int] = 10

    @property
    def weight(self) -> int:
        """Approximate relative duration of a chunk."""
        return self.canaries

    def judge(
        self, significance: float, runs: int, rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        """Tallies by model; each end of an interval has error probability ``significance``."""
        from epsilometer.engines.curve.engine import CurveSettings

        truth, settings = self.mechanism.epsilon(self.delta), CurveSettings()
        wanted = [significance, 0.5, 1 - significance]
        models = analysis_models(self.delta)
        tallies = dict.fromkeys(models, IntervalTally())
        for _ in range(runs):
            scores = scores_of(self.draw(rng))
            for label, model in models.items():
                quantiles = settings.estimate_quickly(scores, model).quantile("epsilon", wanted)
                tallies[label] += IntervalTally.of(quantiles, truth=truth)
        return {label: tally.as_dict() for label, tally in tallies.items()}


def analysis_models(delta: float) -> dict[str, CurveModel]:
    """The models applied to the scores: the default, and a Gaussian curve with the best attack given."""
    from epsilometer.model.curve_model import CurveModel
    from epsilometer.model.families import families_of
    from epsilometer.model.mixtures import NoMixing
    from epsilometer.model.strengths import FixedStrength

    given = CurveModel(
        delta=delta,
        families=families_of("gaussian"),
        mixing=NoMixing(),
        strength=FixedStrength(value=1.0),
    )
    return {WHOLE_CURVE: CurveModel(delta=delta), AS_GAUSSIAN: given}
