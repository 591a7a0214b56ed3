"""A real Dask scheduler and real workers on the loopback interface, as a context manager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
#: Seconds; far above what starting or stopping takes.
PATIENCE = 30.0


@dataclass(frozen=True, kw_only=True)
class Cluster:
    address: str
    scheduler: subprocess.Popen[bytes]
    workers: tuple[subprocess.Popen[bytes], ...]

    @property
    def executor(self) -> str:
        return f"dask://{self.address}"


@contextmanager
def cluster(
    folder: Path,
    *,
    workers: int = 2,
    nanny: bool = True,
    importable: bool = True,
    allowed_failures: int = 3,
) -> Iterator[Cluster]:
    """Start it in a folder; ``importable``: whether its workers can import the tests."""
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    if importable:
        environment["PYTHONPATH"] = str(ROOT)
    environment["DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"] = str(allowed_failures)
    started: list[subprocess.Popen[bytes]] = []

    def start(command: str, *options: str) -> subprocess.Popen[bytes]:
        with (folder / f"{command}-{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{command}", "--no-dashboard", *options],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return process

    try:
        file = folder / "scheduler.json"
        options = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        options += ["--dashboard-address", "127.0.0.1:0"]
        scheduler = start("dask_scheduler", *options)
        address = _address(file)
        made = tuple(
            start(
                "dask_worker",
                f"tcp://{address}",
                *("--host", "127.0.0.1", "--nthreads", "1", "--local-directory", str(folder)),
                "--nanny" if nanny else "--no-nanny",
            )
            for _ in range(workers)
        )
        yield Cluster(address=address, scheduler=scheduler, workers=made)
    finally:
        stop([psutil.Process(process.pid) for process in started if process.poll() is None])
        for process in started:
            process.wait(PATIENCE)


def _address(file: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            return str(json.loads(file.read_text())["address"]).removeprefix("tcp://")
        except (FileNotFoundError, ValueError):
            time.sleep(0.05)
    raise TimeoutError("the scheduler did not start")


def stop(processes: Sequence[psutil.Process]) -> None:
    """End processes and all their descendants."""
    everyone = {child for process in processes for child in family(process)}
    for process in everyone:
        with _gone_is_fine():
            process.kill()
    psutil.wait_procs(everyone, timeout=PATIENCE)


def family(process: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return
