"""Masses of rings from masses in and out of regions at a few values of d.

The mass of R_s(epsilon, delta) is a difference, of masses inside or outside its two edges, taken on the
side where little cancels.  The inner edge lies at d = s delta, between the nodes of a table.
"""

from __future__ import annotations

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IndexArray
from epsilometer.inference.exact.mass_tables import Masses
from epsilometer.model import region

NEAR = 25.0
"""Nats below the mass of the whole region from which a core's mass matters to that of the ring."""

DEEP = 12.0
"""Nats below the largest likelihood from which the mean density inside is that of a tail.  A thin region
that merely runs past the peak has more, however thin it is."""


class Rings:
    """A question for ring masses at many (epsilon, strength), with what all attacks share of it."""

    def __init__(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> None:
        t = np.append((strength * epsilon[:, None]).ravel(), epsilon)
        # Rows share most of their positions, so a table is asked a fraction of the questions.
        self._positions, where = merged(t)
        self._core = where[: strength.size].reshape(strength.shape)
        self._whole = where[strength.size :]
        self._d, self._delta = delta * strength, delta

    def by_masses(self, table: Masses, part: slice) -> FloatArray:
        """Log ring masses (attack, row, strength, nuisance) where masses are not known in deep tails.

        Masses themselves are interpolated between the nodes of d, which is several times as quick.
        """
        nodes = table.delta_nodes
        weights = lagrange(nodes, self._d)
        outer = lagrange(nodes, np.array(self._delta))
        sides = table.at(self._positions, part)
        unit = np.maximum(sides[0][:, -1:, -1:], sides[1][:, :1, :1])
        # Between nodes a polynomial may swing up; no mass is more than the whole.
        inside, outside = (np.exp(np.minimum(logs - unit, 0.0)) for logs in sides)
        core, whole = [], []
        for values in (inside, outside):
            core.append(_interpolated(values, weights, self._core))
            whole.append(np.einsum("d,adrn->arn", outer, values[:, :, self._whole])[:, :, None])
        beyond = core[1] < core[0]
        ring = np.subtract(whole[0], core[0], out=core[0])
        np.subtract(core[1], whole[1], out=ring, where=beyond)
        np.log(np.maximum(ring, 1e-300, out=ring), out=ring)
        ring += unit
        return np.asarray(ring)

    def by_logarithms(self, table: Masses, part: slice, largest: FloatArray) -> FloatArray:
        """Log ring masses (attack, row, strength, nuisance) of some attacks, however deep in a tail.

        ``largest`` are their largest log likelihoods, (attack, nuisance).

        Between the nodes of d masses inside are interpolated relative to the largest, which is that of
        the whole ring or less, and masses outside by their logarithms, which vary by many nats.  The
        difference is taken on the side where the core's mass is the smaller, so that the mass of a
        ring far from the attack is still accurate relative to itself.
        """
        nodes = table.delta_nodes
        weights = lagrange(nodes, self._d)
        outer = lagrange(nodes, np.array(self._delta))
        log_in, log_out = table.at(self._positions, part)
        unit = np.maximum(log_in[:, -1], -1e300)
        # Masses inside grow with d; where a tail is not resolved they might not.
        scaled = np.exp(np.minimum(log_in - unit[:, None], 0.0))
        with np.errstate(divide="ignore"):
            in_core = np.log(np.maximum(_interpolated(scaled, weights, self._core), 0.0))
        in_core += unit[:, self._core]
        in_all = unit[:, self._whole] + np.log(
            np.maximum(np.einsum("d,adrn->arn", outer, scaled[:, :, self._whole]), 1e-300)
        )
        out_core = _interpolated(log_out, weights, self._core)
        out_all = np.einsum("d,adrn->arn", outer, log_out[:, :, self._whole])
        beyond = out_core < in_core
        if len(nodes) > 1:
            near = ~beyond & (unit[:, self._core] > in_all[:, :, None] - NEAR)
            self._follow_tails(
                nodes, log_in, weights, near & self._deep(nodes, log_in, largest), in_core
            )
        high = np.where(beyond, out_core, in_all[:, :, None])
        low = np.where(beyond, out_all[:, :, None], in_core)
        return np.asarray(high + np.log(-np.expm1(np.minimum(low - high, -1e-15))))

    def _follow_tails(
        self,
        nodes: FloatArray,
        log_in: FloatArray,
        weights: FloatArray,
        where: BoolArray,
        in_core: FloatArray,
    ) -> None:
        """Interpolate logarithms where masses inside vary by many nats with d: far out in a tail.

        It is the mean density that varies so; the area goes to 0 with t and d, and its logarithm must
        not be interpolated.
        """
        attack, row, column, node = np.nonzero(where)
        if not len(attack):
            return
        at = self._core[row, column]
        logs = sum(
            weights[k][row, column]
            * (log_in[attack, k, at, node] - region.log_area(self._positions[at], float(d)))
            for k, d in enumerate(nodes)
        )
        d = self._d[row, column]
        in_core[attack, row, column, node] = logs + _log_area_at(self._positions[at], d)

    def _deep(self, nodes: FloatArray, log_in: FloatArray, largest: FloatArray) -> BoolArray:
        """Where the mean density inside is far below the peak: (attack, row, strength, nuisance)."""
        area = region.log_area(self._positions, float(nodes[-1]))[:, None]
        # At t = 0 the node d = 0 is a line, which has neither mass nor area.
        deep = (log_in[:, -1] - area < largest[:, None] - DEEP) & (self._positions > 0)[:, None]
        return np.asarray(deep[:, self._core])


def _log_area_at(t: FloatArray, d: FloatArray) -> FloatArray:
    """Log area of R(t, d), element by element."""
    corner = np.exp(-t) / (1 + np.exp(-t))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.tanh(t / 2) + 2 * d * (2 - d) * corner))


def _interpolated(values: FloatArray, weights: FloatArray, where: IndexArray) -> FloatArray:
    """Sum over the nodes of d: values (attack, d, position, nuisance), weights (d, row, strength)."""
    total = values[:, 0][:, where] * weights[0][..., None]
    for k in range(1, len(weights)):
        total += values[:, k][:, where] * weights[k][..., None]
    return np.asarray(total)


def lagrange(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """Weights, first axis as the nodes, that interpolate values at the nodes to the points x."""
    if len(nodes) == 1:
        return np.ones((1, *np.shape(x)))
    scale = 4 / (nodes.max() - nodes.min())
    weights = []
    for k, node in enumerate(nodes):
        others = np.delete(nodes, k)
        top = np.prod((x[..., None] - others) * scale, axis=-1)
        weights.append(top / np.prod((node - others) * scale))
    return np.stack(weights)


def merged(values: FloatArray) -> tuple[FloatArray, IndexArray]:
    """The different ones among values that agree up to rounding, and where each has gone."""
    order = np.argsort(values)
    ordered = values[order]
    first = np.append(True, np.diff(ordered) > 1e-12 * ordered[1:])
    where = np.empty(len(values), dtype=np.intp)
    where[order] = np.cumsum(first) - 1
    return ordered[first], where
