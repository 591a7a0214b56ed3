"""The curve over delta: equal to separate runs, with true errors, and rises that are explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer import _validate
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact import delta_sweep, rings
from epsilometer.engines.exact.engine import PROBED
from epsilometer.errors import InputError
from epsilometer.model.counts import counts_of
from epsilometer.posteriors import panels
from epsilometer.posteriors.over_delta import DeltaCurve

#: Most of these are interpolated; the checks cover interpolated and solved ones.
GRID = np.geomspace(1e-8, 0.1, 26)


EXAMPLE = em.AttackCounts.read(Path(__file__).parents[2] / "examples" / "counts.csv")
SMALL = counts_of([1, 2, 0], 5, [2, 0, 3], 4)
ZERO = counts_of([0, 0], 100, [0, 10], 100)
SHARP = counts_of([2000, 2500], 20_000, [8000, 4000], 20_000)
#: Uninformative attacks, all at the target rate 0.1.
WEAK = counts_of([20] * 5, 200, [180] * 5, 200)

BINOMIAL = em.CountModel(delta=0.5)
FIXED = replace(BINOMIAL, strength=em.priors.Fixed(value=0.5))
CORRELATED = replace(BINOMIAL, likelihood=em.likelihoods.CorrelatedNormal())


def worst_difference(curve: DeltaCurve, deltas: list[float]) -> float:
    """The largest difference in quantile or mean from a separate run, in units of the tolerance."""
    worst = 0.0
    for delta in deltas:
        alone = estimate(curve.counts, replace(curve.model, delta=delta))
        assert alone.trustworthy
        here = curve.at(delta)
        found = np.append(here.quantile(PROBED), here.mean())
        wanted = np.append(alone.quantile("epsilon", PROBED), alone.mean("epsilon"))
        change = np.abs(found - wanted) / np.maximum(1.0, wanted)
        worst = max(worst, float(change.max()) / curve.tolerance)
    return worst


def looked_at(curve: DeltaCurve, each: int = 2) -> list[float]:
    """Some solved deltas and some interpolated ones, those with the largest error estimate."""
    found = []
    for kind in (curve.solved, ~curve.solved):
        order = np.argsort(np.where(kind, -curve.errors, np.inf), kind="stable")
        found += [float(curve.deltas[i]) for i in order[: min(each, int(kind.sum()))]]
    return found


CASES = [
    pytest.param(EXAMPLE, BINOMIAL, GRID, id="example"),
    pytest.param(SMALL, BINOMIAL, GRID, id="small"),
    pytest.param(ZERO, BINOMIAL, GRID[::5], id="zero counts", marks=pytest.mark.slow),
    pytest.param(
        SHARP,
        BINOMIAL,
        np.array([1e-6, 1e-3, 0.01, 0.02, 0.03, 0.05]),
        id="sharp",
        marks=pytest.mark.slow,
    ),
    pytest.param(SMALL, FIXED, GRID[::4], id="fixed strength", marks=pytest.mark.slow),
    pytest.param(SMALL, CORRELATED, GRID[::3], id="correlated"),
    pytest.param(WEAK, BINOMIAL, GRID[8::3], id="weak"),
    pytest.param(
        EXAMPLE, BINOMIAL, np.array([0.0, 1e-5, 1e-2]), id="zero delta", marks=pytest.mark.slow
    ),
    pytest.param(EXAMPLE, FIXED, GRID, id="example, fixed", marks=pytest.mark.slow),
    pytest.param(EXAMPLE, CORRELATED, GRID, id="example, correlated", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("counts", "model", "deltas"), CASES)
def test_equals_separate_runs(
    counts: em.AttackCounts, model: em.CountModel, deltas: np.ndarray
) -> None:
    curve = em.engines.estimate_curve(counts, model, deltas)
    assert curve.trustworthy
    np.testing.assert_array_equal(curve.deltas, deltas)
    # In units of the engine's tolerance, which is all that either side guarantees.
    assert worst_difference(curve, looked_at(curve)) < 1


def test_most_deltas_are_interpolated() -> None:
    curve = em.engines.estimate_curve(EXAMPLE.take([0]), BINOMIAL, GRID)
    assert 0 < curve.solved.sum() < 0.5 * len(GRID)


def test_the_wrong_delta_in_the_core_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: masses from the shared table at half of the intended delta."""

    true = panels.lagrange

    def wrong(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        return true(nodes, 0.5 * x if nodes[-1] > x.max() else x)

    few, deltas = EXAMPLE.take([0, 4]), [0.05, 0.1]
    assert worst_difference(em.engines.estimate_curve(few, BINOMIAL, deltas), deltas[:1]) < 1
    monkeypatch.setattr(rings, "lagrange", wrong)
    assert worst_difference(em.engines.estimate_curve(few, BINOMIAL, deltas), deltas[:1]) > 1


def test_interpolation_that_is_not_checked_is_wrong_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Control: gaps are accepted whatever the solves inside them show."""
    deltas = np.geomspace(1e-6, 0.05, 30)
    monkeypatch.setattr(delta_sweep, "SHARE", 1e9)
    curve = em.engines.estimate_curve(SHARP, BINOMIAL, deltas)
    assert not curve.trustworthy
    bad = [float(delta) for delta in curve.deltas[~curve.met]]
    assert max(worst_difference(curve, [delta]) for delta in bad[:8]) > 1


def test_a_tolerance_out_of_reach_is_not_met() -> None:
    settings = em.engines.ExactSettings(tolerance=1e-12, most_levels=2)
    curve = em.engines.estimate_curve(SMALL, BINOMIAL, [1e-3, 1e-2], settings)
    assert not curve.trustworthy
    assert not curve.met.any()
    assert (curve.errors > 1e-12).all()


@pytest.mark.slow
def test_dependent_attacks_share_a_surface_too() -> None:
    grouped = counts_of([10, 12], 50, [20, 18], 50, groups=["a", "a"])
    curve = em.engines.estimate_curve(grouped, BINOMIAL, [1e-2])
    assert curve.trustworthy
    assert worst_difference(curve, [1e-2]) < 1


# --- queries of a curve --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curve() -> DeltaCurve:
    return em.engines.estimate_curve(EXAMPLE, BINOMIAL, [1e-2, 1e-6, 0.1])


def test_answers_are_those_of_the_densities(curve: DeltaCurve) -> None:
    assert curve.deltas.tolist() == [1e-6, 1e-2, 0.1]
    low, high = curve.credible_interval(0.8)
    for index, delta in enumerate(curve.deltas):
        density = curve.at(float(delta))
        # Bisection to the last digits, which may depend on how many are computed together.
        assert low[index] == pytest.approx(float(density.quantile(0.1)), rel=1e-12)
        assert high[index] == pytest.approx(float(density.quantile(0.9)), rel=1e-12)
        assert curve.median[index] == pytest.approx(float(density.quantile(0.5)), rel=1e-12)
        assert curve.mean[index] == density.mean()
    above = curve.probability_above(high)
    # The distribution function at its own quantile, found by bisection to the last digits.
    np.testing.assert_allclose(above, 0.1, atol=1e-9)
    np.testing.assert_array_equal(curve.probability_above(3.0)[:1], 1 - curve.at(1e-6).cdf([3.0]))
    assert curve.quantile([[0.1, 0.5]]).shape == (1, 2, 3)
    assert len(curve) == 3


def test_strong_attacks_do_not_rise(curve: DeltaCurve) -> None:
    assert curve.rises == ()
    assert not curve.rising.any()
    assert (np.diff(curve.median) < 0).all()
    np.testing.assert_array_equal(curve.monotone_interval(), curve.credible_interval())


def test_refusals(curve: DeltaCurve) -> None:
    with pytest.raises(InputError, match=r"one of the curve's deltas, got delta=0\.5"):
        curve.at(0.5)
    with pytest.raises(InputError, match="one value or 3"):
        curve.probability_above([1.0, 2.0])
    with pytest.raises(InputError, match=r"got delta=0\.1 twice"):
        _validate.deltas([0.1, 0.2, 0.1])
    with pytest.raises(InputError, match="at least one delta"):
        _validate.deltas([])
    with pytest.raises(InputError, match=r"0 <= delta < 1, got delta=1\.0"):
        _validate.deltas([0.1, 1.0])
    with pytest.raises(InputError, match="prior of epsilon"):
        em.engines.estimate_curve(
            EXAMPLE, replace(BINOMIAL, epsilon=em.priors.Fixed(value=1.0)), [0.1]
        )
    with pytest.raises(InputError, match="expected ExactSettings"):
        em.engines.estimate_curve(EXAMPLE, BINOMIAL, [0.1], em.engines.McmcSettings())  # type: ignore[arg-type]


# --- rises ---------------------------------------------------------------------------------------


def test_weak_attacks_at_one_rate_rise_and_the_reasons_hold() -> None:
    curve = em.engines.estimate_curve(WEAK, BINOMIAL, [1e-5, 3e-3, 0.02, 0.1, 0.3])
    median = next(rise for rise in curve.rises if rise.probability == 0.5)
    assert (median.lowest_at, median.highest_at) == (3e-3, 0.3)
    assert median.highest - median.lowest > 100 * curve.tolerance
    assert curve.rising.tolist() == [False, False, True, True, True]
    alone = [estimate(WEAK, replace(BINOMIAL, delta=d)) for d in (3e-3, 0.1, 0.3)]
    # It is not an artefact of the curve: separate runs rise as much.
    assert alone[2].median("epsilon") - alone[0].median("epsilon") == pytest.approx(
        median.highest - median.lowest, abs=2 * curve.tolerance
    )
    # The first reason: the larger delta is, the weaker such attacks seem.
    assert alone[2].median("strength") < 0.5 * alone[1].median("strength")
    low, high = curve.credible_interval()
    assert high[-1] > 5 * high[2]
    lower, upper = curve.monotone_interval()
    assert (np.diff(upper) <= 0).all()
    assert (np.diff(lower) <= 0).all()
    assert (upper <= high).all()
    assert (lower >= low).all()


def test_aimless_attacks_pull_epsilon_below_delta_or_above_it() -> None:
    """The second reason: it depends on the width of the region at a rate of 0.1 or of one half."""
    deltas = [1e-5, 1e-4, 1e-3]
    at_a_tenth = em.engines.estimate_curve(
        counts_of([10] * 20, 100, [90] * 20, 100), BINOMIAL, deltas
    )
    assert (at_a_tenth.median < deltas).all()
    assert (np.diff(at_a_tenth.quantile(0.95)) > 0).all()
    in_the_middle = em.engines.estimate_curve(
        counts_of([50] * 20, 100, [50] * 20, 100), BINOMIAL, deltas
    )
    assert (in_the_middle.median > 10 * np.array(deltas)).all()
    # Attacks at many rates favour neither.
    rates = 5 * np.arange(1, 20)
    at_many = em.engines.estimate_curve(counts_of(rates, 100, 100 - rates, 100), BINOMIAL, deltas)
    assert at_many.rises == ()
