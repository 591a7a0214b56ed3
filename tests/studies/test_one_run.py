"""The study of interfering canaries: drawn as specified, error rates within levels, controls caught."""

from __future__ import annotations

import numpy as np
import pytest

from studies import one_run, results
from studies.interference import Release, Separate, SharedLuck
from studies.one_run import (
    AS_GAUSSIAN,
    BOUNDS,
    CATASTROPHE,
    COVERAGE,
    GAUSSIAN_RUN,
    PROOF,
    WHOLE_CURVE,
    OneRunBoundCell,
    holds,
    interferes,
    scores_of,
)
from studies.tables import CHANCE, Row, chance_of

ROC, GAUSSIAN_ROC = "ROC scan, Clopper-Pearson", "ROC scan, Gaussian DP"


@pytest.fixture(scope="module")
def bounds() -> list[Row]:
    return results.read("one-run")[0][BOUNDS]


@pytest.fixture(scope="module")
def intervals() -> list[Row]:
    return results.read("one-run")[0][COVERAGE]


def test_several_runs_share_the_canaries() -> None:
    cell = OneRunBoundCell(mechanism=Separate(mu=1.0), canaries=400, training_runs=4, runs=1)
    drawn = cell.draw(np.random.default_rng(1))
    assert [len(without) + len(with_point) for without, with_point in drawn] == [100] * 4
    scores = scores_of(drawn)
    assert scores.one_run
    assert len(scores) == 4
    assert int(scores.trials_h1.sum()) == sum(len(with_point) for _, with_point in drawn)


def test_the_catastrophe_misleads_methods_that_assume_independence() -> None:
    """The study's control in miniature: half of the runs release all, epsilon is 0 from 1/2 on."""
    half = Release(probability=0.5, share=1.0)
    cell = OneRunBoundCell(delta=0.5, mechanism=half, canaries=200, runs=40)
    found = cell.judge("runs", 0.05, 40, np.random.default_rng(2))
    assert found[ROC]["above"] > 10
    assert found[PROOF]["above"] == found["one-run scan"]["above"] == 0


def test_unfair_coins_prove_nothing() -> None:
    """They are refused, so there is no bound; with many canaries, 4 of 5 included is refused."""
    cell = OneRunBoundCell(mechanism=Separate(mu=3.0), canaries=100, runs=1)
    rng = np.random.default_rng(3)
    found = cell.audit([(rng.normal(size=20), rng.normal(size=80) + 3)], 0.05)
    assert found[PROOF]["sum_at_least"] == 0.0
    assert found[ROC]["sum_at_least"] > 0.0


def test_what_a_method_assumes() -> None:
    def fits(method: str, *, independent: str = "no", gaussian: str = "yes") -> bool:
        return holds(Row(method=method, independent=independent, gaussian=gaussian))

    assert fits(PROOF, gaussian="no")
    assert fits("one-run scan, both ends", gaussian="no")
    assert fits(GAUSSIAN_RUN)
    assert not fits(GAUSSIAN_RUN, gaussian="no")
    assert not fits(ROC)
    assert fits(ROC, independent="yes", gaussian="no")
    assert not fits(GAUSSIAN_ROC, independent="yes", gaussian="no")
    assert not fits(WHOLE_CURVE)


# --- what is committed ------------------------------------------------------------------------


def test_truths_in_the_tables_are_those_of_the_mechanisms(bounds: list[Row]) -> None:
    proven = [cell for cell in one_run.plan().cells if isinstance(cell, OneRunBoundCell)]
    for cell, row in zip(proven, [r for r in bounds if r.method == PROOF], strict=True):
        assert row.true_epsilon == pytest.approx(cell.mechanism.epsilon(cell.delta), abs=1e-6)


def test_bounds_err_no_more_often_than_stated_where_they_may_be_used(bounds: list[Row]) -> None:
    assert all(row.fits("above", 0.05) for row in bounds if holds(row))
    # Methods that assume only fair coins are valid everywhere, however canaries interfere.
    assert all(holds(row) for row in bounds if row.method in (PROOF, "one-run scan"))
    assert sum(row.method == GAUSSIAN_RUN and holds(row) for row in bounds) > 10


def test_the_controls_are_caught(bounds: list[Row], intervals: list[Row]) -> None:
    """One in ten runs of the catastrophic failure misleads methods that assume independence."""
    own = [row for row in bounds if row.delta == 0.1 and "share=1" in row.setting.split()]
    scans = [row for row in own if row.method == ROC and row.training_runs == 1]
    assert len(scans) == 3
    for scan in scans:
        assert scan.fits("above", CATASTROPHE.probability)
        rest = chance_of(scan.runs - scan.above, scan.runs, 1 - CATASTROPHE.probability)
        assert rest > CHANCE
    assert not max(scans, key=lambda row: row.runs).fits("above", 0.05)
    assert all(row.above == 0 for row in own if row.method == PROOF)
    judged = [
        row
        for row in intervals
        if row.mechanism == CATASTROPHE.name
        and (row.canaries, row.training_runs, row.method) == (1000, 1, WHOLE_CURVE)
    ]
    assert [row.fits("above", 0.1) for row in judged] == [True]
    assert judged[0].above > 0.05 * judged[0].runs
    # An exactly Gaussian curve, modelled as such, with luck shared by the run: too high, and too low.
    luck = [r for r in intervals if r.mechanism == SharedLuck.name and r.method == AS_GAUSSIAN]
    assert any(r.above > 0.2 * r.runs and r.below > 0.2 * r.runs for r in luck)
    scan_of_luck = [
        r for r in bounds if r.mechanism == SharedLuck.name and r.method == GAUSSIAN_ROC
    ]
    assert any(row.above > 0.2 * row.runs for row in scan_of_luck)


def test_the_posterior_covers_where_canaries_are_independent(intervals: list[Row]) -> None:
    for row in intervals:
        if holds(row) and (row.true_epsilon > 0 or row.method == WHOLE_CURVE):
            assert row.covers_as_stated(0.05), row
    interfering = [row for row in intervals if interferes(row)]
    assert min(row.covers for row in interfering) == 0


def test_statements_of_the_page_follow_from_the_tables(
    bounds: list[Row], intervals: list[Row]
) -> None:
    said = " ".join(one_run.bound_text(bounds, 0.05).split())
    assert "never significantly too often" in said
    assert "NOT detected" not in said
    bad = [row.changed(above=row.runs if holds(row) else 0) for row in bounds]
    said = " ".join(one_run.bound_text(bad, 0.05).split())
    assert "**too often**" in said
    assert "NOT detected" in said
    wrong = [row.changed(covers=0, above=row.runs, below=0) for row in intervals]
    assert "**not met**" in one_run.interval_text(wrong, 0.05)
    assert "**not met**" not in one_run.interval_text(intervals, 0.05)
    assert one_run.interval_table(wrong, 0.05).count("**!**") == len(wrong)
