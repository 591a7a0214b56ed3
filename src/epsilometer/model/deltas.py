"""Lists of deltas."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError


def checked_deltas(deltas: Sequence[float] | FloatArray) -> FloatArray:
    """Sort deltas, refusing an empty list, duplicates and values outside [0, 1)."""
    values = sorted(_validate.delta(value) for value in np.asarray(deltas).ravel().tolist())
    if not values:
        raise InputError("expected at least one delta, got none.")
    for before, after in pairwise(values):
        if before == after:
            raise InputError(f"expected distinct deltas, got delta={after} twice.")
    return np.array(values)
