"""What Python says at the settings of the page's sliders: a slow twin of `what_if.js`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import epsilometer as em
from epsilometer.checks.sensitivity import prior_sensitivity
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.objections import (
    CONTRADICTED,
    REFUTED_POSTERIOR,
    bound_reasons,
    prior_reasons,
    valid_bounds,
)
from epsilometer.judgement.verdict import Outcome, Verdict, decide


@dataclass(frozen=True, kw_only=True, eq=False)
class Twin:
    """One result at other settings."""

    result: CountResult | CurveResult
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
        if isinstance(result, CurveResult):
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
        asked = replace(result, question=replace(question, claim=claim, deltas=(delta,)))
        proof = asked.proof_at(delta)

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

                def above_with(other: float) -> float:
                    return float(self.epsilon(factor * other, delta).probability_above(claim))

                yield from prior_reasons(above_with, leaning, question.thresholds)

        return decide(
            claim=claim,
            above=epsilon.probability_above(claim),
            before=0.5,
            refuted=proof.refutation if proof is not None and proof.refuted else None,
            objections=objections,
            thresholds=question.thresholds,
            untrusted=result.untrusted,
        )
