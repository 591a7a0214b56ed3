"""The command ``epsilometer``: lists the commands and reports every failure in one message.

Exit codes: 0 success, 2 invalid input or an output that cannot be written, 3 a verdict that
``--fail-on`` rejects or a failed ``selftest``, 4 the result was printed but did not reach its accuracy,
130 interrupted, 141 the reader of standard output closed it.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from epsilometer import _files
from epsilometer._text import in_shell_words, wrapped
from epsilometer.cli import results
from epsilometer.cli.attack import attack
from epsilometer.cli.audit import audit
from epsilometer.cli.compare import compare, compare_attacks
from epsilometer.cli.delivery import NOT_CONVERGED
from epsilometer.cli.estimate import estimate
from epsilometer.cli.options import Panelled
from epsilometer.cli.plan import plan
from epsilometer.cli.prove import prove
from epsilometer.cli.report import report
from epsilometer.cli.selftest import selftest
from epsilometer.cli.stores import losses_app, status
from epsilometer.errors import EpsilometerError, NotConvergedError, TrainingError

BAD_INPUT = 2
INTERRUPTED = 130
#: Prefix of the names of training threads.
TRAINING = "train"
CLOSED_PIPE = 141

# typer does not export the base class of its errors: BadParameter, UsageError, ClickException.
_UsageProblem: Any = typer.BadParameter.__mro__[2]

#: What ``epsilometer`` alone prints; paragraphs are wrapped, and commands are not.
GUIDE = """\
Epsilometer estimates the privacy loss epsilon of a training algorithm from membership-inference \
attacks, and proves lower bounds on it.

Audit your training (without a file: a small network on handwritten digits):
  epsilometer audit audit.toml --output result --report report.html

Estimate epsilon from a file of scores, losses or error counts:
  epsilometer estimate scores.csv --delta 1e-5

Test a claimed epsilon; the exit code is 3 if the attacks refute it:
  epsilometer prove scores.csv --delta 1e-5 --claim 2 --fail-on proven

All commands, and the options of one:
  epsilometer -h
  epsilometer estimate -h

A configuration file to start from:
  epsilometer audit --show-config
"""

app = typer.Typer(
    name="epsilometer",
    help="Estimate the privacy of a training algorithm from membership-inference attacks.",
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    selftest,
    status,
)
for command in COMMANDS:  # help lists them in the order of an audit
    app.command(cls=Panelled)(command)
app.add_typer(losses_app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"epsilometer {version('epsilometer')}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Estimate the privacy of a training algorithm from membership-inference attacks."""
    if context.invoked_subcommand is None:
        lines = ([line] if line[:2] in ("", "  ") else wrapped(line) for line in GUIDE.splitlines())
        results.say("".join(f"{line}\n" for part in lines for line in part))


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; no exception leaves this function."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    message, code, details, abandoned = "", 0, "", False
    try:
        with results.heard():
            result: Any = app(args=arguments, prog_name="epsilometer", standalone_mode=False)
        sys.stdout.flush()
        code = int(result or 0)
    except EpsilometerError as error:
        code = NOT_CONVERGED if isinstance(error, NotConvergedError) else BAD_INPUT
        message, details = str(error), getattr(error, "traceback", "")
        abandoned = isinstance(error, TrainingError)
    except _UsageProblem as error:
        message, code = error.format_message(), BAD_INPUT
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
        # typer exits this way when the reader of its output has closed the pipe.
        code = _pipe_closed() if stop.code == 1 else int(stop.code or 0)
    if code == INTERRUPTED:  # typer itself turns some interrupts into this code
        message = _interruption(arguments)
    if message:
        annotated = code != INTERRUPTED and _given("--annotate github", arguments)
        message = in_shell_words(" ".join(message.split()))
        _print_failure(message, details, annotated=annotated)
    training = any(thread.name.startswith(TRAINING) for thread in threading.enumerate())
    interrupted = code == INTERRUPTED and threading.active_count() > 1
    if argv is None and (interrupted or (abandoned and training)):
        # The interpreter would wait for threads that still train; their results are not needed.
        os._exit(code)
    return code


def _print_failure(message: str, details: str, *, annotated: bool) -> None:
    """Print a message, in which line breaks from a file or an argument are spaces, on stderr."""
    with contextlib.suppress(OSError):
        results.warn(message)
        # The user's own traceback: printable text, line by line.
        sys.stderr.writelines(f"{_files.printable(line)}\n" for line in details.splitlines())
        if annotated:
            from epsilometer.report.gates import error_command

            sys.stderr.write(f"{error_command(message)}\n")
        sys.stderr.flush()


def _interruption(arguments: Sequence[str]) -> str:
    """What an interrupted command leaves."""
    if arguments[:1] != ["audit"]:
        return "interrupted."
    if _given("--store none", arguments):
        return "interrupted; with --store none no models are kept."
    return "interrupted; finished models are kept: repeat the command to continue."


def _given(option: str, arguments: Sequence[str]) -> bool:
    """Whether an option has that value; the command itself may not have got to read it."""
    return option in " ".join(arguments).replace("=", " ")


def _pipe_closed() -> int:
    """Redirect stdout to the null device, or the interpreter would report an error on exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE
