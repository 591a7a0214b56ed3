"""Masses of the correlated likelihood over R(t, d), by quadrature in the angles of both rates.

With alpha = sin^2 theta and beta = sin^2 phi the inverse square roots of the normal density cancel
against the Jacobian, so the integrand is smooth even where counts are 0 or N in both columns: there
fluxes along single edges diverge, and plain two-dimensional quadrature is the better tool.

Along phi the integral up to the edge of the region is a cubic Hermite polynomial between grid
points; along theta it is the midpoint rule.  Everything is linear in the values of the integrand, so
for each attack and tau one sparse matrix (regions x grid) serves all nodes of rho at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference import panels
from epsilometer.inference.edges import Family, NormalKernel, thread_pool
from epsilometer.inference.masses import delta_nodes
from epsilometer.inference.nuisance import peak_guess
from epsilometer.model import region

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TensorAccuracy:
    """Grid points a side, how many standard deviations they cover, and nodes of a panel in t."""

    points: int
    reach: float
    nodes: int


ROUNDING = 1e-16
"""Masses are differences of cumulative sums; what is smaller than this fraction is rounding."""

KNOWN = 1e-12
"""Above this fraction a mass has some digits."""


class TensorMasses:
    """Masses inside and outside R(t, d) for a batch of attacks; same questions as for fluxes.

    Between nodes in t logarithms are interpolated: of the outer mass, and of the inner mass over the
    area of the region, which stays finite as the region shrinks to a line.
    """

    def __init__(
        self,
        family: Family,
        delta: float,
        epsilon_end: float,
        nodes: int,
        accuracy: TensorAccuracy,
    ) -> None:
        self.delta_nodes = delta_nodes(delta, nodes)
        kernels = [kernel for group in family for kernel in group]
        assert all(isinstance(kernel, NormalKernel) for kernel in kernels)
        # (group r, member tau) -> flat (tau, r), the order of the nuisance grid.
        order = [family[r][tau] for tau in range(len(family[0])) for r in range(len(family))]
        self._breaks = _t_breaks(family, delta, epsilon_end)
        points, _ = panels.gauss_legendre(accuracy.nodes)
        half = 0.5 * np.diff(self._breaks)[:, None]
        self._t = (self._breaks[:-1, None] + half * (1 + points)).ravel()
        self._count = accuracy.nodes
        attacks = len(order[0].rate_h0)  # type: ignore[attr-defined]
        shape = (attacks, len(self._t), len(self.delta_nodes), len(order))
        self._inside, self._outside = np.empty(shape), np.empty(shape)
        self.log_unit = np.empty((attacks, len(order)))
        fill = partial(self._fill, kernels=order, accuracy=accuracy)  # type: ignore[arg-type]
        list(thread_pool().map(fill, range(attacks)))

    def _fill(self, attack: int, kernels: list[NormalKernel], accuracy: TensorAccuracy) -> None:
        parameters = np.array(
            [
                [
                    kernel.rate_h0[attack],
                    kernel.precision_h0[attack],
                    kernel.rate_h1[attack],
                    kernel.precision_h1[attack],
                    kernel.correlation[attack],
                    kernel.log_constant[attack],
                ]
                for kernel in kernels
            ]
        )
        if min(parameters[0, 0], 1 - parameters[0, 0]) < min(
            parameters[0, 2], 1 - parameters[0, 2]
        ):
            # The region is symmetric in alpha and beta.  The rate nearer to an end goes along phi,
            # where the edge is followed within a cell: at large t it runs close to that end.
            parameters = parameters[:, [2, 3, 0, 1, 4, 5]]
        # Kernels of one tau are equally wide and share a grid; one for all would miss the narrowest.
        starts = np.flatnonzero(np.append(True, np.diff(parameters[:, 1]) != 0))
        for start, stop in zip(starts, np.append(starts[1:], len(kernels)), strict=True):
            self._fill_part(attack, slice(start, stop), parameters[start:stop], accuracy)

    def _fill_part(
        self, attack: int, part: slice, parameters: FloatArray, accuracy: TensorAccuracy
    ) -> None:
        rate_0, rate_1 = parameters[0, 0], parameters[0, 2]
        precision_0, precision_1 = parameters[0, 1], parameters[0, 3]
        correlation = parameters[:, 4]
        theta_low, theta_high = _window(rate_0, precision_0, accuracy.reach)
        phi_low, phi_high = _window(rate_1, precision_1, accuracy.reach)
        count = accuracy.points
        step = (theta_high - theta_low) / count
        theta = theta_low + step * (np.arange(count, dtype=np.float64) + 0.5)
        phi = np.linspace(phi_low, phi_high, count + 1)
        z = np.sqrt(precision_0) * _score(rate_0, theta)
        w = np.sqrt(precision_1) * _score(rate_1, phi)
        scale = 0.5 / (1 - correlation * correlation)
        log_density = -scale[:, None, None] * (
            (z * z)[:, None] + w * w - (2 * correlation)[:, None, None] * (z[:, None] * w)
        )
        top = log_density.max(axis=(1, 2))
        density = np.exp(log_density - top[:, None, None])
        self.log_unit[attack, part] = top + parameters[:, 5] + np.log(4 * step * (phi[1] - phi[0]))
        cumulative = cumulative_sums(density)
        # Grid values as columns: (theta, phi) flattened, nuisance nodes along the second axis.
        width = len(parameters)
        values = np.concatenate(
            [cumulative.transpose(1, 2, 0).reshape(-1, width),
             density.transpose(1, 2, 0).reshape(-1, width)]
        )  # fmt: skip
        whole = cumulative[:, :, -1].sum(axis=1)
        for number, d in enumerate(self.delta_nodes):
            low, high = _region_angles(self._t, float(d), theta)
            inside = _hermite_matrix(low, high, phi) @ values
            outside = whole - inside
            area = region.log_area(self._t, float(d))[:, None]
            floor = ROUNDING * whole
            self._inside[attack, :, number, part] = np.log(np.maximum(inside, floor)) - area
            self._outside[attack, :, number, part] = self._log_outside(outside, whole)

    def _log_outside(self, outside: FloatArray, whole: FloatArray) -> FloatArray:
        """Log masses beyond R(t, d), (t, nuisance node), continued where only rounding is left.

        The area beyond falls off as e^-t; a mass that stopped falling would pass for a peak at a
        large epsilon.  So its logarithm goes on as steeply as it last did, and at least by -1/2 a unit
        of t, as where a count is 0.
        """
        logs = np.log(np.maximum(outside, ROUNDING * whole))
        known = np.logical_and.accumulate(outside > KNOWN * whole, axis=0).sum(axis=0)
        for column in np.flatnonzero((known > 1) & (known < len(outside))):
            last = known[column] - 1
            before = max(last - self._count // 2, 0)
            slope = (logs[last, column] - logs[before, column]) / (self._t[last] - self._t[before])
            step = self._t[last + 1 :] - self._t[last]
            logs[last + 1 :, column] = logs[last, column] + min(slope, -0.5) * step
        return np.asarray(logs)

    def at(self, t: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
        """Masses inside and outside R(t, d_m) of some attacks: (attack, d node, t, nuisance node)."""
        from scipy.sparse import csr_array

        from epsilometer.inference.rows import rule

        reference = rule(self._count, 0.0, 0.0)
        panel = np.clip(
            np.searchsorted(self._breaks, t, side="right") - 1, 0, len(self._breaks) - 2
        )
        local = (t - self._breaks[panel]) / np.diff(self._breaks)[panel]
        gap = local[:, None] - reference.nodes
        terms = reference.barycentric / np.where(np.abs(gap) < 1e-14, 1e-14, gap)
        weights = terms / terms.sum(axis=1, keepdims=True)
        columns = panel[:, None] * self._count + np.arange(self._count)
        ends = np.arange(0, weights.size + 1, self._count)
        matrix = csr_array((weights.ravel(), columns.ravel(), ends), shape=(len(t), len(self._t)))
        area = np.stack([region.log_area(t, float(d)) for d in self.delta_nodes], axis=1)
        found = []
        for table, offset in ((self._inside, area[:, :, None]), (self._outside, 0.0)):
            chosen = table[part]
            logs = np.stack([matrix @ one.reshape(len(one), -1) for one in chosen])
            logs = logs.reshape(len(chosen), len(t), *chosen.shape[2:]) + offset
            found.append(np.moveaxis(np.exp(logs), 2, 1))
        return found[0], found[1]


def _t_breaks(family: Family, delta: float, end: float) -> FloatArray:
    """Panels of t, fine where some attack's critical level may lie, wider beyond."""
    large, small, width = peak_guess(family)
    levels = []
    for d in (0.0, delta):
        with np.errstate(divide="ignore"):
            level = np.log(np.maximum(1 - d - large, 1e-3) / small)
        levels += [(max(float(c), 0.0), float(w)) for c, w in zip(level, width, strict=True)]
    breaks = [0.0]
    while breaks[-1] < end:
        here = breaks[-1]
        # Near a critical level its own width; away from it a third of the distance.
        step = min(max(1.6 * w, 0.35 * abs(here + 0.8 * w - c)) for c, w in levels)
        if delta > 0:
            # Where t is about delta the region turns from a band of even width into one that is
            # thinner at its ends.
            step = min(step, max(delta, 3.0 * here))
        breaks.append(here + min(step, 3.0))
    breaks[-1] = end
    return np.array(breaks)


def _score(rate: float, angle: FloatArray) -> FloatArray:
    """(rate - p) / sqrt(p (1 - p)) at p = sin^2 angle, finite at the ends if rate is 0 or 1."""
    sine, cosine = np.sin(angle), np.cos(angle)
    product = np.maximum(sine * cosine, 1e-9)
    score = (rate - sine * sine) / product
    # At the ends themselves 0/0: the limits are 0, and beyond any reach otherwise.
    score = np.where((rate == 0) & (sine < 1e-7), 0.0, score)
    return np.where((rate == 1) & (cosine < 1e-7), 0.0, score)


def _window(rate: float, precision: float, reach: float) -> tuple[float, float]:
    """Angles between which the score is within ``reach`` standard deviations (Wilson's interval)."""
    square = reach * reach / precision
    centre = (rate + square / 2) / (1 + square)
    radius = np.sqrt(square * rate * (1 - rate) + square * square / 4) / (1 + square)
    low, high = max(centre - radius, 0.0), min(centre + radius, 1.0)
    # Roundings at the very ends would cut off half a cell.
    low, high = (0.0 if low < 1e-14 else low), (1.0 if high > 1 - 1e-14 else high)
    return float(np.arcsin(np.sqrt(low))), float(np.arcsin(np.sqrt(high)))


def cumulative_sums(density: FloatArray) -> FloatArray:
    """Integral along the last axis up to each grid point, in units of the step; fourth order."""
    inner = density[..., 1:] + density[..., :-1]
    curve = np.zeros_like(inner)
    slope = np.gradient(density, axis=-1)
    curve[:] = (slope[..., :-1] - slope[..., 1:]) / 12
    cells = np.maximum(0.5 * inner + curve, 0.0)
    return np.concatenate([np.zeros_like(density[..., :1]), np.cumsum(cells, axis=-1)], axis=-1)


def _region_angles(t: FloatArray, d: float, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Angles phi between which (theta, phi) lies in R(t, d): shape (t, theta) each."""
    sine_square = np.sin(theta) ** 2
    shrink = np.exp(-t)[:, None]
    with np.errstate(over="ignore"):
        grow = np.exp(np.minimum(t, 700.0))[:, None]

    def lower(p: FloatArray) -> FloatArray:
        room = 1 - d - p
        steep = 1 - d - grow * p
        return np.clip(np.maximum(np.maximum(shrink * room, steep), 0.0), 0.0, 1.0)

    low = lower(sine_square)
    high = 1 - lower(1 - sine_square)
    return np.arcsin(np.sqrt(low)), np.arcsin(np.sqrt(high))


def _hermite_matrix(low: FloatArray, high: FloatArray, phi: FloatArray) -> csr_array:
    """Sums over theta of integrals between two angles each: from grid values to regions.

    Columns are the cumulative integrals at the grid points, then their slopes.
    """
    from scipy.sparse import csr_array

    regions, columns = low.shape
    points = len(phi)
    size = columns * points
    entries, data = [], []
    for angle, sign in ((high, 1.0), (low, -1.0)):
        x = np.clip((angle - phi[0]) / (phi[1] - phi[0]), 0.0, points - 1.0)
        cell = np.minimum(x.astype(np.int32), points - 2)
        u = x - cell
        base = (np.arange(columns, dtype=np.int32) * points) + cell
        square = u * u
        cube = square * u
        rise = 3 * square - 2 * cube
        entries += [base, base + 1, base + size, base + (size + 1)]
        data += [
            sign * (1 - rise),
            sign * rise,
            sign * (u - 2 * square + cube),
            sign * (cube - square),
        ]
    ends = np.arange(0, regions * columns * 8 + 1, columns * 8, dtype=np.int32)
    weights, index = np.stack(data, axis=-1).ravel(), np.stack(entries, axis=-1).ravel()
    return csr_array((weights, index, ends), shape=(regions, 2 * size))
