"""Scatter of members around averages, groups in counts, and the limits of R along beta."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, uniform

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.counts import counts_of
from epsilometer.model.dependence import sample_members

SCATTERS = [em.likelihoods.NormalScatter(), em.likelihoods.UniformScatter()]


@pytest.mark.parametrize("scatter", SCATTERS, ids=["normal", "uniform"])
def test_the_spread_is_the_standard_deviation_of_a_rate(
    scatter: em.likelihoods.NormalScatter | em.likelihoods.UniformScatter,
) -> None:
    z = np.linspace(-8.0, 8.0, 160_001)
    oracle = {"normal": norm(), "uniform": uniform(-math.sqrt(3), 2 * math.sqrt(3))}[scatter.name]
    assert oracle.std() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(scatter.distribution(z), oracle.cdf(z), atol=1e-15)  # rounding
    drawn = scatter.sample((200_000,), rng=np.random.default_rng(1))
    assert np.std(drawn) == pytest.approx(1.0, abs=0.01)  # 6 standard errors


@pytest.mark.parametrize("scatter", SCATTERS, ids=["normal", "uniform"])
def test_members_are_cut_to_the_region_and_follow_the_scatter_inside(
    scatter: em.likelihoods.NormalScatter | em.likelihoods.UniformScatter,
) -> None:
    size, rng = 40_000, np.random.default_rng(3)
    # On the lower edge of R(1, 0): about half of the scatter is outside.
    centre = np.full(size, 0.2), np.full(size, float(region.beta_limits(0.2, 1.0, 0.0)[0]))
    alpha, beta = sample_members(scatter, *centre, 0.05, 1.0, 0.0, rng=rng)
    assert region.contains(alpha, beta, 1.0, 0.0).all()
    # The twin: untruncated scatter, discarding what is outside.
    free = [c + 0.05 * scatter.sample((size,), rng=rng) for c in centre]
    kept = (free[0] >= 0) & (free[1] >= 0) & (free[0] <= 1) & (free[1] <= 1)
    kept[kept] = region.contains(free[0][kept], free[1][kept], 1.0, 0.0)
    assert 0.3 < kept.mean() < 0.7
    for ours, twin in ((alpha, free[0][kept]), (beta, free[1][kept])):
        error = 5 * 0.05 * np.sqrt(1 / size + 1 / kept.sum())
        assert abs(ours.mean() - twin.mean()) < error
    # Without truncation the mean would differ: the check can fail.
    assert abs(alpha.mean() - free[0].mean()) > 5 * 0.05 * np.sqrt(2 / size)


def test_members_without_spread_are_their_average() -> None:
    centre = np.array([0.3, 0.4])
    alpha, beta = sample_members(
        em.likelihoods.NormalScatter(), centre, centre, 0.0, 1.0, 0.0, rng=np.random.default_rng(1)
    )
    assert np.array_equal(alpha, centre)
    assert np.array_equal(beta, centre)


@given(
    alpha=st.floats(0.0, 1.0),
    beta=st.floats(0.0, 1.0),
    epsilon=st.floats(0.0, 8.0),
    delta=st.floats(0.0, 0.5),
)
def test_beta_limits_are_where_the_region_begins_and_ends(
    alpha: float, beta: float, epsilon: float, delta: float
) -> None:
    low, high = region.beta_limits(alpha, epsilon, delta)
    if min(abs(beta - low), abs(beta - high)) > 1e-9:  # rounding on the edge itself
        assert region.contains(alpha, beta, epsilon, delta) == (low < beta < high)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: em.likelihoods.ScatteredMembers(spread=em.priors.Fixed(value=1.0)),
            "0 <= spread < 1",
        ),
        (
            lambda: em.likelihoods.ScatteredMembers(spread=em.priors.HalfNormal(scale=2.0)),
            "stays below 1",
        ),
        (lambda: em.likelihoods.PooledGroups(spread=0.1), "a prior for the spread"),  # type: ignore[arg-type]
        (lambda: em.likelihoods.ScatteredMembers(scatter="normal"), "NormalScatter"),  # type: ignore[arg-type]
        (lambda: em.CountModel(delta=0.1, dependence="pooled"), "kind of dependence"),  # type: ignore[arg-type]
    ],
)
def test_wrong_choices_are_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


# --- groups in counts ---------------------------------------------------------------------------


def counts(groups: list[str] | None, names: list[str] | None = None) -> em.AttackCounts:
    return counts_of([1, 2, 3, 4], [10, 20, 30, 40], [5, 6, 7, 8], 10, groups=groups, names=names)


def test_groups_gather_rows_in_the_order_of_their_first() -> None:
    mixed = counts(["b", "", "a", "b"])
    assert [rows.tolist() for rows in mixed.members] == [[0, 3], [1], [2]]
    assert mixed.dependent
    pooled = mixed.pooled()
    assert pooled.false_positives.tolist() == [5, 2, 3]
    assert pooled.trials_h0.tolist() == [50, 20, 30]
    assert pooled.names == ("b", "1", "2")
    assert not pooled.groups


@pytest.mark.parametrize("groups", [None, ["", "", "", ""], ["a", "b", "c", "d"]])
def test_rows_without_a_partner_do_not_depend(groups: list[str] | None) -> None:
    alone = counts(groups)
    assert not alone.dependent
    assert not em.CountModel(delta=0.1).scatters(alone)
    assert "spread" not in em.CountModel(delta=0.1).parameters_of(alone)


def test_a_spread_is_estimated_only_where_groups_scatter() -> None:
    grouped = counts(["a", "a", "", ""])
    free = em.CountModel(delta=0.1)
    assert free.parameters_of(grouped) == ("epsilon", "strength", "spread")
    for dependence in (
        em.likelihoods.IndependentRows(),
        em.likelihoods.PooledGroups(spread=em.priors.Fixed(value=0.1)),
    ):
        model = em.CountModel(delta=0.1, dependence=dependence)
        assert model.parameters_of(grouped) == ("epsilon", "strength")


def test_a_base_twice_is_noticed_unless_it_is_one_group() -> None:
    names = ["x", "x", "y", "z"]
    assert counts(None, names).repeated_names == ("x",)
    assert counts(["g", "g", "", ""], names).repeated_names == ()
    assert counts(["g", "h", "", ""], names).repeated_names == ("x",)


def test_joining_keeps_groups_and_taking_keeps_rows() -> None:
    first, second = counts(["a", "a", "", ""]), counts(None)
    both = first.joined(second)
    assert both.groups == ("a", "a", "", "", "", "", "", "")
    assert both.take([0, 1, 2, 3]) == first
    assert first.joined(first).pooled().trials_h0.tolist()[0] == 60


def test_groups_survive_files(tmp_path: object) -> None:
    grouped = counts(["a", "a", "", "=danger"], ["w", "x", "y", "z"])
    assert em.AttackCounts.parse(grouped.to_csv(), name="x") == grouped
    plain = counts(None)
    assert "group" not in plain.to_csv().splitlines()[0]
    assert em.AttackCounts.parse(plain.to_csv(), name="x") == plain


def test_the_wrong_number_of_groups_is_refused() -> None:
    with pytest.raises(InputError, match="expected 4 groups, got 2"):
        counts(["a", "a"])
