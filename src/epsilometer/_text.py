"""Text that fits the terminal, and values for JSON: shared by every view."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from epsilometer import _terminal

NARROWEST_LABEL = 12
"""Columns that the labels of a table keep on a narrow terminal."""


_ARGUMENT = re.compile(r"`([a-z_]+)=([^`]*)`")


def in_shell_words(message: str) -> str:
    """A message of the library with its Python arguments as options of the shell.

    Examples
    --------
    >>> in_shell_words('continue with `accept_changed_code=True`, or use `statistic="loss"`')
    'continue with --accept-changed-code, or use --statistic loss'
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1].replace("_", "-"), match[2].strip("\"'")
        return f"--{name}" if value in ("", "True") else f"--{name} {value}"

    return _ARGUMENT.sub(option, message)


def wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    """Lines of a paragraph that fit the terminal; ``first`` and ``rest`` are the indents."""
    width = _terminal.columns()
    # A long word, such as a path, is kept whole.
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False
    )


def paragraphs(texts: Iterable[str]) -> str:
    """Join the texts as wrapped paragraphs."""
    return "".join(f"{line}\n" for text in texts for line in wrapped(text))


def table_lines(rows: Sequence[tuple[str, ...]], *, least: int = 0, gap: str = "  ") -> list[str]:
    """Lines of a table: left-aligned labels in at least ``least`` columns, right-aligned numbers.

    If the terminal is too narrow, gaps shrink to one space, then the words of the heading are stacked
    and labels wrapped; columns that still do not fit follow below, with the labels repeated.
    """
    room = _terminal.columns()
    widths = _widths(rows, least)
    if _total(widths, gap) <= room:
        return [line for row in rows for line in _row_lines(row, widths, gap)]
    gap = " "
    if _total(_widths(rows, 0), gap) > room:
        rows = [*_stacked(rows[0], rows[1:]), *rows[1:]]
    label = min(_widths(rows, 0)[0], NARROWEST_LABEL)
    widths = _widths(rows, least)
    widths[0] = max(label, widths[0] - max(_total(widths, gap) - room, 0))
    fixed = 1 if widths[0] else 2  # without labels the first numbers tell the rows apart
    kept = fixed
    while kept < len(widths) and _total(widths[: kept + 1], gap) <= room:
        kept += 1
    kept = max(kept, fixed + 1)
    lines = [line for row in rows for line in _row_lines(row[:kept], widths[:kept], gap)]
    if kept >= len(widths):
        return lines
    return [*lines, "", *table_lines([row[:fixed] + row[kept:] for row in rows], gap=gap)]


def _widths(rows: Sequence[tuple[str, ...]], least: int) -> list[int]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [max(widths[0], least), *widths[1:]]


def _total(widths: Sequence[int], gap: str) -> int:
    return sum(widths) + len(gap) * (len(widths) - 1)


def _stacked(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A heading in as many lines as needed for its columns to be as narrow as their numbers."""
    cells = [
        textwrap.wrap(text, max([*(len(row[k]) for row in rows), *map(len, text.split()), 1]))
        for k, text in enumerate(head)
    ]
    cells[0] = [head[0]]
    height = max(map(len, cells))
    columns = [[""] * (height - len(lines)) + lines for lines in cells]
    return list(zip(*columns, strict=True))


def _row_lines(row: tuple[str, ...], widths: Sequence[int], gap: str) -> list[str]:
    label = [row[0]]
    if len(row[0]) > widths[0]:
        # Wrapped lines are indented, below the indent that a label has already.
        indent = " " * (len(row[0]) - len(row[0].lstrip()))
        label = textwrap.wrap(row[0], widths[0], subsequent_indent=f"{indent}  ") or [""]
    numbers = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
    return [*label[:-1], gap.join([label[-1].ljust(widths[0]), *numbers]).rstrip()]


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
    if math.isinf(width):
        return 2
    return min(max(1 - math.floor(math.log10(width)), 2), 10) if width > 0 else 4


def number_text(value: float, digits: int) -> str:
    """A number with some decimals; from a million on they are noise."""
    if math.isinf(value):
        return "infinite"
    return f"{value:.4g}" if abs(value) >= 1e6 else f"{value:.{digits}f}"


def pair_text(low: float, high: float) -> str:
    """An interval with as many decimals as its width supports."""
    digits = digits_of(low, high)
    return f"{number_text(low, digits)} to {number_text(high, digits)}"


def estimate_text(median: float, low: float, high: float) -> str:
    """A median with its interval, with at most four decimals."""
    digits = min(digits_of(low, high), 4)
    low_text, high_text = number_text(low, digits), number_text(high, digits)
    return f"{number_text(median, digits)} ({low_text} to {high_text})"


def capital(text: str) -> str:
    """Text with a capital first letter."""
    return f"{text[:1].upper()}{text[1:]}"
