"""Text that fits the terminal, numbers in words, and values for JSON: shared by every view."""

import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate
from typing import Any, TextIO

#: Columns: without a terminal, and the limits within which text follows a terminal's width.
#:
#: Longer lines are hard to read, and shorter ones leave no room for a table.
USUAL, NARROWEST, WIDEST = 80, 40, 100

#: Columns that the labels of a table keep on a narrow terminal.
NARROWEST_LABEL = 12


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


# --- lines ----------------------------------------------------------------------------------------


def columns(stream: TextIO | None = None) -> int:
    """Columns for text on a stream (default: standard output).

    The environment variable ``COLUMNS`` takes precedence, then the terminal's own width; 80 without a
    terminal.
    """
    target = sys.stdout if stream is None else stream
    given = os.environ.get("COLUMNS", "")
    width = int(given) if given.isascii() and given.isdigit() and len(given) < 6 else 0
    if not width and is_terminal(target):
        try:
            width = os.get_terminal_size(target.fileno()).columns
        except (OSError, ValueError):
            width = 0
    return min(max(width or USUAL, NARROWEST), WIDEST)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def wrapped(
    text: str, *, first: str = "", rest: str = "", width: int = 0, most: int | None = None
) -> list[str]:
    """Lines of a paragraph that fit the terminal, and are cut after ``most`` of them.

    ``first`` and ``rest`` are the indents, ``width`` is another width than the terminal's.
    """
    # A long word, such as a path, is kept whole.
    return textwrap.wrap(
        text,
        width or columns(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        max_lines=most,
        placeholder=" ...",
    )


def message_lines(text: str, stream: TextIO) -> list[str]:
    """A message wrapped at words on a terminal; one line elsewhere, for logs and programs."""
    # One column stays free: some terminals start a new line when the last column is filled.
    return wrapped(text, rest="  ", width=columns(stream) - 1) if is_terminal(stream) else [text]


def paragraphs(texts: Iterable[str]) -> str:
    """Join the texts as wrapped paragraphs."""
    return "".join(f"{line}\n" for text in texts for line in wrapped(text))


def table_lines(rows: Sequence[tuple[str, ...]], *, least: int = 0) -> list[str]:
    """Lines of a table: left-aligned labels in at least ``least`` columns, right-aligned numbers.

    If the terminal is too narrow, gaps shrink to one space, then the words of the heading are stacked
    and labels wrapped; columns that still do not fit follow below, with the labels repeated.
    """
    room, gap = columns(), "  "
    widths = _widths(rows, least)
    kept = len(widths)
    if sum(widths) + len(gap) * (kept - 1) > room:
        gap = " "
        if sum(_widths(rows, 0)) + kept - 1 > room:
            rows = [*_stacked(rows), *rows[1:]]
        widths = _widths(rows, least)
        excess = sum(widths) + kept - 1 - room
        widths[0] = max(min(widths[0], NARROWEST_LABEL), widths[0] - max(excess, 0))
        kept = max(2, sum(end <= room + 1 for end in accumulate(width + 1 for width in widths)))
    lines = [line for row in rows for line in _row_lines(row[:kept], widths[:kept], gap)]
    if kept >= len(widths):
        return lines
    rest = [row[:1] + row[kept:] for row in rows]
    return [*lines, "", *table_lines([row for row in rest if any(row)])]


def _widths(rows: Sequence[tuple[str, ...]], least: int) -> list[int]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [max(widths[0], least), *widths[1:]]


def _stacked(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The heading in as many lines as needed for its columns to be as narrow as their numbers."""
    cells = [[rows[0][0]]]
    for head, *numbers in list(zip(*rows, strict=True))[1:]:
        cells.append(textwrap.wrap(head, max(map(len, [*numbers, *head.split(), "-"]))))
    height = max(map(len, cells))
    return list(zip(*([""] * (height - len(lines)) + lines for lines in cells), strict=True))


def _row_lines(row: tuple[str, ...], widths: Sequence[int], gap: str) -> list[str]:
    label = [row[0]]
    if len(row[0]) > widths[0]:
        # Wrapped lines are indented, below the indent that a label has already.
        indent = " " * (len(row[0]) - len(row[0].lstrip()))
        label = textwrap.wrap(row[0], widths[0], subsequent_indent=f"{indent}  ") or [""]
    numbers = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
    return [*label[:-1], gap.join([label[-1].ljust(widths[0]), *numbers]).rstrip()]


# --- words ----------------------------------------------------------------------------------------


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
    """Convert a value to JSON types, objects to their fields; a non-finite number becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {part.name: getattr(value, part.name) for part in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | str | int):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
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
    if math.isinf(high) and not math.isinf(low):
        return f"at least {number_text(low, digits)}, no upper limit"
    return f"{number_text(low, digits)} to {number_text(high, digits)}"


def estimate_text(median: float, low: float, high: float, level: float | None = None) -> str:
    """A median with its interval and its ``level``, with at most four decimals."""
    if math.isinf(high) and not math.isinf(low):
        return pair_text(low, high)
    digits = min(digits_of(low, high), 4)
    low_text, high_text = number_text(low, digits), number_text(high, digits)
    held = "" if level is None else f" with probability {level:g}"
    return f"{number_text(median, digits)} ({low_text} to {high_text}{held})"


def capital(text: str) -> str:
    """Text with a capital first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def clause(sentence: str) -> str:
    """The first part of a sentence, to continue another one."""
    first = sentence.partition(";")[0].removesuffix(".")
    return f"{first[:1].lower()}{first[1:]}"
