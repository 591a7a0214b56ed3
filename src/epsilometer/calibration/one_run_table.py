"""Results of the study of interfering canaries, one row per method and cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epsilometer.calibration.one_run import (
    AS_GAUSSIAN,
    ESTIMATORS,
    PROOF,
    WHOLE_CURVE,
    BoundTally,
    IntervalTally,
    OneRunBoundCell,
    OneRunIntervalCell,
)
from epsilometer.calibration.plan import StudyPlan, describe
from epsilometer.calibration.table import by_cell, within_level
from epsilometer.calibration.tally import summed

YES, NO = "yes", "no"

ASSUMED = {each.label: (not each.one_run, each.gaussian) for each in ESTIMATORS} | {
    PROOF: (False, False),
    WHOLE_CURVE: (True, False),
    AS_GAUSSIAN: (True, True),
}
"""Whether a method treats canaries as independent, and whether it treats the curve as Gaussian."""


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A setting; ``independent`` and ``gaussian`` describe the mechanism."""

    mechanism: str
    setting: str
    independent: str
    gaussian: str
    delta: float
    canaries: int
    training_runs: int
    true_epsilon: float
    method: str
    runs: int

    @property
    def interferes(self) -> bool:
        """Whether the method treats canaries as independent although they are not."""
        return ASSUMED[self.method][0] and self.independent != YES

    @property
    def wrong_curve(self) -> bool:
        """Whether the method treats the curve as Gaussian although it is not."""
        return ASSUMED[self.method][1] and self.gaussian != YES

    @property
    def holds(self) -> bool:
        """Whether the assumptions of the method hold."""
        return not (self.interferes or self.wrong_curve)


@dataclass(frozen=True, kw_only=True)
class OneRunBoundRow(_Row):
    """How often a bound was above the truth, and its mean."""

    above: int
    mean_at_least: float

    def within_level(self, significance: float) -> bool:
        """Whether the false refutations are consistent with an error rate of ``significance``."""
        return within_level(self.above, self.runs, significance)


@dataclass(frozen=True, kw_only=True)
class OneRunIntervalRow(_Row):
    """How often intervals contained the truth, and their mean position."""

    covers: int
    above: int
    below: int
    mean_low: float
    mean_median: float
    mean_high: float

    def within_level(self, significance: float) -> bool:
        """Whether the intervals above the truth, and those that miss it, are consistent with chance."""
        missed = self.runs - self.covers
        return within_level(self.above, self.runs, significance) and within_level(
            missed, self.runs, 2 * significance
        )


def _place(cell: OneRunBoundCell | OneRunIntervalCell) -> dict[str, Any]:
    options = describe(cell)["options"]
    return {
        "mechanism": cell.mechanism.name,
        "setting": " ".join(f"{key}={value:g}" for key, value in options.items()),
        "independent": YES if cell.mechanism.independent else NO,
        "gaussian": YES if cell.mechanism.gaussian else NO,
        "delta": cell.delta,
        "canaries": cell.canaries,
        "training_runs": cell.training_runs,
        "true_epsilon": round(cell.mechanism.epsilon(cell.delta), 6),
    }


def one_run_bound_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[OneRunBoundRow]:
    """Rows of proofs and bounds, in the plan's order."""
    return [
        OneRunBoundRow(
            **_place(cell),
            method=method,
            **tally.columns(),
        )
        for cell, job_results in by_cell(plan, results)
        if isinstance(cell, OneRunBoundCell)
        for method, tally in summed(job_results, BoundTally).items()
    ]


def one_run_interval_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[OneRunIntervalRow]:
    """Rows of intervals, in the plan's order."""
    return [
        OneRunIntervalRow(**_place(cell), method=method, **tally.columns())
        for cell, job_results in by_cell(plan, results)
        if isinstance(cell, OneRunIntervalCell)
        for method, tally in summed(job_results, IntervalTally).items()
    ]
