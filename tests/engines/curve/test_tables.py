"""Tables of likelihoods: accuracy between the computed leaks, also for many scores."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import epsilometer as em
from epsilometer.engines.curve import evaluation, tables
from epsilometer.engines.curve.evaluation import Accuracy, evaluate
from epsilometer.engines.curve.tables import Table, make_tables
from epsilometer.engines.estimate import estimate
from epsilometer.model.family import Curves

ACCURACY = Accuracy(1.0, 10.0, 0.01)
MODEL = em.CurveModel(delta=1e-5, mixing=em.families.KnownMixing(rate=0.4))


def bases(*sizes: int, shift: float = 0.8) -> em.Scores:
    """Gaussian scores; ``sizes`` are the numbers of models per side of each base."""
    rng = np.random.default_rng(sum(sizes))
    return em.Scores(
        without=[rng.standard_normal(size) for size in sizes],
        with_point=[rng.standard_normal(size) + shift for size in sizes],
    )


def worst_between(scores: em.Scores, table: Table) -> float:
    """Largest error of the table, in nats, midway between its leaks, where any base is informative."""
    middle = (table.leaks[1:] + table.leaks[:-1]) / 2
    near = (table.logs > table.logs.max(axis=1, keepdims=True) - 20).any(axis=0)
    leaks = middle[near[1:] & near[:-1]]
    curves = Curves(family=table.family, rate=table.rate)
    exact = evaluate(scores, curves, leaks, ACCURACY)
    matters = exact > exact.max(axis=1, keepdims=True) - 20
    return float(np.abs(table.at(leaks) - exact)[matters].max())


@pytest.mark.parametrize("sizes", [(40,), (100, 30, 400), (3_500, 20)])
def test_tables_are_right_between_their_leaks(sizes: tuple[int, ...]) -> None:
    """A base with 5,000 scores or more is first scanned with a sample of them."""
    scores = bases(*sizes)
    assert (2 * max(sizes) > evaluation.THINNED_FROM) == (max(sizes) >= 3_000)
    found = make_tables(scores, MODEL.components, MODEL, 30.0, ACCURACY)
    assert found
    # An interval is halved while its middle is off by 6 spline errors; the halves are 8 times better.
    # Differences from the Gaussian may keep ripples three times as large, far from their best.
    for table in found:
        allowed = 6 * ACCURACY.spline if table.reference is None else 0.25
        assert worst_between(scores, table) < allowed


@pytest.mark.slow
def test_a_sample_only_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Posteriors with and without it are the same, to the engine's tolerance."""
    wanted = [0.05, 0.5, 0.95]
    for scores in (bases(3_000), bases(3_000, shift=0.0), bases(2_600, 100, 2_600)):
        with monkeypatch.context() as patch:
            sampled = estimate(scores, em.CurveModel(delta=1e-5))
            patch.setattr(evaluation, "THINNED_FROM", 10**9)
            whole = estimate(scores, em.CurveModel(delta=1e-5))
        # The spline's error of one base; quantiles to half of the engine's tolerance.
        assert sampled.log_evidence == pytest.approx(whole.log_evidence, abs=0.01)
        found, expected = (each.quantile("epsilon", wanted) for each in (sampled, whole))
        np.testing.assert_allclose(found, expected, rtol=0.005, atol=0.005)


def test_no_leaks_ask_for_nothing() -> None:
    found = evaluate(bases(20, 20), Curves(family=em.families.Gaussian()), np.empty(0), ACCURACY)
    assert found.shape == (2, 0)


def test_two_close_leaks_do_not_lead_the_next_interval_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The chain errs by a fifth of a nat between leaks that are nearly equal."""
    leaks = np.array([0.0, 3.0, 6.0, 6.0004, 9.0])
    logs = np.array([[0.0, -17.0, -17.0, -17.2, -17.2]])
    between = np.linspace(0.0, 9.0, 500)
    made = partial(Table, family=em.families.Gaussian(), rate=1.0, leaks=leaks, logs=logs)
    assert made().at(between).max() <= 1e-9  # that without a leak
    monkeypatch.setattr(tables, "RISE", np.inf)  # without the bound
    assert made().at(between).max() > 50
