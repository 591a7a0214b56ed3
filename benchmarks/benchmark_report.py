"""What the benchmarks share: the setting of a run, tables on the terminal, and a JSON file."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from epsilometer.posteriors.provenance import versions

Value = str | int | float
Row = dict[str, Value]


class Report:
    """One run: prints its setting at the start, then tables as they come."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._load = os.getloadavg()[0]
        self._setting = {
            **versions(),
            "machine": platform.machine(),
            "processors": os.cpu_count() or 1,
        }
        self._tables: dict[str, list[Row]] = {}
        for name, value in self._setting.items():
            print(f"{name} {value}")
        print(f"load average before the start: {self._load:.1f}", flush=True)

    def table(
        self, key: str, title: str, rows: list[Row], *, printed: list[Row] | None = None
    ) -> None:
        """Keep a table under its key, and print it, or a shorter form of it."""
        self._tables[key] = rows
        print_table(title, printed or rows)
        sys.stdout.flush()

    def finish(self, target: Path | None, **facts: Value) -> None:
        """Say how long it took, and write everything to a file if one is wanted."""
        total = time.perf_counter() - self._began
        print(f"\n{total:.0f} s in all")
        if target is not None:
            self._write(target, facts | {"seconds": total})

    def keep(self, target: Path | None, key: str, rows: list[Row]) -> None:
        """Write what there is so far, so that a run that is stopped goes on with `kept_rows`."""
        self._tables[key] = rows
        if target is not None:
            self._write(target, {})

    def _write(self, target: Path, facts: dict[str, Value]) -> None:
        document = {
            "setting": self._setting,
            "load_before": self._load,
            **facts,
            "tables": self._tables,
        }
        target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def kept_rows(target: Path | None, key: str) -> list[Row]:
    """Rows of a table that an earlier run wrote; none if there was no such run."""
    if target is None or not target.is_file():
        return []
    rows: list[Row] = json.loads(target.read_text(encoding="utf-8"))["tables"].get(key, [])
    return rows


def rounded_down(value: float) -> str:
    """With two digits; a bound is never rounded up."""
    return f"{math.floor(100 * value) / 100:.2f}"


def with_table(page: str, name: str, lines: Sequence[str]) -> str:
    """A page with other lines in the place of its table of ``benchmarks/NAME.json``."""
    start, end = f"<!-- table of benchmarks/{name}.json -->\n", "<!-- end of the table -->"
    before, rest = page.split(start)
    after = rest.split(end, 1)[1]
    return before + start + "\n" + "\n".join(lines) + "\n\n" + end + after


def middle_and_range(values: Sequence[float]) -> str:
    """The median and both ends, as they stand in tables: ``2.1 (1.8 to 2.4)``."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):.2f} ({ordered[0]:.2f} to {ordered[-1]:.2f})"


def shown(value: Value) -> str:
    """A value as printed in a table."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def print_table(title: str, rows: Sequence[Row]) -> None:
    """Print rows with the names of the first as a header; text to the left, numbers to the right."""
    names = list(rows[0])
    cells = [names, *([shown(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}\n")
    for number, line in enumerate(cells):
        text = [
            cell.ljust(width) if isinstance(rows[0][name], str) else cell.rjust(width)
            for name, cell, width in zip(names, line, widths, strict=True)
        ]
        print("  ".join(text).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
