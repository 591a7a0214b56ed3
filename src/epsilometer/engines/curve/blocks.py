"""Labels of one base in the order of scores, as input for the likelihoods."""

from __future__ import annotations

from typing import NamedTuple

from epsilometer._arrays import IntArray


class Blocks(NamedTuple):
    """The number of scores without and with the point in each block, highest first.

    A block is one score, or several whose order is unknown.
    """

    zeros: IntArray
    ones: IntArray
