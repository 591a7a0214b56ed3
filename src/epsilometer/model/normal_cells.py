"""Probabilities of rectangles under a bivariate normal, with high relative accuracy.

The inner integral is an interval of the conditional normal, in closed form.  The outer one is
Gauss-Legendre over the narrower side of the rectangle, restricted to where its integrand is not
negligible, which is also known in closed form since the exponent is quadratic.  Compiled, because
engines need millions of cells.
"""

import math

import numpy as np
from numba import njit

from epsilometer._arrays import FloatArray

compiled = njit(nogil=True, cache=True)

DROP = 27.0  # nats below its peak at which the integrand is cut off: 2e-12
LONGEST = 2.5  # length of a panel, in units of the scale on which the integrand changes
STEEPEST = 8.0  # nats of change per panel: eight nodes then have an error of 1e-9
TURN = 7.0  # half the width, in conditional deviations, of the zone where the inner interval ends
DEEP_TAIL = 600.0  # twice the nats at which plain probabilities would underflow
BOTTOMLESS = 1e10  # twice the nats at which the exponent alone is accurate to 1e-8
NEARLY_ONE = 1.0 - 1e-15  # used in place of a correlation of 1

ROOT_HALF = math.sqrt(0.5)
LOG_TWO_PI = math.log(2 * math.pi)


def _tabulated() -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [0, 1]: rows with three, five and eight nodes."""
    nodes, weights = np.zeros((3, 8)), np.zeros((3, 8))
    for row, count in enumerate((3, 5, 8)):
        x, w = np.polynomial.legendre.leggauss(count)
        nodes[row, :count], weights[row, :count] = 0.5 * (1 + x), 0.5 * w
    return nodes, weights


NODES, WEIGHTS = _tabulated()
SIZES = (3, 5, 8)


@compiled
def _scaled_tail(u: float) -> float:
    """Phi(-u) e^(u^2 / 2) for u >= 0."""
    if u < 30.0:
        return 0.5 * math.erfc(u * ROOT_HALF) * math.exp(0.5 * u * u)
    # Laplace's continued fraction: the next term is 1e-14 of the total here.
    return 1 / (math.sqrt(2 * math.pi) * (u + 1 / (u + 2 / (u + 3 / (u + 4 / u)))))


@compiled
def _interval(low: float, high: float) -> float:
    """Phi(high) - Phi(low), on the side with less cancellation; 0 where it underflows."""
    if low > 0:
        return 0.5 * (math.erfc(low * ROOT_HALF) - math.erfc(high * ROOT_HALF))
    if high < 0:
        return 0.5 * (math.erfc(-high * ROOT_HALF) - math.erfc(-low * ROOT_HALF))
    return 0.5 * (math.erf(high * ROOT_HALF) - math.erf(low * ROOT_HALF))


@compiled
def _deep_interval(low: float, high: float) -> float:
    """The same divided by e^(-u^2 / 2) at its nearer end u; unscaled if 0 is inside."""
    if high < 0:
        low, high = -high, -low
    if low <= 0:
        return _interval(low, high)
    return _scaled_tail(low) - math.exp(-0.5 * (high - low) * (high + low)) * _scaled_tail(high)


@compiled
def _nearest(low: float, high: float, value: float) -> float:
    return min(max(value, low), high)


@compiled
def log_rectangle(a: float, b: float, c: float, d: float, r: float) -> float:
    """Log P(a < Z < b, c < W < d) of standard normals with correlation r.

    Ends may be infinite.  The relative accuracy of the probability is about 1e-8 in general; its
    logarithm is no less accurate in far tails.  -inf if the rectangle is empty or beyond any tail.
    """
    if not (a < b and c < d):
        return -math.inf
    r = _nearest(-NEARLY_ONE, NEARLY_ONE, r)
    if b - a < d - c:
        a, b, c, d = c, d, a, b
    s = math.sqrt((1 - r) * (1 + r))
    # The highest point of the density in the rectangle, by its coordinate along [c, d].
    w_top = _nearest(c, d, r * _nearest(a, b, 0.0))
    top = _least_square(w_top, a, b, r, s)
    if not top < BOTTOMLESS:
        # The factor on the exponential is lost in the rounding of the exponent.
        return -0.5 * top
    # Where the exponent is within DROP of the top.
    reach = math.sqrt(top + 2 * DROP)
    z = _nearest(a, b, -r * reach)
    low = max(c, r * z - s * math.sqrt(max((reach - z) * (reach + z), 0.0)))
    z = _nearest(a, b, r * reach)
    high = min(d, r * z + s * math.sqrt(max((reach - z) * (reach + z), 0.0)))
    if not low < high:
        # In far tails the window is narrower than rounding error.
        low = high = w_top
    if high - low <= LONGEST * s:
        total = _panels(low, high, s, a, b, r, s, w_top, top)
    else:
        # Near r w = a and r w = b the inner interval drops from 1 to 0, faster the smaller s is.
        slope = r if abs(r) > 1e-300 else 1e-300
        first, second = min(a / slope, b / slope), max(a / slope, b / slope)
        zone = TURN * s / abs(slope)
        total, here = 0.0, low
        for end, scale in (
            (first - zone, 1.0),
            (first + zone, s),
            (second - zone, 1.0),
            (second + zone, s),
            (high, 1.0),
        ):
            there = _nearest(here, high, end)
            if there > here:
                total += _panels(here, there, scale, a, b, r, s, w_top, top)
            here = there
    if not total > 0:
        # Narrower than rounding: ignoring the width costs no digit of the logarithm.
        return -0.5 * top - LOG_TWO_PI
    return math.log(total) - 0.5 * top - 0.5 * LOG_TWO_PI


@compiled
def _least_square(w: float, a: float, b: float, r: float, s: float) -> float:
    """The least value of the quadratic form of (z, w) over z in [a, b]."""
    gap = (_nearest(a, b, r * w) - r * w) / s
    return w * w + gap * gap


@compiled
def _panels(
    low: float,
    high: float,
    scale: float,
    a: float,
    b: float,
    r: float,
    s: float,
    w_top: float,
    top: float,
) -> float:
    """Integral over w of e^(-w^2 / 2) P(a < Z < b | w), over e^(-top / 2)."""
    at_low, at_high = _least_square(low, a, b, r, s), _least_square(high, a, b, r, s)
    least = top if low <= w_top <= high else min(at_low, at_high)
    # Inside the window it falls no further, up to rounding.
    fall = min(0.5 * (max(at_low, at_high) - least), DROP)
    length = high - low
    count = max(1, math.ceil(length / (LONGEST * scale)), math.ceil(fall / STEEPEST))
    step = length / count
    rule = 2
    if step < scale and fall < 3 * count:
        rule = 0 if step < 0.25 * scale and fall < count else 1
    total = 0.0
    deep = top > DEEP_TAIL
    for panel in range(count):
        start = low + panel * step
        for k in range(SIZES[rule]):
            w = start + step * NODES[rule, k]
            lower, upper = (a - r * w) / s, (b - r * w) / s
            if deep:
                # This exponent includes the factor by which the interval is divided.
                exponent = top - _least_square(w, a, b, r, s)
                inner = _deep_interval(lower, upper)
            else:
                exponent = top - w * w
                inner = _interval(lower, upper)
            total += step * WEIGHTS[rule, k] * math.exp(0.5 * exponent) * inner
    return total


@compiled
def cell_ends(count: float, trials: float, rate: float, inflation: float) -> tuple[float, float]:
    """Standard scores of the ends of the interval that rounds to ``count``; 0 and N include the tails.

    ``inflation`` is the count's variance over a binomial's.  At variance 0 the scores are infinite.
    """
    mean = trials * rate
    deviation = math.sqrt(max(mean * (1 - rate) * inflation, 0.0))
    low, high = -math.inf, math.inf
    if count > 0:
        gap = count - 0.5 - mean
        low = gap / deviation if deviation > 0 else math.copysign(math.inf, gap)
    if count < trials:
        gap = count + 0.5 - mean
        high = gap / deviation if deviation > 0 else math.copysign(math.inf, gap)
    return low, high


@compiled
def cell_ends_along(count: float, trials: float, rate: FloatArray, inflation: float) -> FloatArray:
    """:func:`cell_ends` at many rates, in two rows."""
    ends = np.empty((2, len(rate)))
    for i in range(len(rate)):
        ends[0, i], ends[1, i] = cell_ends(count, trials, rate[i], inflation)
    return ends


@compiled
def log_cell(
    x: float,
    n0: float,
    alpha: float,
    inflation_h0: float,
    y: float,
    n1: float,
    beta: float,
    inflation_h1: float,
    r: float,
) -> float:
    """Log probability of the counts (x, y): a bivariate normal, rounded and clipped to 0..N."""
    a, b = cell_ends(x, n0, alpha, inflation_h0)
    c, d = cell_ends(y, n1, beta, inflation_h1)
    return log_rectangle(a, b, c, d, r)


@compiled
def log_cells(columns: FloatArray) -> FloatArray:
    """:func:`log_cell` of each column; rows are its arguments."""
    logs = np.empty(columns.shape[1])
    for i in range(columns.shape[1]):
        x, n0, alpha, inflation_h0 = columns[0, i], columns[1, i], columns[2, i], columns[3, i]
        y, n1, beta, inflation_h1 = columns[4, i], columns[5, i], columns[6, i], columns[7, i]
        logs[i] = log_cell(x, n0, alpha, inflation_h0, y, n1, beta, inflation_h1, columns[8, i])
    return logs


@compiled
def log_cells_on_grid(ends_x: FloatArray, ends_y: FloatArray, r: FloatArray) -> FloatArray:
    """Log probabilities (correlation, x, y) of cells given by their ends, in two rows each."""
    logs = np.empty((len(r), ends_x.shape[1], ends_y.shape[1]))
    for k in range(len(r)):
        for i in range(ends_x.shape[1]):
            for j in range(ends_y.shape[1]):
                logs[k, i, j] = log_rectangle(
                    ends_x[0, i], ends_x[1, i], ends_y[0, j], ends_y[1, j], r[k]
                )
    return logs
