"""Ranks of scores: labels in their order, and the grid of shares on which their chain is computed.

t is the share, among both hypotheses in the proportions of the scores, with a higher score.  The rank of
a score among M determines t to about sqrt(t (1 - t) / M), which is 1 / sqrt(M) everywhere in the angle
theta = 2 asin(sqrt(t)): points are even in theta, and denser at 0, at 1 and where a family may jump.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray, IntArray

#: Weight of the cosine that concentrates points at the ends of a stretch; at 1 they would coincide.
CLUSTER = 0.85
#: Number of points of a cubic.
STENCIL = 4


class Blocks(NamedTuple):
    """The number of scores without and with the point in each block, highest first.

    A block is one score, or several whose order is unknown.
    """

    zeros: IntArray
    ones: IntArray


@dataclass(frozen=True, eq=False)  # known by identity, so that what depends on it can be kept
class ShareGrid:
    """Grid points, and for each cell the rule that integrates a cubic through four points.

    Attributes
    ----------
    theta, share
        The points, as angles and as shares, increasing from 0.
    first
        The first of the four points of each cell.
    ratio
        Gauss points of each cell and, last, its lower end, divided by its upper end; (cells, nodes + 1).
    rule
        Weights of the Gauss points over t times the four cubics' values there, (cells, 4, nodes).
    """

    theta: FloatArray
    share: FloatArray
    first: IntArray
    ratio: FloatArray
    rule: FloatArray


@lru_cache(maxsize=64)
def share_grid(step: float, jump: float, nodes: int) -> ShareGrid:
    """A grid with points about ``step`` apart in theta, including ``jump``."""
    middle = 2 * np.arcsin(np.sqrt(jump))
    parts = [_stretch(0.0, middle, step), _stretch(middle, np.pi, step)]
    theta = np.concatenate([parts[0], parts[1][1:]])
    share = np.sin(theta / 2) ** 2
    share[-1] = 1.0
    cells = len(theta) - 1
    first = np.clip(np.arange(cells) - 1, 0, len(theta) - STENCIL)
    x, w = np.polynomial.legendre.leggauss(nodes)
    width = np.diff(theta)[:, None]
    at = theta[:-1, None] + width * (x + 1) / 2
    weight = width * w / 2 * np.sin(at) / 2
    points = theta[first[:, None] + np.arange(STENCIL)]
    rule = np.repeat(weight[:, None, :], STENCIL, axis=1)
    for point, other in permutations(range(STENCIL), 2):
        gap = (points[:, point] - points[:, other])[:, None]
        rule[:, point] *= (at - points[:, other][:, None]) / gap
    inside = np.column_stack([np.sin(at / 2) ** 2, share[:-1]])
    return ShareGrid(theta, share, first, inside / share[1:, None], rule)


def _stretch(low: float, high: float, step: float) -> FloatArray:
    count = max(int(np.ceil((high - low) / step)), 12)
    even = np.linspace(0.0, 1.0, count + 1)
    return np.asarray(
        low + (high - low) * (even - CLUSTER * np.sin(2 * np.pi * even) / (2 * np.pi))
    )
