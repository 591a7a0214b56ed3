"""How much each challenge base matters: epsilon's posterior when one of them is left out.

The posterior is divided by that base's likelihood at the nodes of its own grid.  The engine runs again
only if that grid is inadequate, for example if that base alone determined epsilon.  Whether a base
*should* be left out is outside the scope of this module.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IndexArray, OnMessage
from epsilometer._display import Displayed
from epsilometer.engines.exact.engine import (
    as_grid_posterior,
    estimate_on,
    make_surface,
    surface_of,
)
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors import panels
from epsilometer.posteriors.panels import PanelDensity
from epsilometer.posteriors.posterior import CountPosterior

#: How often the exact engine may run again for bases with unreliable results.
MOST_AGAIN = 25

#: Total number of distinct counts in those runs, not counting the first run.
MOST_BASES_AGAIN = 500

#: Cells of smaller mass are near the cutoff of the grid, 1e-12: others like them were dropped.
FAINT = 1e-9

#: Largest share of the new posterior on faint cells or where the likelihood is too small to be
#: known.
LARGEST_SHARE = 1e-3

#: Largest share of the new posterior on a panel where the grid of epsilon was cut off.
LARGEST_END = 1e-4

#: Largest unresolved part of the panels, in units of the posterior's tolerance.  It bounds the
#: error of the density everywhere; quantiles are a hundred times more accurate.
LARGEST_REMAINDER = 5.0

#: Masses by plane quadrature are accurate down to about e^-30 of the total: differences of sums
#: that are rounded at e^-37.
PLANAR_DEPTH = 30.0

#: Largest share of the new posterior at nodes of the spread next to ones that were dropped.
LARGEST_AT_CUT = 0.05


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Influence(Displayed, view="checks.INFLUENCE"):
    """The posterior of epsilon without each challenge base in turn.

    Parameters
    ----------
    names
        The names of the bases, in the order of the counts; all arrays have this order.
    level, median, low, high
        Level of the central credible interval; median and ends of the interval without each base.
    reliable
        Whether that result meets the accuracy requested from the exact engine.
    with_all
        Low end, median and high end with all bases, from the same engine, for comparison.
    """

    names: tuple[str, ...]
    level: float
    with_all: tuple[float, float, float]
    median: FloatArray
    low: FloatArray
    high: FloatArray
    reliable: BoolArray


def leave_one_out(
    posterior: CountPosterior, *, level: float = 0.9, on_message: OnMessage | None = None
) -> Influence:
    """Return the posterior of epsilon without each challenge base in turn; groups are left out whole.

    Given theta = (epsilon, s[, tau, rho]) the bases are independent, so p(theta | counts without base
    i) is proportional to p(theta | counts) / L_i(theta), where L_i is the mass of the ring
    R_s(epsilon, delta) under the count likelihood of base i over the ring's area.

    Parameters
    ----------
    posterior
        From the exact engine, or one loaded from a file.  For a posterior from MCMC the exact engine
        first runs on the same counts and model: influence always uses the exact engine.
    level
        Probability in the credible interval, in (0, 1).
    on_message
        Called with a line of text from time to time, for a progress display.

    Returns
    -------
    Influence
        The result of :func:`~epsilometer.engines.exact.engine.estimate_exact` on the other bases.
        Where ``reliable``, accurate to its tolerance, or to 1e-3 if that is smaller.  Without the only
        base it is the prior.

    Raises
    ------
    InputError
        If the model holds epsilon fixed, or the level is out of range.

    Notes
    -----
    Costs about as much as the last refinement step of the exact engine.  Where the grid of the
    posterior is inadequate without a base, the exact engine runs on the other bases: at most 25 times,
    and less often with more than 20 distinct counts.  Results that remain doubtful are not
    ``reliable``.

    The correlated likelihood has a prior that depends on the numbers of trials.  If one base alone sets
    its bounds, leaving it out always requires a new estimate.

    Examples
    --------
    >>> from epsilometer.engines.exact.engine import estimate_exact
    >>> from epsilometer.model.models import CountModel
    >>> counts = AttackCounts(
    ...     false_positives=[40, 40, 5],
    ...     trials_h0=100,
    ...     false_negatives=[40, 40, 5],
    ...     trials_h1=100,
    ...     names=["one", "other", "telling"],
    ... )
    >>> influence = leave_one_out(estimate_exact(counts, CountModel(delta=0.01)))
    >>> influence.names[int(np.argmin(influence.median))]
    'telling'
    """
    level = _validate.level(level)
    model, counts = posterior.model, posterior.counts
    if model.epsilon.fixed_value is not None:
        raise InputError(
            f"expected a model that estimates epsilon, got epsilon={model.epsilon!r}: "
            "no base influences a fixed value."
        )
    probabilities = np.array([0.5 - level / 2, 0.5, 0.5 + level / 2])
    if len(counts) == 1:
        with_all = posterior.quantile("epsilon", probabilities)
        quantiles, reliable = model.epsilon.quantile(probabilities)[None], np.ones(1, dtype=bool)
    else:
        exact = as_grid_posterior(posterior, on_message=on_message)
        with_all = exact.quantile("epsilon", probabilities)
        quantiles, reliable = _without_each(exact, probabilities, on_message or (lambda _: None))
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
    exact: GridPosterior, probabilities: FloatArray, on_message: OnMessage
) -> tuple[FloatArray, BoolArray]:
    """Quantiles of epsilon without each base, (base, probability), and whether they are reliable."""
    counts, model = exact.counts, exact.model
    on_message("likelihoods of the bases")
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
        on_message(f"without base {name!r}, new estimate ({number + 1} of {len(again)})")
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
    """Whether one base alone sets the prior of nuisance parameters, or the smallest epsilon."""
    likelihood, counts = posterior.model.likelihood, posterior.counts
    if len(rows) > 1 or not likelihood.parameters or posterior.model.scatters(counts):
        return False
    rest = _without(counts, int(rows[0]))
    return likelihood.prior_size(counts) != likelihood.prior_size(rest)


def _worst(doubtful: list[tuple[float, IndexArray]], *, groups: bool) -> list[IndexArray]:
    """The most doubtful results first, as many as may be estimated again; groups take too long."""
    affordable = 0 if groups else min(MOST_AGAIN, max(1, MOST_BASES_AGAIN // len(doubtful)))
    ordered = sorted(doubtful, key=lambda pair: -pair[0])
    return [rows for doubt, rows in ordered[:affordable] if doubt >= 1]


class _Division:
    """A posterior from which likelihoods are divided out at the nodes of its own grid.

    Densities are given at the nodes of the posterior's own marginal, so its quadrature rules apply and
    quantiles keep their accuracy.
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
        """Each part that can be left out: its rows, and its log likelihood (cell, nuisance)."""
        cells = self._posterior.cells
        strength, epsilon = cells.strength, cells.epsilon[cells.row]
        return self.surface.each(epsilon, strength, self._posterior.model.delta)

    def without(self, logs: FloatArray) -> tuple[PanelDensity, float]:
        """The density of epsilon without that likelihood, and its error score: below 1 is acceptable."""
        cells, marginal = self._posterior.cells, self._posterior.marginals["epsilon"]
        # Below a certain depth there is only rounding error, which must not be divided by.
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
        # Rows without any kept cell are interpolated from their neighbours.
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
        """The probability on the first and last panel, beyond which the axis of epsilon was cut."""
        ends = density.cdf([density.breaks[1], density.breaks[-2]])
        below = float(ends[0]) if density.breaks[0] > self.surface.smallest_epsilon else 0.0
        limit = self._posterior.model.epsilon.end * (1 - 1e-12)
        return below + (float(1 - ends[1]) if density.breaks[-1] < limit else 0.0)
