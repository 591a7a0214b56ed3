"""Masses of the count likelihood over a growing region, tabulated along a path of (t, d).

For many attacks at once, and for each a path (t(u), d(u)), the flux across the edge of R(t, d) is
sampled on panels that refine themselves until it is resolved; masses up to u and beyond u are then
sums of positive panel integrals, accurate relative to themselves and not just to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import NotConvergedError
from epsilometer.inference import edges, panels

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Straight paths t(u) = t_start + t_rate u, d(u) = d_start + d_rate u for u in [0, length]."""

    attack: IntArray
    t_start: FloatArray
    d_start: FloatArray
    t_rate: FloatArray
    d_rate: FloatArray
    length: FloatArray

    def __len__(self) -> int:
        return len(self.t_start)


@dataclass(frozen=True, kw_only=True)
class TableAccuracy:
    """What a table must reach.

    ``tolerance`` bounds what is left unresolved on a panel relative to the flux there, where it is
    at its maximum over the path.  Below e^-even of the maximum it may grow as the inverse root of the
    flux, up to ``tail_tolerance``, and below e^-depth nothing is asked.
    """

    edge: edges.EdgeAccuracy
    nodes: int
    tolerance: float
    tail_tolerance: float
    depth: float
    even: float = 0.0


MOST_ROUNDS = 60
GRADING = 4.0
"""Next to a panel that matters no panel is this many times wider, so no narrow peak is missed."""


class MassTable:
    """Cumulative masses along paths.  All masses of a path are in units of exp(log_unit[path])."""

    def __init__(
        self, family: edges.Family, paths: Paths, seeds: FloatArray, accuracy: TableAccuracy
    ) -> None:
        """Build the table.

        Parameters
        ----------
        family
            The count likelihood; ``paths.attack`` says which of its entries a path belongs to.
        paths
            Where to go.
        seeds
            Shape (paths, any): first break points of each path, clipped to it.  A good guess at
            where the flux peaks saves rounds; a bad one costs only time.
        accuracy
            How good.
        """
        self._count = accuracy.nodes
        path, low, high = _first_panels(paths, seeds)
        noise = edges.rounding(family)
        values = _sample(family, paths, path, low, high, accuracy)
        for _ in range(MOST_ROUNDS):
            split = _to_split(len(paths), path, low, high, values, accuracy, noise)
            if not split.any():
                break
            kept = ~split
            middle = 0.5 * (low[split] + high[split])
            new_path = np.concatenate([path[split], path[split]])
            new_low = np.concatenate([low[split], middle])
            new_high = np.concatenate([middle, high[split]])
            new_values = _sample(family, paths, new_path, new_low, new_high, accuracy)
            path = np.concatenate([path[kept], new_path])
            low = np.concatenate([low[kept], new_low])
            high = np.concatenate([high[kept], new_high])
            values = np.concatenate([values[kept], new_values])
            order = np.lexsort((low, path))
            path, low, high, values = path[order], low[order], high[order], values[order]
        else:
            raise NotConvergedError(
                f"the edge fluxes were not resolved after {MOST_ROUNDS} rounds of refinement."
            )
        self._finish(len(paths), path, low, high, values)

    def _finish(
        self, count: int, path: IntArray, low: FloatArray, high: FloatArray, values: FloatArray
    ) -> None:
        self.log_unit = np.full((count, values.shape[2]), -np.inf)
        np.maximum.at(self.log_unit, path, values.max(axis=1))
        self.log_unit[~np.isfinite(self.log_unit)] = 0.0
        half = 0.5 * (high - low)
        flux = np.exp(values - self.log_unit[path][:, None]) * half[:, None, None]
        _, weights = panels.gauss_legendre(self._count)
        masses = np.einsum("pkn,k->pn", flux, weights)
        matrix = panels.integration_matrix(self._count) @ panels.analysis_matrix(self._count)
        # Coefficients first, so that a look-up gathers whole blocks.
        self._integral = np.ascontiguousarray(np.einsum("ck,pkn->cpn", matrix, flux))
        self._low, self._half, self._mass = low, half, masses
        self._first = np.searchsorted(path, np.arange(count))
        self._last = np.searchsorted(path, np.arange(count), side="right") - 1
        self._before = _segment_cumsum(masses, self._first, self._last)
        backwards = _segment_cumsum(
            masses[::-1], len(path) - 1 - self._last[::-1], len(path) - 1 - self._first[::-1]
        )
        self._after = backwards[::-1]
        self.total = self._before[self._last] + masses[self._last]
        # One increasing key for all paths: panels are then found with a single search.
        self._stride = float(high.max()) * 2 + 1
        self._key = low + path * self._stride

    def masses(self, path: IntArray, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mass before and beyond ``position`` on each ``path`` (equal shapes), nuisance last."""
        key = position + path * self._stride
        panel = np.searchsorted(self._key, key, side="right") - 1
        panel = np.clip(panel, self._first[path], self._last[path])
        local = np.clip((position - self._low[panel]) / self._half[panel] - 1, -1.0, 1.0)
        mass = self._mass[panel]
        part = panels.legendre_sum(self._integral[:, panel], local[..., None])
        part = np.clip(part, 0.0, mass)
        return self._before[panel] + part, self._after[panel] + (mass - part)


def _segment_cumsum(values: FloatArray, first: IntArray, last: IntArray) -> FloatArray:
    """Running sum of what came before, starting anew on each path.

    Not a difference of one long running sum: that would lose small masses beside large ones.
    """
    result = np.zeros_like(values)
    for step in range(1, int((last - first).max(initial=0)) + 1):
        index = first[first + step <= last] + step
        result[index] = result[index - 1] + values[index - 1]
    return result


def _first_panels(paths: Paths, seeds: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    length = paths.length[:, None]
    breaks = np.sort(
        np.concatenate([np.zeros_like(length), length, np.clip(seeds, 0.0, length)], axis=1), axis=1
    )
    # Seeds that (nearly) coincide are merged into one break; the ends stay where they are.
    distinct = np.diff(breaks, axis=1, prepend=-np.inf) > 1e-12 * length
    distinct[:, -1] = True
    # The last break is the end itself; one that all but coincides with it gives way.
    distinct[:, :-1] &= length - breaks[:, :-1] > 1e-12 * length
    path = np.nonzero(distinct)[0]
    flat = breaks[distinct]
    joined = path[1:] == path[:-1]
    return path[:-1][joined], flat[:-1][joined], flat[1:][joined]


def _sample(
    family: edges.Family,
    paths: Paths,
    path: IntArray,
    low: FloatArray,
    high: FloatArray,
    accuracy: TableAccuracy,
) -> FloatArray:
    points, _ = panels.gauss_legendre(accuracy.nodes)
    u = (low[:, None] + 0.5 * (high - low)[:, None] * (1 + points)).ravel()
    index = np.repeat(path, accuracy.nodes)
    flux = edges.log_flux(
        family,
        paths.attack[index],
        paths.t_start[index] + paths.t_rate[index] * u,
        paths.d_start[index] + paths.d_rate[index] * u,
        paths.t_rate[index],
        paths.d_rate[index],
        accuracy.edge,
    )
    return flux.reshape(len(path), accuracy.nodes, -1)


def _to_split(
    count: int,
    path: IntArray,
    low: FloatArray,
    high: FloatArray,
    values: FloatArray,
    accuracy: TableAccuracy,
    noise: float,
) -> NDArray[np.bool_]:
    peak = values.max(axis=1)
    top = np.full((count, values.shape[2]), -np.inf)
    np.maximum.at(top, path, peak)
    with np.errstate(invalid="ignore"):
        below = np.where(np.isfinite(peak), top[path] - peak, np.inf)
    matters = below < accuracy.depth
    scaled = np.exp(values - np.where(np.isfinite(peak), peak, 0.0)[:, None])
    last_two = panels.analysis_matrix(accuracy.nodes)[-2:]
    remainder = np.abs(np.einsum("ck,pkn->cpn", last_two, scaled)).sum(axis=0)
    allowed = np.minimum(
        accuracy.tolerance * np.exp(0.5 * np.clip(below - accuracy.even, 0.0, 700.0)),
        accuracy.tail_tolerance,
    )
    split = (matters & (remainder > np.maximum(allowed, noise))).any(axis=1)
    live = np.asarray(matters.any(axis=1))
    width = high - low
    same = path[1:] == path[:-1]
    split[:-1] |= same & live[1:] & (width[:-1] > GRADING * width[1:])
    split[1:] |= same & live[:-1] & (width[1:] > GRADING * width[:-1])
    return np.asarray(split & (width > 1e-13 * (1 + high)))
