"""One pass of the exact engine at one level of resolution: rows of likelihood over epsilon.

Four situations, chosen by what is fixed and how sharp the counts are:

* both free, counts smooth on the scale of delta: a shared grid in (epsilon, t = s epsilon), so that
  one table of masses serves all rows (METHOD: same nodes for epsilon and t, no interpolation);
* both free, counts sharper than delta: one ray table for each row;
* epsilon fixed: a single such row;
* strength fixed: no rows, one ring mass for each epsilon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference import edges, masses, panels
from epsilometer.inference.edges import EdgeAccuracy
from epsilometer.inference.mass_table import MassTable, TableAccuracy
from epsilometer.inference.nuisance import (
    NuisanceGrid,
    make_family,
    make_grid,
    peak_guess,
    take,
)
from epsilometer.inference.rows import Rows, StrengthPanels, stack, strength_panels
from epsilometer.inference.tensor_masses import TensorAccuracy, TensorMasses
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Beta, Fixed, Uniform

FloatArray = NDArray[np.float64]

MOST_ROUNDS = 40

SHARPEST = 6.0
"""Beyond this sharpness interpolation in delta gives way to one ray table a row."""

CHUNK_ENTRIES = 250_000
"""Numbers in one array while masses are combined: what a core's cache holds is quickest, and it
bounds the memory for many bases."""

DEEPEST = 1200.0
"""Tables hold masses down to about e^-600 in double precision; twice that is asked for at most."""

TENSOR_STRONGEST = 0.95
"""Thinner rings than at this strength are integrated by fluxes, which do not take differences."""

RAY_DEPTH = 60.0

TABLE_ATTACKS = 2000
"""Attacks tabulated together; a tenth of that with correlations, whose tables are larger."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Everything that sets the resolution of one pass."""

    table: TableAccuracy
    tensor: TensorAccuracy
    nodes: int
    tolerance: float
    negligible: float
    rounds: int
    delta_nodes: int
    nuisance: int

    @classmethod
    def number(cls, index: int, *, correlated: bool) -> Level:
        """Level 0 is the cheapest; each following one is finer in every respect.

        With correlations masses carry a ripple of about 1e-3 of themselves, which averages out in
        the posterior but would be chased by refinement for ever: so grids are refined a few times
        only, and the difference between levels tells what that left.
        """
        return cls(
            table=TableAccuracy(
                edge=EdgeAccuracy(nodes=16 + 4 * index, reach=5.8 + 0.6 * index),
                nodes=8 + 2 * index,
                tolerance=10.0 ** (-4 - 1.5 * index),
                tail_tolerance=0.1 * 0.3**index,
                depth=12.0 + 6 * index,
            ),
            tensor=TensorAccuracy(points=72 + 28 * index, reach=6.3 + 0.5 * index, nodes=7 + index),
            nodes=6 + index if correlated else 6 + 2 * index,
            tolerance=1e-3 * 0.3**index if correlated else 10.0 ** (-4 - index),
            negligible=1e-7 * 0.1**index if correlated else 1e-11,
            rounds=(3, 1, 2, 2, 2, 2)[index] if correlated else MOST_ROUNDS,
            delta_nodes=index,
            nuisance=5 + index,
        )

    def for_bases(self, number: int) -> Level:
        """The same level for so many bases: errors of their log likelihoods add up."""
        table = replace(
            self.table,
            tolerance=self.table.tolerance * min(1.0, 10 / number),
            tail_tolerance=self.table.tail_tolerance * min(1.0, 3 / number),
        )
        return replace(self, table=table)


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Rows on panels of epsilon: everything the posterior is made of.

    ``log_rows`` is log p(epsilon) + log integral over s, shape (panel, node, nuisance node), without
    quadrature weights in epsilon but with the prior weights of the nuisance grid.  ``rows`` is None if
    the strength is fixed.  ``t_breaks`` are panels of t = s epsilon where a shared grid was used.
    """

    breaks: FloatArray
    t_breaks: FloatArray
    log_rows: FloatArray
    rows: Rows | None
    nuisance: NuisanceGrid
    method: str


_Masses = masses.InterpolatedMasses | TensorMasses


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """The distinct attacks, their kernels on the nuisance grid, and the model."""

    model: AuditModel
    level: Level
    nuisance: NuisanceGrid
    family: edges.Family
    multiplicity: FloatArray
    number: int
    smallest_epsilon: float
    caches: dict[int, _Masses] = field(default_factory=dict)

    @property
    def correlated(self) -> bool:
        """Whether masses come from two-dimensional quadrature rather than from fluxes."""
        return isinstance(self.model.likelihood, CorrelatedNormal)

    @property
    def attacks(self) -> int:
        return len(self.multiplicity)

    def attack_chunks(self, size: int) -> list[NDArray[np.intp]]:
        return [
            np.arange(start, min(start + size, self.attacks))
            for start in range(0, self.attacks, size)
        ]

    def deepened(self, depth: float) -> _Problem:
        """The same problem with tables resolved further down into the tails."""
        if depth > DEEPEST:
            raise ContradictionError(
                "the attacks contradict each other or the prior so strongly that their likelihood "
                f"falls below e^-{DEEPEST:.0f}; check the counts, or widen the prior of epsilon."
            )
        table = replace(self.level.table, depth=depth)
        return replace(self, level=replace(self.level, table=table), caches={})

    def family_of(self, chunk: NDArray[np.intp]) -> edges.Family:
        return take(self.family, chunk)


def solve(
    counts: AttackCounts,
    model: AuditModel,
    level: Level,
    *,
    hint: Solution | None,
) -> Solution:
    """Solve at one level, starting from the panels of a coarser solution if there is one."""
    distinct, multiplicity = counts.distinct()
    level = level.for_bases(len(counts))
    nuisance = make_grid(model.likelihood, counts, level.nuisance)
    problem = _Problem(
        model=model,
        level=level,
        nuisance=nuisance,
        # Every distinct case has the sizes of some base, up to exchange, under which the bound on
        # the correlations is symmetric, so it comes out as for all of them.
        family=make_family(model.likelihood, distinct, nuisance),
        multiplicity=multiplicity.astype(float),
        number=len(counts),
        smallest_epsilon=model.likelihood.smallest_epsilon(counts),
    )
    if isinstance(model.epsilon, Fixed):
        return _solve_fixed_epsilon(problem, model.epsilon.value)
    if isinstance(model.strength, Fixed):
        return _solve_by_panels(problem, hint, _fixed_strength_rows(problem), "fixed strength")
    if not problem.correlated and masses.sharpness(problem.family, model.delta) > SHARPEST:
        return _solve_by_panels(problem, hint, _ray_rows(problem), "rays")
    return _solve_on_grid(problem, hint)


# --- epsilon axis -----------------------------------------------------------------------------


LARGEST_EPSILON = 600.0


def _epsilon_end(model: AuditModel) -> float:
    prior = model.epsilon
    assert not isinstance(prior, Fixed)
    if float(prior.upper_quantile(1e-6)) > LARGEST_EPSILON:
        raise InputError(
            f"expected a prior of epsilon that stays below {LARGEST_EPSILON:.0f}, got {prior!r}."
        )
    end = float(prior.upper_quantile(0.0 if isinstance(prior, Uniform) else 1e-15))
    return min(end, LARGEST_EPSILON)


def _first_breaks(problem: _Problem) -> tuple[FloatArray, FloatArray]:
    """First panels of epsilon and of t, fine around where the strongest and weakest attack may be.

    epsilon is held from below by the strongest attack and t = s epsilon from above by the weakest,
    each as sharply as that attack is known; outwards panels grow in threes.
    """
    end = _epsilon_end(problem.model)
    large, small, width = peak_guess(problem.family)
    level = np.log(np.maximum(1 - problem.model.delta - large, 1e-9) / small)
    level = np.clip(level, 0.0, end)
    result = []
    for attack, lowest in (
        (int(np.argmax(level)), problem.smallest_epsilon),
        (int(np.argmin(level)), 0.0),
    ):
        centre, reach = float(level[attack]), max(float(width[attack]), 1e-6 * end)
        reach = min(reach, 0.02 * end)
        steps = reach * 3.0 ** np.arange(int(np.log(end / reach) / np.log(3.0)) + 1)
        points = np.concatenate(
            [centre - steps, [centre], centre + steps, 0.25 * end * np.arange(5)]
        )
        points = np.unique(points[(points > lowest) & (points < end)])
        keep = np.append(True, np.diff(points) > 0.3 * reach)
        points = points[keep]
        points = points[(points > lowest + 0.3 * reach) & (points < end - 0.3 * reach)]
        result.append(np.concatenate([[lowest], points, [end]]))
    return result[0], result[1]


def _nodes(breaks: FloatArray, count: int) -> FloatArray:
    points, _ = panels.gauss_legendre(count)
    return np.asarray(breaks[:-1, None] + 0.5 * np.diff(breaks)[:, None] * (1 + points))


def _unresolved(breaks: FloatArray, values: FloatArray, tolerance: float) -> NDArray[np.bool_]:
    """Panels on which a density (panel, node) is not yet a polynomial to the given tolerance."""
    half = 0.5 * np.diff(breaks)
    _, weights = panels.gauss_legendre(values.shape[1])
    mass = float(np.sum(half[:, None] * values * weights))
    left = panels.tail(values @ panels.analysis_matrix(values.shape[1]).T) * half
    wide = half > 1e-10 * breaks[-1]
    return np.asarray((left > tolerance * mass) & wide)


def _split(breaks: FloatArray, which: NDArray[np.bool_]) -> FloatArray:
    middles = 0.5 * (breaks[:-1] + breaks[1:])[which]
    return np.sort(np.concatenate([breaks, middles]))


def _trimmed(density: FloatArray, negligible: float) -> slice:
    """The panels to keep: all but the negligible ones at the ends.

    Negligible is where the density never exceeds that fraction of its peak; one panel is kept to
    spare on each side.
    """
    live = np.flatnonzero(density.max(axis=1) > negligible * density.max())
    return slice(max(int(live[0]) - 1, 0), min(int(live[-1]) + 2, len(density)))


def _marginal(log_rows: FloatArray) -> FloatArray:
    """Sum over the nuisance grid, scaled to a maximum of 1."""
    top = log_rows.max()
    if not np.isfinite(top) or top < -1e200:
        raise ContradictionError(
            "the counts have no weight under this model: check the prior, the fixed values and delta."
        )
    return np.asarray(np.exp(log_rows - top).sum(axis=-1))


# --- strength fixed, or one ray table a row ---------------------------------------------------

PanelRows = Callable[[FloatArray], tuple[FloatArray, list[Rows]]]
"""From epsilons to log likelihood integrated over s, shape (epsilon, nuisance), and their rows."""


def _solve_by_panels(
    problem: _Problem, hint: Solution | None, evaluate: PanelRows, method: str
) -> Solution:
    """Adaptive panels in epsilon whose rows do not depend on each other."""
    model, level = problem.model, problem.level
    assert not isinstance(model.epsilon, Fixed)
    breaks = _first_breaks(problem)[0] if hint is None else hint.breaks
    known: dict[tuple[float, float], tuple[FloatArray, list[Rows]]] = {}
    for _ in range(level.rounds + 3):
        pairs = list(zip(breaks[:-1].tolist(), breaks[1:].tolist(), strict=True))
        new = [pair for pair in pairs if pair not in known]
        if new:
            epsilon = np.concatenate([_nodes(np.array(pair), level.nodes)[0] for pair in new])
            logs, rows = evaluate(epsilon)
            logs = logs + model.epsilon.log_density(epsilon)[:, None] + problem.nuisance.log_weight
            for index, pair in enumerate(new):
                part = slice(index * level.nodes, (index + 1) * level.nodes)
                known[pair] = (logs[part], rows[part])
        log_rows = np.stack([known[pair][0] for pair in pairs])
        density = _marginal(log_rows)
        split = _unresolved(breaks, density, level.tolerance)
        if not split.any():
            break
        kept = _trimmed(density, level.negligible)
        breaks = _split(breaks[kept.start : kept.stop + 1], split[kept])
    parts = [row for pair in pairs for row in known[pair][1]]
    return Solution(
        breaks=breaks,
        t_breaks=breaks,
        log_rows=log_rows,
        rows=stack(parts) if parts else None,
        nuisance=problem.nuisance,
        method=method,
    )


def _fixed_strength_rows(problem: _Problem) -> PanelRows:
    model = problem.model
    assert isinstance(model.strength, Fixed)
    strength = model.strength.value
    if problem.correlated and strength <= TENSOR_STRONGEST:
        end = model.epsilon.value if isinstance(model.epsilon, Fixed) else _epsilon_end(model)
        return _tensor_fixed_strength(problem, strength, end)
    ring = masses.FixedStrengthMasses(
        delta=model.delta,
        strength=strength,
        accuracy=problem.level.table,
        smooth=problem.correlated,
    )

    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Rows]]:
        nodes = len(problem.nuisance)
        total = np.zeros((len(epsilon), nodes))
        size = max(1, 10 * CHUNK_ENTRIES // (400 * nodes * len(epsilon)))
        for chunk in problem.attack_chunks(size):
            attack = np.repeat(np.arange(len(chunk)), len(epsilon))
            logs = ring.log_masses(problem.family_of(chunk), attack, np.tile(epsilon, len(chunk)))
            logs = logs.reshape(len(chunk), len(epsilon), nodes)
            total += np.einsum("i,ijn->jn", problem.multiplicity[chunk], logs)
        if strength == 1:
            area = region.log_ring_area_rate(epsilon, model.delta)
        else:
            area = region.log_ring_area(epsilon, model.delta, strength)
        return total - problem.number * area[:, None], []

    return evaluate


def _ray_rows(problem: _Problem) -> PanelRows:
    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Rows]]:
        rows: list[Rows] = []
        for start in range(0, len(epsilon), max(1, TABLE_ATTACKS // problem.attacks)):
            batch = epsilon[start : start + max(1, TABLE_ATTACKS // problem.attacks)]
            rows += _rows_by_rays(problem, batch)
        return np.concatenate([row.log_integral() for row in rows]), rows

    return evaluate


def _tensor_row(problem: _Problem, epsilon: float) -> Rows:
    """The likelihood along the strength at one epsilon, from two-dimensional quadrature."""
    model, level = problem.model, problem.level
    assert isinstance(model.strength, Beta)
    fractions = np.array([0.0, 0.02, 0.1, 0.3, 0.6, 0.8, 0.95])
    for _ in range(level.rounds):
        grid = _Grid.make(np.array([epsilon]), epsilon * fractions, model.strength, level.nodes)
        logs, _ = _grid_log_likelihood(problem, grid, epsilon)
        rows = Rows(epsilon=grid.epsilon, quadrature=grid.quadrature, log_likelihood=logs)
        weighted = logs[0] + problem.nuisance.log_weight
        density = np.exp(weighted - weighted.max()).sum(axis=-1)
        breaks = grid.quadrature.breaks[0]
        split = _unresolved(breaks, density, level.tolerance)
        if not split.any():
            break
        # The last shared break and the end are joined in the row's own panel.
        fractions = np.append(_split(breaks, split)[:-1], fractions[-1])
        fractions = np.unique(fractions)
    return rows


def _tensor_fixed_strength(problem: _Problem, strength: float, end: float) -> PanelRows:
    """As for fluxes, with masses from two-dimensional quadrature."""
    model, nodes = problem.model, len(problem.nuisance)
    d_count = 1 if model.delta == 0 else _delta_node_count(problem)
    weights = masses.lagrange(
        masses.delta_nodes(model.delta, d_count), np.array([strength * model.delta])
    )

    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Rows]]:
        total = np.zeros((len(epsilon), nodes))
        for chunk in problem.attack_chunks(TABLE_ATTACKS // 10):
            table = _chunk_table(problem, chunk, d_count, end)
            for start in range(0, len(chunk), 20):
                part = slice(start, min(start + 20, len(chunk)))
                positions = np.concatenate([strength * epsilon, epsilon])
                inside, outside = table.at(positions, part)
                count = len(epsilon)
                core = [
                    np.einsum("adtn,dx->atn", values[:, :, :count], weights)
                    for values in (inside, outside)
                ]
                logs = masses.log_ring(
                    core[0], core[1], inside[:, -1, count:], outside[:, -1, count:]
                )
                logs += table.log_unit[part, None]
                total += np.tensordot(problem.multiplicity[chunk[part]], logs, axes=1)
        area = region.log_ring_area(epsilon, model.delta, strength)
        return total - problem.number * area[:, None], []

    return evaluate


def _rows_by_rays(problem: _Problem, epsilon: FloatArray) -> list[Rows]:
    """The likelihood along the strength at some epsilons, each on panels of its own."""
    model, attacks = problem.model, problem.attacks
    attack = np.tile(np.arange(attacks), len(epsilon))
    accuracy = replace(problem.level.table, depth=RAY_DEPTH)
    table = masses.ray_table(
        problem.family, attack, np.repeat(epsilon, attacks), model.delta, 0.0, accuracy
    )
    return [
        _row_by_ray(problem, float(value), table, number * attacks)
        for number, value in enumerate(epsilon)
    ]


def _row_by_ray(problem: _Problem, epsilon: float, table: MassTable, first_path: int) -> Rows:
    model, level, nodes = problem.model, problem.level, len(problem.nuisance)
    assert isinstance(model.strength, Beta)
    unit = table.log_unit[first_path : first_path + problem.attacks, None]

    def log_likelihood(strength: FloatArray) -> FloatArray:
        shape = (problem.attacks, len(strength))
        path = np.broadcast_to(first_path + np.arange(shape[0])[:, None], shape)
        _, ring = table.masses(path, np.broadcast_to(strength, shape))
        logs = np.log(np.maximum(ring, 1e-300)) + unit
        area = region.log_ring_area(epsilon, model.delta, strength)
        total = np.tensordot(problem.multiplicity, logs, axes=1)
        return np.asarray(total - problem.number * area[:, None])

    breaks = np.array([0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0])
    for _ in range(MOST_ROUNDS):
        quadrature = strength_panels([breaks], model.strength, level.nodes)
        shape = quadrature.nodes.shape
        logs = log_likelihood(quadrature.nodes.ravel()).reshape(*shape, nodes)
        weighted = logs[0] + problem.nuisance.log_weight
        density = np.exp(weighted - max(float(weighted.max()), -1e300)).sum(axis=-1)
        split = _unresolved(breaks, density, level.tolerance)
        if not split.any():
            break
        breaks = _split(breaks, split)
    return Rows(epsilon=np.array([epsilon]), quadrature=quadrature, log_likelihood=logs)


def _solve_fixed_epsilon(problem: _Problem, epsilon: float) -> Solution:
    model = problem.model
    rows: Rows | None = None
    if isinstance(model.strength, Fixed):
        logs, _ = _fixed_strength_rows(problem)(np.array([epsilon]))
    else:
        if problem.correlated:
            rows = _tensor_row(problem, epsilon)
        else:
            rows = _rows_by_rays(problem, np.array([epsilon]))[0]
        logs = rows.log_integral()
    log_rows = (logs + problem.nuisance.log_weight)[None]
    _marginal(log_rows)
    return Solution(
        breaks=np.array([epsilon, epsilon]),
        t_breaks=np.zeros(0),
        log_rows=log_rows,
        rows=rows,
        nuisance=problem.nuisance,
        method="fixed epsilon",
    )


# --- the shared grid --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """Rows at the nodes of epsilon panels, with panels of t = s epsilon that they share.

    A row uses the shared panels of t that end well below its epsilon, ``full`` of them, and then one
    of its own up to t = epsilon, where the ring vanishes.
    """

    epsilon: FloatArray
    shared_t: FloatArray
    full: NDArray[np.intp]
    quadrature: StrengthPanels

    @classmethod
    def make(cls, epsilon: FloatArray, t_breaks: FloatArray, prior: Beta, count: int) -> _Grid:
        full = np.maximum(np.searchsorted(t_breaks, epsilon, side="right") - 2, 0)
        quadrature = strength_panels(
            [np.append(t_breaks[: f + 1], e) / e for f, e in zip(full, epsilon, strict=True)],
            prior,
            count,
        )
        # The shared nodes, as the row with the most panels has them; Jacobi at 0 if need be.
        widest = int(np.argmax(full))
        shared = quadrature.nodes[widest, : full[widest]].ravel() * epsilon[widest]
        return cls(epsilon=epsilon, shared_t=shared, full=full, quadrature=quadrature)

    @property
    def own_t(self) -> FloatArray:
        """Positions on each row's own panel, shape (row, node)."""
        rows = np.arange(len(self.epsilon))
        return np.asarray(self.quadrature.nodes[rows, self.full] * self.epsilon[:, None])


def _delta_node_count(problem: _Problem) -> int:
    sharp = masses.sharpness(problem.family, problem.model.delta)
    base = 2 if sharp < 0.1 else 3 + int(np.ceil(2 * sharp))
    return base + problem.level.delta_nodes


def _solve_on_grid(problem: _Problem, hint: Solution | None) -> Solution:
    model, level = problem.model, problem.level
    assert not isinstance(model.epsilon, Fixed)
    assert isinstance(model.strength, Beta)
    if hint is None:
        breaks, t_breaks = _first_breaks(problem)
    else:
        breaks, t_breaks = hint.breaks, hint.t_breaks
    end = max(float(breaks[-1]), float(t_breaks[-1]))
    for number in range(level.rounds):
        epsilon = _nodes(breaks, level.nodes).ravel()
        grid = _Grid.make(epsilon, t_breaks, model.strength, level.nodes)
        log_likelihood, log_deficit = _grid_log_likelihood(problem, grid, end)
        rows = Rows(epsilon=grid.epsilon, quadrature=grid.quadrature, log_likelihood=log_likelihood)
        log_rows = (
            rows.log_integral()
            + model.epsilon.log_density(grid.epsilon)[:, None]
            + problem.nuisance.log_weight
        ).reshape(-1, level.nodes, len(problem.nuisance))
        density = _marginal(log_rows)
        split = _unresolved(breaks, density, level.tolerance)
        t_density = _t_density(problem, grid, rows, breaks, log_rows)
        t_split = _unresolved_in_t(problem, breaks, t_breaks, density, t_density)
        own_share, own_breaks = _own_panels(problem, grid, rows, breaks, log_rows)
        if number == level.rounds - 1 or not (split.any() or t_split.any() or own_breaks.size):
            needed = _depth_needed(problem, rows, log_deficit)
            if problem.correlated or needed < problem.level.table.depth:
                break
            # Attacks in conflict: the posterior lives where some of them are far out in a tail.
            problem = problem.deepened(2 * needed)
        kept = _trimmed(density, level.negligible)
        breaks = _split(breaks[kept.start : kept.stop + 1], split[kept])
        if t_density.size and t_density.max() > 0 and own_share < level.negligible:
            # Rows join the last panel before their epsilon to their own, so two are kept to spare.
            stop = _trimmed(t_density, level.negligible).stop + 2
            t_breaks, t_split = t_breaks[: stop + 1], t_split[:stop]
        t_breaks = np.unique(np.append(_split(t_breaks, t_split), own_breaks))
    return Solution(
        breaks=breaks,
        t_breaks=t_breaks,
        log_rows=log_rows,
        rows=rows,
        nuisance=problem.nuisance,
        method="grid",
    )


def _depth_needed(problem: _Problem, rows: Rows, log_deficit: FloatArray) -> float:
    """How far below its whole mass the ring of some attack is, where the posterior has weight."""
    assert not isinstance(problem.model.epsilon, Fixed)
    logs = rows.log_likelihood + rows.quadrature.log_weights[..., None]
    logs = logs + problem.nuisance.log_weight
    logs = logs + problem.model.epsilon.log_density(rows.epsilon)[:, None, None, None]
    return float(log_deficit[logs > logs.max() - 9].max()) + 1.0


def _t_density(
    problem: _Problem, grid: _Grid, rows: Rows, breaks: FloatArray, log_rows: FloatArray
) -> FloatArray:
    """The density of t = s epsilon at the shared nodes, summed over the rows that use them."""
    model, count = problem.model, problem.level.nodes
    assert not isinstance(model.epsilon, Fixed)
    assert isinstance(model.strength, Beta)
    _, weights = panels.gauss_legendre(count)
    most = int(grid.full.max())
    row_weight = (0.5 * np.diff(breaks)[:, None] * weights).ravel() / grid.epsilon
    offset = model.epsilon.log_density(grid.epsilon) - log_rows.max()
    s = np.clip(grid.quadrature.nodes[:, :most], 0.0, 1.0)
    logs = rows.log_likelihood[:, :most] + problem.nuisance.log_weight
    uses = (np.arange(most) < grid.full[:, None])[:, :, None]
    logs = np.where(uses[..., None], logs + offset[:, None, None, None], -np.inf)
    prior = np.exp(np.where(uses, model.strength.log_density(s), 0.0))
    return np.asarray((np.exp(logs).sum(axis=-1) * prior * row_weight[:, None, None]).sum(axis=0))


def _own_panels(
    problem: _Problem, grid: _Grid, rows: Rows, breaks: FloatArray, log_rows: FloatArray
) -> tuple[float, FloatArray]:
    """The share of the mass on the rows' own panels, and breaks of t to add where unresolved."""
    model, count = problem.model, problem.level.nodes
    assert not isinstance(model.epsilon, Fixed)
    _, weights = panels.gauss_legendre(count)
    row_weight = (0.5 * np.diff(breaks)[:, None] * weights).ravel()
    top = log_rows.max()
    mass = float(np.sum(row_weight * np.exp(log_rows - top).sum(axis=-1).ravel()))
    index = np.arange(len(grid.epsilon))
    offset = model.epsilon.log_density(grid.epsilon) - top
    logs = rows.log_likelihood[index, grid.full] + problem.nuisance.log_weight
    logs = logs + grid.quadrature.log_weights[index, grid.full][..., None]
    # In terms of weights rather than densities, so that Jacobi panels are judged alike.
    values = np.exp(logs + offset[:, None, None]).sum(axis=-1) * row_weight[:, None] / mass
    left = panels.tail((values / weights) @ panels.analysis_matrix(count).T)
    start = grid.quadrature.breaks[index, grid.full] * grid.epsilon
    wide = grid.epsilon - start > 1e-9 * grid.epsilon
    bad = (left > problem.level.tolerance / len(index)) & wide
    if left.sum() <= problem.level.tolerance or not bad.any():
        return float(values.sum()), np.zeros(0)
    worst = int(np.argmax(np.where(bad, left, 0.0)))
    gap = grid.epsilon[worst] - start[worst]
    return float(values.sum()), np.array([start[worst] + 0.4 * gap, start[worst] + 0.7 * gap])


def _unresolved_in_t(
    problem: _Problem,
    breaks: FloatArray,
    t_breaks: FloatArray,
    density: FloatArray,
    t_density: FloatArray,
) -> NDArray[np.bool_]:
    """Panels of t on which the density of t is not yet resolved."""
    count = problem.level.nodes
    _, weights = panels.gauss_legendre(count)
    mass = float(np.sum(0.5 * np.diff(breaks)[:, None] * weights * density))
    half = 0.5 * np.diff(t_breaks)
    split = np.zeros(len(half), dtype=bool)
    used = len(t_density)
    left = panels.tail(t_density @ panels.analysis_matrix(count).T) * half[:used]
    split[:used] = (left > problem.level.tolerance * mass) & (half[:used] > 1e-10 * t_breaks[-1])
    return split


def _grid_log_likelihood(
    problem: _Problem, grid: _Grid, end: float
) -> tuple[FloatArray, FloatArray]:
    """Log likelihood and deficit, each at (row, panel, node, nuisance node).

    The deficit is the largest of the attacks' log(whole mass / ring mass).
    """
    model, nodes = problem.model, len(problem.nuisance)
    d_count = 1 if model.delta == 0 else _delta_node_count(problem)
    rows, count = len(grid.epsilon), problem.level.nodes
    shared = len(grid.shared_t)
    positions = np.concatenate([grid.shared_t, grid.epsilon, grid.own_t.ravel()])
    wide = shared + count
    # Shared panels first, then the own one; put in order at the end.
    shape = (rows, wide, nodes)
    total, deficit = np.zeros(shape), np.zeros(shape)
    shared_s = np.minimum(grid.shared_t / grid.epsilon[:, None], 1.0)
    own_s = grid.own_t / grid.epsilon[:, None]
    d = model.delta * np.concatenate([shared_s, own_s], axis=1)
    weights = masses.lagrange(masses.delta_nodes(model.delta, d_count), d)
    size = max(1, CHUNK_ENTRIES // (nodes * max(d_count * len(positions), rows * wide)))
    for chunk in problem.attack_chunks(TABLE_ATTACKS if nodes == 1 else TABLE_ATTACKS // 10):
        table = _chunk_table(problem, chunk, d_count, end)
        parts = [
            slice(start, min(start + size, len(chunk))) for start in range(0, len(chunk), size)
        ]

        def ring(part: slice, table: _Masses = table) -> tuple[FloatArray, FloatArray | None]:
            return _ring_masses(table, part, positions, weights, (rows, shared, count, nodes))

        # Added up in the order of the parts, so that threads do not change a single bit.
        many = len(parts) > 3 and size * rows * wide * nodes > 50_000
        results = edges.thread_pool().map(ring, parts) if many else map(ring, parts)
        for part, (logs, gap) in zip(parts, results, strict=True):
            if gap is not None:
                deficit = np.maximum(deficit, gap)
            for multiplicity, one in zip(problem.multiplicity[chunk[part]], logs, strict=True):
                total += one if multiplicity == 1 else multiplicity * one
    s = np.concatenate([shared_s, own_s], axis=1)
    total -= problem.number * region.log_ring_area(grid.epsilon[:, None], model.delta, s)[..., None]
    return _arranged(grid, total, count), _arranged(grid, deficit, count)


def _ring_masses(
    table: _Masses,
    part: slice,
    positions: FloatArray,
    weights: FloatArray,
    sizes: tuple[int, int, int, int],
) -> tuple[FloatArray, FloatArray | None]:
    """Log ring masses (attack, row, position, nuisance) of some attacks, and the worst deficit.

    The deficit only matters to tables whose depth can be raised, so fluxes alone report it.
    """
    rows, shared, count, nodes = sizes
    inside, outside = table.at(positions, part)
    whole = slice(shared, shared + rows)
    core = []
    for values in (inside, outside):
        own = values[:, :, shared + rows :].reshape(*values.shape[:2], rows, count, nodes)
        core.append(
            np.concatenate(
                [
                    _interpolated(values[:, :, None, :shared], weights[:, :, :shared]),
                    _interpolated(own, weights[:, :, shared:]),
                ],
                axis=2,
            )
        )
    logs = masses.log_ring(
        core[0], core[1], inside[:, -1, whole, None], outside[:, -1, whole, None]
    )
    deficit: FloatArray | None = None
    if isinstance(table, masses.InterpolatedMasses):
        whole_mass = np.log(inside[:, -1, :1] + outside[:, -1, :1])[:, :, None]
        deficit = (whole_mass - logs).max(axis=0)
    logs += table.log_unit[part, None, None]
    return logs, deficit


def _arranged(grid: _Grid, values: FloatArray, count: int) -> FloatArray:
    """(row, shared positions then own) -> (row, panel, node), 0 where a row has no panel."""
    shared = len(grid.shared_t)
    rows, most = len(values), shared // count
    result = np.zeros((*grid.quadrature.nodes.shape, values.shape[-1]))
    result[:, :most] = values[:, :shared].reshape(rows, most, count, values.shape[-1])
    result[np.arange(rows), grid.full] = values[:, shared:]
    result[np.arange(result.shape[1]) > grid.full[:, None]] = 0.0
    return result


def _interpolated(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum over the delta nodes: (attack, d, row or 1, position, nuisance) with (d, row, position)."""
    total = values[:, 0] * weights[0][..., None]
    for k in range(1, len(weights)):
        total += values[:, k] * weights[k][..., None]
    return np.asarray(total)


def _chunk_table(problem: _Problem, chunk: NDArray[np.intp], d_count: int, end: float) -> _Masses:
    """The table of a chunk of attacks; kept between rounds of refinement if it covers them all."""
    key = int(chunk[0])
    if key in problem.caches:
        return problem.caches[key]
    family = problem.family_of(chunk)
    table: _Masses
    if problem.correlated:
        table = TensorMasses(family, problem.model.delta, end, d_count, problem.level.tensor)
    else:
        table = masses.InterpolatedMasses(
            family, problem.model.delta, end, d_count, problem.level.table
        )
    if len(chunk) == problem.attacks:
        problem.caches[key] = table
    return table
