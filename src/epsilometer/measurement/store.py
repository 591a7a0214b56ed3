"""Stores of losses, in a file that survives interruption at any moment, or in memory.

A store belongs to one plan identity.  Each loss is stored once: the first one committed is kept.
It uses a write-ahead log with full synchronisation: a committed loss survives a crash or power cut,
and a partly written one is discarded.  Several processes may use a store at once.  `store_file.py` has
the tables and verifies files.

After a crash the newest losses are in the accompanying file whose name ends in -wal: copy both.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from epsilometer._arrays import BoolArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement import failed_models
from epsilometer.measurement.bases import LossRow, PoolRow, Row
from epsilometer.measurement.failed_models import WITHIN
from epsilometer.measurement.failures import Failure
from epsilometer.measurement.plan import Plan, Sizes, Task, canonical, differences
from epsilometer.measurement.store_file import IN_ORDER, StoreFile, check_row, placeholders
from epsilometer.measurement.tasks import Chunk
from epsilometer.model.planned_order import PlannedOrder, grown

#: Key of a token that is written when a store without losses adopts a plan, so that a process which
#: still trains for the previous plan notices.
PLAN_TOKEN = "begun"

LOSS_TABLES = ("losses", "pool_losses")


class Status(NamedTuple):
    """The contents of a store."""

    identity: dict[str, Any]
    sizes: Sizes
    names: list[str]
    #: For each variant: the number of models under H0 and H1 of each base, within the sizes.
    done: dict[str, list[tuple[int, int]]]
    failures: list[Failure]
    runs: list[dict[str, Any]]


class SqliteStore:
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

    #: Whether its file outlives the run.
    kept: bool = True

    def __init__(self, path: str | PathLike[str], *, read_only: bool = False) -> None:
        self._use(StoreFile(Path(path), read_only=read_only), Path(path).name)

    def _use(self, file: StoreFile, name: str) -> None:
        self._file, self.path, self.name = file, file.path, name
        self._plan_token: list[Any] = []

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self, plan: Plan, *, accept_changed_code: bool = False) -> None:
        """Adopt the plan, or raise :class:`StoreError` naming the differences from the stored plan.

        A store without losses accepts any plan and discards failures of another: nothing is lost.
        """
        with self._file.transaction():
            other = differences(self._value("identity"), plan.identity) or self._other_bases(plan)
            if other and self._has_no_losses():
                for table in ("plan", "bases", "failures"):
                    self._file.db.execute(f"DELETE FROM {table}")
                self._file.write("plan", [(PLAN_TOKEN, canonical(uuid.uuid4().hex))])
            self._plan_token = [self._value(PLAN_TOKEN)]
            self._check(plan, accept_changed_code)
            prints = (base.fingerprint for base in plan.bases)
            named = enumerate(zip(plan.names, prints, strict=True))
            self._file.write("bases", [(number, *entry) for number, entry in named])
            kept: dict[str, Any] = {
                "identity": plan.identity,
                "sizes": plan.sizes.described(),
                "hash": plan.content_hash,
            }
            kept |= {"pool": plan.pool, "judging": plan.design.judging} if plan.pool else {}
            kept |= self._planned(plan.sizes)
            self._file.write("plan", [(key, canonical(value)) for key, value in kept.items()])

    def _planned(self, sizes: Sizes) -> dict[str, Any]:
        """Every plan so far; nothing for an older store, which does not know in which order it grew."""
        before = self._value("planned")
        known = before is not None or self._has_no_losses()
        return {"planned": grown(before, sizes.pairs)} if known else {}

    def planned_order(self) -> PlannedOrder | None:
        """The order of pairs that was planned, with all bases; None if it is not known."""
        plans = self._value("planned")
        with self._file.or_damaged("the sizes of its plans are unreadable"):
            return None if plans is None else PlannedOrder.of(plans, range(len(self.names())))

    def check(self, plan: Plan, *, accept_changed_code: bool = False) -> None:
        """Refuse a plan as `prepare` does, without writing anything."""
        if not self._has_no_losses():
            self._check(plan, accept_changed_code)

    def _check(self, plan: Plan, accept_changed_code: bool) -> None:
        """Refuse a plan that differs from the stored one in its identity or bases."""
        there, others = self._value("identity"), self._other_bases(plan)
        if there is not None and (reason := plan.refused(there, accept_changed_code)):
            raise StoreError(f"{self.name} holds another plan: {reason}")
        if others:
            raise StoreError(
                f"{self.name} holds another plan: its challenge base {others[0]} has different "
                "records. Use another store, or the bases it was created with."
            )

    def _other_bases(self, plan: Plan) -> list[int]:
        """Numbers of stored bases that differ from the plan's."""
        bases = self._file.query("SELECT base, fingerprint FROM bases ORDER BY base")
        held = zip(bases, plan.bases, strict=False)
        return [number for (number, old), base in held if old != base.fingerprint]

    def _value(self, key: str) -> Any:
        """A stored setting; None if there is none."""
        rows = self._file.query("SELECT value FROM plan WHERE key = ?", key)
        with self._file.or_damaged(f"the plan's {key} is not readable"):
            return json.loads(rows[0][0]) if rows else None

    def _mapping(self, key: str) -> dict[str, Any]:
        """A stored setting of several values; empty if there is none."""
        found = self._value(key)
        return found if isinstance(found, dict) else {}

    def names(self) -> list[str]:
        """Names of the challenge bases, in order."""
        return [name for (name,) in self._file.query("SELECT name FROM bases ORDER BY base")]

    def sizes(self) -> Sizes:
        """The sizes requested by the last run."""
        kept = self._value("sizes")
        if kept is None:
            raise StoreError(f"{self.path} holds no plan yet.")
        with self._file.or_damaged("sizes unreadable"):
            bases, models_h0, models_h1, variants, *rest = kept
            numbers = (int(bases), int(models_h0), int(models_h1))
            return Sizes(*numbers, tuple(map(str, variants)), *map(int, rest))

    def pool(self) -> dict[str, Any]:
        """Description of the points of the plan's pool; empty if it has none."""
        if self._value("pool") is None:
            return {}
        settings = self._mapping("pool")
        names, references = settings.get("names"), settings.get("references")
        if not isinstance(names, list) or type(references) is not int:
            raise self._file.damaged("the points of its pool are unreadable")
        fair = settings.get("fair_coins") is True
        return {"names": names, "references": references, "fair_coins": fair}

    @property
    def judging(self) -> dict[str, Any]:
        """How losses were last evaluated, as plain values; empty if there was no choice."""
        return self._mapping("judging")

    def add(self, rows: Iterable[Row]) -> int:
        """Store losses, all or none; existing losses are kept.  Returns the number of new rows.

        Failures of machines are forgotten once their model has a loss; those of code are kept.
        """
        given = list(rows)
        # SQLite does not store negative zero.
        losses = [row._replace(loss=row.loss + 0.0) for row in given if isinstance(row, LossRow)]
        pools = [row.packed() for row in given if isinstance(row, PoolRow)]
        with self._file.transaction():
            if self._plan_token and self._plan_token != [self._value(PLAN_TOKEN)]:
                raise StoreError(
                    f"{self.path}: another process has started another plan in it meanwhile; nothing "
                    "was added. Use another store."
                )
            before = self._file.db.total_changes
            self._file.write("losses", losses, or_else="IGNORE")
            self._file.write("pool_losses", pools, or_else="IGNORE")
            new = self._file.db.total_changes - before
            if self._file.query("SELECT 1 FROM failures LIMIT 1"):
                failed_models.forget_machines(self._file, [row[:3] for row in given])
        return new

    def _has_no_losses(self) -> bool:
        """Whether no model has losses."""
        return not any(self._file.query(f"SELECT 1 FROM {table} LIMIT 1") for table in LOSS_TABLES)

    def done(self, chunk: Chunk, variants: Sequence[str]) -> set[int]:
        """Replicates of a chunk that have a loss for every variant."""
        base, hypothesis, wanted = chunk
        ends = min(wanted, default=0), max(wanted, default=-1)
        found: set[int] = set()
        for table in LOSS_TABLES:
            rows = self._file.query(
                f"SELECT replicate FROM {table} WHERE base = ? AND hypothesis = ? "
                f"AND replicate BETWEEN ? AND ? AND variant IN ({placeholders(variants)}) "
                "GROUP BY replicate HAVING count(*) = ?",
                *(base, hypothesis, *ends, *variants, len(variants)),
            )
            found |= {replicate for (replicate,) in rows}
        return found.intersection(wanted)

    def _select(self, table: str, sizes: Sizes) -> Iterator[tuple[Any, ...]]:
        """Rows of losses within the sizes, sorted, without their checksums."""
        with self._file.errors():
            for row in self._file.db.execute(
                f"SELECT * FROM {table} WHERE {WITHIN} "
                f"AND variant IN ({placeholders(sizes.variants)}) {IN_ORDER}",
                (*sizes[:3], *sizes.variants),
            ):
                check_row(table, row)
                yield row[:-1]

    def rows(self, sizes: Sizes) -> list[LossRow]:
        """Losses within the sizes, sorted."""
        return [LossRow(*row) for row in self._select("losses", sizes)]

    def pool_rows(self, sizes: Sizes) -> Iterator[PoolRow]:
        """Losses of the models of a pool within the sizes, sorted, one model at a time."""
        for *place, losses, member in self._select("pool_losses", sizes):
            with self._file.or_damaged(f"losses of {Task(*place[:3])}: wrong number of points"):
                row = PoolRow.unpacked(place, losses, member, sizes.points)
            yield row

    def measured(self, sizes: Sizes, variant: str) -> Losses | PoolLosses:
        """The losses of one variant within the sizes, in the form that its design uses."""
        return (self.pool_losses if sizes.points else self.losses)(sizes, variant)

    def losses(self, sizes: Sizes, variant: str) -> Losses:
        """Losses of one variant within the sizes; NaN for models that failed."""
        names = self.names()
        found = {row[:3]: row.loss for row in self.rows(sizes._replace(variants=(variant,)))}
        if not found:
            raise InputError(f"{self.name}: expected at least one loss, got none.")
        for task, coins in failed_models.within(self._file, sizes):
            members = [] if coins is None else coins.tolist()
            canaries = [(task.base, int(coin), n) for n, coin in enumerate(members)]
            found |= dict.fromkeys(canaries if sizes.canaries else [task], np.nan)
        base, hypothesis, replicate = zip(*sorted(found), strict=True)
        order = None if sizes.canaries else self.planned_order()
        losses = Losses(
            challenge_base=[names[number] for number in base],
            hypothesis=hypothesis,
            replicate=replicate,
            loss=[found[place] for place in sorted(found)],
            one_run=sizes.canaries > 0,
        )
        return losses.in_planned_order(order and order.take(sorted({*base})))

    def pool_losses(self, sizes: Sizes, variant: str) -> PoolLosses:
        """Losses of one variant of the models of a pool by model number; NaN for models that failed."""
        rows = list(self.pool_rows(sizes._replace(variants=(variant,))))
        if not rows:
            raise InputError(f"{self.name}: expected at least one model, got none.")
        if len({row.losses.shape for row in rows}) > 1:
            wrong = "expected the same queries for every model, got losses of different shapes"
            raise InputError(f"{self.name}: {wrong}; was queries(point) changed?")
        models = {row.replicate: (row.losses, row.member) for row in rows}
        for task, coins in failed_models.within(self._file, sizes):
            if coins is not None:
                models[task.replicate] = np.full_like(rows[0].losses, np.nan), coins
        losses, members = zip(*(models[number] for number in sorted(models)), strict=True)
        stacked: dict[str, Any] = {"loss": np.stack(losses), "member": np.stack(members)}
        return PoolLosses(**stacked, numbers=sorted(models), **self.pool())

    def add_losses(self, losses: Losses, *, variant: str) -> int:
        """Import losses measured elsewhere under the same plan; returns the number of new losses.

        Refuses unknown bases, non-finite losses, and losses that differ from those in the store.
        """
        number = {name: base for base, name in enumerate(self.names())}
        unknown = [name for name in losses.names if name not in number]
        if unknown:
            wrong = f"expected challenge bases of the plan, got {unknown[0]!r}"
            raise InputError(f"{self.name}: {wrong}; run the audit with at least as many bases.")
        rows = [
            LossRow(number[base], hypothesis, replicate, variant, loss)
            for base, hypothesis, replicate, loss in losses.rows()
        ]
        largest = int(losses.replicate.max()) + 1
        sizes = Sizes(len(number), largest, largest, (variant,))
        here = {row[:4]: row.loss for row in self.rows(sizes)}
        for row in rows:
            if row.problem is not None:
                raise InputError(f"{Task(*row[:3])}: {row.problem}.")
            if here.get(row[:4], row.loss) != row.loss:
                raise InputError(
                    f"{Task(*row[:3])}: expected the loss in {self.name}, "
                    f"{here[row[:4]]!r}, got loss={row.loss!r}."
                )
        return self.add(rows)

    def add_failure(self, failure: Failure, coins: BoolArray | None = None) -> None:
        """Store a failure; ``coins`` say on which of several points it was to be trained."""
        failed_models.write(self._file, failure, coins)

    def failures(self, sizes: Sizes | None = None) -> list[Failure]:
        """Models without a loss; or all within the sizes that failed, even if trained when retried."""
        return list(failed_models.read(self._file, sizes))

    def in_use(self) -> bool:
        """Whether a run has begun and not ended, as while another process trains."""
        return bool(self._file.query("SELECT 1 FROM runs WHERE ended IS NULL LIMIT 1"))

    def begin_run(self, executor: str) -> int:
        """Record the start of a run and return its number."""
        versions = {name: metadata.version(name) for name in ("epsilometer", "numpy")}
        with self._file.transaction():
            cursor = self._file.db.execute(
                "INSERT INTO runs (started, executor, versions) VALUES (?, ?, ?)",
                (_now(), executor, canonical(versions)),
            )
        return int(cursor.lastrowid or 0)

    def end_run(self, run: int, trained: int) -> None:
        """Record that a run ended normally."""
        with self._file.transaction():
            self._file.db.execute(
                "UPDATE runs SET ended = ?, trained = ? WHERE run = ?", (_now(), trained, run)
            )

    def status(self) -> Status:
        """What the store holds and what is missing."""
        sizes = self.sizes()
        counted = {
            (variant, base, hypothesis): number
            for table in LOSS_TABLES
            for variant, base, hypothesis, number in self._file.query(
                f"SELECT variant, base, hypothesis, count(*) FROM {table} WHERE {WITHIN} "
                "GROUP BY variant, base, hypothesis",
                *sizes[:3],
            )
        }
        columns = ("started", "ended", "executor", "trained")
        runs = self._file.query(f"SELECT {', '.join(columns)} FROM runs ORDER BY run")
        return Status(
            identity=self._mapping("identity"),
            sizes=sizes,
            names=self.names()[: sizes.challenge_bases],
            done={
                variant: [
                    (counted.get((variant, base, 0), 0), counted.get((variant, base, 1), 0))
                    for base in range(sizes.challenge_bases)
                ]
                for variant in sizes.variants
            },
            failures=self.failures(),
            runs=[dict(zip(columns, run, strict=True)) for run in runs],
        )


class MemoryStore(SqliteStore):
    """Losses in memory, for the lifetime of the object."""

    kept = False

    def __init__(self) -> None:
        self._use(StoreFile(None), "the store in memory")

    def close(self) -> None:
        """Nothing to release; losses remain available."""

    def __del__(self) -> None:
        self._file.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
