"""``epsilometer losses``: getting losses out of a store, and into one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer import _files
from epsilometer.cli import results
from epsilometer.cli.options import ChangedCode, StoreVariant
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.measurement.sqlite_store import SqliteStore

losses_app = typer.Typer(
    name="losses", help="Export losses from a store, or import them.", rich_markup_mode=None
)


@losses_app.command("export")
def export_losses(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store made by `audit`.")],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV, or Parquet if it ends in .parquet; - prints CSV."
        ),
    ],
    variant: StoreVariant = None,
) -> int:
    """Write the losses of a store to a file."""
    from epsilometer.cli.attack import choose_variant
    from epsilometer.measurement.sqlite_store import SqliteStore

    with SqliteStore(store, read_only=True) as opened:
        sizes = opened.sizes()
        losses = opened.losses(sizes, choose_variant(sizes.variants, variant))
    if str(file) == "-":
        results.say(losses.to_csv())
        return 0
    losses.write(file)
    results.say(f"{len(losses):,} losses written to {_files.printable(file)}\n")
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
    variant: StoreVariant = None,
    accept_changed_code: ChangedCode = False,
) -> int:
    """Take losses measured elsewhere under the same plan into a store."""
    from epsilometer.attacks.losses import Losses
    from epsilometer.measurement.sqlite_store import SqliteStore

    losses = Losses.read(file)
    if target.suffix.lower() == ".toml":
        from epsilometer.audit.config import read_audit

        settings = read_audit(target, say=results.warn)
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
