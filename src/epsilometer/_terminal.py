"""The width of the terminal, and messages that fit it."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO

USUAL, NARROWEST, WIDEST = 80, 40, 100
"""Columns: without a terminal, and the limits within which text follows a terminal's width.

Longer lines are hard to read, and shorter ones leave no room for a table.
"""


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


def message_lines(text: str, stream: TextIO, *, indent: str = "  ") -> list[str]:
    """A message wrapped at words on a terminal; one line elsewhere, for logs and programs."""
    if not is_terminal(stream):
        return [text]
    # One column stays free: some terminals start a new line when the last column is filled.
    return textwrap.wrap(
        text,
        columns(stream) - 1,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
