"""Reading arrays from an untrusted npz file: nothing is unpickled, and any damage is one error line."""

import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import InputError

#: Exceptions that NumPy may raise on an npz file with corrupted bytes.
DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    EOFError,
    MemoryError,  # from an array whose header claims to be huge
    RuntimeError,  # from zipfile: encrypted, or an unsupported compression
    SyntaxError,  # from an array header
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_arrays(
    path: Path, *groups: tuple[str, ...], optional: tuple[str, ...] = (), largest: int
) -> dict[str, NDArray[Any]]:
    """The arrays of the first group of names that the file has in full, plus any ``optional`` ones.

    ``largest`` is the maximum total size in bytes after decompression.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile) or archive.zip is None:
                raise ValueError("a single array")
            if sum(member.file_size for member in archive.zip.infolist()) > largest:
                raise ValueError(f"arrays of more than {largest} bytes")
            for group in groups:
                if set(group) <= set(archive.files):
                    wanted = (*group, *(name for name in optional if name in archive.files))
                    return {name: np.asarray(archive[name]) for name in wanted}
            names = ", ".join(archive.files) or "none"
    except FileNotFoundError:
        raise InputError(f"{path}: expected a file, got no such file.") from None
    except DAMAGE as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{path}: cannot be read as npz without pickle: not an npz file, or it holds objects."
            ) from None
        raise InputError(f"{path}: cannot be read as npz without pickle ({error}).") from None
    expected = ", or ".join(" and ".join(group) for group in groups)
    also = f" (and optionally {', '.join(optional)})" if optional else ""
    raise InputError(f"{path}: expected arrays named {expected}{also}, got {names}.")
