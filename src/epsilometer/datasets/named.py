"""Populations by name or by path; lists all known names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from epsilometer import _extras
from epsilometer.datasets import files
from epsilometer.datasets.images import IMAGE_SETS, OnMessage, load_images
from epsilometer.errors import InputError
from epsilometer.measurement.population import Population


def digits() -> Population:
    """scikit-learn's 1,797 images of handwritten digits, 8 by 8 pixels, scaled to [0, 1]."""
    need = "the population digits needs scikit-learn"
    features, labels = _extras.load("sklearn.datasets", need, "sklearn").load_digits(
        return_X_y=True
    )
    return Population(features=features / 16.0, labels=labels.astype(np.int64), name="digits")


def directions() -> Population:
    """10,000 random directions in 64 dimensions: records of length 1 for tutorials and tests."""
    rows = np.random.default_rng(20260101).standard_normal((10_000, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Population(features=rows, name="directions")


NAMED: dict[str, Callable[[], Population]] = {"digits": digits, "directions": directions}
"""Populations that are always available."""


def load_population(
    source: str,
    *,
    folder: Path | None = None,
    path: Path | None = None,
    on_message: OnMessage | None = None,
    shape: Sequence[int] | None = None,
) -> Population:
    """Load a population by name, or from a .npz, .csv or .parquet file.

    Parameters
    ----------
    source
        ``digits`` or ``directions``, which are always available; ``mnist``, ``mnist-5k`` or
        ``fashion-mnist``, which are searched for (see `epsilometer.datasets.images`); or a file path.
    folder
        Base of relative paths; default: the working directory.
    path
        Location of the files of a named set of images.
    on_message
        Called with a message before a download.
    shape
        Shape of a record's features, such as (1, 8, 8) for the images of ``digits``, which otherwise are
        rows of 64 pixels; the number of values must match.
    """
    population = _loaded(source, folder=folder, path=path, on_message=on_message)
    return population if shape is None else population.shaped(shape)


def _loaded(
    source: str, *, folder: Path | None, path: Path | None, on_message: OnMessage | None
) -> Population:
    if path is not None and source not in IMAGE_SETS:
        raise InputError(f"path applies only to {', '.join(IMAGE_SETS)}, got source={source!r}.")
    start = Path() if folder is None else folder
    if source in NAMED:
        return NAMED[source]()
    if source in IMAGE_SETS:
        place = None if path is None else start / path
        return load_images(IMAGE_SETS[source], path=place, on_message=on_message)
    if not source.lower().endswith(files.SUFFIXES):
        raise InputError(
            f"expected a population by name ({', '.join([*NAMED, *IMAGE_SETS])}) or a path ending in "
            f"{', '.join(files.SUFFIXES)}, got source={source!r}."
        )
    return files.read(start / source)
