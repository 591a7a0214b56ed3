"""The tables of an SQLite store, and how rows are packed and checked; used by `sqlite_store.py`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray

APPLICATION = 0x45505349
"""Application id of the file: the letters EPSI."""

FORMAT = 2
"""Table format of new stores; stores of format 1 hold no pools, and are read and written unchanged."""

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
}

POOL_TABLES = {
    "pool_losses": """CREATE TABLE pool_losses (
  base INTEGER NOT NULL, hypothesis INTEGER NOT NULL CHECK (hypothesis IN (0, 1)),
  replicate INTEGER NOT NULL, variant TEXT NOT NULL, losses BLOB NOT NULL, member BLOB NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY (base, hypothesis, replicate, variant)
) STRICT""",
}
"""Added by format 2: all losses of a model in one row, and one bit per point that it was trained on."""

KEYS = {"plan": 1, "bases": 1, "losses": 4, "failures": 3, "pool_losses": 4}
"""Tables whose rows have a checksum, and the number of key columns of each."""


def checksum(row: Sequence[Any]) -> int:
    """CRC-32 of a row's values; repr distinguishes types and is exact for floats."""
    plain = tuple(zlib.crc32(cell) if isinstance(cell, bytes) else cell for cell in row)
    return zlib.crc32(repr(plain).encode("utf-8", "backslashreplace"))


def unpacked(losses: bytes, member: bytes, points: int) -> tuple[FloatArray, BoolArray]:
    """Losses (points, queries) and membership; ValueError unless there are ``points`` points."""
    table = np.frombuffer(losses, dtype="<f8").reshape(points, -1)
    if not table.size or len(member) != -(-points // 8):
        raise ValueError
    bits = np.unpackbits(np.frombuffer(member, dtype=np.uint8), count=points)
    return table, bits.astype(np.bool_)
