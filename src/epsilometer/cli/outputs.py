"""Files and folders that commands write: their endings, and what must not be overwritten.

A result folder remembers in ``outputs.json`` which audit it belongs to, and which pages and figures
were written with it, so that the same audit may write them again.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from epsilometer import _files
from epsilometer.cli.options import flag
from epsilometer.errors import InputError

OUTPUTS = "outputs.json"

FORCE = flag("Overwrite existing output files.", "--force")

PAGE_ENDINGS = (".html", ".htm")
FIGURE_ENDINGS = (".png", ".svg", ".pdf")
TABLE_ENDINGS = (".csv", ".json")
LOSS_ENDINGS = (".csv", ".parquet")
POOL_ENDINGS = (".npz", ".parquet", ".csv")

#: A name that ends so is meant to be a file, so it is refused where a folder is expected.
FILE_ENDINGS = frozenset(
    {*PAGE_ENDINGS, *FIGURE_ENDINGS, *TABLE_ENDINGS, *POOL_ENDINGS}
    | {".txt", ".md", ".nc", ".toml", ".db", ".xml", ".docx", ".xlsx", ".zip", ".jpg", ".jpeg"}
)

#: Whether a folder holds a result of the audit, or of the data, that is about to be written there.
Same = Callable[[Path], bool]


def check_ending(path: Path | None, endings: Sequence[str], *, option: str) -> None:
    """Refuse a file name whose ending does not tell one of the formats that can be written."""
    if path is None or _is_device(path) or path.suffix.lower() in endings:
        return
    known = " or ".join([", ".join(endings[:-1]), endings[-1]] if endings[1:] else endings)
    ending = f"an ending {path.suffix}" if path.suffix else "no ending"
    wanted = f"a file name for {option} that ends in {known}"
    raise InputError(f"{path}: expected {wanted}, got {ending}.")


def check_file(
    path: Path | None, endings: Sequence[str], *, option: str, force: bool, own: Iterable[Path] = ()
) -> None:
    """Refuse a file that cannot be written, or that exists; ``own`` files may be replaced."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path}: expected a file for {option}, got a folder.")
    check_ending(path, endings, option=option)
    if _is_device(path):
        return
    folder = path.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path}: the folder for {option} does not exist or cannot be written.")
    if path.exists() and not force and path.resolve() not in own:
        raise InputError(
            f"{path}: exists already; choose another name for {option}, or overwrite it with --force."
        )


def check_folder(
    folder: Path | None, *, option: str = "--output", force: bool = False, same: Same | None = None
) -> None:
    """Refuse a folder that cannot be written, or one with files that are not of the same result.

    Without ``same`` an existing folder is accepted.
    """
    if folder is None:
        return
    if folder.exists():
        if not folder.is_dir():
            raise InputError(f"{folder}: expected a folder for {option}, got a file.")
        if not os.access(folder, os.W_OK):
            raise InputError(f"{folder}: the folder for {option} cannot be written.")
        if same is not None and not force and any(folder.iterdir()) and not same(folder):
            raise InputError(
                f"{folder}: the folder for {option} is not empty, and its files are not of the same "
                "data; choose another folder, or overwrite them with --force."
            )
        return
    if folder.suffix.lower() in FILE_ENDINGS:
        raise InputError(
            f"{folder}: expected a folder for {option}, got the name of a {folder.suffix} file."
        )
    parent = next(path for path in folder.absolute().parents if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{folder}: the folder for {option} cannot be created.")


def write_figure(figure: Any, path: Path) -> None:
    """Save a figure in the format that the name tells."""
    from epsilometer.report.figures.chart import save_figure

    form = path.suffix.lower().lstrip(".")
    _files.replace(path, lambda temporary: save_figure(figure, temporary, form=form))


def _is_device(path: Path) -> bool:
    """A pipe or a device, such as /dev/stdout, which has no ending and nothing to lose."""
    return path.exists() and not path.is_file() and not path.is_dir()


# --- what a result folder remembers -----------------------------------------------------------


def audit_of(folder: Path) -> str | None:
    """The identity of the audit that wrote a folder; None if that is not known."""
    identity = _read(folder).get("audit")
    return identity if isinstance(identity, str) else None


def own_files(folder: Path | None) -> set[Path]:
    """Pages and figures written with a result, which nobody has changed since."""
    if folder is None:
        return set()
    files = _read(folder).get("files")
    paths: set[Path] = set()
    for name, digest in files.items() if isinstance(files, dict) else ():
        path = (folder / name).resolve()
        if digest is None or (path.is_file() and _digest(path) == digest):
            paths.add(path)
    return paths


def remember(folder: Path, paths: Iterable[Path], *, audit: str | None, done: bool) -> None:
    """Note the audit and the files written with its result: before they are written, and after."""
    base = folder.resolve()
    names = {os.path.relpath(path.resolve(), base): path for path in paths}
    digests = {name: _digest(path) if done else None for name, path in names.items()}
    text = json.dumps({"audit": audit, "files": digests}, indent=2) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    _files.write_text(folder / OUTPUTS, text)


def _read(folder: Path) -> dict[str, Any]:
    """The notes in a folder, an untrusted file; empty if there are none that can be read."""
    path = folder / OUTPUTS
    with suppress(InputError, ValueError, RecursionError):
        if path.is_file():
            notes = json.loads(_files.load(path))
            return notes if isinstance(notes, dict) else {}
    return {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
