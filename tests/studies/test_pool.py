"""The study of pools: truths, the control, and what is said of the results."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from epsilometer.errors import InputError
from epsilometer.proofs.proof import prove
from studies import pool, results
from studies.interference import Failures, Separate, SharedNoise, SpillOver
from studies.pool import (
    BOUNDS,
    BY_MODEL,
    BY_POINT,
    COVERAGE,
    MULTIPLIED,
    PROOF,
    PoolBoundCell,
    PoolIntervalCell,
    bounds_of,
    is_control,
)
from studies.tables import Row

CATASTROPHE = Failures(response=0.0, probability=0.1)


@pytest.fixture(scope="module")
def bounds() -> list[Row]:
    return results.read("pool")[0][BOUNDS]


@pytest.fixture(scope="module")
def intervals() -> list[Row]:
    return results.read("pool")[0][COVERAGE]


# --- truths -------------------------------------------------------------------------------------


def test_what_one_score_shows() -> None:
    """Spill-over is nearly normal if many points spill a little, and smallest if nothing does."""
    mechanism = SpillOver(mu=1.0, group=401, spill=0.05)
    spread = np.sqrt(1 + 400 * 0.05**2 / 4)
    near = Separate(mu=1 / spread).epsilon(1e-3)
    assert mechanism.point_epsilon(1e-3) == pytest.approx(near, rel=2e-3)
    assert mechanism.point_epsilon(1e-3) < Separate(mu=1.0).epsilon(1e-3) < mechanism.epsilon(1e-3)
    noise = SharedNoise(mu=1.0, group=20, correlation=0.9)
    assert noise.point_epsilon(1e-5) == Separate(mu=1.0).epsilon(1e-5) < noise.epsilon(1e-5)


def test_one_score_against_its_densities() -> None:
    """Two points, written out: the other is included or not."""
    mechanism = SpillOver(mu=1.5, group=2, spill=0.8)
    grid = np.linspace(-12, 16, 200_001)
    zero = (norm.pdf(grid) + norm.pdf(grid - 1.2)) / 2
    one = (norm.pdf(grid - 1.5) + norm.pdf(grid - 2.7)) / 2
    epsilon = mechanism.point_epsilon(0.05)
    rest = np.maximum(one - np.exp(epsilon) * zero, 0)
    assert np.trapezoid(rest, grid) == pytest.approx(0.05, abs=1e-7)


@pytest.mark.parametrize("shared", [True, False])
def test_failures_have_the_stated_privacy(shared: bool) -> None:
    mechanism = Failures(response=1.0, probability=0.1, shared=shared)
    assert mechanism.epsilon(0.1) == pytest.approx(1.0)
    assert mechanism.epsilon(0.0999) == np.inf
    assert mechanism.epsilon(0.1 + 0.9 * np.tanh(0.5)) == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(1)
    member = rng.random((4000, 2)) < 0.5
    scores = np.stack([mechanism.scores(own, rng) for own in member])
    failed = np.abs(scores) > 1
    assert failed.mean() == pytest.approx(0.1, abs=0.02)
    assert (failed[:, 0] == failed[:, 1]).all() == shared
    # Delta at epsilon = 1 is the probability of a failure, from the two sides' rates of each outcome.
    for sign, own in ((1, member), (-1, ~member)):
        told, lied = (np.mean(sign * scores[side] > 0) for side in (own, ~own))
        assert told - math.e * lied == pytest.approx(0.1, abs=0.06)
        assert told - lied > 0.3  # were epsilon 0, this would be delta


# --- runs ---------------------------------------------------------------------------------------


def test_bounds_are_those_of_proofs() -> None:
    cell = PoolBoundCell(mechanism=Separate(mu=2.0), models=40, points=10, runs=1)
    drawn = cell.draw(np.random.default_rng(1))
    found = bounds_of(drawn, 1e-5, 0.05)
    assert found[PROOF] == prove(drawn, delta=1e-5).at_least > 0.5
    unfair = prove(replace(drawn, fair_coins=False), delta=1e-5)
    assert found[BY_POINT] == unfair.at_least
    assert found[BY_MODEL] > found[PROOF]
    with pytest.raises(InputError, match="expected whole clusters of 4"):
        PoolBoundCell(
            mechanism=SharedNoise(mu=1.0, group=4, correlation=0.5), models=8, points=6, runs=1
        )


def test_failures_mislead_multiplied_points() -> None:
    """The study's control in miniature: models fail for all points at once."""
    cell = PoolBoundCell(delta=0.1, mechanism=CATASTROPHE, models=64, points=100, runs=1)
    found = cell.judge("runs", 0.05, 12, np.random.default_rng(2))
    assert found[MULTIPLIED]["above"] >= 3
    assert found[PROOF]["above"] == 0


# --- what is committed --------------------------------------------------------------------------


def test_truths_in_the_tables_are_those_of_the_mechanisms(intervals: list[Row]) -> None:
    judged = [cell for cell in pool.plan().cells if isinstance(cell, PoolIntervalCell)]
    for cell, row in zip(judged, intervals, strict=True):
        assert row.point_epsilon == pytest.approx(
            cell.mechanism.point_epsilon(cell.delta), abs=1e-6
        )
        assert row.true_epsilon == pytest.approx(cell.mechanism.epsilon(cell.delta), abs=1e-6)
        assert row.true_epsilon >= row.point_epsilon


def test_proofs_err_no_more_often_than_stated_and_the_control_does(bounds: list[Row]) -> None:
    assert all(row.fits("above", 0.05) for row in bounds if not is_control(row))
    failing = [row for row in bounds if is_control(row) and row.mechanism == Failures.name]
    assert max(row.above / row.runs for row in failing) > 0.2
    assert any(not row.fits("above", 0.05) for row in failing)


def test_the_posterior_covers_where_points_are_independent_and_not_where_they_share(
    intervals: list[Row],
) -> None:
    apart = [row for row in intervals if row.independent == "yes" and row.delta < 0.1]
    assert all(row.covers_as_stated(0.05) for row in apart)
    shared = [row for row in intervals if row.independent == "no"]
    assert any(not row.covers_as_stated(0.05) for row in shared)


def test_statements_of_the_page_follow_from_the_tables(
    bounds: list[Row], intervals: list[Row]
) -> None:
    said = " ".join(pool.bound_text(bounds, 0.05).split())
    assert said.count("never significantly too often") == 3
    assert "NOT detected" not in said
    bad = [row.changed(above=0 if is_control(row) else row.runs) for row in bounds]
    said = " ".join(pool.bound_text(bad, 0.05).split())
    assert said.count("**too often**") == 3
    assert "NOT detected" in said
    wrong = [row.changed(covers=0, above=row.runs, below=0) for row in intervals]
    said = " ".join(pool.interval_text(wrong, 0.05).split())
    assert said.count("**not met**") == 3
    assert pool.interval_table(wrong, 0.05).count("**!**") == len(wrong)
