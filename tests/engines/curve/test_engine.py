"""The whole-curve engine: reference posteriors, an independent sampler, its stated error."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import epsilometer as em
from epsilometer.engines.curve.evaluation import Accuracy, evaluate
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.estimate import estimate
from epsilometer.model.families import FAMILIES
from epsilometer.model.family import LARGEST_CURVE_EPSILON, Curves
from epsilometer.model.strengths import LARGEST_CONCENTRATION
from tests.engines.curve.oracles import reference_scores, scores_in_order
from tests.engines.curve.simulation import seen_of

FloatArray = NDArray[np.float64]
TAILS = [0.05, 0.5, 0.95]


def pinned(delta: float, strength: float = 1.0) -> em.CurveModel:
    """One family, no mixing, known strength, as other tools assume."""
    return em.CurveModel(
        delta=delta,
        families=(em.families.Gaussian(),),
        mixing=em.families.NoMixing(),
        strength=em.families.FixedStrength(value=strength),
    )


def gaussian_bases(
    mu: list[float], zeros: int, ones: int, seed: int, *, width: float = 1.0
) -> em.Scores:
    rng = np.random.default_rng(seed)
    return em.Scores(
        without=[rng.standard_normal(zeros) for _ in mu],
        with_point=[each + width * rng.standard_normal(ones) for each in mu],
    )


# --- reference numbers ----------------------------------------------------------------------------

# Source: the notes on the whole curve, section 7: Gaussian only, strength 1, stated to be good to .02.
REFERENCE = {
    "P1": (reference_scores(50, 50, 1.0), (2.406, 3.975, 5.662), (1.772, 2.988, 4.335)),
    "P2": (reference_scores(40, 80, 0.7), (1.321, 2.706, 4.211), (0.938, 1.971, 3.137)),
    "P3": (scores_in_order([1] * 20 + [0] * 20), (6.28, 9.53, 13.08), (5.82, 8.86, 12.28)),
    "P4": (scores_in_order([1, 0] * 30), (0.079, 0.786, 2.223), (0.054, 0.551, 1.614)),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_posteriors(name: str) -> None:
    scores, *expected = REFERENCE[name]
    for delta, numbers in zip((1e-5, 1e-3), expected, strict=True):
        posterior = estimate(scores, pinned(delta))
        assert posterior.trustworthy
        np.testing.assert_allclose(posterior.quantile("epsilon", TAILS), numbers, atol=0.02)


def test_a_pinned_posterior_is_likelihood_times_prior() -> None:
    """By plain sums over a grid of epsilon, with likelihoods computed at each point."""
    scores, delta = gaussian_bases([0.8, 1.2], 30, 25, seed=1), 1e-4
    prior = em.priors.HalfNormal(scale=3.0)
    strength = 0.7
    epsilon = np.linspace(0.0, 16.0, 2001)[1:]
    leaks = np.linspace(0.0, 3.6, 4001)
    leak = np.interp(epsilon, em.families.Gaussian().epsilon(leaks, delta), leaks)
    logs = evaluate(
        scores, Curves(family=em.families.Gaussian()), strength * leak, Accuracy(0.4)
    ).sum(axis=0)
    weight = np.exp(logs + prior.log_density(epsilon))
    below = np.cumsum(weight) - weight / 2
    model = em.CurveModel(
        delta=delta,
        epsilon=prior,
        families=(em.families.Gaussian(),),
        mixing=em.families.NoMixing(),
        strength=em.families.FixedStrength(value=strength),
    )
    posterior = estimate(scores, model)
    expected = np.interp(TAILS, below / weight.sum(), epsilon)
    # The engine's tolerance of 1 %.
    np.testing.assert_allclose(posterior.quantile("epsilon", TAILS), expected, rtol=0.01, atol=0.01)
    evidence = math.log(weight.sum() * (epsilon[1] - epsilon[0]))
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.02)
    # Each base leaks that share of it, and shows it at rates of 1/30 or more.
    own = strength * np.interp(expected[1], epsilon, leak)
    seen = seen_of(Curves(family=em.families.Gaussian()), np.array([own]), delta, 1 / 30)
    assert float(posterior.shown.quantile(0.5)) == pytest.approx(seen, rel=0.02)
    assert seen < 0.8 * em.families.Gaussian().epsilon(own, delta)


# --- an independent sampler -----------------------------------------------------------------------


class Weighted:
    """Draws from the prior, weighted by their likelihood: plain importance sampling."""

    def __init__(self, scores: em.Scores, model: em.CurveModel, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        bases = len(scores)
        self.nothing = rng.random(size) < float(model.no_leak or 0.0)
        chances = [each.probability for each in model.components]
        self.component = rng.choice(len(chances), size=size, p=chances)
        # The engine's axis ends at the largest epsilon; the heavy tail does not.
        epsilon = np.minimum(model.epsilon.sample(size, rng=rng), LARGEST_CURVE_EPSILON)
        self.epsilon = np.where(self.nothing, 0.0, epsilon)
        self.best_possible = np.zeros(size, dtype=bool)
        if model.strength.fixed_value is None:
            self.best_possible = rng.random(size) < model.strength.best_possible
        self.mean = np.where(self.best_possible, 1.0, rng.beta(1.0, 2.0, size))
        size_of = LARGEST_CONCENTRATION ** rng.random(size)
        a, b = self.mean * size_of, (1 - self.mean) * size_of
        strength = rng.beta(
            np.maximum(a, 1e-9)[:, None], np.maximum(b, 1e-9)[:, None], (size, bases)
        )
        strength[self.best_possible] = 1.0
        strength[rng.random(strength.shape) < getattr(model.strength, "full", 0.0)] = 1.0
        self.leak, logs = np.zeros((size, bases)), np.zeros(size)
        tables: dict[tuple[str, float], tuple[FloatArray, FloatArray]] = {}
        for number, component in enumerate(model.components):
            curves = component.curves
            rows = np.flatnonzero((self.component == number) & ~self.nothing)
            if not len(rows):
                continue
            farthest = curves.largest_leak(float(self.epsilon[rows].max()) + 0.1, model.delta)
            axis = farthest * np.linspace(0.0, 1.0, 3001) ** 4
            whole = np.interp(self.epsilon[rows], curves.epsilon(axis, model.delta), axis)
            own = strength[rows] * whole[:, None]
            for base, size_ in enumerate(np.maximum(scores.trials_h0, scores.trials_h1)):
                seen = curves.seen_epsilon(own[:, base], model.delta, 1 / int(size_))
                self.leak[rows, base] = seen
            key = (curves.family.name, curves.rate)
            if key not in tables or tables[key][0][-1] < own.max():
                at = 1.2 * own.max() * np.linspace(0.0, 1.0, 301) ** 4
                tables[key] = at, evaluate(scores, curves, at, Accuracy(0.7))
            at, table = tables[key]
            logs[rows] = sum(np.interp(own[:, base], at, table[base]) for base in range(bases))
        self.log_evidence = float(np.log(np.mean(np.exp(logs))))
        self.weight = np.exp(logs) / np.exp(logs).sum()

    def share(self, event: NDArray[np.bool_]) -> tuple[float, float]:
        """Posterior probability of an event, and its standard error."""
        found = float(self.weight @ event)
        return found, float(np.sqrt(np.sum(self.weight**2 * (event - found) ** 2)))


#: Three different bases, one of which is uninformative.
SMALL = gaussian_bases([0.4, 1.6, 2.2], 15, 12, seed=3)

#: For probabilities, in addition to Monte Carlo errors: the engine's tolerance of .01 in quantiles,
#: linear interpolation in the sampler's tables, and the error of the coarser sums for single bases.
ALLOWED = 0.006

#: Standard errors; about 60 comparisons, a false alarm of 7e-6 each.
Z = 4.5


@pytest.fixture(scope="module")
def engine() -> Any:
    return estimate(SMALL, em.CurveModel(delta=1e-3))


@pytest.fixture(scope="module")
def sampled() -> Weighted:
    return Weighted(SMALL, em.CurveModel(delta=1e-3), 150_000, seed=4)


def agrees(found: float, event: NDArray[np.bool_], sampled: Weighted) -> None:
    expected, error = sampled.share(event)
    assert abs(found - expected) < Z * error + ALLOWED, (found, expected, error)


def test_sampler_has_enough_effective_draws(sampled: Weighted) -> None:
    """The effective number of draws, without which agreement would mean nothing."""
    assert 1 / np.sum(sampled.weight**2) > 4_000


def test_epsilon_agrees_with_the_sampler(engine: CurvePosterior, sampled: Weighted) -> None:
    for value in engine.quantile("epsilon", [0.05, 0.25, 0.5, 0.75, 0.95]).tolist():
        agrees(engine.probability_above("epsilon", value), sampled.epsilon > value, sampled)
    assert engine.log_evidence == pytest.approx(sampled.log_evidence, abs=0.05)
    # Negative control: the same question of the prior alone.
    low = float(engine.quantile("epsilon", 0.05))
    assert abs(np.mean(sampled.epsilon > low) - 0.95) > 0.05


def test_shown_and_single_bases_agree_with_the_sampler(
    engine: CurvePosterior, sampled: Weighted
) -> None:
    for value in engine.shown.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).tolist():
        agrees(engine.shown.probability_above(value), sampled.leak.max(axis=1) > value, sampled)
    for base, marginal in enumerate(engine.leaks):
        for value in marginal.quantile([0.25, 0.5, 0.9]).tolist():
            agrees(marginal.probability_above(value), sampled.leak[:, base] > value, sampled)


def test_strengths_agree_with_the_sampler(engine: CurvePosterior, sampled: Weighted) -> None:
    # Without a leak the strengths have their prior, in the engine as in the sampler.
    agrees(engine.full_strength_probability, sampled.best_possible, sampled)
    for value in (0.2, 0.4, 0.6, 0.8):
        # Means are on nodes, so a little is lost to the cell that contains the value.
        expected, error = sampled.share(sampled.mean > value)
        found = engine.probability_above("strength", value)
        assert abs(found - expected) < Z * error + 0.02


def test_families_agree_with_the_sampler(engine: CurvePosterior, sampled: Weighted) -> None:
    model = engine.model
    assert sum(row.probability for row in engine.families) == pytest.approx(1.0, abs=1e-9)
    assert sum(row.prior for row in engine.families) == pytest.approx(1.0, abs=1e-9)
    agrees(engine.family_probability("no leak"), sampled.nothing, sampled)
    for family in model.families:
        own = [i for i, each in enumerate(model.components) if each.group == family.name]
        event = np.isin(sampled.component, own) & ~sampled.nothing
        agrees(engine.family_probability(family.name), event, sampled)
    for interpretation in em.families.MixtureInterpretation:
        own = [
            i
            for i, each in enumerate(model.components)
            if each.curves.mixed and each.curves.interpretation is interpretation
        ]
        found = sum(
            row.probability for row in engine.families if row.interpretation == str(interpretation)
        )
        agrees(found, np.isin(sampled.component, own) & ~sampled.nothing, sampled)


def test_draws_agree_with_marginals(engine: CurvePosterior) -> None:
    size = 20_000
    drawn = engine.draw_bases(size, rng=np.random.default_rng(7))
    assert np.all(drawn["leak"] <= drawn["epsilon"][:, None] + 1e-9)
    # Bases of equal sizes; curves have kinks where another threshold shows most.
    np.testing.assert_allclose(drawn["shown"], drawn["leak"].max(axis=1), atol=0.03)
    chances = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    error = Z * np.sqrt(chances * (1 - chances) / size)
    for name in ("epsilon", "shown"):
        for chance, value in zip(chances, engine.quantile(name, chances).tolist(), strict=True):
            seen = np.mean(drawn[name] <= value)
            assert abs(seen - chance) < error.max() + ALLOWED, name
    for base, marginal in enumerate(engine.leaks):
        for value in marginal.quantile([0.25, 0.5, 0.9]).tolist():
            seen = np.mean(drawn["leak"][:, base] > value)
            assert abs(seen - marginal.probability_above(value)) < error.max() + ALLOWED
    # Shares of families, by the number of the component; no leak is -1.
    nothing = np.mean(drawn["family"] == -1)
    assert abs(nothing - engine.family_probability("no leak")) < error.max()
    assert set(engine.draws(10, rng=np.random.default_rng(1))) == set(engine.parameters)


# --- the stated error -----------------------------------------------------------------------------

STATED = {
    "three that differ": (SMALL, em.CurveModel(delta=1e-3)),
    "one base": (gaussian_bases([1.0], 40, 40, seed=5), em.CurveModel(delta=1e-5)),
    "pinned": (gaussian_bases([1.0], 200, 150, seed=6), pinned(1e-5)),
    "all members first": (scores_in_order([1] * 12 + [0] * 12), em.CurveModel(delta=1e-3)),
}


@pytest.mark.parametrize(
    "name",
    [
        "pinned",
        "three that differ",
        pytest.param("one base", marks=pytest.mark.slow),
        pytest.param("all members first", marks=pytest.mark.slow),
    ],
)
def test_the_stated_error_holds(name: str) -> None:
    scores, model = STATED[name]
    posterior = estimate(scores, model)
    assert posterior.trustworthy
    finest = em.engines.CurveSettings(tolerance=1e-9, most_levels=5).estimate(scores, model)
    assert not finest.trustworthy  # 1e-9 cannot be met, and the posterior reports it
    probed = [0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975]
    after = finest.quantile("epsilon", probed)
    gap = np.max(np.abs(posterior.quantile("epsilon", probed) - after) / np.maximum(1.0, after))
    # The difference between refinement steps: the remaining error is at most three times as large.
    # Below two thousandths it does not matter.
    assert gap <= max(3 * posterior.accuracy.error, 2e-3)
    assert gap <= posterior.accuracy.tolerance


# --- cases at the edges ---------------------------------------------------------------------------


def test_nothing_leaks() -> None:
    """No attack does better than chance on any of five bases: 0 is within the interval."""
    scores = gaussian_bases([0.0] * 5, 60, 60, seed=11)
    posterior = estimate(scores, em.CurveModel(delta=1e-5))
    assert posterior.trustworthy
    assert posterior.family_probability("no leak") > (posterior.model.no_leak or 0)
    assert posterior.credible_interval("epsilon")[0] < 0.1
    # Far below the corresponding prior quantile, 6.2.
    assert posterior.credible_interval("shown")[1] < 3.5


def plain_sums(scores: em.Scores, model: em.CurveModel, leaks: FloatArray) -> FloatArray:
    """Quantiles of epsilon of a fixed model, by sums over leaks with computed likelihoods."""
    epsilon = em.families.Gaussian().epsilon(leaks, model.delta)
    logs = evaluate(scores, Curves(family=em.families.Gaussian()), leaks, Accuracy(0.4)).sum(axis=0)
    logs = logs + model.epsilon.log_density(epsilon) + np.log(np.gradient(epsilon))
    weight = np.exp(logs - logs.max())
    return np.interp(TAILS, (np.cumsum(weight) - weight / 2) / weight.sum(), epsilon)


def test_epsilon_far_beyond_the_prior_makes_the_axis_longer() -> None:
    """Not one error in 2,000 models, and a prior that puts the likely epsilons 20 deviations out.

    The prior costs hundreds of nats where the scores are likely: likelihoods must be accurate that deep.
    """
    scores = gaussian_bases([8.0] * 3, 1000, 1000, seed=12)
    model = replace(pinned(1e-5), epsilon=em.priors.HalfNormal(scale=1.0))
    farthest = float(model.epsilon.upper_quantile(1e-11))
    posterior = estimate(scores, model)
    assert posterior.trustworthy
    assert posterior.tables[0].leaks[-1] > em.families.Gaussian().leak_of(farthest, 1e-5)
    expected = plain_sums(scores, model, np.linspace(3.3, 4.5, 121))
    np.testing.assert_allclose(posterior.quantile("epsilon", TAILS), expected, rtol=0.02)
    assert np.isfinite(posterior.mean("epsilon"))


def test_bases_that_contradict_each_other_at_one_strength() -> None:
    """Where both fit best together each is far below its own best, by hundreds of nats."""
    scores, model = gaussian_bases([0.5, 2.0], 800, 800, seed=17), pinned(1e-5)
    curves = Curves(family=em.families.Gaussian())
    own, together = evaluate(scores, curves, np.linspace(0.3, 2.2, 40), Accuracy(1.0)), 1.1
    lost = own.max(axis=1) - evaluate(scores, curves, np.array([together]), Accuracy(1.0))[:, 0]
    assert np.all(lost > 50)
    posterior = estimate(scores, model)
    expected = plain_sums(scores, model, np.linspace(0.8, 1.5, 141))
    np.testing.assert_allclose(posterior.quantile("epsilon", TAILS), expected, rtol=0.01)


def test_bases_that_differ_refute_equal_strengths() -> None:
    apart = estimate(gaussian_bases([0.1, 2.2, 0.2, 2.0], 60, 60, 13), em.CurveModel(delta=1e-5))
    assert apart.full_strength_probability < 0.05
    same = estimate(gaussian_bases([1.2] * 4, 60, 60, 14), em.CurveModel(delta=1e-5))
    assert same.full_strength_probability > apart.full_strength_probability
    weak, strong = (float(apart.leaks[base].quantile(0.5)) for base in (0, 1))
    assert weak < strong < apart.median("epsilon") * 1.05
    assert apart.median("shown") <= apart.median("epsilon")


def test_counts_are_one_threshold_and_say_less_than_scores() -> None:
    scores = gaussian_bases([1.0, 1.2], 80, 80, seed=15)
    false = [int((without > 1.0).sum()) for without, _ in (b.by_hypothesis for b in scores.bases)]
    missed = [int((member <= 1.0).sum()) for _, member in (b.by_hypothesis for b in scores.bases)]
    counts = em.AttackCounts(
        false_positives=false, trials_h0=80, false_negatives=missed, trials_h1=80
    )
    model = pinned(1e-5)
    from_counts, from_scores = estimate(counts, model), estimate(scores, model)
    assert from_counts.scores == em.Scores.of_counts(counts)
    wide, narrow = (
        np.ptp(each.credible_interval("epsilon")) for each in (from_counts, from_scores)
    )
    assert wide > narrow
    expected = plain_sums(from_counts.scores, model, np.linspace(0.002, 3.6, 901))
    np.testing.assert_allclose(from_counts.quantile("epsilon", TAILS), expected, rtol=0.01)


def test_names_order_and_scale_of_scores_do_not_matter() -> None:
    model = em.CurveModel(delta=1e-3)
    first = estimate(SMALL, model)
    pairs = [base.by_hypothesis for base in SMALL.bases]
    other = em.Scores(
        without=[np.arctan(pairs[row][0][::-1]) for row in (2, 0, 1)],
        with_point=[np.arctan(pairs[row][1]) for row in (2, 0, 1)],
        names=["x", "y", "z"],
    )
    again = estimate(other, model)
    # Sums in another order.
    np.testing.assert_allclose(
        again.quantile("epsilon", TAILS), first.quantile("epsilon", TAILS), rtol=1e-6
    )
    medians = [float(each.quantile(0.5)) for each in again.leaks]
    expected = [float(first.leaks[row].quantile(0.5)) for row in (2, 0, 1)]
    np.testing.assert_allclose(medians, expected, rtol=1e-6)


def test_exchanging_hypotheses_and_turning_scores_leaves_symmetric_families() -> None:
    # Pairs of two variances turn into reversed ones, which are rarer.
    symmetric = [family for name, family in FAMILIES.items() if "variances" not in name]
    model = em.CurveModel(delta=1e-3, mixing=em.families.NoMixing(), families=tuple(symmetric))
    turned = em.Scores(
        without=[-base.by_hypothesis[1] for base in SMALL.bases],
        with_point=[-base.by_hypothesis[0] for base in SMALL.bases],
    )
    one, two = estimate(SMALL, model), estimate(turned, model)
    # Two tolerances of the engine.
    np.testing.assert_allclose(
        one.quantile("epsilon", TAILS), two.quantile("epsilon", TAILS), rtol=0.02
    )
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=0.02)


@pytest.mark.slow
def test_a_hundred_thousand_canaries() -> None:
    rng = np.random.default_rng(16)
    scores = em.Scores.of_canaries(1.0 + rng.standard_normal(50_000), rng.standard_normal(50_000))
    posterior = estimate(scores, em.CurveModel(delta=1e-5, strength=em.families.FixedStrength()))
    assert posterior.trustworthy
    low, high = posterior.credible_interval("epsilon", 0.9999)
    assert low < 4.3772 < high
    assert high - low < 0.3
    assert posterior.family_probability("gaussian") > 0.99
