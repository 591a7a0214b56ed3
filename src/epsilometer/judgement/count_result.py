"""The result of the count model: its checks, and what they object to."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from epsilometer.checks.comparison import ModelComparison, alternatives, compare_models, is_quick
from epsilometer.checks.influence import Influence, leave_one_out
from epsilometer.checks.predictive import CHECK_SEED, PredictiveCheck, check_predictions
from epsilometer.checks.sensitivity import AlternativePrior, prior_sensitivity
from epsilometer.checks.warnings import ExtremeCounts, check_extreme_counts, repeated_bases
from epsilometer.engines.exact.delta_sweep import estimate_curve
from epsilometer.errors import ContradictionError, InputError
from epsilometer.judgement.question import OtherModels
from epsilometer.judgement.result import Result
from epsilometer.judgement.what_if import FEW_DELTAS, SCALES
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.model.scores import Scores
from epsilometer.posteriors.marginals import Marginal
from epsilometer.posteriors.over_delta import DeltaCurve
from epsilometer.posteriors.posterior import CountPosterior

#: Most bases for which the page tries other deltas and priors: each takes a proof or an estimate.
MOST_TRIED = 200

#: Attack strength below which a PASS adds that attacks may have been weak.
WEAK_STRENGTH = 0.5


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountResult(Result):
    """A result of the count model.

    Parameters
    ----------
    scores
        Scores of the same models, if known: proofs are then made from scores, not counts.
    """

    kind: ClassVar[str] = "count"
    made_from: ClassVar[str] = "counts"
    misfit_means: ClassVar[str] = (
        "It assumes that the rates of attacks may be anywhere in the region allowed by epsilon and the "
        "strength; if they are all close to one point, the interval may miss the true epsilon on either "
        "side."
    )

    posterior: CountPosterior
    scores: Scores | None = None

    def __post_init__(self) -> None:
        curves = self.origin.curves
        if curves is not None and curves.names != self.counts.names:
            raise InputError(
                "expected error curves of the same challenge bases as the posterior's."
            )

    @property
    def counts(self) -> AttackCounts:
        """The observed counts."""
        return self.posterior.counts

    @property
    def flaws(self) -> tuple[str, ...]:
        known = () if self.scores is None else self.scores.flaws
        return tuple(dict.fromkeys((*super().flaws, *known)))

    @property
    def proven_from(self) -> Scores | AttackCounts | None:
        """Scores of the models, otherwise counts; None if decisions depend on each other."""
        if self.scores is not None:
            return self.scores
        apart = self.model.likelihood.independent and not self.counts.cross_fed
        return self.counts if apart else None

    @property
    def shares_models(self) -> bool:
        known = self.scores is not None and self.scores.models is not None
        return known or (self.counts.measured is not None and self.counts.measured.pool)

    # --- over delta ---------------------------------------------------------------------------

    @cached_property
    def over_delta(self) -> DeltaCurve | None:
        """Epsilon at each of several deltas, each with its own model; None for a single delta."""
        deltas = self.question.deltas
        return self._over_delta(self.model, deltas) if len(deltas) > 1 else None

    def _over_delta(self, model: CountModel, deltas: tuple[float, ...]) -> DeltaCurve:
        self._tell("epsilon over delta")
        return estimate_curve(self.counts, model, deltas, on_message=self.on_message)

    def _epsilon_at(self, delta: float, prior: float) -> Marginal | None:
        # Claims at several deltas are judged by their common estimate, at the model's delta too.
        together = delta in self.question.deltas and not set(self.claims) <= {delta}
        if delta == self.delta and not together:
            other = self.with_prior(prior)
            return None if other is None else other.epsilon
        curve = self._once(("curve", prior), lambda: self._curve(prior))
        return None if curve is None else curve.at(delta)

    def _curve(self, prior: float) -> DeltaCurve | None:
        """Epsilon at other deltas: those of the question, or those of the page."""
        if prior == 1 and self.over_delta is not None:
            return self.over_delta
        model = replace(self.model, epsilon=self.model.epsilon.rescaled(prior))
        with suppress(ContradictionError, InputError):
            return self._over_delta(model, self._curve_deltas)
        return None

    def _anywhere(self, claims: Mapping[float, float], prior: float) -> float:
        # Each delta has its own posterior: together they say no less than the most certain one.
        epsilons = {delta: self.epsilon_at(delta, prior) for delta in claims}
        return max(epsilons[delta].probability_above(claims[delta]) for delta in claims)

    @property
    def what_if_deltas(self) -> tuple[float, ...]:
        others = self._quick and self.model.likelihood.bounded
        return tuple(sorted({self.delta, *(self._curve_deltas if others else ())}))

    @property
    def _curve_deltas(self) -> tuple[float, ...]:
        asked = self.question.deltas
        return asked if set(asked) - {self.delta} else FEW_DELTAS

    @property
    def what_if_priors(self) -> tuple[float, ...]:
        return SCALES if self._quick else (1.0,)

    @property
    def _quick(self) -> bool:
        """Whether estimates with other settings take seconds."""
        exact = self.posterior.chains is None and not self.model.scatters(self.counts)
        return exact and len(self.counts) <= MOST_TRIED and is_quick(self.counts, self.model)

    # --- checks, each computed once -----------------------------------------------------------

    @cached_property
    def independent_counts(self) -> ExtremeCounts | None:
        """The result for independent counts, if the one found should not be used alone."""
        # A contradiction under independence must not prevent the result.
        with suppress(ContradictionError):
            told = self.on_message
            return check_extreme_counts(self.posterior, level=self.level, on_message=told)
        return None

    def _reweighted(self, factor: float) -> AlternativePrior:
        told = self.on_message
        return prior_sensitivity(self.posterior, factors=(factor,), on_message=told)[0]

    @cached_property
    def influence(self) -> Influence | None:
        """Epsilon without each base; None if epsilon is fixed."""
        if not self._estimated:
            return None
        self._tell("leaving out one base at a time")
        # A contradiction when one base is left out must not prevent the rest of the report.
        with suppress(ContradictionError):
            return leave_one_out(self.posterior, level=self.level, on_message=self.on_message)
        return None

    @cached_property
    def predictive(self) -> PredictiveCheck:
        self._tell("predictive check")
        rng = np.random.default_rng(CHECK_SEED)
        return check_predictions(self.posterior, rng=rng, level=self.level)

    @cached_property
    def models(self) -> ModelComparison | None:
        """The counts under alternative models; None if not computed."""
        extent = self.question.other_models
        if extent is OtherModels.NONE or (extent is OtherModels.QUICK and not self._estimated):
            return None
        self._tell("alternative models")
        if extent is OtherModels.FULL:
            return compare_models(self.posterior, on_message=self.on_message)
        wanted = {
            label: model
            for label, model in alternatives(self.model, self.counts).items()
            if is_quick(self.counts, model)
            # Members that scatter are too slow in the exact engine for a report.
            and not (model.scatters(self.counts) and model.dependence.scatter is not None)
        }
        if not wanted or not is_quick(self.counts, self.model):
            return None
        with suppress(ContradictionError, InputError):
            return compare_models(self.posterior, wanted, quick=True, on_message=self.on_message)
        return None

    # --- what they object to ------------------------------------------------------------------

    @property
    def model_warnings(self) -> tuple[str, ...]:
        independent = self.independent_counts
        warnings = [independent and independent.sentence, repeated_bases(self.counts)]
        return tuple(sentence for sentence in warnings if sentence)

    def _caveats(self, claim: float) -> Iterator[str]:
        low, high = self.posterior.credible_interval("strength", self.level)
        if low < WEAK_STRENGTH:
            yield (
                f"the attacks may have been weak (strength {low:.2f} to {high:.2f}, where 1 is the best "
                "possible)"
            )

    def concluded(self) -> Self:
        _ = self.verdict, self.warnings, self.next_step, self.over_delta, self.models
        _ = self.influence, self.other_priors
        return self

    @property
    def _estimated(self) -> bool:
        return "epsilon" in self.posterior.parameters
