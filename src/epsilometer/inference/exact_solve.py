"""One pass of the exact engine at one level of resolution: rows of likelihood over epsilon.

Four situations, chosen by what is fixed and how sharp the counts are:

* both free, counts smooth on the scale of delta: a shared grid in (epsilon, t = s epsilon), so that
  one table of masses serves all rows (`exact_grid.py`);
* both free, counts sharper than delta: one ray table for each row;
* epsilon fixed: a single such row;
* strength fixed: no rows, one ring mass for each epsilon.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from epsilometer.inference import masses
from epsilometer.inference.exact_grid import solve_on_grid, tensor_fixed_strength, tensor_row
from epsilometer.inference.exact_problem import (
    CHUNK_ENTRIES,
    MOST_ROUNDS,
    TABLE_ATTACKS,
    FloatArray,
    Level,
    PanelRows,
    Problem,
    Solution,
    epsilon_end,
    first_breaks,
    marginal,
    panel_nodes,
    split_panels,
    trimmed,
    unresolved,
)
from epsilometer.inference.mass_table import MassTable
from epsilometer.inference.nuisance import make_family, make_grid
from epsilometer.inference.rows import Rows, stack, strength_panels
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.priors import Beta, Fixed

SHARPEST = 6.0
"""Beyond this sharpness interpolation in delta gives way to one ray table a row."""


TENSOR_STRONGEST = 0.95
"""Thinner rings than at this strength are integrated by fluxes, which do not take differences."""


RAY_DEPTH = 60.0


def solve(
    counts: AttackCounts,
    model: AuditModel,
    level: Level,
    *,
    hint: Solution | None,
) -> Solution:
    """Solve at one level, starting from the panels of a coarser solution if there is one."""
    return solve_problem(make_problem(counts, model, level), hint=hint)


def make_problem(counts: AttackCounts, model: AuditModel, level: Level) -> Problem:
    """The counts with the model, ready to be solved at a level."""
    distinct, multiplicity = counts.distinct()
    level = level.for_bases(len(counts))
    nuisance = make_grid(model.likelihood, counts, level.nuisance)
    return Problem(
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


def solve_problem(problem: Problem, *, hint: Solution | None) -> Solution:
    """Choose the way that suits what is fixed and how sharp the counts are, and go it."""
    model = problem.model
    if isinstance(model.epsilon, Fixed):
        return _solve_fixed_epsilon(problem, model.epsilon.value)
    if isinstance(model.strength, Fixed):
        return solve_by_panels(problem, hint, _fixed_strength_rows(problem), "fixed strength")
    if needs_rays(problem):
        return solve_by_panels(problem, hint, _ray_rows(problem), "rays")
    return solve_on_grid(problem, hint)[0]


def needs_rays(problem: Problem) -> bool:
    """Whether the counts are too sharp for interpolation between a few values of d."""
    sharp = masses.sharpness(problem.family, problem.model.delta) > SHARPEST
    return not problem.correlated and sharp


def solve_by_panels(
    problem: Problem, hint: Solution | None, evaluate: PanelRows, method: str
) -> Solution:
    """Adaptive panels in epsilon whose rows do not depend on each other."""
    model, level = problem.model, problem.level
    assert not isinstance(model.epsilon, Fixed)
    breaks = first_breaks(problem)[0] if hint is None else hint.breaks
    known: dict[tuple[float, float], tuple[FloatArray, list[Rows]]] = {}
    rounds = level.rounds + 3
    for number in range(rounds):
        pairs = list(zip(breaks[:-1].tolist(), breaks[1:].tolist(), strict=True))
        new = [pair for pair in pairs if pair not in known]
        if new:
            epsilon = np.concatenate([panel_nodes(np.array(pair), level.nodes)[0] for pair in new])
            logs, rows = evaluate(epsilon)
            logs = logs + model.epsilon.log_density(epsilon)[:, None] + problem.nuisance.log_weight
            for index, pair in enumerate(new):
                part = slice(index * level.nodes, (index + 1) * level.nodes)
                known[pair] = (logs[part], rows[part])
        log_rows = np.stack([known[pair][0] for pair in pairs])
        density = marginal(log_rows)
        split = unresolved(breaks, density, level.tolerance)
        if not split.any() or number == rounds - 1:
            # What was computed belongs to these panels; others would need another round.
            break
        kept = trimmed(density, level.negligible)
        breaks = split_panels(breaks[kept.start : kept.stop + 1], split[kept])
    parts = [row for pair in pairs for row in known[pair][1]]
    return Solution(
        breaks=breaks,
        t_breaks=breaks,
        log_rows=log_rows,
        rows=stack(parts) if parts else None,
        nuisance=problem.nuisance,
        method=method,
    )


def _fixed_strength_rows(problem: Problem) -> PanelRows:
    model = problem.model
    assert isinstance(model.strength, Fixed)
    strength = model.strength.value
    if problem.correlated and strength <= TENSOR_STRONGEST:
        end = model.epsilon.value if isinstance(model.epsilon, Fixed) else epsilon_end(model)
        return tensor_fixed_strength(problem, strength, end)
    ring = masses.FixedStrengthMasses(
        delta=model.delta,
        strength=strength,
        accuracy=problem.level.table,
        smooth=problem.correlated,
    )
    largest = problem.log_largest()

    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Rows]]:
        nodes = len(problem.nuisance)
        if strength == 1:
            area = region.log_ring_area_rate(epsilon, model.delta)
        else:
            area = region.log_ring_area(epsilon, model.delta, strength)
        total = np.zeros((len(epsilon), nodes))
        size = max(1, 10 * CHUNK_ENTRIES // (400 * nodes * len(epsilon)))
        for chunk in problem.attack_chunks(size):
            attack = np.repeat(np.arange(len(chunk)), len(epsilon))
            logs = ring.log_masses(problem.family_of(chunk), attack, np.tile(epsilon, len(chunk)))
            logs = logs.reshape(len(chunk), len(epsilon), nodes)
            logs = np.minimum(logs, largest[chunk, None, None] + area[:, None])
            total += np.einsum("i,ijn->jn", problem.multiplicity[chunk], logs)
        return total - problem.number * area[:, None], []

    return evaluate


def _ray_rows(problem: Problem) -> PanelRows:
    def evaluate(epsilon: FloatArray) -> tuple[FloatArray, list[Rows]]:
        rows: list[Rows] = []
        for start in range(0, len(epsilon), max(1, TABLE_ATTACKS // problem.attacks)):
            batch = epsilon[start : start + max(1, TABLE_ATTACKS // problem.attacks)]
            rows += _rows_by_rays(problem, batch)
        return np.concatenate([row.log_integral() for row in rows]), rows

    return evaluate


def _rows_by_rays(problem: Problem, epsilon: FloatArray) -> list[Rows]:
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


def _row_by_ray(problem: Problem, epsilon: float, table: MassTable, first_path: int) -> Rows:
    model, level, nodes = problem.model, problem.level, len(problem.nuisance)
    assert isinstance(model.strength, Beta)
    unit = table.log_unit[first_path : first_path + problem.attacks, None]
    largest = problem.log_largest()

    def log_likelihood(strength: FloatArray) -> FloatArray:
        shape = (problem.attacks, len(strength))
        path = np.broadcast_to(first_path + np.arange(shape[0])[:, None], shape)
        _, ring = table.masses(path, np.broadcast_to(strength, shape))
        logs = np.log(np.maximum(ring, 1e-300)) + unit
        area = region.log_ring_area(epsilon, model.delta, strength)
        logs = np.minimum(logs, largest[:, None, None] + area[:, None])
        total = np.tensordot(problem.multiplicity, logs, axes=1)
        return np.asarray(total - problem.number * area[:, None])

    breaks = np.array([0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0])
    for _ in range(MOST_ROUNDS):
        quadrature = strength_panels([breaks], model.strength, level.nodes)
        shape = quadrature.nodes.shape
        logs = log_likelihood(quadrature.nodes.ravel()).reshape(*shape, nodes)
        weighted = logs[0] + problem.nuisance.log_weight
        density = np.exp(weighted - max(float(weighted.max()), -1e300)).sum(axis=-1)
        split = unresolved(breaks, density, level.tolerance)
        if not split.any():
            break
        breaks = split_panels(breaks, split)
    return Rows(epsilon=np.array([epsilon]), quadrature=quadrature, log_likelihood=logs)


def _solve_fixed_epsilon(problem: Problem, epsilon: float) -> Solution:
    model = problem.model
    rows: Rows | None = None
    if isinstance(model.strength, Fixed):
        logs, _ = _fixed_strength_rows(problem)(np.array([epsilon]))
    else:
        if problem.correlated:
            rows = tensor_row(problem, epsilon)
        else:
            rows = _rows_by_rays(problem, np.array([epsilon]))[0]
        logs = rows.log_integral()
    return at_fixed_epsilon(problem, epsilon, logs, rows, "fixed epsilon")


def at_fixed_epsilon(
    problem: Problem, epsilon: float, logs: FloatArray, rows: Rows | None, method: str
) -> Solution:
    """The solution with a single row, from its log likelihood (1, nuisance)."""
    log_rows = (logs + problem.nuisance.log_weight)[None]
    marginal(log_rows)
    return Solution(
        breaks=np.array([epsilon, epsilon]),
        t_breaks=np.zeros(0),
        log_rows=log_rows,
        rows=rows,
        nuisance=problem.nuisance,
        method=method,
    )
