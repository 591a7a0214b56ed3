"""256 models x 60,000 points after training: time and memory of every step, each in its own process.

    python benchmarks/large_pool.py --json benchmarks/large_pool.json

The population is made up (62,000 records of 784 pixels, four of five 0), and so are the losses: log odds
are normal, one point in a hundred leaks.  Plan, coins, store and commands are the real ones.  `score` is
what one model costs there: the network's losses of all points, in the blocks of the design.  A step
that is in the JSON already is not run again; `--folder` keeps the files between runs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import epsilometer as em
from benchmark_report import Report, Row, kept_rows
from epsilometer.cli.main import run
from epsilometer.measurement.bases import PoolRow

MODELS, POINTS, REFERENCES, PIXELS, SEED = 256, 60_000, 2_000, 784, 5

CONFIG = """[population]
source = "records.npz"
[audit]
design = "pool"
models = {models}
pool_size = {points}
references = {references}
challenge = "pilot"
seed = 1
[algorithm]
object = "network"
options = {{ hidden = 128 }}
[estimate]
delta = 1e-5
"""


def make_records(folder: Path) -> None:
    """The population, as many records as the configuration asks for."""
    rng = np.random.default_rng(SEED)
    audit = tomllib.loads((folder / "audit.toml").read_text(encoding="utf-8"))["audit"]
    records = audit["pool_size"] + audit["references"]
    features = rng.random((records, PIXELS), dtype=np.float32)
    features[rng.random((records, PIXELS), dtype=np.float32) < 0.8] = 0
    np.savez(folder / "records.npz", features=features, labels=rng.integers(0, 10, records))


def write(folder: Path) -> None:
    """Losses of every model into the store, as `audit` would."""
    rng = np.random.default_rng(SEED)
    plan = em.rows.read_audit(folder / "audit.toml").plan
    pool: Any = plan.bases[0]
    whole, records = len(pool.everything), len(pool.records)
    level = rng.normal(2.0, 2.0, whole)
    leak = np.where(rng.random(whole) < 0.01, 4.0, 0.1)
    with em.stores.SqliteStore(folder / "audit.db") as store:
        store.prepare(plan)
        for model in range(plan.sizes.models_h0):
            member = np.zeros(whole, dtype=bool)
            member[:records] = pool.member(model)
            odds = level + leak * member + rng.standard_normal(whole)
            losses = np.logaddexp(0, -odds)[:, None]
            store.add([PoolRow(0, 0, model, plan.variants[0], losses, member)])


def command(*words: str) -> Callable[[Path], None]:
    """A step that is a command; ``@`` in front of a name is the folder."""

    def step(folder: Path) -> None:
        given = [str(folder / word[1:]) if word.startswith("@") else word for word in words]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = run(given)
        if code:
            raise SystemExit(f"exit code {code} of {given}: {said.getvalue()}")

    return step


def reread(name: str) -> Callable[[Path], None]:
    """A step that reads a file of losses and finds those of the store in it."""

    def step(folder: Path) -> None:
        losses = em.PoolLosses.read(folder / name)
        assert losses.points == len(losses.names)

    return step


def prove_all(folder: Path) -> None:
    """A proof from all points at once, through LiRA."""
    with em.stores.SqliteStore(folder / "audit.db", read_only=True) as store:
        losses = store.pool_losses(store.sizes(), store.sizes().variants[0])
    em.prove(
        em.attacks.held_out_scores(losses, em.attacks.Lira(), teachers=losses.models // 2),
        delta=1e-5,
    )


def score(folder: Path) -> None:
    """All points under one model."""
    plan = em.rows.read_audit(folder / "audit.toml").plan
    algorithm: em.training.Network = plan.algorithm  # type: ignore[assignment]
    model = algorithm.initial(PIXELS, np.random.default_rng(SEED))
    began = time.perf_counter()
    blocks = [algorithm.losses(model, block) for block in plan.bases[0].points(plan.population)]
    seconds = time.perf_counter() - began
    print(json.dumps({"points": sum(map(len, blocks)), "seconds of scoring": seconds}))


STEPS: dict[str, Callable[[Path], None]] = {
    "make up records": make_records,
    "read the configuration": lambda folder: (em.rows.read_audit(folder / "audit.toml"), None)[1],
    "score one model": score,
    "write the store": write,
    "status": command("status", "@audit.db"),
    "compare-attacks, store": command("compare-attacks", "@audit.db", "--delta", "1e-5"),
    "compare-attacks, toml": command("compare-attacks", "@audit.toml"),
    "prove, 100 points": command("prove", "@audit.db", "--delta", "1e-5"),
    "prove, all points": prove_all,
    "estimate, 100 points": command("estimate", "@audit.db", "--delta", "1e-5"),
    "export npz": command("losses", "export", "@audit.db", "@losses.npz"),
    "export parquet": command("losses", "export", "@audit.db", "@losses.parquet"),
    "read npz": reread("losses.npz"),
    "read parquet": reread("losses.parquet"),
}

#: Steps that are run again if their files are gone.
MADE = {"make up records": "records.npz", "write the store": "audit.db"}


def measured(name: str, folder: Path) -> Row:
    """One step in its own process.

    This process stays small: what it holds would count as the child's peak.
    """
    own = [sys.executable, __file__, "--step", name, "--folder", str(folder)]
    done = subprocess.run(own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    row: Row = {"step": name}
    for line in done.stdout.splitlines():
        row |= json.loads(line)
    return row


def step_here(name: str, folder: Path) -> None:
    """One step in this process, and what it took."""
    began = time.perf_counter()
    STEPS[name](folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(json.dumps({"seconds": time.perf_counter() - began, "GiB at most": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description="A large pool after training.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument("--folder", type=Path, help="keep the files here")
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        step_here(arguments.step, arguments.folder)
        return
    rows = kept_rows(arguments.json, "steps")
    report = Report()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        sizes = {"models": arguments.models, "points": arguments.points, "references": REFERENCES}
        (folder / "audit.toml").write_text(CONFIG.format(**sizes), encoding="utf-8")
        for name in STEPS:
            if (folder / MADE.get(name, "audit.toml")).is_file() and any(
                row["step"] == name for row in rows
            ):
                continue
            rows = [row for row in rows if row["step"] != name] + [measured(name, folder)]
            report.keep(arguments.json, "steps", rows)
            print(rows[-1], flush=True)
    rows.sort(key=lambda row: list(STEPS).index(str(row["step"])))
    columns = ("step", "seconds", "GiB at most")
    plain: list[Row] = [{name: row[name] for name in columns} for row in rows]
    title = f"{arguments.models} models x {arguments.points:,} points, {REFERENCES:,} references"
    report.table("steps", title, rows, printed=plain)
    report.finish(arguments.json, models=arguments.models, points=arguments.points)


if __name__ == "__main__":
    main()
