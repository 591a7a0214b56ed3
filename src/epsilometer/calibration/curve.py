"""The curve model on scores of known mechanisms: its intervals compared with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.calibration.attacks import draw_bases
from epsilometer.calibration.plan import CurveCell
from epsilometer.calibration.tally import Sums

if TYPE_CHECKING:
    from epsilometer.engines.curve.solve import Solution
    from epsilometer.model.curve_model import CurveModel
    from epsilometer.model.mixtures import Curves

WHOLE_CURVE = "Epsilometer, whole curve"

DIGITS = 6
"""Decimals of interval ends that are stored, since threads can change later digits."""


@dataclass(frozen=True)
class CurveTally(Sums):
    """Number of runs, of intervals entirely above or below the truth, and sums.

    ``plain_above`` and ``plain_below`` count intervals of the same runs under the plain prior.  Tallies
    can be added in any order.
    """

    above: int = 0
    below: int = 0
    plain_above: int = 0
    plain_below: int = 0
    sum_low: float = 0.0
    sum_median: float = 0.0
    sum_high: float = 0.0

    @classmethod
    def of(
        cls, quantiles: FloatArray, plain: FloatArray, *, truth: float, significance: float
    ) -> CurveTally:
        """The tally of quantiles of shape (runs, 3): lower end, median, upper end.

        ``plain`` are probabilities, under the plain prior, of an epsilon of at most the truth.
        """
        # Ends are rounded: a difference within the rounding does not count as beyond the truth.
        slack = 10.0**-DIGITS
        low, median, high = np.round(quantiles, DIGITS).T
        return cls(
            runs=len(quantiles),
            above=int(np.sum(low > truth + slack)),
            below=int(np.sum(high < truth - slack)),
            plain_above=int(np.sum(plain < significance)),
            plain_below=int(np.sum(plain > 1 - significance)),
            sum_low=float(low.sum()),
            sum_median=float(median.sum()),
            sum_high=float(high.sum()),
        )


def judge_curves(
    cell: CurveCell, significance: float, runs: int, rng: np.random.Generator
) -> CurveTally:
    """Audits of the cell's mechanism; each end of an interval has error probability ``significance``."""
    from epsilometer.engines.curve.engine import CurveSettings
    from epsilometer.model.curve_model import CurveModel
    from epsilometer.model.families import families_of
    from epsilometer.model.mixtures import mixing_of

    model = CurveModel(
        delta=cell.delta, mixing=mixing_of(cell.mixing), families=families_of(cell.family)
    )
    wanted, settings = [significance, 0.5, 1 - significance], CurveSettings()
    truth = cell.mechanism.epsilon(cell.delta)
    quantiles, plain = np.empty((runs, len(wanted))), np.empty(runs)
    for run in range(runs):
        scores = draw_bases(
            cell.mechanism,
            power=cell.power,
            strengths=cell.strengths,
            bases=cell.bases,
            models=cell.models,
            rng=rng,
        )
        posterior = settings.estimate_quickly(scores, model)
        quantiles[run] = posterior.quantile("epsilon", wanted)
        plain[run] = probability_under_plain_prior(posterior.solution, truth)
    return CurveTally.of(quantiles, plain, truth=truth, significance=significance)


# --- the plain prior, for comparison with the model's own -------------------------------------------

PLAIN_BEST, PLAIN_MIXED = 0.5, 0.5
"""Prior probabilities of: all attacks the best possible; a mixture, all rates equally likely."""


def probability_under_plain_prior(solution: Solution, epsilon: float) -> float:
    """Posterior probability of at most ``epsilon`` under a plain prior, all families equally likely.

    The plain prior assigns one half to "every attack is the best" and one half to mixtures, a uniform
    distribution to means of strengths, and nothing to no leak at all.  The probabilities of a solution
    are a prior times a likelihood, so another prior over the same families and distributions only
    changes weights.
    """
    distributions, model = solution.distributions, solution.model
    ratio = np.ones(len(distributions.weights))
    if model.strength.fixed_value is None:
        best = np.isinf(distributions.concentrations)
        # Means have density 2 (1 - m) in the model, and 1 here.
        others = (1 - PLAIN_BEST) / (1 - model.strength.best_possible)
        ratio = np.where(
            best,
            PLAIN_BEST / model.strength.best_possible,
            others / (2 * (1 - distributions.means) + best),
        )
    below = total = 0.0
    for number, component in enumerate(solution.components):
        mass = ratio @ solution.probability[number]
        mass = mass * _plain_share(component.curves, model) / component.probability
        edges = component.curves.epsilon(solution.edges_of(number), model.delta)[::-1]
        reached = np.append(0.0, np.cumsum(mass[::-1]))
        below += float(np.interp(epsilon, edges, reached, left=0.0))
        total += float(mass.sum())
    return below / total


def _plain_share(curves: Curves, model: CurveModel) -> float:
    """Prior probability of curves under the plain prior, up to a factor."""
    several = len({component.curves.rate for component in model.components})
    if several == 1:
        return 1.0
    interpretations = 2 * (several - 1)
    return PLAIN_MIXED / interpretations if curves.mixed else 1 - PLAIN_MIXED
