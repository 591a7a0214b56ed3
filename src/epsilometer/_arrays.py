"""Shared type aliases, and the base class of tables of arrays."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

#: Both error rates, or both ends of an interval.
FloatPair = tuple[FloatArray, FloatArray]

#: Callback that receives a line of progress text.
OnMessage = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """A table: a dataclass of equally long arrays."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, index: IndexArray | BoolArray) -> Self:
        """The rows at the given indices."""
        return type(self)(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def followed_by(self, *others: Self) -> Self:
        """The rows of this table followed by those of ``others``."""
        columns = {
            f.name: [getattr(part, f.name) for part in (self, *others)] for f in fields(self)
        }
        return type(self)(**{name: np.concatenate(parts) for name, parts in columns.items()})
