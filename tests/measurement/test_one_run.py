"""Design one-run: coins and losses of canaries in the store, for any executor and any interruption."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.attacks.statistics import CustomStatistic, Logit, Loss
from epsilometer.engines.estimate import estimate
from epsilometer.errors import EpsilometerError, InputError, StoreError
from epsilometer.measurement.one_run import CanaryRun, OneRun
from epsilometer.measurement.plan import Plan, reference_stream, training_stream
from epsilometer.measurement.population import Dataset, Point
from epsilometer.measurement.store import SqliteStore
from epsilometer.proofs.proof import prove
from epsilometer.training.output_perturbation import NoiseLevels
from tests.measurement import runner
from tests.measurement.algorithms import NoisyMean, noted, one_run_plan
from tests.measurement.test_kill import exported


class Batched(NoisyMean):
    """Scores all points at once."""

    def losses(self, model: FloatArray, points: Dataset) -> FloatArray:
        return -points.features @ model + 0.0


class TooFew(NoisyMean):
    def losses(self, model: FloatArray, points: Dataset) -> FloatArray:
        return np.zeros(3)


class Starts(NoisyMean):
    def initial_model(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        assert len(dataset) == 10  # without canaries
        return np.full(dataset.features.shape[1], float(rng.standard_normal()))


@dataclass(frozen=True, kw_only=True)
class Plants(NoisyMean):
    """Inserts its own canaries: a score is the coin with noise."""

    gradient_canaries: int = 20
    known: bool = True

    @property
    def canary_settings(self) -> dict[str, object]:
        return {"known": self.known}

    def gradient_scores(
        self, dataset: Dataset, included: BoolArray, rng: np.random.Generator
    ) -> FloatArray:
        assert len(dataset) == 10
        return included + rng.standard_normal(len(included))


def run_of(plan: Plan, number: int) -> CanaryRun:
    found = plan.bases[number]
    assert isinstance(found, CanaryRun)
    return found


def by_hand(plan: Plan, number: int) -> FloatArray:
    """Losses of the canaries of a run, computed in the obvious way."""
    run, algorithm = run_of(plan, number), plan.algorithm
    (task,) = (task for task in plan.tasks() if task.base == number)
    assert run.canaries is not None
    own = plan.population.take(run.dataset)
    model = algorithm.train(run.canaries.added_to(own), training_stream(plan.seed, task))
    return run.canaries.losses(lambda point: algorithm.loss(model, point))


def stored(losses: em.Losses, number: int) -> tuple[FloatArray, BoolArray]:
    """Losses and coins of a run, in the order of its canaries."""
    rows = np.flatnonzero(losses.base == number)
    rows = rows[np.argsort(losses.replicate[rows])]
    return losses.loss[rows], losses.hypothesis[rows] == 1


@pytest.mark.parametrize(
    "executor", ["serial", "threads", pytest.param("processes", marks=pytest.mark.slow)]
)
def test_the_store_has_coins_and_losses(executor: str, tmp_path: Path) -> None:
    plan = one_run_plan(runs=2)
    found = em.measure(plan, tmp_path / "s.db", executor=executor, workers=2)
    assert (found.trained, found.reused) == (2, 0)
    assert plan.sizes.models == 2
    for number in (0, 1):
        losses, coins = stored(found.only, number)
        assert losses.tolist() == by_hand(plan, number).tolist()
        assert coins.tolist() == run_of(plan, number).coins.tolist()
    again = em.measure(plan, tmp_path / "s.db")
    assert (again.trained, again.reused) == (0, 2)
    assert again.only.to_csv() == found.only.to_csv() == em.measure(plan).only.to_csv()


def test_runs_differ_and_do_not_depend_on_how_many_there_are() -> None:
    few, many = one_run_plan(runs=1), one_run_plan(runs=3)
    assert few.bases[0].fingerprint == many.bases[0].fingerprint
    assert len({base.fingerprint for base in many.bases}) == 3
    for base in many.bases:
        assert isinstance(base, CanaryRun)
        assert base.canaries is not None
        assert base.canaries.records is not None
        assert not set(base.dataset.tolist()) & set(base.canaries.records.tolist())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"canaries": 21}, "design.canaries is 20 there and 21 here"),
        ({"kind": "noise"}, "design.kind"),
        ({"compare_with": "reference"}, "design.compare_with"),
    ],
)
def test_a_changed_plan_is_refused(changed: dict[str, Any], words: str) -> None:
    other = replace(one_run_plan(), design=OneRun(**({"canaries": 20} | changed)))
    assert words in other.refused(one_run_plan().identity, accept_changed_code=True)


def test_other_coins_are_refused(tmp_path: Path) -> None:
    """The store identifies every run by its records, canaries and coins."""
    store = tmp_path / "s.db"
    plan = one_run_plan()
    em.measure(plan, store)
    run = run_of(plan, 0)
    coins = run.coins.copy()
    coins[:2] = ~coins[:2]
    assert replace(run, coins=coins).fingerprint != run.fingerprint
    vars(plan)["bases"] = (replace(run, coins=coins),)
    with pytest.raises(StoreError, match="its challenge base 0 has different records"):
        em.measure(plan, store)


def test_points_are_scored_at_once_where_the_algorithm_can() -> None:
    plain = em.measure(one_run_plan()).only
    batched = em.measure(one_run_plan(Batched())).only
    assert batched.loss == pytest.approx(plain.loss, rel=1e-12)
    with pytest.raises(EpsilometerError, match=r"run 0: .*points\) of shape \(20,\)"):
        em.measure(one_run_plan(TooFew()))


def compared(plan: Plan, other: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Stored scores of the only run, its own losses, and those of another model."""
    canaries = run_of(plan, 0).canaries
    assert canaries is not None
    theirs = canaries.losses(lambda point: plan.algorithm.loss(other, point))
    return stored(em.measure(plan).only, 0)[0], by_hand(plan, 0), theirs


@pytest.mark.parametrize("statistic", [Loss(), Logit()])
def test_scores_are_compared_with_a_model_without_canaries(statistic: Loss | Logit) -> None:
    design = OneRun(canaries=20, compare_with="reference", statistic=statistic)
    plan = replace(one_run_plan(_Positive()), design=design)
    (task,) = plan.tasks()
    dataset = run_of(plan, 0).without_canaries(plan.population)
    found, own, theirs = compared(plan, _Positive().train(dataset, reference_stream(1, task)))
    if isinstance(statistic, Loss):
        assert found == pytest.approx(own - theirs)
        return
    assert found == pytest.approx(np.log(np.expm1(own)) - np.log(np.expm1(theirs)))


class _Positive(NoisyMean):
    def loss(self, model: FloatArray, point: Point) -> float:
        return 5.0 + super().loss(model, point)


def test_scores_are_compared_with_the_model_before_training() -> None:
    plan = replace(one_run_plan(Starts()), design=OneRun(canaries=20, compare_with="initial"))
    (task,) = plan.tasks()
    dataset = run_of(plan, 0).without_canaries(plan.population)
    start = Starts().initial_model(dataset, training_stream(1, task))
    found, own, theirs = compared(plan, start)
    assert found == pytest.approx(own - theirs)
    with pytest.raises(
        InputError, match="compare_with initial: expected an algorithm with initial_"
    ):
        replace(plan, algorithm=NoisyMean())


def test_canaries_that_the_algorithm_plants() -> None:
    plan = replace(one_run_plan(Plants()), design=OneRun(canaries=20, kind="gradient"))
    losses, coins = stored(em.measure(plan).only, 0)
    (task,) = plan.tasks()
    scores = coins + training_stream(plan.seed, task).standard_normal(20)
    assert losses == pytest.approx(-scores)
    found = plan.design.scores(em.measure(plan).only)
    assert found.bases[0].by_hypothesis[1] == pytest.approx(np.sort(scores[coins])[::-1])
    assert replace(plan, algorithm=Plants(known=False)).identity != plan.identity
    with pytest.raises(InputError, match="gradient_canaries=30, got canaries=20"):
        replace(plan, algorithm=Plants(gradient_canaries=30))
    with pytest.raises(
        InputError, match="supports gradient canaries, such as DpSgd, got NoisyMean"
    ):
        replace(plan, algorithm=NoisyMean())
    with pytest.raises(InputError, match="compare_with applies to losses only"):
        OneRun(canaries=9, kind="gradient", compare_with="initial")


def test_variants_share_the_run_and_its_coins() -> None:
    plan = one_run_plan(NoiseLevels(algorithm=NoisyMean(), scales=(0.0, 2.0)))
    found = em.measure(plan)
    plain, noisy = found.losses.values()
    assert found.trained == 1
    assert plain.hypothesis.tolist() == noisy.hypothesis.tolist()
    assert plain.loss.tolist() == em.measure(one_run_plan()).only.loss.tolist()
    assert plain.loss.tolist() != noisy.loss.tolist()


class _Nan(NoisyMean):
    def loss(self, model: FloatArray, point: Point) -> float:
        return float("nan") if point.features[0] > 0.5 else super().loss(model, point)


def test_a_loss_that_is_no_number_fails_the_run(tmp_path: Path) -> None:
    words = r"no model could be trained \(run 0: canary \d+: expected a finite loss, got loss=nan"
    with pytest.raises(EpsilometerError, match=words):
        em.measure(one_run_plan(_Nan()), tmp_path / "s.db")
    with SqliteStore(tmp_path / "s.db") as store:
        assert store.rows(store.sizes()) == []  # not even those of the other canaries
        (failure,) = store.failures()
    assert failure.attempts == 1  # the only run, so nothing else can be tried


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"adjacency": em.rows.Replace()}, "expected adjacency include"),
        ({"dataset_size": 41}, "expected dataset_size <= 40"),
        ({"dataset_size": 30}, "run 0: expected at most 10 canaries"),
        ({"design": OneRun(canaries=41)}, "run 0: expected at most 30 canaries"),
        ({"challenge_bases": []}, "at least one challenge base"),
        (
            {
                "challenge_bases": [em.rows.ChallengeBase(dataset=[1], challenge=2)],
                "dataset_size": None,
            },
            "a number of training runs",
        ),
    ],
)
def test_plans_that_cannot_be(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(one_run_plan(), **changed)


# --- scores -------------------------------------------------------------------------------------


def test_a_statistic_sees_canaries_in_order_and_not_their_coins() -> None:
    """A statistic that uses the position only separates members from others no better than chance."""
    losses = em.measure(one_run_plan(runs=4)).only
    places = CustomStatistic(function=lambda x: np.broadcast_to(np.arange(x.shape[1]), x.shape))
    scores = em.attacks.scores_of(losses, places)
    for number, base in enumerate(scores.bases):
        coins = stored(losses, number)[1]
        assert base.in_training_order[1].tolist() == np.flatnonzero(coins).tolist()
    assert scores.one_run
    assert not scores.dependent  # a score may use all canaries


def test_a_design_is_restored_from_its_store(tmp_path: Path) -> None:
    from epsilometer.inputs.sources import read_losses

    plan = replace(one_run_plan(), design=OneRun(canaries=20, compare_with="reference"))
    found = em.measure(plan, tmp_path / "s.db")
    losses, design, _ = read_losses(tmp_path / "s.db")
    assert design.canaries == 20
    assert design.scores(losses, Logit()) == plan.design.scores(found.only)  # differences: no logit
    with pytest.raises(InputError, match="no shadow models to attack with"):
        design.attack(losses)


@pytest.mark.parametrize("name", ["l.csv", "l.parquet"])
def test_losses_of_canaries_stay_canaries(name: str, tmp_path: Path) -> None:
    """In memory and in files: treated as models, they would prove false statements."""
    plan = one_run_plan(runs=2)
    losses = em.measure(plan, tmp_path / "s.db").only
    losses.write(tmp_path / name)
    again = em.Losses.read(tmp_path / name)
    assert again == losses
    assert again.one_run
    assert (
        em.attacks.scores_of(again)
        == plan.design.scores(losses)
        == em.attacks.scores_of(em.measure(plan).only)
    )
    assert em.attacks.scores_of(again).one_run
    as_models = em.Losses(
        challenge_base=again.challenge_base, hypothesis=again.hypothesis,
        replicate=again.replicate, loss=again.loss,
    )  # fmt: skip
    assert as_models != again
    assert not em.attacks.scores_of(as_models, em.attacks.Loss()).one_run


def canaries_of(*runs: tuple[FloatArray, BoolArray]) -> em.Scores:
    return em.Scores(
        without=[values[~coins] for values, coins in runs],
        with_point=[values[coins] for values, coins in runs],
        one_run=True,
    )


def test_runs_are_proven_together() -> None:
    """Four runs are one mechanism with four times as many canaries, whatever a run adds to all."""
    rng = np.random.default_rng(5)
    coins = rng.random((4, 250)) < 0.5
    values = 3.0 * coins + rng.standard_normal(coins.shape)
    runs = canaries_of(*zip(values, coins, strict=True))
    one = em.Scores.of_canaries(values[coins], values[~coins])
    together = prove(runs, delta=1e-6).at_least
    assert together == prove(one, delta=1e-6).at_least
    alone = [prove(runs.take([n]), delta=1e-6, error=0.05 / 4).at_least for n in range(4)]
    assert together > max(alone) + 0.3


def test_joint_runs_without_a_leak_prove_nothing() -> None:
    """Runs that shift all their scores alike, without a leak: refuted in at most 5 % of audits."""
    rng, refuted = np.random.default_rng(6), 0
    for _ in range(300):
        coins = rng.random((3, 60)) < 0.5
        values = rng.standard_normal(coins.shape) + 3 * rng.standard_normal((3, 1))
        runs = canaries_of(*zip(values, coins, strict=True))
        # One in two hundred fair flips looks unfair and is rejected: nothing is proven then.
        with suppress(InputError):
            refuted += prove(runs, delta=1e-6, claim=0.0).refuted
    # More than 29 of 300 would occur once in a thousand at a rate of 5 %.
    assert refuted <= 29


def test_every_run_needs_fair_coins() -> None:
    """Runs with nine in ten and one in ten included are fair together, but distinguish their runs."""
    rng = np.random.default_rng(1)
    coins = [np.arange(1000) < 900, np.arange(1000) < 100]
    scores = canaries_of(*((rng.normal(5 * (n == 0), size=1000), c) for n, c in enumerate(coins)))
    with pytest.raises(InputError, match="included by a fair coin each"):
        prove(scores, delta=1e-6)
    result = em.judge(estimate(scores, em.CurveModel(delta=1e-6)), claim=0.1)
    assert "proven" not in result.label


def test_runs_of_few_canaries_are_refused() -> None:
    """Runs whose coins are all equal are missing: of two canaries exactly one is included."""
    rng = np.random.default_rng(2)
    runs = [(rng.normal(size=2), np.array([True, False])) for _ in range(50)]
    with pytest.raises(InputError, match="expected more canaries per run, got runs of 2 to 2"):
        prove(canaries_of(*runs), delta=0.0)


def test_the_same_coins_twice() -> None:
    """Runs that share their coins are refused if that shows, and share the error if it is stated."""
    rng, values = np.random.default_rng(3), np.random.default_rng(4).normal(size=500)
    coins = rng.random(500) < 0.5
    one = em.Scores.of_canaries(values[coins], values[~coins])
    again = em.Scores(
        without=[values[~coins]], with_point=[values[coins]], names=["again"], one_run=True
    )
    with pytest.raises(InputError, match="separate coin flips, got the same scores twice"):
        one.joined(again)
    shared = canaries_of(*((values + 3 * coins, coins) for _ in range(4)))
    apart = prove(shared, delta=1e-6, independent=False)
    assert apart.at_least == pytest.approx(
        prove(shared.take([0]), delta=1e-6, error=0.05 / 4).at_least, abs=2e-4
    )
    assert "possibly equal" in apart.assumes
    assert apart.at_least < prove(shared, delta=1e-6).at_least


def test_a_canary_is_in_or_out() -> None:
    with pytest.raises(InputError, match="got canary 0 of 'r' twice"):
        em.Losses(
            challenge_base=["r"] * 3, hypothesis=[0, 1, 1], replicate=[0, 0, 1],
            loss=[1.0, 2.0, 3.0], one_run=True,
        )  # fmt: skip


def test_scores_of_a_gradient_store_are_those_of_the_audit(tmp_path: Path) -> None:
    """They are not losses, so they have no logit."""
    from epsilometer.inputs.sources import read

    plan = replace(one_run_plan(Plants()), design=OneRun(canaries=20, kind="gradient"))
    found = plan.design.scores(em.measure(plan, tmp_path / "s.db").only)
    assert read(tmp_path / "s.db").scores == found
    with pytest.raises(InputError, match=">= 0 for the statistic logit"):
        em.attacks.scores_of(em.measure(plan).only, Logit())


def test_scores_that_depend_on_each_other_have_no_file() -> None:
    mixed = em.Scores(without=[[1.0, 2.0]], with_point=[[3.0]], dependent=True)
    with pytest.raises(InputError, match="expected independent scores to write"):
        mixed.to_csv()
    assert mixed != em.Scores(without=[[1.0, 2.0]], with_point=[[3.0]])


# --- interrupted --------------------------------------------------------------------------------


def runs_kept(path: Path) -> int:
    """Number of complete runs in a store."""
    if not path.exists():
        return 0
    with SqliteStore(path) as store:
        rows = store.rows(one_run_plan(runs=4).sizes)
    assert len(rows) % 20 == 0
    return len(rows) // 20


@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_killed_in_a_run_and_between_runs(executor: str, tmp_path: Path) -> None:
    """Ended at any moment, it continues: coins and losses as if nothing had happened, byte for byte."""
    expected = em.measure(one_run_plan(runs=4)).only.to_csv()
    store, log = tmp_path / "s.db", tmp_path / "log"
    options = ("--one-run", "20", "--bases", "4", "--seconds", "0.4", "--log", str(log))
    kept_after = []
    for between in (False, True, False):
        started, before = len(noted(log)), runs_kept(store)
        process = runner.start(store, executor, *options)
        runner.wait_until_ready(process)
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if (runs_kept(store) > before) if between else (len(noted(log)) > started):
                break
            time.sleep(0.01)
        assert process.poll() is None  # killed before its end
        process.kill()
        process.communicate(timeout=60)
        kept_after.append(runs_kept(store))
    em.measure(one_run_plan(runs=4), store)
    assert kept_after[0] == 0 < kept_after[1] < 4
    assert len(noted(log)) > kept_after[-1]  # some were trained in vain
    assert exported(store) == expected
