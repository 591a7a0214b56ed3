"""The contract of stores for models of a pool: SQLite equals memory, also after a restart."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement.engine import measure
from epsilometer.measurement.plan import Sizes, Task
from epsilometer.measurement.rows import LossRow, PoolRow
from epsilometer.measurement.sqlite_store import SqliteStore
from epsilometer.measurement.sqlite_tables import checksum
from epsilometer.measurement.store import Failure, MemoryStore, Store
from epsilometer.measurement.tasks import Chunk
from epsilometer.training.output_perturbation import NoiseLevels
from tests.measurement.algorithms import Logistic, plan, pool_plan

POINTS = 20
ALL = Sizes(1, 8, 0, ("",), 0, POINTS)


class Reopened(SqliteStore):
    """A file that is closed and reopened before every query."""

    def again(self) -> Store:
        self.close()
        return SqliteStore(self.path)


@pytest.fixture(params=["memory", "sqlite", "reopened"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore()
    if request.param != "memory":
        made = (Reopened if request.param == "reopened" else SqliteStore)(tmp_path / "store.db")
    made.prepare(pool_plan())
    yield made
    made.close()


def asked(store: Store) -> Store:
    return store.again() if isinstance(store, Reopened) else store


def row(replicate: int, *, variant: str = "", queries: int = 1, scale: float = 1.0) -> PoolRow:
    rng = np.random.default_rng(replicate)
    losses = scale * rng.standard_normal((POINTS, queries))
    return PoolRow(0, 0, replicate, variant, losses, rng.random(POINTS) < 0.5)


def equal(found: PoolRow, expected: PoolRow) -> None:
    assert found[:4] == expected[:4]
    assert found.losses.dtype == np.float64
    assert found.member.dtype == np.bool_
    assert found.losses.shape == expected.losses.shape
    assert found.losses.tobytes() == expected.losses.tobytes()
    assert found.member.tobytes() == expected.member.tobytes()


# --- kept as they came ----------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [1, 3])
def test_keeps_what_is_added_bit_for_bit(store: Store, queries: int) -> None:
    odd = row(5, queries=queries)
    odd.losses[:5, 0] = [5e-324, -0.0, 1.7976931348623157e308, -1e-300, 1 / 3]
    given = [odd, row(2, queries=queries), row(0, queries=queries)]
    assert store.add_pool(given) == 3
    found = list(asked(store).pool_rows(ALL))
    assert [each.replicate for each in found] == [0, 2, 5]
    for each, expected in zip(found, reversed(given), strict=True):
        equal(each, expected)


def test_the_first_losses_stay(store: Store) -> None:
    assert store.add_pool([row(1)]) == 1
    assert store.add_pool([row(1, scale=2.0), row(3), row(3, scale=2.0)]) == 1
    found = list(asked(store).pool_rows(ALL))
    for each, expected in zip(found, [row(1), row(3)], strict=True):
        equal(each, expected)


def test_adds_all_or_nothing(store: Store) -> None:
    def rows() -> Iterator[PoolRow]:
        yield row(0)
        raise RuntimeError("half-way")

    store.add_failure(Failure(Task(0, 0, 0), 1, "no"))
    assert store.add_pool([]) == 0
    with pytest.raises(RuntimeError, match="half-way"):
        store.add_pool(rows())
    later = asked(store)
    assert list(later.pool_rows(ALL)) == []
    assert len(later.failures()) == 1


def test_failures_are_forgotten(store: Store) -> None:
    for number in (0, 1):
        store.add_failure(Failure(Task(0, 0, number), 1, "no"))
    store.add_pool([row(1), row(4)])
    assert [failure.task.replicate for failure in asked(store).failures()] == [0]


def test_done_and_within_sizes(store: Store) -> None:
    store.add_pool([row(n, variant=v) for n, v in ((0, "a"), (1, "a"), (1, "b"), (6, "b"))])
    later = asked(store)
    every = Chunk(0, 0, tuple(range(8)))
    assert later.done(every, ("a",)) == {0, 1}
    assert later.done(every, ("a", "b")) == {1}
    assert later.done(Chunk(0, 0, (0, 6)), ("b",)) == {6}
    assert later.done(Chunk(0, 1, (0, 1)), ("a",)) == set()
    two = ALL._replace(variants=("a", "b"))
    assert [each[2:4] for each in later.pool_rows(two)] == [(0, "a"), (1, "a"), (1, "b"), (6, "b")]
    assert [each[2:4] for each in later.pool_rows(two._replace(models_h0=1))] == [(0, "a")]


def test_as_losses_of_a_pool(store: Store) -> None:
    with pytest.raises(InputError, match="expected at least one model, got none"):
        store.pool_losses(ALL, "")
    store.add_pool([row(3), row(1)])
    losses = asked(store).measured(ALL, "")
    assert isinstance(losses, PoolLosses)
    assert losses.names == pool_plan().points
    assert (losses.references, losses.fair_coins) == (0, True)
    np.testing.assert_array_equal(losses.loss, np.stack([row(1).losses, row(3).losses]))


def test_other_losses_are_apart(store: Store) -> None:
    store.add_pool([row(0)])
    assert asked(store).rows(ALL) == []


def test_measures_alike(tmp_path: Path) -> None:
    levels = pool_plan(NoiseLevels(algorithm=Logistic(), scales=(0.1, 0.2)), references=3)
    with SqliteStore(tmp_path / "store.db") as store:
        first, second = measure(levels, MemoryStore()), measure(levels, store)
        assert first.losses == second.losses
        assert (first.trained, second.trained) == (8, 8)
    with SqliteStore(tmp_path / "store.db") as store:
        again = measure(levels, store)
        assert (again.losses, again.trained, again.reused) == (first.losses, 0, 8)


def test_another_process_began_another_plan_meanwhile(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as mine, SqliteStore(tmp_path / "a.db") as theirs:
        mine.prepare(pool_plan(seed=1))
        theirs.prepare(pool_plan(seed=2))
        with pytest.raises(StoreError, match="another process has started another plan"):
            mine.add_pool([row(0)])
        assert list(theirs.pool_rows(ALL)) == []
        assert theirs.add_pool([row(0)]) == 1


def test_checking_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    measure(pool_plan(), path)
    before = path.read_bytes()
    with SqliteStore(path, read_only=True) as store:
        store.check(pool_plan(models=30, attack="loss"))
        with pytest.raises(StoreError, match="seed is 1 there and 2 here"):
            store.check(pool_plan(seed=2))
    assert path.read_bytes() == before


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("pool") / "store.db"
    measure(pool_plan(), path)
    return path.read_bytes()


@pytest.fixture
def path(intact: bytes, tmp_path: Path) -> Path:
    found = tmp_path / "store.db"
    found.write_bytes(intact)
    return found


def test_a_damaged_blob(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        (blob,) = db.execute("SELECT losses FROM pool_losses WHERE replicate = 3").fetchone()
    where = path.read_bytes().index(blob)
    data = bytearray(path.read_bytes())
    data[where + 11] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"the store is damaged .*pool_losses") as caught:
        SqliteStore(path, read_only=True)
    assert "\n" not in str(caught.value)


FORGED: dict[str, tuple[bytes, bytes]] = {
    "not of 8 bytes": (b"\0" * 161, b"\0" * 3),
    "wrong number of points": (b"\0" * 8 * 19, b"\0" * 3),
    "of no query": (b"", b"\0" * 3),
    "few bits": (b"\0" * 160, b"\0" * 2),
    "many bits": (b"\0" * 160, b"\0" * 4),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_blobs_with_a_right_checksum(what: str, path: Path) -> None:
    forge(path, "pool_losses", (0, 0, 2, "", *FORGED[what]))
    with (
        SqliteStore(path, read_only=True) as store,
        pytest.raises(StoreError, match="replicate 2: wrong number of points"),
    ):
        store.pool_losses(store.sizes(), "")


POOLS = ('["names"]', '{"names":3,"references":0}', '{"names":[],"references":"0"}', "{}", "7")


@pytest.mark.parametrize("text", POOLS)
def test_forged_points(text: str, path: Path) -> None:
    forge(path, "plan", ("pool", text))
    with (
        SqliteStore(path, read_only=True) as store,
        pytest.raises(StoreError, match="the points of its pool are unreadable"),
    ):
        store.pool_losses(store.sizes(), "")


def test_forged_names_of_other_points(path: Path) -> None:
    forge(path, "plan", ("pool", '{"names":["a"],"references":0}'))
    with (
        SqliteStore(path, read_only=True) as store,
        pytest.raises(InputError, match="names of points"),
    ):
        store.pool_losses(store.sizes(), "")


def forge(path: Path, table: str, entry: tuple[object, ...]) -> None:
    """Write a row as the store does, including the checksum."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        marks = ", ".join("?" * (len(entry) + 1))
        row = (*entry, checksum(entry))
        db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)


# --- stores of format 1 ---------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store as created before pools existed."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in OLD_TABLES:
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
        db.execute("PRAGMA application_id = 0x45505349")
    return path


OLD_TABLES = (
    """CREATE TABLE plan (
  key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE bases (
  base INTEGER PRIMARY KEY, name TEXT NOT NULL, fingerprint TEXT NOT NULL,
  checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE losses (
  base INTEGER NOT NULL, hypothesis INTEGER NOT NULL CHECK (hypothesis IN (0, 1)),
  replicate INTEGER NOT NULL, variant TEXT NOT NULL, loss REAL NOT NULL, checksum INTEGER NOT NULL,
  PRIMARY KEY (base, hypothesis, replicate, variant)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE failures (
  base INTEGER NOT NULL, hypothesis INTEGER NOT NULL, replicate INTEGER NOT NULL,
  attempts INTEGER NOT NULL, message TEXT NOT NULL, checksum INTEGER NOT NULL,
  PRIMARY KEY (base, hypothesis, replicate)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE runs (
  run INTEGER PRIMARY KEY, started TEXT NOT NULL, ended TEXT, executor TEXT NOT NULL,
  trained INTEGER NOT NULL DEFAULT 0, versions TEXT NOT NULL
) STRICT""",
)


def test_a_store_of_format_1_is_read_and_written_as_it_is(old: Path) -> None:
    first = measure(plan(replicates=3), old)
    assert first.trained == 12
    again = measure(plan(replicates=5), old)
    assert (again.trained, again.reused) == (8, 12)
    assert again.only == measure(plan(replicates=5)).only
    with closing(sqlite3.connect(old)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT 1 FROM sqlite_master WHERE name = 'pool_losses'").fetchall() == []
    with SqliteStore(old, read_only=True) as store:
        assert store.status().done == {"": [(5, 5), (5, 5)]}
        assert list(store.pool_rows(ALL)) == []
        assert store.pool() == {}
        assert len(store.rows(store.sizes())) == 20


def test_a_store_of_format_1_takes_no_pool_and_says_so(old: Path) -> None:
    with pytest.raises(
        StoreError, match=r"format 1, which cannot hold pools\. Use another"
    ) as caught:
        measure(pool_plan(), old)
    assert "\n" not in str(caught.value)
    with SqliteStore(old) as store:
        store.prepare(plan())
        assert store.add([LossRow(0, 0, 0, "", 1.0)]) == 1
