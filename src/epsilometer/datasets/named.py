"""Populations by name or by path; lists all known names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from epsilometer import _extras
from epsilometer.datasets import files
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
    source: str, *, folder: Path | None = None, shape: Sequence[int] | None = None
) -> Population:
    """Load a population by name, or from a .npz, .csv or .parquet file.

    Parameters
    ----------
    source
        ``digits`` or ``directions``, or a file path.
    folder
        Base of relative paths; default: the working directory.
    shape
        Shape of a record's features, such as (1, 8, 8) for the images of ``digits``, which otherwise are
        rows of 64 pixels; the number of values must match.
    """
    if source in NAMED:
        population = NAMED[source]()
    elif source.lower().endswith(files.SUFFIXES):
        population = files.read((folder or Path()) / source)
    else:
        raise InputError(
            f"expected a population by name ({', '.join(NAMED)}) or a path ending in "
            f"{', '.join(files.SUFFIXES)}, got source={source!r}."
        )
    return population if shape is None else population.shaped(shape)
