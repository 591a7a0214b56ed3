"""Running a study: in parallel, resumable, and reproducible for any number of workers.

A job is a chunk of a cell's runs.  Its random numbers depend on the plan's seed, the cell and the chunk,
not on the worker.  Finished jobs are lines of a JSON-lines file; an interrupted study continues with the
missing ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from operator import add
from pathlib import Path
from typing import Any, ClassVar, TextIO

import numpy as np

import epsilometer
from epsilometer import _files
from epsilometer._workers import process_pool
from epsilometer.errors import InputError
from studies.tables import Row, Tables

#: Folders of the package whose code a study's numbers depend on, besides the studies' own.
SOURCES = ("baselines", "checks", "engines", "judgement", "model", "posteriors", "proofs")

#: By method: numbers that are summed over runs, and lists that are joined.
Tallies = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting of a study, audited ``runs`` times; subclasses add what is audited."""

    runs: int

    #: Its name in plans, which seeds its random numbers; that of the class unless given.
    kind: ClassVar[str] = ""
    #: Runs of one job.
    chunk: ClassVar[int] = 10
    #: The file of its rows, if they are in one.
    table: ClassVar[str]

    def parts(self) -> dict[str, tuple[int, int]]:
        """By part: the number of runs, and of runs in a job."""
        return {"runs": (self.runs, self.chunk)}

    def judge(self, part: str, significance: float, runs: int, rng: np.random.Generator) -> Tallies:
        """Tallies of some runs; each end of an interval or bound has error ``significance``."""
        return tallied(self.judge_one(significance, rng) for _ in range(runs))

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        """Tallies of one run, by method."""
        raise NotImplementedError

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        """Rows of the tables, each with the name of its table: one for each method."""
        for method, tally in tallies.items():
            yield self.table, self.place() | {"method": method} | columns_of(tally)

    def place(self) -> dict[str, Any]:
        """The columns of a row that describe the setting."""
        raise NotImplementedError

    def described(self) -> dict[str, Any]:
        """The cell as plain data."""
        description: dict[str, Any] = {"kind": self.kind or type(self).__name__}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "mechanism":
                description |= {"mechanism": value.name, "options": asdict(value)}
            elif field.name == "rate":
                description["false_positive_rate"] = "any" if value is None else value
            else:
                description[field.name] = value
        return description

    def setting(self) -> str:
        """Parameters of the mechanism as short text."""
        options = self.described()["options"].items()
        return " ".join(
            f"{name}={value if isinstance(value, str) else f'{value:g}'}"
            for name, value in options
            if value is not None
        )

    def rng(self, seed: int, part: str, first: int) -> np.random.Generator:
        """The random numbers of a job."""
        named = [self.described() | {"runs": 0, "posterior_runs": 0}, part]
        digest = sha256(json.dumps(named, sort_keys=True).encode()).digest()
        entropy = [seed, int.from_bytes(digest[:8], "big"), first]
        return np.random.default_rng(np.random.SeedSequence(entropy))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Cells, with the error probability of bounds and the seed."""

    cells: tuple[Cell, ...]
    significance: float = 0.05
    seed: int = 1

    def described(self) -> dict[str, Any]:
        """The plan as plain data, which identifies it."""
        cells = [cell.described() for cell in self.cells]
        return {"significance": self.significance, "seed": self.seed, "cells": cells}

    def digest(self) -> str:
        """A short hash of the plan."""
        text = json.dumps(self.described(), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Job:
    """Runs ``first`` to ``first + size`` of a part of a cell."""

    cell: int
    part: str
    first: int
    size: int

    @property
    def key(self) -> str:
        """Its name in the file."""
        return f"{self.cell}/{self.part}/{self.first}+{self.size}"


def jobs_of(plan: Plan) -> list[Job]:
    """All jobs, in the plan's order."""
    return [
        Job(number, part, first, min(chunk, runs - first))
        for number, cell in enumerate(plan.cells)
        for part, (runs, chunk) in cell.parts().items()
        for first in range(0, runs, chunk)
    ]


def run_job(plan: Plan, job: Job) -> Tallies:
    """The tallies of one job."""
    cell = plan.cells[job.cell]
    rng = cell.rng(plan.seed, job.part, job.first)
    return cell.judge(job.part, plan.significance, job.size, rng)


def run_study(
    plan: Plan,
    store: Path,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Tallies]:
    """Tallies of all jobs by key; finished jobs in ``store``, a file of the same plan, are reused.

    ``on_progress`` is called with the number of finished jobs and the total.
    """
    jobs, known = jobs_of(plan), _read(store, plan)
    results = {job.key: known[job.key] for job in jobs if job.key in known}
    todo = [job for job in jobs if job.key not in results]
    with _opened(store, plan) as file:
        for job, result in _each(plan, todo, workers):
            results[job.key] = result
            file.write(json.dumps({"job": job.key, "result": result}) + "\n")
            file.flush()
            os.fsync(file.fileno())
            if on_progress is not None:
                on_progress(len(results), len(jobs))
    return results


def _each(plan: Plan, jobs: list[Job], workers: int) -> Iterator[tuple[Job, Tallies]]:
    if workers == 1 or len(jobs) <= 1:
        for job in jobs:
            yield job, run_job(plan, job)
        return
    with process_pool(workers) as pool:
        running = {pool.submit(run_job, plan, job): job for job in jobs}
        for future in as_completed(running):
            yield running[future], future.result()


def _read(store: Path, plan: Plan) -> dict[str, Tallies]:
    """Finished jobs; an incomplete last line is ignored."""
    lines = _files.load(store).split("\n") if store.exists() else []
    if len(lines) <= 1:  # interrupted before the header was written
        return {}
    try:
        head, *entries = [json.loads(line) for line in lines[:-1]]
        results = {entry["job"]: entry["result"] for entry in entries}
        identity = {name: head[name] for name in _identity(plan)}
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise InputError(f"{store}: not a file of finished jobs ({error!r}).") from None
    for name, value in _identity(plan).items():
        if identity[name] != value:
            raise InputError(
                f"{store}: made by another {name}, whose numbers must not be mixed with these; use "
                "another folder or delete it."
            )
    return results


def _opened(store: Path, plan: Plan) -> TextIO:
    """The file to append to, after removing an incomplete last line and writing the header."""
    opened = store.open("a+", encoding="utf-8")
    whole = store.read_bytes().rfind(b"\n") + 1
    opened.truncate(whole)
    if whole == 0:
        opened.write(json.dumps(_identity(plan)) + "\n")
    return opened


def _identity(plan: Plan) -> dict[str, str]:
    return {"plan": plan.digest(), "code": code_digest()}


def code_digest() -> str:
    """A short hash of all source code that a study's numbers depend on."""
    package = Path(epsilometer.__file__).parent
    paths = list(Path(__file__).parent.glob("*.py"))
    for folder in SOURCES:
        paths += (package / folder).rglob("*.py")
    digest = sha256()
    for path in sorted(paths, key=Path.as_posix):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def tallied(found: Iterable[Tallies]) -> Tallies:
    """Tallies of several runs or jobs as one.

    Examples
    --------
    >>> tallied([{"proof": {"runs": 1, "refuted": 0}}, {"proof": {"runs": 1, "refuted": 1}}])
    {'proof': {'runs': 2, 'refuted': 1}}
    """
    sums: Tallies = {}
    for tallies in found:
        for method, tally in tallies.items():
            known = sums.setdefault(method, tally)
            if known is not tally:
                if known.keys() != tally.keys():
                    raise InputError(
                        f"{method}: expected {', '.join(known)}, got {', '.join(tally)}."
                    )
                sums[method] = {name: add(known[name], tally[name]) for name in known}
    return sums


def tables_of(plan: Plan, results: dict[str, Tallies]) -> Tables:
    """The rows of all tables, in the plan's order."""
    tables: Tables = {}
    jobs = jobs_of(plan)
    for number, cell in enumerate(plan.cells):
        own = tallied(results[job.key] for job in jobs if job.cell == number)
        for name, columns in cell.rows(own):
            tables.setdefault(name, []).append(Row(**columns))
    return tables


# --- tallies of single runs -----------------------------------------------------------------------

#: A bound at most this far beyond the truth does not count as beyond it: the accuracy of proofs.
NEAR = 1e-6


def bound_tally(bound: float, truth: float) -> dict[str, Any]:
    """One lower bound."""
    return {"runs": 1, "above": int(bound > truth + NEAR), "sum_at_least": bound}


def interval_tally(quantiles: Any, truth: float) -> dict[str, Any]:
    """One interval: its lower end, median and upper end."""
    # Rounded to six decimals, since threads can change later digits.
    low, median, high = np.round(quantiles, 6).tolist()
    return {
        "runs": 1,
        "above": int(low > truth + NEAR),
        "below": int(high < truth - NEAR),
        "sum_low": low,
        "sum_median": median,
        "sum_high": high,
    }


def columns_of(tally: dict[str, Any]) -> dict[str, Any]:
    """Columns of a table row: counts as they are, sums as means, and how many intervals cover."""
    runs, columns = tally["runs"], {}
    for name, value in tally.items():
        mean = name.startswith("sum_")
        columns[name.replace("sum_", "mean_")] = round(value / runs, 6) if mean else value
    if "below" in tally:
        counts = {"runs": runs, "covers": runs - tally["above"] - tally["below"]}
        columns = counts | columns
    return columns
