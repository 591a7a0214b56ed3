"""Warnings about correlated counts at 0 or N: given if most bases have them, and only then."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.checks import warnings as doubts
from epsilometer.checks.warnings import (
    ExtremeCounts,
    bases_with_extreme_counts,
    check_extreme_counts,
)
from epsilometer.engines.exact.engine import estimate_exact
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial, Likelihood
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Beta, Fixed, HalfNormal
from tests.drawn import error_counts, posterior_of_draws

TRIALS = 20


def counts_of(x: list[int], y: list[int]) -> AttackCounts:
    return AttackCounts(false_positives=x, trials_h0=TRIALS, false_negatives=y, trials_h1=TRIALS)


NONE = counts_of([0, 0, 0], [5, 6, 4])
ALL = counts_of([20, 20, 20], [15, 14, 16])


def draws(counts: AttackCounts, model: CountModel) -> SamplePosterior:
    """Any posterior of given counts: only its counts and its model are used."""
    samples = {name: np.full((2, 10), 0.5) for name in model.parameters_of(counts)}
    return posterior_of_draws(counts, model, samples)


def doubt(
    counts: AttackCounts, likelihood: Likelihood | None = None, **others: object
) -> ExtremeCounts | None:
    model = CountModel(delta=0.01, likelihood=likelihood or CorrelatedNormal(), **others)  # type: ignore[arg-type]
    return check_extreme_counts(draws(counts, model), level=0.9)


# --- most bases have extreme counts -----------------------------------------------------------


@pytest.mark.parametrize(("counts", "level"), [(NONE, 0.9), (ALL, 0.5)], ids=["0", "N"])
def test_the_binomial_result_is_reported(counts: AttackCounts, level: float) -> None:
    model = CountModel(
        delta=0.01,
        epsilon=HalfNormal(scale=2.0),
        strength=Beta(a=2.0, b=1.0),
        likelihood=CorrelatedNormal(),
    )
    found = check_extreme_counts(draws(counts, model), level=level)
    binomial = CountModel(delta=0.01, epsilon=HalfNormal(scale=2.0), strength=Beta(a=2.0, b=1.0))
    # Exactly the same computation.
    expected = estimate_exact(counts, binomial).credible_interval("epsilon", level)
    assert found == ExtremeCounts(bases=3, of=3, level=level, interval=expected)


def test_the_correlated_answer_is_indeed_far_off() -> None:
    """The purpose of the warning: at X = 0 on every base, correlated epsilons are above all binomial."""
    posterior = estimate_exact(NONE, CountModel(delta=0.01, likelihood=CorrelatedNormal()))
    found = check_extreme_counts(posterior, level=0.9)
    assert found is not None
    assert found.interval[1] < posterior.credible_interval("epsilon", 0.9)[0]
    # Control: away from the ends both are about the same.
    inside = counts_of([3, 3, 3], [5, 6, 4])
    one = estimate_exact(inside, CountModel(delta=0.01, likelihood=CorrelatedNormal()))
    other = estimate_exact(inside, CountModel(delta=0.01))
    assert one.median("epsilon") == pytest.approx(other.median("epsilon"), rel=0.2)


@pytest.mark.parametrize(
    ("x", "y", "bases"),
    [
        ([0, 0, 3], [5, 6, 4], 2),
        ([3, 4, 3], [0, 20, 4], 2),
        ([0, 20, 3], [5, 6, 4], 2),
        ([0, 2, 3], [5, 20, 4], 2),
        ([0, 2, 3], [4, 20, 0], 3),
        ([0, 0, 3], [0, 20, 4], 2),
        ([0], [5], 1),
    ],
)
def test_bases_at_an_end_are_counted_once(x: list[int], y: list[int], bases: int) -> None:
    assert bases_with_extreme_counts(counts_of(x, y)) == bases


# --- no warning -------------------------------------------------------------------------------


def refuse(*_: object) -> None:
    raise AssertionError("nothing needs to be estimated")


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([3, 4, 5, 6], [5, 6, 4, 2]),
        ([0, 4, 5, 6], [5, 6, 4, 2]),
        ([0, 20, 5, 6], [5, 6, 4, 2]),
        ([0, 4, 5, 6], [0, 20, 4, 2]),
        ([1, 1, 1, 1], [19, 19, 19, 19]),
        ([3], [5]),
    ],
)
def test_half_of_the_bases_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, x: list[int], y: list[int]
) -> None:
    monkeypatch.setattr(doubts, "estimate_exact", refuse)
    assert doubt(counts_of(x, y)) is None


def test_no_warning_for_independent_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubts, "estimate_exact", refuse)
    assert doubt(NONE, IndependentBinomial()) is None
    # Control: the same counts under the other likelihood need the estimate.
    with pytest.raises(AssertionError, match="nothing needs to be estimated"):
        doubt(NONE)


def test_no_warning_for_a_fixed_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubts, "estimate_exact", refuse)
    assert doubt(NONE, epsilon=Fixed(value=2.0)) is None


def test_trials_may_differ_between_bases() -> None:
    """12 of 12 is an end, 12 of 20 is not."""
    for last, bases in ((9, 2), (10, 1)):
        counts = error_counts([12, 12], [5, 9], [12, 20], [20, last])
        assert bases_with_extreme_counts(counts) == bases


# --- texts ------------------------------------------------------------------------------------


def test_the_sentence_has_the_numbers() -> None:
    sentence = ExtremeCounts(bases=7, of=9, level=0.9, interval=(1.234, 5.678)).sentence
    assert sentence.startswith("7 of 9 bases ")
    assert "epsilon is 1.23 to 5.68 with probability 0.9." in sentence
    assert "\n" not in sentence
