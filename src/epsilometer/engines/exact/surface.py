"""The likelihood of (epsilon, strength) as an object, built once from counts and evaluated as needed.

A surface contains the counts and how they arise, but no priors.  It is evaluated at any epsilon,
strength and delta, at all nodes of the nuisance parameters, so that other priors, deltas, fixed values
and left-out bases can share one surface.  Given the counts of one attack its latent error rates matter
only through masses: the likelihood is the mass of the ring R_s(epsilon, delta) over its area.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from epsilometer._arrays import FloatArray, IndexArray
from epsilometer.engines.exact.flux import log_flux, thread_pool
from epsilometer.engines.exact.kernels import Guess, Kernel
from epsilometer.engines.exact.mass_tables import Batch, FluxMasses, Masses, chebyshev_points
from epsilometer.engines.exact.nuisance import NuisanceGrid
from epsilometer.engines.exact.planar import PlanarMasses
from epsilometer.engines.exact.resolution import Resolution
from epsilometer.engines.exact.rings import Rings
from epsilometer.engines.exact.treatments import treatment_of
from epsilometer.errors import ContradictionError
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import Likelihood
from epsilometer.posteriors import panels

Used = TypeVar("Used")

#: Numbers in an array of masses: fits a core's cache, and uses little memory.
CHUNK_ENTRIES = 200_000
TABLE_ATTACKS = 500  # entries tabulated together: long loops, little memory
CONTRADICTION = 1200.0  # nats below the total mass at which counts and model contradict each other
BLUNT = 0.1  # deltas below this sharpness share a table of few nodes in d
SHARP_NODES = 2.2  # nodes in d for each width by which d may move a critical epsilon
THIN = 0.95  # thinner rings are integrated by fluxes even with plane quadrature: no differences
THIN_NODES = 6  # Gauss nodes across a thin ring, on which the flux hardly changes


@dataclass(frozen=True, kw_only=True)
class AttackSurface:
    """Independent attacks: a product of ring masses over ring areas.

    ``deltas`` are the largest d of the tables; a query uses the smallest sufficient one.  Tables are
    made on first use and shared by all surfaces derived from this one.  ``log_offset`` is a constant of
    all counts together; ``refinements`` caches the same attacks at other refinement steps.
    """

    counts: AttackCounts
    likelihood: Likelihood
    kernel: Kernel
    nuisance: NuisanceGrid
    multiplicity: FloatArray
    resolution: Resolution
    deltas: tuple[float, ...]
    refinement: int
    end: float = 0.0
    log_offset: float = 0.0
    tables: dict[float, list[tuple[IndexArray, Masses]]] = field(default_factory=dict)
    refinements: dict[int, AttackSurface] = field(default_factory=dict)

    #: The name of the method, one word.
    method = "grid"

    @classmethod
    def of(
        cls,
        counts: AttackCounts,
        likelihood: Likelihood,
        deltas: Sequence[float],
        *,
        refinement: int = 0,
    ) -> AttackSurface:
        """The surface of counts at a refinement step, ready for the given deltas."""
        treatment = treatment_of(likelihood)
        distinct, which = counts.distinct()
        resolution = Resolution.number(refinement, planar=treatment.planar).for_bases(len(counts))
        nuisance = treatment.grid(likelihood, counts, resolution.nuisance)
        kernel = treatment.kernel(likelihood, distinct, nuisance)
        wanted = [float(delta) for delta in deltas]
        blunt = [d for d in wanted if Guess.of(kernel).sharpness(d) < BLUNT]
        return cls(
            counts=counts,
            likelihood=likelihood,
            kernel=kernel,
            nuisance=nuisance,
            multiplicity=np.bincount(which).astype(float),
            resolution=resolution,
            deltas=tuple(sorted({max(part) for part in (blunt, wanted) if part})),
            refinement=refinement,
        )

    @property
    def planar(self) -> bool:
        """Whether masses come from plane quadrature, which is less accurate than fluxes."""
        return treatment_of(self.likelihood).planar

    @property
    def smallest_epsilon(self) -> float:
        """The smallest epsilon on the axis."""
        return self.likelihood.smallest_epsilon(self.counts)

    def first(self) -> AttackSurface:
        """The same likelihood without refinement."""
        self.refinements[self.refinement] = self
        if not self.planar and self.refinement <= 1:
            return replace(self, refinement=0)
        return self.refinements.get(0) or self._at(0)

    def finer(self, refinement: int, solution: object) -> AttackSurface:
        """The same attacks at a finer resolution; the first two steps share one table of fluxes."""
        self.refinements[self.refinement] = self
        if refinement == 1 and not self.planar:
            return replace(self, refinement=1)
        known = self.refinements.get(refinement)
        if known is not None and known.end >= self.end and known.depth >= self.depth:
            return known
        return self._at(refinement)

    def _at(self, refinement: int) -> AttackSurface:
        surface = replace(
            self.of(self.counts, self.likelihood, self.deltas, refinement=refinement),
            multiplicity=self.multiplicity,
            end=self.end,
            log_offset=self.log_offset,
            refinements=self.refinements,
        )
        return surface if self.planar else surface.deepened(self.depth)

    # --- derived surfaces -----------------------------------------------------------------------

    def reaching(self, end: float) -> AttackSurface:
        """The same surface for epsilon up to ``end``."""
        return self if end <= self.end else replace(self, end=end, tables={})

    @property
    def depth(self) -> float:
        """The deficit down to which it is accurate."""
        # Plane quadrature has no limited depth: below its rounding it extrapolates the logarithm.
        return np.inf if self.planar else self.resolution.depth

    @property
    def common_error(self) -> float:
        """Error that this refinement step may share with the previous one, hidden from comparisons."""
        # The first two steps share the fluxes; their tolerance bounds errors of log likelihoods.
        return 0.0 if self.planar else self.resolution.flux_tolerance

    def deepened(self, depth: float) -> AttackSurface:
        """The same surface, accurate further down into the tails."""
        if depth > CONTRADICTION:
            raise ContradictionError(
                "the attacks contradict each other or the prior so strongly that their likelihood "
                f"falls below e^-{CONTRADICTION:.0f}; check the counts, or widen the prior of epsilon."
            )
        return replace(self, resolution=replace(self.resolution, depth=depth), tables={})

    def without(self, row: int) -> AttackSurface:
        """The same likelihood without one base."""
        fewer = self.multiplicity.copy()
        fewer[self.counts.distinct()[1][row]] -= 1
        known = self.refinements.items()
        others = {step: replace(it, multiplicity=fewer, refinements={}) for step, it in known}
        return replace(self, multiplicity=fewer, refinements=others)

    @property
    def guess(self) -> Guess:
        """Approximate critical epsilon of the attacks."""
        # At a narrow nuisance node; the very narrowest may have negligible weight.
        first = self.nuisance.typical_node * len(self.multiplicity)
        return Guess.of(self.kernel).take(first + np.flatnonzero(self.multiplicity > 0))

    # --- evaluation -----------------------------------------------------------------------------

    def log_likelihood(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> FloatArray:
        """Log likelihood (point, nuisance node); ``strength`` is paired with ``epsilon``."""
        number = float(self.multiplicity.sum())
        total = np.zeros((len(strength), len(self.nuisance)))

        def added(attacks: IndexArray, logs: FloatArray) -> FloatArray:
            times = self.multiplicity[attacks]
            if np.all(times == 1):
                return np.asarray(logs.sum(axis=1))
            return np.asarray(np.einsum("a,pan->pn", times, logs))

        for part in self._each_part(epsilon, strength, delta, added):
            total += part
        area = _log_area(epsilon, strength, delta)[:, None]
        return np.asarray(total - number * area + self.log_offset)

    def each(
        self, epsilon: FloatArray, strength: FloatArray, delta: float
    ) -> Iterator[tuple[IndexArray, FloatArray]]:
        """Each kind of base: its rows of the counts, and its log likelihood (point, nuisance node)."""
        rows = self.counts.distinct()[1]
        area = _log_area(epsilon, strength, delta)[:, None]
        for attacks, logs in self._each_part(epsilon, strength, delta, _unchanged):
            for number, attack in enumerate(attacks):
                yield np.flatnonzero(rows == attack), logs[:, number] - area

    def deficit(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> float:
        """How far below its total mass the ring of some attack is at these points, in nats."""
        worst = 0.0
        if np.all(strength == 1):
            # Fluxes are as accurate in a tail as anywhere; only tables have a depth.
            return worst
        whole = _log_whole(self.kernel).reshape(len(self.nuisance), -1).T
        for attacks, logs in self._each_part(epsilon, strength, delta, _unchanged):
            worst = max(worst, float((whole[attacks] - logs).max()))
        return worst

    def _each_part(
        self,
        epsilon: FloatArray,
        strength: FloatArray,
        delta: float,
        use: Callable[[IndexArray, FloatArray], Used],
    ) -> Iterator[Used]:
        """Apply ``use`` to attacks and their log ring masses (point, attack, nuisance).

        At strength 1 it is the limit of mass / (1 - s).  No ring has more than the largest likelihood
        times its area: far out, where mass and area are both tiny, noise must not look like a peak.
        """
        nodes, attacks = len(self.nuisance), len(self.multiplicity)
        area = _log_area(epsilon, strength, delta)[:, None, None]
        bound = self.kernel.log_largest().reshape(nodes, attacks).T
        bounded = bool(np.isfinite(bound).all())
        thin = bool(np.all(strength >= (THIN if self.planar else 1.0)))
        used = np.flatnonzero(self.multiplicity > 0)
        size = max(1, CHUNK_ENTRIES // (nodes * strength.size * (THIN_NODES if thin else 1)))
        ask = Rings(epsilon, strength, delta)

        def rings(table: Masses | None, chosen: IndexArray, part: slice) -> Used:
            if table is None:
                logs = self._by_thin_rings(chosen, epsilon, strength, delta)
            elif self.planar:
                logs = ask.by_masses(table, part)
            else:
                logs = ask.by_logarithms(table, part, bound[chosen])
            if bounded:
                np.minimum(logs, bound[chosen] + area, out=logs)
            live = np.isin(chosen, used)
            return use(chosen, logs) if live.all() else use(chosen[live], logs[:, live])

        jobs: list[tuple[Masses | None, IndexArray, slice]] = []
        everyone = np.arange(attacks)
        for indices, table in [(everyone, None)] if thin else self._tables_for(delta):
            for start in range(0, len(indices), size):
                part = slice(start, min(start + size, len(indices)))
                jobs.append((table, indices[part], part))
        # In the order of the parts, so that threads do not change a single bit.
        # Fluxes use the pool themselves: tasks waiting for their own pool would deadlock.
        apply = thread_pool().map if len(jobs) > 1 and not thin else map
        yield from apply(rings, *zip(*jobs, strict=True))

    def _by_thin_rings(
        self, attacks: IndexArray, epsilon: FloatArray, strength: FloatArray, delta: float
    ) -> FloatArray:
        """Ring masses as integrals of the flux across the ring; at strength 1 the flux itself."""
        nodes, number = len(self.nuisance), len(self.multiplicity)
        shape = (len(strength), len(attacks), nodes)
        entry = np.broadcast_to(np.arange(nodes) * number + attacks[:, None], shape).ravel()
        e, s = (np.broadcast_to(x[:, None, None], shape).ravel() for x in (epsilon, strength))
        resolution, flat = self.resolution, np.full(len(e), delta)
        points, weights = panels.gauss_legendre(THIN_NODES)
        if np.all(strength == 1):
            return log_flux(self.kernel, entry, e, flat, e, flat, resolution).reshape(shape)
        total = np.full(len(e), -np.inf)
        with np.errstate(divide="ignore"):
            gap = np.log(0.5 * (1 - s))
        for point, weight in zip(points, weights, strict=True):
            u = s + 0.5 * (1 - s) * (1 + point)
            flux = log_flux(self.kernel, entry, u * e, u * flat, e, flat, resolution)
            total = np.logaddexp(total, flux + np.log(weight) + gap)
        return total.reshape(shape)

    # --- tables ---------------------------------------------------------------------------------

    def _tables_for(self, delta: float) -> list[tuple[IndexArray, Masses]]:
        """Attacks and their tables, for the smallest sufficient delta.

        Attacks of equal sharpness share a table, so that only a few need many nodes in d.
        """
        largest = next((table_delta for table_delta in self.deltas if table_delta >= delta), delta)
        if largest not in self.tables:
            nodes, attacks = len(self.nuisance), len(self.multiplicity)
            sharp = Guess.of(self.kernel).sharpness_of_each(largest).reshape(nodes, attacks)
            order = np.argsort(sharp.max(axis=0), kind="stable")
            parts = np.split(order, range(0, attacks, max(1, TABLE_ATTACKS // nodes))[1:])
            self.tables[largest] = [(part, self._table(part, largest)) for part in parts]
        made = self.tables[largest]
        return [(part, table.coarse()) for part, table in made] if self.refinement == 0 else made

    def _table(self, attacks: IndexArray, largest: float) -> Masses:
        nodes = len(self.nuisance)
        number = len(self.multiplicity)
        kernel = self.kernel.take((np.arange(nodes)[:, None] * number + attacks).ravel())
        sharp = Guess.of(kernel).sharpness(largest)
        # Odd, so that every other node makes a coarser table.
        half = 1 if sharp < BLUNT else 1 + int(np.ceil(0.5 * SHARP_NODES * sharp))
        half += self.resolution.more_delta_nodes
        d = chebyshev_points(largest, 2 * half if self.planar else 2 * half + 1)
        masses = PlanarMasses if self.planar else FluxMasses
        return masses(Batch(kernel, nodes, d, self.end, self.resolution))


def _unchanged(attacks: IndexArray, logs: FloatArray) -> tuple[IndexArray, FloatArray]:
    return attacks, logs


def _log_area(epsilon: FloatArray, strength: FloatArray, delta: float) -> FloatArray:
    """Log areas of rings; at strength 1 that of the limit of area / (1 - s)."""
    if np.all(strength == 1):
        return region.log_ring_area_rate(epsilon, delta)
    return region.log_ring_area(epsilon, delta, strength)


def _log_whole(kernel: Kernel) -> FloatArray:
    """Approximate log of each entry's mass on the whole square: its bound times the area of its peak."""
    rate_0, n0, rate_1, n1 = kernel.observed()
    spread = [
        np.sqrt((rate * n + 0.5) * (n - rate * n + 0.5) / (n + 1)) / (n + 1)
        for rate, n in ((rate_0, n0), (rate_1, n1))
    ]
    return np.asarray(kernel.log_largest() + np.log(2 * np.pi * spread[0] * spread[1]))
