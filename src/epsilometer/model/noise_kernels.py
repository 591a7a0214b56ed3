"""Compiled loops over symmetric noise that is known from a table: upper quantiles of mixtures, epsilon.

A table has the log tail and the log density of noise at even steps from 0, each with its slope; between
them are cubics, and beyond the last straight lines.
"""

import math

from numba import njit

from epsilometer._arrays import FloatArray

#: Columns: log tail, its slope, log density, its slope.
Table = FloatArray

#: Newton's steps: most, and the relative change of a score below which they end.
MOST_STEPS, SMALL_STEP = 80, 1e-11


@njit(nogil=True, cache=True)
def _value(table: Table, step: float, x: float, column: int) -> float:
    """The log tail (column 0) or log density (2) at x >= 0."""
    last = len(table) - 1
    if x >= last * step:
        return float(table[last, column] + table[last, column + 1] * (x - last * step))
    cell = int(x / step)
    u = x / step - cell
    left, right = table[cell, column], table[cell + 1, column]
    rise, fall = step * table[cell, column + 1], step * table[cell + 1, column + 1]
    bend = left - right
    return float(
        left + u * (rise + u * (-3 * bend - 2 * rise - fall + u * (2 * bend + rise + fall)))
    )


@njit(nogil=True, cache=True)
def _slope(table: Table, step: float, x: float) -> float:
    """The slope of the log density at any x."""
    last = len(table) - 1
    size = abs(x)
    cell = min(int(size / step), last)
    slope = table[cell, 3]
    if cell < last:
        slope += (size / step - cell) * (table[cell + 1, 3] - slope)
    return float(slope if x >= 0 else -slope)


@njit(nogil=True, cache=True)
def _log_tail(table: Table, step: float, x: float) -> float:
    if x >= 0:
        return _value(table, step, x, 0)
    return math.log1p(-math.exp(_value(table, step, -x, 0)))


@njit(nogil=True, cache=True)
def tails(table: Table, step: float, x: FloatArray, out: FloatArray) -> None:
    """Probability of noise above each x."""
    for j in range(len(x)):
        half = math.exp(_value(table, step, abs(x[j]), 0))
        out[j] = half if x[j] >= 0 else 1 - half


@njit(nogil=True, cache=True)
def upper_quantiles(
    table: Table,
    step: float,
    share: FloatArray,
    shift: FloatArray,
    part: float,
    out: FloatArray,
) -> None:
    """The values that a share of the noise exceeds, ``part`` of which is shifted: (shares, shifts).

    By Newton's method for the logarithm of the smaller tail, safeguarded by bisection.
    """
    for k in range(len(shift)):
        for j in range(len(share)):
            wanted = share[j]
            if wanted <= 0 or wanted >= 1:
                out[j, k] = math.inf if wanted <= 0 else -math.inf
                continue
            # The lower tail of noise is the upper one of its mirror image.
            side = 1.0 if wanted <= 0.5 else -1.0
            first, move = part if side > 0 else 1 - part, shift[k]
            centre = 0.0 if side > 0 else move
            target = math.log(wanted if side > 0 else 1 - wanted)
            # In the coordinate y = side (x - centre): the mixture of noise and noise shifted by move.
            low, high = 0.0, move + 1.0
            while _mixed(table, step, high, move, first)[0] > target:
                high = 2 * high - move
            y = (low + high) / 2 if j == 0 else min(max(side * (out[j - 1, k] - centre), low), high)
            for _ in range(MOST_STEPS):
                log_tail, slope = _mixed(table, step, y, move, first)
                excess = log_tail - target
                if excess > 0:
                    low = y
                else:
                    high = y
                new = y - excess / slope if slope < 0 else math.inf
                if not low <= new <= high:
                    new = (low + high) / 2
                moved = abs(new - y)
                y = new
                if moved <= SMALL_STEP * (1 + abs(y)):
                    break
            out[j, k] = centre + side * y


@njit(nogil=True, cache=True)
def _mixed(table: Table, step: float, x: float, shift: float, part: float) -> tuple[float, float]:
    """Log tail of noise, ``part`` of it shifted, and the slope of that."""
    tail = (1 - part) * math.exp(_log_tail(table, step, x))
    density = (1 - part) * math.exp(_value(table, step, abs(x), 2))
    tail += part * math.exp(_log_tail(table, step, x - shift))
    density += part * math.exp(_value(table, step, abs(x - shift), 2))
    if tail <= 0:
        return -math.inf, 0.0
    return math.log(tail), -density / tail


@njit(nogil=True, cache=True)
def epsilons(
    table: Table, step: float, shift: FloatArray, delta: float, farthest: float, out: FloatArray
) -> None:
    """Least epsilon at delta > 0 for noise and shifted noise.

    By Newton's method for the log divergence over the score where the log ratio is epsilon; fewer than
    delta of the scores without the point are above ``farthest``.
    """
    for k in range(len(shift)):
        move = shift[k]
        out[k] = 0.0
        low, high = move / 2, move + farthest
        if 1 - 2 * math.exp(_value(table, step, low, 0)) <= delta:
            continue
        x = (low + high) / 2
        ratio = 0.0
        for _ in range(MOST_STEPS):
            ratio = _value(table, step, abs(x - move), 2) - _value(table, step, x, 2)
            seen = _log_tail(table, step, x - move)
            lost = ratio + _log_tail(table, step, x)
            new = math.inf
            if lost < seen:
                left = -math.expm1(lost - seen)
                excess = seen + math.log(left) - math.log(delta)
                fall = (_slope(table, step, x - move) - _slope(table, step, x)) * math.exp(
                    lost - seen
                )
                if fall > 0:
                    new = x + excess * left / fall
            else:
                excess = -1.0
            if excess > 0:
                low = x
            else:
                high = x
            if not low <= new <= high:
                new = (low + high) / 2
            moved = abs(new - x)
            x = new
            if moved <= SMALL_STEP * (1 + x):
                break
        out[k] = max(_value(table, step, abs(x - move), 2) - _value(table, step, x, 2), 0.0)
