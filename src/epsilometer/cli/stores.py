"""``epsilometer status`` and ``losses``: what a store holds, and losses out of it and into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import epsilometer as em
from epsilometer import _files
from epsilometer._text import counted, wrapped
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.measurement.failures import Failure
    from epsilometer.measurement.store import Status

#: Each base, and its finished models without and with the challenge point.
Bases = list[tuple[str, int, int]]

#: Bases, and errors with their tracebacks, that are printed.
MOST_NAMED, MOST_ERRORS = 20, 10


def status(
    store: Path = argument("STORE", "A store made by `audit`."), as_json: bool = options.AS_JSON
) -> int:
    """Show the progress of an audit, also while it runs."""
    with em.stores.SqliteStore(store, read_only=True) as opened:
        found = opened.status()
    parts = list(found.done.values())
    bases = [
        (name, min(part[base][0] for part in parts), min(part[base][1] for part in parts))
        for base, name in enumerate(found.names)
    ]
    # Models with losses of every variant.
    done = min(sum(h0 + h1 for h0, h1 in part) for part in parts)
    if found.sizes.canaries:
        done = sum(h0 + h1 == found.sizes.canaries for _, h0, h1 in bases)
    return results.answer(
        as_json,
        lambda: _described(found, bases, done),
        lambda: _text(store.name, found, bases, done),
    )


def _described(found: Status, bases: Bases, done: int) -> dict[str, Any]:
    sizes = found.sizes
    names = ("challenge_bases", "models_h0", "models_h1", *(["points"] if sizes.points else []))
    keys = ("challenge_base", "done_h0", "done_h1")
    return {
        "models": sizes.models,
        "models_done": done,
        **{name: getattr(sizes, name) for name in names},
        "variants": list(sizes.variants),
        "bases": [dict(zip(keys, base, strict=True)) for base in bases],
        "failures": [
            failure.described() | {"traceback": failure.traceback} for failure in found.failures
        ],
        "runs": found.runs,
        "plan": found.identity,
    }


def _text(name: str, found: Status, bases: Bases, done: int) -> str:
    sizes = found.sizes
    share = 100 * done / sizes.models
    models = f"{sizes.models_h0:,} + {sizes.models_h1:,} models each"
    what = f"{sizes.challenge_bases:,} challenge bases, {models}"
    if sizes.canaries:
        what = f"{counted(sizes.challenge_bases, 'training run')}, {sizes.canaries:,} canaries each"
    if sizes.points:
        what = f"a pool: every model is queried on {sizes.points:,} points"
    lines = [
        f"{_files.printable(name)}: {done:,} of {sizes.models:,} models ({share:.0f} %), "
        f"{len(found.failures):,} failed",
        what,
    ]
    if len(sizes.variants) > 1:
        lines.append(f"variants {', '.join(map(_files.printable, sizes.variants))}")
    missing = [base[0] for base in bases if base[1:] != (sizes.models_h0, sizes.models_h1)]
    if missing and not sizes.canaries and not sizes.points:
        named = ", ".join(_files.printable(name)[:40] for name in missing[:MOST_NAMED])
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        lines += wrapped(f"not complete (numbers with --json): {named}{more}", rest="  ")
    if found.failures:
        lines += ["", "failed:", *_failed(found)]
    if found.runs:
        last = found.runs[-1]
        ended = f"ended {last['ended']}" if last["ended"] else "has not ended, or was killed"
        lines += ["", f"runs {len(found.runs)}; the last began {last['started']},", f"  {ended}"]
    return "\n".join(lines) + "\n"


def _failed(found: Status) -> Iterator[str]:
    """Failures by message, the most frequent first, with a traceback each."""
    from epsilometer.measurement.failures import without_numbers

    alike: dict[str, list[Failure]] = {}
    for failure in found.failures:
        alike.setdefault(without_numbers(failure.message), []).append(failure)
    groups = sorted(alike.values(), key=lambda group: -len(group))
    for first, *others in groups[:MOST_ERRORS]:
        where = f"{found.sizes.named(first.task)}, {counted(first.attempts, 'time')}"
        which = f"{counted(1 + len(others), 'model')} (first: {where})" if others else where
        text = _files.printable(f"{which}: {first.message}")
        yield from wrapped(text, first="  ", rest="    ")
        shown = next((each.traceback for each in (first, *others) if each.traceback), "")
        yield from (f"    {_files.printable(line)}" for line in shown.splitlines())
    if len(groups) > MOST_ERRORS:
        yield f"  and {len(groups) - MOST_ERRORS} other errors (all with --json)"


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
    from epsilometer.inputs.sources import choose_variant

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
    from epsilometer.inputs.sources import choose_variant

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
