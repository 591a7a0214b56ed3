"""Models that failed, in the file of a store: why, and which points they were to be trained on.

If failing depends on the data, leaving failed models out is a selection, and so is retrying them until
they succeed.  In proofs a model has failed if its code failed once.
"""

import json
from collections.abc import Iterator

import numpy as np

from epsilometer._arrays import BoolArray
from epsilometer.measurement.bases import unpacked_coins
from epsilometer.measurement.failures import RESULT_LOST, WORKER_DIED, Failure
from epsilometer.measurement.plan import Sizes, Task, canonical
from epsilometer.measurement.store_file import StoreFile

_SAME_MODEL = "(base, hypothesis, replicate) = (f.base, f.hypothesis, f.replicate)"

#: SQL condition for models without a loss.
NEVER_TRAINED = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} WHERE {_SAME_MODEL})" for table in ("losses", "pool_losses")
)

#: SQL condition for models within sizes.
WITHIN = "base < ? AND replicate < CASE hypothesis WHEN 0 THEN ? ELSE ? END"


def write(file: StoreFile, failure: Failure, coins: BoolArray | None) -> None:
    """Store a failure; it replaces an earlier one of the same model."""
    # The traceback is appended to the message in its column.
    text = failure.message + (f"\n{failure.traceback}" if failure.traceback else "")
    with file.transaction():
        file.write("failures", [(*failure.task, failure.attempts, text)])
        if coins is not None:
            bits = np.packbits(coins).tobytes().hex()
            file.write("plan", [(coins_key(failure.task), canonical(bits))])


def coins_key(task: Task) -> str:
    """The key of a model's coins among the settings of a store."""
    return f"coins {task.base} {task.replicate}"


def read(file: StoreFile, sizes: Sizes | None) -> Iterator[Failure]:
    """Models without a loss, sorted; or all that failed within the sizes."""
    condition = NEVER_TRAINED if sizes is None else WITHIN
    for *place, attempts, text, _ in file.query(
        f"SELECT * FROM failures f WHERE {condition} ORDER BY base, hypothesis, replicate",
        *(() if sizes is None else sizes[:3]),
    ):
        message, _, lines = text.partition("\n")
        yield Failure(Task(*place), attempts, message, lines)


def forget_machines(file: StoreFile, tasks: list[tuple[int, ...]]) -> None:
    """Remove failures of the machines that trained these models: their code did not fail."""
    file.db.executemany(
        "DELETE FROM failures WHERE base = ? AND hypothesis = ? AND replicate = ? "
        "AND message IN (?, ?)",
        [(*task, WORKER_DIED, RESULT_LOST) for task in tasks],
    )


def within(file: StoreFile, sizes: Sizes) -> Iterator[tuple[Task, BoolArray | None]]:
    """All models that failed within the sizes, each with its coins if these are known."""
    for failure in read(file, sizes):
        stored = file.query("SELECT value FROM plan WHERE key = ?", coins_key(failure.task))
        with file.or_damaged(f"coins of {failure.task} unreadable"):
            bits = [bytes.fromhex(json.loads(value)) for (value,) in stored]
            coins = unpacked_coins(bits[0], sizes.points or sizes.canaries) if bits else None
        yield failure.task, coins
