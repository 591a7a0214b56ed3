"""The one-run bounds on error counts equal those on the corresponding guesses."""

from __future__ import annotations

import pytest

from epsilometer.baselines.one_run import OneRunBound, epsilon_one_run
from epsilometer.baselines.one_run_fdp import GaussianDP, OneRunFdpBound, epsilon_one_run_fdp
from epsilometer.errors import InputError
from tests.baselines.oracles import base, confusion

COUNTS = confusion(tp=90, fn=410, fp=10, tn=490)


def test_members_only() -> None:
    # 100 guesses, 90 of them right, among 1,000 canaries.
    assert OneRunBound().lower(COUNTS, 1e-5)[0] == float(epsilon_one_run(1000, 100, 90, 1e-5))
    assert OneRunFdpBound().lower(COUNTS, 1e-5)[0] == float(
        epsilon_one_run_fdp(1000, 100, 90, 1e-5)
    )


def test_family() -> None:
    bound = OneRunFdpBound(family=GaussianDP()).lower(COUNTS, 1e-5)[0]
    assert bound == float(epsilon_one_run_fdp(1000, 100, 90, 1e-5, family=GaussianDP()))
    assert bound > OneRunFdpBound().lower(COUNTS, 1e-5)[0]
    with pytest.raises(InputError, match="GaussianDP"):
        OneRunFdpBound(family=GaussianDP()).lower(COUNTS, 0.0)


@pytest.mark.parametrize("estimator", [OneRunBound(), OneRunFdpBound()], ids=lambda e: e.label)
def test_counts_at_the_ends(estimator: OneRunBound | OneRunFdpBound) -> None:
    assert estimator.lower(base(0, 50, 50, 50), 1e-5)[0] == 0.0  # no guess at all
    assert estimator.lower(base(50, 50, 0, 50), 1e-5)[0] == 0.0  # every guess, half of them right
    assert estimator.lower(base(0, 50, 0, 50), 1e-5)[0] > 2  # all right
    assert estimator.lower(base(0, 1, 0, 1), 1e-5)[0] == 0.0
