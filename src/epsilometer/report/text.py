"""Helpers that every view shares: text for an 80-column terminal, and values for JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

WIDTH = 80
"""Columns of a default terminal."""


def wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    """Wrap a paragraph; ``first`` and ``rest`` are the indents of its lines."""
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)


def paragraphs(texts: Iterable[str]) -> str:
    """Join the texts as wrapped paragraphs."""
    return "".join(f"{line}\n" for text in texts for line in wrapped(text))


def table_lines(rows: Sequence[tuple[str, ...]], *, least: int = 0, gap: str = "  ") -> list[str]:
    """Lines of a table: left-aligned labels in at least ``least`` columns, right-aligned numbers."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths[0] = max(widths[0], least)
    return [
        gap.join(
            [row[0].ljust(widths[0])]
            + [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]


def inert(name: str) -> str:
    """Escape a name that a spreadsheet would run as a formula."""
    return f"'{name}" if name[:1] in tuple("=+-@\t\r") else name


def shortened(label: str, longest: int) -> str:
    """A label cut to at most ``longest`` characters."""
    return label if len(label) <= longest else f"{label[: longest - 3]}..."


def counted(number: int, noun: str) -> str:
    """``1 challenge base``, ``20 challenge bases``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain(value: Any) -> Any:
    """Convert a value to JSON types; a non-finite number becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | str | int):
        return value
    if hasattr(value, "item"):
        return plain(value.item())
    number = float(value)
    return number if math.isfinite(number) else None


def probability_text(value: float) -> str:
    """A probability with four decimals, never rounded to 0 or 1."""
    if value < 1e-4:
        return f"{value:.1e}" if value > 0 else "0 (to machine precision)"
    if value > 1 - 1e-4:
        return "above 0.9999"
    return f"{value:.4f}"


def percent(share: float) -> str:
    """``90 %``."""
    return f"{100 * share:g} %"


def digits_of(low: float, high: float) -> int:
    """Number of decimals that shows two significant digits of the interval's width."""
    width = high - low
    return min(max(1 - math.floor(math.log10(width)), 2), 10) if width > 0 else 4


def pair_text(low: float, high: float) -> str:
    """An interval with as many decimals as its width supports."""
    digits = digits_of(low, high)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def estimate_text(median: float, low: float, high: float) -> str:
    """A median with its interval for a table column, with at most four decimals."""
    digits = min(digits_of(low, high), 4)
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
