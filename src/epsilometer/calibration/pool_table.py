"""Results of the study of pools, one row per method and cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epsilometer.calibration.one_run import BoundTally, IntervalTally
from epsilometer.calibration.plan import StudyPlan, describe
from epsilometer.calibration.pool import MULTIPLIED, PoolBoundCell, PoolCell, PoolIntervalCell
from epsilometer.calibration.table import by_cell, within_level
from epsilometer.calibration.tally import summed

YES, NO = "yes", "no"


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A setting; ``independent`` states whether scores of a model are independent given the coins.

    ``true_epsilon`` is that of the algorithm, ``point_epsilon`` that of one score.
    """

    mechanism: str
    setting: str
    independent: str
    delta: float
    models: int
    points: int
    true_epsilon: float
    point_epsilon: float
    method: str
    runs: int


@dataclass(frozen=True, kw_only=True)
class PoolBoundRow(_Row):
    """How often a bound was above the algorithm's epsilon, and its mean."""

    above: int
    mean_at_least: float

    @property
    def control(self) -> bool:
        """Whether the method treats points as independent although they are not."""
        return self.method == MULTIPLIED and self.independent != YES

    def within_level(self, significance: float) -> bool:
        """Whether the false refutations are consistent with an error rate of ``significance``."""
        return within_level(self.above, self.runs, significance)


@dataclass(frozen=True, kw_only=True)
class PoolIntervalRow(_Row):
    """How often intervals contained the epsilon of one score, and their mean position."""

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


def _place(cell: PoolCell) -> dict[str, Any]:
    options = {key: float(value) for key, value in describe(cell)["options"].items()}  # type: ignore[arg-type]
    # A cluster is the whole pool.
    options.pop("group", None)
    return {
        "mechanism": cell.mechanism.name,
        "setting": " ".join(f"{key}={value:g}" for key, value in options.items()),
        "independent": YES if cell.mechanism.independent else NO,
        "delta": cell.delta,
        "models": cell.models,
        "points": cell.points,
        "true_epsilon": round(cell.mechanism.epsilon(cell.delta), 6),
        "point_epsilon": round(cell.mechanism.point_epsilon(cell.delta), 6),
    }


def pool_bound_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[PoolBoundRow]:
    """Rows of proofs and of the control, in the plan's order."""
    return [
        PoolBoundRow(
            **_place(cell),
            method=method,
            **tally.columns(),
        )
        for cell, job_results in by_cell(plan, results)
        if isinstance(cell, PoolBoundCell)
        for method, tally in summed(job_results, BoundTally).items()
    ]


def pool_interval_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[PoolIntervalRow]:
    """Rows of intervals, in the plan's order."""
    return [
        PoolIntervalRow(
            **_place(cell),
            method=method,
            **tally.columns(),
        )
        for cell, job_results in by_cell(plan, results)
        if isinstance(cell, PoolIntervalCell)
        for method, tally in summed(job_results, IntervalTally).items()
    ]
