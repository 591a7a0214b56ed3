"""Slow, obvious twins of the exact engine: no fluxes, no panels, nothing shared with it.

That of independent counts is in `stated_error_oracle.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import epsilometer as em
from epsilometer.model import region

FloatArray = NDArray[np.float64]

#: Weights and values of the nuisance parameters.
Nodes = list[tuple[float, dict[str, float]]]


def ring_area(epsilon: FloatArray, delta: float, strength: FloatArray) -> FloatArray:
    """The area formula of the paper as printed."""

    def q(t: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-t) / (1 + np.exp(-t)))

    return np.asarray(
        2 * ((1 - strength * delta) ** 2 * q(strength * epsilon) - (1 - delta) ** 2 * q(epsilon))
    )


def square_quantiles(
    likelihood: Any,
    counts: em.AttackCounts,
    delta: float,
    probabilities: list[float],
    nodes: Nodes,
    *,
    size: int = 250,
) -> FloatArray:
    """Quantiles of epsilon from sums over points of the square by their critical epsilon."""
    angle = (np.arange(size) + 0.5) / size * np.pi / 2
    rate, step = np.sin(angle) ** 2, np.sin(2 * angle)
    alpha, beta = rate[:, None], rate[None, :]
    epsilon = np.asarray((np.arange(260) + 0.5) * 0.05, dtype=np.float64)
    strengths = (np.arange(24) + 0.5) / 24
    orders = []
    for s in (1.0, *strengths.tolist()):
        critical = region.critical_epsilon(alpha, beta, s * delta).ravel()
        order = np.argsort(critical)
        orders.append((order, np.searchsorted(critical[order], s * epsilon, side="right")))
    areas = [np.exp(region.log_ring_area(epsilon, delta, s)) for s in strengths]
    post = np.zeros(len(epsilon))
    for weight, at in nodes:
        product = np.ones((len(strengths), len(epsilon)))
        for base in range(len(counts)):
            one = counts.take(np.array([base]))
            logs = likelihood.log_density(one, alpha[..., None], beta[..., None], **at)[..., 0]
            mass = (np.exp(logs) * step[:, None] * step).ravel()
            inside = []
            for order, index in orders:
                inside.append(np.append(0.0, np.cumsum(mass[order]))[index])
            for k, area in enumerate(areas):
                product[k] *= (inside[0] - inside[k + 1]) / area
        post += weight * product.sum(axis=0)
    post *= np.exp(-0.5 * epsilon**2 / 10)
    return quantile(epsilon, post / post.sum(), probabilities)


def quantile(points: FloatArray, weight: FloatArray, probability: list[float]) -> FloatArray:
    """Quantiles of a midpoint-grid density, linear between cell edges."""
    step = points[1] - points[0]
    edges = np.append(points - step / 2, points[-1] + step / 2)
    cumulative = np.append(0.0, np.cumsum(weight))
    return np.asarray(np.interp(probability, cumulative / cumulative[-1], edges))
