"""The SQLite store: damage that only a file can suffer, and several processes at once."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.losses import Losses
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement.bases import LossRow
from epsilometer.measurement.engine import measure
from epsilometer.measurement.failures import Failure
from epsilometer.measurement.plan import Plan, Task
from epsilometer.measurement.store import SqliteStore
from epsilometer.measurement.store_file import checksum, is_store
from epsilometer.training.clipped_mean import ClippedMean
from epsilometer.training.output_perturbation import NoiseLevels
from tests.measurement import runner
from tests.measurement.algorithms import NoisyMean, noted, plan, pool_plan

#: The quick run damages every seventh place of those that the slow one damages.
SOME = 7


def two_levels() -> Plan:
    levels = NoiseLevels(algorithm=ClippedMean(noise=0.0, records=10), scales=(0.1, 0.2))
    return plan(levels, bases=3, replicates=12)


def read(path: Path) -> dict[str, Losses]:
    with SqliteStore(path, read_only=True) as store:
        sizes = store.sizes()
        return {variant: store.losses(sizes, variant) for variant in sizes.variants}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("intact") / "store.db"
    measure(two_levels(), path)
    with SqliteStore(path) as store:
        store.add_failure(Failure(Task(0, 0, 99), 3, "no"))
    assert not path.with_name("store.db-wal").exists()
    return path.read_bytes()


# --- opened again ---------------------------------------------------------------------------------


def test_status(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    measure(plan(bases=3, replicates=4), path)
    with SqliteStore(path) as store:
        store.prepare(plan(bases=2, replicates=6))
        status = store.status()
    assert status.done == {"": [(4, 4), (4, 4)]}
    assert status.names == ["0", "1"]
    assert status.identity["seed"] == 1
    (run,) = status.runs
    assert (run["executor"], run["trained"]) == ("serial", 24)
    assert run["started"] <= run["ended"]


def test_reading_creates_no_files(intact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(intact)
    read(path)
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]
    assert path.read_bytes() == intact


def test_read_only_refuses_to_write(intact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(intact)
    with SqliteStore(path, read_only=True) as store, pytest.raises(StoreError, match="readonly"):
        store.prepare(two_levels())
    assert path.read_bytes() == intact


# --- what is not a store --------------------------------------------------------------------------


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("challenge_base,hypothesis,replicate,loss\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"losses\.csv: is not a store of losses.*not changed"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert not is_store(path)


@pytest.mark.parametrize(
    "content", ["CREATE TABLE mine (x); INSERT INTO mine VALUES (1)", "PRAGMA application_id = 77"]
)
def test_another_database(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(content)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is a database, but not a store of losses"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert is_store(path)


@pytest.mark.parametrize("version", [0, 1, 3, 1_000_000])
def test_another_format(intact: bytes, tmp_path: Path, version: int) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(intact)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match=f"has format {version}; .* reads 2"):
        SqliteStore(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a store of losses, but there is no such file"):
        SqliteStore(tmp_path / "absent.db", read_only=True)
    with pytest.raises(InputError, match="expected an existing folder"):
        SqliteStore(tmp_path / "absent" / "store.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path)


def test_a_store_without_a_plan(tmp_path: Path) -> None:
    with (
        SqliteStore(tmp_path / "store.db") as store,
        pytest.raises(StoreError, match="holds no plan yet"),
    ):
        store.sizes()


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "a?mode=ro.db", "#1.db", "é.db"])
def test_any_file_name(tmp_path: Path, name: str) -> None:
    measure(plan(), tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can read, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="epsilometer-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_a_store_without_permission_to_write(
    intact: bytes, shared_folder: Path, locked: str
) -> None:
    path = shared_folder / "store.db"
    if locked == "file":
        path.write_bytes(intact)
        path.chmod(0o444)
    shared_folder.chmod(0o777 if locked == "file" else 0o555)
    code = (
        "import os, sys; from epsilometer.errors import StoreError\n"
        "from epsilometer.measurement.plan import Task\n"
        "from epsilometer.measurement.store import SqliteStore\n"
        "from epsilometer.measurement.failures import Failure\n"
        "failure = Failure(Task(0, 0, 0), 1, 'no')\n"
        "if os.getuid() == 0: os.setuid(65534)  # permissions do not stop root\n"
        "try:\n"
        "    with SqliteStore(sys.argv[1]) as store: store.add_failure(failure)\n"
        "except StoreError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    shared_folder.chmod(0o755)
    assert "cannot be opened for writing" in done.stdout, done.stderr
    if locked == "file":
        assert path.read_bytes() == intact


# --- damage ---------------------------------------------------------------------------------------


def damaged_places(intact: bytes) -> list[int]:
    """Every byte in use and some of the rest."""
    return [place for place, value in enumerate(intact) if value or place % 64 == 0]


every_place = pytest.mark.parametrize(
    "step", [SOME, pytest.param(1, marks=pytest.mark.slow, id="all")]
)


def damaged(intact: bytes, place: int, rng: np.random.Generator) -> bytes:
    """One byte changed: one bit of it, or all."""
    changed = bytearray(intact)
    changed[place] ^= int(rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 255]))
    return bytes(changed)


def put(path: Path, content: bytes) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(content)


def measured_again(path: Path) -> dict[str, Losses]:
    return dict(measure(two_levels(), path).losses)


@every_place
@pytest.mark.parametrize(("use", "sparser"), [(read, 1), (measured_again, 9)])
def test_damage_is_noticed_or_harmless(
    use: Callable[[Path], dict[str, Losses]], sparser: int, intact: bytes, tmp_path: Path, step: int
) -> None:
    path = tmp_path / "store.db"
    put(path, intact)
    reference = read(path)
    rng = np.random.default_rng(1)
    wrong = []
    for place in damaged_places(intact)[:: sparser * step]:
        content = damaged(intact, place, rng)
        put(path, content)
        refused = False
        try:
            if use(path) != reference:
                wrong.append(f"byte {place}: other losses, no error")
        except StoreError as error:
            refused = True
            if "\n" in str(error) or "store.db" not in str(error):
                wrong.append(f"byte {place}: {error}")
        except Exception as error:  # noqa: BLE001 - any other kind is what is looked for
            wrong.append(f"byte {place}: {type(error).__name__} {error}")
        if (refused or use is read) and path.read_bytes() != content:
            wrong.append(f"byte {place}: the file was changed")
    assert not wrong, f"{len(wrong)} wrong: " + "; ".join(wrong[:10])


def test_a_page_of_zeros_or_noise(intact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    put(path, intact)
    reference = read(path)
    rng = np.random.default_rng(5)
    refused = 0
    for first in range(0, len(intact), 4096):
        for filling in (bytes(4096), rng.bytes(4096)):
            put(path, intact[:first] + filling + intact[first + 4096 :])
            try:
                assert read(path) == reference, first
            except StoreError:
                refused += 1
    # All pages except those of tables that losses do not need.
    assert refused >= 2 * (len(intact) // 4096 - 2)


def test_a_truncated_store(intact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lengths = [2, 15, 16, 50, 99, 100, 101, 512, *range(1000, len(intact) - 4095, 1000)]
    lengths += range(4096, len(intact), 4096)
    for length in lengths:
        for read_only in (False, True):
            put(path, intact[:length])
            with pytest.raises(StoreError, match=r"damaged|not a store"):
                SqliteStore(path, read_only=read_only)
            assert path.read_bytes() == intact[:length], length


def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with pytest.raises(StoreError, match="not a store of losses"):
        SqliteStore(path, read_only=True)
    assert path.stat().st_size == 0
    assert len(measure(plan(), path).only) == 20


def test_a_lost_log_loses_losses_but_makes_none_up(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    reference = measure(plan()).only
    with SqliteStore(path) as store:
        measure(plan(), store)
        log = path.with_name("store.db-wal").read_bytes()
        main = path.read_bytes()
    rng = np.random.default_rng(3)
    for place in [*range(0, len(log), 997), *range(32, 56)]:
        copy = tmp_path / "copy.db"
        put(copy, main)
        copy.with_name("copy.db-wal").write_bytes(damaged(log, place, rng))
        assert measure(plan(), copy).only == reference, place


def test_a_loss_changed_by_hand_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    measure(plan(), path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE losses SET loss = loss + 1e-12 WHERE base = 1 AND replicate = 3")
        db.commit()
    with pytest.raises(StoreError, match=r"damaged .*base 1, hypothesis 0, replicate 3"):
        measure(plan(), path)


def test_checking_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    measure(pool_plan(), path)
    before = path.read_bytes()
    with SqliteStore(path, read_only=True) as store:
        store.check(pool_plan(models=30, attack="loss"))
        with pytest.raises(StoreError, match="seed is 1 there and 2 here"):
            store.check(pool_plan(seed=2))
    assert path.read_bytes() == before


# --- damage to the models of a pool ----------------------------------------------------------------


@pytest.fixture(scope="module")
def intact_pool(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("pool") / "store.db"
    measure(pool_plan(), path)
    return path.read_bytes()


@pytest.fixture
def path(intact_pool: bytes, tmp_path: Path) -> Path:
    found = tmp_path / "store.db"
    found.write_bytes(intact_pool)
    return found


def test_a_damaged_blob(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        (blob,) = db.execute("SELECT losses FROM pool_losses WHERE replicate = 3").fetchone()
    where = path.read_bytes().index(blob)
    data = bytearray(path.read_bytes())
    data[where + 11] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"the store is damaged .*pool_losses"):
        SqliteStore(path, read_only=True)


FEW, ENOUGH = b"\0" * 3, b"\0" * 160
BLOBS = {
    "not of 8 bytes": (b"\0" * 161, FEW),
    "wrong number of points": (b"\0" * 8 * 19, FEW),
    "of no query": (b"", FEW),
    "few bits": (ENOUGH, b"\0" * 2),
    "many bits": (ENOUGH, b"\0" * 4),
}
POOLS = ('["names"]', '{"names":3,"references":0}', '{"names":[],"references":"0"}', "{}", "7")
FORGED: dict[str, tuple[str, tuple[object, ...], str]] = {
    **{
        what: ("pool_losses", (0, 0, 2, "", *blobs), "replicate 2: wrong number of points")
        for what, blobs in BLOBS.items()
    },
    **{text: ("plan", ("pool", text), "points of its pool are unreadable") for text in POOLS},
    "others": ("plan", ("pool", '{"names":["a"],"references":0}'), "names of points"),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_rows_with_a_right_checksum(what: str, path: Path) -> None:
    table, entry, words = FORGED[what]
    forge(path, table, entry)
    with (
        SqliteStore(path, read_only=True) as store,
        pytest.raises((StoreError, InputError), match=words),
    ):
        store.pool_losses(store.sizes(), "")


def forge(path: Path, table: str, entry: tuple[object, ...]) -> None:
    """Write a row as the store does, including the checksum."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        marks = ", ".join("?" * (len(entry) + 1))
        row = (*entry, checksum(entry))
        db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)


# --- several processes ----------------------------------------------------------------------------


def test_three_processes_create_and_fill_one_store(tmp_path: Path) -> None:
    path, log = tmp_path / "store.db", tmp_path / "log"
    options = ["--bases", "4", "--replicates", "40", "--seconds", "0.002", "--log", str(log)]
    runs = [runner.start(path, "serial", "--wait", *options) for _ in range(3)]
    for run in runs:
        runner.wait_until_ready(run)
    answers = []
    for run in runs:
        assert run.stdin is not None
        run.stdin.write("go\n")
        run.stdin.flush()
    for run in runs:
        out, error = run.communicate(timeout=60)
        assert run.returncode == 0, error
        answers.append([int(number) for number in out.split()])
    wanted = plan(NoisyMean(), bases=4, replicates=40)
    assert read(path)[""] == measure(wanted).only
    assert [sum(answer) for answer in answers] == [320] * 3
    # Every model is credited to the process whose loss was stored.
    assert sum(trained for trained, _ in answers) == 320
    assert set(noted(log)) == set(wanted.tasks())


def test_losses_for_the_previous_plan_are_refused(tmp_path: Path) -> None:
    """A store without losses accepts another plan, but losses of two plans must not be mixed."""
    path = tmp_path / "store.db"
    rows = [LossRow(0, 0, 0, "", 1.0)]
    with SqliteStore(path) as first, SqliteStore(path) as second:
        first.prepare(plan(seed=1))
        second.prepare(plan(seed=2))
        with pytest.raises(StoreError, match="another process has started another plan"):
            first.add(rows)
        assert second.add(rows) == 1
        first.prepare(plan(seed=2, replicates=9))
        assert first.add([LossRow(0, 0, 1, "", 1.0)]) == 1
