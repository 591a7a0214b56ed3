"""Losses in one SQLite file that survives interruption at any moment.

It uses a write-ahead log with full synchronisation: a committed loss survives a crash or power cut, and
a partly written one is discarded.  Several processes may use a store at once.  The file is untrusted:
when it is opened, its structure, tables and the checksum of every row are verified before anything is
written, so damage is always noticed.

After a crash the newest losses are in the accompanying file whose name ends in -wal: copy both.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
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
from epsilometer.measurement.sqlite_tables import (
    APPLICATION,
    FORMAT,
    KEYS,
    POOL_TABLES,
    TABLES,
    checksum,
    unpacked,
)
from epsilometer.measurement.store import Failure, Store
from epsilometer.measurement.tasks import Chunk

BUSY_SECONDS = 60.0
"""Far longer than any of our transactions; a process that holds a store longer has hung."""

PLAN_TOKEN = "begun"
"""Key of a token that is written when a store without losses adopts a plan, so that a process which
still trains for the previous plan notices."""

_WITHIN = "base < ? AND replicate < CASE hypothesis WHEN 0 THEN ? ELSE ? END"
"""SQL condition for losses within sizes."""


class Status(NamedTuple):
    """The contents of a store."""

    identity: dict[str, Any]
    sizes: Sizes
    names: list[str]
    done: dict[str, list[tuple[int, int]]]
    """For each variant: the number of models under H0 and H1 of each base, within the sizes."""
    failures: list[Failure]
    runs: list[dict[str, Any]]


class SqliteStore(Store):
    """Losses of one plan in a file.

    Parameters
    ----------
    path
        File name; created if it does not exist.
    read_only
        Change nothing; the file must exist.

    Raises
    ------
    StoreError
        If the file is not a store, is damaged, or cannot be opened or written.
    """

    def __init__(self, path: str | PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self._plan_token: list[Any] = []
        if read_only and not self.path.is_file():
            raise InputError(f"{self.path}: expected a store of losses, but there is no such file.")
        if not self.path.absolute().parent.is_dir():
            raise InputError(
                f"{self.path}: expected an existing folder, but there is no such folder."
            )
        mode = "mode=ro" if read_only else "mode=rwc"
        if read_only and not self.path.with_name(self.path.name + "-wal").exists():
            mode += "&immutable=1"  # there are no writers: create no extra files
        with self._store_errors():
            self._db = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?{mode}",
                uri=True,
                isolation_level=None,
                timeout=BUSY_SECONDS,
                check_same_thread=False,
            )
        try:
            with self._store_errors():
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
        application = db.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION:
            raise StoreError(
                f"{self.path} is a database, but not a store of losses (or its -wal file is missing)."
            )
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (1, FORMAT):
            raise StoreError(
                f"{self.path} has format {version}; this version of Epsilometer reads 1 to {FORMAT}."
            )
        self._tables = TABLES if version == 1 else TABLES | POOL_TABLES
        self._verify()

    def _verify(self) -> None:
        """Raise :class:`sqlite3.DatabaseError` unless everything is as it was written."""
        # In a transaction, so that the store does not change during the check.
        with self._transaction("BEGIN"):
            answer = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)
            tables = self._db.execute(
                "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            ).fetchall()
            if dict(tables) != self._tables:
                raise sqlite3.DatabaseError("its tables are not those of a store")
            for table, keys in KEYS.items():
                if table not in self._tables:
                    continue
                last: Any = None
                order = "base, hypothesis, replicate, variant"
                ordered = f" ORDER BY {order}" if table in POOL_TABLES else ""
                for row in self._db.execute(f"SELECT * FROM {table}{ordered}"):
                    if row[-1] != checksum(row[:-1]):
                        what = Task(*row[:3]) if table == "losses" else row[:keys]
                        raise sqlite3.DatabaseError(f"{table}, {what}: wrong checksum")
                    if last is not None and not last < row[:keys]:
                        raise sqlite3.DatabaseError(f"the rows of {table} are out of order")
                    last = row[:keys]

    def _create(self) -> None:
        self._write_ahead()
        with self._transaction():
            if not self._is_empty():
                return  # another process created it first
            for statement in (TABLES | POOL_TABLES).values():
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._db.execute(f"PRAGMA application_id = {APPLICATION}")
        # So that the file is recognised as a store even without its log.
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _write_ahead(self) -> None:
        """Turn on the write-ahead log; unlike other statements this does not wait for locks."""
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
        """Whether nothing was ever stored, including when its creation was interrupted."""
        mark = self._db.execute("PRAGMA application_id").fetchone()[0]
        return mark == 0 and not self._db.execute("SELECT 1 FROM sqlite_master").fetchone()

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(_message(self.path, error)) from None
        except UnicodeDecodeError:
            damage = sqlite3.DatabaseError("invalid text")
            raise StoreError(_message(self.path, damage)) from None

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        with self._store_errors():
            self._db.execute(begin)
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._store_errors():
            return self._db.execute(statement, values).fetchall()

    def _write_rows(self, table: str, *entries: tuple[Any, ...], or_else: str = "REPLACE") -> None:
        """Write rows with their checksums; ``or_else`` is the policy for existing keys."""
        rows = [(*entry, checksum(entry)) for entry in entries]
        if rows:
            statement = f"INSERT OR {or_else} INTO {table} VALUES ({_placeholders(rows[0])})"
            self._db.executemany(statement, rows)

    # --- the plan -----------------------------------------------------------------------------

    def prepare(self, plan: Plan, *, accept_changed_code: bool = False) -> None:
        with self._transaction():
            there = self._stored_plan()
            if plan.pool and "pool_losses" not in self._tables:
                raise StoreError(
                    f"{self.path} has format 1, which cannot hold pools. Use another store."
                )
            if self._has_no_losses() and not self._same(plan, *there):
                for table in ("plan", "bases", "failures"):
                    self._db.execute(f"DELETE FROM {table}")
                self._write_rows("plan", (PLAN_TOKEN, canonical(uuid.uuid4().hex)))
                there = None, []
            self._plan_token = [self._value(PLAN_TOKEN)]
            if plan.pool and "pool_losses" not in self._tables:
                raise StoreError(
                    f"{self.path} was created by an older version and cannot hold pools; use another "
                    "store."
                )
            self._check(plan, *there, accept_changed_code=accept_changed_code)
            named = zip(plan.names, (base.fingerprint for base in plan.bases), strict=True)
            self._write_rows("bases", *((number, *entry) for number, entry in enumerate(named)))
            kept: dict[str, Any] = {
                "identity": plan.identity,
                "sizes": plan.sizes.described(),
                "hash": plan.content_hash,
            }
            kept |= {"pool": plan.pool, "judging": plan.design.judging} if plan.pool else {}
            self._write_rows("plan", *((key, canonical(value)) for key, value in kept.items()))

    def check(self, plan: Plan, *, accept_changed_code: bool = False) -> None:
        """Refuse a plan as `prepare` does, without writing anything."""
        if not self._has_no_losses():
            self._check(plan, *self._stored_plan(), accept_changed_code=accept_changed_code)

    def _stored_plan(self) -> tuple[Any, list[str]]:
        """The identity of the stored plan (None if there is none) and the fingerprints of its bases."""
        bases = self._query("SELECT fingerprint FROM bases ORDER BY base")
        return self._value("identity"), [fingerprint for (fingerprint,) in bases]

    def _value(self, key: str) -> Any:
        with self._store_errors():
            rows = self._query("SELECT value FROM plan WHERE key = ?", key)
            try:
                return json.loads(rows[0][0]) if rows else None
            except ValueError:
                raise sqlite3.DatabaseError(f"the plan's {key} is not readable") from None

    def names(self) -> list[str]:
        return [name for (name,) in self._query("SELECT name FROM bases ORDER BY base")]

    def sizes(self) -> Sizes:
        """The sizes requested by the last run."""
        kept = self._value("sizes")
        if kept is None:
            raise StoreError(f"{self.path} holds no plan yet.")
        with self._store_errors():
            try:
                bases, models_h0, models_h1, variants, *canaries = kept
                numbers = (int(bases), int(models_h0), int(models_h1))
                return Sizes(*numbers, tuple(map(str, variants)), *map(int, canaries))
            except (TypeError, ValueError):
                raise sqlite3.DatabaseError("sizes unreadable") from None

    # --- losses -------------------------------------------------------------------------------

    def add(self, rows: Iterable[LossRow]) -> int:
        # SQLite does not store negative zero.
        return self._add("losses", [row._replace(loss=row.loss + 0.0) for row in rows])

    def _add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Store new rows of losses, and remove the failures of their models."""
        with self._transaction():
            if self._plan_token and self._plan_token != [self._value(PLAN_TOKEN)]:
                raise StoreError(
                    f"{self.path}: another process has started another plan in it meanwhile; nothing "
                    "was added. Use another store."
                )
            before = self._db.total_changes
            self._write_rows(table, *rows, or_else="IGNORE")
            new = self._db.total_changes - before
            if self._query("SELECT 1 FROM failures LIMIT 1"):
                self._db.executemany(
                    "DELETE FROM failures WHERE base = ? AND hypothesis = ? AND replicate = ?",
                    [row[:3] for row in rows],
                )
        return new

    def _has_no_losses(self) -> bool:
        """Whether no model has losses."""
        return not any(self._query(f"SELECT 1 FROM {table} LIMIT 1") for table in self._loss_tables)

    def done(self, chunk: Chunk, variants: Sequence[str]) -> set[int]:
        base, hypothesis, wanted = chunk
        ends = min(wanted, default=0), max(wanted, default=-1)
        replicates: set[int] = set()
        for table in self._loss_tables:
            rows = self._query(
                f"SELECT replicate FROM {table} WHERE base = ? AND hypothesis = ? "
                f"AND replicate BETWEEN ? AND ? AND variant IN ({_placeholders(variants)}) "
                "GROUP BY replicate HAVING count(*) = ?",
                *(base, hypothesis, *ends, *variants, len(variants)),
            )
            replicates |= {replicate for (replicate,) in rows}
        return replicates.intersection(wanted)

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
        if "pool_losses" not in self._tables:
            return
        with self._store_errors():
            rows = self._db.execute(
                f"SELECT * FROM pool_losses WHERE {_WITHIN} "
                f"AND variant IN ({_placeholders(sizes.variants)}) "
                "ORDER BY base, hypothesis, replicate, variant",
                (*sizes[:3], *sizes.variants),
            )
            for row in rows:
                if row[-1] != checksum(row[:-1]):
                    raise sqlite3.DatabaseError(f"losses of {Task(*row[:3])}")
                base, hypothesis, replicate, variant = row[:4]
                try:
                    table, member = unpacked(row[4], row[5], sizes.points)
                except ValueError:
                    place = Task(base, hypothesis, replicate)
                    raise sqlite3.DatabaseError(
                        f"losses of {place}: wrong number of points"
                    ) from None
                yield PoolRow(base, hypothesis, replicate, variant, table, member)

    def pool(self) -> dict[str, Any]:
        settings = self._value("pool")
        if settings is None:
            return {}
        names = settings.get("names") if isinstance(settings, dict) else None
        references = settings.get("references") if isinstance(settings, dict) else None
        if not isinstance(names, list) or type(references) is not int:
            with self._store_errors():
                raise sqlite3.DatabaseError("the points of its pool are unreadable")
        return {
            "names": names,
            "references": references,
            "fair_coins": settings.get("fair_coins") is True,
        }

    @property
    def judging(self) -> dict[str, Any]:
        """How losses were last evaluated, as plain values; empty if there was no choice."""
        settings = self._value("judging")
        return settings if isinstance(settings, dict) else {}

    def rows(self, sizes: Sizes) -> list[LossRow]:
        rows = self._query(
            f"SELECT * FROM losses WHERE {_WITHIN} AND variant IN ({_placeholders(sizes.variants)}) "
            "ORDER BY base, hypothesis, replicate, variant",
            *(*sizes[:3], *sizes.variants),
        )
        with self._store_errors():
            for row in rows:
                if row[-1] != checksum(row[:-1]):
                    raise sqlite3.DatabaseError(f"loss of {Task(*row[:3])}")
        return [LossRow(*row[:-1]) for row in rows]

    # --- failures and runs --------------------------------------------------------------------

    def add_failure(self, failure: Failure) -> None:
        # The traceback is appended to the message in its column, so that the format does not change.
        text = failure.message + (f"\n{failure.traceback}" if failure.traceback else "")
        with self._transaction():
            self._write_rows("failures", (*failure.task, failure.attempts, text))

    def failures(self) -> list[Failure]:
        rows = self._query("SELECT * FROM failures ORDER BY base, hypothesis, replicate")
        failures = []
        for *place, attempts, text, _ in rows:
            message, _, lines = text.partition("\n")
            failures.append(Failure(Task(*place), attempts, message, lines))
        return failures

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
        """What the store holds and what is missing."""
        sizes = self.sizes()
        counted = [
            row
            for table in self._loss_tables
            for row in self._query(
                f"SELECT variant, base, hypothesis, count(*) FROM {table} WHERE {_WITHIN} "
                "GROUP BY variant, base, hypothesis",
                *sizes[:3],
            )
        ]
        columns = ("started", "ended", "executor", "trained")
        runs = self._query(f"SELECT {', '.join(columns)} FROM runs ORDER BY run")
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
        with self._store_errors():
            self._db.close()


def is_store(path: str | PathLike[str]) -> bool:
    """Whether a file starts like an SQLite database."""
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _message(path: Path, error: sqlite3.Error) -> str:
    kind = str(getattr(error, "sqlite_errorname", ""))
    text = " ".join(str(error).split())
    if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return (
            f"{path}: cannot be written ({text}): is the disk full? No committed loss is affected; "
            "free some space and run again."
        )
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path}: another process has held it for {BUSY_SECONDS:g} s; try again later."
    if kind.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"{path}: cannot be opened for writing ({text}); check its permissions."
    if kind == "SQLITE_NOTADB":
        return f"{path}: is not a store of losses ({text}); it was not changed."
    return (
        f"{path}: the store is damaged ({text}); it was not changed. Restore a copy, or save the "
        "readable part with `sqlite3 STORE .recover` and use another store for the audit."
    )
