"""Results of a study, one row per estimator and cell, also as CSV.

``verdict`` is "too often" if a bound exceeded the truth more often than stated, beyond chance; such a
row is a finding, never an error of the study.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from scipy.stats import binom, kstest

from epsilometer import _files
from epsilometer.baselines.catalogue import FROM_COUNTS
from epsilometer.baselines.estimator import Kind
from epsilometer.calibration.controls import CONTROLS
from epsilometer.calibration.curve import WHOLE_CURVE, CurveTally
from epsilometer.calibration.plan import (
    Cell,
    CountsCell,
    CurveCell,
    ModelCell,
    ScoresCell,
    StudyPlan,
    describe,
)
from epsilometer.calibration.study import POSTERIOR, SCORE_ESTIMATORS, Tally, jobs_of, truth_of
from epsilometer.errors import InputError
from epsilometer.model.families import AVERAGE

CHANCE = 1e-4
"""P-value below which a number of failures is not attributed to chance."""

SUSPECT = 1e-2
"""P-value below which a number of failures is highlighted."""

LARGEST_PROMISED = 5.0
"""Largest epsilon at which the curve model must cover; 11 % of its prior is beyond."""

Row = TypeVar("Row", "BoundRow", "ModelRow", "CurveRow")

WITHIN, TOO_OFTEN, NO_BOUND = "within level", "too often", "no bound"

KINDS = {
    POSTERIOR: (Kind.CREDIBLE, False),
    **{estimator.label: (estimator.kind, estimator.gaussian) for estimator in FROM_COUNTS},
    **{estimator.label: (estimator.kind, estimator.gaussian) for estimator in SCORE_ESTIMATORS},
}
"""By label: the kind, and whether the estimate concerns a covering Gaussian mechanism."""

DELIBERATE = frozenset(estimator.label for estimator in CONTROLS)
"""Labels of deliberately wrong estimators."""


@dataclass(frozen=True, kw_only=True)
class BoundRow:
    """One estimator on one known mechanism."""

    mechanism: str
    setting: str
    delta: float
    power: float
    bases: int
    trials: int
    false_positive_rate: str
    estimator: str
    kind: str
    truth: float
    runs: int
    above: int
    below: int
    mean_low: float
    mean_width: float

    @property
    def failure_rate(self) -> float:
        """How often the lower end was above the truth."""
        return self.above / self.runs

    @property
    def tightness(self) -> float:
        """Mean lower end as a share of the truth; NaN if the truth is 0."""
        return self.mean_low / self.truth if self.truth > 0 else float("nan")

    def verdict(self, significance: float) -> str:
        """Whether the bound's error rate is within its stated level, allowing for chance."""
        if self.kind not in (Kind.EXACT_BOUND, Kind.APPROXIMATE_BOUND):
            return NO_BOUND
        return WITHIN if within_level(self.above, self.runs, significance) else TOO_OFTEN


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """Coverage of the posterior's intervals under its own model."""

    likelihood: str
    bases: int
    trials: int
    parameter: str
    runs: int
    covered_50: int
    covered_80: int
    covered_90: int
    covered_95: int
    uniformity: float
    """p-value of the Kolmogorov-Smirnov test that ranks are uniform."""


class Section(StrEnum):
    """The purpose of a cell of the curve model."""

    BEST = "best attacks"
    WEAKER = "weaker attacks"
    TOLD = "sampling rate given"
    STRENGTHS = "varying strengths"
    CONTROL = "control, deliberately wrong"


@dataclass(frozen=True, kw_only=True)
class CurveRow:
    """Intervals of the curve model on one known mechanism."""

    mechanism: str
    setting: str
    power: float
    strengths: str
    bases: int
    models: int
    mixing: str
    family: str
    true_epsilon: float
    runs: int
    covers: int
    above: int
    below: int
    plain_above: int
    plain_below: int
    mean_low: float
    mean_median: float
    mean_high: float

    @property
    def section(self) -> Section:
        """The purpose of the cell."""
        if self.family != AVERAGE:
            return Section.CONTROL
        if self.strengths:
            return Section.STRENGTHS
        if self.mixing != "free":
            return Section.TOLD
        return Section.BEST if self.power == 1 else Section.WEAKER

    @property
    def short_setting(self) -> str:
        """Values of the mechanism's parameters without their names."""
        return ", ".join(part.partition("=")[2] for part in self.setting.split())

    @property
    def must_cover(self) -> bool:
        """Whether nine in ten intervals must contain the truth: best attacks, moderate epsilon."""
        expected = self.true_epsilon <= LARGEST_PROMISED or self.section is Section.TOLD
        return self.power == 1 and expected

    def chance(self, significance: float) -> float:
        """Smallest probability of at least this many failures, over those that matter; 1 if none do.

        With the best attacks at most ``significance`` of intervals may be entirely above the truth, and
        twice as many may miss it if :attr:`must_cover`.
        """
        chance = 1.0
        if self.power == 1:
            chance = chance_of(self.above, self.runs, significance)
        if self.must_cover:
            chance = min(chance, chance_of(self.runs - self.covers, self.runs, 2 * significance))
        return chance

    def mark(self, significance: float) -> str:
        """``!!`` if chance does not explain the failures, ``!`` if it hardly does."""
        chance = self.chance(significance)
        return "!!" if chance <= CHANCE else "!" if chance <= SUSPECT else ""


def chance_of(failures: int, runs: int, significance: float) -> float:
    """Probability of at least this many failures at an error rate of ``significance``.

    Examples
    --------
    >>> round(chance_of(16, 200, 0.05), 3)
    0.044
    """
    return float(binom.sf(failures - 1, runs, significance))


def within_level(failures: int, runs: int, significance: float) -> bool:
    """Whether this many failures in ``runs`` is consistent with an error rate of ``significance``.

    Examples
    --------
    >>> within_level(560, 10_000, 0.05), within_level(600, 10_000, 0.05)
    (True, False)
    """
    return chance_of(failures, runs, significance) > CHANCE


def by_cell(
    plan: StudyPlan, results: Mapping[str, Any]
) -> Iterator[tuple[Cell, list[dict[str, Any]]]]:
    """Each cell of the plan with the results of its finished jobs."""
    finished = [job for job in jobs_of(plan) if job.key in results]
    for number, cell in enumerate(plan.cells):
        yield cell, [results[job.key] for job in finished if job.cell == number]


def bound_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[BoundRow]:
    """Rows of the cells on known mechanisms, in the plan's order."""
    rows = []
    for cell, job_results in by_cell(plan, results):
        if not isinstance(cell, CountsCell | ScoresCell):
            continue
        sums: dict[str, Tally] = {}
        for result in job_results:
            for name, data in result.items():
                if name not in KINDS:
                    raise InputError(f"expected a known estimator, got {name!r}.")
                sums[name] = sums.get(name, Tally()) + Tally.from_dict(data)
        rows += [_bound_row(cell, name, sums[name]) for name in KINDS if name in sums]
    return rows


def _setting(cell: CountsCell | ScoresCell | CurveCell) -> str:
    """Parameters of the mechanism as short text."""
    return " ".join(f"{key}={value:g}" for key, value in describe(cell)["options"].items())


def _bound_row(cell: CountsCell | ScoresCell, name: str, tally: Tally) -> BoundRow:
    described = describe(cell)
    kind, gaussian = KINDS[name]
    return BoundRow(
        mechanism=cell.mechanism.name,
        setting=_setting(cell),
        delta=cell.delta,
        power=cell.power,
        bases=described.get("bases", 1),
        trials=cell.trials if isinstance(cell, CountsCell) else cell.canaries,
        false_positive_rate=str(described.get("false_positive_rate", "scores")),
        estimator=name,
        kind=str(kind),
        truth=round(truth_of(cell, gaussian), 6),
        runs=tally.runs,
        above=tally.above,
        below=tally.below,
        mean_low=round(tally.sum_low / max(tally.runs, 1), 6),
        mean_width=round(tally.sum_width / tally.bounded, 6) if tally.bounded else np.inf,
    )


def model_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[ModelRow]:
    """Rows of the cells under the model itself."""
    rows = []
    for cell, job_results in by_cell(plan, results):
        if not isinstance(cell, ModelCell) or not job_results:
            continue
        for parameter in sorted(job_results[0]["ranks"]):
            ranks = np.array(
                [float(rank) for one in job_results for rank in one["ranks"][parameter]]
            )
            covered = {
                f"covered_{level}": int(np.sum(np.abs(ranks - 0.5) <= level / 200))
                for level in (50, 80, 90, 95)
            }
            rows.append(
                ModelRow(
                    likelihood=cell.likelihood,
                    bases=cell.bases,
                    trials=cell.trials,
                    parameter=parameter,
                    runs=len(ranks),
                    **covered,
                    uniformity=round(float(kstest(ranks, "uniform").pvalue), 6),
                )
            )
    return rows


def curve_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[CurveRow]:
    """Rows of the cells of the curve model, in the plan's order."""
    rows = []
    for cell, job_results in by_cell(plan, results):
        if not isinstance(cell, CurveCell) or not job_results:
            continue
        tally = CurveTally()
        for result in job_results:
            if set(result) != {WHOLE_CURVE}:
                raise InputError(f"expected a known estimator, got {', '.join(result)}.")
            tally += CurveTally.from_dict(result[WHOLE_CURVE])
        rows.append(_curve_row(cell, tally))
    return rows


def _curve_row(cell: CurveCell, tally: CurveTally) -> CurveRow:
    law, runs = cell.strengths, tally.runs
    return CurveRow(
        mechanism=cell.mechanism.name,
        setting=_setting(cell),
        power=cell.power,
        strengths="" if law is None else f"Beta({law[0]:g}, {law[1]:g})",
        bases=cell.bases,
        models=cell.models,
        mixing=str(cell.mixing),
        family=cell.family,
        true_epsilon=round(cell.mechanism.epsilon(cell.delta), 6),
        runs=runs,
        covers=runs - tally.above - tally.below,
        above=tally.above,
        below=tally.below,
        plain_above=tally.plain_above,
        plain_below=tally.plain_below,
        mean_low=round(tally.sum_low / runs, 6),
        mean_median=round(tally.sum_median / runs, 6),
        mean_high=round(tally.sum_high / runs, 6),
    )


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One estimator over all cells."""

    estimator: str
    kind: str
    cells: int
    worst: BoundRow
    too_often: int
    tightness: float
    """Median over mechanisms with a positive truth and the best attacks; NaN without any."""


def summarise_bounds(rows: Iterable[BoundRow], significance: float) -> list[Summary]:
    """The worst case of each estimator, and how close to the truth it came."""
    by_place = sorted(rows, key=lambda row: list(KINDS).index(row.estimator))
    summaries = []
    for name, group in groupby(by_place, key=lambda row: row.estimator):
        estimator_rows = list(group)
        near = [row.tightness for row in estimator_rows if row.truth > 0 and row.power == 1]
        summaries.append(
            Summary(
                estimator=name,
                kind=estimator_rows[0].kind,
                cells=len(estimator_rows),
                worst=max(estimator_rows, key=lambda row: row.failure_rate),
                too_often=sum(row.verdict(significance) == TOO_OFTEN for row in estimator_rows),
                tightness=float(np.median(near)) if near else float("nan"),
            )
        )
    return summaries


def to_csv(rows: Iterable[Any], kind: type[Any]) -> str:
    """The rows as CSV text that `from_csv` reads."""
    names = [field.name for field in fields(kind)]
    return _files.csv_text(names, [[getattr(row, name) for name in names] for row in rows])


def from_csv(text: str, kind: type[Row], *, name: str) -> list[Row]:
    """Rows of a table written by `to_csv`."""
    columns = {field.name: field.type for field in fields(kind)}
    convert = {"int": int, "float": float, "str": str}
    rows = []
    for record, place in _files.records(text, list(columns), name=name):
        try:
            rows.append(kind(**{key: convert[str(columns[key])](record[key]) for key in record}))
        except ValueError as error:
            raise InputError(f"{place}: {error}.") from None
    return rows
