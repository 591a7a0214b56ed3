"""Averages over a base's strength: the likelihood at leak s lambda, s from a law on [0, 1].

A law is a Beta law, or one that has also probability at s = 1.  Likelihoods are linear in log leak
between columns; laws are exact.  Leaks below the last column are treated as the last one, those above
the first as the first one.
"""

import math
from functools import lru_cache

import numba
import numpy as np
from scipy.special import betainc

from epsilometer._arrays import FloatArray, FloatPair

#: Cells of log s in which a distribution function is integrated, and the last log s.
CELLS, LOWEST = 300, -25.0


@lru_cache(maxsize=512)
def _integral(mean: float, concentration: float) -> FloatPair:
    """The integral of the Beta distribution function over log s from `LOWEST`, and that function.

    At ``LOWEST * (k / CELLS) ** 2``, which is denser at s = 1, where concentrated laws are steep.
    """
    a, b = mean * concentration, (1 - mean) * concentration
    edges = LOWEST * (np.arange(CELLS + 1) / CELLS) ** 2
    x, w = np.polynomial.legendre.leggauss(3)
    width = edges[:-1] - edges[1:]
    at = edges[1:, None] + width[:, None] * (1 + x) / 2
    means = betainc(a, b, np.exp(at)) @ (w / 2)
    total = np.append(np.cumsum((means * width)[::-1])[::-1], 0.0)
    return total, betainc(a, b, np.exp(edges))


def strength_weights(
    mean: float, concentration: float, full: float, rows: FloatArray, columns: FloatArray
) -> FloatArray:
    """Weights of the columns in the average at each row; both are log leaks, largest first.

    Strengths are 1 with probability ``full``, else Beta distributed.
    """
    weights = np.empty((len(rows), len(columns)))
    _fill(*_integral(mean, concentration), full, rows, columns, weights)
    return weights


@numba.njit(nogil=True, cache=True)
def _fill(
    integral: FloatArray,
    reached: FloatArray,
    full: float,
    rows: FloatArray,
    columns: FloatArray,
    weights: FloatArray,
) -> None:
    cells = len(integral) - 1
    for row in range(len(rows)):
        left, mean = 0.0, 1.0
        for column in range(len(columns)):
            below = columns[column] - rows[row]
            value = max(below, 0.0)
            if below >= 0:
                value += (1 - full) * integral[0]
            elif below > LOWEST:
                place = cells * math.sqrt(below / LOWEST)
                cell = min(int(place), cells - 1)
                high = LOWEST * (cell / cells) ** 2
                width = high - LOWEST * ((cell + 1) / cells) ** 2
                u = (below - high) / width + 1  # 0 at the lower end, 1 at the higher
                first, last = integral[cell + 1], integral[cell]
                rise, end = width * reached[cell + 1], width * reached[cell]
                bend = first - last
                cubic = first + u * (
                    rise + u * (-3 * bend - 2 * rise - end + u * (2 * bend + rise + end))
                )
                value += (1 - full) * cubic
            if column > 0:
                # The mean of the distribution function between neighbouring columns.
                new = min(max((left - value) / (columns[column - 1] - columns[column]), 0.0), mean)
                weights[row, column - 1] = mean - new
                mean = new
            left = value
        weights[row, len(columns) - 1] = mean


@numba.njit(nogil=True, cache=True)
def log_products(average: FloatArray, bases: int) -> FloatArray:
    """Log of the products over bases, from shape (rows, strands * bases) to (rows, strands).

    Logarithms are taken only occasionally, before a product underflows.
    """
    rows, strands = average.shape[0], average.shape[1] // bases
    logs = np.zeros((rows, strands))
    for row in range(rows):
        for strand in range(strands):
            product, total = 1.0, 0.0
            for base in range(bases):
                value = average[row, strand * bases + base]
                if value < 1e-150 or product < 1e-150:
                    total += math.log(product)
                    product = 1.0
                if value < 1e-150:
                    total += math.log(value) if value > 0 else -math.inf
                else:
                    product *= value
            logs[row, strand] = total + math.log(product)
    return logs
