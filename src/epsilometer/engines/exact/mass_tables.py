"""Masses of the count likelihood inside and outside growing regions, tabulated along paths of (t, d).

For many attacks at once, each with a path (t(u), d(u)), the logarithm of the flux across the edge of
R(t, d) is sampled on panels that are refined until it is a polynomial.  It is smooth however far out in
a tail, so few samples suffice, and masses up to u and beyond u, sums of positive increments between
finely spaced points, have small relative errors as deep as panels were refined.  They are stored as
polynomials of their logarithms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from epsilometer._arrays import BoolArray, Columns, FloatArray, IndexArray
from epsilometer.engines.exact.flux import log_flux, rounding
from epsilometer.engines.exact.kernels import Guess, Kernel
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.errors import NotConvergedError
from epsilometer.posteriors import panels

SEED_STEPS = np.array([-7.0, -2.5, 2.5, 7.0, 20.0])  # first breaks of a path, in widths of its peak
PARTS = 3  # parts of a flux panel used for the masses, which may bend where the flux does not
INTERVAL_NODES = 4  # between neighbouring points of a part, where the flux changes by few nats
# Nats of change per panel: then about 3 between points, where four nodes are accurate to 1e-5.
WIDEST_RANGE = 60.0
EVEN_DEPTH = 20.0  # nats below its peak down to which the flux must be equally accurate
TAIL_FACTOR = 30.0  # how much less accurate it may be beyond
LEAST_LOG_FLUX = -1e6  # replaces the logarithm of a flux that underflows
# How far paths extend beyond the largest epsilon, until fluxes are practically exponential: the
# remaining mass is then known in closed form, to a relative error of e^-8.
BEYOND_END = 8.0
MOST_HALVINGS = 60  # a panel halved this often is as short as rounding error


class Batch(NamedTuple):
    """Attacks tabulated together, at nodes of d from 0 to the largest, and up to an end of t."""

    kernel: Kernel
    nuisance_nodes: int
    delta_nodes: FloatArray
    end: float
    resolution: Resolution


class Masses(ABC):
    """Logarithms of masses inside and outside R(t, d) for a batch of attacks."""

    def __init__(self, batch: Batch) -> None:
        self._batch, self._nuisance = batch, batch.nuisance_nodes
        self.delta_nodes = batch.delta_nodes

    @abstractmethod
    def at(self, t: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
        """Log masses inside and outside, (d node, t, attack, nuisance node), of some attacks."""

    def coarse(self) -> Masses:
        """A less accurate version of the same table, if there is one."""
        return self


def chebyshev_points(end: float, count: int) -> FloatArray:
    """Chebyshev points of [0, end], including the ends; just [0] if the end is 0."""
    if end == 0:
        return np.zeros(1)
    return np.asarray(0.5 * end * (1 - np.cos(np.pi * np.arange(count) / (count - 1))))


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Straight paths of (t, d) from (0, d_start), along t if ``t_rate`` is 1 and along d if it is 0.

    ``entry`` is the entry of the kernel of each path; all have the same ``length``.
    """

    entry: IndexArray
    d_start: FloatArray
    t_rate: float
    length: float

    def log_flux(
        self, kernel: Kernel, path: IndexArray, u: FloatArray, resolution: Resolution
    ) -> FloatArray:
        """Log flux at the positions u of the given paths."""
        t_rate, d_rate = np.full_like(u, self.t_rate), np.full_like(u, 1 - self.t_rate)
        d = self.d_start[path] + d_rate * u
        return log_flux(kernel, self.entry[path], t_rate * u, d, t_rate, d_rate, resolution)


@dataclass(frozen=True, kw_only=True)
class _Sampled(Columns):
    """Panels of paths, and the log flux (panel, node) at their Gauss-Legendre nodes."""

    path: IndexArray
    low: FloatArray
    high: FloatArray
    values: FloatArray


class _Rule(NamedTuple):
    """Matrices from the flux at a panel's nodes to the values needed in its parts."""

    local: FloatArray  # Chebyshev points of a part on [-1, 1]
    to_inner: FloatArray  # from a panel's nodes to the Gauss nodes between points and to its start
    straight: FloatArray  # the same by straight lines from the panel's start, its nodes and its end
    weights: FloatArray  # of the Gauss nodes, (interval, node), in units of half a part
    analysis: FloatArray  # from values at a part's points to coefficients


@lru_cache(maxsize=16)
def _rule(nodes: int, points: int) -> _Rule:
    local = -np.cos(np.pi * np.arange(points) / (points - 1))
    gauss, weights = panels.gauss_legendre(INTERVAL_NODES)
    half = 0.5 * np.diff(local)[:, None]
    inner = (local[:-1, None] + half * (1 + gauss)).ravel()
    starts = -1 + 2 * np.arange(PARTS) / PARTS
    everywhere = np.concatenate([start + (1 + inner) / PARTS for start in starts])
    # The start of the panel as well: there the mass before it is proportional to the flux.
    everywhere = np.append(everywhere, -1.0)
    to_inner = legendre.legvander(everywhere, nodes - 1) @ panels.analysis_matrix(nodes)
    analysis = np.linalg.inv(legendre.legvander(local, points - 1))
    known = np.concatenate([[-1.0], panels.gauss_legendre(nodes)[0], [1.0]])
    straight = panels.linear_matrix(known, everywhere)
    return _Rule(local, to_inner, straight, half * weights, np.asarray(analysis, dtype=float))


class FluxTable:
    """Log masses along paths, before a position and beyond it."""

    def __init__(
        self, kernel: Kernel, paths: Paths, seeds: FloatArray, resolution: Resolution
    ) -> None:
        """Build the table.

        ``seeds`` (path, any) are initial breaks of each path, clipped to it.  A good guess of the
        position of the peak saves rounds; a bad one only costs time.
        """
        noise = rounding(kernel)

        def sampled(path: IndexArray, low: FloatArray, high: FloatArray) -> _Sampled:
            points, _ = panels.gauss_legendre(resolution.flux_nodes)
            u = (low[:, None] + 0.5 * (high - low)[:, None] * (1 + points)).ravel()
            flux = paths.log_flux(kernel, np.repeat(path, resolution.flux_nodes), u, resolution)
            values = np.maximum(flux, LEAST_LOG_FLUX).reshape(len(path), resolution.flux_nodes)
            return _Sampled(path=path, low=low, high=high, values=values)

        samples = sampled(*_first_panels(len(seeds), paths.length, seeds))
        for _ in range(MOST_HALVINGS):
            split = _to_split(len(seeds), samples, resolution, noise)
            if not split.any():
                break
            coarse = samples.take(split)
            middle = 0.5 * (coarse.low + coarse.high)
            low, high = (coarse.low, middle), (middle, coarse.high)
            halves = sampled(np.tile(coarse.path, 2), np.concatenate(low), np.concatenate(high))
            samples = samples.take(~split).followed_by(halves)
            samples = samples.take(np.lexsort((samples.low, samples.path)))
        else:
            raise NotConvergedError(
                f"the edge fluxes were not resolved after {MOST_HALVINGS} rounds of refinement."
            )
        self._tabulate(len(seeds), samples, resolution, noise)

    def _tabulate(self, count: int, found: _Sampled, resolution: Resolution, noise: float) -> None:
        """Sum the flux between the points of all parts, forwards and backwards."""
        path, low, high, values = found.path, found.low, found.high, found.values
        rule = _rule(resolution.flux_nodes, resolution.mass_points)
        local = rule.local
        fluxes = values @ rule.to_inner.T
        rough = np.flatnonzero(_unresolved(values, resolution.flux_tolerance * TAIL_FACTOR, noise))
        if len(rough):
            # Too deep to matter.  A polynomial might oscillate there; straight lines do not.
            fluxes[rough] = _with_ends(path, values)[rough] @ rule.straight.T
        inner = fluxes[:, :-1].reshape(len(path), -1, INTERVAL_NODES)
        top = inner.max(axis=-1)
        half = 0.5 * (high - low) / PARTS
        sums = np.exp(inner - top[..., None]).reshape(len(path), PARTS, -1, INTERVAL_NODES)
        logs = np.log(np.einsum("psig,ig->psi", sums, rule.weights)) + np.log(half)[:, None, None]
        logs = logs.reshape(top.shape) + top
        # One row per path: its panels in sequence, padded if it has fewer than others.
        first = np.searchsorted(path, np.arange(count))
        place = np.arange(len(path)) - first[path]
        steps = logs.shape[1]
        line = np.full((count, (int(place.max()) + 1) * steps), -np.inf)
        columns = place[:, None] * steps + np.arange(steps)
        line[path[:, None], columns] = logs
        before = np.logaddexp.accumulate(line, axis=1)
        tail = _log_tail(low, high, values, np.append(first[1:], len(path)) - 1)
        backwards = np.concatenate([tail[:, None], line[:, ::-1]], axis=1)
        beyond = np.logaddexp.accumulate(backwards, axis=1)[:, ::-1]
        starts = np.concatenate([np.full((count, 1), -np.inf), before], axis=1)
        # Points of parts: the last of one is the first of the next.
        size = resolution.mass_points - 1
        index = columns[:, ::size, None] + np.arange(resolution.mass_points)
        rows = path[:, None, None]
        width = half[:, None, None]
        part_low = low[:, None] + 2 * half[:, None] * np.arange(PARTS)
        position = part_low[..., None] + width * (1 + local)
        # On a path's first panel mass and position vanish together: store their quotient.
        from_start = np.arange(len(path)) == first[path]
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = starts[rows, index] - np.where(from_start[:, None, None], np.log(position), 0)
        inside = np.where(position == 0, fluxes[:, -1][:, None, None], inside)
        both = np.stack([inside, beyond[rows, index]], axis=2)
        both = both.reshape(-1, 2, resolution.mass_points)
        # Masses are monotone along a path, and so are their logarithms between points; only on the
        # first panel, where they are divided by the position, they need not be.
        slack = np.where(np.repeat(from_start, PARTS)[:, None], np.ptp(both, axis=2), 0.0)
        bounds = np.stack([both.min(axis=2) - slack, both.max(axis=2) + slack], axis=2)
        # The data of a part are contiguous, so that a look-up copies one block: its coefficients,
        # and the limits of the polynomial.
        self._parts = np.concatenate([both @ rule.analysis.T, bounds], axis=2)
        self._low, self._half = part_low.ravel(), np.repeat(half, PARTS)
        self._from_start = np.repeat(from_start, PARTS)
        self._first = first * PARTS
        self._last = np.append(self._first[1:], len(self._low)) - 1
        # One increasing key for all paths: parts are then found with a single search.
        self._stride = float(high.max()) * 2 + 1
        self._key = self._low + np.repeat(path, PARTS) * self._stride

    def log_masses(
        self, path: IndexArray, position: FloatArray, *, drop: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Log masses before and beyond ``position`` on each ``path`` (equal shapes).

        ``drop`` leaves out that many of the highest coefficients, for an error estimate.
        """
        key = position + path * self._stride
        part = np.searchsorted(self._key, key, side="right") - 1
        part = np.clip(part, self._first[path], self._last[path])
        local = np.clip((position - self._low[part]) / self._half[part] - 1, -1.0, 1.0)
        looked_up = self._parts.take(part, axis=0)
        count = looked_up.shape[-1] - 2 - drop
        basis = legendre.legvander(local, count - 1)
        logs = np.einsum("...fc,...c->...f", looked_up[..., :count], basis)
        np.maximum(logs, looked_up[..., -2], out=logs)
        np.minimum(logs, looked_up[..., -1], out=logs)
        with np.errstate(divide="ignore"):
            offset = np.where(self._from_start[part], np.log(position), 0.0)
        return logs[..., 0] + offset, logs[..., 1]


def _log_tail(
    low: FloatArray, high: FloatArray, values: FloatArray, last: IndexArray
) -> FloatArray:
    """Log mass beyond the end of each path, where the flux continues to fall as at its end."""
    points, _ = panels.gauss_legendre(values.shape[1])
    half = 0.5 * (high - low)[last]
    slope = (values[last, -2] - values[last, -1]) / (half * (points[-1] - points[-2]))
    # From the last node to the end it falls according to the slope.
    at_end = values[last, -1] - slope * half * (1 - points[-1])
    return np.asarray(at_end - np.log(np.maximum(slope, 0.1)))


def _first_panels(
    count: int, length: float, seeds: FloatArray
) -> tuple[IndexArray, FloatArray, FloatArray]:
    """The path, start and end of each panel between breaks at the seeds."""
    ends = np.tile([0.0, length], (count, 1))
    breaks = np.sort(np.concatenate([ends, np.clip(seeds, 0.0, length)], axis=1), axis=1)
    # Seeds that (nearly) coincide are merged into one break; the ends stay where they are.
    distinct = np.diff(breaks, axis=1, prepend=-np.inf) > 1e-12 * length
    distinct[:, -1] = True
    # The last break is the end itself; another one that nearly coincides with it is dropped.
    distinct[:, :-1] &= length - breaks[:, :-1] > 1e-12 * length
    path = np.nonzero(distinct)[0]
    flat = breaks[distinct]
    joined = path[1:] == path[:-1]
    return path[:-1][joined], flat[:-1][joined], flat[1:][joined]


def _to_split(count: int, found: _Sampled, resolution: Resolution, noise: float) -> BoolArray:
    """Panels on which the log flux is not yet a polynomial, down to the required depth."""
    path, values = found.path, found.values
    peak = values.max(axis=1)
    top = np.full(count, -np.inf)
    np.maximum.at(top, path, peak)
    # On a wide panel all nodes may be deep in a tail that starts high: use its neighbours.
    whole = _with_ends(path, values)
    peak = np.maximum(peak, np.maximum(whole[:, 0], whole[:, -1]))
    below = top[path] - peak
    relaxed = np.exp(np.clip(below - EVEN_DEPTH, 0.0, 20.0) / 4)
    allowed = resolution.flux_tolerance * np.minimum(relaxed, TAIL_FACTOR)
    split = (below < resolution.depth) & _unresolved(values, allowed, noise)
    return np.asarray(split & (found.high - found.low > 1e-13 * (1 + found.high)))


def _unresolved(values: FloatArray, allowed: FloatArray | float, noise: float) -> BoolArray:
    """Panels on which log fluxes (panel, node) are not polynomial, or change by too much."""
    remainder = panels.tail(values @ panels.analysis_matrix(values.shape[1]).T)
    steep = np.ptp(values, axis=1) > WIDEST_RANGE
    return np.asarray((remainder > np.maximum(allowed, noise)) | steep)


def _with_ends(path: IndexArray, values: FloatArray) -> FloatArray:
    """Log fluxes at the start of each panel, at its nodes and at its end, using its neighbours.

    Of two polynomials that meet the flatter one is used; at the ends of a path there is only one.
    """
    count = values.shape[1]
    at_ends = legendre.legvander(np.array([-1.0, 1.0]), count - 1)
    ends = values @ (at_ends @ panels.analysis_matrix(count)).T
    same = path[1:] == path[:-1]
    flatter = np.ptp(values[:-1], axis=1) <= np.ptp(values[1:], axis=1)
    meeting = np.where(flatter, ends[:-1, 1], ends[1:, 0])
    start, end = values[:, 0].copy(), values[:, -1].copy()
    start[1:] = np.where(same, meeting, start[1:])
    end[:-1] = np.where(same, meeting, end[:-1])
    return np.concatenate([start[:, None], values, end[:, None]], axis=1)


class FluxMasses(Masses):
    """Masses inside and outside R(t, d) for a batch of attacks, at any t and nodes of d.

    ``coarse`` returns the same with fewer coefficients and every other node of d.
    """

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        kernel, _, nodes, end, resolution = batch
        self._drop, self._every = 0, 1
        entries, count = len(kernel), len(nodes)
        guess = Guess.of(kernel)
        index, d_start = np.repeat(np.arange(entries), count), np.tile(nodes, entries)
        paths = Paths(entry=index, d_start=d_start, t_rate=1.0, length=end + BEYOND_END)
        guesses = guess.take(index)
        seeds = guesses.critical_epsilon(d_start)[:, None] + guesses.width[:, None] * SEED_STEPS
        self._table = FluxTable(kernel, paths, seeds, resolution)
        self._strip = np.full((entries, count), -np.inf)
        if count > 1:
            # The strips R(0, d), at which the paths along t start.
            every, end = np.arange(entries), float(nodes[-1])
            paths = Paths(entry=every, d_start=np.zeros(entries), t_rate=0.0, length=end)
            seeds = (1 - guess.large - guess.small)[:, None] + end * np.array([-0.25, 0.0, 0.25])
            strip = FluxTable(kernel, paths, seeds, resolution)
            shape = (entries, count - 1)
            where = np.broadcast_to(every[:, None], shape)
            self._strip[:, 1:], _ = strip.log_masses(where, np.broadcast_to(nodes[1:], shape))

    def coarse(self) -> FluxMasses:
        other = copy(self)
        other._drop = 2
        other._every = 2 if len(self.delta_nodes) > 2 else 1
        other.delta_nodes = self.delta_nodes[:: other._every]
        return other

    def at(self, t: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
        count = len(self._strip[0])
        attacks = len(self._strip) // self._nuisance
        chosen = np.arange(attacks)[part]
        entries = (np.arange(self._nuisance)[:, None] * attacks + chosen).ravel()
        nodes = np.arange(count)[:: self._every]
        path = (entries[:, None] * count + nodes).ravel()
        shape = (len(path), len(t))
        before, beyond = self._table.log_masses(
            np.broadcast_to(path[:, None], shape), np.broadcast_to(t, shape), drop=self._drop
        )
        strip = self._strip[entries][:, nodes].ravel()[:, None]
        full = (self._nuisance, len(chosen), len(nodes), len(t))
        inside, outside = (
            np.ascontiguousarray(logs.reshape(full).transpose(2, 3, 1, 0))
            for logs in (np.logaddexp(strip, before), beyond)
        )
        return inside, outside
