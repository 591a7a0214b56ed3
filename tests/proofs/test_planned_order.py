"""The ordered form of the proof: pairs of all bases in an order that was fixed before training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.measurement.bases import LossRow
from epsilometer.measurement.engine import measure
from epsilometer.measurement.store import SqliteStore
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.proofs.bettors import Bettors, bettors_against
from epsilometer.proofs.claim_tests import claim_test_of
from epsilometer.proofs.outcomes import outcomes_of
from epsilometer.proofs.pairs import LEADERS, PairTest, every_pair
from epsilometer.proofs.proof import refuted_together
from tests.measurement.algorithms import plan


def slow_order(sizes: list[tuple[int, int]], complete: dict[int, int]) -> list[tuple[int, int]]:
    """Pairs of one plan after the other, base by base, up to the first that is not complete."""
    planned: list[tuple[int, int]] = []
    for bases, pairs in sizes:
        each = [(base, pair) for base in range(bases) for pair in range(pairs)]
        planned += [place for place in each if place not in planned]
    ready = [pair < complete.get(base, 0) for base, pair in planned]
    return planned[: ready.index(False)] if False in ready else planned


@pytest.mark.parametrize("seed", range(20))
def test_order_is_that_of_a_slow_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [tuple(size) for size in rng.integers(1, 5, size=(rng.integers(1, 4), 2)).tolist()]
    most = max(bases for bases, _ in sizes)
    complete = {n: int(rng.choice([4, 4, 4, 2])) for n in range(most) if rng.random() < 0.9}
    order = PlannedOrder.of(sizes, list(complete))
    assert order is not None
    numbers = np.array(list(complete), dtype=np.int64)
    rows = [(int(numbers[place]), int(pair)) for place, pair in order.leading([*complete.values()])]
    assert rows == slow_order(sizes, complete)


def slow_path(test: PairTest, epsilon: float, delta: float, order: IntArray) -> FloatArray:
    """The ordered form from the capital of every bettor alone, which a path of one bettor has."""
    bettors, path = bettors_against(epsilon, delta), []
    alone = []
    for n in range(len(bettors.weight)):
        single = bettors._replace(weight=np.eye(len(bettors.weight))[n])
        if bettors.weight[n] > 0:
            capital = np.append(0.0, _along(test, single, order))
            alone.append((bettors.weight[n], capital))
    for step in range(len(order)):
        shares = np.array([weight * np.exp(LEADERS * won[step]) for weight, won in alone])
        gains = np.array([np.exp(won[step + 1] - won[step]) for _, won in alone])
        path.append(np.log(shares @ gains / shares.sum()))
    return np.cumsum(path)


def _along(test: PairTest, bettors: Bettors, order: IntArray) -> FloatArray:
    from epsilometer.proofs.capital import along

    return np.asarray(along(test.outcomes, order, bettors, 1.0, np.inf))


def test_capital_follows_the_bettors_that_won() -> None:
    rng = np.random.default_rng(3)
    outcomes = outcomes_of([(rng.normal(size=30), rng.normal(size=30) + 2) for _ in range(3)])
    order = every_pair(outcomes.starts)
    test = PairTest(outcomes=outcomes, planned_order=order)
    path = test.path(0.6, 1e-5)
    np.testing.assert_allclose(path, slow_path(test, 0.6, 1e-5, order), atol=1e-8)
    assert test.log_e_value(0.6, 1e-5, 0.05) == path.max() > 1
    free = PairTest(outcomes=outcomes).path(0.6, 1e-5)
    assert (
        np.abs(free - path).max() > 0.1
    )  # the control: the form that does not depend on the order


def test_a_claim_refuted_once_stays_refuted() -> None:
    """Bases that leak nothing, trained later, may cost capital, but take nothing back."""
    rng = np.random.default_rng(4)
    leaking = [(rng.normal(size=80), rng.normal(size=80) + 2)]
    more = [(rng.normal(size=80), rng.normal(size=80)) for _ in range(30)]
    tests = []
    for bases in (leaking, leaking + more):
        outcomes = outcomes_of(bases)
        tests.append(PairTest(outcomes=outcomes, planned_order=every_pair(outcomes.starts)))
    bounds = [[t.refutes(e, 1e-5, 0.05) for e in np.linspace(0, 3, 61)] for t in tests]
    assert all(later or not earlier for earlier, later in zip(*bounds, strict=True))
    free = [PairTest(outcomes=t.outcomes).log_e_value(1.0, 1e-5, 0.05) for t in tests]
    assert free[1] < free[0] - 1  # the control


def test_a_store_knows_its_order_until_the_end_of_the_folder(tmp_path: Path) -> None:
    """Plans that grow are appended; a gap ends the order; files of scores do not know it."""
    path = tmp_path / "store.db"
    measure(plan(bases=2, replicates=12), path)
    with SqliteStore(path) as store:
        before = store.losses(store.sizes(), "")
    measure(plan(bases=3, replicates=12), path)
    with SqliteStore(path) as store:
        losses = store.losses(store.sizes(), "")
    scores = em.attacks.scores_of(losses, em.attacks.Loss())
    order = scores.planned_order
    assert order is not None
    assert order.sizes.tolist() == [[2, 12], [3, 12]]
    first = em.attacks.scores_of(before, em.attacks.Loss()).planned_order
    assert first is not None
    np.testing.assert_array_equal(order.leading([12] * 3)[:24], first.leading([12] * 2))
    test: PairTest = claim_test_of(scores)  # type: ignore[assignment]
    assert test.planned_order is not None
    assert len(test.planned_order) == 36
    scores.write(tmp_path / "scores.csv")
    assert em.Scores.read(tmp_path / "scores.csv").planned_order is None
    posterior = em.estimate(scores, delta=1e-5)
    posterior.save(tmp_path / "posterior.nc")
    again = em.load(tmp_path / "posterior.nc").scores
    assert again.planned_order.sizes.tolist() == order.sizes.tolist()
    assert em.prove(again, delta=1e-5, claim=0.1) == em.prove(scores, delta=1e-5, claim=0.1)


def test_a_store_in_progress_proves_from_the_pairs_before_the_first_gap(tmp_path: Path) -> None:
    path, whole = tmp_path / "store.db", plan(bases=3, replicates=12)
    with SqliteStore(path) as store:
        store.prepare(whole)
        rng = np.random.default_rng(1)
        rows = [
            LossRow(task.base, task.hypothesis, task.replicate, "", float(rng.random()))
            for task in whole.tasks()
            if not (task.base == 1 and task.replicate == 5 and task.hypothesis == 1)
        ]
        store.add(rows)
        scores = em.attacks.scores_of(store.losses(whole.sizes, ""), em.attacks.Loss())
    test: PairTest = claim_test_of(scores)  # type: ignore[assignment]
    assert test.planned_order is not None
    assert len(test.planned_order) == 12 + 5


def test_pairs_that_arrive_out_of_order_wait_for_those_before_them(tmp_path: Path) -> None:
    """Otherwise every arrival would be another path, and the largest capital on any would count."""
    rng, size = np.random.default_rng(12), 200
    loss = rng.laplace(size=(2, size)) + 30 - np.array([[0.0], [1.0]])
    proven, complete = [], []
    for first in (95, 1, 0):
        path = tmp_path / f"{first}.db"
        with SqliteStore(path) as store:
            whole = plan(bases=1, replicates=size)
            store.prepare(whole)
            store.add(
                LossRow(0, side, number, "", float(loss[side, number]))
                for side in (0, 1)
                for number in range(first, size)
            )
            scores = em.attacks.scores_of(store.losses(whole.sizes, ""), em.attacks.Loss())
        test: PairTest = claim_test_of(scores)  # type: ignore[assignment]
        assert test.planned_order is not None
        complete.append(len(test.planned_order))
        proven.append(em.prove(scores, delta=0.0).at_least)
    assert complete == [0, 0, size]
    assert proven[:2] == [0, 0]
    assert proven[2] > 0


def test_claims_over_delta_are_refuted_together_along_one_path() -> None:
    rng = np.random.default_rng(5)
    scores = em.Scores(without=[rng.normal(size=60)], with_point=[rng.normal(size=60) + 2])
    ordered = scores.in_planned_order(PlannedOrder.of([[1, 60]], [0]))
    proofs = [em.prove(ordered, delta=delta, claim=0.9) for delta in (1e-5, 1e-2)]
    paths = [proof.evidence.path for proof in proofs if proof.evidence is not None]
    together = np.log(np.mean(np.exp(paths), axis=0)).max()
    assert refuted_together(proofs) == (together >= np.log(20))
