"""Requirements on every estimator from counts, one suite for all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.baselines.estimator import CountEstimator, check_positive_delta
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates, Jeffreys
from epsilometer.baselines.joint_beta import JointBeta
from epsilometer.baselines.log_ratio import AdjustedLog, Bailey, InverseSinh, Katz
from epsilometer.baselines.one_run import OneRunBound
from epsilometer.baselines.one_run_fdp import GaussianDP, OneRunFdpBound
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from tests.baselines.oracles import base

FIXED = settings(derandomize=True, max_examples=8, deadline=None)

ALL: dict[str, CountEstimator] = {
    "clopper-pearson": ClopperPearson(),
    "clopper-pearson-one-sided": ClopperPearson(one_sided=True),
    "jeffreys": Jeffreys(),
    "jeffreys-one-sided": Jeffreys(one_sided=True),
    "joint-beta": JointBeta(),
    "katz": Katz(),
    "adjusted": AdjustedLog(),
    "bailey": Bailey(),
    "inverse-sinh": InverseSinh(),
    "gaussian": GaussianRates(),
    "one-run": OneRunBound(),
    "one-run-fdp": OneRunFdpBound(),
    "one-run-gdp": OneRunFdpBound(family=GaussianDP()),
}
# Exchanging the hypotheses changes nothing; the others use one direction only.
EXCHANGEABLE = [
    name for name in ALL if "one-sided" not in name and name not in {"one-run", "one-run-fdp"}
]
EXCHANGEABLE.remove("one-run-gdp")
REFLECTABLE = ["clopper-pearson", "jeffreys", "joint-beta"]

counts_of_one = st.tuples(st.integers(1, 90), st.floats(0, 1), st.integers(1, 90), st.floats(0, 1))
levels = st.floats(0.001, 0.6)
deltas = st.sampled_from([1e-6, 1e-3, 0.02, 0.2])


def to_base(drawn: tuple[int, float, int, float]) -> AttackCounts:
    n0, share0, n1, share1 = drawn
    return base(round(share0 * n0), n0, round(share1 * n1), n1)


@pytest.mark.parametrize("name", list(ALL))
@FIXED
@given(drawn=counts_of_one, delta=deltas, level=levels)
def test_ends_are_in_order(
    name: str, drawn: tuple[int, float, int, float], delta: float, level: float
) -> None:
    counts = to_base(drawn)
    low, high = ALL[name].interval(counts, delta, level)
    assert 0 <= low[0] <= high[0]
    assert low[0] < math.inf
    if name != "joint-beta":  # others give the same half to the lower end; this is a quantile
        assert low[0] == pytest.approx(ALL[name].lower(counts, delta, level / 2)[0], abs=1e-8)


@pytest.mark.parametrize("name", list(ALL))
@FIXED
@given(
    drawn=counts_of_one,
    some_deltas=st.tuples(deltas, deltas).map(sorted),
    some_levels=st.tuples(levels, levels).map(sorted),
)
def test_lower_end_rises_with_significance_and_falls_with_delta(
    name: str,
    drawn: tuple[int, float, int, float],
    some_deltas: list[float],
    some_levels: list[float],
) -> None:
    counts, estimator = to_base(drawn), ALL[name]
    small, large = (estimator.lower(counts, some_deltas[0], s)[0] for s in some_levels)
    assert small <= large + 1e-7
    further = estimator.lower(counts, some_deltas[1], some_levels[0])[0]
    assert further <= small + 1e-7


@pytest.mark.parametrize("name", EXCHANGEABLE)
@FIXED
@given(drawn=counts_of_one, delta=deltas, level=levels)
def test_hypotheses_can_be_exchanged(
    name: str, drawn: tuple[int, float, int, float], delta: float, level: float
) -> None:
    counts = to_base(drawn)
    other = to_base((drawn[2], drawn[3], drawn[0], drawn[1]))
    for one, two in zip(
        ALL[name].interval(counts, delta, level),
        ALL[name].interval(other, delta, level),
        strict=True,
    ):
        assert one[0] == pytest.approx(two[0], rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", REFLECTABLE)
@FIXED
@given(drawn=counts_of_one, delta=deltas, level=levels)
def test_decisions_can_be_reflected(
    name: str, drawn: tuple[int, float, int, float], delta: float, level: float
) -> None:
    counts = to_base(drawn)
    x, n0 = int(counts.false_positives[0]), int(counts.trials_h0[0])
    y, n1 = int(counts.false_negatives[0]), int(counts.trials_h1[0])
    other = base(n0 - x, n0, n1 - y, n1)
    for one, two in zip(
        ALL[name].interval(counts, delta, level),
        ALL[name].interval(other, delta, level),
        strict=True,
    ):
        assert one[0] == pytest.approx(two[0], rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", list(ALL))
def test_many_bases_are_one_by_one(name: str) -> None:
    cells = [(10, 100, 10, 100), (0, 40, 0, 50), (50, 50, 3, 9), (1, 1, 0, 1), (7, 90, 800, 1000)]
    columns = np.array(cells)
    counts = AttackCounts(
        false_positives=columns[:, 0],
        trials_h0=columns[:, 1],
        false_negatives=columns[:, 2],
        trials_h1=columns[:, 3],
    )
    many = ALL[name].interval(counts, 0.001, 0.1)
    alone = [ALL[name].interval(base(*cell), 0.001, 0.1) for cell in cells]
    for end in range(2):
        assert many[end].shape == (5,)
        assert many[end] == pytest.approx([float(a[end][0]) for a in alone], abs=1e-8)


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize(
    ("delta", "significance", "message"),
    [
        (1.0, 0.05, "0 <= delta < 1, got delta=1.0"),
        (-0.1, 0.05, "0 <= delta < 1, got delta=-0.1"),
        (math.nan, 0.05, "delta=nan"),
        (1e-5, 0.0, "0 < significance < 1, got significance=0.0"),
        (1e-5, 1.0, "0 < significance < 1, got significance=1.0"),
        (1e-5, 2.0, "significance=2.0"),
        (1e-5, math.nan, "significance=nan"),
    ],
)
def test_out_of_range(name: str, delta: float, significance: float, message: str) -> None:
    for method in (ALL[name].lower, ALL[name].interval):
        with pytest.raises(InputError, match=message):
            method(base(1, 10, 1, 10), delta, significance)


def test_the_error_names_who_needs_a_positive_delta() -> None:
    assert check_positive_delta(0.1, who="me") == 0.1
    with pytest.raises(InputError, match="me assumes a Gaussian mechanism"):
        check_positive_delta(0.0, who="me")
