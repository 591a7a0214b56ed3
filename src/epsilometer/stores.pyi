"""Where losses are kept."""

from epsilometer.measurement.sqlite_store import SqliteStore as SqliteStore
from epsilometer.measurement.store import MemoryStore as MemoryStore

__all__: list[str]
