"""The contract of stores, in memory and in files that are closed and opened again at any time.

`Twin` is the specification: plain dictionaries, obvious at a glance, that every store must equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement.bases import ChallengeBase, LossRow, PoolRow, Replace, Row
from epsilometer.measurement.designs import CrossFed, ShadowModels
from epsilometer.measurement.engine import measure
from epsilometer.measurement.failures import WORKER_DIED, Failure
from epsilometer.measurement.plan import Plan, Sizes, Task
from epsilometer.measurement.population import Dataset, Point
from epsilometer.measurement.store import MemoryStore, SqliteStore
from epsilometer.measurement.tasks import Chunk
from epsilometer.training.clipped_mean import ClippedMean
from epsilometer.training.output_perturbation import NoiseLevels
from tests.measurement.algorithms import Logistic, plan, pool_plan, population


@pytest.fixture(params=["memory", "sqlite"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    with made:
        yield made


@pytest.fixture
def store(empty: SqliteStore) -> SqliteStore:
    empty.prepare(plan())
    return empty


ALL = Sizes(2, 5, 5, ("",))
POINTS = 20
POOL = Sizes(1, 8, 0, ("",), 0, POINTS)


def row(base: int, hypothesis: int, replicate: int, loss: float, variant: str = "") -> LossRow:
    return LossRow(base, hypothesis, replicate, variant, loss)


def pool_row(replicate: int, *, variant: str = "", queries: int = 1) -> PoolRow:
    rng = np.random.default_rng(replicate)
    losses = rng.standard_normal((POINTS, queries))
    return PoolRow(0, 0, replicate, variant, losses, rng.random(POINTS) < 0.5)


def losses(loss: list[float], *, names: list[str] | None = None) -> Losses:
    return Losses(
        challenge_base=names or ["0"] * len(loss),
        hypothesis=[0] * len(loss),
        replicate=list(range(len(loss))),
        loss=loss,
    )


def bits(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Rows whose equality is that of every bit."""
    return [
        (*kept[:4], *(np.asarray(cell).tobytes() for cell in kept[4:]), np.shape(kept[4]))
        for kept in rows
    ]


# --- the specification ----------------------------------------------------------------------------


@dataclass
class Twin:
    """What a store is: losses by place and variant, and failures by place."""

    kept: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    failed: dict[Task, Failure] = field(default_factory=dict)

    def add(self, rows: list[Row]) -> int:
        before = len(self.kept)
        for given in rows:
            self.kept.setdefault((type(given), *given[:4]), given)
            failure = self.failed.get(Task(*given[:3]))
            if failure is not None and failure.message == WORKER_DIED:
                del self.failed[failure.task]
        return len(self.kept) - before

    def failures(self, sizes: Sizes | None = None) -> list[Failure]:
        trained = {Task(*key[1:4]) for key in self.kept}
        return [
            self.failed[task]
            for task in sorted(self.failed)
            if (
                task not in trained
                if sizes is None
                else task.base < sizes.challenge_bases
                and task.replicate < (sizes.models_h0, sizes.models_h1)[task.hypothesis]
            )
        ]

    def within(self, kind: type, sizes: Sizes) -> list[Row]:
        most = (sizes.models_h0, sizes.models_h1)
        return [
            self.kept[key]
            for key in sorted((key for key in self.kept if key[0] is kind), key=lambda key: key[1:])
            if key[1] < sizes.challenge_bases and key[3] < most[key[2]] and key[4] in sizes.variants
        ]

    def done(self, chunk: Chunk, variants: tuple[str, ...]) -> set[int]:
        return {
            task.replicate
            for task in chunk.tasks()
            for kind in (LossRow, PoolRow)
            if all((kind, *task, variant) in self.kept for variant in variants)
        }


VARIANTS = ("", "b", "é\n'")
ODD = [0.1, 0.0, 5e-324, 1.7976931348623157e308, 1 / 3, -1e-300, 2.0**60 + 2**10]


def drawn_rows(rng: np.random.Generator, kind: str) -> list[Row]:
    """A few rows, some of them in the same place."""
    rows: list[Row] = []
    for _ in range(rng.integers(0, 5)):
        base, hypothesis, replicate = rng.integers(0, [3, 2, 4]).tolist()
        variant = VARIANTS[rng.integers(3)]
        if kind == "pool":
            given = pool_row(replicate, variant=variant, queries=2)
            rows.append(given._replace(losses=given.losses * rng.choice([*ODD[:3], -0.0])))
        else:
            loss = float(rng.choice(ODD)) if rng.random() < 0.5 else float(rng.standard_normal())
            rows.append(row(base, hypothesis, replicate, loss, variant))
    return rows


@pytest.mark.parametrize("kind", ["losses", "pool"])
@pytest.mark.parametrize("where", ["memory", "sqlite", "reopened"])
def test_equals_its_twin_after_any_history(where: str, kind: str, tmp_path: Path) -> None:
    rng, twin = np.random.default_rng(3), Twin()
    store = MemoryStore() if where == "memory" else SqliteStore(tmp_path / "store.db")
    store.prepare(pool_plan() if kind == "pool" else plan(bases=3))
    for _ in range(30):
        if rng.random() < 0.3:
            task = Task(*rng.integers(0, [1 if kind == "pool" else 3, 2, 4]).tolist())
            trace = ["", '  File "mine.py", line 7\n    x\nKeyError'][rng.integers(2)]
            message = WORKER_DIED if rng.random() < 0.3 else "KeyError: 'é'"
            failure = Failure(task, int(rng.integers(9)), message, trace if "é" in message else "")
            store.add_failure(failure)
            twin.failed[task] = failure
        rows = drawn_rows(rng, kind)
        assert store.add(rows) == twin.add(rows)
        if where == "reopened":
            store.close()
            store = SqliteStore(tmp_path / "store.db")
        assert store.failures() == twin.failures()
        bases, *models = rng.integers(0, [4, 5, 5]).tolist()
        sizes = Sizes(bases, models[0], models[1], VARIANTS[: rng.integers(1, 4)], 0, POINTS)
        assert store.failures(sizes) == twin.failures(sizes)
        assert bits(store.rows(sizes)) == bits(twin.within(LossRow, sizes))
        assert bits(store.pool_rows(sizes)) == bits(twin.within(PoolRow, sizes))
        base, side, first, last = rng.integers(0, [3, 2, 5, 5]).tolist()
        chunk = Chunk(base, side, tuple(range(first, last)))
        assert store.done(chunk, sizes.variants) == twin.done(chunk, sizes.variants)
    store.close()
    assert len(twin.kept) >= 12
    assert len(twin.failures()) < len(twin.failed)


@pytest.mark.parametrize("made", [row(0, 0, 0, 1.0), pool_row(0)])
def test_adds_all_or_nothing(store: SqliteStore, made: Row) -> None:
    def rows() -> Iterator[Row]:
        yield made
        raise RuntimeError("half-way")

    store.add_failure(Failure(Task(0, 0, 0), 1, "no"))
    with pytest.raises(RuntimeError, match="half-way"):
        store.add(rows())
    assert [*store.rows(ALL), *store.pool_rows(POOL)] == []
    assert len(store.failures()) == 1


def test_negative_zero_is_zero(store: SqliteStore) -> None:
    """SQLite has no negative zero, so no store has one."""
    store.add([row(0, 0, 0, -0.0)])
    assert bits(store.rows(ALL)) == bits([row(0, 0, 0, 0.0)])


def test_losses_as_a_table(store: SqliteStore) -> None:
    store.add([row(1, 0, 0, 2.0), row(0, 1, 3, 1.0), row(0, 1, 4, 9.0, "other")])
    table = store.losses(ALL, "")
    assert table.challenge_base == ["0", "1"]
    assert table.loss.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="at least one loss, got none"):
        store.losses(ALL, "absent")


def test_as_losses_of_a_pool(empty: SqliteStore) -> None:
    empty.prepare(pool_plan())
    with pytest.raises(InputError, match="expected at least one model, got none"):
        empty.pool_losses(POOL, "")
    empty.add([pool_row(3), pool_row(1)])
    found = empty.measured(POOL, "")
    assert isinstance(found, PoolLosses)
    assert list(found.names) == pool_plan().pool["names"]
    assert (found.references, found.fair_coins) == (0, True)
    np.testing.assert_array_equal(found.loss, np.stack([pool_row(1).losses, pool_row(3).losses]))
    empty.add([pool_row(2, queries=2)])
    with pytest.raises(InputError, match="different shapes"):
        empty.pool_losses(POOL, "")


# --- losses from elsewhere ------------------------------------------------------------------------


def test_takes_over_losses(store: SqliteStore) -> None:
    assert store.add_losses(losses([0.5, 1.5]), variant="") == 2
    assert store.add_losses(losses([0.5, 1.5, 2.5]), variant="") == 1
    assert store.losses(ALL, "").loss.tolist() == [0.5, 1.5, 2.5]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf")])
def test_takes_over_no_infinite_loss(store: SqliteStore, loss: float) -> None:
    with pytest.raises(
        InputError, match=r"base 0, hypothesis 0, replicate 1: expected a finite loss"
    ):
        store.add_losses(losses([0.5, loss]), variant="")
    assert store.rows(ALL) == []


def test_takes_over_no_loss_that_differs(store: SqliteStore) -> None:
    store.add([row(0, 0, 1, 1.5)])
    with pytest.raises(InputError, match=r"replicate 1: expected .*1\.5, got loss=1\.25"):
        store.add_losses(losses([0.5, 1.25]), variant="")
    assert store.rows(ALL) == [row(0, 0, 1, 1.5)]


def test_takes_over_no_loss_of_an_unknown_base(store: SqliteStore) -> None:
    with pytest.raises(InputError, match="expected challenge bases of the plan, got 'other'"):
        store.add_losses(losses([0.5, 0.5], names=["0", "other"]), variant="")
    assert store.rows(ALL) == []


# --- the plan -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Settings:
    """An algorithm with a setting whose name could be mistaken for something else."""

    source: str

    def train(self, dataset: Dataset, rng: np.random.Generator) -> None: ...

    def loss(self, model: None, point: Point) -> float:
        return 0.0


def mean(noise: float = 0.5) -> ClippedMean:
    return ClippedMean(noise=noise, records=10)


def given(*records: list[int], names: tuple[str | None, ...] = (None, None)) -> Plan:
    bases = [
        ChallengeBase(dataset=dataset, challenge=39, name=name)
        for dataset, name in zip(records, names, strict=False)
    ]
    return Plan(
        population=population(),
        algorithm=mean(),
        design=CrossFed(replicates=3),
        challenge_bases=bases,
        seed=1,
    )


def fast(**changed: object) -> Plan:
    return replace(plan(mean()), **changed)  # type: ignore[arg-type]


OTHERS = {
    r"seed is 1 there and 2 here": fast(seed=2),
    r"algorithm\.settings\.noise is 0\.5 there and 0\.25 here": fast(algorithm=mean(0.25)),
    r"population\.sha256 is .* there and": fast(population=population(seed=8)),
    r"population\.records is 40 there and 41 here": fast(population=population(records=41)),
    r"bases\.dataset_size is 10 there and 11 here": fast(dataset_size=11),
    r'bases\.adjacency is "include" there and "replace" here': fast(adjacency=Replace()),
    r'design\.name is "MeasureMIAFast" there and "MeasureMIA" here': fast(
        design=ShadowModels(replicates=1, shadows_h0=2, shadows_h1=2)
    ),
    r"bases\.drawn is true there and false here": given([1, 2]),
}


@pytest.mark.parametrize("words", OTHERS)
def test_refuses_another_plan_and_names_the_difference(empty: SqliteStore, words: str) -> None:
    empty.prepare(fast())
    empty.add([row(0, 0, 0, 1.0)])
    for accept in (False, True):
        with pytest.raises(StoreError, match=f"holds another plan: .*{words}"):
            empty.prepare(OTHERS[words], accept_changed_code=accept)
    empty.prepare(fast())
    assert empty.rows(ALL) == [row(0, 0, 0, 1.0)]


def test_refuses_other_bases(empty: SqliteStore) -> None:
    empty.prepare(given([1, 2], [3, 4]))
    empty.add([row(0, 0, 0, 1.0)])
    with pytest.raises(StoreError, match="its challenge base 1 has different records"):
        empty.prepare(given([1, 2], [4, 3]))


@pytest.mark.parametrize("words", OTHERS)
def test_without_losses_another_plan_is_taken_and_failures_are_forgotten(
    empty: SqliteStore, words: str
) -> None:
    empty.prepare(replace(fast(), challenge_bases=4))
    empty.add_failure(Failure(Task(0, 0, 0), 3, "ValueError: no"))
    empty.prepare(OTHERS[words])
    assert empty.failures() == []
    assert empty.names() == list(OTHERS[words].names)
    empty.add([row(0, 0, 0, 1.0)])
    with pytest.raises(StoreError, match="holds another plan"):
        empty.prepare(fast())


def test_without_losses_failures_of_the_same_plan_stay(empty: SqliteStore) -> None:
    failure = Failure(Task(0, 0, 0), 3, "ValueError: no")
    empty.prepare(fast())
    empty.add_failure(failure)
    empty.prepare(replace(fast(), challenge_bases=4))
    assert empty.failures() == [failure]


def test_a_plan_may_grow_and_shrink(empty: SqliteStore) -> None:
    for bases, replicates in ((2, 5), (4, 9), (1, 3), (4, 9)):
        empty.prepare(plan(bases=bases, replicates=replicates))
    assert empty.names() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("grown", [False, True])
def test_names_follow_the_plan(empty: SqliteStore, grown: bool) -> None:
    # Names are for display, so they may change; stores return those of the last plan.
    empty.prepare(given([1, 2], names=("old",)))
    empty.add([row(0, 0, 0, 1.0)])
    changed = (
        given([1, 2], [3, 4], names=("new", "old")) if grown else given([1, 2], names=("new",))
    )
    empty.prepare(changed)
    assert empty.names() == list(changed.names)


def test_changed_code_is_refused_with_the_way_out(
    empty: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty.prepare(plan(Settings(source="a")))
    empty.add([row(0, 0, 0, 1.0)])
    monkeypatch.setattr(
        "epsilometer.measurement.algorithm._source",
        lambda _: {"source file": {"another file": "syntax:1"}},
    )
    with pytest.raises(StoreError, match=r"code has changed .*accept_changed_code=True"):
        empty.prepare(plan(Settings(source="a")))
    empty.prepare(plan(Settings(source="a")), accept_changed_code=True)
    empty.prepare(plan(Settings(source="a")))  # and then kept


def test_a_setting_named_source_is_not_code(empty: SqliteStore) -> None:
    empty.prepare(plan(Settings(source="a")))
    empty.add([row(0, 0, 0, 1.0)])
    with pytest.raises(StoreError, match='source is "a" there and "b" here'):
        empty.prepare(plan(Settings(source="b")), accept_changed_code=True)


# --- equal in use ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["many", "pool"])
def test_measures_alike(empty: SqliteStore, kind: str) -> None:
    inside = Logistic() if kind == "pool" else mean(0.0)
    levels = NoiseLevels(algorithm=inside, scales=(0.1, 0.2))
    wanted = pool_plan(levels, references=3) if kind == "pool" else plan(levels)
    reference = measure(wanted)
    measured, again = measure(wanted, empty), measure(wanted, empty)
    assert measured.losses == again.losses == reference.losses
    models = wanted.sizes.models
    assert (measured.trained, measured.reused) == (again.reused, again.trained) == (models, 0)
