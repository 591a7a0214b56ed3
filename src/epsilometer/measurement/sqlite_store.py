"""Losses in one SQLite file that survives being stopped at any moment.

Write-ahead log with full synchronisation: a committed loss outlives a crash and a power cut, and one
that is half written is not there.  Several processes may use a store at once.  The file is untrusted:
when it is opened its structure, its tables and the checksum of every row are verified, before anything
is written, so that damage is noticed wherever it is.

After a crash the newest losses are in the file beside it whose name ends in -wal: copy both.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epsilometer.errors import InputError, StoreError
from epsilometer.measurement.plan import Plan, Sizes, Task, canonical
from epsilometer.measurement.rows import LossRow, PoolRow
from epsilometer.measurement.store import Failure, Store
from epsilometer.measurement.tasks import Chunk

APPLICATION = 0x45505349
"""Marks the file as ours: the letters EPSI."""

FORMAT = 2
"""Of the tables of new stores; those of format 1 hold no pools, and are read and written as they are."""

BUSY_SECONDS = 60.0
"""Far longer than any transaction of ours; who holds a store longer has stopped."""

_TABLES = {
    "plan": """CREATE TABLE plan (
  key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID""",
    "bases": """CREATE TABLE bases (
  base INTEGER PRIMARY KEY, name TEXT NOT NULL, fingerprint TEXT NOT NULL,
  checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID""",
    "losses": """CREATE TABLE losses (
  base INTEGER NOT NULL, hypothesis INTEGER NOT NULL CHECK (hypothesis IN (0, 1)),
  replicate INTEGER NOT NULL, variant TEXT NOT NULL, loss REAL NOT NULL, checksum INTEGER NOT NULL,
  PRIMARY KEY (base, hypothesis, replicate, variant)
) STRICT, WITHOUT ROWID""",
    "failures": """CREATE TABLE failures (
  base INTEGER NOT NULL, hypothesis INTEGER NOT NULL, replicate INTEGER NOT NULL,
  attempts INTEGER NOT NULL, message TEXT NOT NULL, checksum INTEGER NOT NULL,
  PRIMARY KEY (base, hypothesis, replicate)
) STRICT, WITHOUT ROWID""",
    "runs": """CREATE TABLE runs (
  run INTEGER PRIMARY KEY, started TEXT NOT NULL, ended TEXT, executor TEXT NOT NULL,
  trained INTEGER NOT NULL DEFAULT 0, versions TEXT NOT NULL
) STRICT""",
}

_POOL_TABLES = {
    "pool_losses": """CREATE TABLE pool_losses (
  base INTEGER NOT NULL, hypothesis INTEGER NOT NULL CHECK (hypothesis IN (0, 1)),
  replicate INTEGER NOT NULL, variant TEXT NOT NULL, losses BLOB NOT NULL, member BLOB NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY (base, hypothesis, replicate, variant)
) STRICT""",
}
"""What format 2 adds: all losses of a model in one row, and a bit for each point it was trained on."""

_KEYS = {"plan": 1, "bases": 1, "losses": 4, "failures": 3, "pool_losses": 4}
"""Tables whose rows carry a checksum, and how many columns their keys have."""

BEGUN = "begun"
"""Key of a mark that a plan gets when a store without losses takes it on: a process that still trains
for the plan before must notice."""

_WITHIN = "base < ? AND replicate < CASE hypothesis WHEN 0 THEN ? ELSE ? END"
"""Losses within sizes."""


class Status(NamedTuple):
    """What a store holds."""

    identity: dict[str, Any]
    sizes: Sizes
    names: list[str]
    done: dict[str, list[tuple[int, int]]]
    """For each variant: models under H0 and H1 of each base, within the sizes."""
    failures: list[Failure]
    runs: list[dict[str, Any]]


class SqliteStore(Store):
    """Losses of one plan in a file.

    Parameters
    ----------
    path
        Made if it is not there.
    read_only
        Look, but change nothing; the file must be there.

    Raises
    ------
    StoreError
        If the file is not a store, is damaged, or cannot be opened or written.
    """

    def __init__(self, path: str | PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self._begun: list[Any] = []
        if read_only and not self.path.is_file():
            raise InputError(f"{self.path}: expected a store of losses, got no such file.")
        if not self.path.absolute().parent.is_dir():
            raise InputError(f"{self.path}: expected its folder to be there, got no such folder.")
        mode = "mode=ro" if read_only else "mode=rwc"
        if read_only and not self.path.with_name(self.path.name + "-wal").exists():
            mode += "&immutable=1"  # nobody writes: leave no files beside it
        with self._clear_errors():
            self._db = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?{mode}",
                uri=True,
                isolation_level=None,
                timeout=BUSY_SECONDS,
                check_same_thread=False,
            )
        try:
            with self._clear_errors():
                self._open(read_only)
        except BaseException:
            self._db.close()
            raise

    def _open(self, read_only: bool) -> None:
        db = self._db
        db.execute("PRAGMA trusted_schema = OFF")
        if not read_only:
            if self._is_empty():
                self._create()
            db.execute("PRAGMA synchronous = FULL")
        found = db.execute("PRAGMA application_id").fetchone()[0]
        if found != APPLICATION:
            raise StoreError(
                f"{self.path} is a database, but not a store of losses (or its -wal file is missing)."
            )
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (1, FORMAT):
            raise StoreError(
                f"{self.path} has format {version}; this version of Epsilometer reads 1 to {FORMAT}."
            )
        self._tables = _TABLES if version == 1 else _TABLES | _POOL_TABLES
        self._verify()

    def _verify(self) -> None:
        """Raise :class:`sqlite3.DatabaseError` unless everything is as it was written."""
        # A transaction: one state of the store throughout, whatever others write meanwhile.
        with self._transaction("BEGIN"):
            answer = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)
            tables = self._db.execute(
                "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            ).fetchall()
            if dict(tables) != self._tables:
                raise sqlite3.DatabaseError("its tables are not those of a store")
            for table, keys in _KEYS.items():
                if table not in self._tables:
                    continue
                last: Any = None
                order = "base, hypothesis, replicate, variant"
                ordered = f" ORDER BY {order}" if table in _POOL_TABLES else ""
                for row in self._db.execute(f"SELECT * FROM {table}{ordered}"):
                    if row[-1] != _checksum(row[:-1]):
                        what = Task(*row[:3]) if table == "losses" else row[:keys]
                        raise sqlite3.DatabaseError(f"{table}, {what}: wrong checksum")
                    if last is not None and not last < row[:keys]:
                        raise sqlite3.DatabaseError(f"the rows of {table} are out of order")
                    last = row[:keys]

    def _create(self) -> None:
        self._write_ahead()
        with self._transaction():
            if not self._is_empty():
                return  # another process was first
            for statement in (_TABLES | _POOL_TABLES).values():
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._db.execute(f"PRAGMA application_id = {APPLICATION}")
        # So that the file by itself is known for a store.
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _write_ahead(self) -> None:
        """Turn the write-ahead log on; unlike other statements this does not wait for others."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                busy = str(getattr(error, "sqlite_errorname", "")).startswith("SQLITE_BUSY")
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _is_empty(self) -> bool:
        """Whether nothing was ever put in; also if making it was cut off half-way."""
        mark = self._db.execute("PRAGMA application_id").fetchone()[0]
        return mark == 0 and not self._db.execute("SELECT 1 FROM sqlite_master").fetchone()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(_worded(self.path, error)) from None
        except UnicodeDecodeError:
            damage = sqlite3.DatabaseError("text that is none")
            raise StoreError(_worded(self.path, damage)) from None

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        with self._clear_errors():
            self._db.execute(begin)
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _ask(self, question: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._clear_errors():
            return self._db.execute(question, values).fetchall()

    def _put(self, table: str, *entries: tuple[Any, ...], or_else: str = "REPLACE") -> None:
        """Write rows with their checksums; ``or_else`` is for rows whose key is there already."""
        rows = [(*entry, _checksum(entry)) for entry in entries]
        if rows:
            statement = f"INSERT OR {or_else} INTO {table} VALUES ({_marks(rows[0])})"
            self._db.executemany(statement, rows)

    # --- the plan -----------------------------------------------------------------------------

    def prepare(self, plan: Plan, *, accept_changed_code: bool = False) -> None:
        with self._transaction():
            bases = self._ask("SELECT fingerprint FROM bases ORDER BY base")
            there = self._value("identity"), [fingerprint for (fingerprint,) in bases]
            if self._holds_nothing() and not self._same(plan, *there):
                for table in ("plan", "bases", "failures"):
                    self._db.execute(f"DELETE FROM {table}")
                self._put("plan", (BEGUN, canonical(uuid.uuid4().hex)))
                there = None, []
            self._begun = [self._value(BEGUN)]
            if plan.pool and "pool_losses" not in self._tables:
                raise StoreError(
                    f"{self.path} was made by an older version and cannot hold pools; use another store."
                )
            self._check(plan, *there, accept_changed_code=accept_changed_code)
            named = zip(plan.names, (base.fingerprint for base in plan.bases), strict=True)
            self._put("bases", *((number, *entry) for number, entry in enumerate(named)))
            kept: dict[str, Any] = {
                "identity": plan.identity,
                "sizes": plan.sizes.described(),
                "hash": plan.content_hash,
            }
            kept |= {"pool": plan.pool, "judging": plan.design.judging} if plan.pool else {}
            self._put("plan", *((key, canonical(value)) for key, value in kept.items()))

    def _value(self, key: str) -> Any:
        with self._clear_errors():
            found = self._ask("SELECT value FROM plan WHERE key = ?", key)
            try:
                return json.loads(found[0][0]) if found else None
            except ValueError:
                raise sqlite3.DatabaseError(f"the plan's {key} is not readable") from None

    def names(self) -> list[str]:
        return [name for (name,) in self._ask("SELECT name FROM bases ORDER BY base")]

    def sizes(self) -> Sizes:
        """How much was wanted by the last run."""
        kept = self._value("sizes")
        if kept is None:
            raise StoreError(f"{self.path} holds no plan yet.")
        with self._clear_errors():
            try:
                bases, models_h0, models_h1, variants, *canaries = kept
                numbers = (int(bases), int(models_h0), int(models_h1))
                return Sizes(*numbers, tuple(map(str, variants)), *map(int, canaries))
            except (TypeError, ValueError):
                raise sqlite3.DatabaseError("sizes unreadable") from None

    # --- losses -------------------------------------------------------------------------------

    def add(self, rows: Iterable[LossRow]) -> int:
        # SQLite keeps no negative zero.
        return self._add("losses", [row._replace(loss=row.loss + 0.0) for row in rows])

    def _add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Keep rows of losses that are new, and forget that their models failed."""
        with self._transaction():
            if self._begun and self._begun != [self._value(BEGUN)]:
                raise StoreError(
                    f"{self.path}: another process has begun another plan there meanwhile; nothing was "
                    "added. Use another store."
                )
            before = self._db.total_changes
            self._put(table, *rows, or_else="IGNORE")
            new = self._db.total_changes - before
            if self._ask("SELECT 1 FROM failures LIMIT 1"):
                self._db.executemany(
                    "DELETE FROM failures WHERE base = ? AND hypothesis = ? AND replicate = ?",
                    [row[:3] for row in rows],
                )
        return new

    def _holds_nothing(self) -> bool:
        """Whether no model has losses."""
        return not any(self._ask(f"SELECT 1 FROM {table} LIMIT 1") for table in self._loss_tables)

    def done(self, chunk: Chunk, variants: Sequence[str]) -> set[int]:
        base, hypothesis, wanted = chunk
        ends = min(wanted, default=0), max(wanted, default=-1)
        found: set[int] = set()
        for table in self._loss_tables:
            rows = self._ask(
                f"SELECT replicate FROM {table} WHERE base = ? AND hypothesis = ? "
                f"AND replicate BETWEEN ? AND ? AND variant IN ({_marks(variants)}) "
                "GROUP BY replicate HAVING count(*) = ?",
                *(base, hypothesis, *ends, *variants, len(variants)),
            )
            found |= {replicate for (replicate,) in rows}
        return found.intersection(wanted)

    @property
    def _loss_tables(self) -> list[str]:
        return [table for table in ("losses", "pool_losses") if table in self._tables]

    def add_pool(self, rows: Iterable[PoolRow]) -> int:
        entries = [
            (*row[:4], row.losses.astype("<f8").tobytes(), np.packbits(row.member).tobytes())
            for row in rows
        ]
        return self._add("pool_losses", entries)

    def pool_rows(self, sizes: Sizes) -> Iterator[PoolRow]:
        with self._clear_errors():
            found = self._db.execute(
                f"SELECT * FROM pool_losses WHERE {_WITHIN} "
                f"AND variant IN ({_marks(sizes.variants)}) "
                "ORDER BY base, hypothesis, replicate, variant",
                (*sizes[:3], *sizes.variants),
            )
            for row in found:
                if row[-1] != _checksum(row[:-1]):
                    raise sqlite3.DatabaseError(f"losses of {Task(*row[:3])}")
                losses = np.frombuffer(row[4], dtype="<f8")
                member = np.unpackbits(np.frombuffer(row[5], dtype=np.uint8), count=sizes.points)
                if len(losses) % sizes.points or len(member) != sizes.points:
                    raise sqlite3.DatabaseError(f"losses of {Task(*row[:3])}: of other points")
                table = losses.reshape(sizes.points, -1)
                base, hypothesis, replicate, variant = row[:4]
                yield PoolRow(base, hypothesis, replicate, variant, table, member.astype(np.bool_))

    def pool(self) -> dict[str, Any]:
        found = self._value("pool") or {}
        known = {key: found[key] for key in ("names", "references", "fair_coins") if key in found}
        return known if isinstance(found, dict) else {}

    @property
    def judging(self) -> dict[str, Any]:
        """How its losses were judged last, in plain values; empty if there was no choice."""
        found = self._value("judging")
        return found if isinstance(found, dict) else {}

    def rows(self, sizes: Sizes) -> list[LossRow]:
        found = self._ask(
            f"SELECT * FROM losses WHERE {_WITHIN} AND variant IN ({_marks(sizes.variants)}) "
            "ORDER BY base, hypothesis, replicate, variant",
            *(*sizes[:3], *sizes.variants),
        )
        with self._clear_errors():
            for row in found:
                if row[-1] != _checksum(row[:-1]):
                    raise sqlite3.DatabaseError(f"loss of {Task(*row[:3])}")
        return [LossRow(*row[:-1]) for row in found]

    # --- failures and runs --------------------------------------------------------------------

    def add_failure(self, failure: Failure) -> None:
        # The traceback follows the message in its column, so that the format stays what it was.
        text = failure.message + (f"\n{failure.traceback}" if failure.traceback else "")
        with self._transaction():
            self._put("failures", (*failure.task, failure.attempts, text))

    def failures(self) -> list[Failure]:
        rows = self._ask("SELECT * FROM failures ORDER BY base, hypothesis, replicate")
        found = []
        for *place, attempts, text, _ in rows:
            message, _, lines = text.partition("\n")
            found.append(Failure(Task(*place), attempts, message, lines))
        return found

    def begin_run(self, executor: str) -> int:
        versions = {name: metadata.version(name) for name in ("epsilometer", "numpy")}
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO runs (started, executor, versions) VALUES (?, ?, ?)",
                (_now(), executor, canonical(versions)),
            )
        return int(cursor.lastrowid or 0)

    def end_run(self, run: int, trained: int) -> None:
        with self._transaction():
            self._db.execute(
                "UPDATE runs SET ended = ?, trained = ? WHERE run = ?", (_now(), trained, run)
            )

    def status(self) -> Status:
        """What is there and what is missing."""
        sizes = self.sizes()
        counted = [
            row
            for table in self._loss_tables
            for row in self._ask(
                f"SELECT variant, base, hypothesis, count(*) FROM {table} WHERE {_WITHIN} "
                "GROUP BY variant, base, hypothesis",
                *sizes[:3],
            )
        ]
        columns = ("started", "ended", "executor", "trained")
        runs = self._ask(f"SELECT {', '.join(columns)} FROM runs ORDER BY run")
        identity = self._value("identity")
        table = {(variant, base, h): number for variant, base, h, number in counted}
        return Status(
            identity=identity if isinstance(identity, dict) else {},
            sizes=sizes,
            names=self.names()[: sizes.challenge_bases],
            done={
                variant: [
                    (table.get((variant, base, 0), 0), table.get((variant, base, 1), 0))
                    for base in range(sizes.challenge_bases)
                ]
                for variant in sizes.variants
            },
            failures=self.failures(),
            runs=[dict(zip(columns, run, strict=True)) for run in runs],
        )

    def close(self) -> None:
        with self._clear_errors():
            self._db.close()


def is_store(path: str | PathLike[str]) -> bool:
    """Whether a file begins like an SQLite database."""
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _checksum(row: Sequence[Any]) -> int:
    """CRC-32 of a row's values; repr tells types apart and keeps every bit of a number."""
    plain = tuple(zlib.crc32(each) if isinstance(each, bytes) else each for each in row)
    return zlib.crc32(repr(plain).encode("utf-8", "backslashreplace"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _worded(path: Path, error: sqlite3.Error) -> str:
    kind = str(getattr(error, "sqlite_errorname", ""))
    text = " ".join(str(error).split())
    if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return (
            f"{path}: cannot be written ({text}): is the disk full? Nothing committed is lost; "
            "make room and run again."
        )
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path}: another process has held it for {BUSY_SECONDS:g} s; try again later."
    if kind.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"{path}: cannot be opened for writing ({text}); check its permissions."
    if kind == "SQLITE_NOTADB":
        return f"{path}: is not a store of losses ({text}); it was left as it is."
    return (
        f"{path}: the store is damaged ({text}); it was left as it is. Restore a copy, or save what "
        "is readable with `sqlite3 STORE .recover` and give the audit another store."
    )
