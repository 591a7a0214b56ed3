"""The contract of stores.  The one in memory is the specification; the SQLite store must equal it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.losses import Losses
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement.bases import ChallengeBase, Replace
from epsilometer.measurement.designs import CrossFed, ShadowModels
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Plan, Sizes, Task
from epsilometer.measurement.population import Dataset, Point, Population
from epsilometer.measurement.rows import LossRow
from epsilometer.measurement.sqlite_store import SqliteStore
from epsilometer.measurement.store import Failure, MemoryStore, Store
from epsilometer.measurement.tasks import Chunk
from epsilometer.training.clipped_mean import ClippedMean
from epsilometer.training.output_perturbation import NoiseLevels
from tests.measurement.algorithms import plan, population
from tests.measurement.test_algorithm import from_file

MakeStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeStore]:
    made: list[Store] = []

    def make() -> Store:
        store: Store = MemoryStore()
        if request.param == "sqlite":
            store = SqliteStore(tmp_path / f"store-{len(made)}.db")
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    made = make_store()
    made.prepare(plan())
    return made


ALL = Sizes(2, 5, 5, ("",))


def row(base: int, hypothesis: int, replicate: int, loss: float, variant: str = "") -> LossRow:
    return LossRow(base, hypothesis, replicate, variant, loss)


def losses(loss: list[float], *, names: list[str] | None = None) -> Losses:
    return Losses(
        challenge_base=names or ["0"] * len(loss),
        hypothesis=[0] * len(loss),
        replicate=list(range(len(loss))),
        loss=loss,
    )


# --- losses ---------------------------------------------------------------------------------------


def test_keeps_what_is_added(store: Store) -> None:
    assert store.rows(ALL) == []
    assert store.add([row(1, 0, 2, 0.25), row(0, 1, 0, -1.5)]) == 2
    assert store.rows(ALL) == [row(0, 1, 0, -1.5), row(1, 0, 2, 0.25)]


def test_the_first_loss_stays(store: Store) -> None:
    store.add([row(0, 0, 0, 1.0)])
    assert store.add([row(0, 0, 0, 2.0), row(0, 0, 1, 3.0), row(0, 0, 1, 4.0)]) == 1
    assert store.rows(ALL) == [row(0, 0, 0, 1.0), row(0, 0, 1, 3.0)]


def test_adding_nothing(store: Store) -> None:
    assert store.add([]) == 0
    assert store.rows(ALL) == []


def test_adds_all_or_nothing(store: Store) -> None:
    def rows() -> Iterator[LossRow]:
        yield row(0, 0, 0, 1.0)
        raise RuntimeError("half-way")

    store.add_failure(Failure(Task(0, 0, 0), 1, "no"))
    with pytest.raises(RuntimeError, match="half-way"):
        store.add(rows())
    assert store.rows(ALL) == []
    assert len(store.failures()) == 1


@pytest.mark.parametrize(
    "loss", [0.1, 0.0, 5e-324, 1.7976931348623157e308, 1 / 3, -1e-300, 2.0**60 + 2**10]
)
def test_losses_come_back_bit_for_bit(store: Store, loss: float) -> None:
    store.add([row(0, 0, 0, loss)])
    (kept,) = store.rows(ALL)
    assert isinstance(kept.loss, float)
    assert np.float64(kept.loss).tobytes() == np.float64(loss).tobytes()


def test_negative_zero_is_zero(store: Store) -> None:
    """SQLite has no negative zero, so no store has one."""
    store.add([row(0, 0, 0, -0.0)])
    (kept,) = store.rows(ALL)
    assert np.float64(kept.loss).tobytes() == np.float64(0.0).tobytes()


def test_rows_within_sizes(store: Store) -> None:
    store.add([row(base, h, r, 1.0) for base in range(3) for h in (0, 1) for r in range(4)])
    found = store.rows(Sizes(2, 1, 3, ("",)))
    expected = [(b, h, r) for b in range(2) for h in (0, 1) for r in range(3 if h else 1)]
    assert [kept[:3] for kept in found] == expected


def test_rows_of_variants(store: Store) -> None:
    store.add([row(0, 0, 0, 1.0, "b"), row(0, 0, 0, 2.0, "a"), row(0, 0, 0, 3.0, "é\n'")])
    assert [kept.variant for kept in store.rows(Sizes(1, 1, 1, ("b", "a")))] == ["a", "b"]
    assert store.rows(Sizes(1, 1, 1, ("é\n'",)))[0].loss == 3.0
    assert store.rows(Sizes(1, 1, 1, ("",))) == []


def chunk(base: int, hypothesis: int, replicates: Iterable[int]) -> Chunk:
    return Chunk(base, hypothesis, tuple(replicates))


def test_done(store: Store) -> None:
    store.add([row(0, 0, replicate, 1.0) for replicate in (0, 2, 3, 9)])
    store.add([row(0, 1, 1, 1.0), row(1, 0, 1, 1.0)])
    assert store.done(chunk(0, 0, range(0, 10)), ("",)) == {0, 2, 3, 9}
    assert store.done(chunk(0, 0, range(1, 4)), ("",)) == {2, 3}
    assert store.done(chunk(0, 0, range(2, 3)), ("",)) == {2}
    assert store.done(chunk(0, 0, (0, 1, 3)), ("",)) == {0, 3}
    assert store.done(chunk(0, 0, range(4, 4)), ("",)) == set()
    assert store.done(chunk(1, 1, range(0, 10)), ("",)) == set()


def test_done_means_every_variant(store: Store) -> None:
    store.add([row(0, 0, 0, 1.0, "a"), row(0, 0, 0, 1.0, "b"), row(0, 0, 1, 1.0, "b")])
    assert store.done(chunk(0, 0, range(0, 6)), ("b",)) == {0, 1}
    assert store.done(chunk(0, 0, range(0, 6)), ("a", "b")) == {0}
    assert store.done(chunk(0, 0, range(0, 6)), ("a", "b", "c")) == set()


def test_losses_as_a_table(store: Store) -> None:
    store.add([row(1, 0, 0, 2.0), row(0, 1, 3, 1.0), row(0, 1, 4, 9.0, "other")])
    table = store.losses(ALL, "")
    assert table.challenge_base == ["0", "1"]
    assert table.loss.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="at least one loss, got none"):
        store.losses(ALL, "absent")


# --- failures -------------------------------------------------------------------------------------


def test_failures_are_replaced_and_forgotten(store: Store) -> None:
    first, second = Failure(Task(1, 0, 3), 3, "one"), Failure(Task(0, 1, 4), 1, "two 'é'")
    store.add_failure(first)
    store.add_failure(second)
    assert store.failures() == [second, first]
    again = first._replace(attempts=6, message="three")
    store.add_failure(again)
    assert store.failures() == [second, again]
    store.add([row(0, 1, 4, 1.0), row(0, 0, 0, 1.0)])
    assert store.failures() == [again]


def test_a_loss_already_there_clears_the_failure(store: Store) -> None:
    store.add([row(0, 0, 0, 1.0)])
    store.add_failure(Failure(Task(0, 0, 0), 1, "came later"))
    store.add([row(0, 0, 0, 1.0)])
    assert store.failures() == []


def test_failures_keep_their_traceback(store: Store) -> None:
    told = Failure(Task(0, 1, 4), 1, "KeyError: 'a'", '  File "mine.py", line 7\n    x\nKeyError')
    silent = Failure(Task(1, 0, 0), 1, "its result was lost")
    for failure in (silent, told):
        store.add_failure(failure)
    assert store.failures() == [told, silent]


# --- losses from elsewhere ------------------------------------------------------------------------


def test_takes_over_losses(store: Store) -> None:
    assert store.add_losses(losses([0.5, 1.5]), variant="") == 2
    assert store.add_losses(losses([0.5, 1.5, 2.5]), variant="") == 1
    assert store.losses(ALL, "").loss.tolist() == [0.5, 1.5, 2.5]


def test_takes_over_losses_of_a_variant(store: Store) -> None:
    store.add_losses(losses([0.5]), variant="a")
    store.add_losses(losses([0.7]), variant="b")
    assert store.losses(Sizes(2, 5, 5, ("b",)), "b").loss.tolist() == [0.7]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf")])
def test_takes_over_no_infinite_loss(store: Store, loss: float) -> None:
    with pytest.raises(
        InputError, match=r"base 0, hypothesis 0, replicate 1: expected a finite loss"
    ):
        store.add_losses(losses([0.5, loss]), variant="")
    assert store.rows(ALL) == []


def test_takes_over_no_loss_that_differs(store: Store) -> None:
    store.add([row(0, 0, 1, 1.5)])
    with pytest.raises(InputError, match=r"replicate 1: expected .*1\.5, got loss=1\.25"):
        store.add_losses(losses([0.5, 1.25]), variant="")
    assert store.rows(ALL) == [row(0, 0, 1, 1.5)]


def test_takes_over_no_loss_of_an_unknown_base(store: Store) -> None:
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
def test_refuses_another_plan_and_names_the_difference(make_store: MakeStore, words: str) -> None:
    store = make_store()
    store.prepare(fast())
    store.add([row(0, 0, 0, 1.0)])
    for accept in (False, True):
        with pytest.raises(StoreError, match=f"holds another plan: .*{words}"):
            store.prepare(OTHERS[words], accept_changed_code=accept)
    store.prepare(fast())
    assert store.rows(ALL) == [row(0, 0, 0, 1.0)]


def test_refuses_other_bases(make_store: MakeStore) -> None:
    store = make_store()
    store.prepare(given([1, 2], [3, 4]))
    store.add([row(0, 0, 0, 1.0)])
    with pytest.raises(StoreError, match="its challenge base 1 has different records"):
        store.prepare(given([1, 2], [4, 3]))


@pytest.mark.parametrize("words", OTHERS)
def test_without_losses_another_plan_is_taken_and_failures_are_forgotten(
    make_store: MakeStore, words: str
) -> None:
    store = make_store()
    store.prepare(replace(fast(), challenge_bases=4))
    store.add_failure(Failure(Task(0, 0, 0), 3, "ValueError: no"))
    store.prepare(OTHERS[words])
    assert store.failures() == []
    assert store.names() == list(OTHERS[words].names)
    store.add([row(0, 0, 0, 1.0)])
    with pytest.raises(StoreError, match="holds another plan"):
        store.prepare(fast())


def test_without_losses_failures_of_the_same_plan_stay(make_store: MakeStore) -> None:
    store, failure = make_store(), Failure(Task(0, 0, 0), 3, "ValueError: no")
    store.prepare(fast())
    store.add_failure(failure)
    store.prepare(replace(fast(), challenge_bases=4))
    assert store.failures() == [failure]


def test_a_plan_may_grow_and_shrink(make_store: MakeStore) -> None:
    store = make_store()
    for bases, replicates in ((2, 5), (4, 9), (1, 3), (4, 9)):
        store.prepare(plan(bases=bases, replicates=replicates))
    assert store.names() == ["0", "1", "2", "3"]


def test_variants_may_grow(make_store: MakeStore) -> None:
    store = make_store()
    for scales in ((0.1,), (0.1, 0.2), (0.2, 0.3)):
        store.prepare(plan(NoiseLevels(algorithm=mean(), scales=scales)))


def test_bases_that_are_given_may_grow(make_store: MakeStore) -> None:
    store = make_store()
    store.prepare(given([1, 2]))
    store.prepare(given([1, 2], [3, 4]))
    assert store.names() == ["0", "1"]


@pytest.mark.parametrize("grown", [False, True])
def test_names_follow_the_plan(make_store: MakeStore, grown: bool) -> None:
    # Names are for display, so they may change; stores return those of the last plan.
    store = make_store()
    store.prepare(given([1, 2], names=("old",)))
    store.add([row(0, 0, 0, 1.0)])
    changed = (
        given([1, 2], [3, 4], names=("new", "old")) if grown else given([1, 2], names=("new",))
    )
    store.prepare(changed)
    assert store.names() == list(changed.names)


def changed_code(make: MakeStore, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store created before the source file of the algorithm changed."""
    store = make()
    store.prepare(plan(Settings(source="a")))
    store.add([row(0, 0, 0, 1.0)])
    monkeypatch.setattr(
        "epsilometer.measurement.algorithm._source",
        lambda _: {"source file": {"another file": "syntax:1"}},
    )
    return store


def test_changed_code_is_refused_with_the_way_out(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = changed_code(make_store, monkeypatch)
    with pytest.raises(StoreError, match=r"code has changed .*accept_changed_code=True"):
        store.prepare(plan(Settings(source="a")))


def test_changed_code_is_accepted_on_request_and_then_kept(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = changed_code(make_store, monkeypatch)
    store.prepare(plan(Settings(source="a")), accept_changed_code=True)
    store.prepare(plan(Settings(source="a")))


MINE = """
class Mine:
    def train(self, dataset, rng):
        return 0

    def loss(self, model, point):
        return 1.0
"""


@pytest.fixture
def with_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Plan]]:
    """Plans of an algorithm in a file of the user."""
    path = tmp_path / "epsilometer_test_store.py"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield lambda text: plan(from_file(path, text).Mine())
    sys.modules.pop(path.stem, None)


COMMENTED = MINE.replace("return 0", "return 0  # nothing to train").replace(
    "class Mine:\n", 'class Mine:\n    """Trains nothing."""\n\n'
)


def test_comments_and_docstrings_are_no_change(
    make_store: MakeStore, with_code: Callable[[str], Plan]
) -> None:
    store = make_store()
    store.prepare(with_code(MINE))
    store.add([row(0, 0, 0, 1.0)])
    store.prepare(with_code(COMMENTED))
    with pytest.raises(StoreError, match=r"code has changed .*epsilometer_test_store.py"):
        store.prepare(with_code(COMMENTED.replace("1.0", "2.0")))


def test_stores_of_older_versions_go_on_where_bytes_are_equal(
    make_store: MakeStore, with_code: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    with monkeypatch.context() as older:
        older.setattr(Plan, "identity", Plan.former_identity)
        store.prepare(with_code(MINE))
    store.add([row(0, 0, 0, 1.0)])
    # What the bytes were is known, but not what the code was.
    with pytest.raises(StoreError, match=r"code has changed"):
        store.prepare(with_code(COMMENTED))
    store.prepare(with_code(MINE))
    # From now on the store knows the code.
    store.prepare(with_code(COMMENTED))
    assert store.rows(ALL) == [row(0, 0, 0, 1.0)]


def test_a_setting_named_source_is_not_code(make_store: MakeStore) -> None:
    store = make_store()
    store.prepare(plan(Settings(source="a")))
    store.add([row(0, 0, 0, 1.0)])
    with pytest.raises(StoreError, match='source is "a" there and "b" here'):
        store.prepare(plan(Settings(source="b")), accept_changed_code=True)


@pytest.mark.parametrize("kind", ["seed", "replicates", "dataset_size"])
def test_whole_numbers_of_numpy(make_store: MakeStore, kind: str) -> None:
    store = make_store()
    store.prepare(plan())
    usual = {"seed": 1, "replicates": 5, "dataset_size": 10}[kind]
    store.prepare(plan(**{kind: np.int64(usual)}))  # type: ignore[arg-type]


# --- equal in use ---------------------------------------------------------------------------------


def test_measures_alike(make_store: MakeStore) -> None:
    levels = NoiseLevels(algorithm=mean(0.0), scales=(0.1, 0.2))
    reference = measure(plan(levels), MemoryStore())
    measured = measure(plan(levels), make_store())
    assert measured.losses == reference.losses
    assert (measured.trained, measured.reused) == (reference.trained, reference.reused) == (20, 0)


def test_population_of_another_type_is_another_population(make_store: MakeStore) -> None:
    store = make_store()
    single = Population(features=population().features.astype(np.float32))
    store.prepare(replace(plan(), population=single))
    store.add([row(0, 0, 0, 1.0)])
    with pytest.raises(StoreError, match=r"population\.sha256"):
        store.prepare(plan())
