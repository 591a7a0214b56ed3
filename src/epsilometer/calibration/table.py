"""What a study found, a row for each estimator in each cell, and as CSV.

``verdict`` is "too often" where a bound was above the truth more often than it says, beyond what chance
explains; such a row is a finding, never an error of the study.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import numpy as np
from scipy.stats import binom, kstest

from epsilometer import _files
from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES
from epsilometer.baselines.estimator import CountEstimator, Kind
from epsilometer.baselines.score_estimators import ScoreEstimator
from epsilometer.calibration.attacks import OneRate
from epsilometer.calibration.controls import CONTROLS
from epsilometer.calibration.plan import (
    CountsCell,
    ModelCell,
    ScoresCell,
    StudyPlan,
)
from epsilometer.calibration.study import PEERS_RULE, POSTERIOR, jobs_of
from epsilometer.calibration.tally import Tally
from epsilometer.errors import InputError
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

CHANCE = 1e-4
"""Probability below which a number of failures is not put down to chance."""

Row = TypeVar("Row", "BoundRow", "ModelRow")

KEPT, TOO_OFTEN, NO_BOUND = "kept", "too often", "no bound"

_ALL: tuple[CountEstimator | ScoreEstimator, ...] = (
    *FROM_COUNTS,
    *FROM_SCORES,
    PEERS_RULE,
    *CONTROLS,
)
KINDS: dict[str, tuple[Kind, bool]] = {POSTERIOR: (Kind.CREDIBLE, False)} | {
    estimator.label: (estimator.kind, estimator.gaussian) for estimator in _ALL
}
"""What is known by which label: its kind, and whether it is about a covering Gaussian mechanism."""

DELIBERATE = frozenset(estimator.label for estimator in CONTROLS)
"""Labels of estimators that are wrong on purpose."""


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
        """Mean lower end as a share of the truth; NaN where the truth is 0."""
        return self.mean_low / self.truth if self.truth > 0 else float("nan")

    def verdict(self, significance: float) -> str:
        """Whether the bound kept its word, judged against chance."""
        if self.kind not in (Kind.EXACT_BOUND, Kind.APPROXIMATE_BOUND):
            return NO_BOUND
        return KEPT if keeps(self.above, self.runs, significance) else TOO_OFTEN


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
    """p-value of Kolmogorov and Smirnov's test that ranks are uniform."""


def keeps(failures: int, runs: int, significance: float) -> bool:
    """Whether so many failures of ``runs`` may be chance at an error of ``significance``.

    Examples
    --------
    >>> keeps(560, 10_000, 0.05), keeps(600, 10_000, 0.05)
    (True, False)
    """
    return bool(binom.sf(failures - 1, runs, significance) > CHANCE)


def bound_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[BoundRow]:
    """Rows of the cells on known mechanisms, in the plan's order."""
    sums: dict[tuple[int, str], Tally] = {}
    for job in jobs_of(plan):
        if isinstance(plan.cells[job.cell], ModelCell) or job.key not in results:
            continue
        for name, data in results[job.key].items():
            if name not in KINDS:
                raise InputError(f"expected an estimator that is known, got {name!r}.")
            key = (job.cell, name)
            sums[key] = sums.get(key, Tally()) + Tally.from_dict(data)
    order = list(KINDS)
    rows = []
    for (number, name), tally in sorted(
        sums.items(), key=lambda item: (item[0][0], order.index(item[0][1]))
    ):
        cell = plan.cells[number]
        assert isinstance(cell, CountsCell | ScoresCell)
        kind, gaussian = KINDS[name]
        truth = cell.mechanism.epsilon(cell.delta)
        if gaussian:
            truth = float(epsilon_of_gaussian(cell.mechanism.separation(), cell.delta))
        options = asdict(cell.mechanism)  # type: ignore[call-overload]
        bounded = max(tally.bounded, 1)
        rows.append(
            BoundRow(
                mechanism=cell.mechanism.name,
                setting=" ".join(f"{key}={value:g}" for key, value in options.items()),
                delta=cell.delta,
                power=cell.power,
                bases=cell.bases if isinstance(cell, CountsCell) else 1,
                trials=cell.trials if isinstance(cell, CountsCell) else cell.canaries,
                false_positive_rate=_rate(cell),
                estimator=name,
                kind=str(kind),
                truth=round(truth, 6),
                runs=tally.runs,
                above=tally.above,
                below=tally.below,
                mean_low=round(tally.sum_low / max(tally.runs, 1), 6),
                mean_width=round(tally.sum_width / bounded, 6) if tally.bounded else np.inf,
            )
        )
    return rows


def _rate(cell: CountsCell | ScoresCell) -> str:
    if isinstance(cell, ScoresCell):
        return "scores"
    return f"{cell.rates.alpha:g}" if isinstance(cell.rates, OneRate) else "any"


def model_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[ModelRow]:
    """Rows of the cells under the model itself."""
    found: dict[tuple[int, str], list[float]] = {}
    for job in jobs_of(plan):
        if isinstance(plan.cells[job.cell], ModelCell) and job.key in results:
            for parameter, values in results[job.key]["ranks"].items():
                found.setdefault((job.cell, parameter), []).extend(map(float, values))
    rows = []
    for (number, parameter), values in sorted(found.items()):
        cell = plan.cells[number]
        assert isinstance(cell, ModelCell)
        ranks = np.array(values)
        covered = {
            level: int(np.sum(np.abs(ranks - 0.5) <= level / 200)) for level in (50, 80, 90, 95)
        }
        rows.append(
            ModelRow(
                likelihood=cell.likelihood,
                bases=cell.bases,
                trials=cell.trials,
                parameter=parameter,
                runs=len(ranks),
                covered_50=covered[50],
                covered_80=covered[80],
                covered_90=covered[90],
                covered_95=covered[95],
                uniformity=round(float(kstest(ranks, "uniform").pvalue), 6),
            )
        )
    return rows


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One estimator over all cells."""

    estimator: str
    kind: str
    cells: int
    worst: BoundRow
    too_often: int
    tightness: float
    """Median over mechanisms with a positive truth, attacked as well as can be; NaN without any."""


def summarise_bounds(rows: Iterable[BoundRow], significance: float) -> list[Summary]:
    """The worst each estimator did, and how near to the truth it came."""
    by_name: dict[str, list[BoundRow]] = {}
    for row in rows:
        by_name.setdefault(row.estimator, []).append(row)
    found = []
    for name in sorted(by_name, key=list(KINDS).index):
        own = by_name[name]
        near = [row.tightness for row in own if row.truth > 0 and row.power == 1]
        found.append(
            Summary(
                estimator=name,
                kind=own[0].kind,
                cells=len(own),
                worst=max(own, key=lambda row: row.failure_rate),
                too_often=sum(row.verdict(significance) == TOO_OFTEN for row in own),
                tightness=float(np.median(near)) if near else float("nan"),
            )
        )
    return found


def to_csv(rows: Iterable[BoundRow] | Iterable[ModelRow], kind: type[BoundRow | ModelRow]) -> str:
    """The rows as a table that `from_csv` reads back."""
    names = [field.name for field in fields(kind)]
    return _files.csv_text(names, [[getattr(row, name) for name in names] for row in rows])


def from_csv(text: str, kind: type[Row], *, name: str) -> list[Row]:
    """Rows of a table that `to_csv` wrote."""
    columns = {field.name: field.type for field in fields(kind)}
    header, cells, places = _files.table(text, list(columns), name=name)
    _files.check_columns(header, list(columns), where=f"{name} row 1")
    convert = {"int": int, "float": float, "str": str}
    rows = []
    for place, row in zip(places, cells, strict=True):
        try:
            values = {
                column: convert[str(columns[column])](cell)
                for column, cell in zip(header, row, strict=True)
            }
        except ValueError as error:
            raise InputError(f"{place}: {error}.") from None
        rows.append(kind(**values))
    return rows
