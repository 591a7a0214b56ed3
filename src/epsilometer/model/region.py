"""The region R(epsilon, delta) of error rates that differential privacy allows, and its rings.

Pure geometry: no counts, no priors, no inference.  Theorem 1 of the paper (after Kairouz et al.,
2017): an attack on an (epsilon, delta)-DP algorithm has its error rates (alpha, beta) in

    R(epsilon, delta) = {alpha + e^epsilon beta >= 1 - delta, beta + e^epsilon alpha >= 1 - delta,
                         and the same for (1 - alpha, 1 - beta)}.

The rates of an attack of strength s are in the ring R_s(epsilon, delta) = R(epsilon, delta) minus
R(s epsilon, s delta), the paper's equation (2).  Everything broadcasts like NumPy: epsilon >= 0,
delta in [0, 1), and strength, alpha and beta in [0, 1].
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, exprel

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer.errors import InputError


def _nonnegative_epsilon(epsilon: ArrayLike) -> FloatArray:
    array = np.asarray(epsilon, dtype=float)
    if not np.all(array >= 0):
        raise InputError(f"expected epsilon >= 0, got epsilon={array.min()}.")
    return array


def _unit(name: str, value: ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=float)
    if not np.all((array >= 0) & (array <= 1)):
        bad = array[~((array >= 0) & (array <= 1))].flat[0]
        raise InputError(f"expected 0 <= {name} <= 1, got {name}={bad}.")
    return array


def log_area(epsilon: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Return the logarithm of the area of R(epsilon, delta).

    The area is 1 - 2 (1 - delta)^2 / (1 + e^epsilon), written here as
    tanh(epsilon / 2) + 2 delta (2 - delta) / (1 + e^epsilon), a sum of positive terms, so it is
    good to machine precision for epsilon near 0 and for large epsilon.  Epsilon = 0, the strip
    |alpha + beta - 1| <= delta, gives -inf if delta = 0.

    Examples
    --------
    >>> round(float(np.exp(log_area(1.0, 0.1))), 6)
    0.564315
    """
    delta, epsilon = np.asarray(delta, dtype=float), _nonnegative_epsilon(epsilon)
    for end in (delta.min(), delta.max()):
        _validate.delta(float(end))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.tanh(epsilon / 2) + 2 * delta * (2 - delta) * expit(-epsilon)))


def log_ring_area(epsilon: ArrayLike, delta: float, strength: ArrayLike) -> FloatArray:
    """Return the logarithm of the area of the ring R_s(epsilon, delta).

    With q(e) = 1 / (1 + e^e) the area is 2 [(1 - s delta)^2 q(s epsilon) - (1 - delta)^2 q(epsilon)].
    Both differences inside are taken analytically, in powers of 1 - s, so nothing cancels as s -> 1.
    At s = 1 the ring is the boundary curve and the result is -inf; :func:`log_ring_area_rate` returns
    the limit of area / (1 - s).

    Examples
    --------
    >>> round(float(np.exp(log_ring_area(1.0, 0.1, 0.6))), 6)
    0.190511
    """
    delta = _validate.delta(delta)
    epsilon = _nonnegative_epsilon(epsilon)
    strength = _unit("strength", strength)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-strength) + _log_ring_area_over_gap(epsilon, delta, strength))


def log_ring_area_rate(epsilon: ArrayLike, delta: float) -> FloatArray:
    """Return log of the limit of |R_s(epsilon, delta)| / (1 - s) as s -> 1.

    It is d/du |R(u epsilon, u delta)| at u = 1, the rate at which the region grows along its ray.

    Examples
    --------
    >>> gap = 1e-6
    >>> rate = log_ring_area_rate(2.0, 0.01)
    >>> bool(abs(log_ring_area(2.0, 0.01, 1 - gap) - np.log(gap) - rate) < 1e-5)
    True
    """
    delta = _validate.delta(delta)
    epsilon = _nonnegative_epsilon(epsilon)
    return _log_ring_area_over_gap(epsilon, delta, np.asarray(1.0))


def _log_ring_area_over_gap(epsilon: FloatArray, delta: float, strength: FloatArray) -> FloatArray:
    """log(|R_s| / (1 - s)) from a sum of positive terms, in logarithms so that none underflows."""
    inner = strength * epsilon
    gap = (1 - strength) * epsilon
    # q(inner) - q(epsilon) = e^-inner (1 - e^-gap) / ((1 + e^-inner)(1 + e^-epsilon)).
    with np.errstate(divide="ignore"):
        corner = np.log(epsilon) + 2 * np.log1p(-strength * delta) + np.log(exprel(-gap))
        corner = corner - inner - np.log1p(np.exp(-inner)) - np.log1p(np.exp(-epsilon))
        edge = np.log(delta * (2 - delta * (1 + strength))) - epsilon - np.log1p(np.exp(-epsilon))
    return np.asarray(np.log(2.0) + np.logaddexp(corner, edge))


def _reflected(alpha: FloatArray, beta: FloatArray, where: BoolArray) -> FloatPair:
    """(1 - alpha, 1 - beta) where ``where`` is true."""
    return np.where(where, 1 - alpha, alpha), np.where(where, 1 - beta, beta)


def critical_epsilon(alpha: ArrayLike, beta: ArrayLike, delta: float) -> FloatArray:
    """Return the least epsilon whose region R(epsilon, delta) contains (alpha, beta).

    For alpha + beta <= 1 this is max(0, log((1 - delta - alpha) / beta),
    log((1 - delta - beta) / alpha)), where an argument <= 0 counts as -inf and a zero divisor under
    a positive numerator as +inf; for alpha + beta > 1 the point is reflected first.

    Examples
    --------
    >>> round(float(critical_epsilon(0.4, 0.4, 0.01)), 6)
    0.388658
    >>> float(critical_epsilon(0.0, 0.5, 0.0))
    inf
    """
    delta = _validate.delta(delta)
    alpha, beta = np.broadcast_arrays(_unit("alpha", alpha), _unit("beta", beta))
    alpha, beta = _reflected(alpha, beta, alpha + beta > 1)

    def log_quotient(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(numerator) - np.log(denominator)
        return np.asarray(np.where(numerator <= 0, -np.inf, value))

    return np.maximum(
        0.0,
        np.maximum(log_quotient(1 - delta - alpha, beta), log_quotient(1 - delta - beta, alpha)),
    )


def beta_limits(alpha: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> FloatPair:
    """Return the least and the largest beta in R(epsilon, delta) for each alpha.

    The least is max(0, e^-epsilon (1 - delta - alpha), 1 - delta - e^epsilon alpha); the largest is 1
    minus the least at 1 - alpha.  R(epsilon, delta) is convex and extends from alpha = 0 to 1, so the
    interval is never empty; at epsilon = delta = 0 it is the point 1 - alpha.  Arguments are not
    checked: this is for inner loops.

    Examples
    --------
    >>> low, high = beta_limits(0.1, 1.0, 0.0)
    >>> round(float(low), 6), round(float(high), 6)
    (0.728172, 0.963212)
    """
    alpha = np.asarray(alpha, dtype=float)
    epsilon, delta = np.asarray(epsilon, dtype=float), np.asarray(delta, dtype=float)
    shrink, grow = np.exp(-epsilon), np.exp(np.minimum(epsilon, 700.0))

    def least(rate: FloatArray) -> FloatArray:
        flat, steep = shrink * (1 - delta - rate), 1 - delta - grow * rate
        return np.asarray(np.maximum(np.maximum(flat, steep), 0.0))

    return least(alpha), 1 - least(1 - alpha)


def contains(alpha: ArrayLike, beta: ArrayLike, epsilon: ArrayLike, delta: float) -> BoolArray:
    """Return whether (alpha, beta) lies in R(epsilon, delta), boundary included.

    Examples
    --------
    >>> bool(contains(0.4, 0.4, 0.5, 0.0)), bool(contains(0.4, 0.4, 0.4, 0.0))
    (True, False)
    """
    return np.asarray(_nonnegative_epsilon(epsilon) >= critical_epsilon(alpha, beta, delta))


def sample_rings(
    epsilon: ArrayLike,
    delta: float,
    strength: ArrayLike,
    *,
    size: tuple[int, ...] | None = None,
    rng: np.random.Generator,
) -> FloatPair:
    """Draw points (alpha, beta), each uniform on its own ring R_s(epsilon, delta), independently.

    A quarter of a ring is a convex quadrilateral, that is, two triangles.

    The part of the quarter beta <= alpha, alpha + beta <= 1 outside R(t, d) is a triangle with the
    corners (0, 0), (1 - d, 0) and (c, c), c = (1 - d) / (1 + e^t).  So a quarter of the ring, inside
    the core's triangle and outside that of the region, is the quadrilateral with the corners

        A = (1 - delta, 0), B = (1 - s delta, 0), C = (c_s, c_s), D = (c_1, c_1),

    the triangles ABC and ACD side by side.  Their areas are compared after division by
    (1 - s) / (1 + e^(s epsilon)), which leaves sums of positive terms: nothing cancels as s -> 1
    and nothing underflows.

    Where both epsilon and delta are 0 the points follow the limit epsilon -> 0 and lie on the line
    alpha + beta = 1.  At s = 1 the triangles have no width and the points follow the limit s -> 1: they
    lie on the boundary curve of R(epsilon, delta), denser where it moves faster.  ``size`` is the shape
    of the result, to which epsilon and strength broadcast; by default their broadcast shape.

    Examples
    --------
    >>> alpha, beta = sample_rings(
    ...     [[0.5], [3.0]], 0.01, [[0.0], [1.0]], size=(2, 4), rng=np.random.default_rng(1)
    ... )
    >>> alpha.shape
    (2, 4)
    >>> np.round(critical_epsilon(alpha[1], beta[1], 0.01), 9).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    delta = _validate.delta(delta)
    epsilon = np.asarray(epsilon, dtype=float)
    outside = ~((epsilon >= 0) & (epsilon < np.inf))
    if outside.any():
        raise InputError(f"expected finite epsilon >= 0, got epsilon={epsilon[outside][0]}.")
    strength = _unit("strength", strength)
    shape = np.broadcast_shapes(epsilon.shape, strength.shape) if size is None else size
    inner, gap = strength * epsilon, (1 - strength) * epsilon
    inner_corner = (1 - strength * delta) * expit(-inner)
    outer_corner = (1 - delta) * expit(-epsilon)
    growth = (1 - delta) * epsilon * exprel(-gap) / (1 + np.exp(-epsilon))
    first_area = delta * (1 - strength * delta)
    second_area = (1 - delta) * (delta + growth)
    whole = first_area + second_area
    # With no area at all (epsilon = delta = 0) the second triangle alone is the limit.
    first_share = first_area / np.where(whole > 0, whole, 1.0)

    first = rng.random(shape) < first_share
    # Uniform weights of three corners: the root because a triangle widens away from A.
    away, towards = np.sqrt(rng.random(shape)), rng.random(shape)
    from_c, from_third = away * (1 - towards), away * towards
    beta = from_c * inner_corner + np.where(first, 0.0, from_third * outer_corner)
    alpha = (1 - away) * (1 - delta) + from_c * inner_corner
    alpha += from_third * np.where(first, 1 - strength * delta, outer_corner)
    np.minimum(alpha, 1.0, out=alpha)  # A guard: the weights add to 1 only up to rounding.
    quarter = rng.integers(4, size=shape, dtype=np.int8)
    swap, reflect = (quarter & 1).astype(bool), quarter >= 2
    alpha, beta = np.where(swap, beta, alpha), np.where(swap, alpha, beta)
    return _reflected(alpha, beta, reflect)
