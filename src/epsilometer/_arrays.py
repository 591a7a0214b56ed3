"""Names of the types that annotations share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

FloatPair = tuple[FloatArray, FloatArray]
"""Both error rates, or both ends of an interval."""

Say = Callable[[str], None]
"""Told a line of text now and then, for a progress display."""
