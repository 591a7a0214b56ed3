"""The study of bounds and of the count model: rows of every estimator, the controls detected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES
from epsilometer.checks.selftest import CONTROLS
from studies import count, results
from studies.count import (
    BOUNDS,
    COVERAGE,
    DELIBERATE,
    ESTIMATORS,
    POSTERIOR,
    CountsCell,
    ScoresCell,
    by_estimator,
    is_bound,
)
from studies.mechanisms import LaplaceMechanism, Null
from studies.runner import Cell, Plan, jobs_of, run_job, run_study, tables_of, tallied
from studies.tables import chance_of
from tests.studies.test_runner import SMALL


def test_every_estimator_has_its_row() -> None:
    tables = tables_of(SMALL, {job.key: run_job(SMALL, job) for job in jobs_of(SMALL)})
    rows = tables[BOUNDS]
    assert {row.estimator for row in rows} == set(ESTIMATORS)
    # Labels are unique, otherwise a table would add them up.
    assert len(ESTIMATORS) == len(FROM_COUNTS) + len(FROM_SCORES) + len(CONTROLS) + 2
    for row in rows:
        posterior = row.estimator == POSTERIOR
        assert row.runs == (2 if posterior else 40 if row.mechanism == "Laplace" else 120)
    found = [(row.parameter, row.runs) for row in tables[COVERAGE]]
    assert found == [("epsilon", 3), ("strength", 3)]


def nominal_plan(runs: int, score_runs: int) -> Plan:
    """Null and Laplace, attacked so well that exact bounds have no slack but their own."""
    cells: list[Cell] = []
    for mechanism in (Null(), LaplaceMechanism(1.0)):
        cells += [
            CountsCell(
                mechanism=mechanism, rate=0.1, power=1.0, trials=trials, bases=bases, runs=runs
            )
            for trials in ((100,) if runs < 10_000 else (100, 1000))
            for bases in (1, 5)
        ]
        cells.append(ScoresCell(mechanism=mechanism, power=1.0, canaries=400, runs=score_runs))
    return Plan(cells=tuple(cells), seed=3)


@pytest.mark.parametrize(
    ("runs", "score_runs"), [(1500, 40), pytest.param(10_000, 10_000, marks=pytest.mark.slow)]
)
def test_every_bound_is_within_its_level_and_the_control_is_not(
    runs: int, score_runs: int, tmp_path: Path
) -> None:
    plan = nominal_plan(runs, score_runs)
    workers = 1 if runs < 10_000 else 2
    found = run_study(plan, tmp_path / "study.jsonl", workers=workers)
    rows = by_estimator(tables_of(plan, found)[BOUNDS])
    assert len(rows) == len(ESTIMATORS) - 3  # without the posterior and two point estimates
    for estimator, own in rows.items():
        if estimator not in DELIBERATE:
            assert all(row.fits("above", 0.05) for row in own), estimator
            # And not trivially: each comes close to the truth on Laplace.
            best = max(row.mean_low / row.truth for row in own if row.truth)
            assert 0.05 < best < 1.2, estimator
    worst = [row for row in rows[CONTROLS[-1].label] if not row.fits("above", 0.05)]
    assert {row.mechanism for row in worst} == {"null", "Laplace"}


def test_tallies_of_ends() -> None:
    low, high = np.array([0.0, 1.5, 0.5, 1.0]), np.array([0.9, np.inf, 2.0, 1.0])
    found = count._tally(low, high, 1.0)
    assert (found["above"], found["below"], found["runs"], found["bounded"]) == (1, 1, 4, 3)


def test_published_numbers_come_out_again() -> None:
    """The random numbers of a setting are those of the committed results."""
    cell = count.plan().cells[7]
    assert isinstance(cell, CountsCell)
    plan = Plan(cells=(cell,))
    tallies = tallied(run_job(plan, job) for job in jobs_of(plan) if job.part == "runs")
    known = [vars(row) for row in results.read("count")[0][BOUNDS]]
    rows = [columns for _, columns in cell.rows(tallies)]
    assert len(rows) > 5
    assert all(row in known for row in rows)


def test_no_bound_errs_too_often_and_the_posterior_covers_under_its_own_model() -> None:
    """What the page and README say, from the committed tables."""
    tables = results.read("count")[0]
    wrong = {r.estimator for r in tables[BOUNDS] if is_bound(r) and not r.fits("above", 0.05)}
    assert wrong - {count.PEERS_RULE.label} == DELIBERATE
    for row in tables[COVERAGE]:
        for level in count.LEVELS:
            covered = getattr(row, f"covered_{level}")
            assert chance_of(covered, row.runs, level / 100) > 1e-4, row
            assert chance_of(row.runs - covered, row.runs, 1 - level / 100) > 1e-4, row
