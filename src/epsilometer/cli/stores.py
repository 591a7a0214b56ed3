"""The option ``--store``: a file for the losses, or none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import epsilometer as em
from epsilometer.errors import InputError

NONE = "none"
"""The word for losses that are kept for one run only."""


@contextmanager
def chosen(given: str | None) -> Iterator[Path | None]:
    """The store to use instead of the configuration's; None to use that one.

    For `none` it is in a temporary folder, which also holds the store of a pilot and is deleted at
    the end.
    """
    if given == NONE:
        with tempfile.TemporaryDirectory(
            prefix="epsilometer-", ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder) / "audit.db"
        return
    if given == "":
        raise InputError(f"expected --store PATH or --store {NONE}, got an empty name.")
    yield None if given is None else Path(given).absolute()


def kept(given: str | None, store: Path) -> Path | None:
    """The store, if it outlives the run."""
    return None if given == NONE else store


@contextmanager
def opened(given: str | None, store: Path) -> Iterator[Path | em.stores.SqliteStore]:
    """The store for training: a file name, or an open store whose file will be deleted."""
    if given != NONE:
        yield store
        return
    with em.stores.SqliteStore(store) as temporary:
        temporary.kept = False
        yield temporary
