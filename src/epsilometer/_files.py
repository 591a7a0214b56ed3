"""Reading untrusted text and tables, and writing files whole or not at all.

What the columns of a table mean is for the modules that own them.
"""

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer import _extras, _text
from epsilometer.errors import InputError

LARGEST_FILE = 256 * 1024 * 1024
LONGEST_LABEL = 200
#: Digits of the largest count that is exact in double precision; more are not even read.
LONGEST_NUMBER = 16


def load(source: str | PathLike[str]) -> str:
    """Text of a file, or an error that names it."""
    return decode(read_bytes(Path(source), LARGEST_FILE + 1), name=Path(source).name)


def read_bytes(path: Path, most: int) -> bytes:
    """The first bytes of a file, at most so many, or an error that names it."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None


def decode(data: bytes, *, name: str) -> str:
    """Text of a file's bytes, or an error that names it."""
    if len(data) > LARGEST_FILE:
        raise InputError(f"{name}: expected at most {LARGEST_FILE} bytes, got more.")
    if data.startswith((b"SQLite format 3\0", b"PAR1")):
        raise InputError(
            f"{name}: expected text, got a store or a Parquet file; `epsilometer attack` reads these."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: expected UTF-8 text, got other bytes.") from None


def table(
    text: str, expected: Sequence[str], *, name: str
) -> tuple[list[str], list[list[str]], list[str]]:
    """Header, rows and the place of each row (``name row 4``) of CSV text; blank rows are skipped."""
    if "\0" in text:
        raise InputError(f"{name}: expected text, got a NUL byte.")
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[list[str]] = []
    places: list[str] = []
    try:
        header = [cell.strip() for cell in next(reader, [])]
        check_separator(",".join(header) if len(header) > 1 else "".join(header), name=name)
        if not any(header):
            raise InputError(
                f"{name}: expected a header row with {', '.join(expected)}, got an empty file."
            )
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            place = f"{name} row {reader.line_num}"
            if len(cells) != len(header):
                hint = " (decimal commas? write points)" if len(cells) > len(header) else ""
                raise InputError(f"{place}: expected {len(header)} cells, got {len(cells)}{hint}.")
            rows.append(cells)
            places.append(place)
    except csv.Error as error:
        raise InputError(f"{name} row {reader.line_num}: not valid CSV ({error}).") from None
    return header, rows, places


def check_separator(text: str, *, name: str) -> None:
    """Refuse a table whose columns are not separated by commas."""
    head = text.lstrip("\ufeff").split("\n", 1)[0]
    for mark, word in ((";", "semicolon"), ("\t", "tab"), ("|", "bar")):
        if mark in head and "," not in head:
            raise InputError(
                f"{name}: looks like a {word}-separated file; save it with commas between columns and "
                "points in decimal numbers."
            )


def check_columns(
    columns: Sequence[str], required: Sequence[str], optional: Sequence[str] = (), *, where: str
) -> None:
    """Refuse missing, unknown and repeated columns by name."""
    missing = [column for column in required if column not in columns]
    if missing:
        raise InputError(
            f"{where}: expected columns {', '.join(required)}; missing {', '.join(missing)}."
        )
    unknown = [column for column in columns if column not in (*required, *optional)]
    if unknown:
        also = f" and optionally {', '.join(optional)}" if optional else ""
        raise InputError(
            f"{where}: unknown column {shown(unknown[0])}; expected {', '.join(required)}{also}."
        )
    twice = [column for column in columns if list(columns).count(column) > 1]
    if twice:
        raise InputError(f"{where}: column {twice[0]} occurs twice.")


def pyarrow() -> Any:
    """The library for Parquet, which is an extra."""
    need = "Parquet files need pyarrow"
    _extras.load("pyarrow.parquet", need, "parquet", instead=", or use CSV")
    return sys.modules["pyarrow"]


@contextmanager
def parquet(path: Path) -> Iterator[Any]:
    """The library for Parquet, whose errors name this file, on one line."""
    arrow = pyarrow()
    try:
        yield arrow
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        words = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as Parquet ({words}).") from None


def read_parquet(path: Path, *, most_rows: int | None = None) -> Any:
    """A Parquet file as an Arrow table, or an error that names it."""
    with parquet(path) as arrow:
        footer = arrow.parquet.read_metadata(path)
        if most_rows is not None and footer.num_rows > most_rows:
            raise InputError(f"{path}: expected at most {most_rows} rows, got more.")
        rows = sum(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
        if rows != footer.num_rows:
            raise InputError(
                f"{path}: expected {rows} rows as in its parts, got {footer.num_rows}."
            )
        return arrow.parquet.read_table(path, page_checksum_verification=True)


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns of a Parquet file, without reading it, or an error that names it."""
    with parquet(path) as arrow:
        return list(arrow.parquet.read_schema(path).names)


def label(value: object, column: str, place: str) -> str:
    """A short piece of text, or a number as text."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InputError(f"{place}: expected {column} to be text, got {shown(value)}.")
    text = str(value).strip()
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InputError(f"{place}: expected {column} to be plain text, got {shown(value)}.")
    if len(text) > LONGEST_LABEL:
        raise InputError(
            f"{place}: expected {column} of at most {LONGEST_LABEL} characters, got {len(text)}."
        )
    return text


def whole_number(text: str, column: str, place: str, *, most: int) -> int:
    """A whole number from 0 to ``most``, in plain digits."""
    if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER and int(text) <= most:
        return int(text)
    raise InputError(
        f"{place}: expected a whole number from 0 to {most} in {column}, "
        f"got {column}={shown(text)}."
    )


def number(text: str) -> float | None:
    """A number as text; None if it is none.  Digits in groups, as in ``1_000``, are not one."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def shown(value: object) -> str:
    """A value as it may stand in an error message: on one line, quoted, short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def printable(text: object) -> str:
    """Text from a file or an argument as a person may see it: nothing in it moves or hides text."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in str(text)
    )


def warn(line: str) -> None:
    """Print a message on stderr: one line, or wrapped to the width of a terminal."""
    lines = _text.message_lines(f"epsilometer: {printable(line)}", sys.stderr)
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV text that `table` reads back; numbers in the shortest form that keeps their value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    quoting = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for row in rows:
        # The plain writer would leave a carriage return bare, which ends a row.
        bare = not any(isinstance(cell, str) and "\r" in cell for cell in row)
        (writer if bare else quoting).writerow(row)
    return out.getvalue()


def ending(path: Path, *known: str, bare: str = "") -> str:
    """How a file's name ends, in small letters: one of those that are ``known``, such as ``.csv``.

    ``bare`` is the ending that a name without one stands for, if any.
    """
    suffix = path.suffix.lower() or bare
    if suffix not in known:
        listed = ", ".join(known[:-1]) + f" or {known[-1]}" if len(known) > 1 else known[0]
        raise InputError(f"{shown(path.name)}: expected a file name that ends in {listed}.")
    return suffix


def written_labels(labels: Iterable[str], column: str) -> None:
    """Refuse labels that would not be the same when they are read back."""
    for text in labels:
        if label(text, column, "to write a file") != text:
            raise InputError(
                f"to write a file: expected {column} without blanks around it, got {shown(text)}."
            )


def write_text(target: Path, text: str) -> None:
    """Write a file of text whole or not at all; replaces one of that name."""
    replace(target, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def replace(target: Path, write: Callable[[Path], object]) -> None:
    """Write under a temporary name first, so that no file is ever half there."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        write(temporary)
        os.replace(temporary, target)
    except OSError as error:
        # The user knows nothing of the temporary name.
        raise OSError(error.errno, error.strerror or str(error), str(target)) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
