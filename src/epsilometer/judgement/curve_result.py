"""The result of the curve model: its checks, and what they object to."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from epsilometer.checks.predictive import CHECK_SEED
from epsilometer.checks.roc_curves import RocCheck, check_rocs
from epsilometer.checks.sensitivity import AlternativePrior
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.errors import ContradictionError
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.origin import BaseLeak
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Outcome
from epsilometer.judgement.what_if import DELTAS, SCALES
from epsilometer.model.scores import Scores
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.tabulated import Tabulated

#: Probability below which a family's own fit is not checked.
IMPROBABLE = 0.01

#: What is said where an estimate has no upper end.
NO_LIMIT = "these data set no upper limit of epsilon"

#: Most bases for which the page tries other priors, besides the two that every verdict tries.
MOST_REWEIGHTED = 20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CurveResult(Result):
    """A result of the curve model.

    Parameters
    ----------
    count_posterior
        Returns the count model's posterior from counts of the same models, for comparison; it is called
        when somebody looks at ``beside``.
    """

    kind: ClassVar[str] = "curve"
    made_from: ClassVar[str] = "scores"
    misfit_means: ClassVar[str] = (
        "No family of curves that was tried fits, so the interval may miss the true epsilon on either "
        "side."
    )

    posterior: CurvePosterior
    count_posterior: Callable[[], CountPosterior] | None = None

    @property
    def scores(self) -> Scores:
        """The observed scores."""
        return self.posterior.scores

    proven_from = scores

    @cached_property
    def beside(self) -> CountResult | None:
        """The result of the count model from counts of the same models; None without them."""
        if self.count_posterior is None:
            return None
        self._tell("count model, for comparison")
        return CountResult(
            posterior=self.count_posterior(),
            question=self.question,
            scores=self.scores,
            origin=self.origin,
            on_message=self.on_message,
        )

    @property
    def shown(self) -> tuple[float, float]:
        """The interval of what the worst base shows; never below what is proven."""
        proven = 0.0 if self.proof is None else self.proof.at_least
        low, high = self.posterior.credible_interval("shown", self.level)
        return max(low, proven), max(high, proven)

    @property
    def shares_models(self) -> bool:
        return self.scores.models is not None

    # --- over delta ---------------------------------------------------------------------------

    @cached_property
    def over_delta(self) -> JointDeltaCurve | None:
        """The same curves at several deltas; None for a single delta."""
        deltas = self.question.deltas
        return JointDeltaCurve(posterior=self.posterior, deltas=deltas) if len(deltas) > 1 else None

    def _epsilon_at(self, delta: float, prior: float) -> Tabulated | None:
        other = self.with_prior(prior)
        return None if other is None else other.posterior.epsilon_at(delta)

    def _anywhere(self, claims: Mapping[float, float], prior: float) -> float:
        other = self.with_prior(prior)
        assert other is not None  # epsilon at each delta is known
        curve = JointDeltaCurve(posterior=other.posterior, deltas=list(claims))
        return curve.probability_anywhere(claims)

    @property
    def what_if_deltas(self) -> tuple[float, ...]:
        wanted = {*DELTAS, *self.question.deltas, self.delta}
        # Some families have no finite epsilon at small deltas.
        ends = {delta: self.epsilon_at(delta).quantile(0.5 + self.level / 2) for delta in wanted}
        return tuple(sorted(delta for delta in wanted if np.isfinite(ends[delta])))

    @property
    def what_if_priors(self) -> tuple[float, ...]:
        return SCALES if len(self.scores) <= MOST_REWEIGHTED else (1.0,)

    # --- checks, each computed once -----------------------------------------------------------

    @cached_property
    def predictive(self) -> RocCheck:
        self._tell("predictive check")
        rng = np.random.default_rng(CHECK_SEED)
        return check_rocs(self.posterior, rng=rng, level=self.level, replications=400)

    def _reweighted(self, factor: float) -> AlternativePrior:
        self._tell(f"prior scale x {factor:g}")
        other = self.posterior.with_prior(self.model.epsilon.rescaled(factor))
        return AlternativePrior(factor=factor, posterior=other)

    @cached_property
    def poorly_fitting_families(self) -> dict[str, str]:
        """Families that do not fit, by name, with the reason; improbable ones do not matter."""
        reasons = {}
        for name in self.model.used:
            if self.posterior.family_probability(name) < IMPROBABLE:
                continue
            self._tell(f"predictive check, {name}")
            rng = np.random.default_rng(CHECK_SEED)
            try:
                check = check_rocs(self.posterior, rng=rng, replications=200, family=name)
            except ContradictionError:
                reasons[name] = "ruled out by the order of scores"
                continue
            if not check.fits:
                reasons[name] = ", ".join(check.surprising[:2])
        return reasons

    @property
    def disagreement(self) -> str | None:
        """How the count model's result disagrees with this one; None if they agree."""
        if self.beside is None:
            return None
        theirs, ours = self.beside.posterior, self.posterior
        low, high = ours.credible_interval("epsilon", self.level)
        their_low, their_high = theirs.credible_interval("epsilon", self.level)
        if self.posterior.saturated:
            ends = f"The count model's interval ends at {their_high:.2f}."
            return ends if their_high < low else None
        if their_high < low:
            where = "lies entirely below"
        elif their_low > high:
            where = "lies entirely above"
        elif not low <= theirs.median("epsilon") <= high:
            where = "has its median outside"
        else:
            return None
        return (
            f"The count model's interval ({their_low:.2f} to {their_high:.2f}) {where} this one: it "
            "uses one operating point of each attack and assumes error rates spread evenly over a "
            "region, which does not hold for attacks that all aim at one rate."
        )

    @cached_property
    def leaks(self) -> tuple[BaseLeak, ...]:
        """Epsilon, AUC and number of models of each base, the worst first."""
        self._tell("single bases")
        shares = [0.5 - self.level / 2, 0.5, 0.5 + self.level / 2]
        bases = zip(self.scores.names, self.scores.bases, self.posterior.leaks, strict=True)
        rows = []
        for name, base, leak in bases:
            low, median, high = leak.quantile(shares).tolist()
            sizes = base.trials_h0, base.trials_h1
            rows.append(BaseLeak(name, base.auc(), low, median, high, *sizes))
        return tuple(sorted(rows, key=lambda row: (-row.median, -row.auc)))

    # --- what they object to ------------------------------------------------------------------

    @property
    def _left_out(self) -> list[str]:
        """Families without an epsilon at this delta."""
        return [each.name for each in self.model.families if each.name not in self.model.used]

    def _misfit(self, leaning: Outcome) -> Iterator[str]:
        yield from super()._misfit(leaning)
        if self.model.reads_low and leaning is Outcome.PASS:
            yield "the family of curves is known to underestimate epsilon here"
        if self._left_out and leaning is Outcome.PASS:
            yield (
                f"{', '.join(self._left_out)}: left out because there is no epsilon at delta = "
                f"{self.model.delta:g}"
            )

    def _objections(
        self, claims: Mapping[float, float], prior: float, leaning: Outcome
    ) -> Iterator[str]:
        other = self.with_prior(prior)
        posterior = self.posterior if other is None else other.posterior
        if posterior.saturated and leaning is Outcome.PASS:
            yield NO_LIMIT
        elif posterior.saturated and min(claims.values()) >= posterior.most_shown:
            yield f"{NO_LIMIT}, and show at most {posterior.most_shown:.2f} whatever the truth"
        yield from super()._objections(claims, prior, leaning)

    def _caveats(self, claim: float) -> Iterator[str]:
        _, high = self.shown
        if high < claim / 2:
            seen = "what they show on the worst base"
            if self.scores.one_run:
                seen = "what the canaries show"
            elif self.scores.models is not None:
                seen = "what they show on the worst point"
            yield (
                f"the attacks were weak: {seen} is at most {high:.2f}, less than half of the claim"
            )

    @cached_property
    def model_warnings(self) -> tuple[str, ...]:
        if not self._left_out:
            return ()
        return (
            f"Left out: {', '.join(self._left_out)}: no epsilon at delta = {self.delta:g}. If the "
            "algorithm is of such a family, no answer at this delta is right; use a larger delta.",
        )

    def concluded(self) -> Self:
        _ = self.verdict, self.warnings, self.next_step, self.over_delta
        _ = self.other_priors, self.poorly_fitting_families, self.leaks
        if self.beside is not None:
            self.beside.concluded()
        return self
