"""A complete result of the whole-curve model: the question, the posterior, its checks and its verdict.

Terminal output, JSON, pages and files are views of it and compute nothing themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from epsilometer._arrays import Say
from epsilometer.errors import ContradictionError
from epsilometer.inference.checks.comparison import CHECK_SEED
from epsilometer.inference.checks.sensitivity import FACTORS
from epsilometer.inference.objections import (
    MOST_NAMED,
    REFUTED_POSTERIOR,
    SHARED,
    bound_reasons,
    prior_reasons,
    valid_bounds,
)
from epsilometer.inference.profile.checks import (
    AlternativeProfilePrior,
    RocCheck,
    check_rocs,
    other_priors,
)
from epsilometer.inference.profile.curve import ProfileCurve
from epsilometer.inference.profile.posterior import ProfilePosterior
from epsilometer.inference.result import JudgedResult, Origin, Question, Result
from epsilometer.inference.verdict import Outcome, Verdict, decide
from epsilometer.model.profile import ProfileModel
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import refuted_together

MOST_LISTED = 4
"""Most surprising statistics to name in a warning."""

REVERSED = -4.0
"""Standard deviations of the rank sum beyond which members have the lower scores: 3e-5 by chance."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfileResult(JudgedResult):
    """A posterior of the whole curve with everything a reader or reviewer would ask about it.

    Parameters
    ----------
    posterior, question
        The posterior, with scores, model and provenance; and the question put to it.
    origin
        How the scores were produced.
    over_delta
        The same curve at several deltas, if requested.
    published
        The result of the published model from counts of the same models, for comparison.
    report
        Called with a line of text whenever a slow part is computed.
    """

    posterior: ProfilePosterior
    question: Question = field(default_factory=Question)
    origin: Origin = field(default_factory=Origin)
    over_delta: ProfileCurve | None = None
    published: Result | None = None
    report: Say | None = None

    @property
    def scores(self) -> Scores:
        """The observed scores."""
        return self.posterior.scores

    @property
    def model(self) -> ProfileModel:
        """The model."""
        return self.posterior.model

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached its accuracy."""
        return self.posterior.trustworthy

    @property
    def proven_from(self) -> Scores:
        """The scores."""
        return self.scores

    def _misfit(self, leaning: Outcome) -> Iterator[str]:
        odd = self.predictive.surprising
        if odd:
            yield f"such scores are unlikely under the model ({'; '.join(odd[:MOST_NAMED])})"
        if self.scores.models is not None:
            yield SHARED
        if self.model.reads_low and leaning is Outcome.PASS:
            yield "the family of curves is known to underestimate epsilon here"
        if self._left_out and leaning is Outcome.PASS:
            yield (
                f"{', '.join(self._left_out)} is left out because it has no epsilon at delta = "
                f"{self.model.delta:g}"
            )

    def _above_with_other_priors(self, claim: float) -> Iterator[tuple[float, float]]:
        for other in self.other_priors:
            yield other.factor, other.epsilon.probability_above(claim)

    def _caveats(self, claim: float) -> Iterator[str]:
        _, high = self.posterior.credible_interval("shown", self.level)
        if high < claim / 2:
            seen = "what they show on the worst base"
            if self.scores.one_run:
                seen = "what the canaries show"
            elif self.scores.models is not None:
                seen = "what they show on the worst point"
            yield (
                f"the attacks were weak: {seen} is at most {high:.2f}, less than half of the claim"
            )

    @property
    def _left_out(self) -> list[str]:
        """Families without an epsilon at this delta."""
        used = {each.curves.family.name for each in self.model.components}
        return [each.name for each in self.model.families if each.name not in used]

    @cached_property
    def curve_verdict(self) -> Verdict | None:
        """The verdict on a claimed curve, all deltas jointly; None without a claim."""
        curve = self.over_delta
        if curve is None or curve.claim is None:
            return None
        claimed = [
            (delta, claim)
            for delta, claim in zip(curve.grid.tolist(), curve.claims.tolist(), strict=True)
            if claim < np.inf
        ]
        tried = [self.proof_at(delta, claim) for delta, claim in claimed]
        proofs = [each for each in tried if each is not None]
        refuted = None
        if refuted_together(proofs):
            refuted = max(proofs, key=lambda proof: proof.e_value or 0.0).refutation
        claim = claimed[-1][1]
        return decide(
            claim=claim,
            above=curve.probability_anywhere,
            before=self.posterior.prior_probability_above(claim),
            refuted=refuted,
            objections=lambda leaning: self._objections_over(claimed, leaning),
            caveats=lambda: self._caveats(claim),
            thresholds=self.question.thresholds,
            trusted=bool(self.posterior.trustworthy or self.question.accept_untrusted),
        )

    def _objections_over(
        self, claimed: list[tuple[float, float]], leaning: Outcome
    ) -> Iterator[str]:
        """Objections to the side that the posterior takes, at any of the deltas."""
        found = [*self._misfit(leaning)]
        for delta, claim in claimed:
            bounds = valid_bounds(self.scores, delta, self.question.error)
            found += bound_reasons(bounds, claim, leaning)
        if self.contradiction is not None:
            found.append(REFUTED_POSTERIOR)
        yield from found
        if not found:
            yield from prior_reasons(
                self._anywhere_with_other_priors(), leaning, self.question.thresholds
            )

    def _anywhere_with_other_priors(self) -> Iterator[tuple[float, float]]:
        """Prior scale factors, and the probability that the claimed curve is exceeded."""
        assert self.over_delta is not None
        for factor in FACTORS:
            with suppress(ContradictionError):
                prior = self.model.epsilon.rescaled(factor)
                other = replace(self.over_delta, posterior=self.posterior.with_prior(prior))
                yield factor, other.probability_anywhere

    @cached_property
    def predictive(self) -> RocCheck:
        """The predictive check: whether the model generates such ROC curves."""
        self._report_progress("predictive check")
        rng = np.random.default_rng(CHECK_SEED)
        return check_rocs(self.posterior, rng=rng, level=self.level, replications=400)

    @cached_property
    def other_priors(self) -> tuple[AlternativeProfilePrior, ...]:
        """Epsilon with the prior's scale halved and doubled."""
        self._report_progress("other priors")
        with suppress(ContradictionError):
            return other_priors(self.posterior)
        return ()

    @cached_property
    def poorly_fitting_families(self) -> dict[str, str]:
        """Families that do not fit, by name, with the reason, including improbable families."""
        found = {}
        # Some have no epsilon at this delta and are not used.
        used = {each.curves.family.name for each in self.model.components}
        for family in (each for each in self.model.families if each.name in used):
            self._report_progress(f"predictive check, {family.name}")
            try:
                check = check_rocs(
                    self.posterior,
                    rng=np.random.default_rng(CHECK_SEED),
                    replications=200,
                    family=family.name,
                )
            except ContradictionError:
                found[family.name] = "ruled out by the order of scores"
                continue
            if not check.fits:
                found[family.name] = ", ".join(check.surprising[:2])
        return found

    @property
    def disagreement(self) -> str | None:
        """How the published model's result disagrees with this one; None if they agree."""
        if self.published is None:
            return None
        theirs, ours = self.published.posterior, self.posterior
        low, high = ours.credible_interval("epsilon", self.level)
        their_low, their_high = theirs.credible_interval("epsilon", self.level)
        if their_high < low:
            where = "lies entirely below"
        elif their_low > high:
            where = "lies entirely above"
        elif not low <= theirs.median("epsilon") <= high:
            where = "has its median outside"
        else:
            return None
        return (
            f"The published model's interval ({their_low:.2f} to {their_high:.2f}) {where} this one: it "
            "uses one operating point of each attack and assumes error rates spread evenly over a "
            "region, which does not hold for attacks that all aim at one rate."
        )

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to know before quoting the result, the most serious first."""
        found = []
        if not self.posterior.trustworthy:
            found.append(f"Do not quote this result: {self.posterior.engine_description}.")
        found += [f"{text[0].upper()}{text[1:]}" for text in self.origin.warnings if text]
        failed = self.origin.models.get("failed", 0)
        if failed:
            found.append(
                f"{failed:,} of the models failed and {'is' if failed == 1 else 'are'} missing; if "
                "failures depend on who is in the data, the estimate is biased."
            )
        return (*found, *self.data_warnings)

    @cached_property
    def data_warnings(self) -> tuple[str, ...]:
        """Warnings that follow from the scores themselves."""
        found = []
        if self._left_out:
            found.append(
                f"Left out: {', '.join(self._left_out)}, which has no epsilon at delta = "
                f"{self.model.delta:g}. If the algorithm is of that family, no answer at this delta "
                "is right; use a larger delta."
            )
        if _rank_z(self.scores) < REVERSED:
            found.append(
                "Scores are lower for members than for non-members: is their sign reversed? Higher "
                "must look more like a member."
            )
        odd = self.predictive.surprising
        if odd:
            listed = "; ".join(odd[:MOST_LISTED])
            rest = f"; and {len(odd) - MOST_LISTED} more" if len(odd) > MOST_LISTED else ""
            found.append(
                f"Scores like these are unlikely under the model: {listed}{rest}. No family of curves "
                "that was tried fits, so the interval may miss the true epsilon on either side."
            )
        return tuple(found)


def _rank_z(scores: Scores) -> float:
    """Standardised rank sum over all bases: negative if members have the lower scores."""
    n0, n1 = scores.trials_h0.astype(float), scores.trials_h1.astype(float)
    above = np.array([base.auc() - 0.5 for base in scores.bases]) * n0 * n1
    return float(above.sum() / np.sqrt((n0 * n1 * (n0 + n1 + 1) / 12).sum()))
