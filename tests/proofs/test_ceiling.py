"""How far proofs reach at best: perfect attacks by the tests themselves, and a bound of any test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log

import numpy as np
import pytest

import epsilometer as em
from epsilometer.model.counts import counts_of
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs.bettors import bettors_against
from epsilometer.proofs.claim_tests import claim_test_of
from epsilometer.proofs.outcomes import HIGH_WITH, LOW_WITHOUT, best_outcomes
from epsilometer.proofs.pairs import PairTest
from epsilometer.proofs.proof import prove
from epsilometer.proofs.refuting import ACCURACY, ceiling, refuted_up_to, times_enough

ERROR = 0.05

#: Perfect attacks miss this much of the best outcome: some of the first thresholds, placed by few
#: models, are on the wrong side of one more score.
MISSED = 0.02

#: Sizes of bases, without and with the point.
Sizes = list[tuple[int, int]]


def models(sizes: Sizes, shift: float, noise: float) -> Scores:
    """Every base begins the same, however large it is."""
    sides = [
        [
            inside * shift + noise * np.random.default_rng((base, inside)).normal(size=each[inside])
            for base, each in enumerate(sizes)
        ]
        for inside in (0, 1)
    ]
    return Scores(without=sides[0], with_point=sides[1])


def in_order(bases: int, pairs: int, shift: float, noise: float) -> Scores:
    """In an order of all pairs that was fixed before."""
    order = PlannedOrder.of([[bases, pairs]], range(bases))
    return models([(pairs, pairs)] * bases, shift, noise).in_planned_order(order)


def counts(sizes: Sizes, shift: float, noise: float) -> em.AttackCounts:
    del noise
    wrong = [0 if shift >= PERFECT else min(each) // 4 for each in sizes]
    return counts_of(wrong, [n for n, _ in sizes], wrong, [n for _, n in sizes])


def both_kinds(shift: float, noise: float) -> Scores:
    """A base of scores and one of counts."""
    parts = (
        models([(60, 60)], shift, noise),
        Scores.of_counts(counts([(80, 80)], shift, noise)),
    )
    return Scores.of_bases([part.bases[0] for part in parts], ["scores", "counts"])


def canaries(sizes: list[int], shift: float, noise: float) -> Scores:
    found = models([(n // 2, n // 2) for n in sizes], shift, noise)
    return Scores.of_bases(found.bases, found.names, one_run=True)


def pool(models: int, shift: float, noise: float, *, fair_coins: bool) -> PoolScores:
    rng = np.random.default_rng(3)
    member = rng.permuted(np.tile([True, False], (6, models // 2)).T, axis=0)
    value = shift * member + noise * rng.normal(size=member.shape)
    return PoolScores(value=value, member=member, fair_coins=fair_coins)


#: A shift of the scores that separates all of them.
PERFECT = 100.0

Make = Callable[[float, float], Scores | em.AttackCounts | PoolScores]

#: Data of a shift and noise, whether bases are independent, and how many decisions are made.
KINDS: dict[str, tuple[Make, bool, int]] = {
    "one base": (partial(models, [(100, 100)]), True, 200),
    "bases": (partial(models, [(40, 40)] * 8), True, 640),
    "bases in a planned order": (partial(in_order, 8, 40), True, 640),
    "unequal sizes": (partial(models, [(30, 30), (80, 80), (7, 7)]), True, 234),
    "incomplete pairs": (partial(models, [(50, 53), (40, 40)]), True, 186),
    "bases that share models": (partial(models, [(60, 60)] * 4), False, 480),
    "too few": (partial(models, [(3, 3)]), True, 6),
    "counts": (partial(counts, [(50, 60), (100, 100)]), True, 310),
    "dependent counts": (partial(counts, [(50, 50)] * 3), False, 300),
    "scores and counts": (both_kinds, True, 280),
    "a run": (partial(canaries, [400]), True, 400),
    "runs": (partial(canaries, [300, 200]), True, 500),
    "runs with equal coins": (partial(canaries, [300, 300]), False, 600),
    "a pool": (partial(pool, 40, fair_coins=True), True, 240),
    "a pool of drawn records": (partial(pool, 40, fair_coins=False), True, 240),
}


@pytest.mark.parametrize("delta", [1e-5, 1e-2])
@pytest.mark.parametrize("kind", KINDS)
def test_perfect_attacks_prove_the_most_and_no_test_more(kind: str, delta: float) -> None:
    make, independent, decisions = KINDS[kind]
    real, *perfect = (
        prove(make(shift, noise), delta=delta, independent=independent)
        for shift, noise in ((1.0, 1.0), (PERFECT, 1.0), (PERFECT, 0.0))
    )
    most = real.most_provable
    assert {proof.most_provable for proof in perfect} == {most}  # of the sizes alone
    assert real.at_least < most or most == 0
    # Fitted thresholds want scores that differ, guesses of canaries equal ones.
    assert most - MISSED < max(proof.at_least for proof in perfect) < most + 1e-9
    assert most < max(log(decisions / log(1 / ERROR)), 1e-9)


def test_fewer_models_would_be_no_bound() -> None:
    """The control: perfect attacks exceed what half of their models, or a third, could prove."""
    for kind in ("bases", "bases in a planned order", "a run", "a pool"):
        make, independent, decisions = KINDS[kind]
        test = claim_test_of(make(PERFECT, 0.0), independent=independent)
        proven = prove(make(PERFECT, 0.0), delta=1e-5, independent=independent).at_least
        assert test.most_provable(1e-5, ERROR, times=0.5) < proven - 0.3
        if kind != "a pool":  # which pays for the choice between points and models
            assert proven > log(decisions / 3 / log(1 / ERROR))


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_no_outcome_gains_a_bettor_more_than_the_best(delta: float) -> None:
    for epsilon in (0.1, 1.0, 4.0, 9.0):
        against = bettors_against(epsilon, delta)
        log_e = against.log_e[against.weight > 0]
        assert (log_e[:, HIGH_WITH | LOW_WITHOUT] >= log_e.max(axis=1) - 1e-12).all()
        assert (log_e[:, HIGH_WITH | LOW_WITHOUT] > 0).all()  # so nobody sits out


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "bases" in kind or "sizes" in kind])
def test_halving_finds_what_small_steps_find(kind: str) -> None:
    make, independent, _ = KINDS[kind]
    test = claim_test_of(make(PERFECT, 1.0), independent=independent)
    assert isinstance(test, PairTest)
    best = test.at_best()
    stepwise = refuted_up_to(lambda epsilon: best.refutes(epsilon, 1e-5, ERROR))
    assert test.most_provable(1e-5, ERROR) == pytest.approx(stepwise, abs=2 * ACCURACY)
    # The control: where claims between refuted ones are not refuted, steps find less.
    assert ceiling(lambda epsilon: not 0.4 < epsilon < 0.6 and epsilon < 3) > 2.9


def test_the_largest_claim_ends_the_search() -> None:
    assert ceiling(lambda _: False) == 0
    assert 29.9 < ceiling(lambda _: True) <= 32


@pytest.mark.parametrize(
    ("kind", "claim"),
    [("one base", 6.0), ("bases that share models", 4.5), ("too few", 2.0), ("counts", 6.0)]
    + [("scores and counts", 6.0), ("a run", 6.0), ("a pool", 5.0)],
)
def test_the_audit_that_is_said_to_be_enough_is(kind: str, claim: float) -> None:
    make, independent, size = KINDS[kind]
    test = claim_test_of(make(1.0, 1.0), independent=independent)
    most = partial(test.most_provable, 1e-5, ERROR)
    assert most(1.0) < claim
    times = times_enough(most, claim, size)
    assert times is not None
    assert most(times) > claim
    assert most(times / 1.15) < claim  # nor is it much too large


def test_an_audit_of_the_size_that_is_enough_refutes_the_claim() -> None:
    most = PairTest(outcomes=best_outcomes([20] * 3)).most_provable
    times = times_enough(partial(most, 1e-5, ERROR), 5.0, 120)
    assert times is not None
    larger = models([(round(20 * times) + 1,) * 2] * 3, PERFECT, 1.0)
    assert prove(larger, delta=1e-5, claim=5.0).refuted
    assert not prove(models([(20, 20)] * 3, PERFECT, 1.0), delta=1e-5, claim=5.0).refuted


def test_no_feasible_audit_is_enough_for_some_claims() -> None:
    most = partial(PairTest(outcomes=best_outcomes([100])).most_provable, 1e-5, ERROR)
    assert times_enough(most, 3.0, 200) == 1
    assert times_enough(most, 20.0, 200) is None  # exp(20) models
    # Canaries share the probability delta: more of them prove no more.
    run = claim_test_of(canaries([400], 1.0, 1.0))
    assert times_enough(partial(run.most_provable, 0.1, ERROR), 6.0, 400) is None
