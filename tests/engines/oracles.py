"""Slow, obvious twins of the exact engine: no fluxes, no panels, nothing shared with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RectBivariateSpline
from scipy.stats import beta as beta_distribution

FloatArray = NDArray[np.float64]


def region_mass(
    x: int, n0: int, y: int, n1: int, t: FloatArray, d: FloatArray, points: int = 600
) -> FloatArray:
    """P((alpha, beta) in R(t, d)) for Beta(X+1, N0-X+1) and Beta(Y+1, N1-Y+1), by plain quadrature.

    alpha runs over quantiles of its own distribution, dense towards both ends; beta's distribution
    function is evaluated at the two edges of the region.
    """
    angle = np.pi * (np.arange(points) + 0.5) / points
    share = 0.5 * np.pi / points * np.sin(angle)
    alpha = beta_distribution.ppf(0.5 - 0.5 * np.cos(angle), x + 1, n0 - x + 1)

    def lower(rate: FloatArray, t: float, d: float) -> FloatArray:
        edge = np.maximum(1 - d - np.exp(t) * rate, np.exp(-t) * (1 - d - rate))
        return np.asarray(np.clip(edge, 0.0, 1.0))

    masses = []
    for level, gap in zip(np.ravel(t).tolist(), np.ravel(d).tolist(), strict=True):
        low = lower(alpha, level, gap)
        high = 1 - lower(1 - alpha, level, gap)
        inside = beta_distribution.cdf(high, y + 1, n1 - y + 1) - beta_distribution.cdf(
            low, y + 1, n1 - y + 1
        )
        masses.append(np.sum(share * np.maximum(inside, 0.0)))
    return np.array(masses).reshape(np.shape(t))


def ring_area(epsilon: FloatArray, delta: float, strength: FloatArray) -> FloatArray:
    """The area formula of the paper as printed."""

    def q(t: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-t) / (1 + np.exp(-t)))

    return np.asarray(
        2 * ((1 - strength * delta) ** 2 * q(strength * epsilon) - (1 - delta) ** 2 * q(epsilon))
    )


def brute_force_posterior(
    counts: list[tuple[int, int, int, int]],
    delta: float,
    *,
    prior_scale: float = 10**0.5,
    epsilon_range: tuple[float, float] = (0.0, 12.0),
    size: int = 120,
    strength_size: int | None = None,
    with_area: bool = True,
    with_jacobian_twist: bool = False,
) -> dict[str, FloatArray]:
    """Posterior of (epsilon, s) on a midpoint grid: densities over epsilon and over strength.

    ``with_area=False`` and ``with_jacobian_twist=True`` are deliberate mistakes (the area term left
    out; the prior divided by epsilon, as in the scripts behind the paper's figures 2 and 3).
    """
    low, high = epsilon_range
    epsilon = low + (high - low) * (np.arange(size) + 0.5) / size
    count = strength_size or size
    strength = (np.arange(count) + 0.5) / count
    e, s = np.meshgrid(epsilon, strength, indexing="ij")
    logs = -0.5 * (e / prior_scale) ** 2
    if with_jacobian_twist:
        logs = logs - np.log(e)
    # Masses on a fine mesh of (t, d), with splines between: hundreds of thousands of Beta
    # distribution functions instead of hundreds of millions.
    t_mesh = np.linspace(0.0, np.sqrt(high), 110) ** 2
    d_mesh = np.linspace(0.0, max(delta, 1e-12), 5 + int(80 * delta))
    tt, dd = np.meshgrid(t_mesh, d_mesh, indexing="ij")
    for x, n0, y, n1 in counts:
        spline = RectBivariateSpline(t_mesh, d_mesh, region_mass(x, n0, y, n1, tt, dd))
        whole = spline.ev(epsilon, np.full(size, delta))[:, None]
        core = spline.ev(s * e, s * delta)
        logs = logs + np.log(np.maximum(whole - core, 1e-300))
        if with_area:
            logs = logs - np.log(ring_area(e, delta, s))
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    return {
        "epsilon": epsilon,
        "epsilon_weight": weight.sum(axis=1),
        "strength": strength,
        "strength_weight": weight.sum(axis=0),
    }


def quantile(points: FloatArray, weight: FloatArray, probability: list[float]) -> FloatArray:
    """Quantiles of a midpoint-grid density, linear between cell edges."""
    step = points[1] - points[0]
    edges = np.append(points - step / 2, points[-1] + step / 2)
    cumulative = np.append(0.0, np.cumsum(weight))
    return np.asarray(np.interp(probability, cumulative / cumulative[-1], edges))
