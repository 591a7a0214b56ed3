"""What the study of interfering canaries found, a row for each method in each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epsilometer.calibration.interference import Interference
from epsilometer.calibration.one_run import (
    ESTIMATORS,
    BoundTally,
    IntervalTally,
    OneRunBoundCell,
    OneRunCell,
    OneRunIntervalCell,
)
from epsilometer.calibration.plan import StudyPlan, describe
from epsilometer.calibration.table import by_cell, keeps
from epsilometer.calibration.tally import summed

YES, NO = "yes", "no"


@dataclass(frozen=True, kw_only=True)
class OneRunBoundRow:
    """How often a bound was above the truth; ``holds`` says whether what it assumes is true there."""

    mechanism: str
    setting: str
    delta: float
    canaries: int
    training_runs: int
    true_epsilon: float
    method: str
    holds: str
    runs: int
    above: int
    mean_at_least: float

    def kept(self, significance: float) -> bool:
        """Whether so many false refutations may be chance at an error of ``significance``."""
        return keeps(self.above, self.runs, significance)


@dataclass(frozen=True, kw_only=True)
class OneRunIntervalRow:
    """How often intervals held the truth; ``holds`` says whether what the model assumes is true."""

    mechanism: str
    setting: str
    delta: float
    canaries: int
    training_runs: int
    true_epsilon: float
    read_as: str
    holds: str
    runs: int
    covers: int
    above: int
    below: int
    mean_low: float
    mean_median: float
    mean_high: float

    def kept(self, significance: float) -> bool:
        """Whether chance explains how many lie wholly above, and how many miss at either end."""
        missed = self.runs - self.covers
        return keeps(self.above, self.runs, significance) and keeps(
            missed, self.runs, 2 * significance
        )


def holds(method: str, mechanism: Interference) -> bool:
    """Whether what a method assumes is true of a mechanism; the proof assumes fair coins only."""
    for each in ESTIMATORS:
        if each.label == method:
            curve = mechanism.gaussian or not each.gaussian
            return curve and (each.one_run or mechanism.independent)
    return True


def _place(cell: OneRunCell) -> dict[str, Any]:
    options = describe(cell)["options"]  # type: ignore[arg-type]  # both kinds are cells of a plan
    return {
        "mechanism": cell.mechanism.name,
        "setting": " ".join(f"{key}={value:.3g}" for key, value in options.items()),
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
            holds=YES if holds(method, cell.mechanism) else NO,
            runs=tally.runs,
            above=tally.above,
            mean_at_least=round(tally.sum_at_least / tally.runs, 6),
        )
        for cell, found in by_cell(plan, results)
        if isinstance(cell, OneRunBoundCell)
        for method, tally in summed(found, BoundTally).items()
    ]


def one_run_interval_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[OneRunIntervalRow]:
    """Rows of intervals, in the plan's order."""
    rows = []
    for cell, found in by_cell(plan, results):
        if not isinstance(cell, OneRunIntervalCell):
            continue
        assumed = cell.mechanism.independent and cell.mechanism.gaussian
        for name, tally in summed(found, IntervalTally).items():
            rows.append(
                OneRunIntervalRow(
                    **_place(cell),
                    read_as=name,
                    holds=YES if assumed else NO,
                    runs=tally.runs,
                    covers=tally.runs - tally.above - tally.below,
                    above=tally.above,
                    below=tally.below,
                    mean_low=round(tally.sum_low / tally.runs, 6),
                    mean_median=round(tally.sum_median / tally.runs, 6),
                    mean_high=round(tally.sum_high / tally.runs, 6),
                )
            )
    return rows
