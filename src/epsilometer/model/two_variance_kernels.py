"""Compiled loops over normal scores of two variances, ordered by their distance from a vertex."""

import math

from numba import njit

from epsilometer._arrays import FloatArray
from epsilometer.model.noise_kernels import MOST_STEPS, SMALL_STEP, newton


@njit(nogil=True, cache=True)
def _upper(x: float) -> float:
    """Normal probability above x."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


@njit(nogil=True, cache=True)
def _beyond(distance: float, centre: float, width: float) -> float:
    """Probability that a normal value is farther from 0 than a distance."""
    return _upper((distance - centre) / width) + _upper((distance + centre) / width)


@njit(nogil=True, cache=True)
def _within(distance: float, centre: float, width: float) -> float:
    """Probability of a smaller distance, as a difference of tails on one side of the mean."""
    return _upper((centre - distance) / width) - _upper((centre + distance) / width)


@njit(nogil=True, cache=True)
def _density(distance: float, centre: float, width: float) -> float:
    near, far = (distance - centre) / width, (distance + centre) / width
    return (math.exp(-near * near / 2) + math.exp(-far * far / 2)) / (
        math.sqrt(2 * math.pi) * width
    )


@njit(nogil=True, cache=True)
def distances_with(
    share: FloatArray, centre: FloatArray, width: FloatArray, part: float, out: FloatArray
) -> None:
    """The distance exceeded by a share of a mixture, ``part`` of it of the wider values.

    ``centre`` is the distance of the narrower mean; that of the other is larger by the width squared.
    """
    for k in range(len(centre)):
        near, wide = centre[k], width[k]
        far = near * wide * wide
        x = (1 - part) * near + part * far
        for j in range(len(share)):
            wanted = share[j]
            if wanted <= 0 or wanted >= 1:
                out[j, k] = math.inf if wanted <= 0 else 0.0
                continue
            low, high = 0.0, max(near, far) + 40 * wide
            # Of the smaller tail, as a decreasing function.
            side = 1.0 if wanted <= 0.5 else -1.0
            target = math.log(wanted if side > 0 else 1 - wanted)
            for _ in range(MOST_STEPS):
                if side > 0:
                    tail = (1 - part) * _beyond(x, near, 1.0) + part * _beyond(x, far, wide)
                else:
                    tail = (1 - part) * _within(x, near, 1.0) + part * _within(x, far, wide)
                density = (1 - part) * _density(x, near, 1.0) + part * _density(x, far, wide)
                excess = (math.log(tail) if tail > 0 else -math.inf) - target
                slope = -density / tail if tail > 0 else 0.0
                new, low, high = newton(x, side * excess, slope, low, high)
                moved = abs(new - x)
                x = new
                if moved <= SMALL_STEP * x:
                    break
            out[j, k] = x


@njit(nogil=True, cache=True)
def divergences(
    centre: float, width: float, leak: float, epsilon: float
) -> tuple[float, float, float, float]:
    """Hockey-stick divergences at e^epsilon, and what each loses as epsilon grows.

    Of the wider from the narrower, and the reverse.
    """
    far = centre * width * width
    grow = math.exp(min(epsilon, 700.0))
    # The log ratio of the wider exceeds epsilon beyond a distance, and is below -epsilon within one.
    edge = math.sqrt(max(far * (centre + 2 * (math.log(width) + epsilon) / leak), 0.0))
    lost_wide = grow * _beyond(edge, centre, 1.0)
    wide = _beyond(edge, far, width) - lost_wide
    edge = math.sqrt(max(far * (centre + 2 * (math.log(width) - epsilon) / leak), 0.0))
    lost_narrow = grow * _within(edge, far, width)
    narrow = _within(edge, centre, 1.0) - lost_narrow
    return max(wide, 0.0), max(narrow, 0.0), lost_wide, lost_narrow


@njit(nogil=True, cache=True)
def all_divergences(
    centre: FloatArray,
    width: FloatArray,
    leak: FloatArray,
    epsilon: FloatArray,
    wide: FloatArray,
    narrow: FloatArray,
) -> None:
    """`divergences` of many."""
    for k in range(len(leak)):
        wide[k] = narrow[k] = 0.0
        if leak[k] > 0:
            wide[k], narrow[k], _, _ = divergences(centre[k], width[k], leak[k], epsilon[k])


@njit(nogil=True, cache=True)
def epsilons(
    centre: FloatArray, width: FloatArray, leak: FloatArray, delta: float, out: FloatArray
) -> None:
    """Least epsilon at delta > 0, by Newton's method for the log divergence, safeguarded."""
    for k in range(len(leak)):
        out[k] = 0.0
        if leak[k] <= 0:
            continue
        low, high, x = 0.0, math.inf, out[k - 1] if k else 0.0
        for _ in range(MOST_STEPS):
            wide, narrow, lost_wide, lost_narrow = divergences(centre[k], width[k], leak[k], x)
            largest, lost = (wide, lost_wide) if wide >= narrow else (narrow, lost_narrow)
            excess, slope = -1.0, 0.0
            if largest > 0:
                excess, slope = math.log(largest) - math.log(delta), -lost / largest
            new, low, high = newton(x, excess, slope, low, high)
            moved = abs(new - x)
            x = new
            if moved <= SMALL_STEP * (1 + x) or high == 0:
                break
        out[k] = x if high > 0 else 0.0
