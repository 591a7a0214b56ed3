"""Uniform points on many rings R_s(epsilon, delta) at once, one ring a point.

:func:`epsilometer.model.region.sample_ring` draws many points of one ring, by solving for the curve
on which each point lies.  Where every point has a ring of its own, as in predictions from a
posterior, the closed form here is quicker: a quarter of a ring is a convex quadrilateral, that is,
two triangles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError


def sample_rings(
    epsilon: ArrayLike,
    delta: float,
    strength: ArrayLike,
    *,
    size: tuple[int, ...] | None = None,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draw points (alpha, beta), each uniform on its own ring R_s(epsilon, delta), independently.

    What R(t, d) leaves out of the quarter beta <= alpha, alpha + beta <= 1 is a triangle with the
    corners (0, 0), (1 - d, 0) and (c, c), c = (1 - d) / (1 + e^t).  So a quarter of the ring, in
    the core's triangle and not in that of the region, is the quadrilateral with the corners

        A = (1 - delta, 0), B = (1 - s delta, 0), C = (c_s, c_s), D = (c_1, c_1),

    the triangles ABC and ACD side by side.  Their areas are compared after division by
    (1 - s) / (1 + e^(s epsilon)), which leaves sums of positive terms: nothing cancels as s -> 1
    and nothing underflows.

    Parameters
    ----------
    epsilon
        At least 0 and finite, any shape.  Where both epsilon and delta are 0 the points follow the
        limit epsilon -> 0 and lie on the line alpha + beta = 1.
    delta
        In [0, 1).
    strength
        In [0, 1], broadcast against epsilon.  At 1 the triangles have no width and the points
        follow the limit s -> 1: they lie on the boundary curve of R(epsilon, delta), denser where
        it moves faster.
    size
        Shape of the result, to which epsilon and strength broadcast; their own unless given.

    Returns
    -------
    tuple of arrays
        alpha and beta, in the ring up to rounding.

    Examples
    --------
    >>> alpha, beta = sample_rings(
    ...     [[0.5], [3.0]], 0.01, [[0.0], [1.0]], size=(2, 4), rng=np.random.default_rng(1)
    ... )
    >>> alpha.shape
    (2, 4)
    >>> from epsilometer.model.region import critical_epsilon
    >>> np.round(critical_epsilon(alpha[1], beta[1], 0.01), 9).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    delta = _validate.delta(delta)
    epsilon, strength = np.asarray(epsilon, dtype=float), np.asarray(strength, dtype=float)
    outside = ~((epsilon >= 0) & (epsilon < np.inf))
    if outside.any():
        raise InputError(f"expected finite epsilon >= 0, got epsilon={epsilon[outside][0]}.")
    outside = ~((strength >= 0) & (strength <= 1))
    if outside.any():
        raise InputError(f"expected 0 <= strength <= 1, got strength={strength[outside][0]}.")
    shape = np.broadcast_shapes(epsilon.shape, strength.shape) if size is None else size
    inner, gap = strength * epsilon, (1 - strength) * epsilon
    inner_corner = (1 - strength * delta) * _diagonal(inner)
    outer_corner = (1 - delta) * _diagonal(epsilon)
    # (1 - e^-gap) / gap, which is 1 at gap = 0.
    quotient = np.where(gap > 0, -np.expm1(-gap) / np.where(gap > 0, gap, 1.0), 1.0)
    growth = (1 - delta) * epsilon * quotient / (1 + np.exp(-epsilon))
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
    return np.where(reflect, 1 - alpha, alpha), np.where(reflect, 1 - beta, beta)


def _diagonal(epsilon: FloatArray) -> FloatArray:
    """1 / (1 + e^epsilon), without overflow."""
    small = np.exp(-epsilon)
    return np.asarray(small / (1 + small))
