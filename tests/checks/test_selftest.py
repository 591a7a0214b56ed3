"""Null data: valid pipelines raise no alarm, invalid ones are reported as broken."""

from __future__ import annotations

import numpy as np
import pytest

from epsilometer.attacks.losses import Losses
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.checks.selftest import check_pipeline, null_losses, null_scores
from epsilometer.errors import InputError


def test_honest_and_dishonest_pipelines() -> None:
    def honest(members: object, others: object) -> float:
        auditor = CanaryScoreAuditor(members, others)  # type: ignore[arg-type]
        return auditor.epsilon_lower(ClopperPearson(one_sided=True), 0.05)

    def dishonest(members: object, others: object) -> float:
        return CanaryScoreAuditor(members, others).epsilon_raw_counts(20)  # type: ignore[arg-type]

    seen: list[tuple[int, int]] = []
    quiet = check_pipeline(
        honest, label="honest", runs=60, canaries=200, on_progress=lambda *n: seen.append(n)
    )
    assert not quiet.broken
    assert seen[-1] == (60, 60)
    loud = check_pipeline(dishonest, label="dishonest", runs=60, canaries=200)
    assert loud.broken
    assert loud.alarms > 40
    assert loud.largest > 0.1


def test_null_scores_are_those_of_the_seed_and_hold_no_membership() -> None:
    first, again = (list(null_scores(30, 500, seed=4)) for _ in range(2))
    for (a, b), (c, d) in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
        assert len(a) + len(b) == 500
    gaps = [a.mean() - b.mean() for a, b in first]
    assert abs(np.mean(gaps)) < 5 * 0.09 / np.sqrt(30)


@pytest.mark.parametrize("answer", ["1", None, float("nan"), True, [1.0]])
def test_a_result_that_is_not_a_number(answer: object) -> None:
    with pytest.raises(InputError, match="mine: expected a lower bound of epsilon as a number"):
        check_pipeline(lambda members, others: answer, label="mine", runs=2)  # type: ignore[arg-type, return-value]


def test_null_losses_are_of_models_without_the_point_only() -> None:
    losses = Losses(
        challenge_base=["a"] * 20 + ["b"] * 15,
        hypothesis=[0] * 10 + [1] * 10 + [0] * 7 + [1] * 8,
        replicate=[*range(10), *range(10), *range(7), *range(8)],
        loss=np.arange(35.0),
    )
    null = null_losses(losses, np.random.default_rng(1))
    assert null.names == ("a", "b")
    first, second = (null.loss[null.base == base] for base in (0, 1))
    assert sorted(first) == list(range(10))
    assert len(second) == 6  # an odd one is dropped
    assert set(second) <= set(range(20, 27))
    assert [int(h) for h in null.hypothesis] == [0] * 5 + [1] * 5 + [0] * 3 + [1] * 3
    other = null_losses(losses, np.random.default_rng(2))
    assert not np.array_equal(null.loss, other.loss)
    few = Losses(
        challenge_base=["a"] * 8,
        hypothesis=[0] * 5 + [1] * 3,
        replicate=[*range(5), *range(3)],
        loss=np.arange(8.0),
    )
    with pytest.raises(InputError, match="expected at least 6 models without the point, got 5"):
        null_losses(few, np.random.default_rng(1))
