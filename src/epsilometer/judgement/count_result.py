"""The result of the count model: its checks, and what they object to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from epsilometer.checks.comparison import (
    CHECK_SEED,
    ModelComparison,
    alternatives,
    compare_models,
    is_quick,
)
from epsilometer.checks.influence import Influence, leave_one_out
from epsilometer.checks.predictive import PredictiveCheck, check_predictions
from epsilometer.checks.sensitivity import PRIOR_FACTORS, AlternativePrior, prior_sensitivity
from epsilometer.checks.warnings import (
    MOST_COUNTS_LISTED,
    ExtremeCounts,
    check_extreme_counts,
    repeated_bases,
)
from epsilometer.engines.exact.over_delta import DeltaCurve, estimate_curve
from epsilometer.errors import ContradictionError, InputError
from epsilometer.judgement import next_step, what_if
from epsilometer.judgement.objections import misfit_reasons
from epsilometer.judgement.question import OtherModels
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Outcome
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import Scores
from epsilometer.posteriors.posterior import CountPosterior

WEAK_STRENGTH = 0.5
"""Attack strength below which a PASS adds that attacks may have been weak."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountResult(Result):
    """A result of the count model.

    Parameters
    ----------
    scores
        Scores of the same models, if known: proofs are then made from scores, not counts.
    """

    kind: ClassVar[str] = "count"

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

    data = counts

    @property
    def flaws(self) -> tuple[str, ...]:
        known = () if self.scores is None else self.scores.flaws
        return tuple(dict.fromkeys((*super().flaws, *known)))

    @property
    def proven_from(self) -> Scores | AttackCounts | None:
        """Scores of the models, otherwise counts; None if decisions depend on each other."""
        if self.scores is not None:
            return self.scores
        cross_fed = self.counts.measured is not None and self.counts.measured.cross_fed
        return self.counts if self.model.likelihood.independent and not cross_fed else None

    @property
    def shares_models(self) -> bool:
        known = self.scores is not None and self.scores.models is not None
        return known or (self.counts.measured is not None and self.counts.measured.pool)

    # --- over delta ---------------------------------------------------------------------------

    @cached_property
    def over_delta(self) -> DeltaCurve | None:
        """Epsilon at each of several deltas, each with its own model; None for a single delta."""
        return self._over_delta(self.model) if len(self.question.deltas) > 1 else None

    def _over_delta(self, model: CountModel) -> DeltaCurve:
        self._tell("epsilon over delta")
        return estimate_curve(self.counts, model, self.question.deltas, on_message=self.on_message)

    @cached_property
    def _curves(self) -> dict[float, DeltaCurve]:
        """Curves over delta by the factor of the prior's scale."""
        return {} if self.over_delta is None else {1.0: self.over_delta}

    def _probability_above(self, claims: Mapping[float, float], prior: float) -> list[float]:
        if set(claims) == {self.delta}:
            (claim,) = claims.values()
            above = self._at_own_delta(claim, prior)
            return [above, above]
        if prior not in self._curves:
            other = replace(self.model, epsilon=self.model.epsilon.rescaled(prior))
            self._curves[prior] = self._over_delta(other)
        at_deltas = [
            self._curves[prior].at(delta).probability_above(claim)
            for delta, claim in claims.items()
        ]
        # Each delta has its own posterior: together they say no less than the most certain one.
        return [*at_deltas, max(at_deltas)]

    def _at_own_delta(self, claim: float, prior: float) -> float:
        if prior == 1:
            return self.posterior.probability_above("epsilon", claim)
        for other in self.other_priors:
            if other.factor == prior:
                return other.epsilon.probability_above(claim)
        raise InputError(f"no estimate with the prior's scale multiplied by {prior:g}.")

    # --- checks, each computed once -----------------------------------------------------------

    @cached_property
    def independent_counts(self) -> ExtremeCounts | None:
        """The result for independent counts, if the one found should not be used alone."""
        # A contradiction under independence must not prevent the result.
        with suppress(ContradictionError):
            return check_extreme_counts(
                self.posterior, level=self.level, on_message=self.on_message
            )
        return None

    @cached_property
    def other_priors(self) -> tuple[AlternativePrior, ...]:
        """Epsilon under other priors, leaving out those that cannot be estimated."""
        priors: list[AlternativePrior] = []
        self._tell("other priors")
        for factor in PRIOR_FACTORS if self._estimated else ():
            # The exact engine refuses priors that extend beyond epsilon = 600.
            with suppress(ContradictionError, InputError):
                priors += prior_sensitivity(
                    self.posterior, factors=(factor,), on_message=self.on_message
                )
        return tuple(priors)

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
        """The predictive check: whether the model generates such counts."""
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
            if is_quick(self.counts, model) and not self._members_scatter(model)
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
        odd = [item for item in self.predictive.statistics if item.surprising]
        if odd:
            listed = "; ".join(
                f"{item.name} {item.observed:.3g} where {item.low:.3g} to {item.high:.3g} is expected"
                for item in odd[:MOST_COUNTS_LISTED]
            )
            rest = len(odd) - MOST_COUNTS_LISTED
            if rest > 0:
                listed += f"; and {rest} more in the table of the predictive check"
            warnings.append(
                f"Counts like these are unlikely under the model: {listed}. It assumes that the rates "
                "of attacks may be anywhere in the region allowed by epsilon and the strength; if they "
                "are all close to one point, the interval may miss the true epsilon on either side."
            )
        return tuple(sentence for sentence in warnings if sentence)

    def _misfit(self, leaning: Outcome) -> Iterator[str]:
        return misfit_reasons(self.predictive)

    def _caveats(self, claim: float) -> Iterator[str]:
        low, high = self.posterior.credible_interval("strength", self.level)
        if low < WEAK_STRENGTH:
            yield (
                f"the attacks may have been weak (strength {low:.2f} to {high:.2f}, where 1 is the best "
                "possible)"
            )

    @cached_property
    def next_step(self) -> str:
        return next_step.after_counts(self)

    @cached_property
    def what_if(self) -> what_if.WhatIf:
        self._tell("what if")
        return what_if.of_counts(self)

    def concluded(self) -> Self:
        _ = self.verdict, self.warnings, self.next_step, self.over_delta, self.models
        _ = self.influence, self.other_priors
        return self

    @property
    def _estimated(self) -> bool:
        return "epsilon" in self.posterior.parameters

    def _members_scatter(self, model: CountModel) -> bool:
        """Whether members scatter, which is too slow in the exact engine for a report."""
        return model.scatters(self.counts) and model.dependence.scatter is not None
