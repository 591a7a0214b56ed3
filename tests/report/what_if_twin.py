"""What Python says at the settings of the page's sliders: a slow twin of `what_if.js`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import epsilometer as em
from epsilometer.checks.sensitivity import FACTORS, prior_sensitivity
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.objections import (
    CONTRADICTED,
    REFUTED_POSTERIOR,
    bound_reasons,
    prior_reasons,
    valid_bounds,
)
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Outcome, Verdict, decide


@dataclass(frozen=True, kw_only=True, eq=False)
class Twin:
    """One result at other settings."""

    result: Result | ProfileResult
    _known: dict[tuple[float, float], Any] = field(default_factory=dict)
    _posteriors: dict[float, CurvePosterior] = field(default_factory=dict)

    def epsilon(self, factor: float, delta: float) -> Any:
        """The distribution of epsilon with the prior's scale times ``factor``, read at ``delta``."""
        if (factor, delta) not in self._known:
            self._known[factor, delta] = self._epsilon(factor, delta)
        return self._known[factor, delta]

    def _epsilon(self, factor: float, delta: float) -> Any:
        result = self.result
        prior = result.model.epsilon.rescaled(factor)
        if isinstance(result, ProfileResult):
            if factor not in self._posteriors:
                self._posteriors[factor] = result.posterior.with_prior(prior)
            return self._posteriors[factor].epsilon_at(delta)
        if delta == result.model.delta:
            (other,) = prior_sensitivity(result.posterior, factors=(factor,))
            return other.epsilon
        model = replace(result.model, epsilon=prior, delta=delta)
        return em.estimate(result.counts, model).marginal("epsilon")

    def verdict(self, claim: float, factor: float, delta: float) -> Verdict:
        """The verdict, by the rule of every verdict."""
        result, question = self.result, self.result.question
        epsilon = self.epsilon(factor, delta)
        proof = result.proof_at(delta, claim)

        def objections(leaning: Outcome) -> Iterator[str]:
            found = list(result.constant_objections(leaning))
            known = [] if proof is None else [proof.at_least]
            if result.proven_from is not None:
                bounds = valid_bounds(result.proven_from, delta, question.error)
                found += bound_reasons(bounds, claim, leaning)
                known += [bound.epsilon for bound in bounds]
            best = max(known, default=0.0)
            if best > 0 and 1 - epsilon.probability_above(best) > CONTRADICTED:
                found.append(REFUTED_POSTERIOR)
            yield from found
            if not found:
                others = [
                    (each, self.epsilon(factor * each, delta).probability_above(claim))
                    for each in FACTORS
                ]
                yield from prior_reasons(others, leaning, question.thresholds)

        return decide(
            claim=claim,
            above=epsilon.probability_above(claim),
            before=0.5,
            refuted=proof.refutation if proof is not None and proof.refuted else None,
            objections=objections,
            thresholds=question.thresholds,
            trusted=bool(result.posterior.trustworthy or question.accept_untrusted),
        )
