"""Masses of rings from masses inside and outside regions at a few values of d.

The mass of R_s(epsilon, delta) is a difference of masses inside or outside its two edges, taken on the
side with less cancellation.  The inner edge is at d = s delta, between the nodes of a table.
"""

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray, IndexArray
from epsilometer.engines.exact.mass_tables import Masses
from epsilometer.model import region
from epsilometer.posteriors.panels import lagrange

# Nats below the mass of the whole region down to which a core matters to the mass of the ring:
# below that, even ignoring it would cause an error of no more than 1e-6.
NEAR = 14.0
# Nats below the largest likelihood at which the mean density inside counts as a tail. A thin
# region that merely runs past the peak has more, however thin it is.
DEEP_CELL = 12.0


class Rings:
    """Ring masses at points (epsilon, strength), with the parts that all attacks share."""

    def __init__(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> None:
        rows, self._row = np.unique(epsilon, return_inverse=True)
        # Points share most of their positions, so few table look-ups are needed.
        self._positions, where = merged(np.append(strength * epsilon, rows))
        self._core, self._whole = np.split(where, [len(strength)])
        self._d, self._delta = delta * strength, delta
        self._weights: dict[bytes, FloatArray] = {}

    def by_masses(self, table: Masses, part: slice) -> FloatArray:
        """Log ring masses (point, attack, nuisance) for masses that are unknown in deep tails.

        Masses themselves are interpolated between the nodes of d, which is several times faster.
        """
        sides = table.at(self._positions, part)
        unit = np.maximum(sides[0][-1, -1], sides[1][0, 0])
        # Between nodes a polynomial may overshoot; no mass exceeds the total.
        inside, outside = (np.exp(np.minimum(logs - unit, 0.0)) for logs in sides)
        # The side with less cancellation; it hardly depends on d.
        far = outside[-1] < inside[-1]
        ring = self._at_cores(table, np.where(far, outside, -inside))
        beyond = far.take(self._core, axis=0)
        for values, sign, where in ((inside, 1.0, ~beyond), (outside, -1.0, beyond)):
            whole = sign * self._at_rows(table, values)
            np.add(ring, whole.take(self._row, axis=0), out=ring, where=where)
        np.log(np.maximum(ring, 1e-300, out=ring), out=ring)
        ring += unit
        return np.asarray(ring)

    def by_logarithms(self, table: Masses, part: slice, largest: FloatArray) -> FloatArray:
        """Log ring masses (point, attack, nuisance) of some attacks, however deep in a tail.

        ``largest`` are their largest log likelihoods, (attack, nuisance).

        Between the nodes of d masses inside are interpolated relative to the largest, which is at most
        that of the whole ring, and masses outside by their logarithms, which vary by many nats.  The
        difference is taken on the side where the core's mass is smaller, so that the relative error of
        the mass of a ring far from the attack is still small.
        """
        log_in, log_out = table.at(self._positions, part)
        unit = np.maximum(log_in[-1], -1e300)
        # Masses inside increase with d; where a tail is not resolved they might not.
        scaled = np.exp(np.minimum(log_in - unit, 0.0))
        with np.errstate(divide="ignore"):
            in_core = np.log(np.maximum(self._at_cores(table, scaled), 0.0))
        at_core = unit.take(self._core, axis=0)
        in_core += at_core
        in_all = np.log(np.maximum(self._at_rows(table, scaled), 1e-300)) + unit[self._whole]
        in_all = in_all.take(self._row, axis=0)
        out_core = self._at_cores(table, log_out)
        out_all = self._at_rows(table, log_out).take(self._row, axis=0)
        beyond = out_core < in_core
        if len(table.delta_nodes) > 1:
            near = ~beyond & (at_core > in_all - NEAR)
            self._follow_tails(table, log_in, near, largest, in_core)
        high = np.where(beyond, out_core, in_all)
        low = np.where(beyond, out_all, in_core)
        return np.asarray(high + np.log(-np.expm1(np.minimum(low - high, -1e-15))))

    def _at_cores(self, table: Masses, values: FloatArray) -> FloatArray:
        """Values (d, position, attack, nuisance) interpolated to the inner edge of each point."""
        key = table.delta_nodes.tobytes()
        if key not in self._weights:
            self._weights[key] = lagrange(table.delta_nodes, self._d)[..., None, None]
        weights = self._weights[key]
        total = values[0].take(self._core, axis=0)
        total *= weights[0]
        for more, weight in zip(values[1:], weights[1:], strict=True):
            total += more.take(self._core, axis=0) * weight
        return np.asarray(total)

    def _at_rows(self, table: Masses, values: FloatArray) -> FloatArray:
        """The same at the outer edge of each distinct epsilon: (row, attack, nuisance)."""
        weights = lagrange(table.delta_nodes, np.array(self._delta))
        return np.asarray(np.tensordot(weights, values[:, self._whole], axes=1))

    def _follow_tails(
        self,
        table: Masses,
        log_in: FloatArray,
        near: BoolArray,
        largest: FloatArray,
        in_core: FloatArray,
    ) -> None:
        """Interpolate logarithms where masses inside vary by many nats with d: far out in a tail.

        It is the mean density that varies; the area goes to 0 with t and d, and its logarithm must not
        be interpolated.
        """
        # At t = 0 the node d = 0 is a line, which has neither mass nor area.
        area = region.log_area(self._positions, table.delta_nodes[:, None])[..., None, None]
        with np.errstate(invalid="ignore"):
            density = log_in - area
        deep = (density[-1] < largest - DEEP_CELL) & (self._positions > 0)[:, None, None]
        where = near & deep.take(self._core, axis=0)
        if where.any():
            area = region.log_area(self._positions[self._core], self._d)[:, None, None]
            np.copyto(in_core, self._at_cores(table, density) + area, where=where)


def merged(values: FloatArray) -> tuple[FloatArray, IndexArray]:
    """The distinct values, merged if equal up to rounding, and the index of each input value."""
    order = np.argsort(values)
    ordered = values[order]
    first = np.append(True, np.diff(ordered) > 1e-12 * ordered[1:])
    where = np.empty(len(values), dtype=np.intp)
    where[order] = np.cumsum(first) - 1
    return ordered[first], where
