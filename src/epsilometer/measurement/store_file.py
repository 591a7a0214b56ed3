"""The SQLite file of a store: its tables, checksums, verification, transactions and errors.

The file is untrusted: when it is opened, its structure, tables and the checksum of every row are
verified before anything is written, so damage is always noticed.  `store.py` says what the rows mean.
"""

import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epsilometer.errors import InputError, StoreError

#: Far longer than any of our transactions; a process that holds a store longer has hung.
BUSY_SECONDS = 60.0

#: Application id of the file: the letters EPSI.
APPLICATION = 0x45505349

#: Version of the tables.
FORMAT = 2

TABLES = {
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
    # All losses of a model in one row, and one bit per point that it was trained on.
    "pool_losses": """CREATE TABLE pool_losses (
  base INTEGER NOT NULL, hypothesis INTEGER NOT NULL CHECK (hypothesis IN (0, 1)),
  replicate INTEGER NOT NULL, variant TEXT NOT NULL, losses BLOB NOT NULL, member BLOB NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY (base, hypothesis, replicate, variant)
) STRICT""",
}

#: Tables whose rows have a checksum, and the number of key columns of each.
KEYS = {"plan": 1, "bases": 1, "losses": 4, "failures": 3, "pool_losses": 4}

#: SQL order of losses.
IN_ORDER = "ORDER BY base, hypothesis, replicate, variant"


def checksum(row: Sequence[Any]) -> int:
    """CRC-32 of a row's values; repr distinguishes types and is exact for floats."""
    plain = tuple(zlib.crc32(cell) if isinstance(cell, bytes) else cell for cell in row)
    return zlib.crc32(repr(plain).encode("utf-8", "backslashreplace"))


def is_store(path: Any) -> bool:
    """Whether a file starts like an SQLite database."""
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def placeholders(values: Sequence[object]) -> str:
    """Question marks for values in an SQL statement."""
    return ", ".join("?" * len(values))


class StoreFile:
    """A verified database with the tables of a store.

    ``path`` is None for a database in memory.
    """

    path: Path

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path or Path(":memory:")
        with self.errors():
            self.db = sqlite3.connect(
                ":memory:" if path is None else _address(path, read_only),
                uri=path is not None,
                isolation_level=None,
                timeout=BUSY_SECONDS,
                check_same_thread=False,
            )
        try:
            with self.errors():
                self._open(read_only)
        except BaseException:
            self.db.close()
            raise

    def _open(self, read_only: bool) -> None:
        self.db.execute("PRAGMA trusted_schema = OFF")
        if not read_only:
            if self._is_empty():
                self._create()
            self.db.execute("PRAGMA synchronous = FULL")
        if self._pragma("application_id") != APPLICATION:
            raise StoreError(
                f"{self.path} is a database, but not a store of losses (or its -wal file is missing)."
            )
        version = self._pragma("user_version")
        if version != FORMAT:
            raise StoreError(
                f"{self.path} has format {version}; this version of Epsilometer reads {FORMAT}."
            )
        self._verify()

    def _verify(self) -> None:
        """Raise :class:`sqlite3.DatabaseError` unless everything is as it was written."""
        # In a transaction, so that the store does not change during the check.
        with self.transaction("BEGIN"):
            answer = self._pragma("integrity_check(1)")
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)
            tables = self.query("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            if dict(tables) != TABLES:
                raise sqlite3.DatabaseError("its tables are not those of a store")
            for table, keys in KEYS.items():
                last: Any = None
                order = IN_ORDER if table == "pool_losses" else ""
                for row in self.db.execute(f"SELECT * FROM {table} {order}"):
                    check_row(table, row)
                    if last is not None and not last < row[:keys]:
                        raise sqlite3.DatabaseError(f"the rows of {table} are out of order")
                    last = row[:keys]

    def _create(self) -> None:
        self._write_ahead()
        with self.transaction():
            if not self._is_empty():
                return  # another process created it first
            for statement in TABLES.values():
                self.db.execute(statement)
            self.db.execute(f"PRAGMA user_version = {FORMAT}")
            self.db.execute(f"PRAGMA application_id = {APPLICATION}")
        # So that the file is recognised as a store even without its log.
        self.db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _write_ahead(self) -> None:
        """Turn on the write-ahead log; unlike other statements this does not wait for locks."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self.db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                busy = str(getattr(error, "sqlite_errorname", "")).startswith("SQLITE_BUSY")
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _is_empty(self) -> bool:
        """Whether nothing was ever stored, including when its creation was interrupted."""
        return self._pragma("application_id") == 0 and not self.query("SELECT 1 FROM sqlite_master")

    def _pragma(self, name: str) -> Any:
        return self.db.execute(f"PRAGMA {name}").fetchone()[0]

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of SQLite into :class:`StoreError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(_message(self.path, error)) from None
        except UnicodeDecodeError:
            raise self.damaged("invalid text") from None

    def damaged(self, what: str) -> StoreError:
        """The error that says what is damaged."""
        return StoreError(_message(self.path, sqlite3.DatabaseError(what)))

    @contextmanager
    def or_damaged(self, what: str) -> Iterator[None]:
        """Values inside that are not of the type or form that was written are damage."""
        try:
            yield
        except (TypeError, ValueError):
            raise self.damaged(what) from None

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """All or nothing of what happens inside."""
        with self.errors():
            self.db.execute(begin)
            try:
                yield
                self.db.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of an answer."""
        with self.errors():
            return self.db.execute(statement, values).fetchall()

    def write(self, table: str, entries: Sequence[Sequence[Any]], or_else: str = "REPLACE") -> None:
        """Write rows with their checksums; ``or_else`` is the policy for existing keys."""
        rows = [(*entry, checksum(entry)) for entry in entries]
        if rows:
            statement = f"INSERT OR {or_else} INTO {table} VALUES ({placeholders(rows[0])})"
            self.db.executemany(statement, rows)

    def close(self) -> None:
        with self.errors():
            self.db.close()


def check_row(table: str, row: Sequence[Any]) -> None:
    """Raise :class:`sqlite3.DatabaseError` unless a row is as it was written."""
    if row[-1] != checksum(tuple(row[:-1])):
        place = row[: KEYS[table]]
        if KEYS[table] > 2:
            place = "base {}, hypothesis {}, replicate {}".format(*place)
        raise sqlite3.DatabaseError(f"{table}, {place}: wrong checksum")


def _address(path: Path, read_only: bool) -> str:
    """The database of a path, as SQLite's URI."""
    if read_only and not path.is_file():
        raise InputError(f"{path}: expected a store of losses, but there is no such file.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: expected an existing folder, but there is no such folder.")
    mode = "mode=ro" if read_only else "mode=rwc"
    if read_only and not path.with_name(path.name + "-wal").exists():
        mode += "&immutable=1"  # there are no writers: create no extra files
    return f"{path.absolute().as_uri()}?{mode}"


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
