"""Stores of losses.  `MemoryStore` is the specification; every other store must behave like it.

A store belongs to one plan identity.  Each loss is stored once: the first one committed is kept.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement.algorithm import SOURCE
from epsilometer.measurement.plan import Plan, Sizes, Task
from epsilometer.measurement.rows import LossRow, PoolRow
from epsilometer.measurement.tasks import Chunk


class Failure(NamedTuple):
    """A model that could not be trained: number of attempts and last error message, in one line."""

    task: Task
    attempts: int
    message: str
    traceback: str = ""
    """Traceback in the user's code."""

    def described(self) -> dict[str, int | str]:
        """As plain values for JSON."""
        return {**self.task._asdict(), "attempts": self.attempts, "message": self.message}


class Store(abc.ABC):
    """Losses of one plan."""

    name: str
    kept: bool = True
    """Whether its file, if any, outlives the run."""

    @abc.abstractmethod
    def prepare(self, plan: Plan, *, accept_changed_code: bool = False) -> None:
        """Adopt the plan, or raise :class:`StoreError` naming the differences from the stored plan.

        A store without losses accepts any plan and discards failures of another: nothing is lost.
        """

    @abc.abstractmethod
    def add(self, rows: Iterable[LossRow]) -> int:
        """Store losses, all or none; existing losses are kept.  Returns the number of new losses.

        Failures of models that now have a loss are removed.
        """

    @abc.abstractmethod
    def done(self, chunk: Chunk, variants: Sequence[str]) -> set[int]:
        """Replicates of a chunk that have a loss for every variant."""

    @abc.abstractmethod
    def rows(self, sizes: Sizes) -> list[LossRow]:
        """Losses within the sizes, sorted."""

    @abc.abstractmethod
    def add_pool(self, rows: Iterable[PoolRow]) -> int:
        """Store the losses of pool models, as `add` does for single losses."""

    @abc.abstractmethod
    def pool_rows(self, sizes: Sizes) -> Iterator[PoolRow]:
        """Losses of the models of a pool within the sizes, sorted, one model at a time."""

    @abc.abstractmethod
    def pool(self) -> dict[str, Any]:
        """Description of the points of the plan's pool; empty if it has none."""

    @abc.abstractmethod
    def add_failure(self, failure: Failure) -> None:
        """Store a failure; it replaces an earlier one of the same model."""

    @abc.abstractmethod
    def failures(self) -> list[Failure]:
        """Failures, sorted by model."""

    @abc.abstractmethod
    def names(self) -> list[str]:
        """Names of the challenge bases, in order."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_run(self, executor: str) -> int:
        """Record the start of a run and return its number.  Not every store records runs."""
        del executor
        return 0

    def end_run(self, run: int, trained: int) -> None:
        """Record that a run ended normally."""
        del run, trained

    def _check(
        self, plan: Plan, identity: object, bases: Sequence[str], *, accept_changed_code: bool
    ) -> None:
        """Refuse a plan that differs from the stored identity (None if there is none) or bases."""
        if identity is not None:
            _check_identity(self.name, plan.compared_with(identity), accept_changed_code)
        for number, (old, base) in enumerate(zip(bases, plan.bases, strict=False)):
            if old != base.fingerprint:
                raise StoreError(
                    f"{self.name} holds another plan: its challenge base {number} has different "
                    "records. Use another store, or the bases it was created with."
                )

    def measured(self, sizes: Sizes, variant: str) -> Losses | PoolLosses:
        """The losses of one variant within the sizes, in the form that its design uses."""
        return (self.pool_losses if sizes.points else self.losses)(sizes, variant)

    def pool_losses(self, sizes: Sizes, variant: str) -> PoolLosses:
        """Losses of one variant of the models of a pool, ordered by model number."""
        rows = list(self.pool_rows(sizes._replace(variants=(variant,))))
        if not rows:
            raise InputError(f"{self.name}: expected at least one model, got none.")
        shape = rows[0].losses.shape
        if any(row.losses.shape != shape for row in rows):
            raise InputError(
                f"{self.name}: expected the same queries for every model, got losses of different "
                "shapes; was queries(point) changed?"
            )
        return PoolLosses(
            loss=np.stack([row.losses for row in rows]),
            member=np.stack([row.member for row in rows]),
            numbers=[row.replicate for row in rows],
            **self.pool(),
        )

    @staticmethod
    def _same(plan: Plan, identity: object, bases: Sequence[str]) -> bool:
        """Whether a plan is the stored one, including its code."""
        held = zip(bases, plan.bases, strict=False)
        same = all(old == base.fingerprint for old, base in held)
        return same and identity is not None and not plan.compared_with(identity)

    def losses(self, sizes: Sizes, variant: str) -> Losses:
        """Losses of one variant within the sizes."""
        names = self.names()
        rows = self.rows(sizes._replace(variants=(variant,)))
        if not rows:
            raise InputError(f"{self.name}: expected at least one loss, got none.")
        return Losses(
            challenge_base=[names[row.base] for row in rows],
            hypothesis=[row.hypothesis for row in rows],
            replicate=[row.replicate for row in rows],
            loss=[row.loss for row in rows],
            one_run=sizes.canaries > 0,
        )

    def add_losses(self, losses: Losses, *, variant: str) -> int:
        """Import losses measured elsewhere under the same plan; returns the number of new losses.

        Refuses unknown bases, non-finite losses, and losses that differ from those in the store.
        """
        number = {name: base for base, name in enumerate(self.names())}
        unknown = [name for name in losses.names if name not in number]
        if unknown:
            raise InputError(
                f"{self.name}: expected challenge bases of the plan, got {unknown[0]!r}; "
                "run the audit once with at least as many bases."
            )
        rows = [
            LossRow(number[base], hypothesis, replicate, variant, loss)
            for base, hypothesis, replicate, loss in losses.rows()
        ]
        largest = int(losses.replicate.max()) + 1
        here = {
            row[:4]: row.loss for row in self.rows(Sizes(len(number), largest, largest, (variant,)))
        }
        for row in rows:
            if not abs(row.loss) < float("inf"):
                raise InputError(f"{Task(*row[:3])}: expected a finite loss, got loss={row.loss}.")
            if here.get(row[:4], row.loss) != row.loss:
                raise InputError(
                    f"{Task(*row[:3])}: expected the loss in {self.name}, "
                    f"{here[row[:4]]!r}, got loss={row.loss!r}."
                )
        return self.add(rows)


def _check_identity(name: str, differences: list[str], accept_changed_code: bool) -> None:
    """Raise :class:`StoreError` with the differences between the stored identity and a plan's."""
    code = [line for line in differences if f".{SOURCE}" in line.split(" is ")[0]]
    if accept_changed_code:
        differences = [line for line in differences if line not in code]
    if not differences:
        return
    if differences == code:
        changed = (line.split(" is ")[0].split(SOURCE)[-1].lstrip(".") for line in code)
        files = ", ".join(dict.fromkeys(changed))
        raise StoreError(
            f"{name} holds another plan: code has changed since it was created ({files}). Use another "
            "store, or delete this one to start over; if the change does not affect training, continue "
            "with `accept_changed_code=True`."
        )
    rest = f"; and {len(differences) - 5} more" if len(differences) > 5 else ""
    shown = "; ".join(differences[:5]) + rest
    raise StoreError(
        f"{name} holds another plan: {shown}. Use another store, or the settings it was created with."
    )


def _within(key: tuple[int, int, int, str], sizes: Sizes) -> bool:
    base, hypothesis, replicate, variant = key
    most = sizes.models_h1 if hypothesis else sizes.models_h0
    return base < sizes.challenge_bases and replicate < most and variant in sizes.variants


class MemoryStore(Store):
    """Losses in memory, for the lifetime of the object."""

    def __init__(self) -> None:
        self.name = "the store in memory"
        self._identity: object = None
        self._bases: list[str] = []
        self._names: list[str] = []
        self._losses: dict[tuple[int, int, int, str], float] = {}
        self._pool_rows: dict[tuple[int, int, int, str], PoolRow] = {}
        self._pool: dict[str, Any] = {}
        self._failures: dict[Task, Failure] = {}

    def prepare(self, plan: Plan, *, accept_changed_code: bool = False) -> None:
        no_losses = not self._losses and not self._pool_rows
        if no_losses and not self._same(plan, self._identity, self._bases):
            self._identity, self._bases, self._names, self._failures = None, [], [], {}
        self._check(plan, self._identity, self._bases, accept_changed_code=accept_changed_code)
        self._identity, number = plan.identity, len(plan.bases)
        self._bases[:number] = [base.fingerprint for base in plan.bases]
        self._names[:number] = plan.names
        self._pool = plan.pool

    def add(self, rows: Iterable[LossRow]) -> int:
        before = len(self._losses)
        for row in list(rows):
            self._losses.setdefault(row[:4], row.loss + 0.0)
            self._failures.pop(Task(*row[:3]), None)
        return len(self._losses) - before

    def done(self, chunk: Chunk, variants: Sequence[str]) -> set[int]:
        return {
            task.replicate
            for task in chunk.tasks()
            if all(
                (*task, variant) in self._losses or (*task, variant) in self._pool_rows
                for variant in variants
            )
        }

    def rows(self, sizes: Sizes) -> list[LossRow]:
        return sorted(
            LossRow(*key, loss) for key, loss in self._losses.items() if _within(key, sizes)
        )

    def add_pool(self, rows: Iterable[PoolRow]) -> int:
        before = len(self._pool_rows)
        for row in list(rows):
            self._pool_rows.setdefault(row[:4], row)
            self._failures.pop(Task(*row[:3]), None)
        return len(self._pool_rows) - before

    def pool_rows(self, sizes: Sizes) -> Iterator[PoolRow]:
        for key in sorted(self._pool_rows):
            if _within(key, sizes):
                yield self._pool_rows[key]

    def pool(self) -> dict[str, Any]:
        return dict(self._pool)

    def add_failure(self, failure: Failure) -> None:
        self._failures[failure.task] = failure

    def failures(self) -> list[Failure]:
        return [self._failures[task] for task in sorted(self._failures)]

    def names(self) -> list[str]:
        return list(self._names)

    def close(self) -> None:
        """Nothing to release; losses remain available."""
