"""Auditors who stop, abandon and retry where it suits them: true claims are not refuted.

Every mechanism satisfies the claim, with what it does when it fails, and every control refutes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import epsilometer as em
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.attacks.pool_attacks import held_out_scores
from epsilometer.attacks.statistics import Logit, Loss, scores_of
from epsilometer.errors import InputError
from epsilometer.measurement.bases import LossRow
from epsilometer.measurement.population import Dataset, Point
from epsilometer.proofs.claim_tests import claim_test_of
from tests.measurement.algorithms import plan, population, task_of

RUNS = 200

#: Epsilon of every answer.
CLAIM = 2.0

#: Models of a base on each side.
PAIRS = 200

Random = np.random.Generator


def answers(member: BoolArray, rng: Random) -> FloatArray:
    """Randomised response, at least 1 if the point seems to be a member; the rest tells nothing."""
    return (member ^ (rng.random(member.shape) < expit(-CLAIM))) + rng.random(member.shape) / 2


def losses_of(member: Any, answer: Any, base: Any, replicate: Any, **how: Any) -> em.Losses:
    return em.Losses(
        challenge_base=[str(n) for n in np.ravel(base)],
        hypothesis=np.ravel(member).astype(int),
        replicate=np.ravel(replicate),
        loss=2 - np.ravel(answer),
        **how,
    )


def refuted(data: Any, epsilon: float = CLAIM, delta: float = 0.0) -> bool:
    return claim_test_of(data).refutes(epsilon, delta, 0.05)


def times(run: Callable[[Random], bool], runs: int = RUNS) -> int:
    return sum(run(np.random.default_rng((29, seed))) for seed in range(runs))


# --- half a pair ------------------------------------------------------------------------------------

#: Base, whether the point is in, replicate, answer.
Rows = list[tuple[int, int, int, float]]


def half_seen(rng: Random, bases: int = 2, *, abandon: bool = False) -> Rows:
    """An auditor does not train the partner of a model without the point that looks like a member.

    He goes on with the next pair, or abandons the base for another one.
    """
    rows = []
    for base in range(bases):
        for number in range(PAIRS):
            without, with_point = answers(np.array([False, True]), rng).tolist()
            rows.append((base, 0, number, without))
            if number < 4 or without < 1:
                rows.append((base, 1, number, with_point))
            elif abandon:
                break
    return rows


def of_rows(rows: Rows) -> em.Losses:
    base, member, replicate, answer = zip(*rows, strict=True)
    return losses_of(member, answer, base, replicate)


def complete(rows: Rows) -> Rows:
    """The control: models without a partner are left out."""
    whole = {(base, number) for base, member, number, _ in rows if member}
    return [row for row in rows if (row[0], row[2]) in whole]


def test_stopping_between_a_model_and_its_partner_does_not_help() -> None:
    def run(rng: Random, control: bool = False) -> bool:
        rows = half_seen(rng)
        return refuted(scores_of(of_rows(complete(rows) if control else rows)))

    assert times(run) == 0
    assert times(partial(run, control=True), 40) >= 36


def test_every_way_to_look_at_an_audit_in_progress_sees_begun_pairs(tmp_path: Path) -> None:
    rows = half_seen(np.random.default_rng(5), 60, abandon=True)
    losses = of_rows(rows)
    losses.write(tmp_path / "losses.csv")
    scores = scores_of(losses)
    scores.write(tmp_path / "scores.csv")
    columns = losses.challenge_base, losses.hypothesis, losses.replicate, Logit()(losses.loss)
    lines = [",".join(map(str, line)) for line in zip(*columns, strict=True)]
    header = "challenge_base,hypothesis,replicate,score"
    (tmp_path / "own.csv").write_text("\n".join([header, *lines]) + "\n")
    with em.stores.SqliteStore(tmp_path / "audit.db") as store:
        store.prepare(plan(bases=60, replicates=PAIRS))
        store.add(LossRow(*row[:3], "", 2 - row[3]) for row in rows)
    given: Any = {"delta": 0.0, "claim": CLAIM}
    assert em.prove(scores_of(of_rows(complete(rows))), **given).refuted
    expected = em.prove(scores, **given)
    assert expected.e_value is not None
    assert expected.e_value < 1
    for file in ("losses.csv", "scores.csv", "own.csv"):
        assert em.prove(tmp_path / file, **given).e_value == pytest.approx(expected.e_value)
    # A store knows the order of all pairs, and nothing behind the first abandoned one counts.
    found = em.prove(tmp_path / "audit.db", **given).e_value
    assert found is not None
    assert found < 2


@pytest.mark.parametrize("by_base", [True, False])
def test_an_interrupted_audit_proves_no_more_than_the_finished_one(
    by_base: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(8)
    base, member, number = np.indices((3, 2, 30)).reshape(3, -1)
    loss = 3 - answers(member == 1, rng) - member
    order = np.lexsort([number, member, base] if by_base else [member, base, number])
    proven = [0.0]
    for least, begun in ((2, 70), (2, 119), (3, 131), (3, 180)):  # a base is added later
        with em.stores.SqliteStore(tmp_path / "audit.db") as store:
            store.prepare(plan(bases=least, replicates=30))
            seen = [n for n in order if base[n] < least][:begun]
            store.add(
                LossRow(int(base[n]), int(member[n]), int(number[n]), "", float(loss[n]))
                for n in seen
            )
        proven.append(em.prove(tmp_path / "audit.db", delta=0.0).at_least)
    assert proven == sorted(proven)
    assert proven[-1] > proven[1]


@pytest.mark.parametrize("seed", range(8))
def test_a_missing_partner_is_the_worst_that_it_could_be(seed: int) -> None:
    """Whatever the losses of missing models turn out to be, the e-value was not larger before."""
    rng = np.random.default_rng(seed)
    base, member, number = np.indices((4, 2, 30)).reshape(3, -1)
    begun = rng.integers(20, 31, size=(4, 2))
    kept = number < begun[base, member]
    kept &= rng.random(len(kept)) > (number > 10) * 0.05  # some in between as well
    left = number < np.array([max(number[kept & (base == n)]) + 1 for n in range(4)])[base]
    loss = rng.normal(size=len(kept)) - 2 * member
    scores = scores_of(losses_of(member[kept], -loss[kept], base[kept], number[kept]), Loss())
    assert sum(each.incomplete for each in scores.bases) > 4
    for claim in (0.0, 0.5, 2.0):
        seen = claim_test_of(scores).log_e_value(claim, 1e-5, 0.05)
        for _ in range(5):
            missing = left & ~kept
            loss[missing] = rng.choice([rng.normal(), -np.inf, np.inf]) + rng.normal()
            filled = losses_of(member[left], -loss[left], base[left], number[left])
            assert seen <= claim_test_of(scores_of(filled, Loss())).log_e_value(claim, 1e-5, 0.05)


# --- failures ---------------------------------------------------------------------------------------

#: Probability that a model that seems to be trained on the point fails.
FAILS = 0.7


def failing(member: BoolArray, rng: Random) -> FloatArray:
    """Answers, and then failures, which depend on the answer alone: nothing more is revealed."""
    answer = answers(member, rng)
    return np.where((answer >= 1) & (rng.random(answer.shape) < FAILS), np.nan, answer)


def many(rng: Random, failures: str) -> bool:
    base, member, number = np.indices((1, 2, 1500))
    losses = losses_of(member, failing(member == 1, rng), base, number)
    return refuted(scores_of(losses, failures=failures))


def pool(rng: Random, failures: str) -> bool:
    """Models of a pool of two points, which fail by the answer about the first."""
    member = rng.random((3500, 2)) < 0.5
    answer = np.stack([failing(member[:, 0], rng), answers(member[:, 1], rng)], axis=1)
    answer[np.isnan(answer[:, 0])] = np.nan
    losses = em.PoolLosses(loss=2 - answer, member=member)
    return refuted(held_out_scores(losses, "loss", teachers=0, failures=failures))


def one_run(rng: Random, failures: str) -> bool:
    """Runs that reveal all coins with probability 0.004, and fail otherwise: (0, 0.004)-private."""
    run, canary = np.indices((250, 40))
    coins = rng.random(run.shape) < 0.5
    works, noise = rng.random((250, 1)) < 0.004, rng.random(run.shape) / 2
    losses = losses_of(coins, np.where(works, coins + noise, np.nan), run, canary, one_run=True)
    try:
        scores = scores_of(losses, failures=failures, skip=failures == "dropped")
        return refuted(scores, 0.0, 0.004)
    except InputError:  # no run worked, or coins look unfair, as they seldom do
        return False


@pytest.mark.parametrize(
    ("run", "runs", "caught"), [(many, RUNS, 0.9), (pool, RUNS, 0.9), (one_run, 40, 0.25)]
)
def test_failures_that_depend_on_the_data_do_not_help(
    run: Callable[..., bool], runs: int, caught: float
) -> None:
    for failures in ("lowest", "worst"):
        assert times(partial(run, failures=failures), runs) == 0
    # The control; in three of ten cases no run of training works.
    assert times(partial(run, failures="dropped"), 40) >= caught * 40


@dataclass(frozen=True, kw_only=True)
class Retried:
    """Randomised response; a model that does not look as it should fails, and is trained again."""

    tries: Any = field(default_factory=count)

    def train(self, dataset: Dataset, rng: Random) -> float:
        task = task_of(rng)
        again = np.random.default_rng((next(self.tries), 7))
        answer = float(answers(np.array(task.hypothesis == 1), again))
        if (answer >= 1) != task.hypothesis:
            raise ValueError("not as it should be")
        return answer

    def loss(self, model: float, point: Point) -> float:
        return 2 - model

    @property
    def fingerprint(self) -> str:
        return "randomised response, retried"


def test_a_model_that_succeeds_when_it_is_tried_again_has_failed(tmp_path: Path) -> None:
    """Or an auditor could try until the loss is as it should be; the cause knows the hypothesis."""
    tried = plan(Retried(), bases=2, replicates=PAIRS)
    measured = em.measure(tried, store=tmp_path / "audit.db", retries=9)
    assert len(measured.failures) > 50
    given: Any = {"delta": 0.0, "claim": CLAIM}
    found = em.prove(tmp_path / "audit.db", failures="worst", **given)
    assert not found.refuted
    with em.stores.SqliteStore(tmp_path / "audit.db") as store:
        rows = [
            (row.base, row.hypothesis, row.replicate, 2 - row.loss)
            for row in store.rows(tried.sizes)
        ]
    assert len(rows) == 4 * PAIRS
    assert em.prove(of_rows(rows), **given).refuted  # the control: the losses of the last attempt


def test_an_audit_until_something_is_proven_counts_failures() -> None:
    model = em.CurveModel(
        delta=0.0, families=(em.families.RandomizedResponse(),), mixing=em.families.NoMixing()
    )
    settings: Any = {"model": model, "claim": CLAIM, "until_proven": True, "bases": 7}
    settings |= {"design": em.CrossFed(replicates=40), "retries": 0, "on_progress": "none"}
    found: list[Any] = [
        em.audit(Retried(), population(), failures=failures, **settings)
        for failures in ("worst", "dropped")
    ]
    assert [result.proof.refuted for result in found] == [False, True]
    used = [result.origin.stopping["bases_used"] for result in found]
    assert used[1] < used[0] == 7
