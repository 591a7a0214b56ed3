"""``epsilometer status`` and ``epsilometer losses``: what a store holds, and getting it out and in."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli import results
from epsilometer.cli.options import AsJson

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.measurement.sqlite_store import SqliteStore, Status

MOST_ROWS = 40


def status(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store made by `audit`.")],
    as_json: AsJson = False,
) -> int:
    """Show how far the audit of a store has come; safe while it is running."""
    from epsilometer.measurement.sqlite_store import SqliteStore

    with SqliteStore(store, read_only=True) as opened:
        found = opened.status()
    if as_json:
        results.say(json.dumps(_described(found), allow_nan=False) + "\n")
    else:
        results.say(_text(store.name, found))
    return 0


def _described(found: Status) -> dict[str, Any]:
    sizes = found.sizes
    return {
        "models": sizes.models,
        "models_done": _done(found),
        "challenge_bases": sizes.challenge_bases,
        "models_h0": sizes.models_h0,
        "models_h1": sizes.models_h1,
        "variants": list(sizes.variants),
        "bases": [
            {
                "challenge_base": name,
                "done_h0": min(part[base][0] for part in found.done.values()),
                "done_h1": min(part[base][1] for part in found.done.values()),
            }
            for base, name in enumerate(found.names)
        ],
        "failures": [failure.described() for failure in found.failures],
        "runs": found.runs,
        "plan": found.identity,
    }


def _done(found: Status) -> int:
    """Models that have every variant."""
    return min(sum(h0 + h1 for h0, h1 in part) for part in found.done.values())


def _text(name: str, found: Status) -> str:
    sizes, done = found.sizes, _done(found)
    share = 100 * done / sizes.models
    lines = [
        f"{results.printable(name)}: {done:,} of {sizes.models:,} models ({share:.0f} %), "
        f"{len(found.failures):,} failed",
        f"{sizes.challenge_bases:,} challenge bases, {sizes.models_h0:,} + {sizes.models_h1:,} "
        "models each",
    ]
    if len(sizes.variants) > 1:
        lines.append(f"variants {', '.join(map(results.printable, sizes.variants))}")
    open_bases = [
        (base_name, min(part[base][0] for part in found.done.values()),
         min(part[base][1] for part in found.done.values()))
        for base, base_name in enumerate(found.names)
    ]  # fmt: skip
    missing = [row for row in open_bases if row[1] < sizes.models_h0 or row[2] < sizes.models_h1]
    if missing:
        lines += ["", "not complete:"]
        for base_name, h0, h1 in missing[:MOST_ROWS]:
            lines.append(
                f"  base {results.printable(base_name)[:40]}: {h0:,} without the challenge point, "
                f"{h1:,} with it"
            )
        if len(missing) > MOST_ROWS:
            lines.append(f"  and {len(missing) - MOST_ROWS} more")
    if found.failures:
        lines += ["", "failed:"]
        for failure in found.failures[:MOST_ROWS]:
            text = f"{failure.task}, {failure.attempts} times: {failure.message}"
            lines += textwrap.wrap(
                results.printable(text), 80, initial_indent="  ", subsequent_indent="    "
            )
        if len(found.failures) > MOST_ROWS:
            lines.append(f"  and {len(found.failures) - MOST_ROWS} more (--json has them all)")
    if found.runs:
        last = found.runs[-1]
        ended = f"ended {last['ended']}" if last["ended"] else "has not ended, or was killed"
        lines += ["", f"runs {len(found.runs)}; the last began {last['started']},", f"  {ended}"]
    return "\n".join(lines) + "\n"


losses_app = typer.Typer(
    name="losses", help="Export losses from a store, or import them.", rich_markup_mode=None
)

Variant = Annotated[
    str | None, typer.Option("--variant", metavar="V", help="Which variant, if there are several.")
]


@losses_app.command("export")
def export_losses(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store made by `audit`.")],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV, or Parquet if it ends in .parquet; - prints CSV."
        ),
    ],
    variant: Variant = None,
) -> int:
    """Write the losses of a store to a file."""
    from epsilometer.cli.attack import choose_variant
    from epsilometer.measurement.sqlite_store import SqliteStore

    with SqliteStore(store, read_only=True) as opened:
        sizes = opened.sizes()
        losses = opened.losses(sizes, choose_variant(sizes.variants, variant))
    if str(file) == "-":
        from epsilometer.attacks.losses_files import to_csv

        results.say(to_csv(losses))
        return 0
    losses.write(file)
    results.say(f"{len(losses):,} losses written to {results.printable(file)}\n")
    return 0


@losses_app.command("import")
def import_losses(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Losses of the same plan, CSV or Parquet.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="STORE|CONFIG",
            help="A store made by `audit`, or the TOML of an audit, whose store is made if need be.",
        ),
    ],
    variant: Variant = None,
    accept_changed_code: Annotated[
        bool, typer.Option("--accept-changed-code", help="As for `audit`.")
    ] = False,
) -> int:
    """Take losses measured elsewhere under the same plan into a store."""
    from epsilometer.attacks.losses import Losses
    from epsilometer.errors import InputError
    from epsilometer.measurement.sqlite_store import SqliteStore

    losses = Losses.read(file)
    if target.suffix.lower() == ".toml":
        from epsilometer.cli import audit_config

        settings = audit_config.read(target)
        with SqliteStore(settings.store) as opened:
            opened.prepare(settings.plan, accept_changed_code=accept_changed_code)
            return _take_in(file, losses, opened, variant)
    if not target.is_file():
        raise InputError(
            f"{target}: expected a store made by `audit`, or the TOML of an audit, got no such file."
        )
    with SqliteStore(target) as opened:
        return _take_in(file, losses, opened, variant)


def _take_in(file: Path, losses: Losses, store: SqliteStore, variant: str | None) -> int:
    from epsilometer.cli.attack import choose_variant
    from epsilometer.errors import InputError

    sizes = store.sizes()
    for hypothesis, most in ((0, sizes.models_h0), (1, sizes.models_h1)):
        largest = int(losses.replicate[losses.hypothesis == hypothesis].max(initial=-1))
        if largest >= most:
            raise InputError(
                f"{file}: expected replicates below {most} under hypothesis {hypothesis}, as in the "
                f"plan of {store.name}, got {largest}."
            )
    new = store.add_losses(losses, variant=choose_variant(sizes.variants, variant))
    results.say(f"{new:,} losses taken in, {len(losses) - new:,} were there already\n")
    return 0
