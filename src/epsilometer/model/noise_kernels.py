"""Compiled loops over symmetric noise that is known from a table: upper quantiles of mixtures, epsilon.

A table has the log tail and the log density of noise at even steps from 0, each with its slope; between
them are cubics, and beyond the last straight lines.
"""

import math

from numba import njit

from epsilometer._arrays import FloatArray

#: Columns: log tail, its slope, log density, its slope.
Table = FloatArray

#: Newton's steps: most, and the relative change below which they end: errors are about its square.
MOST_STEPS, SMALL_STEP = 80, 1e-6


@njit(nogil=True, cache=True)
def newton(
    x: float, excess: float, slope: float, low: float, high: float
) -> tuple[float, float, float]:
    """A safeguarded step to the root of a decreasing function, and the new bracket around the root.

    ``excess`` is the function's value.  A bracket may have no upper end yet: then x is at most doubled,
    as a function that hardly falls would lead far away.
    """
    low, high = (x, high) if excess > 0 else (low, x)
    new = x - excess / slope if slope < 0 else math.inf
    if not low <= new <= min(high, 2 * x + 1):
        new = (low + high) / 2 if high < math.inf else 2 * x + 1
    return new, low, high


@njit(nogil=True, cache=True)
def ahead(
    target: float, targets: tuple[float, float], y: float, rates: tuple[float, float]
) -> float:
    """Where the next target is reached: from the last two targets, the last place, and rates there."""
    move, before = target - targets[0], targets[0] - targets[1]
    bend = (rates[0] - rates[1]) * move / before if before != 0 else 0.0
    return y + move * (rates[0] + (bend / 2 if abs(bend) < abs(rates[0]) else 0.0))


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

    By Newton's method for the logarithm of the smaller tail, from the share next to it.
    """
    for k in range(len(shift)):
        for mirrored in (False, True):
            # The lower tail of noise is the upper one of its mirror image.
            move, first, side = shift[k], 1 - part if mirrored else part, -1.0 if mirrored else 1.0
            centre = move if mirrored else 0.0
            # In the coordinate y = side (x - centre): the mixture of noise and noise shifted by move.
            y, known = move / 2, 0
            targets, rates = (0.0, 0.0), (0.0, 0.0)
            for i in range(len(share)):
                # Outwards from the middle.
                j = i if mirrored else len(share) - 1 - i
                wanted = 1 - share[j] if mirrored else share[j]
                if not (wanted < 0.5 if mirrored else wanted <= 0.5):
                    continue
                if wanted <= 0:
                    out[j, k] = side * math.inf
                    continue
                target = math.log(wanted)
                if known > 1:
                    y = max(ahead(target, targets, y, rates), 0.0)
                low, high, slope = 0.0, math.inf, 0.0
                for _ in range(MOST_STEPS):
                    log_tail, slope = _mixed(table, step, y, move, first)
                    new, low, high = newton(y, log_tail - target, slope, low, high)
                    moved = abs(new - y)
                    y = new
                    if moved <= SMALL_STEP * (1 + y):
                        break
                targets, rates = (target, targets[0]), (1 / slope if slope < 0 else 0.0, rates[0])
                known += 1
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
            excess, slope = -1.0, 0.0
            if lost < seen:
                left = -math.expm1(lost - seen)
                excess = seen + math.log(left) - math.log(delta)
                fall = _slope(table, step, x - move) - _slope(table, step, x)
                slope = -fall * math.exp(lost - seen) / left
            new, low, high = newton(x, excess, slope, low, high)
            moved = abs(new - x)
            x = new
            if moved <= SMALL_STEP * (1 + x):
                break
        out[k] = max(_value(table, step, abs(x - move), 2) - _value(table, step, x, 2), 0.0)
