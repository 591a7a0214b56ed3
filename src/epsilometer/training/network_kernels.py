"""Compiled training of a network with one hidden layer, with records stored sparsely.

Most pixels of a handwritten digit are 0, so forward and backward passes visit non-zero features only.
Nothing is approximated.  The kernel releases the GIL, so models can be trained in parallel threads.
"""

# Splitting the loops would make them slower.
# ruff: noqa: PLR0912, PLR0915

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from epsilometer._arrays import IntArray

Floats = NDArray[np.float32]
Places = NDArray[np.uint32]  # unsigned: so that no check for negative indices is needed


def sparse_records(rows: Floats) -> tuple[IntArray, Places, Floats]:
    """Starts, features and values of the non-zero entries of (records, features).

    Records are stored one after the other: record i has the entries ``starts[i]`` to ``starts[i + 1]``.
    """
    where, features = np.nonzero(rows)
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.bincount(where, minlength=len(rows)), out=starts[1:])
    return starts, features.astype(np.uint32), rows[where, features]


def aligned_zeros(*shape: int) -> Floats:
    """Zeros aligned to a cache line: vectors that straddle two lines can halve the speed."""
    size = math.prod(shape)
    block = np.zeros(size + LINE, dtype=np.float32)
    first = (-block.ctypes.data % (4 * LINE)) // 4
    return block[first : first + size].reshape(shape)


#: Number of single-precision numbers per cache line.
LINE = 16


# Reordering of sums allows vectorisation.  Infinities and NaN are preserved, so that divergence is
# visible.
_compiled = njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})


@_compiled
def _add_rows(
    target: Floats, matrix: Floats, rows: Places, factors: Floats, first: int, last: int
) -> None:
    """Add factor times matrix row to the target, for each entry from first up to last.

    Eight rows at a time, so that the target is read and written an eighth as often.
    """
    width = target.shape[0]
    t = first
    while t + 8 <= last:
        r0, r1, r2, r3 = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        r4, r5, r6, r7 = rows[t + 4], rows[t + 5], rows[t + 6], rows[t + 7]
        f0, f1, f2, f3 = factors[t], factors[t + 1], factors[t + 2], factors[t + 3]
        f4, f5, f6, f7 = factors[t + 4], factors[t + 5], factors[t + 6], factors[t + 7]
        for j in range(width):
            target[j] += (
                f0 * matrix[r0, j]
                + f1 * matrix[r1, j]
                + f2 * matrix[r2, j]
                + f3 * matrix[r3, j]
                + f4 * matrix[r4, j]
                + f5 * matrix[r5, j]
                + f6 * matrix[r6, j]
                + f7 * matrix[r7, j]
            )
        t += 8
    while t < last:
        row, factor = rows[t], factors[t]
        for j in range(width):
            target[j] += factor * matrix[row, j]
        t += 1


@_compiled
def _descend(
    weights: Floats, velocity: Floats, gradient: Floats, rate: np.float32, momentum: np.float32
) -> None:
    """One momentum step for a row of weights."""
    for j in range(weights.shape[0]):
        change = momentum * velocity[j] - rate * gradient[j]
        velocity[j] = change
        weights[j] += change


@_compiled
def _softmax_minus_label(scores: Floats, label: int, scale: np.float32) -> None:
    """Turn scores in place into the gradient of the record's loss, multiplied by ``scale``."""
    top = scores[0]
    for c in range(1, scores.shape[0]):
        top = max(top, scores[c])
    total = np.float32(0.0)
    for c in range(scores.shape[0]):
        scores[c] = math.exp(scores[c] - top)
        total += scores[c]
    for c in range(scores.shape[0]):
        scores[c] *= scale / total
    scores[label] -= scale


@_compiled
def train_sparse(
    starts: IntArray,
    features: Places,
    values: Floats,
    labels: IntArray,
    orders: IntArray,
    batch_size: int,
    rate: np.float32,
    momentum: np.float32,
    hidden_weights: Floats,
    hidden_biases: Floats,
    output_weights: Floats,
    output_biases: Floats,
    hidden_velocity: Floats,
    output_velocity: Floats,
    activity: Floats,
    errors: Floats,
) -> None:
    """Train in place; each row of ``orders`` is an epoch, a permutation of the records.

    ``hidden_weights`` is (features, hidden) and ``output_weights`` (classes, hidden), so that every
    inner loop runs along the hidden units, which are contiguous in memory.  The last four arguments are
    workspace, 0 at the start: velocities shaped like their weights, the others (batch_size, hidden).
    """
    records = labels.shape[0]
    inputs, hidden = hidden_weights.shape
    classes = output_weights.shape[0]
    scores = np.empty(classes, np.float32)
    gradient = np.empty(hidden, np.float32)
    hidden_bias_gradient = np.empty(hidden, np.float32)
    score_columns = np.empty((classes, batch_size), np.float32)
    everything = np.arange(max(batch_size, classes)).astype(np.uint32)
    ones = np.ones(batch_size, np.float32)
    output_bias_gradient = np.empty(classes, np.float32)
    hidden_bias_velocity = np.zeros_like(hidden_biases)
    output_bias_velocity = np.zeros_like(output_biases)
    # The batch's entries sorted by feature: ends[i] is where those of feature i end.
    ends = np.empty(inputs + 1, np.int32)
    slots = np.empty(features.shape[0], np.uint32)
    slot_values = np.empty(features.shape[0], np.float32)
    # A feature that is 0 in all records never has a gradient.
    used = np.zeros(inputs, np.bool_)
    for t in range(features.shape[0]):
        used[features[t]] = True

    for epoch in range(orders.shape[0]):
        for first in range(0, records, batch_size):
            size = min(batch_size, records - first)
            scale = np.float32(1.0) / np.float32(size)
            output_bias_gradient[:] = 0.0
            hidden_bias_gradient[:] = 0.0
            ends[:] = 0
            for slot in range(size):
                record = orders[epoch, first + slot]
                units, error = activity[slot], errors[slot]
                units[:] = hidden_biases
                _add_rows(
                    units, hidden_weights, features, values, starts[record], starts[record + 1]
                )
                for j in range(hidden):
                    units[j] = max(units[j], np.float32(0.0))
                for c in range(classes):
                    total = output_biases[c]
                    for j in range(hidden):
                        total += output_weights[c, j] * units[j]
                    scores[c] = total
                _softmax_minus_label(scores, labels[record], scale)
                error[:] = 0.0
                for c in range(classes):
                    output_bias_gradient[c] += scores[c]
                    score_columns[c, slot] = scores[c]
                _add_rows(error, output_weights, everything, scores, 0, classes)
                for j in range(hidden):
                    if units[j] <= np.float32(0.0):
                        error[j] = np.float32(0.0)
                for t in range(starts[record], starts[record + 1]):
                    ends[features[t] + 1] += 1
            for i in range(inputs):
                ends[i + 1] += ends[i]
            for slot in range(size):
                record = orders[epoch, first + slot]
                for t in range(starts[record], starts[record + 1]):
                    place = ends[features[t]]
                    ends[features[t]] = place + 1
                    slots[place] = slot
                    slot_values[place] = values[t]
            _add_rows(hidden_bias_gradient, errors, everything, ones, 0, size)
            begin = 0
            for i in range(inputs):
                if used[i]:
                    gradient[:] = 0.0
                    _add_rows(gradient, errors, slots, slot_values, begin, ends[i])
                    _descend(hidden_weights[i], hidden_velocity[i], gradient, rate, momentum)
                begin = ends[i]
            _descend(hidden_biases, hidden_bias_velocity, hidden_bias_gradient, rate, momentum)
            for c in range(classes):
                gradient[:] = 0.0
                _add_rows(gradient, activity, everything, score_columns[c], 0, size)
                _descend(output_weights[c], output_velocity[c], gradient, rate, momentum)
            _descend(output_biases, output_bias_velocity, output_bias_gradient, rate, momentum)
