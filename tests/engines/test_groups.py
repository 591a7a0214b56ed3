"""Groups of dependent attacks: limits, a slow twin and calibration."""

from __future__ import annotations

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
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.counts import counts_of
from studies.draws import draw_groups
from tests.drawn import ring_contains

FloatArray = NDArray[np.float64]
Scatter = em.likelihoods.NormalScatter | em.likelihoods.UniformScatter
NORMAL, UNIFORM = em.likelihoods.NormalScatter(), em.likelihoods.UniformScatter()


def grouped(x: list[int], y: list[int], trials: int, groups: list[str]) -> em.AttackCounts:
    return counts_of(x, trials, y, trials, groups=groups)


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
    size: int = 700,
) -> float:
    """log p(counts of one group | parameters) by sums over a plain grid of the unit square.

    Cells are either inside or outside the region, so the error is about a cell's side.
    """
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


#: Both have errors of about a cell: 1/700 of the square here, a fiftieth of a count's noise there.
TWIN_TOLERANCE = 0.03

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
    counts = counts_of([20, 30, 1], [400, 400, 10], [100, 130, 4], [400, 400, 10], groups=["a"] * 3)
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


def test_without_the_normalising_constant_the_twin_disagrees() -> None:
    x, y, trials, at = TWIN_CASES[0]
    counts = grouped(x, y, trials, ["a"] * len(x))
    wrong = twin(counts, *at, NORMAL, normalised=False)
    assert abs(ours(counts, *at, NORMAL) - wrong) > 5 * TWIN_TOLERANCE


@pytest.mark.slow
def test_the_posterior_is_that_of_the_slow_twin_on_a_plain_grid() -> None:
    """Integrated over epsilon and the spread by midpoints; another spread is told apart."""
    epsilons, spreads = np.linspace(0.025, 1.975, 40), np.linspace(0.00625, 0.19375, 16)
    groups = SMALL.take([0, 1, 2]), SMALL.take([3, 4])
    logs = np.array(
        [
            [sum(twin(g, e, 0.01, 0.0, r, NORMAL, size=250) for g in groups) for r in spreads]
            for e in epsilons
        ]
    )
    logs += em.likelihoods.ScatteredMembers().spread.log_density(spreads)
    joint = np.exp(logs - logs.max())

    def error(model: em.CountModel, name: str, grid: FloatArray, weight: FloatArray) -> float:
        bounded = em.priors.Uniform(upper=2.0)
        found = estimate(SMALL, replace(model, strength=fixed(0.0), epsilon=bounded))
        ends = grid + 0.5 * (grid[1] - grid[0])
        above = np.array([found.probability_above(name, float(end)) for end in ends])
        return float(np.abs(1 - above - np.cumsum(weight) / weight.sum()).max())

    # An edge of the region on cells of 1/250 moves by less than a step of epsilon.
    assert error(MODEL, "epsilon", epsilons, joint.sum(axis=1)) < 0.02
    assert error(MODEL, "spread", spreads, joint.sum(axis=0)) < 0.02
    # The control misses by three times what is allowed.
    assert error(scattered(spread=fixed(0.2)), "epsilon", epsilons, joint.sum(axis=1)) > 3 * 0.02


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


def test_correlated_counts_in_groups_and_groups_by_mcmc_are_refused() -> None:
    with pytest.raises(InputError, match="correlated counts in groups"):
        estimate(SMALL, replace(MODEL, likelihood=em.likelihoods.CorrelatedNormal()))
    with pytest.raises(InputError, match="exact engine for groups"):
        estimate(SMALL, MODEL, em.engines.McmcSettings())


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


def test_draws_have_the_marginals_and_the_dependence_of_the_grid() -> None:
    posterior = exact_small()
    drawn = posterior.draws(40_000, rng=np.random.default_rng(2))
    for name, values in drawn.items():
        at = posterior.quantile(name, [0.05, 0.5, 0.95])
        # 5 standard errors of an empirical probability from 40,000 draws.
        assert [np.mean(values <= q) for q in at] == pytest.approx([0.05, 0.5, 0.95], abs=0.013)
    cells = posterior.cells
    logs = cells.log_nuisance + posterior.nuisance.log_weight
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    spread = (share @ posterior.nuisance.spread) / share.sum(axis=1)
    expected = float(cells.mass @ (cells.epsilon[cells.row] * spread)) / float(cells.mass.sum())
    products = drawn["epsilon"] * drawn["spread"]
    # Draws are interpolated between nodes: a per cent beside their own error.
    error = 5 * float(products.std()) / 200 + 0.01 * expected
    assert float(products.mean()) == pytest.approx(expected, abs=error)


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


def ranks(model: em.CountModel, *, runs: int, slip: float = 1.0) -> dict[str, FloatArray]:
    rng = np.random.default_rng(11)
    found: dict[str, list[float]] = {"epsilon": [], "strength": [], "spread": []}
    trials = 2000 if isinstance(model.dependence, em.likelihoods.PooledGroups) else 60
    for _ in range(runs):
        truth, counts = draw_groups(model, 3, 3, trials, rng, slip=slip)
        posterior = estimate(counts, model, em.engines.ExactSettings(tolerance=0.05))
        for name, values in found.items():
            values.append(1 - posterior.probability_above(name, truth[name]))
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "runs"),
    [pytest.param(CALIBRATED, 60, id="scattered"), pytest.param(POOLED, 100, id="pooled")],
)
def test_truth_ranks_uniformly(model: em.CountModel, runs: int) -> None:
    for name, values in ranks(model, runs=runs).items():
        assert kstest(values, "uniform").pvalue > LEVEL, name


@pytest.mark.slow
def test_members_that_scatter_eight_times_as_far_are_noticed() -> None:
    wrong = ranks(CALIBRATED, runs=16, slip=8.0)["spread"]
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
