"""Scores that fit badly, are perfectly separated, or come with counts: where sums may go wrong."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, logsumexp

import epsilometer as em
from epsilometer.engines.curve import evaluation
from epsilometer.engines.curve.evaluation import Accuracy, evaluate
from epsilometer.engines.estimate import estimate
from epsilometer.model.family import Curves, Family
from tests.engines.curve.oracles import scores_in_order

TAILS = [0.05, 0.5, 0.95]
#: Relative tolerance of quantiles: the engine's own.
TOLERANCE = 0.01


def model_of(family: Family, **more: object) -> em.CurveModel:
    return em.CurveModel(
        delta=1e-5,
        families=(family,),
        mixing=em.families.NoMixing(),
        strength=em.families.FixedStrength(),
        **more,  # type: ignore[arg-type]
    )


def mirrored(labels: list[int]) -> list[int]:
    """Reversed, with hypotheses exchanged: equally likely under symmetric pairs."""
    return [1 - each for each in reversed(labels)]


def log_ratio_of_all_first(size: int, leaks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log Lambda if all members are above all others, by one integral over the highest other."""
    x = np.linspace(-10.0, 10.0, 40_001)
    log_density = -x * x / 2 - np.log(2 * np.pi) / 2
    top = np.log(size) + log_density + (size - 1) * log_ndtr(x) + np.log(x[1] - x[0])
    chance = gammaln(2 * size + 1) - 2 * gammaln(size + 1)
    return np.array([logsumexp(top + size * log_ndtr(leak - x)) + chance for leak in leaks])


@pytest.mark.parametrize(
    "prior",
    [
        pytest.param(em.priors.HalfNormal(), marks=pytest.mark.slow),
        em.priors.HalfNormal(scale=1.0),
    ],
)
def test_all_members_first(prior: em.priors.HalfNormal) -> None:
    """The axis must extend to the posterior, beyond leaks that are ruled out by hundreds of nats."""
    size, model = 2400, model_of(em.families.Gaussian(), epsilon=prior)
    found = estimate(scores_in_order([1] * size + [0] * size), model)
    leaks = np.linspace(0.5, 9.0, 1201)
    epsilon = em.families.Gaussian().epsilon(leaks, 1e-5)
    logs = log_ratio_of_all_first(size, leaks) + prior.log_density(epsilon)
    mass = np.exp(logs - logs.max()) * np.gradient(epsilon)
    expected = np.interp(TAILS, np.cumsum(mass) / mass.sum(), epsilon)
    assert found.trustworthy
    np.testing.assert_allclose(found.quantile("epsilon", TAILS), expected, rtol=TOLERANCE)


def test_a_member_at_the_very_bottom() -> None:
    """Its density is smaller than the rounding error of a complement."""
    labels, curves = [1] * 1000 + [0] * 1000 + [1], Curves(family=em.families.Gaussian())
    leaks = np.array([6.0, 7.0, 8.0])
    one, other = (
        evaluate(scores_in_order(each), curves, leaks, Accuracy())[0]
        for each in (labels, mirrored(labels))
    )
    # Mirror images use other points of the grid; the first step differs by 0.012 from a finer one.
    np.testing.assert_allclose(one, other, atol=0.012)


@pytest.mark.parametrize(
    "family", [pytest.param(em.families.Laplace(), marks=pytest.mark.slow), em.families.Gaussian()]
)
def test_scores_that_no_curve_of_the_family_makes(family: Family) -> None:
    """Half of the members are far out: the nearest curve is found, from either end."""
    rng, size = np.random.default_rng(4), 2400
    values = rng.standard_normal(2 * size)
    values[size:] += 2.5 * (rng.random(size) < 0.5)
    labels = (np.argsort(-values) >= size).astype(int).tolist()
    one, other = (
        estimate(scores_in_order(each), model_of(family)) for each in (labels, mirrored(labels))
    )
    assert one.trustworthy
    assert other.trustworthy
    np.testing.assert_allclose(
        one.quantile("epsilon", TAILS), other.quantile("epsilon", TAILS), rtol=TOLERANCE
    )


def test_counts_with_a_base_of_many_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many scores are first scanned with a sample; counts are not thinned, and keep their weight."""
    rng, size = np.random.default_rng(6), 2600
    many = em.Scores(
        without=[rng.standard_normal(size)], with_point=[rng.standard_normal(size) + 0.8]
    )
    counts = em.AttackCounts(
        false_positives=[2], trials_h0=300, false_negatives=[30], trials_h1=300, names=["counts"]
    )
    both, model = many.joined(em.Scores.of_counts(counts)), model_of(em.families.Gaussian())
    found = estimate(both, model)
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "THINNED_FROM", 10**9)
        whole = estimate(both, model)
    # Two splines of 0.01 nats each; thinning the counts would cost hundreds of nats.
    assert found.log_evidence == pytest.approx(whole.log_evidence, abs=0.02)
    np.testing.assert_allclose(
        found.quantile("epsilon", TAILS), whole.quantile("epsilon", TAILS), rtol=TOLERANCE
    )


def test_pieces_are_extrapolated_where_no_score_is() -> None:
    """The corner of randomised response at a rate below 1 / N cannot be seen; at one above, it can."""
    apart = estimate(
        scores_in_order([1] * 20 + [0] * 20), model_of(em.families.RandomizedResponse())
    )
    assert apart.extrapolated_below_delta > 0.5
    blurred = [1] * 73 + [0] * 27 + [1] * 27 + [0] * 73
    assert estimate(
        scores_in_order(blurred), model_of(em.families.RandomizedResponse())
    ).extrapolated_below_delta == pytest.approx(0.0)
    # In closed form: (1 - e^-leak) / (1 + e^-leak) where the corner 1 / (1 + e^leak) is below the rate.
    found = Curves(family=em.families.RandomizedResponse()).delta_at_rate(
        np.array([1.0, 5.0]), 0.05
    )
    assert found == pytest.approx([0.0, np.tanh(2.5)])


def test_the_worst_base_among_weak_ones_that_say_little() -> None:
    """Answers and joint draws agree: 20,000 draws, tolerance 5 standard errors of their quantiles."""
    rng = np.random.default_rng(8)
    sizes, shifts = [800, *[20] * 6], [1.5, *[0.0] * 6]
    scores = em.Scores(
        without=[rng.standard_normal(n) for n in sizes],
        with_point=[rng.standard_normal(n) + m for n, m in zip(sizes, shifts, strict=True)],
    )
    model = em.CurveModel(
        delta=1e-5, families=(em.families.Gaussian(),), mixing=em.families.NoMixing()
    )
    found = estimate(scores, model)
    drawn = found.draws(20_000, rng=rng)
    for name in ("shown", "strength", "epsilon"):
        low, middle, high = found.quantile(name, TAILS)
        for value, chance in ((low, 0.05), (middle, 0.5), (high, 0.95)):
            error = 5 * np.sqrt(chance * (1 - chance) / 20_000)
            assert np.mean(drawn[name] <= value) == pytest.approx(chance, abs=error), name
