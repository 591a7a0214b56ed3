"""Masses over R(t, d) by quadrature in the angles of both rates, for any likelihood.

With alpha = sin^2 theta and beta = sin^2 phi the inverse square roots of a normal density cancel
against the Jacobian, so the integrand is smooth even if counts are 0 or N in both columns: there fluxes
along single edges diverge, and plain two-dimensional quadrature is better.

Along phi the integral up to the edge of the region is a cubic Hermite polynomial between grid
points; along theta it is the midpoint rule.  Everything is linear in the values of the integrand, so
for each attack one sparse matrix (regions x grid) serves all nuisance nodes of equal width at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.exact.flux import thread_pool
from epsilometer.engines.exact.kernels import Guess
from epsilometer.engines.exact.mass_tables import Batch, Masses, chebyshev_points
from epsilometer.model import region

if TYPE_CHECKING:
    from scipy.sparse import csr_array


CUMULATIVE_ROUNDING = 1e-16  # of the cumulative sums whose differences are the masses
KNOWN = 1e-12  # above this fraction a mass has some correct digits
# Growth of panels of t away from a critical epsilon, and their largest width: logarithms of masses
# are nearly straight there. With half of either no quantile of the paper's audits moves by 1e-3.
GROWTH, WIDEST_PLANAR_STEP = 0.6, 6.0


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """Values of one attack along t: nodes (ends of panels shared), panels, and logs (t, d, nuisance).

    ``inside`` is the log of the mass over the area of the region, which stays finite as the region
    shrinks to a line.
    """

    breaks: FloatArray
    t: FloatArray
    inside: FloatArray
    outside: FloatArray


class PlanarMasses(Masses):
    """Masses inside and outside R(t, d) for a batch of attacks; same interface as for fluxes."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._guess = Guess.of(batch.kernel)
        attacks = range(len(batch.kernel) // self._nuisance)
        self._lines = list(thread_pool().map(self._line, attacks))

    def _line(self, attack: int) -> _Lines:
        kernel, _, nodes, end, resolution = self._batch
        entries = np.arange(self._nuisance) * (len(kernel) // self._nuisance) + attack
        breaks = _t_breaks(self._guess.take(entries), float(nodes[-1]), end)
        local = chebyshev_points(1.0, resolution.plane_nodes)[:-1]
        t = np.append((breaks[:-1, None] + np.diff(breaks)[:, None] * local).ravel(), end)
        rate_0, worth_0, rate_1, worth_1 = (column[entries] for column in kernel.observed())
        # The region is symmetric in alpha and beta.  The rate nearer to an end is put on phi, where
        # the edge is resolved within a cell: at large t it runs close to that end.
        swapped = min(rate_0[0], 1 - rate_0[0]) < min(rate_1[0], 1 - rate_1[0])
        # Nodes of equal width share a grid; a common grid would miss the narrowest.
        width = np.stack([worth_0, worth_1], axis=1)
        starts = np.flatnonzero(np.append(True, np.any(np.diff(width, axis=0) != 0, axis=1)))
        if len(set(np.diff(np.append(starts, len(entries))).tolist())) > 1:
            starts = np.arange(len(entries))
        grids, logs, points = [], [], resolution.plane_points
        for part in np.split(np.arange(len(entries)), starts[1:]):
            windows = kernel.windows(int(entries[part[0]]), resolution.plane_reach)
            across, along = windows[::-1] if swapped else windows
            # Midpoints in theta across one window, including the ends in phi along the other.
            step = (across[1] - across[0]) * (np.arange(points) + 0.5) / points
            theta, phi = across[0] + step, np.linspace(along[0], along[1], points + 1)
            angles = (phi, theta) if swapped else (theta, phi)
            density = kernel.log_angle_density(entries[part], *angles)
            logs.append(density.transpose(0, 2, 1) if swapped else density)
            grids.append((theta, phi))
        theta, phi = (np.stack(side) for side in zip(*grids, strict=True))
        inside, outside = _log_masses(theta, phi, np.stack(logs), t, nodes)
        return _Lines(breaks=breaks, t=t, inside=inside, outside=outside)

    def at(self, t: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
        chosen = self._lines[part]
        area = region.log_area(t, self.delta_nodes[:, None])[:, :, None]
        shape = (*area.shape[:2], len(chosen), self._nuisance)
        inside, outside = np.empty(shape), np.empty(shape)
        for number, line in enumerate(chosen):
            matrix = _interpolation(line, t, self._batch.resolution.plane_nodes)
            for masses, values in ((inside, line.inside), (outside, line.outside)):
                logs = matrix @ values.reshape(len(line.t), -1)
                masses[:, :, number] = logs.reshape(len(t), *shape[::3]).transpose(1, 0, 2)
            inside[:, :, number] += area
        return inside, outside


def _interpolation(line: _Lines, t: FloatArray, count: int) -> csr_array:
    """The sparse matrix from values at a line's nodes to polynomials of its panels at t."""
    from scipy.sparse import csr_array

    barycentric = (-1.0) ** np.arange(count)
    barycentric[[0, -1]] *= 0.5
    panel = np.searchsorted(line.breaks, t, side="right") - 1
    panel = np.clip(panel, 0, len(line.breaks) - 2)
    gap = ((t - line.breaks[panel]) / np.diff(line.breaks)[panel])[:, None]
    gap = gap - chebyshev_points(1.0, count)
    terms = barycentric / np.where(np.abs(gap) < 1e-14, 1e-14, gap)
    weights = terms / terms.sum(axis=1, keepdims=True)
    columns = panel[:, None] * (count - 1) + np.arange(count)
    ends = np.arange(0, weights.size + 1, count)
    return csr_array((weights.ravel(), columns.ravel(), ends), shape=(len(t), len(line.t)))


def _t_breaks(guess: Guess, delta: float, end: float) -> FloatArray:
    """Panels of t, fine near the critical epsilon of any nuisance node, wider beyond."""
    width = float(np.quantile(guess.width, 0.3))
    ends = [guess.critical_epsilon(d) for d in (0.0, delta)]
    criticals = np.quantile(ends, [0.0, 0.5, 1.0]).tolist()
    breaks = [0.0]
    while breaks[-1] < end:
        here = breaks[-1]
        # Near a critical epsilon its own width; away from it half of the distance and more.
        step = min(
            max(1.6 * width, GROWTH * abs(here + 0.8 * width - critical)) for critical in criticals
        )
        if delta > 0:
            # Where t is about delta the region changes from a band of even width to one that is
            # thinner at its ends.
            step = min(step, max(delta, 5.0 * here))
        breaks.append(here + min(step, WIDEST_PLANAR_STEP))
    breaks[-1] = end
    return np.array(breaks)


def _log_masses(
    theta: FloatArray, phi: FloatArray, logs: FloatArray, t: FloatArray, nodes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log masses (t, d, node): inside over area, and outside.

    Angles are (grid, point) and ``logs`` is (grid, node of the grid, theta, phi).
    """
    grids, width = logs.shape[:2]
    top = logs.max(axis=(2, 3))
    density = np.exp(logs - top[:, :, None, None])
    steps = (theta[:, 1] - theta[:, 0]) * (phi[:, 1] - phi[:, 0])
    unit = (top + np.log(steps)[:, None]).ravel()
    sums = cumulative_sums(density)
    whole = sums[..., -1].sum(axis=2).ravel()
    # All regions at once: (t, d) flattened.
    times, d = np.repeat(t, len(nodes))[:, None], np.tile(nodes, len(t))[:, None]
    edges = region.beta_limits(np.sin(theta)[:, None] ** 2, times, d)
    mass = _between(np.stack(edges, axis=-1), phi, sums, density)
    mass = mass.reshape(grids, len(t), len(nodes), width)
    mass = np.moveaxis(mass, 0, 2).reshape(len(t), len(nodes), -1)
    area = region.log_area(np.maximum(t, 1e-12), nodes[:, None]).T[:, :, None]
    # A line has neither mass nor area; next to it their ratio is the same.
    mass[0, 0] = mass[1, 0] * np.exp(area[0, 0] - area[1, 0])
    inside = np.log(np.maximum(mass, CUMULATIVE_ROUNDING * whole)) - area + unit
    flat = (whole - mass).reshape(len(t), -1)
    outside = _log_outside(t, flat, np.tile(whole, len(nodes))).reshape(mass.shape) + unit
    return inside, outside


def _log_outside(t: FloatArray, outside: FloatArray, whole: FloatArray) -> FloatArray:
    """Log masses outside R(t, d), (t, nuisance node), extrapolated where only rounding is left.

    The area outside falls off as e^-t; a mass that stopped falling would look like a peak at a large
    epsilon.  So its logarithm continues at its last slope, and at least at -1/2 per unit of t, as if
    a count were 0.
    """
    logs = np.log(np.maximum(outside, CUMULATIVE_ROUNDING * whole))
    known = np.logical_and.accumulate(outside > KNOWN * whole, axis=0).sum(axis=0)
    for column in np.flatnonzero((known > 1) & (known < len(outside))):
        last = known[column] - 1
        before = max(last - 3, 0)
        slope = (logs[last, column] - logs[before, column]) / (t[last] - t[before])
        logs[last + 1 :, column] = logs[last, column] + min(slope, -0.5) * (t[last + 1 :] - t[last])
    return np.asarray(logs)


def cumulative_sums(density: FloatArray) -> FloatArray:
    """Integral along the last axis up to each grid point, in units of the step; fourth order."""
    rise = np.diff(density, axis=-1)
    slope = np.empty_like(density)
    slope[..., 0], slope[..., -1] = rise[..., 0], rise[..., -1]
    np.add(rise[..., 1:], rise[..., :-1], out=slope[..., 1:-1])
    slope[..., 1:-1] *= 0.5
    cells = 0.5 * (density[..., 1:] + density[..., :-1])
    cells += (slope[..., :-1] - slope[..., 1:]) / 12
    sums = slope  # reuse its memory
    sums[..., 0] = 0.0
    np.cumsum(np.maximum(cells, 0.0, out=cells), axis=-1, out=sums[..., 1:])
    return sums


def _between(
    edges: FloatArray, phi: FloatArray, sums: FloatArray, slopes: FloatArray
) -> FloatArray:
    """Sums over theta of the integrals along phi between two edges: (grid, region, node).

    ``edges`` are betas (grid, region, theta, lower or upper); ``sums`` and ``slopes`` are the integrals
    at the grid points and their derivatives, (grid, node, theta, phi).  For an edge beyond the grid, all
    of a column or none of it is below.  Polynomials are evaluated only inside columns.
    """
    from scipy.sparse import csr_array

    grids, regions, columns, _ = edges.shape
    points, width = phi.shape[1], sums.shape[1]
    start, end = (np.sin(phi[:, k, None, None, None]) ** 2 for k in (0, -1))
    full = edges >= end
    net = full[..., 1].astype(float) - full[..., 0]
    total = net @ sums[..., -1].transpose(0, 2, 1)
    inside = np.flatnonzero((edges > start) & ~full)
    column = inside // 2
    grid = column // (regions * columns)
    x = np.arcsin(np.sqrt(edges.ravel()[inside])) - phi[grid, 0]
    x /= (phi[:, 1] - phi[:, 0])[grid]
    np.clip(x, 0.0, points - 1.0, out=x)
    cell = np.minimum(x.astype(np.int32), points - 2)
    x -= cell
    # Cubic Hermite polynomials: values and slopes at both ends; the lower edge is subtracted.
    sign = np.where(inside % 2, 1.0, -1.0)
    there = x * x * (3 - 2 * x)
    bend = sign * x * (1 - x)
    weights = np.empty((len(x), 4))
    weights[:, 0], weights[:, 1] = sign * (1 - there), sign * there
    weights[:, 2], weights[:, 3] = bend * (1 - x), -bend * x
    # Columns of the matrix are grid points: first all sums, then all slopes.
    size = grids * columns * points
    cell += ((grid * columns + column % columns) * points).astype(np.int32)
    index = cell[:, None] + np.array([0, 1, size, size + 1], dtype=np.int32)
    rows = np.bincount(column // columns, minlength=grids * regions)
    ends = np.append(0, np.cumsum(4 * rows)).astype(np.int32)
    matrix = csr_array((weights.ravel(), index.ravel(), ends), shape=(len(rows), 2 * size))
    values = np.empty((2, grids, columns, points, width))
    values[0], values[1] = sums.transpose(0, 2, 3, 1), slopes.transpose(0, 2, 3, 1)
    return np.asarray(total + (matrix @ values.reshape(-1, width)).reshape(total.shape))


# --- a likelihood of averages ---------------------------------------------------------------------

TINY = 1e-290


@dataclass(frozen=True, kw_only=True)
class AverageGrid:
    """Angles of a group's averages for each spread: midpoints for alpha, including the ends for beta.

    ``theta`` and ``phi`` are (spread, point); alpha = sin^2 theta and beta = sin^2 phi.
    """

    theta: FloatArray
    theta_step: FloatArray
    phi: FloatArray
    phi_step: FloatArray

    @property
    def alpha(self) -> FloatArray:
        """(spread, point)."""
        return np.asarray(np.sin(self.theta) ** 2)

    @property
    def beta(self) -> FloatArray:
        """(spread, point)."""
        return np.asarray(np.sin(self.phi) ** 2)

    @classmethod
    def of_windows(cls, alpha: FloatArray, beta: FloatArray, points: int) -> AverageGrid:
        """From windows of angles, each (spread, 2)."""
        step = np.diff(alpha, axis=1) / points
        theta = alpha[:, :1] + step * (np.arange(points) + 0.5)
        phi_step = np.diff(beta, axis=1) / points
        phi = beta[:, :1] + phi_step * np.arange(points + 1)
        return cls(theta=theta, theta_step=step[:, 0], phi=phi, phi_step=phi_step[:, 0])


@dataclass(frozen=True, kw_only=True)
class Density:
    """A likelihood of the averages on their grid, as cumulative integrals along phi and slopes.

    Arrays are (spread, theta, phi), in units of exp(log_unit[spread]).
    """

    grid: AverageGrid
    sums: FloatArray
    slopes: FloatArray
    log_unit: FloatArray

    @classmethod
    def of(cls, grid: AverageGrid, log_values: FloatArray) -> Density:
        """From log densities (spread, theta, phi) in the angles."""
        top = np.maximum(log_values.max(axis=(1, 2)), -1e300)
        slopes = np.exp(log_values - top[:, None, None])
        unit = top + np.log(grid.theta_step * grid.phi_step)
        return cls(grid=grid, sums=cumulative_sums(slopes), slopes=slopes, log_unit=unit)

    def log_ring(self, epsilon: float, delta: float, strength: FloatArray) -> FloatArray:
        """Log mass of the rings R_s(epsilon, delta): (strength, spread).

        A ring is the strip between the lower edges of R(epsilon, delta) and of its core, and the one
        between the upper edges.  Both ends of a strip are evaluated on one polynomial, so that thin
        strips do not cancel.
        """
        scale = np.append(strength, 1.0)[:, None]
        edges = region.beta_limits(self.grid.alpha[:, None], scale * epsilon, scale * delta)
        lower, upper = (self._below(beta) for beta in edges)
        lower -= lower[:, -1:].copy()
        upper -= upper[:, -1:].copy()
        lower -= upper
        total = lower[:, :-1].sum(axis=-1)
        return np.asarray((np.log(np.maximum(total, TINY)) + self.log_unit[:, None]).T)

    def _below(self, beta: FloatArray) -> FloatArray:
        """Integral along phi up to beta (spread, any, theta), by cubic Hermite polynomials.

        For an edge beyond the grid, all of a column or none of it is below.
        """
        grid = self.grid
        spreads, thetas, points = self.sums.shape
        start, end = (grid.beta[:, k, None, None] for k in (0, -1))
        full = beta >= end
        integral = np.where(full, self.sums[:, None, :, -1], 0.0)
        between = (beta > start) & ~full
        inside = np.flatnonzero(between)
        spread = np.repeat(np.arange(spreads), np.count_nonzero(between, axis=(1, 2)))
        x = np.arcsin(np.sqrt(beta.take(inside)))
        x -= grid.phi[:, 0].take(spread)
        x /= grid.phi_step.take(spread)
        np.clip(x, 0.0, points - 1.0, out=x)
        cell = np.minimum(x.astype(np.intp), points - 2)
        x -= cell
        cell += (spread * thetas + inside % thetas) * points
        low, slope = self.sums.take(cell), self.slopes.take(cell)
        cell += 1
        rise, next_slope = self.sums.take(cell) - low, self.slopes.take(cell)
        # u [s + u ((3 - 2 u) r - (2 - u) s - (1 - u) s')], from value, rise and both slopes.
        bend = (3 - 2 * x) * rise - (2 - x) * slope - (1 - x) * next_slope
        integral.put(inside, low + x * (slope + x * bend))
        return integral
