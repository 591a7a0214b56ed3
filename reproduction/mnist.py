"""MNIST's 60,000 training images as the population of the experiment: ``experiment/mnist.npz``.

Reads the two published files from a folder, compressed or not, and checks them against known checksums,
so that the experiment always has the same records in the same order.

    python reproduction/mnist.py FOLDER
"""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path

import numpy as np

#: SHA-256 of the published files, decompressed.
CHECKSUMS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
}

#: Bytes; more than either file has.
LARGEST = 64 * 2**20


def contents(folder: Path, name: str) -> bytes:
    """A published file, decompressed; exits unless it is the one that was published."""
    packed = folder / f"{name}.gz"
    with gzip.open(packed) if packed.is_file() else (folder / name).open("rb") as file:
        data = file.read(LARGEST)
    if hashlib.sha256(data).hexdigest() != CHECKSUMS[name]:
        sys.exit(f"{folder}: {name} is damaged, or is not the published file.")
    return data


def convert(folder: Path, target: Path) -> None:
    """Write pixels in [0, 1], one row per image, and labels."""
    images, labels = (contents(folder, name) for name in CHECKSUMS)
    pixels = np.frombuffer(images, dtype=np.uint8, offset=16).reshape(-1, 28 * 28)
    np.savez_compressed(
        target,
        features=pixels / np.float32(255.0),
        labels=np.frombuffer(labels, dtype=np.uint8, offset=8).astype(np.int64),
    )


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(__file__).parent / "experiment" / "mnist.npz")
