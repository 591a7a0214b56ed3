"""``epsilometer losses``: export losses from a store, and import them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

import epsilometer as em
from epsilometer import _files
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument
from epsilometer.errors import InputError

losses_app = typer.Typer(
    name="losses", help="Export losses from a store, or import them.", rich_markup_mode=None
)


@losses_app.command("export")
def export_losses(
    store: Path = argument("STORE", "A store made by `audit`."),
    file: Path = argument("FILE", "A .csv or .parquet file, for pools also .npz; - prints CSV."),
    variant: str | None = options.STORE_VARIANT,
    force: bool = outputs.FORCE,
) -> int:
    """Write the losses of a store to a file."""
    from epsilometer.inputs.loss_files import choose_variant

    target = None if str(file) == results.STDIN else file
    with em.stores.SqliteStore(store, read_only=True) as opened:
        sizes = opened.sizes()
        endings = outputs.POOL_ENDINGS if sizes.points else outputs.LOSS_ENDINGS
        outputs.check_file(target, endings, option="FILE", force=force)
        losses: Any = opened.measured(sizes, choose_variant(sizes.variants, variant))
    if target is None:
        if sizes.points:
            raise InputError("losses of a pool are written to a file: .npz, .parquet or .csv.")
        results.say(losses.to_csv())
        return 0
    losses.write(target)
    number = losses.models * losses.points if sizes.points else len(losses)
    results.say(f"{number:,} losses written to {_files.printable(file)}\n")
    return 0


@losses_app.command("import")
def import_losses(
    file: Path = argument("FILE", "Losses of the same plan as CSV or Parquet."),
    target: Path = argument(
        "STORE|CONFIG",
        "A store made by `audit`, or the TOML file of an audit, whose store is created if needed.",
    ),
    variant: str | None = options.STORE_VARIANT,
    accept_changed_code: bool = options.CHANGED_CODE,
) -> int:
    """Add losses measured elsewhere under the same plan to a store."""
    from epsilometer.inputs.loss_files import choose_variant

    losses = em.Losses.read(file)
    settings = None
    if target.suffix.lower() == ".toml":
        settings = em.rows.read_audit(target)
    elif not target.is_file():
        raise InputError(
            f"{target}: expected a store made by `audit`, or the TOML of an audit, got no such file."
        )
    with em.stores.SqliteStore(target if settings is None else settings.store) as store:
        if settings is not None:
            store.prepare(settings.plan, accept_changed_code=accept_changed_code)
        sizes = store.sizes()
        if sizes.canaries or sizes.points:
            raise InputError(
                f"{target}: canaries and losses of pools can only be added by `audit`."
            )
        for hypothesis, most in ((0, sizes.models_h0), (1, sizes.models_h1)):
            largest = int(losses.replicate[losses.hypothesis == hypothesis].max(initial=-1))
            if largest >= most:
                raise InputError(
                    f"{file}: expected replicates below {most} under hypothesis {hypothesis}, as in "
                    f"the plan of {store.name}, got {largest}."
                )
        new = store.add_losses(losses, variant=choose_variant(sizes.variants, variant))
    results.say(f"{new:,} losses added, {len(losses) - new:,} were there already\n")
    return 0
