"""Audits of pools whose truth is known: points share models, and their scores depend on each other.

Every model is a run of a mechanism of `interference.py` on fair coins of all points.  There are two
truths. A claim concerns the algorithm: a flip of one coin while all others are fixed, with everything
visible; proofs are compared with that.  One score, with the other coins random, reveals no more than
``point_epsilon``; posteriors by point are compared with that, since it is all they can see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.errors import InputError
from epsilometer.model.models import CurveModel
from epsilometer.model.pool_scores import PoolScores
from epsilometer.proofs.refuting import largest_refuted
from epsilometer.proofs.shared_models import SharedModels
from studies.interference import (
    Failures,
    PoolMechanism,
    Separate,
    SharedLuck,
    SharedNoise,
    SpillOver,
)
from studies.one_run import WHOLE_CURVE
from studies.runner import Cell, Plan, Tallies, bound_tally, interval_tally
from studies.tables import Row, Tables, flagged, markdown, most, paragraph

BOUNDS, COVERAGE = "bounds.csv", "coverage.csv"
PROOF, BY_POINT, BY_MODEL = "prove", "by point alone", "by model alone"
#: The control: bets by point, multiplied as if every point had its own models.
MULTIPLIED = "points multiplied"


@dataclass(frozen=True, kw_only=True)
class PoolCell(Cell):
    """``models`` models on random halves of ``points`` points."""

    delta: float = 1e-5
    mechanism: PoolMechanism
    models: int
    points: int

    def __post_init__(self) -> None:
        if self.points % self.mechanism.group:
            raise InputError(
                f"expected whole clusters of {self.mechanism.group}, got points={self.points}."
            )

    def draw(self, rng: np.random.Generator) -> PoolScores:
        """Scores of one pool."""
        member = rng.random((self.models, self.points)) < 0.5
        value = np.stack([self.mechanism.scores(coins, rng) for coins in member])
        return PoolScores(value=value, member=member, fair_coins=True)

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        return self.audit(self.draw(rng), significance)

    def audit(self, pool: PoolScores, significance: float) -> Tallies:
        """Tallies of one audit, by method."""
        raise NotImplementedError

    def place(self) -> dict[str, Any]:
        # A cluster is the whole pool: its size is no part of the setting.
        words = [word for word in self.setting().split() if not word.startswith("group=")]
        return {
            "mechanism": self.mechanism.name,
            "setting": " ".join(words),
            "independent": "yes" if self.mechanism.independent else "no",
            "delta": self.delta,
            "models": self.models,
            "points": self.points,
            "true_epsilon": round(self.mechanism.epsilon(self.delta), 6),
            "point_epsilon": round(self.mechanism.point_epsilon(self.delta), 6),
        }


@dataclass(frozen=True, kw_only=True)
class PoolBoundCell(PoolCell):
    """Proven bounds, and those that multiplying points would give."""

    chunk: ClassVar[int] = 50
    table: ClassVar[str] = BOUNDS

    def audit(self, pool: PoolScores, significance: float) -> Tallies:
        truth = self.mechanism.epsilon(self.delta)
        found = bounds_of(pool, self.delta, significance)
        return {method: bound_tally(bound, truth) for method, bound in found.items()}


def bounds_of(pool: PoolScores, delta: float, error: float) -> dict[str, float]:
    """The bound of each method for a pool."""
    shared_models = SharedModels.of_pool(pool)
    by_point = shared_models.by_point
    multiplied = replace(by_point, independent=True)
    return {
        PROOF: largest_refuted(shared_models, delta, error),
        BY_POINT: largest_refuted(by_point, delta, error),
        BY_MODEL: shared_models.bound_by_model(delta, error),
        MULTIPLIED: largest_refuted(multiplied, delta, error),
    }


@dataclass(frozen=True, kw_only=True)
class PoolIntervalCell(PoolCell):
    """Intervals of the curve model by point, which treats points as independent."""

    table: ClassVar[str] = COVERAGE

    def audit(self, pool: PoolScores, significance: float) -> Tallies:
        truth, model = self.mechanism.point_epsilon(self.delta), CurveModel(delta=self.delta)
        posterior = CurveSettings().estimate_quickly(pool.by_point(), model)
        quantiles = posterior.quantile("epsilon", [significance, 0.5, 1 - significance])
        return {WHOLE_CURVE: interval_tally(quantiles, truth)}


# --- the plan ---------------------------------------------------------------------------------------

#: By number of points: how many audits for proofs and for intervals.
RUNS = {20: (500, 100), 200: (250, 50)}

#: Models and points of the pools for which the posterior is computed, which takes long.
INTERVALS = ((16, 20), (128, 20), (128, 200))


def pooled(points: int) -> tuple[tuple[float, PoolMechanism], ...]:
    """Mechanisms for ``points`` points, each with the delta at which it is evaluated."""
    spread = round(1 / (points - 1) ** 0.5, 3)
    return (
        (1e-5, Separate(mu=0.0)),
        (1e-5, SharedNoise(mu=0.0, group=points, correlation=0.5)),
        (1e-5, Separate(mu=1.0)),
        (1e-5, SharedNoise(mu=1.0, group=points, correlation=0.5)),
        (1e-5, SharedNoise(mu=1.0, group=points, correlation=0.9)),
        (1e-5, SpillOver(mu=1.0, group=points, spill=spread)),
        (1e-5, SharedLuck(mu=1.0, group=points)),
        (0.1, Failures(response=0.0, probability=0.1)),
        (0.1, Failures(response=1.0, probability=0.1)),
        (0.1, Failures(response=1.0, probability=0.1, shared=False)),
    )


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, the null, a Gaussian mechanism with shared noise, and failures."""
    cells: list[Cell] = []
    if quick:
        for delta, mechanism in (pooled(20)[number] for number in (0, 4, 7)):
            place: dict[str, Any] = {"delta": delta, "mechanism": mechanism}
            place |= {"models": 64, "points": 20}
            cells += [PoolBoundCell(**place, runs=200), PoolIntervalCell(**place, runs=20)]
        return Plan(cells=tuple(cells))
    for points, (runs, interval_runs) in RUNS.items():
        for models in (16, 64, 128):
            for delta, mechanism in pooled(points):
                place = {"delta": delta, "mechanism": mechanism, "models": models, "points": points}
                cells.append(PoolBoundCell(**place, runs=runs))
                if (models, points) in INTERVALS:
                    cells.append(PoolIntervalCell(**place, runs=interval_runs))
    return Plan(cells=tuple(cells))


# --- the page ---------------------------------------------------------------------------------------


def is_control(row: Row) -> bool:
    """Whether the method treats points as independent although they are not."""
    return bool(row.method == MULTIPLIED and row.independent != "yes")


def _place(row: Row) -> str:
    return f"{row.name}, {row.models} models, {row.points} points"


def _first_cells(row: Row, truth: float) -> list[str]:
    return [row.name, f"{row.delta:g}", f"{row.models} x {row.points}", f"{truth:.2f}"]


def bound_table(rows: list[Row], error: float) -> str:
    """False refutations and mean bound of each method."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        cells = lines.setdefault(_place(row), _first_cells(row, row.true_epsilon))
        shown = f"*{row.percent('above')}*" if is_control(row) else row.percent("above")
        cells.append(f"{flagged(shown, row.fits('above', error))} ({row.mean_at_least:.2f})")
    methods = dict.fromkeys(row.method for row in rows)
    return markdown(["mechanism", "δ", "models x points", "true ε", *methods], lines.values())


def interval_table(rows: list[Row], error: float) -> str:
    """Intervals, one row per setting."""
    own = ("covers", "above", "below", "mean 5/50/95 %", "runs")
    return markdown(
        ["mechanism", "δ", "models x points", "ε of one score", *own],
        [
            [
                *_first_cells(row, row.point_epsilon),
                flagged(row.percent("covers"), row.covers_as_stated(error)),
                *(row.percent(column) for column in ("above", "below")),
                row.middle,
                row.runs,
            ]
            for row in rows
        ],
    )


def bound_text(rows: list[Row], error: float) -> str:
    """Summary of the table of bounds."""
    said = []
    for method in (PROOF, BY_POINT, BY_MODEL):
        own = [row for row in rows if row.method == method]
        worst = most(own, "above")
        broken = sum(not row.fits("above", error) for row in own)
        end = f"**too often** in {broken} settings" if broken else "never significantly too often"
        at = f" ({_place(worst)})" if worst.above else ""
        said.append(
            f"*{method}*: above the true ε in at most {worst.percent('above')} of audits{at}; {end}."
        )
    worst = most(filter(is_control, rows), "above")
    caught = ": the control was NOT detected" if worst.fits("above", error) else ""
    said.append(
        f"The negative control, *{MULTIPLIED}*, if points depend on each other: up to "
        f"{worst.percent('above')} ({_place(worst)}){caught}."
    )
    return paragraph(" ".join(said))


def _kind(row: Row) -> str:
    return str(row.mechanism if row.mechanism == Failures.name else row.independent)


def interval_text(rows: list[Row], error: float) -> str:
    """Summary of the table of intervals."""
    said = []
    for kind, what in (
        ("yes", "Independent points"),
        ("no", "Points with shared effects"),
        (Failures.name, "Failures, shared or not (a curve outside all families)"),
    ):
        own = [row for row in rows if kind == _kind(row)]
        if not own:
            continue
        least = min(own, key=lambda row: row.share("covers"))
        high, low = most(own, "above"), most(own, "below")
        broken = sum(not row.covers_as_stated(error) for row in own)
        end = "stated rates met in all settings"
        if broken:
            end = f"stated rates **not met** in {broken} of {len(own)}"
        said.append(
            f"**{what}.** Covers {least.percent('covers')} or more ({_place(least)}); above in up to "
            f"{high.percent('above')} ({_place(high)}), below in up to {low.percent('below')} "
            f"({_place(low)}); {end}."
        )
    return paragraph(" ".join(said))


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Text and tables of the page, by mark."""
    bounds, intervals = tables[BOUNDS], tables[COVERAGE]
    return {
        "pool-bound-text": bound_text(bounds, significance),
        "pool-bounds": bound_table(bounds, significance),
        "pool-interval-text": interval_text(intervals, significance),
        "pool-intervals": interval_table(intervals, significance),
    }
