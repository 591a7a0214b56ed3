"""Posterior predictive checks: whether the fitted model generates counts like those observed.

If the observed counts are far outside the range of replicated attacks, the model does not describe
these attacks, and its epsilon should not be quoted without saying so.  The check tests the model, not
the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer._display import Plotted
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import NormalScatter, sample_members
from epsilometer.model.region import sample_rings
from epsilometer.posteriors.posterior import CountPosterior

#: A p-value below this triggers a warning.  With seven statistics, uniform p-values would flag at
#: most one in fourteen datasets that fit; these flag fewer, because the posterior has seen the
#: counts.
SURPRISING = 0.01

#: Makes the check of a model on the same data reproducible.
CHECK_SEED = 1

#: The smallest p-value is 2 / (replicates + 1): with fewer replicates nothing could be surprising.
FEWEST_REPLICATES = 200

#: Attacks drawn at the same time: a dozen arrays of this size use less than 20 MB.
ATTACKS_AT_ONCE = 100_000

#: Sorted values kept of each quantity, 32 MB: all of them for 2,000 replicates of 2,000 bases.
KEPT = 4_000_000

#: Values closer than this are ties: the same rates summed in another order differ by rounding.
SAME_STATISTIC = 1e-12


@dataclass(frozen=True, kw_only=True)
class CheckedStatistic:
    """A summary statistic of all counts: observed, and in replicated attacks.

    Parameters
    ----------
    name, observed
        Its name for display, and its observed value.
    low, high
        The central interval of its values in the replicates.
    p_value
        From :func:`two_sided_p_value`, between 2 / (replicates + 1) and 1.  Small means that such
        counts are unlikely under the model.
    """

    name: str
    observed: float
    low: float
    high: float
    p_value: float

    @property
    def surprising(self) -> bool:
        """Whether the p-value is below 0.01."""
        return self.p_value < SURPRISING


@dataclass(frozen=True, kw_only=True, eq=False)
class SortedQuantity:
    """A rate of each base, sorted, with intervals from replicated attacks.

    Parameters
    ----------
    name
        "false-positive rate", "false-negative rate" or "advantage".
    order, observed
        The base of each observed value, and the values in increasing order.
    low, middle, high
        For each rank, the interval and the median of the values of that rank in the replicates.
        The intervals hold for one rank at a time, not jointly.
    """

    name: str
    order: IntArray
    observed: FloatArray
    low: FloatArray
    middle: FloatArray
    high: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PredictiveCheck(Plotted, view="checks.PREDICTIVE"):
    """Replicated attacks compared with the observed counts.

    Parameters
    ----------
    level
        Probability of the intervals.
    replicates
        Number of replicated datasets.
    statistics, quantities
        Summary statistics of all counts, and the rates of the bases, sorted.
    """

    level: float
    replicates: int
    statistics: tuple[CheckedStatistic, ...]
    quantities: tuple[SortedQuantity, ...]

    @property
    def surprising(self) -> list[str]:
        """The statistics that do not fit, as short texts."""
        return [
            f"{item.name} {item.observed:.3g} where {item.low:.3g} to {item.high:.3g} is expected"
            for item in self.statistics
            if item.surprising
        ]

    @property
    def fits(self) -> bool:
        """Whether nothing is surprising."""
        return not self.surprising


def check_predictions(
    posterior: CountPosterior,
    *,
    rng: np.random.Generator,
    replicates: int = 2000,
    level: float = 0.9,
) -> PredictiveCheck:
    """Draw counts of replicated attacks from the posterior and compare them with the observed ones.

    A replicate is a draw of (epsilon, strength[, tau, rho]) from the posterior, error rates for each
    base, uniform on the ring R_s(epsilon, delta), and counts in as many trials as the base had.
    Members of a group scatter around average rates drawn this way.
    Binomial counts are drawn as such.  Correlated counts are drawn from the bivariate normal of the
    paper's equation (8), rounded to whole numbers and clipped to 0..N.  That matches
    :class:`CorrelatedCells` exactly; the density of :class:`CorrelatedNormal` does neither, so its
    predictions are rough for few trials or for rates near 0 or 1.

    The model does not distinguish an attack from its mirror image, so every attack, observed or new,
    that is worse than guessing (rates summing to more than 1) is reflected, (a, b) -> (1 - a, 1 - b).

    Parameters
    ----------
    posterior
        From any engine; whether it can be trusted is not checked here.
    rng
        The only source of randomness: equal generators give equal results.
    replicates
        Number of replicated datasets, at least 200.  With more than 2,000 bases the intervals of the
        sorted values use only the first 4,000,000 attacks, but at least 200 replicates.
    level
        Probability of the intervals, in (0, 1).

    Notes
    -----
    The posterior was fitted to the same counts, so p-values are conservative: small ones are rarer
    than for held-out attacks.  A check without surprises does not prove that the model is right.

    Examples
    --------
    >>> from epsilometer.engines.estimate import estimate
    >>> from epsilometer.model.models import CountModel
    >>> counts = AttackCounts(
    ...     false_positives=[400] * 12, trials_h0=1000, false_negatives=[300] * 12, trials_h1=1000
    ... )
    >>> posterior = estimate(counts, CountModel(delta=0.01))
    >>> check = check_predictions(posterior, rng=np.random.default_rng(1), replicates=400)
    >>> check.statistics[1].name, check.statistics[1].surprising
    ('standard deviation of false-positive rates', True)
    """
    replicates = _validate.whole_number("replicates", replicates, least=FEWEST_REPLICATES)
    level = _validate.level(level)
    counts = posterior.counts
    bases = len(counts)
    kept = min(replicates, max(KEPT // bases, FEWEST_REPLICATES))
    seen = _Attacks.of_counts(counts, *(errors[np.newaxis] for errors, _ in counts.by_hypothesis))
    observed = {name: float(values[0]) for name, values in seen.statistics().items()}
    drawn = {name: np.empty(replicates) for name in observed}
    ranked = {name: np.empty((kept, bases)) for name in seen.quantities}
    done = 0
    for attacks in _new_attacks(posterior, replicates, rng):
        rows = slice(done, done + len(attacks.share_at_ends))
        for name, values in attacks.statistics().items():
            drawn[name][rows] = values
        if done < kept:
            for name, values in attacks.quantities.items():
                ranked[name][rows] = np.sort(values[: kept - done], axis=1)
        done = rows.stop
    ends = [0.5 - level / 2, 0.5 + level / 2]
    statistics = []
    for name, value in observed.items():
        low, high = (float(np.quantile(drawn[name], end)) for end in ends)
        p_value = two_sided_p_value(value, drawn[name])
        found = CheckedStatistic(name=name, observed=value, low=low, high=high, p_value=p_value)
        statistics.append(found)
    rated = seen.quantities.items()
    quantities = [_sorted_quantity(name, values[0], ranked[name], ends) for name, values in rated]
    return PredictiveCheck(
        level=level,
        replicates=replicates,
        statistics=tuple(statistics),
        quantities=tuple(quantities),
    )


def two_sided_p_value(observed: float, replicates: FloatArray) -> float:
    """Twice the smaller tail probability of the observed value, which counts as one of the replicates.

    With L replicates below, G above and E ties it is min(1, 2 (1 + min(L, G) + E / 2) / (R + 1)).
    Without ties it is exactly uniform if the observed value is drawn like the R replicates.

    Examples
    --------
    >>> two_sided_p_value(5.0, np.arange(9.0)), two_sided_p_value(9.5, np.arange(9.0))
    (0.9, 0.2)
    """
    below = np.count_nonzero(replicates < observed - SAME_STATISTIC)
    above = np.count_nonzero(replicates > observed + SAME_STATISTIC)
    ties = len(replicates) - below - above
    return float(min(1.0, (2 + 2 * min(below, above) + ties) / (len(replicates) + 1)))


def fold(false_positive_rates: FloatArray, false_negative_rates: FloatArray) -> FloatPair:
    """Reflect attacks that are worse than guessing: (a, b) -> (1 - a, 1 - b) where a + b > 1.

    Examples
    --------
    >>> alpha, beta = fold(np.array([0.75, 0.25]), np.array([0.5, 0.5]))
    >>> alpha.tolist(), beta.tolist()
    ([0.25, 0.25], [0.5, 0.5])
    """
    worse = false_positive_rates + false_negative_rates > 1
    return (
        np.where(worse, 1 - false_positive_rates, false_positive_rates),
        np.where(worse, 1 - false_negative_rates, false_negative_rates),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Attacks:
    """Rates to compare in sorted order, (replicate, base), and the share of extreme counts."""

    quantities: dict[str, FloatArray]
    share_at_ends: FloatArray

    @classmethod
    def of_counts(
        cls, counts: AttackCounts, false_positives: IntArray, false_negatives: IntArray
    ) -> _Attacks:
        """From counts in the trials of ``counts``; the last axis is the base."""
        x, y = false_positives, false_negatives
        at_ends = (x == 0).sum(axis=1) + (x == counts.trials_h0).sum(axis=1)
        at_ends += (y == 0).sum(axis=1) + (y == counts.trials_h1).sum(axis=1)
        alpha, beta = fold(x / counts.trials_h0, y / counts.trials_h1)
        advantage = np.abs(1 - alpha - beta)
        names = ("false-positive rate", "false-negative rate", "advantage")
        return cls(
            quantities=dict(zip(names, (alpha, beta, advantage), strict=True)),
            share_at_ends=at_ends / (2 * len(counts)),
        )

    def statistics(self) -> dict[str, FloatArray]:
        """One value per replicate for each statistic; no standard deviations for a single base."""
        values = {}
        for name, rates in self.quantities.items():
            values[f"mean {name}"] = rates.mean(axis=1)
            if name == "advantage":
                values["largest advantage"] = rates.max(axis=1)
            elif rates.shape[1] > 1:
                values[f"standard deviation of {name}s"] = rates.std(axis=1, ddof=1)
        values["share of counts that are 0 or all trials"] = self.share_at_ends
        return values


def _new_attacks(
    posterior: CountPosterior, replicates: int, rng: np.random.Generator
) -> Iterator[_Attacks]:
    """Yield the replicates in chunks of bounded size."""
    counts, model = posterior.counts, posterior.model
    parameters = posterior.draws(replicates, rng=rng)
    for name, value in model.fixed_values(counts).items():
        parameters[name] = np.full(replicates, value)
    rows = max(1, ATTACKS_AT_ONCE // len(counts))
    for start in range(0, replicates, rows):
        part = {name: draws[start : start + rows, None] for name, draws in parameters.items()}
        rates = _new_rates(posterior, part, rng)
        x, y = model.likelihood.sample_counts(counts, rates, part, rng=rng)
        yield _Attacks.of_counts(counts, x, y)


def _new_rates(
    posterior: CountPosterior, part: dict[str, FloatArray], rng: np.random.Generator
) -> FloatPair:
    """Error rates of new attacks, (replicate, base): of every group an average, and its members."""
    counts, model = posterior.counts, posterior.model
    groups = counts.members if model.scatters(counts) else None
    shape = (len(part["epsilon"]), len(counts if groups is None else groups))
    alpha, beta = sample_rings(part["epsilon"], model.delta, part["strength"], size=shape, rng=rng)
    if groups is None:
        return alpha, beta
    dependence = model.dependence
    # Pooled groups determine only the moments of the scatter; normal scatter has the same moments.
    scatter = dependence.scatter or NormalScatter()
    sizes = np.array([len(rows) for rows in groups])
    group_of = np.empty(len(counts), dtype=np.int64)
    group_of[np.concatenate(groups)] = np.repeat(np.arange(len(groups)), sizes)
    rates = alpha[:, group_of], beta[:, group_of]
    spread = np.where(sizes[group_of] == 1, 0.0, part["spread"])
    return sample_members(scatter, *rates, spread, part["epsilon"], model.delta, rng=rng)


def _sorted_quantity(
    name: str, observed: FloatArray, ranked: FloatArray, ends: list[float]
) -> SortedQuantity:
    """Observed values in order, and for each rank the quantiles over the replicates."""
    order = np.argsort(observed, kind="stable").astype(np.int64)
    low, middle, high = np.quantile(ranked, [ends[0], 0.5, ends[1]], axis=0, overwrite_input=True)
    return SortedQuantity(
        name=name, order=order, observed=observed[order], low=low, middle=middle, high=high
    )
