"""Where losses are kept."""

from epsilometer.measurement.store import MemoryStore as MemoryStore
from epsilometer.measurement.store import SqliteStore as SqliteStore

__all__: list[str]
