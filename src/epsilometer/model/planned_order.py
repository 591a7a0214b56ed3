"""An order of the pairs of all bases that was fixed before they were trained: proofs may follow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epsilometer._arrays import IntArray

#: Most pairs that are put in order.
MOST_PAIRS = 10_000_000


class PlannedOrder(NamedTuple):
    """The plans of an audit, one after the other.

    Attributes
    ----------
    sizes
        Numbers of bases and of pairs per base that were planned, first and after each growth.  Pairs of
        an earlier plan come first; within a plan base by base.
    numbers
        The number of each base that has scores.
    """

    sizes: IntArray
    numbers: IntArray

    @classmethod
    def of(cls, sizes: ArrayLike, numbers: ArrayLike) -> PlannedOrder | None:
        """From untrusted numbers, or ValueError; None if there are too many pairs to put in order."""
        plans, known = np.asarray(sizes, dtype=np.int64), np.asarray(numbers, dtype=np.int64)
        sound = plans.ndim == 2 and plans.shape[1:] == (2,) and plans.size and plans.min() >= 0
        if not sound or (np.diff(known, prepend=-1) <= 0).any() or plans.max() > MOST_PAIRS:
            raise ValueError
        bases, pairs = plans.max(axis=0).tolist()
        if len(known) and known[-1] >= bases:
            raise ValueError
        return cls(plans, known) if bases * pairs <= MOST_PAIRS else None

    @property
    def whole(self) -> list[list[int]] | None:
        """The sizes, from which a file has the order again; None if a planned base has no scores."""
        return self.sizes.tolist() if len(self.numbers) == self.sizes[:, 0].max() else None

    def take(self, places: Sequence[int]) -> PlannedOrder:
        """The same order of some of the bases."""
        return self._replace(numbers=self.numbers[np.asarray(places, dtype=np.int64)])

    def leading(self, complete: Sequence[int]) -> IntArray:
        """The pairs up to the first that is not complete: (place among the bases with scores, pair)."""
        planned, order = np.zeros(self.sizes.max(axis=0), dtype=bool), []
        for bases, pairs in self.sizes:
            order.append(np.argwhere(~planned[:bases, :pairs]))
            planned[:bases, :pairs] = True
        base, pair = np.concatenate(order).T
        found = np.zeros(len(planned), dtype=np.int64)
        found[self.numbers] = complete
        ready = int(np.argmin(np.append(pair < found[base], False)))
        return np.stack([np.searchsorted(self.numbers, base[:ready]), pair[:ready]], axis=1)


def grown(before: list[list[int]] | None, now: tuple[int, int]) -> list[list[int]]:
    """The numbers of bases and of pairs of every plan so far; one that did not change is not repeated.

    Examples
    --------
    >>> grown([[5, 100]], (8, 100))
    [[5, 100], [8, 100]]
    """
    known = list(before or [])
    return known if known and known[-1] == list(now) else [*known, list(now)]
