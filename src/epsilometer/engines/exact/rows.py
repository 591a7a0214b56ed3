"""Rows: for each of many epsilons, the likelihood as a function of the strength, on panels of [0, 1].

Rows keep the likelihood separate from the prior of the strength, because the likelihood is smooth where
a Beta prior may not be: panels that touch 0 and 1 use Gauss-Jacobi nodes, which absorb s^(a-1) and
(1-s)^(b-1) exactly.  Rows are stored as rectangles; shorter rows are padded with panels of weight zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer._arrays import BoolArray, Columns, FloatArray, IndexArray
from epsilometer.model.priors import StrengthPrior
from epsilometer.posteriors.panels import rule

Places = tuple[IndexArray, IndexArray]


@dataclass(frozen=True, kw_only=True)
class StrengthPanels(Columns):
    """Quadrature over the strength for each row.

    ``breaks`` is (row, panel + 1), padded with 1; ``used`` is the number of panels of each row;
    ``nodes``, ``log_weights`` (with prior, -inf if unused) and ``barycentric`` are (row, panel, node).
    """

    breaks: FloatArray
    used: IndexArray
    nodes: FloatArray
    log_weights: FloatArray
    barycentric: FloatArray

    def _panels(self, epsilon: FloatArray) -> tuple[Places, NDArray[np.void]]:
        """Row and column of each panel in use, and its epsilon and ends as one value."""
        row, column = np.nonzero(np.arange(len(self.breaks[0]) - 1) < self.used[:, None])
        ends = self.breaks[row, column], self.breaks[row, column + 1]
        keys = np.stack([epsilon[row], *ends], axis=1).view("V24")
        return (row, column), keys.ravel()

    def shared_panels(self, epsilon: FloatArray, known: Rows) -> tuple[Places, Places]:
        """Panels that other rows share at the same epsilon: their positions here and there."""
        here, mine = self._panels(epsilon)
        there, theirs = known.quadrature._panels(known.epsilon)
        _, i, j = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
        return (here[0][i], here[1][i]), (there[0][j], there[1][j])


def panel_kinds(
    used: IndexArray, powers: tuple[float, float]
) -> Iterator[tuple[BoolArray, float, float]]:
    """Which panels (row, panel) share a rule, and the powers of s and of 1 - s that it absorbs.

    Only panels that touch 0 or 1 absorb any; ``used`` is the number of panels of each row.
    """
    position = np.arange(used.max())
    left = np.where(position == 0, powers[0], 0.0)
    right = np.where(position == used[:, None] - 1, powers[1], 0.0)
    for at_start in {0.0, powers[0]}:
        for at_end in {0.0, powers[1]}:
            yield (left == at_start) & (right == at_end), at_start, at_end


def strength_panels(
    breaks: Sequence[FloatArray], prior: StrengthPrior, count: int
) -> StrengthPanels:
    """Panels between each row's breaks of [0, 1], starting at 0 and ending at 1."""
    used = np.array([len(row) - 1 for row in breaks])
    padded = np.ones((len(breaks), int(used.max()) + 1))
    for index, row in enumerate(breaks):
        padded[index, : len(row)] = row
    low, width = padded[:, :-1, None], np.diff(padded, axis=1)[:, :, None]
    nodes = np.empty((*low.shape[:2], count))
    logs, barycentric = np.empty_like(nodes), np.empty_like(nodes)
    for which, left, right in panel_kinds(used, prior.end_powers):
        reference, span = rule(count, left, right), width[which]
        nodes[which] = low[which] + span * reference.nodes
        barycentric[which] = reference.barycentric
        power = np.log(np.where(span > 0, span, 1.0)) * (1 + left + right)
        inner = np.clip(nodes[which], 1e-300, 1 - 1e-16)
        log_weights = np.log(reference.weights) + power + prior.log_density(inner)
        # Factors absorbed by a rule are not evaluated again.
        if left != 0:
            log_weights -= left * np.log(inner)
        if right != 0:
            log_weights -= right * np.log1p(-inner)
        logs[which] = log_weights
    logs[np.arange(used.max()) >= used[:, None]] = -np.inf
    return StrengthPanels(
        breaks=padded, used=used, nodes=nodes, log_weights=logs, barycentric=barycentric
    )


def held_strength(rows: int, value: float) -> StrengthPanels:
    """A fixed strength: one node of weight 1 in each row."""
    return StrengthPanels(
        breaks=np.full((rows, 2), value),
        used=np.ones(rows, dtype=np.intp),
        nodes=np.full((rows, 1, 1), value),
        log_weights=np.zeros((rows, 1, 1)),
        barycentric=np.ones((rows, 1, 1)),
    )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of log likelihood, shape (row, panel, node, nuisance node), and their quadrature."""

    epsilon: FloatArray
    quadrature: StrengthPanels
    log_likelihood: FloatArray

    def take(self, index: IndexArray) -> Rows:
        """Select rows."""
        return Rows(
            epsilon=self.epsilon[index],
            quadrature=self.quadrature.take(index),
            log_likelihood=self.log_likelihood[index],
        )

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
