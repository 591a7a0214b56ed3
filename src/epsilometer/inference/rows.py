"""Rows: for one epsilon, the likelihood as a function of the strength, on panels of [0, 1].

A row keeps the likelihood apart from the prior of the strength, because the likelihood is smooth
where a Beta prior need not be: the panels that touch 0 and 1 carry Gauss-Jacobi nodes, which absorb
s^(a-1) and (1-s)^(b-1) exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import panels
from epsilometer.model.priors import Beta

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Nodes in (0, 1) of a reference panel, Gauss weights, and weights for interpolation."""

    nodes: FloatArray
    weights: FloatArray
    barycentric: FloatArray


@lru_cache(maxsize=64)
def rule(count: int, left: float, right: float) -> Rule:
    """Gauss rule on [0, 1] for the weight x^left (1 - x)^right."""
    if left == 0 and right == 0:
        points, weights = panels.gauss_legendre(count)
        nodes, weights = 0.5 * (1 + points), 0.5 * weights
    else:
        from scipy.special import roots_jacobi

        points, weights = roots_jacobi(count, right, left)
        nodes, weights = 0.5 * (1 + points), weights / 2 ** (1 + left + right)
    gaps = nodes[:, None] - nodes[None, :]
    np.fill_diagonal(gaps, 1.0)
    # Products of gaps span hundreds of orders of magnitude only for large counts; ours are small.
    barycentric = 1 / np.prod(4 * gaps, axis=1)
    return Rule(nodes=nodes, weights=weights, barycentric=barycentric)


@dataclass(frozen=True, kw_only=True)
class StrengthPanels:
    """Quadrature over the strength for one row: nodes and prior-weighted weights on panels."""

    breaks: FloatArray
    nodes: FloatArray
    log_weights: FloatArray
    barycentric: FloatArray


def strength_panels(breaks: FloatArray, prior: Beta, count: int) -> StrengthPanels:
    """Panels between the given breaks of [0, 1], first 0 and last 1."""
    number = len(breaks) - 1
    nodes, logs, barycentric = [], [], []
    for index in range(number):
        left = prior.a - 1 if index == 0 else 0.0
        right = prior.b - 1 if index == number - 1 else 0.0
        reference = rule(count, left, right)
        width = breaks[index + 1] - breaks[index]
        s = breaks[index] + width * reference.nodes
        log_weight = np.log(reference.weights) + (1 + left + right) * np.log(width)
        # What the rule has absorbed is not evaluated again.
        if prior.a != 1 and index > 0:
            log_weight = log_weight + (prior.a - 1) * np.log(s)
        if prior.b != 1 and index < number - 1:
            log_weight = log_weight + (prior.b - 1) * np.log1p(-s)
        nodes.append(s)
        logs.append(log_weight + prior.log_constant)
        barycentric.append(reference.barycentric)
    return StrengthPanels(
        breaks=breaks,
        nodes=np.stack(nodes),
        log_weights=np.stack(logs),
        barycentric=np.stack(barycentric),
    )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One epsilon: log likelihood at (panel, node, nuisance node) and the quadrature it belongs to."""

    epsilon: float
    quadrature: StrengthPanels
    log_likelihood: FloatArray

    def evaluate(self, strength: FloatArray, values: FloatArray) -> FloatArray:
        """Interpolate ``values`` (panel, node), given at this row's nodes, to other strengths."""
        quadrature = self.quadrature
        panel = np.clip(
            np.searchsorted(quadrature.breaks, strength, side="right") - 1, 0, len(values) - 1
        )
        gap = strength[:, None] - quadrature.nodes[panel]
        exact = np.abs(gap) < 1e-15
        term = quadrature.barycentric[panel] / np.where(exact, 1.0, gap)
        found = np.sum(term * values[panel], axis=1) / np.sum(term, axis=1)
        hit = exact.any(axis=1)
        found[hit] = np.sum(np.where(exact, values[panel], 0.0), axis=1)[hit]
        return np.asarray(found)
