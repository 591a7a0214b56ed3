"""``epsilometer status``: finished, missing and failed models of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _files
from epsilometer._text import counted, wrapped
from epsilometer.cli import options, results
from epsilometer.cli.options import argument

if TYPE_CHECKING:
    from epsilometer.measurement.failures import Failure
    from epsilometer.measurement.store import Status

MOST_NAMED, MOST_ERRORS = 20, 10
"""Bases, and errors with their tracebacks, that are printed."""


def status(
    store: Path = argument("STORE", "A store made by `audit`."), as_json: bool = options.AS_JSON
) -> int:
    """Show the progress of an audit, also while it runs."""
    with em.stores.SqliteStore(store, read_only=True) as opened:
        progress = opened.status()
    return results.answer(
        as_json, lambda: _described(progress), lambda: _text(store.name, progress)
    )


def _described(found: Status) -> dict[str, Any]:
    sizes = found.sizes
    return {
        "models": sizes.models,
        "models_done": _done(found),
        "challenge_bases": sizes.challenge_bases,
        "models_h0": sizes.models_h0,
        "models_h1": sizes.models_h1,
        **({"points": sizes.points} if sizes.points else {}),
        "variants": list(sizes.variants),
        "bases": [
            {"challenge_base": name, "done_h0": h0, "done_h1": h1}
            for name, h0, h1 in _done_of_bases(found)
        ],
        "failures": [
            failure.described() | {"traceback": failure.traceback} for failure in found.failures
        ],
        "runs": found.runs,
        "plan": found.identity,
    }


def _done(found: Status) -> int:
    """Models with losses of every variant."""
    if found.sizes.canaries:
        return sum(h0 + h1 == found.sizes.canaries for _, h0, h1 in _done_of_bases(found))
    return min(sum(h0 + h1 for h0, h1 in part) for part in found.done.values())


def _done_of_bases(found: Status) -> list[tuple[str, int, int]]:
    """Each base, and its finished models without and with the challenge point."""
    parts = list(found.done.values())
    return [
        (name, min(part[base][0] for part in parts), min(part[base][1] for part in parts))
        for base, name in enumerate(found.names)
    ]


def _alike(found: Status) -> list[tuple[str, list[Failure]]]:
    """Failures by message, the most frequent first."""
    from epsilometer.measurement.failures import without_numbers

    groups: dict[str, list[Failure]] = {}
    for failure in found.failures:
        groups.setdefault(without_numbers(failure.message), []).append(failure)
    alike = [(failures[0].message, failures) for failures in groups.values()]
    return sorted(alike, key=lambda group: -len(group[1]))


def _text(name: str, found: Status) -> str:
    sizes, done = found.sizes, _done(found)
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
    every = (sizes.models_h0, sizes.models_h1)
    missing = [name for name, *done in _done_of_bases(found) if tuple(done) != every]
    if missing and not sizes.canaries and not sizes.points:
        named = ", ".join(_files.printable(name)[:40] for name in missing[:MOST_NAMED])
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        lines += wrapped(f"not complete (numbers with --json): {named}{more}", rest="  ")
    if found.failures:
        lines += ["", "failed:"]
        alike = _alike(found)
        for message, failures in alike[:MOST_ERRORS]:
            first = failures[0]
            where = f"{sizes.named(first.task)}, {counted(first.attempts, 'time')}"
            which = f"{counted(len(failures), 'model')} (first: {where})"
            text = f"{which}: {message}" if len(failures) > 1 else f"{where}: {message}"
            lines += wrapped(_files.printable(text), first="  ", rest="    ")
            shown = next((failure.traceback for failure in failures if failure.traceback), "")
            lines += [f"    {_files.printable(line)}" for line in shown.splitlines()]
        if len(alike) > MOST_ERRORS:
            lines.append(f"  and {len(alike) - MOST_ERRORS} other errors (all with --json)")
    if found.runs:
        last = found.runs[-1]
        ended = f"ended {last['ended']}" if last["ended"] else "has not ended, or was killed"
        lines += ["", f"runs {len(found.runs)}; the last began {last['started']},", f"  {ended}"]
    return "\n".join(lines) + "\n"
