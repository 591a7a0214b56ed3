"""How much each challenge base matters: epsilon's posterior when one of them is left out.

The posterior is divided by that base's likelihood at the nodes of its own grid.  Nothing is estimated
anew unless that grid does not serve, as when the base alone held epsilon where it is.  Whether a base
*should* be left out is no question for this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IndexArray, Say
from epsilometer.errors import InputError
from epsilometer.inference.exact import panels
from epsilometer.inference.exact.engine import (
    as_grid_posterior,
    estimate_on,
    make_surface,
    surface_of,
)
from epsilometer.inference.exact.panels import PanelDensity
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.posterior import Posterior
from epsilometer.model.counts import AttackCounts

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

PLANAR_DEPTH = 30.0
"""Masses by plane quadrature are known down to about e^-30 of the whole: differences of sums that are
rounded at e^-37."""

LARGEST_AT_CUT = 0.05
"""Of the new posterior, at nodes of the spread beside which others were given up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """What becomes of epsilon's posterior when one challenge base is left out.

    Parameters
    ----------
    names
        The names of the bases, in the order of the counts, as all that follows.
    level, median, low, high
        Median and ends of the central credible interval of that probability without each base.
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
    posterior: Posterior, *, level: float = 0.9, report: Say | None = None
) -> Influence:
    """Return the posterior of epsilon without each challenge base in turn; a group goes as a whole.

    Given theta = (epsilon, s[, tau, rho]) the bases are independent, so p(theta | counts without base
    i) is proportional to p(theta | counts) / L_i(theta), where L_i is the mass of the ring
    R_s(epsilon, delta) under the count likelihood of base i over the ring's area.

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
        What :func:`~epsilometer.inference.exact.engine.estimate_exact` says of the other bases, wherever
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
    >>> from epsilometer.inference.exact.engine import estimate_exact
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
    if model.epsilon.fixed_value is not None:
        raise InputError(
            f"expected a model that estimates epsilon, got epsilon={model.epsilon!r}: "
            "no base has any influence on a fixed value."
        )
    probabilities = np.array([0.5 - level / 2, 0.5, 0.5 + level / 2])
    if len(counts) == 1:
        with_all = posterior.quantile("epsilon", probabilities)
        quantiles, reliable = model.epsilon.quantile(probabilities)[None], np.ones(1, dtype=bool)
    else:
        exact = as_grid_posterior(posterior, report=report)
        with_all = exact.quantile("epsilon", probabilities)
        quantiles, reliable = _without_each(exact, probabilities, report or (lambda _: None))
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


def _without_each(
    exact: GridPosterior, probabilities: FloatArray, report: Say
) -> tuple[FloatArray, BoolArray]:
    """Quantiles of epsilon without each base, (base, probability), and whether they are reliable."""
    counts, model = exact.counts, exact.model
    report("likelihoods of the bases")
    quantiles = np.tile(exact.quantile("epsilon", probabilities), (len(counts), 1))
    reliable = np.zeros(len(counts), dtype=bool)
    left_out = _Division(exact)
    doubtful: list[tuple[float, IndexArray]] = []
    for rows, logs in left_out.each():
        density, doubt = left_out.without(logs)
        if _sets_prior(exact, rows):
            doubt = np.inf
        quantiles[rows] = density.quantile(probabilities)
        reliable[rows] = doubt < 1 and exact.trustworthy
        doubtful.append((doubt, rows))
    again = _worst(doubtful, groups=model.scatters(counts))
    for number, rows in enumerate(again):
        name = counts.names[rows[0]]
        report(f"without base {name!r}, estimated anew ({number + 1} of {len(again)})")
        counts_left = _without(counts, int(rows[0]))
        surface = left_out.surface.first().without(int(rows[0]))
        if _sets_prior(exact, rows):
            surface = make_surface(counts_left, model)
        rest = estimate_on(surface, counts_left, model, exact.engine)
        quantiles[rows], reliable[rows] = rest.quantile("epsilon", probabilities), rest.trustworthy
    return quantiles, reliable


def _without(counts: AttackCounts, base: int) -> AttackCounts:
    return counts.take(np.flatnonzero(np.arange(len(counts)) != base))


def _sets_prior(posterior: GridPosterior, rows: IndexArray) -> bool:
    """Whether one base alone sets the prior of nuisance parameters, or where epsilon begins."""
    likelihood, counts = posterior.model.likelihood, posterior.counts
    if len(rows) > 1 or not likelihood.parameters or posterior.model.scatters(counts):
        return False
    rest = _without(counts, int(rows[0]))
    return likelihood.prior_size(counts) != likelihood.prior_size(rest)


def _worst(doubtful: list[tuple[float, IndexArray]], *, groups: bool) -> list[IndexArray]:
    """Those in doubt, the worst first, as many as may be estimated anew; groups take too long."""
    affordable = 0 if groups else min(MOST_AGAIN, max(1, MOST_BASES_AGAIN // len(doubtful)))
    ordered = sorted(doubtful, key=lambda pair: -pair[0])
    return [rows for doubt, rows in ordered[:affordable] if doubt >= 1]


class _Division:
    """A posterior from which likelihoods are divided out at the nodes of its own grid.

    Densities are given at the nodes of the posterior's own marginal, so that its rules apply and
    quantiles stay as accurate as they were.
    """

    def __init__(self, posterior: GridPosterior) -> None:
        self._posterior = posterior
        self.surface = surface_of(posterior)
        cells, grid = posterior.cells, posterior.nuisance
        self._rows = len(cells.epsilon)
        self._row_mass = np.bincount(cells.row, cells.mass, minlength=self._rows)
        self._known = np.flatnonzero(self._row_mass)
        nuisance = cells.log_nuisance if cells.log_nuisance.size else np.zeros((len(cells.mass), 1))
        weighted = nuisance + grid.log_weight
        self._log_share = weighted - np.logaddexp.reduce(weighted, axis=1)[:, None]
        self._depth = min(self.surface.depth, PLANAR_DEPTH) if self.surface.planar else np.inf
        self._at_cuts = grid.nodes_at_cuts(posterior.model)

    def each(self) -> Iterator[tuple[IndexArray, FloatArray]]:
        """What can be left out: its rows of the counts, and its log likelihood (cell, nuisance)."""
        cells = self._posterior.cells
        strength, epsilon = cells.strength, cells.epsilon[cells.row]
        return self.surface.each(epsilon, strength, self._posterior.model.delta)

    def without(self, logs: FloatArray) -> tuple[PanelDensity, float]:
        """The density of epsilon without that likelihood, and a doubt about it: below 1 it will do."""
        cells, marginal = self._posterior.cells, self._posterior.marginals["epsilon"]
        # Below a depth lies only rounding, and a base must not gain from dividing by that.
        deep = logs < logs.max() - self._depth
        logs = np.maximum(logs, logs.max() - self._depth)
        joint = self._log_share - logs
        ratio = np.logaddexp.reduce(joint, axis=1)
        log_weight = np.log(cells.mass) + ratio
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        inside = np.exp(joint - ratio[:, None])
        unknown = float(weight @ (inside * deep).sum(axis=1))
        at_cut = float(weight @ inside[:, self._at_cuts].sum(axis=1))
        faint = float(weight[cells.mass < FAINT].sum())
        by_row = np.bincount(cells.row, weight, minlength=self._rows)[self._known]
        change = np.log(np.maximum(by_row, 1e-300)) - np.log(self._row_mass[self._known])
        # Rows of which no cell was kept follow their neighbours.
        change = np.interp(np.arange(self._rows), self._known, change)
        change = change.reshape(marginal.values.shape)
        values = marginal.values * np.exp(change - change.max())
        density = PanelDensity(breaks=marginal.breaks, values=values)
        doubt = max(
            max(faint, unknown) / LARGEST_SHARE,
            at_cut / LARGEST_AT_CUT,
            self._share_at_ends(density) / LARGEST_END,
            panels.remainder(density)
            / (LARGEST_REMAINDER * max(self._posterior.accuracy.tolerance, 1e-4)),
        )
        return density, doubt

    def _share_at_ends(self, density: PanelDensity) -> float:
        """The probability on the first and last panel, where the axis of epsilon goes on beyond."""
        ends = density.cdf([density.breaks[1], density.breaks[-2]])
        below = float(ends[0]) if density.breaks[0] > self.surface.smallest_epsilon else 0.0
        limit = self._posterior.model.epsilon.end * (1 - 1e-12)
        return below + (float(1 - ends[1]) if density.breaks[-1] < limit else 0.0)
