"""The command ``epsilometer``: wires the commands together and words every failure in one line.

Exit codes: 0 done, 2 bad input or a file that cannot be written, 3 the verdict is one that
``--fail-on`` refuses or ``selftest`` found something broken, 4 the result is printed but did not reach
its accuracy, 130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from epsilometer import _files
from epsilometer.cli import results
from epsilometer.cli.attack import attack
from epsilometer.cli.audit import audit
from epsilometer.cli.calibrate import calibrate
from epsilometer.cli.compare import compare
from epsilometer.cli.compare_attacks import compare_attacks
from epsilometer.cli.delivery import NOT_CONVERGED
from epsilometer.cli.estimate import estimate
from epsilometer.cli.losses import losses_app
from epsilometer.cli.plan import plan
from epsilometer.cli.prove import prove
from epsilometer.cli.report import report
from epsilometer.cli.reproduce import reproduce
from epsilometer.cli.selftest import selftest
from epsilometer.cli.status import status
from epsilometer.errors import EpsilometerError, NotConvergedError, TrainingError

BAD_INPUT = 2
INTERRUPTED = 130
TRAINING = "train"
"""Begins the names of threads that train."""
CLOSED_PIPE = 141

_INTERRUPTED = {
    "audit": "interrupted; losses that came in are kept, the same command goes on.",
    "calibrate": "interrupted; finished parts are kept, the same command goes on.",
}

# typer does not name the base of its errors in public: BadParameter, UsageError, ClickException.
_UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="epsilometer",
    help="How private is a training algorithm, judged by attacks on it?",
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    plan,
    audit,
    attack,
    estimate,
    prove,
    report,
    compare,
    compare_attacks,
    calibrate,
    selftest,
    status,
    reproduce,
)
for command in COMMANDS:  # in the order of an audit, as help lists them
    app.command()(command)
app.add_typer(losses_app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"epsilometer {version('epsilometer')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Tell how private a training algorithm is, judged by attacks on it."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing but that code and text comes out."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    message, code, details, abandoned = "", 0, "", False
    try:
        result: Any = app(args=arguments, prog_name="epsilometer", standalone_mode=False)
        sys.stdout.flush()
        code = int(result or 0)
    except NotConvergedError as error:
        message, code = str(error), NOT_CONVERGED
    except TrainingError as error:
        message, code, details, abandoned = str(error), BAD_INPUT, error.traceback, True
    except EpsilometerError as error:
        message, code = str(error), BAD_INPUT
    except _UsageProblem as error:
        message, code = error.format_message(), BAD_INPUT  # type: ignore[attr-defined]
    except BrokenPipeError:
        code = _pipe_closed()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message, code = f"{where}{error.strerror or error}.", BAD_INPUT
    except MemoryError:
        message, code = "not enough memory for these counts and settings.", BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except SystemExit as stop:
        # typer leaves this way when the reader of its output has gone.
        code = _pipe_closed() if stop.code == 1 else int(stop.code or 0)
    if code == INTERRUPTED:  # typer turns some interrupts into this code by itself
        message = _INTERRUPTED.get(arguments[0] if arguments else "", "interrupted.")
    if message:
        with contextlib.suppress(OSError):
            # One line, whatever text a file or an argument put into the message.
            results.warn(" ".join(message.split()))
            # The user's own traceback: printable text, line by line.
            sys.stderr.writelines(f"{_files.printable(line)}\n" for line in details.splitlines())
            sys.stderr.flush()
    training = any(thread.name.startswith(TRAINING) for thread in threading.enumerate())
    interrupted = code == INTERRUPTED and threading.active_count() > 1
    if argv is None and (interrupted or (abandoned and training)):
        # The interpreter would wait for threads that still train; what they make is not wanted.
        os._exit(code)
    return code


def _pipe_closed() -> int:
    """Point stdout elsewhere, or the interpreter would complain once more while it closes."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE
