"""Evidence against slow twins; comparisons that must favour the model that made the data."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import epsilometer as em
from epsilometer.checks.comparison import (
    ModelComparison,
    _estimated,
    alternatives,
    compare_models,
    interpret_bayes_factor,
    label_of,
)
from epsilometer.engines.estimate import estimate
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.region import sample_rings
from epsilometer.report.text.rows import models_data
from tests.checks.test_warnings import draws
from tests.drawn import binomial_counts
from tests.engines.stated_error_oracle import truth

FloatArray = NDArray[np.float64]

DELTA = 0.02


def counts(x: list[int], n0: int, y: list[int], n1: int) -> em.AttackCounts:
    return em.AttackCounts(false_positives=x, trials_h0=n0, false_negatives=y, trials_h1=n1)


ONE, TWO = counts([8], 20, [6], 20), counts([8, 3], 20, [6, 9], 30)


# --- evidence of binomial counts by the oracle ------------------------------------------------


@pytest.mark.parametrize("data", [ONE, TWO], ids=["one base", "two bases"])
@pytest.mark.parametrize("strength", [None, 0.0, 0.9, 1.0])
def test_binomial_evidence_against_the_oracle(
    data: em.AttackCounts, strength: float | None
) -> None:
    prior = em.priors.Beta() if strength is None else em.priors.Fixed(value=strength)
    model = em.CountModel(delta=DELTA, strength=prior)
    rows = list(zip(*(getattr(data, name).tolist() for name in COLUMNS), strict=True))
    expected = truth(rows, DELTA, em.priors.HalfNormal(), prior, [0.5]).log_evidence
    found = estimate(data, model).log_evidence
    assert found == pytest.approx(expected, abs=3e-3)
    by_tables = _estimated(data, model, {}, False, None)
    assert by_tables.log_evidence == pytest.approx(expected, abs=3e-3)
    # Twins without the binomial constants, or without the areas, are detected.
    constants = float(
        sum(
            math.log(math.comb(n, k))
            for n, k in [
                *zip(data.trials_h0.tolist(), data.false_positives.tolist(), strict=True),
                *zip(data.trials_h1.tolist(), data.false_negatives.tolist(), strict=True),
            ]
        )
    )
    assert abs(found - constants - expected) > 1


# --- evidence of correlated counts by Monte Carlo ---------------------------------------------


def monte_carlo_evidence(
    data: em.AttackCounts, model: em.CountModel, size: int
) -> tuple[float, float]:
    """The log evidence from draws of everything from its prior, and its standard error."""
    rng = np.random.default_rng(7)
    likelihood = model.likelihood
    assert isinstance(likelihood, em.likelihoods.CorrelatedNormal)
    assert isinstance(model.epsilon, em.priors.HalfNormal)
    cut = model.epsilon.probability_above(likelihood.smallest_epsilon(data))
    epsilon = model.epsilon.upper_quantile(cut * rng.random(size))
    if isinstance(model.strength, em.priors.Fixed):
        strength = np.full(size, model.strength.value)
    else:
        strength = rng.random(size)
    alpha, beta = sample_rings(
        epsilon[:, None], model.delta, strength[:, None], size=(size, len(data)), rng=rng
    )
    low, _ = likelihood.within_correlation_bounds(data)
    tau = np.full(size, -1.0)
    while np.any(bad := tau <= low):
        tau[bad] = likelihood.within_correlation_scale * rng.standard_normal(int(bad.sum()))
    rho = likelihood.cross_correlation_bound(data, tau) * rng.uniform(-1, 1, size)
    n0, n1 = data.trials_h0, data.trials_h1
    spread_x = np.sqrt(alpha * (1 - alpha) * n0 * (1 + (n0 - 1) * tau[:, None]))
    spread_y = np.sqrt(beta * (1 - beta) * n1 * (1 + (n1 - 1) * tau[:, None]))
    root = np.sqrt(alpha * (1 - alpha) * beta * (1 - beta))
    r = rho[:, None] * n0 * n1 * root / (spread_x * spread_y)
    u = (data.false_positives - n0 * alpha) / spread_x
    v = (data.false_negatives - n1 * beta) / spread_y
    quadratic = (u * u + v * v - 2 * r * u * v) / (1 - r * r)
    density = np.exp(-0.5 * quadratic) / (2 * np.pi * spread_x * spread_y * np.sqrt(1 - r * r))
    values = density.prod(axis=1)
    mean = float(values.mean())
    return math.log(mean), float(values.std()) / math.sqrt(size) / mean


@pytest.mark.parametrize(
    ("data", "strength", "scale"),
    [
        (ONE, em.priors.Beta(), 0.01),
        (ONE, em.priors.Fixed(value=1.0), 0.01),
        (TWO, em.priors.Beta(), 0.05),
        (counts([1], 3, [1], 3), em.priors.Beta(), 0.01),
    ],
)
def test_correlated_evidence_against_monte_carlo(
    data: em.AttackCounts, strength: em.priors.Beta | em.priors.Fixed, scale: float
) -> None:
    likelihood = em.likelihoods.CorrelatedNormal(within_correlation_scale=scale)
    model = em.CountModel(delta=DELTA, strength=strength, likelihood=likelihood)
    found = estimate(data, model).log_evidence
    expected, error = monte_carlo_evidence(data, model, 400_000)
    # Four standard errors, plus the error of the engine's few nodes for tau and rho.
    room = 4 * error + 0.015
    assert abs(found - expected) < room
    # A twin whose cross correlation has a one-sided range is off by log 2.
    assert abs(found + math.log(2) - expected) > room


# --- comparisons ------------------------------------------------------------------------------


def drawn(
    strength: float, rng: np.random.Generator, *, bases: int = 6, trials: int = 200
) -> em.AttackCounts:
    alpha, beta = sample_rings(2.0, 0.01, strength, size=(bases,), rng=rng)
    return binomial_counts(alpha, beta, trials, trials, rng)


def mean_factor(
    make: Callable[[np.random.Generator], em.AttackCounts],
    models: dict[str, em.CountModel],
    times: int = 6,
) -> float:
    """The mean log Bayes factor of the second model against the first."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(times):
        rows = compare_models(make(rng), models, quick=True).assumptions
        assert rows[1].log_bayes_factor is not None
        found.append(rows[1].log_bayes_factor)
    return float(np.mean(found))


def speaks_for_its_maker(weak: em.CountModel, strong: em.CountModel) -> bool:
    """Whether data of strength 0 favour the first model and data of strength 0.9 the second."""
    models = {"weak": weak, "strong": strong}
    one = mean_factor(lambda rng: drawn(0.0, rng), models)
    two = mean_factor(lambda rng: drawn(0.9, rng), models)
    return one < 0 < two


@pytest.mark.slow
def test_evidence_is_for_the_strength_that_made_the_data() -> None:
    weak = em.CountModel(delta=0.01, strength=em.priors.Fixed(value=0.0))
    strong = em.CountModel(delta=0.01, strength=em.priors.Fixed(value=0.9))
    assert speaks_for_its_maker(weak, strong)
    # With the labels swapped the same check fails.
    assert not speaks_for_its_maker(strong, weak)


def correlated_counts(tau: float, rng: np.random.Generator) -> em.AttackCounts:
    """Counts of ten bases whose decisions have the within correlation tau; 0 is binomial."""
    shape = counts([1] * 10, 100, [1] * 10, 100)
    alpha, beta = sample_rings(1.5, 0.01, 0.95, size=(10,), rng=rng)
    if tau == 0:
        x, y = rng.binomial(100, alpha), rng.binomial(100, beta)
    else:
        x, y = em.likelihoods.CorrelatedNormal().sample_counts(
            shape, (alpha, beta), {"within_correlation": tau, "cross_correlation": 0.0}, rng=rng
        )
    return counts(x.tolist(), 100, y.tolist(), 100)


def test_evidence_is_for_correlation_where_there_is_some() -> None:
    """Rates on a thin ring: anything outside it must be due to the scatter of the counts."""
    strength = em.priors.Fixed(value=0.95)
    models = {
        "binomial": em.CountModel(delta=0.01, strength=strength),
        "correlated": em.CountModel(
            delta=0.01, strength=strength, likelihood=em.likelihoods.CorrelatedNormal()
        ),
    }
    assert mean_factor(lambda rng: correlated_counts(0.05, rng), models, 3) > 1
    assert mean_factor(lambda rng: correlated_counts(0.0, rng), models, 3) < 1


@pytest.fixture(scope="module")
def comparison() -> ModelComparison:
    posterior = estimate(counts([10, 30, 45], 100, [20, 30, 50], 100), em.CountModel(delta=0.01))
    return em.checks.compare_models(posterior)


def test_the_default_set_of_assumptions(comparison: ModelComparison) -> None:
    assert [each.label for each in comparison.assumptions] == [
        "binomial, strength free",
        "correlated, strength free",
        "binomial, strength 0",
        "binomial, strength 0.5",
        "binomial, strength 0.9",
        "binomial, strength 1",
    ]
    assert comparison.own.log_bayes_factor == 0
    probabilities = [each.probability or 0.0 for each in comparison.assumptions]
    assert math.fsum(probabilities) == pytest.approx(1.0)
    for each in comparison.assumptions:
        assert each.comparable
        assert each.posterior is not None
        assert each.posterior.model == each.model
        assert each.log_evidence == each.posterior.log_evidence
        assert each.smallest_p_value is not None
        assert 0 < each.smallest_p_value <= 1
    rows = models_data(comparison, level=0.8)["assumptions"]
    assert rows[2]["log_bayes_factor"] == comparison.assumptions[2].log_bayes_factor
    sentences = " ".join(comparison.sentences())
    assert "does not justify" in sentences
    assert "Kass and Raftery" in sentences


def test_the_free_strength_averages_the_fixed_ones() -> None:
    """Evidence at fixed strengths, averaged over the prior, is that of the free strength."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    fixed = [em.priors.Fixed(value=0.5 * (1 + node)) for node in nodes.tolist()]
    models = [em.CountModel(delta=DELTA, strength=strength) for strength in fixed]
    logs = [_estimated(TWO, model, {}, False, None).log_evidence for model in models]
    average = math.log(float(0.5 * weights @ np.exp(logs)))
    free = estimate(TWO, em.CountModel(delta=DELTA)).log_evidence
    assert free == pytest.approx(average, abs=2e-3)


def test_chains_are_compared_by_the_exact_engine(comparison: ModelComparison) -> None:
    assert comparison.own.posterior is not None
    data = comparison.own.posterior.counts
    own = compare_models(draws(data, em.CountModel(delta=0.01)), {}).own
    assert own.log_evidence == pytest.approx(comparison.own.log_evidence, abs=1e-3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (counts([0, 0, 5], 50, [10, 20, 30], 50), "unbounded"),
        (counts([1, 1], 1_000_000, [400_000] * 2, 1_000_000), ""),
        (counts([1], 2, [1], 2), ""),
        (counts([10, 30], 100, [20, 30], 100), ""),
    ],
)
def test_densities_that_are_no_probabilities_are_not_compared(
    data: em.AttackCounts, reason: str
) -> None:
    models = {
        "binomial": em.CountModel(delta=0.01),
        "correlated": em.CountModel(delta=0.01, likelihood=em.likelihoods.CorrelatedNormal()),
    }
    for order in (models, dict(reversed(models.items()))):
        other = compare_models(data, order, quick=True).assumptions[1]
        assert other.comparable == (not reason)
        assert reason in other.reason
        assert (other.probability is None) == bool(reason)
        assert (other.interpretation == "not comparable") == bool(reason)


def test_counts_that_hardly_spread_are_not_compared() -> None:
    """Ten bases with the same counts on the boundary: tau goes to its lower bound."""
    likelihood = em.likelihoods.CorrelatedNormal(within_correlation_scale=0.5)
    strength = em.priors.Fixed(value=1.0)
    models = {
        "binomial": em.CountModel(delta=0.01, strength=strength),
        "correlated": em.CountModel(delta=0.01, strength=strength, likelihood=likelihood),
    }
    row = compare_models(counts([1] * 10, 3, [1] * 10, 3), models, quick=True).assumptions[1]
    assert not row.comparable
    assert "less than half a count" in row.reason


def test_what_is_not_available_says_why() -> None:
    data = counts([1, 0], 1, [0, 1], 1)
    posterior = estimate(data, em.CountModel(delta=0.01))
    assert not any("correlated" in label for label in alternatives(posterior.model, data))
    model = em.CountModel(delta=0.01, likelihood=em.likelihoods.CorrelatedNormal())
    row = compare_models(posterior, {"correlated": model}).assumptions[1]
    assert row.posterior is None
    assert row.interpretation == "not available"
    assert "trials_h0 >= 2" in row.reason
    assert row.probability is None


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(em.InputError, match="counts and the models"):
        compare_models(ONE)
    with pytest.raises(em.InputError, match="expected a CountModel"):
        compare_models(ONE, {"a": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (0.9, "hardly any, for it"),
        (1.1, "positive, for it"),
        (-2.9, "positive, against it"),
        (4.0, "strong, for it"),
        (-5.1, "very strong, against it"),
    ],
)
def test_words_are_those_of_kass_and_raftery(factor: float, words: str) -> None:
    """Steps at 2 log B of 2, 6 and 10."""
    assert interpret_bayes_factor(factor) == words


def test_labels_distinguish_models() -> None:
    own = em.CountModel(
        delta=0.01,
        strength=em.priors.Fixed(value=0.5),
        likelihood=em.likelihoods.CorrelatedNormal(),
    )
    found = alternatives(own, TWO)
    assert label_of(own, TWO) == "correlated-published, strength 0.5"
    assert len(found) == 6
    assert own not in found.values()
    assert found["correlated-published, strength free"].strength == em.priors.Beta()
