"""One run of `measure` in a separate process, so that tests can end it in any way.

    python -m tests.measurement.runner STORE EXECUTOR [options]

Prints ``ready``, waits for a line on standard input if requested, measures, and prints the numbers of
models trained and reused.  Deliberate errors end it with status 1 and one line.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

from epsilometer.errors import EpsilometerError
from epsilometer.measurement.engine import measure
from tests.measurement.algorithms import DiesLate, NoisyMean, one_run_plan, plan

ROOT = Path(__file__).resolve().parents[2]


def start(
    store: Path, executor: str = "serial", *options: str, new_session: bool = False
) -> subprocess.Popen[str]:
    """Start a run from within a test."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.measurement.runner", str(store), executor, *options],
        cwd=ROOT,
        # The source next to these tests, wherever the package is installed.
        env=dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "src")])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=new_session,
    )


def wait_until_ready(run: subprocess.Popen[str]) -> None:
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n", run.communicate()[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("executor")
    parser.add_argument("--bases", type=int, default=2)
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--one-run", type=int, help="canaries; bases are then training runs")
    parser.add_argument("--log")
    parser.add_argument("--largest-file", type=int)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--mark", help="worker dies once, and makes this file, after a model")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds after the model")
    arguments = parser.parse_args()
    if arguments.largest_file is not None:
        most = arguments.largest_file
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    print("ready", flush=True)
    if arguments.wait:
        sys.stdin.readline()
    algorithm = NoisyMean(seconds=arguments.seconds, log=arguments.log)
    if arguments.mark is not None:
        algorithm = DiesLate(mark=arguments.mark, delay=arguments.delay)
    wanted = plan(algorithm, bases=arguments.bases, replicates=arguments.replicates)
    if arguments.one_run is not None:
        wanted = one_run_plan(algorithm, runs=arguments.bases, canaries=arguments.one_run)
    try:
        measured = measure(wanted, arguments.store, executor=arguments.executor, workers=2)
    except EpsilometerError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(measured.trained, measured.reused)


if __name__ == "__main__":
    main()
