"""Labels of one base in the order of scores, as the likelihoods read them."""

from __future__ import annotations

from typing import NamedTuple

from epsilometer._arrays import IntArray


class Blocks(NamedTuple):
    """How many scores without and with the point each block has, highest first.

    A block is one score, or several whose order is not known.
    """

    zeros: IntArray
    ones: IntArray
