"""How much each challenge base matters: epsilon's posterior when one of them is left out.

Given epsilon, the strength and the correlations the bases are independent, so the posterior without
a base is the posterior divided by that base's likelihood, which is computed once more at the nodes
of the posterior's own grid.  Nothing is estimated anew unless that grid does not serve, as when the
base alone held epsilon where it is.

Whether a base *should* be left out is no question for this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.inference import masses, panels
from epsilometer.inference.exact import ExactSettings, estimate_exact
from epsilometer.inference.exact_problem import (
    TABLE_ATTACKS,
    Level,
    Problem,
    delta_node_count,
    epsilon_end,
    mass_table_of,
)
from epsilometer.inference.exact_solve import RAY_DEPTH, TENSOR_STRONGEST
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.nuisance import NuisanceGrid, make_family
from epsilometer.inference.panels import PanelDensity
from epsilometer.inference.posterior import Posterior
from epsilometer.model import region
from epsilometer.model.counts import COLUMNS, AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Fixed

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

MOST_AGAIN = 25
"""Times the exact engine may run anew for bases whose answer is in doubt."""

MOST_BASES_AGAIN = 500
"""And how many distinct counts those runs may go through in all, but for the first run."""

FAINT = 1e-9
"""Cells of less mass are near the cutoff of the grid, 1e-12: others like them were dropped."""

LARGEST_SHARE = 1e-3
"""Of the new posterior, on faint cells or where the likelihood is too small to be known."""

LARGEST_END = 1e-4
"""Of the new posterior, on a panel where the grid of epsilon was cut off."""

LARGEST_REMAINDER = 5.0
"""What the panels may leave unresolved, in units of the posterior's tolerance.  It bounds the error
of the density everywhere; quantiles are a hundred times better."""

TENSOR_DEPTH = 30.0
"""Masses by two-dimensional quadrature are known down to about e^-30 of the whole: differences of
sums that are rounded at e^-37."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """What becomes of epsilon's posterior when one challenge base is left out.

    Parameters
    ----------
    names
        The names of the bases, in the order of the counts, as all that follows.
    level
        The probability in the interval between ``low`` and ``high``.
    median, low, high
        Median and ends of the central credible interval of epsilon without each base.
    reliable
        Whether that answer can be trusted: as accurate as the exact engine was asked to be.
    with_all
        Low end, median and high end with all bases, by the same engine: what to compare with.
    """

    names: tuple[str, ...]
    level: float
    with_all: tuple[float, float, float]
    median: FloatArray
    low: FloatArray
    high: FloatArray
    reliable: BoolArray


def leave_one_out(
    posterior: Posterior, *, level: float = 0.9, report: Callable[[str], None] | None = None
) -> Influence:
    """Return the posterior of epsilon without each challenge base in turn; a group goes as a whole.

    With theta = (epsilon, s[, tau, rho]), p(theta | counts without base i) is proportional to
    p(theta | counts) / L_i(theta), where L_i is the mass of the ring R_s(epsilon, delta) under the
    count likelihood of base i over the ring's area.

    Parameters
    ----------
    posterior
        From the exact engine, also one restored from a file.  For one from MCMC the exact engine
        runs on the same counts and model first: influence is always the exact engine's.
    level
        Probability in the credible interval, in (0, 1).
    report
        Called with a line of text now and then, for a progress display.

    Returns
    -------
    Influence
        What :func:`~epsilometer.inference.exact.estimate_exact` says of the other bases, wherever
        ``reliable`` to within its own tolerance, or 1e-3 if that is smaller.  Without the only base
        it is the prior.

    Raises
    ------
    InputError
        If the model holds epsilon fixed, or the level is out of range.

    Notes
    -----
    Costs about as much as the last level of the exact engine.  Where the grid of the posterior does
    not serve without a base, the exact engine runs on the other bases: at most 25 times, and less
    often with more than 20 distinct counts.  What is left in doubt after that is not ``reliable``.

    The correlated likelihood has a prior that depends on the numbers of trials.  A base whose
    trials alone set its bounds is always left out by estimating anew.

    Examples
    --------
    >>> from epsilometer.model.joint import AuditModel
    >>> counts = AttackCounts(
    ...     false_positives=[40, 40, 5],
    ...     trials_h0=100,
    ...     false_negatives=[40, 40, 5],
    ...     trials_h1=100,
    ...     names=["one", "other", "telling"],
    ... )
    >>> influence = leave_one_out(estimate_exact(counts, AuditModel(delta=0.01)))
    >>> influence.names[int(np.argmin(influence.median))]
    'telling'
    """
    level = _validate.level(level)
    model, counts = posterior.model, posterior.counts
    if isinstance(model.epsilon, Fixed):
        raise InputError(
            f"expected a model that estimates epsilon, got epsilon={model.epsilon!r}: "
            "no base has any influence on a fixed value."
        )
    probabilities = np.array([0.5 - level / 2, 0.5, 0.5 + level / 2])
    if len(counts) == 1:
        quantiles, reliable = model.epsilon.quantile(probabilities)[None], np.ones(1, dtype=bool)
        with_all = posterior.quantile("epsilon", probabilities)
        return _influence(counts, level, with_all, quantiles, reliable)
    if not isinstance(posterior, GridPosterior):
        posterior = estimate_exact(counts, model, report=report)
    if model.scatters(counts):
        from epsilometer.inference.group_influence import without_each_group

        with_all = posterior.quantile("epsilon", probabilities)
        quantiles, reliable = without_each_group(posterior, probabilities, report=report)
        return _influence(counts, level, with_all, quantiles, reliable)
    distinct, multiplicity = counts.distinct()
    if report:
        report(f"likelihoods of {len(distinct)} distinct counts")
    which = _which(counts, distinct)
    # A base of each kind; mirror images have one influence.
    bases = [int(np.argmax(which == kind)) for kind in range(len(distinct))]
    problem = _problem(posterior, distinct, multiplicity.astype(float))
    densities, doubt = _reweighted(posterior, problem)
    quantiles = _quantiles(posterior.marginals["epsilon"].breaks, densities, probabilities)
    if problem.correlated:
        doubt = np.maximum(doubt, [_sets_prior(posterior, base) for base in bases])
    reliable = (doubt < 1) & posterior.trustworthy
    again = _worst(doubt)
    for number, kind in enumerate(again):
        if report:
            name = counts.names[bases[kind]]
            report(f"without base {name!r}, estimated anew ({number + 1} of {len(again)})")
        rest = estimate_exact(_without(counts, bases[kind]), model, _settings(posterior))
        quantiles[kind] = rest.quantile("epsilon", probabilities)
        reliable[kind] = rest.trustworthy
    with_all = posterior.quantile("epsilon", probabilities)
    return _influence(counts, level, with_all, quantiles[which], reliable[which])


def _influence(
    counts: AttackCounts,
    level: float,
    with_all: FloatArray,
    quantiles: FloatArray,
    reliable: BoolArray,
) -> Influence:
    low, median, high = quantiles.T
    return Influence(
        names=counts.names,
        level=level,
        with_all=(float(with_all[0]), float(with_all[1]), float(with_all[2])),
        median=median,
        low=low,
        high=high,
        reliable=reliable,
    )


# --- which bases --------------------------------------------------------------------------------


def _take(counts: AttackCounts, which: slice | BoolArray) -> AttackCounts:
    columns = {name: getattr(counts, name)[which] for name in COLUMNS}
    return AttackCounts(**columns)


def _without(counts: AttackCounts, base: int) -> AttackCounts:
    return _take(counts, np.arange(len(counts)) != base)


def _which(counts: AttackCounts, distinct: AttackCounts) -> NDArray[np.intp]:
    """For each base, which of the distinct counts is its own."""

    def rows(of: AttackCounts) -> list[tuple[int, ...]]:
        return list(zip(*(getattr(of, name).tolist() for name in COLUMNS), strict=True))

    number = {row: index for index, row in enumerate(rows(distinct))}
    return np.array(
        [
            number[rows(_take(counts, slice(base, base + 1)).distinct()[0])[0]]
            for base in range(len(counts))
        ]
    )


def _sets_prior(posterior: GridPosterior, base: int) -> bool:
    """Whether the base alone sets the prior of the correlations, or where epsilon begins."""
    likelihood, counts = posterior.model.likelihood, posterior.counts
    assert isinstance(likelihood, CorrelatedNormal)
    assert isinstance(posterior.nuisance, NuisanceGrid)
    rest, tau = _without(counts, base), posterior.nuisance.tau
    bounds = [likelihood.cross_correlation_bound(some, tau) for some in (counts, rest)]
    smallest = [likelihood.smallest_epsilon(some) for some in (counts, rest)]
    return smallest[0] != smallest[1] or not np.array_equal(bounds[0], bounds[1])


def _worst(doubt: FloatArray) -> list[int]:
    """Those in doubt, the most doubtful first, as many as may be estimated anew."""
    affordable = min(MOST_AGAIN, max(1, MOST_BASES_AGAIN // len(doubt)))
    order = np.argsort(-doubt, kind="stable")
    return [int(kind) for kind in order[:affordable] if doubt[kind] >= 1]


def _settings(posterior: GridPosterior) -> ExactSettings:
    """What the posterior was asked for."""
    return ExactSettings(
        tolerance=posterior.accuracy.tolerance or None,
        most_levels=max(4, posterior.accuracy.levels),
    )


# --- dividing a likelihood out ------------------------------------------------------------------


def _reweighted(posterior: GridPosterior, problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Densities of epsilon without each distinct count, and a doubt about each: below 1 it will do.

    Densities are normalised and given at the nodes of the posterior's own marginal, so that its
    rules apply and quantiles stay as accurate as they were: shape (count, panel, node).
    """
    cells, marginal = posterior.cells, posterior.marginals["epsilon"]
    rows, faint, log_mass = len(cells.epsilon), cells.mass < FAINT, np.log(cells.mass)
    row_mass = np.bincount(cells.row, cells.mass, minlength=rows)
    known = np.flatnonzero(row_mass)
    with np.errstate(divide="ignore"):
        log_marginal = np.log(marginal.values)
    half = 0.5 * np.diff(marginal.breaks)[:, None]
    _, gauss = panels.gauss_legendre(marginal.values.shape[1])
    log_joint = _log_total(posterior, problem) + problem.nuisance.log_weight
    log_sum = np.logaddexp.reduce(log_joint, axis=1)
    share = np.exp(log_joint - log_sum[:, None])
    offset = log_mass - log_sum + _log_area(posterior)
    densities = np.empty((problem.attacks, *marginal.values.shape))
    uncertain = np.empty(problem.attacks)
    for kind, (logs, deep) in enumerate(_log_masses(posterior, problem)):
        log_weight = offset + np.logaddexp.reduce(log_joint - logs, axis=1)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        unknown = float(weight @ (share * deep).sum(axis=1)) if deep.any() else 0.0
        uncertain[kind] = max(float(weight @ faint), unknown)
        row_weight = np.bincount(cells.row, weight, minlength=rows)[known]
        log_ratio = np.log(np.maximum(row_weight, 1e-300)) - np.log(row_mass[known])
        # Rows of which no cell was kept follow their neighbours.
        log_ratio = np.interp(np.arange(rows), known, log_ratio).reshape(log_marginal.shape)
        log_density = log_marginal + log_ratio
        values = np.exp(log_density - log_density.max())
        densities[kind] = values / np.sum(half * values * gauss)
    doubt = np.maximum.reduce(
        [
            uncertain / LARGEST_SHARE,
            _share_at_cuts(marginal.breaks, densities, problem) / LARGEST_END,
            _remainder(marginal.breaks, densities)
            / (LARGEST_REMAINDER * max(posterior.accuracy.tolerance, 1e-4)),
        ]
    )
    return densities, doubt


def _share_at_cuts(breaks: FloatArray, densities: FloatArray, problem: Problem) -> FloatArray:
    """The probability on the first and last panel, where the axis of epsilon goes on beyond."""
    _, gauss = panels.gauss_legendre(densities.shape[2])
    probability = 0.5 * np.diff(breaks) * (densities @ gauss)
    cut_below = breaks[0] > problem.smallest_epsilon
    cut_above = breaks[-1] < epsilon_end(problem.model) * (1 - 1e-12)
    return np.asarray(probability[:, 0] * cut_below + probability[:, -1] * cut_above)


def _remainder(breaks: FloatArray, densities: FloatArray) -> FloatArray:
    """What finer panels could still change of each density."""
    coefficients = densities @ panels.analysis_matrix(densities.shape[2]).T
    return np.asarray(panels.tail(coefficients) @ (0.5 * np.diff(breaks)))


def _quantiles(breaks: FloatArray, densities: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Quantiles (count, probability), all by one bisection: the densities are laid end to end."""
    number = np.arange(len(densities))[:, None]
    start, span = breaks[0], breaks[-1] - breaks[0]
    shifted = (number * span + (breaks[:-1] - start)).ravel()
    joined = PanelDensity(
        breaks=np.append(shifted, len(densities) * span),
        values=densities.reshape(-1, densities.shape[2]),
    )
    found = joined.quantile((number + probabilities) / len(densities))
    return np.asarray(found - number * span + start)


def _log_area(posterior: GridPosterior) -> FloatArray:
    """Log area of each cell's ring; at strength 1 that of its limit, as for the masses."""
    cells, model = posterior.cells, posterior.model
    epsilon = cells.epsilon[cells.row]
    if isinstance(model.strength, Fixed) and model.strength.value == 1:
        return region.log_ring_area_rate(epsilon, model.delta)
    return region.log_ring_area(epsilon, model.delta, cells.strength)


# --- likelihoods at the cells -------------------------------------------------------------------


def _problem(posterior: GridPosterior, distinct: AttackCounts, multiplicity: FloatArray) -> Problem:
    """The problem as the engine had it when it made this posterior."""
    model, counts = posterior.model, posterior.counts
    correlated = isinstance(model.likelihood, CorrelatedNormal)
    level = Level.number(posterior.accuracy.levels - 1, correlated=correlated)
    return Problem(
        model=model,
        level=level.for_bases(len(counts)),
        nuisance=posterior.nuisance,
        family=make_family(model.likelihood, distinct, posterior.nuisance),
        multiplicity=multiplicity,
        number=len(counts),
        smallest_epsilon=model.likelihood.smallest_epsilon(counts),
    )


def _log_total(posterior: GridPosterior, problem: Problem) -> FloatArray:
    """Log likelihood of all bases at (cell, nuisance node), up to a constant a cell.

    Summed anew rather than taken from the posterior: where a mass is no more than rounding, the
    very number that went in must come out again.
    """
    total = np.zeros((len(posterior.cells.row), len(problem.nuisance)))
    if len(problem.nuisance) > 1:
        for multiplicity, (logs, _) in zip(
            problem.multiplicity, _log_masses(posterior, problem), strict=True
        ):
            total += multiplicity * logs
    return total


LogMasses = Iterator[tuple[FloatArray, BoolArray]]
"""For one distinct count after the other, so that memory stays bounded: the log mass of each cell's
ring at (cell, nuisance node), and whether it is too small to be known."""


def _log_masses(posterior: GridPosterior, problem: Problem) -> LogMasses:
    """By the way that the engine took."""
    strength = posterior.model.strength
    if isinstance(strength, Fixed) and not (
        problem.correlated and strength.value <= TENSOR_STRONGEST
    ):
        return _at_fixed_strength(posterior, problem, strength.value)
    if posterior.accuracy.method == "rays":
        return _along_rays(posterior, problem)
    return _from_tables(posterior, problem)


def _at_fixed_strength(posterior: GridPosterior, problem: Problem, strength: float) -> LogMasses:
    cells = posterior.cells
    ring = masses.FixedStrengthMasses(
        delta=problem.model.delta,
        strength=strength,
        accuracy=problem.level.table,
        smooth=problem.correlated,
    )
    attack = np.zeros(len(cells.epsilon), dtype=np.intp)
    for chunk in problem.attack_chunks(1):
        logs = ring.log_masses(problem.family_of(chunk), attack, cells.epsilon)[cells.row]
        yield logs, np.zeros(logs.shape, dtype=bool)


def _along_rays(posterior: GridPosterior, problem: Problem) -> LogMasses:
    cells = posterior.cells
    accuracy = replace(problem.level.table, depth=RAY_DEPTH)
    attack = np.zeros(len(cells.epsilon), dtype=np.intp)
    for chunk in problem.attack_chunks(1):
        family = problem.family_of(chunk)
        table = masses.ray_table(family, attack, cells.epsilon, problem.model.delta, 0.0, accuracy)
        _, ring = table.masses(cells.row, cells.strength)
        logs = np.log(np.maximum(ring, 1e-300))
        deep = np.log(table.total)[cells.row] - logs > RAY_DEPTH
        yield logs + table.log_unit[cells.row], deep


def _from_tables(posterior: GridPosterior, problem: Problem) -> LogMasses:
    cells, delta = posterior.cells, problem.model.delta
    d_count = 1 if delta == 0 else delta_node_count(problem)
    weights = masses.lagrange(masses.delta_nodes(delta, d_count), delta * cells.strength)
    # Rows share most of their positions, so a table is asked a tenth of the questions.
    t = np.concatenate([cells.strength * cells.epsilon[cells.row], cells.epsilon])
    positions, where = _merged(t)
    core, whole = where[: len(cells.row)], where[len(cells.row) :][cells.row]
    end = float(posterior.marginals["epsilon"].breaks[-1])
    depth = TENSOR_DEPTH if problem.correlated else problem.level.table.depth
    for chunk in problem.attack_chunks(TABLE_ATTACKS // (10 if problem.correlated else 1)):
        table = mass_table_of(problem, chunk, d_count, end)
        for number in range(len(chunk)):
            inside, outside = (
                values[0] for values in table.at(positions, slice(number, number + 1))
            )
            inside_core, outside_core = (
                np.einsum("dc,dcn->cn", weights, values[:, core]) for values in (inside, outside)
            )
            logs = masses.log_ring(inside_core, outside_core, inside[-1, whole], outside[-1, whole])
            least = np.log(inside[-1, 0] + outside[-1, 0]) - depth
            deep = logs < least
            if problem.correlated:
                # Below lies only rounding, and a base must not gain from dividing by that.
                logs = np.maximum(logs, least)
            yield logs + table.log_unit[number], deep


def _merged(values: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """The different ones among values that agree up to rounding, and where each has gone."""
    order = np.argsort(values)
    ordered = values[order]
    first = np.append(True, np.diff(ordered) > 1e-12 * ordered[1:])
    where = np.empty(len(values), dtype=np.intp)
    where[order] = np.cumsum(first) - 1
    return ordered[first], where
