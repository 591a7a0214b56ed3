"""Ring masses of the count likelihood on arbitrary sets of (epsilon, strength).

The likelihood of (epsilon, s) from one attack is the mass of its count likelihood over the ring
R_s(epsilon, delta) divided by the ring's area.  Two ways to the mass, for two kinds of question:

* :class:`InterpolatedMasses` tabulates the masses of R(t, d) along t at a few values of d in
  [0, delta] and interpolates in d.  One table serves every (epsilon, s), so it is the fast one;
  it needs the likelihood to be smooth on the scale of delta.
* :func:`ray_table` follows the ray (s epsilon, s delta) for one epsilon, so that ring masses are
  read off directly.  Nothing is interpolated; it serves any delta and any number of trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import edges, panels
from epsilometer.inference.mass_table import MassTable, Paths, TableAccuracy
from epsilometer.inference.nuisance import peak_guess

FloatArray = NDArray[np.float64]

SEED_STEPS = np.array([-6.0, -3.0, -1.0, 1.0, 3.0, 6.0])
"""First breaks of a path, in widths around the guessed peak of its flux."""


def delta_nodes(delta: float, count: int) -> FloatArray:
    """Chebyshev points of [0, delta], ends included; just [0] if delta is 0."""
    if delta == 0:
        return np.zeros(1)
    return np.asarray(0.5 * delta * (1 - np.cos(np.pi * np.arange(count) / (count - 1))))


def lagrange(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """Weights, first axis as the nodes, that interpolate values at the nodes to the points x."""
    weights = []
    for k, node in enumerate(nodes):
        others = np.delete(nodes, k)
        weights.append(
            np.prod([(x - other) / (node - other) for other in others], axis=0)
            if len(others)
            else np.ones_like(x)
        )
    return np.stack(weights)


def sharpness(family: edges.Family, delta: float) -> float:
    """How far d in [0, delta] moves an attack's critical level, in units of its width; the worst."""
    large, _, width = peak_guess(family)
    return float(np.max(delta / np.maximum(1 - delta - large, 0.02) / width))


class InterpolatedMasses:
    """Masses of R(t, d) and of its complement for a batch of attacks, any t and d in [0, delta]."""

    def __init__(
        self,
        family: edges.Family,
        delta: float,
        epsilon_end: float,
        nodes: int,
        accuracy: TableAccuracy,
    ) -> None:
        self.delta_nodes = delta_nodes(delta, nodes)
        large, small, width = peak_guess(family)
        attacks = self._attacks = len(large)
        count = len(self.delta_nodes)
        index = np.repeat(np.arange(attacks), count)
        d_start = np.tile(self.delta_nodes, attacks)
        zeros = np.zeros_like(d_start)
        paths = Paths(
            attack=index,
            t_start=zeros,
            d_start=d_start,
            t_rate=zeros + 1,
            d_rate=zeros,
            length=zeros + epsilon_end,
        )
        with np.errstate(divide="ignore"):
            centre = np.log(np.maximum(1 - large[index] - d_start, 1e-3) / small[index])
        seeds = np.clip(centre, 0.0, epsilon_end)[:, None] + width[index][:, None] * SEED_STEPS
        self._table = MassTable(family, paths, seeds, accuracy)
        units = self._table.log_unit.reshape(attacks, count, -1)
        strip = self._strip_table(family, delta, accuracy) if delta > 0 else None
        if strip is not None:
            units = np.concatenate([units, strip.log_unit[:, None]], axis=1)
        self.log_unit = units.max(axis=1)
        self._rescale = np.exp(units - self.log_unit[:, None])
        self._strip = np.zeros((attacks, count, 1))
        if strip is not None:
            grid = np.broadcast_to(np.arange(attacks)[:, None], (attacks, count))
            before, _ = strip.masses(grid, np.broadcast_to(self.delta_nodes, (attacks, count)))
            self._strip = before * self._rescale[:, -1:]

    @staticmethod
    def _strip_table(family: edges.Family, delta: float, accuracy: TableAccuracy) -> MassTable:
        """Masses of the strip R(0, d), which the paths along t start from."""
        large, small, _ = peak_guess(family)
        zeros = np.zeros_like(large)
        paths = Paths(
            attack=np.arange(len(large)),
            t_start=zeros,
            d_start=zeros,
            t_rate=zeros,
            d_rate=zeros + 1,
            length=zeros + delta,
        )
        width = np.full_like(large, 0.25 * delta)
        seeds = (1 - large - small)[:, None] + width[:, None] * np.array([-1.0, 0.0, 1.0])
        return MassTable(family, paths, seeds, accuracy)

    def at(self, t: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
        """Masses inside and outside R(t, d_m) of some attacks: (attack, d node, t, nuisance node)."""
        count = len(self.delta_nodes)
        attacks = np.arange(self._attacks)[part]
        path = (attacks[:, None] * count + np.arange(count)).ravel()
        shape = (len(path), len(t))
        inside, outside = self._table.masses(
            np.broadcast_to(path[:, None], shape), np.broadcast_to(t, shape)
        )
        scale = self._rescale[part, :count, None]
        full = (len(attacks), count, len(t), -1)
        inside = inside.reshape(full) * scale + self._strip[part, :, None]
        return inside, outside.reshape(full) * scale


def log_ring(
    inside_core: FloatArray, outside_core: FloatArray, inside: FloatArray, outside: FloatArray
) -> FloatArray:
    """Log mass of a ring from masses in and out of its core and of the whole region.

    The difference is taken on the side where the core's mass is the smaller, so that the mass of a
    ring far from the attack is still accurate relative to itself.
    """
    ring = np.where(outside_core < inside_core, outside_core - outside, inside - inside_core)
    return np.log(np.maximum(ring, 1e-300))


def ray_table(
    family: edges.Family,
    attack: NDArray[np.intp],
    epsilon: FloatArray,
    delta: float,
    strength: float,
    accuracy: TableAccuracy,
) -> MassTable:
    """Flux along the rays (u epsilon, u delta), u from ``strength`` to 1; an entry is a path.

    The mass beyond position s - strength is that of the ring R_s(epsilon, delta).
    """
    large, small, width = (values[attack] for values in peak_guess(family))
    gap = 1 - strength
    zeros = np.zeros_like(epsilon)
    paths = Paths(
        attack=attack,
        t_start=strength * epsilon,
        d_start=zeros + strength * delta,
        t_rate=epsilon,
        d_rate=zeros + delta,
        length=zeros + gap,
    )
    # Where the ray meets the smoothed rates: Newton on large + e^(u epsilon) small = 1 - u delta.
    u = np.full_like(epsilon, 0.5)
    for _ in range(30):
        growth = small * np.exp(np.minimum(u * epsilon, 600.0))
        u = u - (large + growth - 1 + u * delta) / (epsilon * growth + delta + 1e-12)
        u = np.clip(u, 0.0, 1.0)
    seeds = (u - strength)[:, None] + (width / (epsilon + width))[:, None] * SEED_STEPS
    return MassTable(family, paths, seeds, accuracy)


@dataclass(frozen=True, kw_only=True)
class FixedStrengthMasses:
    """Log ring mass for given epsilons at one strength, each attack by itself."""

    delta: float
    strength: float
    accuracy: TableAccuracy
    smooth: bool
    """Whether the flux hardly varies across the ring, so that a few nodes do instead of a table."""

    def log_masses(
        self, family: edges.Family, attack: NDArray[np.intp], epsilon: FloatArray
    ) -> FloatArray:
        """Entry by entry, nuisance nodes last; at strength 1 the limit of mass / (1 - s)."""
        if self.strength == 1:
            delta = np.full_like(epsilon, self.delta)
            flux = edges.log_flux(
                family, attack, epsilon, delta, epsilon, delta, self.accuracy.edge
            )
            return flux.reshape(len(epsilon), -1)
        if self.smooth:
            return self._gauss(family, attack, epsilon)
        table = ray_table(family, attack, epsilon, self.delta, self.strength, self.accuracy)
        with np.errstate(divide="ignore"):
            return np.asarray(table.log_unit + np.log(table.total))

    def _gauss(
        self, family: edges.Family, attack: NDArray[np.intp], epsilon: FloatArray
    ) -> FloatArray:
        points, weights = panels.gauss_legendre(6)
        total: FloatArray | None = None
        for point, weight in zip(points, weights, strict=True):
            u = self.strength + 0.5 * (1 - self.strength) * (1 + point)
            delta = np.full_like(epsilon, self.delta)
            flux = edges.log_flux(
                family, attack, u * epsilon, u * delta, epsilon, delta, self.accuracy.edge
            ).reshape(len(epsilon), -1)
            flux += np.log(0.5 * weight * (1 - self.strength))
            total = flux if total is None else np.logaddexp(total, flux)
        assert total is not None
        return total
