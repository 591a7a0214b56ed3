"""The joint-beta posterior against mpmath's quadrature of the region's inequalities."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.errors import InputError
from epsilometer.model.region import critical_epsilon
from tests.baselines.oracles import base, confusion, joint_beta_above, joint_beta_above_by_panels
from tests.golden import peers

FIXED = settings(derandomize=True, max_examples=40, deadline=None)
SIX = peers.TOLERANCE["six decimals"]

# (X, N0, Y, N1): zeros, N0 and N1 a thousandfold apart, all wrong, one trial.
CASES = [
    (512, 513, 0, 487),
    (0, 30, 0, 30),
    (30, 30, 29, 30),
    (3, 20, 4000, 20_000),
    (0, 20_000, 5, 20),
    (1, 1, 0, 1),
    (50, 100, 50, 100),
]
LARGE = [
    (200, 500, 200, 500),
    (40, 1000, 250, 1000),
    (1000, 1_000_000, 300, 1000),
    (0, 1_000_000, 1_000_000, 1_000_000),
    (300_000, 1_000_000, 200_000, 1_000_000),
]


@pytest.mark.parametrize("cells", list(peers.JOINT_BETA))
def test_peer_intervals(cells: tuple[int, int, int, int, float, float]) -> None:
    tp, tn, fp, fn, delta, level = cells
    low, high = JointBeta().interval(confusion(tp=tp, tn=tn, fp=fp, fn=fn), delta, 1 - level)
    assert (low[0], high[0]) == pytest.approx(peers.JOINT_BETA[cells], abs=SIX)


def test_a_perfect_attack() -> None:
    counts = confusion(tp=500, tn=500, fp=0, fn=0)
    low, high = JointBeta().interval(counts, 0.0, 0.02)
    assert low[0] == pytest.approx(peers.JOINT_BETA_PERFECT[0], abs=SIX)
    assert high[0] == pytest.approx(
        peers.JOINT_BETA_PERFECT[1], abs=peers.TOLERANCE["seven decimals"]
    )


def test_mpmath_decides_between_the_two_upper_ends_in_circulation() -> None:
    ours, theirs = peers.JOINT_BETA_PERFECT[1], peers.JOINT_BETA_PERFECT_CIRCULATED
    # Mass changes by half of itself per unit of epsilon: 6e-8 of epsilon is 3e-10 of mass.
    assert joint_beta_above(0, 500, 0, 500, ours, 0.0) == pytest.approx(0.01, abs=5e-10)
    assert joint_beta_above(0, 500, 0, 500, theirs, 0.0) == pytest.approx(
        peers.JOINT_BETA_PERFECT_CIRCULATED_MASS, abs=5e-9
    )


@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("cells", CASES, ids=lambda c: "-".join(map(str, c)))
def test_probability_is_the_integral(cells: tuple[int, int, int, int], delta: float) -> None:
    x, n0, y, n1 = cells
    centre = float(critical_epsilon((x + 0.5) / (n0 + 1), (y + 0.5) / (n1 + 1), delta))
    found = JointBeta().probability_above(base(x, n0, y, n1), delta, centre)[0]
    # mpmath at 15 digits: the square-root singularity of a rate at 0 costs it 2e-10.
    assert found == pytest.approx(joint_beta_above(x, n0, y, n1, centre, delta), abs=1e-9)


@pytest.mark.parametrize("cells", CASES + LARGE, ids=lambda c: "-".join(map(str, c)))
@pytest.mark.parametrize("significance", [1e-3, 0.1])
def test_quantiles_leave_their_tails(cells: tuple[int, int, int, int], significance: float) -> None:
    x, n0, y, n1 = cells
    half = significance / 2
    low, high = JointBeta().interval(base(x, n0, y, n1), 0.01, significance)
    above = joint_beta_above_by_panels(x, n0, y, n1, low[0], 0.01)
    beyond = joint_beta_above_by_panels(x, n0, y, n1, high[0], 0.01)
    for end, mass, wanted in ((low[0], above, 1 - half), (high[0], beyond, half)):
        if end > 0:
            # The tolerance of the masses above, and 1e-8 for the last Newton step.
            assert mass == pytest.approx(wanted, abs=2e-7)
        else:  # the quantile is in the strip |alpha + beta - 1| <= delta, where epsilon is 0
            assert mass <= wanted


@pytest.mark.parametrize("probability", [0.9, 0.95])
def test_quantile_where_the_density_has_a_step(probability: float) -> None:
    # One trial against thousands: two slopes with a bend between, which Newton's steps jump over.
    quantile = JointBeta().lower(base(2835, 3161, 0, 1), 0.3, probability)[0]
    above = joint_beta_above_by_panels(2835, 3161, 0, 1, quantile, 0.3)
    assert above == pytest.approx(1 - probability, abs=2e-7)


def test_a_wrong_prior_fails_the_same_check() -> None:
    # Uniform priors are Jeffreys priors with half an event more of each kind; here a whole one.
    uniform = joint_beta_above_by_panels(201, 502, 201, 502, 0.4, 0.01)
    found = JointBeta().probability_above(base(200, 500, 200, 500), 0.01, 0.4)[0]
    assert abs(found - uniform) > 1e-4


@FIXED
@given(
    x=st.integers(0, 50),
    n0=st.integers(50, 5000),
    y=st.integers(0, 50),
    n1=st.integers(50, 5000),
    delta=st.sampled_from([0.0, 1e-6, 0.05, 0.5]),
    probability=st.floats(1e-4, 0.999),
)
def test_quantile_inverts_the_probability(
    x: int, n0: int, y: int, n1: int, delta: float, probability: float
) -> None:
    counts = base(x, n0, y, n1)
    quantile = JointBeta().lower(counts, delta, probability)[0]
    above = JointBeta().probability_above(counts, delta, quantile)[0]
    if quantile > 0:
        assert above == pytest.approx(1 - probability, abs=1e-8)
    else:
        assert above <= 1 - probability + 1e-12


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), float("inf")])
def test_epsilon_out_of_range(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        JointBeta().probability_above(base(1, 2, 1, 2), 0.0, epsilon)
