"""The study of proofs that assume independent noise: exact laws of DP-SGD, and what is committed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer._arrays import FloatArray
from epsilometer.proofs.independent_noise import log_bets, separation
from studies import conditional, results
from studies.conditional import SEARCHED, TABLE, UNSEARCHED, ConditionalCell, holds
from studies.interference import (
    BlurredLuck,
    Separate,
    SeparateLaplace,
    SharedNoise,
    Steps,
)
from studies.tables import Row


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return results.read("conditional")[0][TABLE]


# --- the exact laws ---------------------------------------------------------------------------


def worst_mean(ratio: FloatArray, without: FloatArray, epsilon: float, delta: float) -> float:
    """Largest mean of the bets against a claim, over all scores of a canary with this law.

    ``ratio`` is the likelihood ratio of outcomes, ``without`` their probabilities without the canary.
    """
    mu = separation(epsilon, delta)
    f0, f1 = np.exp(log_bets(mu, mu + 0.08))
    best = (f0[:, None] + f1[:, None] * ratio).max(axis=0)
    rest = max(0.0, 1.0 - float(without.sum()))  # what was cut off, at its worst
    return float((best @ without + rest * f0.max()) / 2)


@pytest.mark.parametrize(
    "law",
    [
        Steps(noise=3.0, rate=1 / 11, steps=2200),
        Steps(noise=0.7, rate=0.01, steps=300),
        Steps(noise=2.0, rate=0.1, steps=30),
        Steps(noise=0.7, rate=0.1, steps=7),
        Steps(noise=1.0, rate=0.5, steps=1),
    ],
    ids=str,
)
@pytest.mark.parametrize("delta", [1e-7, 1e-5, 1e-2])
def test_bets_on_the_exact_laws_of_dp_sgd_have_no_mean_above_one(law: Steps, delta: float) -> None:
    """So a true claim about DP-SGD is refuted no more often than stated, for few steps too."""
    dense = law.losses()._pmf_remove.to_dense_pmf()  # losses under the law with the canary
    loss = (dense._lower_loss + np.arange(len(dense._probs))) * dense._discretization
    without = dense._probs * np.exp(-loss)
    epsilon = law.epsilon(delta)
    # The pessimistic losses of dp_accounting add less than 1e-9.
    assert worst_mean(np.exp(loss), without, epsilon, delta) <= 1 + 1e-9
    # Control: a claim of four fifths of epsilon is not true, where the curve is nearly Gaussian.
    if law.steps == 2200:
        assert worst_mean(np.exp(loss), without, 0.8 * epsilon, delta) > 1 + 1e-3


def test_bets_on_laplace_noise_have_a_mean_above_one() -> None:
    """The control: the tail of its curve says nothing of its middle, so the premise is needed."""
    x = np.linspace(-40, 40, 400_001)
    without = np.exp(-np.abs(x)) / 2 * (x[1] - x[0])
    law = SeparateLaplace(pure_epsilon=2.0)
    ratio = np.exp(np.abs(x) - np.abs(x - law.pure_epsilon))
    assert worst_mean(ratio, without, law.epsilon(1e-5), 1e-5) > 1.01


def test_scores_of_steps_are_drawn_from_their_law() -> None:
    """They are log likelihood ratios: exp(score) without and exp(-score) with the canary have mean 1."""
    law, rng = Steps(noise=1.0, rate=0.3, steps=3), np.random.default_rng(1)
    member = np.arange(400_000) % 2 == 1
    scores = law.scores(member, rng)
    for sign, side in ((1, scores[~member]), (-1, scores[member])):
        ratios = np.exp(sign * side)
        assert abs(ratios.mean() - 1) < 5 * ratios.std() / math.sqrt(len(ratios))
    # Hand: one step that always takes part is normal noise around 1, so its ratio is x - 1 / 2.
    sure = Steps(noise=1.0, rate=1.0, steps=1).scores(member, np.random.default_rng(2))
    assert abs(sure[member].mean() - 0.5) < 0.02
    assert abs(sure[~member].mean() + 0.5) < 0.02
    assert Steps(noise=1.0, rate=1.0, steps=1).epsilon(1e-3) == pytest.approx(
        Separate(mu=1.0).epsilon(1e-3), abs=2e-3
    )


def test_blurred_luck_has_no_ties_and_the_same_order_of_sizes() -> None:
    member = np.arange(1000) % 2 == 1
    scores = BlurredLuck(mu=1.0, group=100).scores(member, np.random.default_rng(3))
    assert len(np.unique(scores)) == 1000
    sizes = np.abs(scores).reshape(10, 100)
    assert (sizes.max(axis=1) <= 1.01 * sizes.min(axis=1)).all()


def test_a_cell_has_both_methods() -> None:
    cell = ConditionalCell(
        mechanism=SharedNoise(mu=2.0, group=10, correlation=0.9), canaries=1000, runs=2
    )
    found = cell.judge("runs", 0.05, 2, np.random.default_rng(1))
    assert found[SEARCHED] == {"runs": 2, "above": 0, "sum_at_least": 0.0, "withheld": 2}
    assert found[UNSEARCHED]["withheld"] == 0
    assert found[UNSEARCHED]["sum_at_least"] > 2 * 5


# --- what is committed ------------------------------------------------------------------------


def test_bounds_err_no_more_often_than_stated_if_the_condition_holds(rows: list[Row]) -> None:
    apart = [row for row in rows if holds(row)]
    assert len(apart) == 20
    assert all(row.fits("above", 0.05) for row in apart)
    # The search has false alarms in one of a hundred audits.
    assert all(row.fits("withheld", 0.01) for row in apart)
    white_box = [row for row in apart if row.canaries == 5000]
    assert all(row.mean_at_least > 5.9 for row in white_box)


def test_where_the_condition_does_not_hold_the_controls_are_caught(rows: list[Row]) -> None:
    broken = [row for row in rows if not holds(row) and not row.fits("above", 0.05)]
    assert any(row.method == UNSEARCHED for row in broken)
    # Luck of the whole run, and other curves, cannot be seen.
    assert {row.mechanism for row in broken if row.method == SEARCHED} >= {
        "shared luck, no ties",
        "independent Laplace",
    }
    noise = [row for row in rows if row.mechanism == "shared noise" and row.method == SEARCHED]
    assert all(row.withheld > 0.9 * row.runs for row in noise)


def test_statements_of_the_page_follow_from_the_table(rows: list[Row]) -> None:
    said = " ".join(conditional.text(rows, 0.05).split())
    assert "never significantly too often" in said
    bad = [row.changed(above=row.runs) for row in rows]
    assert "**too often** in 20 rows" in " ".join(conditional.text(bad, 0.05).split())
    assert conditional.table(bad, 0.05).count("**!**") == len(rows)
