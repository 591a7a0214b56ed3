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
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import ContradictionError
from epsilometer.inference import edges, masses, panels
from epsilometer.inference.edges import EdgeAccuracy
from epsilometer.inference.mass_table import TableAccuracy
from epsilometer.inference.nuisance import (
    NuisanceBox,
    NuisanceGrid,
    make_grid,
    make_kernel,
    peak_guess,
)
from epsilometer.inference.rows import Row, StrengthPanels, strength_panels
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.priors import Beta, Fixed, Uniform

FloatArray = NDArray[np.float64]

SHARPEST = 6.0
"""Beyond this sharpness interpolation in delta gives way to one ray table a row."""

CHUNK_ENTRIES = 3_000_000
"""Numbers held at a time while masses are looked up: bounds the memory for many bases."""

NEGLIGIBLE_ROW = -60.0


@dataclass(frozen=True, kw_only=True)
class Level:
    """Everything that sets the resolution of one pass."""

    table: TableAccuracy
    nodes: int
    tolerance: float
    delta_nodes: int
    nuisance: int

    @classmethod
    def number(cls, index: int) -> Level:
        """Level 0 is the cheapest; each following one is finer in every respect."""
        return cls(
            table=TableAccuracy(
                edge=EdgeAccuracy(nodes=16 + 6 * index, reach=6.2 + 0.7 * index),
                nodes=8 + 2 * index,
                tolerance=10.0 ** (-6 - 2 * index),
                tail_tolerance=10.0 ** (-3 - index),
                depth=40.0 + 20 * index,
            ),
            nodes=8 + 2 * index,
            tolerance=10.0 ** (-5 - 1.5 * index),
            delta_nodes=index,
            nuisance=5 + 2 * index,
        )


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Rows on panels of epsilon: everything the posterior is made of.

    ``log_rows`` is log p(epsilon) + log integral over s, shape (panel, node, nuisance node), without
    quadrature weights in epsilon but with the prior weights of the nuisance grid.
    """

    breaks: FloatArray
    log_rows: FloatArray
    rows: tuple[Row, ...]
    nuisance: NuisanceGrid
    method: str


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """The distinct attacks, their kernels on the nuisance grid, and the model."""

    model: AuditModel
    level: Level
    nuisance: NuisanceGrid
    kernel: edges.Kernel
    multiplicity: FloatArray
    number: int
    caches: dict[int, masses.InterpolatedMasses] = field(default_factory=dict)

    @property
    def attacks(self) -> int:
        return len(self.multiplicity)

    def attack_chunks(self, size: int) -> list[NDArray[np.intp]]:
        return [
            np.arange(start, min(start + size, self.attacks))
            for start in range(0, self.attacks, size)
        ]

    def kernel_of(self, chunk: NDArray[np.intp]) -> edges.Kernel:
        nodes = len(self.nuisance)
        return self.kernel.take((chunk[:, None] * nodes + np.arange(nodes)).ravel())


def solve(
    counts: AttackCounts,
    model: AuditModel,
    level: Level,
    *,
    hint: Solution | None,
    box: NuisanceBox | None,
) -> Solution:
    """Solve at one level, starting from the panels of a coarser solution if there is one."""
    distinct, multiplicity = counts.distinct()
    nuisance = make_grid(model.likelihood, counts, box, level.nuisance)
    problem = _Problem(
        model=model,
        level=level,
        nuisance=nuisance,
        kernel=_shared_bound_kernel(model, counts, distinct, nuisance),
        multiplicity=multiplicity.astype(float),
        number=len(counts),
    )
    if isinstance(model.epsilon, Fixed):
        return _solve_fixed_epsilon(problem, model.epsilon.value)
    if isinstance(model.strength, Fixed):
        return _solve_by_panels(problem, hint, _fixed_strength_rows(problem), "fixed strength")
    if masses.sharpness(problem.kernel, model.delta) > SHARPEST:
        return _solve_by_panels(problem, hint, _ray_rows(problem), "rays")
    return _solve_on_grid(problem, hint)


def _shared_bound_kernel(
    model: AuditModel, counts: AttackCounts, distinct: AttackCounts, nuisance: NuisanceGrid
) -> edges.Kernel:
    # The admissible correlations depend on the sizes of all bases, and every distinct case has the
    # sizes of some base, up to exchange, under which the bound is symmetric.
    return make_kernel(model.likelihood, distinct, nuisance)


# --- epsilon axis -----------------------------------------------------------------------------


def _epsilon_end(model: AuditModel) -> float:
    prior = model.epsilon
    assert not isinstance(prior, Fixed)
    return float(prior.upper_quantile(0.0 if isinstance(prior, Uniform) else 1e-15))


def _first_breaks(problem: _Problem, end: float, hint: Solution | None) -> FloatArray:
    if hint is not None and hint.breaks[-1] == end:
        return hint.breaks
    large, small, width = peak_guess(problem.kernel)
    with np.errstate(divide="ignore"):
        level = np.log(np.maximum(1 - problem.model.delta - large, 1e-9) / small)
    low, high = max(float(level.min()), 0.0), max(float(level.max()), 0.0)
    reach = float(np.median(width))
    anchors = [low - 3 * reach, low, high, high + 3 * reach, high + 8 * reach]
    base = end * np.array([0.0, 0.002, 0.01, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.65, 1.0])
    breaks = np.unique(np.concatenate([base, np.clip(anchors, 0.0, end)]))
    keep = np.concatenate([[True], np.diff(breaks) > 1e-3 * end])
    keep[-1] = True
    return breaks[keep]


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


def _marginal(log_rows: FloatArray) -> FloatArray:
    """Sum over the nuisance grid, scaled to a maximum of 1."""
    top = log_rows.max()
    if not np.isfinite(top):
        raise ContradictionError(
            "the counts have no weight under this model: check the prior, the fixed values and delta."
        )
    return np.asarray(np.exp(log_rows - top).sum(axis=-1))


MOST_ROUNDS = 40


# --- strength fixed, or one ray table a row ---------------------------------------------------

PanelRows = Callable[[FloatArray], tuple[FloatArray, list[Row]]]
"""From epsilons to log likelihood integrated over s, shape (epsilon, nuisance), and their rows."""


def _solve_by_panels(
    problem: _Problem, hint: Solution | None, evaluate: PanelRows, method: str
) -> Solution:
    """Adaptive panels in epsilon whose rows do not depend on each other."""
    model, level = problem.model, problem.level
    assert not isinstance(model.epsilon, Fixed)
    end = _epsilon_end(model)
    breaks = _first_breaks(problem, end, hint)
    known: dict[tuple[float, float], tuple[FloatArray, list[Row]]] = {}
    for _ in range(MOST_ROUNDS):
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
        split = _unresolved(breaks, _marginal(log_rows), level.tolerance)
        if not split.any():
            break
        breaks = _split(breaks, split)
    pairs = list(zip(breaks[:-1].tolist(), breaks[1:].tolist(), strict=True))
    return Solution(
        breaks=breaks,
        log_rows=np.stack([known[pair][0] for pair in pairs]),
        rows=tuple(row for pair in pairs for row in known[pair][1]),
        nuisance=problem.nuisance,
        method=method,
    )


def _fixed_strength_rows(problem: _Problem) -> PanelRows:
    model = problem.model
    assert isinstance(model.strength, Fixed)
    strength = model.strength.value
    ring = masses.FixedStrengthMasses(
        delta=model.delta, strength=strength, accuracy=problem.level.table
    )

    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Row]]:
        nodes = len(problem.nuisance)
        total = np.zeros((len(epsilon), nodes))
        size = max(1, CHUNK_ENTRIES // (40 * 10 * nodes * len(epsilon)))
        for chunk in problem.attack_chunks(size):
            kernel = problem.kernel_of(chunk)
            entries = len(chunk) * nodes
            index = np.repeat(np.arange(entries), len(epsilon))
            logs = ring.log_masses(kernel.take(index), np.tile(epsilon, entries))
            logs = logs.reshape(len(chunk), nodes, len(epsilon))
            total += np.einsum("i,inj->jn", problem.multiplicity[chunk], logs)
        if strength == 1:
            area = region.log_ring_area_rate(epsilon, model.delta)
        else:
            area = region.log_ring_area(epsilon, model.delta, strength)
        return total - problem.number * area[:, None], []

    return evaluate


def _ray_rows(problem: _Problem) -> PanelRows:
    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Row]]:
        rows = [_ray_row(problem, float(value)) for value in epsilon]
        return np.stack([_integrate_row(row) for row in rows]), rows

    return evaluate


def _integrate_row(row: Row) -> FloatArray:
    """Log of the integral over s, for each nuisance node."""
    logs = row.log_likelihood + row.quadrature.log_weights[:, :, None]
    top = np.maximum(logs.max(axis=(0, 1)), -1e300)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=(0, 1))))


def _ray_row(problem: _Problem, epsilon: float) -> Row:
    """The likelihood along the strength at one epsilon, on panels of its own."""
    model, level, nodes = problem.model, problem.level, len(problem.nuisance)
    assert isinstance(model.strength, Beta)
    tables = []
    for chunk in problem.attack_chunks(max(1, 200_000 // nodes)):
        kernel = problem.kernel_of(chunk)
        spread = np.full(len(chunk) * nodes, epsilon)
        tables.append((chunk, masses.ray_table(kernel, spread, model.delta, 0.0, level.table)))

    def log_likelihood(strength: FloatArray) -> FloatArray:
        total = np.zeros((len(strength), nodes))
        for chunk, table in tables:
            shape = (len(chunk) * nodes, len(strength))
            path = np.broadcast_to(np.arange(shape[0])[:, None], shape)
            _, ring = table.masses(path, np.broadcast_to(strength, shape))
            logs = np.log(np.maximum(ring, 1e-300)) + table.log_unit[:, None]
            logs = logs.reshape(len(chunk), nodes, len(strength))
            total += np.einsum("i,ins->sn", problem.multiplicity[chunk], logs)
        area = region.log_ring_area(epsilon, model.delta, strength)
        return np.asarray(total - problem.number * area[:, None])

    breaks = np.array([0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0])
    for _ in range(MOST_ROUNDS):
        quadrature = strength_panels(breaks, model.strength, level.nodes)
        logs = log_likelihood(quadrature.nodes.ravel()).reshape(*quadrature.nodes.shape, nodes)
        weighted = logs + problem.nuisance.log_weight
        density = np.exp(weighted - max(weighted.max(), -1e300)).sum(axis=-1)
        split = _unresolved(breaks, density, level.tolerance)
        if not split.any():
            break
        breaks = _split(breaks, split)
    return Row(epsilon=epsilon, quadrature=quadrature, log_likelihood=logs)


def _solve_fixed_epsilon(problem: _Problem, epsilon: float) -> Solution:
    model = problem.model
    if isinstance(model.strength, Fixed):
        logs, rows = _fixed_strength_rows(problem)(np.array([epsilon]))
    else:
        row = _ray_row(problem, epsilon)
        logs, rows = _integrate_row(row)[None], [row]
    log_rows = (logs + problem.nuisance.log_weight)[None]
    _marginal(log_rows)
    return Solution(
        breaks=np.array([epsilon, epsilon]),
        log_rows=log_rows,
        rows=tuple(rows),
        nuisance=problem.nuisance,
        method="fixed epsilon",
    )


# --- the shared grid --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """Shared panels for epsilon and t = s epsilon, and each row's quadrature over s.

    A row in panel i integrates over t with the panels 0 .. i-2 as they are and with nodes of its own
    from the start of panel i-1 to t = epsilon, where the ring vanishes.
    """

    breaks: FloatArray
    epsilon: FloatArray
    first_t: FloatArray
    quadratures: tuple[StrengthPanels, ...]
    own_t: FloatArray

    @classmethod
    def make(cls, breaks: FloatArray, prior: Beta, count: int) -> _Grid:
        epsilon = _nodes(breaks, count)
        quadratures, own = [], []
        for panel, values in enumerate(epsilon):
            inner = breaks[: max(panel - 1, 0) + 1]
            for value in values:
                rule = strength_panels(np.append(inner, value) / value, prior, count)
                quadratures.append(rule)
                own.append(rule.nodes[-1] * value)
        # Rows beyond the second panel share the nodes of the first, Jacobi if the prior wants them.
        first = strength_panels(np.append(breaks[:2], breaks[-1]) / breaks[-1], prior, count)
        return cls(
            breaks=breaks,
            epsilon=epsilon,
            first_t=first.nodes[0] * breaks[-1],
            quadratures=tuple(quadratures),
            own_t=np.stack(own),
        )


def _delta_node_count(problem: _Problem) -> int:
    sharp = masses.sharpness(problem.kernel, problem.model.delta)
    base = 2 if sharp < 0.01 else 3 if sharp < 0.2 else 4 + int(np.ceil(2 * sharp))
    return base + problem.level.delta_nodes


def _solve_on_grid(problem: _Problem, hint: Solution | None) -> Solution:
    model, level = problem.model, problem.level
    assert not isinstance(model.epsilon, Fixed)
    assert isinstance(model.strength, Beta)
    end = _epsilon_end(model)
    breaks = _first_breaks(problem, end, hint)
    for _ in range(MOST_ROUNDS):
        grid = _Grid.make(breaks, model.strength, level.nodes)
        logs = _grid_log_likelihood(problem, grid, end)
        rows = [
            Row(epsilon=float(value), quadrature=quadrature, log_likelihood=log)
            for value, quadrature, log in zip(
                grid.epsilon.ravel(), grid.quadratures, logs, strict=True
            )
        ]
        integrated = np.stack([_integrate_row(row) for row in rows])
        prior = model.epsilon.log_density(grid.epsilon)[:, :, None]
        log_rows = (
            integrated.reshape(*grid.epsilon.shape, -1) + prior + problem.nuisance.log_weight
        )
        split = _unresolved(breaks, _marginal(log_rows), level.tolerance)
        split |= _unresolved_in_t(problem, grid, rows, log_rows)
        if not split.any():
            break
        breaks = _split(breaks, split)
    return Solution(
        breaks=breaks,
        log_rows=log_rows,
        rows=tuple(rows),
        nuisance=problem.nuisance,
        method="grid",
    )


def _unresolved_in_t(
    problem: _Problem, grid: _Grid, rows: list[Row], log_rows: FloatArray
) -> NDArray[np.bool_]:
    """Panels on which the density of t = s epsilon, summed over rows, is not yet resolved."""
    count = problem.level.nodes
    _, weights = panels.gauss_legendre(count)
    top = log_rows.max()
    half = 0.5 * np.diff(grid.breaks)
    density = np.zeros((len(half), count))
    prior = problem.model.epsilon.log_density(grid.epsilon)  # type: ignore[union-attr]
    for index, row in enumerate(rows):
        panel, node = divmod(index, count)
        full = len(row.quadrature.nodes) - 1
        if full < 1 or log_rows[panel, node].max() < top + NEGLIGIBLE_ROW:
            continue
        strength_prior = problem.model.strength.log_density(row.quadrature.nodes[:full])  # type: ignore[union-attr]
        logs = row.log_likelihood[:full] + problem.nuisance.log_weight
        values = np.exp(logs + prior[panel, node] - top).sum(axis=-1)
        density[:full] += (
            half[panel] * weights[node] / row.epsilon * values * np.exp(strength_prior)
        )
    mass = float(np.sum(half[:, None] * weights * np.exp(log_rows - top).sum(axis=-1)))
    left = panels.tail(density @ panels.analysis_matrix(count).T) * half
    return np.asarray((left > problem.level.tolerance * mass) & (half > 1e-10 * grid.breaks[-1]))


def _grid_log_likelihood(problem: _Problem, grid: _Grid, end: float) -> list[FloatArray]:
    """For each row, the log likelihood at (panel, node, nuisance)."""
    model, nodes = problem.model, len(problem.nuisance)
    count = problem.level.nodes
    epsilon = grid.epsilon.ravel()
    d_count = 1 if model.delta == 0 else _delta_node_count(problem)
    # Positions looked up: shared t on the panels (first panel apart), then each row's own.
    shared_t = np.concatenate([grid.first_t, grid.epsilon[1:].ravel()])
    positions = np.concatenate([shared_t, epsilon, grid.own_t.ravel()])
    size = max(1, CHUNK_ENTRIES // (d_count * len(positions) * nodes))
    totals = [
        np.zeros((*quadrature.nodes.shape, nodes)) for quadrature in grid.quadratures
    ]
    for chunk in problem.attack_chunks(size):
        table = _chunk_table(problem, chunk, size, d_count, end)
        inside, outside = table.at(positions)
        _add_chunk(problem, grid, chunk, table, inside, outside, len(shared_t), totals)
    for index, quadrature in enumerate(grid.quadratures):
        area = region.log_ring_area(epsilon[index], model.delta, np.minimum(quadrature.nodes, 1.0))
        totals[index] -= problem.number * area[:, :, None]
    assert all(total.shape[1] == count for total in totals)
    return totals


def _chunk_table(
    problem: _Problem, chunk: NDArray[np.intp], size: int, d_count: int, end: float
) -> masses.InterpolatedMasses:
    """The table of a chunk of attacks; kept between rounds of refinement if there are few chunks."""
    key = int(chunk[0])
    if key in problem.caches:
        return problem.caches[key]
    kernel = problem.kernel_of(chunk)
    table = masses.InterpolatedMasses(
        kernel,
        len(chunk) * len(problem.nuisance),
        problem.model.delta,
        end,
        d_count,
        problem.level.table,
    )
    if problem.attacks <= 2 * size:
        problem.caches[key] = table
    return table


def _add_chunk(
    problem: _Problem,
    grid: _Grid,
    chunk: NDArray[np.intp],
    table: masses.InterpolatedMasses,
    inside: FloatArray,
    outside: FloatArray,
    shared: int,
    totals: list[FloatArray],
) -> None:
    """Add the log ring masses of some attacks to every row."""
    nodes, count = len(problem.nuisance), problem.level.nodes
    multiplicity = problem.multiplicity[chunk]
    epsilon = grid.epsilon.ravel()
    rows = len(epsilon)
    delta = problem.model.delta
    whole_in = inside[:, -1, shared : shared + rows]
    whole_out = outside[:, -1, shared : shared + rows]
    own_in = inside[:, :, shared + rows :]
    own_out = outside[:, :, shared + rows :]
    unit = table.log_unit[:, None]

    def summed(logs: FloatArray) -> FloatArray:
        """(attack * nuisance, position) -> (position, nuisance), counted with multiplicity."""
        return np.einsum(
            "i,inp->pn", multiplicity, logs.reshape(len(chunk), nodes, -1), optimize=True
        )

    for index in range(rows):
        full = len(grid.quadratures[index].nodes) - 1
        used = full * count
        own = slice(index * count, (index + 1) * count)
        core_in = np.concatenate([inside[:, :, :used], own_in[:, :, own]], axis=2)
        core_out = np.concatenate([outside[:, :, :used], own_out[:, :, own]], axis=2)
        if delta > 0:
            d = delta * grid.quadratures[index].nodes.ravel()
            weights = masses.lagrange(table.delta_nodes, d)
            core_in = np.einsum("amp,mp->ap", core_in, weights)
            core_out = np.einsum("amp,mp->ap", core_out, weights)
        else:
            core_in, core_out = core_in[:, 0], core_out[:, 0]
        logs = unit + masses.log_ring(
            core_in, core_out, whole_in[:, index, None], whole_out[:, index, None]
        )
        totals[index] += summed(logs).reshape(full + 1, count, nodes)
