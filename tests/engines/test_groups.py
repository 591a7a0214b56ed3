"""Groups of dependent attacks: limits, a slow twin, exact against MCMC, and calibration."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, kstest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact.groups import GroupSurface
from epsilometer.engines.exact.treatments import log_choices
from epsilometer.engines.mcmc import group_kernels as kernels
from epsilometer.engines.mcmc import group_shares as shares
from epsilometer.errors import InputError
from epsilometer.model import region
from studies.draws import draw_groups
from tests.drawn import ring_contains

FloatArray = NDArray[np.float64]
Scatter = em.likelihoods.NormalScatter | em.likelihoods.UniformScatter
NORMAL, UNIFORM = em.likelihoods.NormalScatter(), em.likelihoods.UniformScatter()


def grouped(x: list[int], y: list[int], trials: int, groups: list[str]) -> em.AttackCounts:
    return em.AttackCounts(
        false_positives=x, trials_h0=trials, false_negatives=y, trials_h1=trials, groups=groups
    )


SMALL = grouped([20, 25, 23, 60, 55], [48, 40, 45, 20, 18], 80, ["a", "a", "a", "b", "b"])
MODEL = em.CountModel(delta=0.01)


def scattered(**options: Any) -> em.CountModel:
    return replace(MODEL, dependence=em.likelihoods.ScatteredMembers(**options))


def fixed(value: float) -> em.priors.Fixed:
    return em.priors.Fixed(value=value)


@cache
def exact_small() -> Any:
    return estimate(SMALL, MODEL)


# --- a slow twin --------------------------------------------------------------------------------


def twin(
    counts: em.AttackCounts,
    epsilon: float,
    delta: float,
    strength: float,
    spread: float,
    scatter: Scatter,
    *,
    normalised: bool = True,
) -> float:
    """log p(counts of one group | parameters) by sums over a plain grid of the unit square.

    Cells are either inside or outside the region, so the error is about a cell's side.
    """
    size = 700
    edges = np.linspace(0.0, 1.0, size + 1)
    x = 0.5 * (edges[1:] + edges[:-1])
    kernel = size * np.diff(scatter.distribution((edges - x[:, None]) / spread), axis=1)
    a, b = np.meshgrid(x, x, indexing="ij")
    inside = region.contains(a, b, epsilon, delta).astype(float)
    ring = ring_contains(a, b, epsilon, delta, strength)
    kept = kernel @ inside @ kernel.T / size**2 if normalised else np.ones_like(inside)
    total = np.zeros_like(inside)
    for row in range(len(counts)):
        g = np.asarray(binom.pmf(counts.false_positives[row], counts.trials_h0[row], x))[:, None]
        g = g * binom.pmf(counts.false_negatives[row], counts.trials_h1[row], x) * inside
        with np.errstate(divide="ignore", invalid="ignore"):
            total += np.log(kernel @ g @ kernel.T / size**2) - np.log(kept)
    return float(np.log(np.exp(total[ring]).sum() / ring.sum()))


def ours(
    counts: em.AttackCounts,
    epsilon: float,
    delta: float,
    strength: float,
    spread: float,
    scatter: Scatter,
) -> float:
    model = em.CountModel(
        delta=delta,
        epsilon=em.priors.Fixed(value=epsilon),
        strength=em.priors.Fixed(value=strength),
        dependence=em.likelihoods.ScatteredMembers(
            scatter=scatter, spread=em.priors.Fixed(value=spread)
        ),
    )
    surface = GroupSurface.of(counts, model, deltas=(delta,), refinement=2)
    point = np.array([epsilon]), np.array([strength])
    return float(surface.log_likelihood(*point, delta)[0, 0])


TWIN_TOLERANCE = 0.03
"""Both have errors of about a cell: 1/700 of the square here, a fiftieth of a count's noise there."""

TWIN_CASES: list[tuple[list[int], list[int], int, tuple[float, float, float, float]]] = [
    ([3, 5, 2], [10, 12, 9], 30, (1.0, 0.05, 0.3, 0.05)),
    ([3, 5, 2], [10, 12, 9], 30, (2.5, 0.01, 0.7, 0.03)),
    ([0, 0], [2, 1], 20, (2.5, 0.01, 0.7, 0.08)),
    ([12, 16, 14], [14, 13, 15], 30, (0.3, 0.02, 0.2, 0.08)),
    ([40, 42], [20, 22], 60, (4.0, 0.001, 0.0, 0.15)),
]


@pytest.mark.parametrize("scatter", [NORMAL, UNIFORM], ids=["normal", "uniform"])
@pytest.mark.parametrize(("x", "y", "trials", "at"), TWIN_CASES)
def test_a_groups_likelihood_is_that_of_the_slow_twin(
    scatter: Scatter, x: list[int], y: list[int], trials: int, at: tuple[float, float, float, float]
) -> None:
    counts = grouped(x, y, trials, ["a"] * len(x))
    slow = twin(counts, *at, scatter)
    assert ours(counts, *at, scatter) == pytest.approx(slow, abs=TWIN_TOLERANCE)


def test_members_with_very_different_trials() -> None:
    """The small spread is below the noise of one member and above that of the others."""
    counts = em.AttackCounts(
        false_positives=[20, 30, 1],
        trials_h0=[400, 400, 10],
        false_negatives=[100, 130, 4],
        trials_h1=[400, 400, 10],
        groups=["a"] * 3,
    )
    at = (3.0, 0.01, 0.2, 0.01)
    slow = twin(counts, *at, NORMAL)
    assert ours(counts, *at, NORMAL) == pytest.approx(slow, abs=2 * TWIN_TOLERANCE)


def test_a_thin_region_keeps_its_likelihood() -> None:
    """As epsilon goes to 0 at a corner nearly all scatter is cut off, and the quotient remains."""
    counts = grouped([5, 5], [95, 95], 100, ["a", "a"])
    found = [ours(counts, epsilon, 0.0, 0.2, 0.05, NORMAL) for epsilon in (0.01, 0.001, 0.0001)]
    assert found[1:] == pytest.approx([found[0]] * 2, abs=0.02)


@pytest.mark.slow
def test_members_that_scatter_beyond_the_prior_of_the_spread() -> None:
    counts = grouped([20, 180] * 4, [100] * 8, 200, ["a"] * 8)
    posterior = estimate(counts, replace(MODEL, epsilon=fixed(4.0)))
    # The first grid ends at .22, where the prior has 1e-5 left.
    assert posterior.quantile("spread", 0.95) > 0.23
    sampled = mcmc(replace(MODEL, epsilon=fixed(4.0)), counts)
    assert posterior.median("spread") == pytest.approx(sampled.median("spread"), rel=0.05)


def test_without_the_normalising_constant_the_twin_disagrees() -> None:
    x, y, trials, at = TWIN_CASES[0]
    counts = grouped(x, y, trials, ["a"] * len(x))
    wrong = twin(counts, *at, NORMAL, normalised=False)
    assert abs(ours(counts, *at, NORMAL) - wrong) > 5 * TWIN_TOLERANCE


# --- limits -------------------------------------------------------------------------------------


def test_spread_0_is_one_pooled_attack() -> None:
    still = scattered(spread=fixed(0.0))
    at_once, pooled = estimate(SMALL, still), estimate(SMALL.pooled(), MODEL)
    probabilities = [0.05, 0.5, 0.95]
    # The tolerance of the pooled one is finer than that of groups, so refinement steps may differ.
    for name in ("epsilon", "strength"):
        assert at_once.quantile(name, probabilities) == pytest.approx(
            pooled.quantile(name, probabilities), rel=2e-3
        )
    # Given the pooled counts, their distribution over members only affects binomial coefficients.
    choices = log_choices(SMALL).sum() - log_choices(SMALL.pooled()).sum()
    assert at_once.log_evidence - pooled.log_evidence == pytest.approx(choices, abs=1e-3)


def test_groups_of_one_are_the_independent_model() -> None:
    alone = replace(SMALL, groups=("a", "b", "c", "d", ""))
    apart = estimate(alone, replace(MODEL, dependence=em.likelihoods.IndependentRows()))
    assert np.array_equal(
        estimate(alone, MODEL).quantile("epsilon", [0.05, 0.5]),
        apart.quantile("epsilon", [0.05, 0.5]),
    )


def test_single_rows_are_unaffected_by_a_group() -> None:
    """The same rows as a group without spread and as single attacks, through the engine of groups."""
    mixed = grouped([20, 25, 60], [48, 40, 20], 80, ["a", "a", ""])
    close = scattered(spread=fixed(1e-4))
    ours_then = estimate(mixed, close)
    pooled = estimate(mixed.pooled(), MODEL)
    assert ours_then.quantile("epsilon", [0.05, 0.5, 0.95]) == pytest.approx(
        pooled.quantile("epsilon", [0.05, 0.5, 0.95]), rel=0.01
    )


def test_pooled_groups_without_spread_are_nearly_binomial() -> None:
    still = replace(
        MODEL, dependence=em.likelihoods.PooledGroups(spread=em.priors.Fixed(value=0.0))
    )
    pooled = estimate(SMALL.pooled(), MODEL)
    assert estimate(SMALL, still).quantile("epsilon", [0.05, 0.5, 0.95]) == pytest.approx(
        pooled.quantile("epsilon", [0.05, 0.5, 0.95]), rel=0.02
    )  # the normal approximation of 160 and 240 trials


def test_ignoring_groups_makes_the_interval_narrower() -> None:
    crowd = grouped([20] * 8 + [60] * 8, [48] * 8 + [20] * 8, 80, ["a"] * 8 + ["b"] * 8)
    apart = estimate(crowd, replace(MODEL, dependence=em.likelihoods.IndependentRows()))
    together = estimate(crowd, replace(MODEL, dependence=em.likelihoods.PooledGroups()))
    widths = [np.diff(p.credible_interval("epsilon"))[0] for p in (apart, together)]
    assert widths[0] < 0.6 * widths[1]


# --- exact against MCMC -------------------------------------------------------------------------


def mcmc(model: em.CountModel, counts: em.AttackCounts = SMALL, *, seed: int = 1) -> Any:
    settings = em.engines.McmcSettings(
        num_iterations=4000, num_warmup=1000, num_sweeps=8, num_chains=4, seed=seed
    )
    return estimate(counts, model, settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        replace(MODEL, strength=fixed(0.0)),
        # Both are far below what the rates of most members alone would require.
        replace(MODEL, epsilon=em.priors.Uniform(upper=0.3)),
        replace(MODEL, epsilon=fixed(0.2)),
    ],
    ids=["all free", "strength 0", "epsilon below .3", "epsilon .2"],
)
def test_mcmc_agrees_with_the_exact_engine(model: em.CountModel) -> None:
    exact, sampled = estimate(SMALL, model), mcmc(model)
    assert exact.trustworthy
    assert sampled.trustworthy
    for name in sampled.parameters:
        effective = sampled.diagnostics.parameters[name].bulk_effective_size
        for p in (0.05, 0.5, 0.95):
            # The probability that the exact engine gives the sampled quantile.
            level = 1 - exact.probability_above(name, float(sampled.quantile(name, p)))
            # 4.5 standard errors, and the exact engine's own tolerance.
            assert abs(level - p) < 4.5 * math.sqrt(p * (1 - p) / effective) + 0.005, (name, p)


@pytest.mark.slow
def test_another_spread_is_detected() -> None:
    wide = scattered(spread=fixed(0.2))
    sampled = mcmc(wide)
    level = 1 - exact_small().probability_above("epsilon", sampled.median("epsilon"))
    assert abs(level - 0.5) > 0.1


def test_correlated_counts_in_groups_are_for_mcmc() -> None:
    correlated = replace(MODEL, likelihood=em.likelihoods.CorrelatedNormal())
    with pytest.raises(InputError, match="use MCMC"):
        estimate(SMALL, correlated)


@pytest.mark.slow
def test_correlated_counts_in_groups_by_mcmc() -> None:
    sampled = mcmc(replace(MODEL, likelihood=em.likelihoods.CorrelatedNormal()))
    assert set(sampled.parameters) == {
        "epsilon",
        "strength",
        "within_correlation",
        "cross_correlation",
        "spread",
    }
    # Possibly correlated decisions say less about the scatter, and much the same about epsilon.
    assert sampled.median("epsilon") == pytest.approx(exact_small().median("epsilon"), rel=0.1)


@pytest.mark.slow
def test_sweeps_are_for_groups_and_auxiliaries_for_attacks() -> None:
    short = em.engines.McmcSettings(num_iterations=20, num_warmup=0, num_chains=1, num_sweeps=2)
    more_sweeps, more_auxiliaries = replace(short, num_sweeps=5), replace(short, num_auxiliary=5)
    for counts, same, other in (
        (SMALL, more_auxiliaries, more_sweeps),
        (SMALL.take([0, 3]), more_sweeps, more_auxiliaries),
    ):
        draws, as_well, others = (
            estimate(counts, MODEL, settings).samples["epsilon"]
            for settings in (short, same, other)
        )
        assert np.array_equal(draws, as_well)
        assert not np.array_equal(draws, others)
    assert estimate(SMALL, MODEL, short).provenance.settings["num_sweeps"] == 2


# --- the sampler's pieces -----------------------------------------------------------------------

PLACES = [(0.2, 0.3), (0.05, 0.7), (0.5, 0.45), (0.9, 0.15), (0.3, 0.69)]


@pytest.mark.parametrize(("a", "b"), PLACES)
@pytest.mark.parametrize("code", [shares.NORMAL, shares.UNIFORM], ids=["normal", "uniform"])
def test_the_share_of_the_scatter_inside(code: int, a: float, b: float) -> None:
    epsilon, delta, spread = 1.0, 0.03, 0.07
    scatter: Scatter = NORMAL if code == shares.NORMAL else UNIFORM
    rng = np.random.default_rng(5)
    x, y = (
        a + spread * scatter.sample((400_000,), rng=rng),
        b + spread * scatter.sample((400_000,), rng=rng),
    )
    inside = (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
    inside[inside] = region.contains(x[inside], y[inside], epsilon, delta)
    found = math.exp(shares.log_kept(code, a, b, epsilon, delta, spread))
    error = math.sqrt(max(inside.mean() * (1 - inside.mean()), 1e-6) / 400_000)
    assert abs(found - inside.mean()) < 5 * error


@pytest.mark.parametrize(("a", "b"), PLACES)
def test_sliding_with_the_region_can_be_undone_and_has_its_jacobian(a: float, b: float) -> None:
    old, new, delta, h = 2.0, 2.2, 0.03, 1e-6
    x, y, jacobian = kernels._move_with_region(a, b, old, new, delta)
    assert kernels._move_with_region(x, y, new, old, delta)[:2] == pytest.approx((a, b), abs=1e-12)
    columns = []
    for da, db in ((h, 0.0), (0.0, h)):
        up, down = (
            kernels._move_with_region(a + k * da, b + k * db, old, new, delta) for k in (1, -1)
        )
        columns.append([(up[0] - down[0]) / (2 * h), (up[1] - down[1]) / (2 * h)])
    assert math.log(abs(np.linalg.det(columns))) == pytest.approx(jacobian, abs=1e-6)


# --- other queries of a posterior ---------------------------------------------------------------


def test_a_grouped_posterior_survives_a_file(tmp_path: object) -> None:
    path = f"{tmp_path}/posterior.nc"
    exact_small().save(path)
    restored = em.load(path)
    assert restored.counts == SMALL
    assert restored.model == MODEL
    for name in ("epsilon", "strength", "spread"):
        assert restored.quantile(name, 0.3) == exact_small().quantile(name, 0.3)
    rng = np.random.default_rng
    assert np.array_equal(
        restored.draws(50, rng=rng(1))["spread"], exact_small().draws(50, rng=rng(1))["spread"]
    )


@pytest.mark.slow
def test_draws_have_the_marginals_and_the_dependence_of_the_chain() -> None:
    drawn = exact_small().draws(40_000, rng=np.random.default_rng(2))
    for name, values in drawn.items():
        at = exact_small().quantile(name, [0.05, 0.5, 0.95])
        # 5 standard errors of an empirical probability from 40,000 draws.
        assert [np.mean(values <= q) for q in at] == pytest.approx([0.05, 0.5, 0.95], abs=0.013)
    chain = mcmc(MODEL).draws(16_000, rng=np.random.default_rng(1))
    for one, other in (("epsilon", "spread"), ("epsilon", "strength"), ("strength", "spread")):
        ours_then = np.corrcoef(
            np.argsort(np.argsort(drawn[one])), np.argsort(np.argsort(drawn[other]))
        )
        theirs = np.corrcoef(
            np.argsort(np.argsort(chain[one])), np.argsort(np.argsort(chain[other]))
        )
        assert ours_then[0, 1] == pytest.approx(theirs[0, 1], abs=0.1)


@pytest.mark.slow
def test_densities_from_draws_end_where_the_prior_does() -> None:
    model = replace(
        MODEL,
        epsilon=em.priors.Uniform(upper=1.0),
        dependence=em.likelihoods.ScatteredMembers(spread=em.priors.Uniform(upper=0.1)),
    )
    settings = em.engines.McmcSettings(
        num_iterations=2000, num_warmup=500, num_sweeps=2, num_chains=1
    )
    posterior = estimate(SMALL, model, settings)
    for name, end in (("epsilon", 1.0), ("spread", 0.1)):
        assert posterior.density(name, [-0.01 * end, 1.01 * end]).tolist() == [0.0, 0.0]
        grid = np.linspace(0.0, end, 2001)
        # The bins of the estimate cost less than 1e-3; a leak at an end would be some per cent.
        assert np.trapezoid(posterior.density(name, grid), grid) == pytest.approx(1.0, abs=2e-3)


def test_leaving_a_group_out_is_estimating_without_it() -> None:
    influence = em.checks.leave_one_out(exact_small())
    without_b = estimate(SMALL.take([0, 1, 2]), MODEL)
    assert influence.reliable.tolist()[3:] == [True, True]
    for row in (3, 4):
        assert influence.median[row] == pytest.approx(without_b.median("epsilon"), rel=0.02)
        low, high = without_b.credible_interval("epsilon")
        assert influence.low[row] == pytest.approx(low, rel=0.02)
        assert influence.high[row] == pytest.approx(high, rel=0.02)


def test_predictions_of_groups_scatter_less_within_than_between() -> None:
    from epsilometer.checks.predictive import _new_rates

    part = {
        "epsilon": np.full((4000, 1), 3.0),
        "strength": np.full((4000, 1), 0.1),
        "spread": np.full((4000, 1), 0.02),
    }
    alpha, beta = _new_rates(exact_small(), part, np.random.default_rng(1))
    assert region.contains(alpha, beta, 3.0, 0.01).all()
    within = np.abs(alpha[:, 0] - alpha[:, 1]).mean()
    between = np.abs(alpha[:, 0] - alpha[:, 3]).mean()
    # Two normals of spread .02 differ by 2 * .02 / sqrt(pi) on average, less where they are cut.
    assert 0.7 * 0.0226 < within <= 1.05 * 0.0226
    assert between > 5 * within


@pytest.mark.slow
def test_predictive_checks_and_priors_work_on_groups() -> None:
    check = em.checks.check_predictions(exact_small(), rng=np.random.default_rng(1))
    assert all(0 < item.p_value <= 1 for item in check.statistics)
    assert len(em.checks.prior_sensitivity(exact_small(), factors=(2.0,))) == 1


# --- simulation-based calibration ---------------------------------------------------------------

LEVEL = 1e-4
CALIBRATED = em.CountModel(delta=0.02, epsilon=em.priors.HalfNormal(scale=1.5))
POOLED = replace(CALIBRATED, dependence=em.likelihoods.PooledGroups())


def ranks(
    model: em.CountModel, *, exact: bool, runs: int, slip: float = 1.0
) -> dict[str, FloatArray]:
    rng = np.random.default_rng(11)
    found: dict[str, list[float]] = {"epsilon": [], "strength": [], "spread": []}
    trials = 2000 if isinstance(model.dependence, em.likelihoods.PooledGroups) else 60
    settings = em.engines.McmcSettings(
        num_iterations=400, num_warmup=300, num_sweeps=6, num_chains=2, seed=3
    )
    for _ in range(runs):
        truth, counts = draw_groups(model, 3, 3, trials, rng, slip=slip)
        posterior: em.engines.CountPosterior = (
            estimate(counts, model, em.engines.ExactSettings(tolerance=0.05))
            if exact
            else estimate(counts, model, settings)
        )
        for name, values in found.items():
            values.append(1 - posterior.probability_above(name, truth[name]))
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize(
    ("model", "exact", "runs"),
    [
        pytest.param(CALIBRATED, False, 16, id="scattered-mcmc", marks=pytest.mark.slow),
        pytest.param(CALIBRATED, False, 400, id="scattered-mcmc-long", marks=pytest.mark.slow),
        pytest.param(CALIBRATED, True, 60, id="scattered-exact-long", marks=pytest.mark.slow),
        pytest.param(POOLED, True, 100, id="pooled-exact-long", marks=pytest.mark.slow),
    ],
)
def test_truth_ranks_uniformly(model: em.CountModel, exact: bool, runs: int) -> None:
    for name, values in ranks(model, exact=exact, runs=runs).items():
        assert kstest(values, "uniform").pvalue > LEVEL, name


@pytest.mark.slow
def test_members_that_scatter_eight_times_as_far_are_noticed() -> None:
    wrong = ranks(CALIBRATED, exact=False, runs=16, slip=8.0)["spread"]
    assert kstest(wrong, "uniform").pvalue < LEVEL


@pytest.mark.slow
def test_uniform_scatter_is_nearly_normal_scatter() -> None:
    """Scatter that ends abruptly once had likelihoods above any count's, and log evidence above 0."""
    normal, uniform = exact_small(), estimate(SMALL, scattered(scatter=UNIFORM))
    assert uniform.trustworthy
    # The same variance, and little to distinguish the shapes.
    assert uniform.log_evidence == pytest.approx(normal.log_evidence, abs=0.2)
    for probability in (0.05, 0.5, 0.95):
        expected = float(normal.quantile("epsilon", probability))
        assert float(uniform.quantile("epsilon", probability)) == pytest.approx(expected, rel=0.05)
