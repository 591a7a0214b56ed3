"""The posterior of the whole trade-off curve, and its queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.engines.curve import summaries, tree
from epsilometer.engines.curve.solve import (
    CurveAccuracy,
    Resolution,
    Solution,
    likely,
    solve,
)
from epsilometer.engines.curve.summaries import FamilyShare, Part
from epsilometer.engines.curve.tables import Table
from epsilometer.errors import InputError
from epsilometer.model.family import Curves
from epsilometer.model.models import CurveModel
from epsilometer.model.priors import Prior
from epsilometer.model.scores import Scores
from epsilometer.posteriors.marginals import Marginal, PointMass, check_probability
from epsilometer.posteriors.posterior import Posterior
from epsilometer.posteriors.provenance import Provenance
from epsilometer.posteriors.tabulated import Tabulated, middles, mixed, refined, trimmed

if TYPE_CHECKING:
    import xarray

PARAMETERS = ("epsilon", "shown", "strength")

#: A coarser solution for single bases, used if the full one would take this many multiplications.
FOR_BASES, MOST_WORK = Resolution(0.6, 10, 4), 4e9

#: The largest probability of one leak, over components, before an axis is too coarse for a prior.
MOST_IN_ROW = 0.3

#: An epsilon beyond any data, and the prior probability beyond it without which it says nothing.
FAR, FAR_MATTERS = 50.0, 0.005

#: Probability of a component below which it is left out.
RARE = 2e-5

#: The same for distributions of epsilon, whose tails are asked for.
NEGLIGIBLE = 1e-8


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CurvePosterior(Posterior, view="results.POSTERIOR"):
    """The posterior of trade-off curves, leaks and strengths, from the ranks of all scores.

    Parameters: ``epsilon`` (of the algorithm, including what attacks may have missed), ``shown`` (what
    the base that leaks most shows at error rates of at least 1 / N, for N models) and ``strength``
    (mean over attacks; 1: every attack was the best possible).

    Attributes
    ----------
    scores, model
        The data and the model.
    provenance, engine
        How it was computed, and the settings, with which it can be estimated again.
    solution, tables
        Probabilities on the axis of leaks, and the likelihoods they were computed from.
    accuracy
        The engine's error estimate.
    """

    scores: Scores
    model: CurveModel
    provenance: Provenance
    engine: Any = None  # CurveSettings, which imports this class
    solution: Solution
    tables: tuple[Table, ...]
    accuracy: CurveAccuracy

    # --- interface of all posteriors ----------------------------------------------------------

    @property
    def log_evidence(self) -> float:
        """Log probability of the order of scores, relative to labels in random order."""
        return self.solution.log_evidence

    @property
    def parameters(self) -> tuple[str, ...]:
        fixed = self.model.strength.fixed_value is not None
        return PARAMETERS[:-1] if fixed else PARAMETERS

    @property
    def data(self) -> Scores:
        """The scores."""
        return self.scores

    @property
    def accurate(self) -> bool:
        return self.accuracy.met

    @property
    def resolution(self) -> Resolution:
        """The resolution of its solution."""
        resolution: Resolution = self.engine.resolution(
            self.accuracy.levels, len(self.scores), self.accuracy.region, self.accuracy.cells
        )
        return resolution

    @property
    def engine_description(self) -> str:
        return f"whole curve, exact sums; {self.accuracy}"

    @property
    def quality(self) -> dict[str, object]:
        accuracy = self.accuracy.to_dict()
        del accuracy["region"], accuracy["cells"]
        return {"accuracy": accuracy, "log_evidence": self.log_evidence}

    def prior_probability_above(self, epsilon: float) -> float:
        return self.model.prior_probability_above(epsilon)

    def marginal(self, parameter: str) -> Marginal:
        if parameter == "epsilon":
            return self.epsilon_at(self.model.delta)
        if parameter == "shown":
            return self.shown
        if parameter == "strength":
            return self._strength
        known = ", ".join(PARAMETERS)
        raise InputError(f"expected one of the parameters {known}, got {parameter!r}.")

    def draws(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        draws = self.draw_bases(size, rng=rng)
        return {name: draws[name] for name in self.parameters}

    def draw_bases(self, size: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Joint draws, with ``leak``, the epsilon of each base, of shape (draws, bases)."""
        size = _validate.whole_number("size", size)
        drawn = summaries.draw_leaks(self.solution, size, rng=rng)
        epsilon = np.zeros(size)
        shown, leak = np.zeros(size), np.zeros(drawn.base_leak.shape)
        for number in np.unique(drawn.component[drawn.component >= 0]).tolist():
            rows = drawn.component == number
            curves = self.solution.components[number].curves
            epsilon[rows] = curves.epsilon(drawn.leak[rows], self.model.delta)
            worst = drawn.base_leak[rows].max(axis=1)
            shown[rows] = curves.seen_epsilon(worst, self.model.delta, self.finest_rate)
            for base, rate in enumerate(self._rates.tolist()):
                seen = curves.seen_epsilon(drawn.base_leak[rows, base], self.model.delta, rate)
                # Never more than the algorithm's own: both are computed with small errors.
                leak[rows, base] = np.minimum(seen, epsilon[rows])
        region, which = self.accuracy.region, drawn.distribution
        strength = summaries.drawn_means(self.solution, region, which, rng=rng)
        return {
            "epsilon": epsilon,
            "shown": np.minimum(shown, epsilon),
            "strength": strength,
            "leak": leak,
            "family": drawn.component.astype(float),
        }

    def to_datatree(self) -> xarray.DataTree:
        return tree.to_datatree(self)

    # --- families and strengths ---------------------------------------------------------------

    @cached_property
    def families(self) -> tuple[FamilyShare, ...]:
        """Every family, mixing rate and interpretation with its probability, the likeliest first."""
        return summaries.family_shares(self.model, self.solution)

    def family_probability(self, name: str) -> float:
        """Probability of a family, over all mixing rates."""
        return sum(row.probability for row in self.families if row.family == name)

    @property
    def full_strength_probability(self) -> float:
        """Probability that every attack was the best possible; 1 or 0 if the strength is fixed."""
        if self.model.strength.fixed_value is not None:
            return float(self.model.strength.fixed_value == 1)
        return float(self.solution.distribution_weights[0])

    @cached_property
    def _strength(self) -> Tabulated | PointMass:
        fixed = self.model.strength.fixed_value
        if fixed is not None:
            return PointMass(value=fixed)
        return summaries.mean_strength(self.solution, self.accuracy.region)

    # --- epsilon --------------------------------------------------------------------------------

    @cached_property
    def saturated(self) -> bool:
        """Whether the data set no upper limit: epsilons far beyond any data are likelier than before.

        Only where families are averaged: a family that is told extrapolates what the data show.
        """
        before = self.prior_probability_above(FAR)
        after = self.epsilon_at(self.model.delta).probability_above(FAR)
        return bool(len(self.model.families) > 1 and after > before > FAR_MATTERS)

    def credible_interval(self, parameter: str, level: float = 0.9) -> tuple[float, float]:
        """The central interval; without an upper end for epsilon if the data set no upper limit."""
        low, high = super().credible_interval(parameter, level)
        if parameter == "epsilon" and self.saturated:
            return min(low, self.most_shown), np.inf
        return low, high

    @property
    def most_shown(self) -> float:
        """The most that so many models can show: log N."""
        return float(-np.log(self.finest_rate))

    @cached_property
    def _algorithm(self) -> list[tuple[Curves, FloatArray, FloatArray]]:
        """For each component: edges of fine cells of the leak, largest first, and probabilities."""
        parts = []
        for number, component in enumerate(self.solution.components):
            mass = self.solution.probability[number].sum(axis=0)
            if mass.sum() > NEGLIGIBLE:
                edges, fine = refined(self.solution.edges, mass)
                parts.append((component.curves, edges, fine))
        return parts

    def _of_leaks(self, value: Callable[[Curves, FloatArray], FloatArray]) -> Tabulated:
        """Distribution of a quantity that increases with the algorithm's leak."""
        parts = [
            (value(curves, edges)[::-1], mass[::-1]) for curves, edges, mass in self._algorithm
        ]
        return _distribution(parts, self.solution.no_leak)

    def epsilon_at(self, delta: float) -> Tabulated:
        """The distribution of epsilon at another delta, from the same curves."""
        delta = _validate.delta(delta)
        if delta not in self._at_deltas:
            self._at_deltas[delta] = self._of_leaks(partial(Curves.epsilon, delta=delta))
        return self._at_deltas[delta]

    @cached_property
    def _at_deltas(self) -> dict[float, Tabulated]:
        """Distributions of epsilon that were asked for, by delta: views ask again."""
        return {}

    def delta_at(self, epsilon: float) -> Tabulated:
        """The distribution of the least delta at which the algorithm is (epsilon, delta)-DP."""
        epsilon = _validate.non_negative("epsilon", epsilon)
        return self._of_leaks(partial(Curves.delta, epsilon=epsilon))

    @cached_property
    def leaks(self) -> tuple[Tabulated, ...]:
        """The distribution of what each base shows, in the order of the scores."""
        parts = self._base_parts
        return tuple(
            self._tabulated(parts, base, rate) for base, rate in enumerate(self._rates.tolist())
        )

    @property
    def _rates(self) -> FloatArray:
        """The smallest false-positive or false-negative rate that each base could show: 1 / N."""
        return np.asarray(1 / np.maximum(self.scores.trials_h0, self.scores.trials_h1))

    @cached_property
    def _for_bases(self) -> Solution:
        """The solution for single bases: coarser if the full one would take long."""
        if summaries.work(self.solution) < MOST_WORK:
            return self.solution
        coarse = FOR_BASES._replace(region=self.accuracy.region, cells=self.accuracy.cells)
        return solve(self.model, self.tables, coarse)

    @cached_property
    def _base_parts(self) -> list[Part]:
        return summaries.leaks_of_bases(self._for_bases)

    @cached_property
    def shown(self) -> Tabulated:
        """What the worst base shows, at error rates that the largest one could show: at most log N."""
        if len(self.scores) == 1:
            return self.leaks[0]
        return self._tabulated(summaries.leaks_of_worst(self._for_bases), 0, self.finest_rate)

    def _tabulated(self, parts: list[Part], column: int, rate: float) -> Tabulated:
        histograms = []
        for part in parts:
            mass = part.mass[:, column]
            if mass.sum() > NEGLIGIBLE:
                edges, fine = refined(part.edges, mass)
                curves = self._for_bases.components[part.component].curves
                seen = curves.seen_epsilon(edges, self.model.delta, rate)
                histograms.append((seen[::-1], fine[::-1]))
        return _distribution(histograms, self._for_bases.no_leak)

    # --- the curve ------------------------------------------------------------------------------

    def trade_off(
        self, false_positive_rate: ArrayLike, probability: ArrayLike, *, base: int | None = None
    ) -> FloatArray:
        """Quantiles of f, the least false-negative rate, at false-positive rates in [0, 1].

        Of the algorithm, or of one base as seen by attacks; shape (probabilities, rates).
        """
        rates = np.atleast_1d(np.asarray(false_positive_rate, dtype=float))
        if not np.all((rates >= 0) & (rates <= 1)):
            raise InputError("expected false-positive rates in [0, 1].")
        if base is not None and base not in range(len(self.scores)):
            raise InputError(
                f"expected the number of a base, 0 to {len(self.scores) - 1}, got base={base!r}."
            )
        wanted = np.atleast_1d(check_probability(probability))
        parts = []
        for curves, edges, mass in self._seen(base):
            seen = curves if base is not None or curves.subsampled else Curves(family=curves.family)
            # The gain over chance increases with the leak, and is 0 without one.
            gain = seen.seen_true_positives(rates, edges) - rates[:, None]
            rising = np.maximum.accumulate(np.maximum(gain[:, ::-1], 0.0), axis=1)
            parts.append((rising, mass[::-1]))
        gains: list[FloatArray] = []
        for row in range(len(rates)):
            of_row = [(gain[row], mass) for gain, mass in parts]
            gains.append(_distribution(of_row, self.solution.no_leak).quantile(1 - wanted))
        return np.asarray(np.maximum(1 - rates - np.stack(gains, axis=1), 0.0))

    def _seen(self, base: int | None) -> list[tuple[Curves, FloatArray, FloatArray]]:
        """For the algorithm, or one base: curves, edges of cells of leaks and probabilities."""
        if base is None:
            of_all = zip(self.solution.components, self.solution.probability, strict=True)
            edges = self.solution.edges
            parts = [(part.curves, *trimmed(edges, mass.sum(axis=0))) for part, mass in of_all]
        else:
            known = self._for_bases.components
            parts = [
                (known[part.component].curves, part.edges, part.mass[:, base])
                for part in self._base_parts
            ]
        return [part for part in parts if part[2].sum() > RARE]

    @cached_property
    def finest_rate(self) -> float:
        """The smallest false-positive or false-negative rate that any base could show: 1 / N."""
        return float(self._rates.min())

    @cached_property
    def extrapolated_below_delta(self) -> float:
        """The delta below which epsilon depends on rates smaller than any base could show.

        Epsilon at delta is the slope of the trade-off function where a line touches it.  If that is at
        a false-positive rate below 1 / N, N the models of the largest base, the curve there is
        extrapolated by its family.  The median over all curves and leaks; 0 if nothing is.
        """
        return self.delta_at_rate(self.finest_rate)

    @property
    def extrapolated(self) -> bool:
        """Whether epsilon at the model's delta depends on rates smaller than any base could show."""
        return self.model.delta < self.extrapolated_below_delta

    def delta_at_rate(self, rate: float) -> float:
        """Median delta below which epsilon depends on rates below ``rate``."""
        values, masses = [np.zeros(1)], [np.array([self.solution.no_leak])]
        for curves, edges, mass in self._seen(None):
            values.append(curves.delta_at_rate(middles(edges), rate))
            masses.append(mass)
        together, weight = np.concatenate(values), np.concatenate(masses)
        order = np.argsort(together)
        running = np.cumsum(weight[order])
        middle = (running - weight[order] / 2) / running[-1]
        return float(np.interp(0.5, middle, together[order]))

    def with_prior(self, prior: Prior) -> CurvePosterior:
        """The same likelihoods under another prior of epsilon, at the last step's resolution."""
        if prior not in self._under:
            model = replace(self.model, epsilon=prior)
            solution = self.solution.under(model)
            if sum(mass.sum(axis=0).max() for mass in solution.probability) > MOST_IN_ROW:
                solution = solve(model, likely(self.tables, self.solution), self.resolution)
            self._under[prior] = replace(self, model=model, solution=solution)
        return self._under[prior]

    @cached_property
    def _under(self) -> dict[Prior, CurvePosterior]:
        """Posteriors under other priors that were asked for: every judgement asks again."""
        return {}

    def cells(self) -> tuple[list[tuple[Curves, FloatArray]], FloatArray]:
        """Curves with leaks, and all their probabilities concatenated; no leak comes last."""
        kept = [part for part in self._algorithm if part[2].sum() > RARE]
        curves = [(curve, middles(edges)) for curve, edges, _ in kept]
        weight = np.concatenate([*(mass for *_, mass in kept), np.array([self.solution.no_leak])])
        return curves, weight / weight.sum()


def _distribution(parts: list[tuple[FloatArray, FloatArray]], at_zero: float) -> Tabulated:
    """Of parts, from which negligible ones were dropped, with the probability that is not at 0."""
    total = sum(float(mass.sum()) for _, mass in parts) or 1.0
    return mixed([(edges, mass * ((1 - at_zero) / total)) for edges, mass in parts], at_zero)
