"""Averages over a base's strength: the likelihood at leak s lambda, s from a Beta law.

On leaks that are even in the logarithm, lambda_j = lambda_0 e^(-j step), an average depends only on the
difference of two indices.  Likelihoods are linear between neighbours, Beta laws are exact; leaks below
the last one are treated as the last one.
"""

import math
from functools import lru_cache

import numba
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import betainc

from epsilometer._arrays import FloatArray


@lru_cache(maxsize=512)
def cell_means(mean: float, concentration: float, step: float, count: int) -> FloatArray:
    """Mean of the Beta distribution function over each cell of log s, from s = 1 downwards."""
    a, b = mean * concentration, (1 - mean) * concentration
    x, w = np.polynomial.legendre.leggauss(3)
    at = -step * (np.arange(count)[:, None] + (1 - x) / 2)
    means: FloatArray = betainc(a, b, np.exp(at)) @ (w / 2)
    means.flags.writeable = False
    return means


def averaging_rows(means: FloatArray, rows: slice, columns: slice) -> FloatArray:
    """Weights of the leaks in ``columns`` in the average at each leak in ``rows``.

    ``means`` are those of `cell_means`, for all leaks; the last column, if it is the last of all, also
    has the weight of every smaller leak.
    """
    count, width = len(means), columns.stop - columns.start
    before = np.append(1.0, means[:-1])
    weights = np.append(np.zeros(count - 1), np.maximum(before - means, 0.0))
    # Row k starts at its own offset: the rows are windows of one long row.
    first, last = count - rows.stop + columns.start, count - rows.start + columns.start
    padded = np.append(weights, np.zeros(max(0, last + width - 1 - len(weights))))
    windows = np.array(sliding_window_view(padded, width)[first:last][::-1])
    if columns.stop == count:
        windows[:, -1] = before[count - 1 - np.arange(rows.start, rows.stop)]
    return windows


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
