"""Rows: for each of many epsilons, the likelihood as a function of the strength, on panels of [0, 1].

Rows keep the likelihood apart from the prior of the strength, because the likelihood is smooth where
a Beta prior need not be: the panels that touch 0 and 1 carry Gauss-Jacobi nodes, which absorb
s^(a-1) and (1-s)^(b-1) exactly.  Rows are stored as rectangles; a row with fewer panels than the
widest is filled up with panels of weight zero.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    return Rule(nodes=nodes, weights=weights, barycentric=1 / np.prod(4 * gaps, axis=1))


@dataclass(frozen=True, kw_only=True)
class StrengthPanels:
    """Quadrature over the strength for each row.

    ``breaks`` is (row, panel + 1), filled up with 1; ``used`` counts a row's own panels; ``nodes``,
    ``log_weights`` (prior included, -inf where unused) and ``barycentric`` are (row, panel, node).
    """

    breaks: FloatArray
    used: NDArray[np.intp]
    nodes: FloatArray
    log_weights: FloatArray
    barycentric: FloatArray


def strength_panels(breaks: Sequence[FloatArray], prior: Beta, count: int) -> StrengthPanels:
    """Panels between each row's breaks of [0, 1], first 0 and last 1."""
    used = np.array([len(row) - 1 for row in breaks])
    padded = np.ones((len(breaks), int(used.max()) + 1))
    for index, row in enumerate(breaks):
        padded[index, : len(row)] = row
    low, width = padded[:, :-1, None], np.diff(padded, axis=1)[:, :, None]
    position = np.arange(used.max())
    first = np.broadcast_to(position == 0, low.shape[:2])
    last = position == used[:, None] - 1
    live = (position < used[:, None])[:, :, None]
    nodes = np.empty((*low.shape[:2], count))
    logs, barycentric = np.empty_like(nodes), np.empty_like(nodes)
    for at_start in (False, True):
        for at_end in (False, True):
            which = (first == at_start) & (last == at_end)
            left, right = at_start * (prior.a - 1), at_end * (prior.b - 1)
            reference = rule(count, left, right)
            span = width[which]
            nodes[which] = low[which] + span * reference.nodes
            barycentric[which] = reference.barycentric
            power = np.log(np.where(span > 0, span, 1.0)) * (1 + left + right)
            logs[which] = np.log(reference.weights) + power
    # What a rule has absorbed is not evaluated again.
    inner = np.clip(nodes, 1e-300, 1 - 1e-16)
    if prior.a != 1:
        logs += np.where(first[:, :, None], 0.0, (prior.a - 1) * np.log(inner))
    if prior.b != 1:
        logs += np.where(last[:, :, None], 0.0, (prior.b - 1) * np.log1p(-inner))
    return StrengthPanels(
        breaks=padded,
        used=used,
        nodes=nodes,
        log_weights=np.where(live, logs + prior.log_constant, -np.inf),
        barycentric=barycentric,
    )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of log likelihood, shape (row, panel, node, nuisance node), and their quadrature."""

    epsilon: FloatArray
    quadrature: StrengthPanels
    log_likelihood: FloatArray

    def log_integral(self) -> FloatArray:
        """Log of the integral over the strength, shape (row, nuisance node)."""
        logs = self.log_likelihood + self.quadrature.log_weights[..., None]
        top = np.maximum(logs.max(axis=(1, 2)), -1e300)
        total = np.exp(logs - top[:, None, None]).sum(axis=(1, 2))
        return np.asarray(top + np.log(np.maximum(total, 1e-300)))

    def interpolate(self, values: FloatArray, strength: FloatArray) -> FloatArray:
        """Interpolate ``values`` (row, panel, node) to common strengths: (row, strength)."""
        quadrature = self.quadrature
        inner = quadrature.breaks[:, 1:-1]
        panel = (inner[:, :, None] <= strength).sum(axis=1)
        panel = np.minimum(panel, quadrature.used[:, None] - 1)
        row = np.arange(len(panel))[:, None]
        gap = strength[None, :, None] - quadrature.nodes[row, panel]
        exact = np.abs(gap) < 1e-15
        terms = quadrature.barycentric[row, panel] / np.where(exact, 1e-15, gap)
        return np.asarray((terms * values[row, panel]).sum(axis=-1) / terms.sum(axis=-1))


def stack(parts: Sequence[Rows]) -> Rows:
    """Put sets of rows with different numbers of panels one after the other."""
    most = max(part.log_likelihood.shape[1] for part in parts)

    def widen(array: FloatArray, value: float) -> FloatArray:
        padding = [(0, 0)] * array.ndim
        padding[1] = (0, most - array.shape[1])
        return np.pad(array, padding, constant_values=value)

    return Rows(
        epsilon=np.concatenate([part.epsilon for part in parts]),
        quadrature=StrengthPanels(
            breaks=np.concatenate(
                [
                    np.pad(
                        part.quadrature.breaks,
                        [(0, 0), (0, most + 1 - part.quadrature.breaks.shape[1])],
                        constant_values=1.0,
                    )
                    for part in parts
                ]
            ),
            used=np.concatenate([part.quadrature.used for part in parts]),
            nodes=np.concatenate([widen(part.quadrature.nodes, 0.5) for part in parts]),
            log_weights=np.concatenate(
                [widen(part.quadrature.log_weights, -np.inf) for part in parts]
            ),
            barycentric=np.concatenate([widen(part.quadrature.barycentric, 1.0) for part in parts]),
        ),
        log_likelihood=np.concatenate([widen(part.log_likelihood, 0.0) for part in parts]),
    )
