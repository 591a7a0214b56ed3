"""A complete result: the question, the posterior, its checks and its verdict, each computed once.

Terminal output, JSON, pages, notebooks and gates are views of it and compute nothing themselves.  Slow
parts are computed on first access, at most once, and announced through ``on_message``;
:meth:`Result.concluded` computes what every view needs.

The judgement is the same for both models: they differ in the checks of `count_result.py` and
`curve_result.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

from epsilometer._arrays import OnMessage
from epsilometer._display import Plotted, view_of
from epsilometer._text import capital, clause
from epsilometer.checks.predictive import PredictiveCheck
from epsilometer.checks.roc_curves import RocCheck
from epsilometer.checks.sensitivity import PRIOR_FACTORS, AlternativePrior
from epsilometer.errors import ContradictionError, InputError
from epsilometer.judgement import next_step, objections
from epsilometer.judgement.claims import NoPromise
from epsilometer.judgement.objections import Bound
from epsilometer.judgement.origin import BaseLeak, Origin
from epsilometer.judgement.question import Question
from epsilometer.judgement.verdict import JudgedDelta, Outcome, Verdict, decide, no_promise
from epsilometer.judgement.what_if import table_of
from epsilometer.model.counts import AttackCounts, failure_flaws
from epsilometer.model.scores import Scores
from epsilometer.posteriors.marginals import Marginal
from epsilometer.proofs.proof import Proof

T = TypeVar("T")

#: Most surprising statistics to name in a warning.
MOST_LISTED = 3

INACCURATE = "the computation did not reach its accuracy"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result(Plotted, ABC, view="results.RESULT"):
    """A posterior with everything a reader or reviewer would ask about it; made by ``result_of``.

    Parameters
    ----------
    posterior, question
        The posterior, with data, model and provenance; and the question put to it.
    origin
        How the data were produced.
    variants
        Of an audit that released several variants of its models, the result of each by name; this one is
        the most severe.  Empty otherwise.
    on_message
        Called with a line of text whenever a slow part is computed.
    """

    #: The model: ``count`` or ``curve``.
    kind: ClassVar[str]
    #: ``counts`` or ``scores``.
    made_from: ClassVar[str]
    #: What it means if such data are unlikely under the model, in a sentence.
    misfit_means: ClassVar[str]

    posterior: Any
    question: Question = field(default_factory=Question)
    origin: Origin = field(default_factory=Origin)
    variants: Mapping[str, Result] = field(default_factory=dict)
    on_message: OnMessage | None = None
    _kept: dict[Any, Any] = field(default_factory=dict, init=False)

    # --- what the models provide --------------------------------------------------------------

    @property
    @abstractmethod
    def proven_from(self) -> Scores | AttackCounts | None:
        """The data from which a proof can be made; None if there are none."""

    @property
    @abstractmethod
    def shares_models(self) -> bool:
        """Whether challenge points share models, which the posterior treats as independent."""

    @abstractmethod
    def _epsilon_at(self, delta: float, prior: float) -> Marginal | None:
        """As ``epsilon_at``; None if that prior cannot be estimated."""

    @abstractmethod
    def _anywhere(self, claims: Mapping[float, float], prior: float) -> float:
        """P(epsilon > claim) at one or more of several deltas."""

    @property
    @abstractmethod
    def what_if_deltas(self) -> tuple[float, ...]:
        """Deltas at which the page tells what the verdict would be."""

    @property
    @abstractmethod
    def what_if_priors(self) -> tuple[float, ...]:
        """Factors of the prior's scale with which it does."""

    @property
    @abstractmethod
    def predictive(self) -> PredictiveCheck | RocCheck:
        """The predictive check: whether the model generates such data."""

    @abstractmethod
    def _reweighted(self, factor: float) -> AlternativePrior:
        """Epsilon with another scale of the prior."""

    @abstractmethod
    def _caveats(self, claim: float) -> Iterator[str]:
        """Further limitations of a PASS."""

    @property
    @abstractmethod
    def model_warnings(self) -> tuple[str, ...]:
        """What this model finds odd in the data, a sentence or two each, the most serious first."""

    @property
    def leaks(self) -> tuple[BaseLeak, ...]:
        """What each base leaks, the worst first; empty for a model that does not know."""
        return ()

    @cached_property
    def next_step(self) -> str:
        """What to do next, in one sentence."""
        return next_step.after(self)

    @cached_property
    def what_if(self) -> dict[str, Any] | None:
        """Verdicts on other claims, at other deltas and with other priors; only the page's."""
        self._tell("what if")
        return table_of(self)

    @cached_property
    @abstractmethod
    def over_delta(self) -> Any:
        """Epsilon at each of several deltas; None if one delta was asked for."""

    @abstractmethod
    def concluded(self) -> Self:
        """The same result, with everything computed that views show."""

    # --- the judgement ------------------------------------------------------------------------

    @property
    def level(self) -> float:
        """Probability of the credible intervals."""
        return self.question.level

    @property
    def model(self) -> Any:
        """The model."""
        return self.posterior.model

    @property
    def data(self) -> Scores | AttackCounts:
        """The data of the posterior."""
        data: Scores | AttackCounts = self.posterior.data
        return data

    @property
    def delta(self) -> float:
        """The model's delta."""
        return float(self.model.delta)

    @cached_property
    def claims(self) -> dict[float, float]:
        """The claimed epsilon by delta; empty without a claim, or if nothing is promised."""
        return self.question.claims(self.delta)

    @cached_property
    def claim(self) -> float | None:
        """The claim at the model's delta, or else at the smallest; None if there is none."""
        return self.claims.get(self.delta, next(iter(self.claims.values()), None))

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why the data cannot be relied on, a sentence each; then nothing is judged from them."""
        failed = failure_flaws(self.origin.models.get("failed", 0))
        return tuple(dict.fromkeys((*failed, *self.data.flaws)))

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached its accuracy and the data have no flaw."""
        return bool(self.accurate and not self.flaws)

    @property
    def accurate(self) -> bool:
        """Whether the engine reached its accuracy, at every delta."""
        over = self.over_delta
        return bool(self.posterior.accurate and (over is None or over.trustworthy))

    @cached_property
    def untrusted(self) -> str | None:
        """Why the posterior cannot be judged, if so."""
        if self.flaws:
            return clause(self.flaws[0])
        if not self.accurate and not self.question.accept_untrusted:
            return INACCURATE
        return None

    @cached_property
    def proof(self) -> Proof | None:
        """What the attacks prove, whatever the model; None if nothing can be proven."""
        return self.proof_at(self.delta)

    def proof_at(self, delta: float) -> Proof | None:
        """The proof at one delta, and the test of the claim there."""
        data, claim = self.proven_from, self.claims.get(delta)
        asked = self.question
        return self._once(("proof", delta), lambda: objections.proof_of(data, delta, claim, asked))

    def bounds_at(self, delta: float) -> tuple[Bound, ...]:
        """Other valid lower bounds of epsilon from the same data."""
        data, error = self.proven_from, self.question.error
        return self._once(("bounds", delta), lambda: objections.valid_bounds(data, delta, error))

    def epsilon_at(self, delta: float, prior: float = 1.0) -> Marginal:
        """The distribution of epsilon at a delta, the scale of its prior multiplied by ``prior``.

        Raises
        ------
        ContradictionError
            If that prior cannot be estimated: the data contradict it, or it is too wide.
        """
        found = self._once(("epsilon", delta, prior), lambda: self._epsilon_at(delta, prior))
        if found is None:
            raise ContradictionError(f"no estimate with the prior's scale multiplied by {prior:g}.")
        return found

    def _probability_above(self, claims: Mapping[float, float], prior: float) -> list[float]:
        """P(epsilon > claim) at each delta, and last at one or more of them."""
        above = [self.epsilon_at(delta, prior).probability_above(claims[delta]) for delta in claims]
        return [*above, self._anywhere(claims, prior) if len(claims) > 1 else above[0]]

    @cached_property
    def contradiction(self) -> str | None:
        """A warning if the posterior lies below what the same data prove; None if it does not."""
        below = self._below(self.delta, 1.0)
        if not below > objections.CONTRADICTED:
            return None
        return objections.contradiction(below, self._best_bound(self.delta), self.question.error)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the claim, at all deltas together; None without a claim."""
        asked = self.question
        if isinstance(asked.claim, NoPromise):
            trusted = self.untrusted is None
            return no_promise(asked.claim.reason, asked.thresholds, trusted=trusted)
        if not self.claims:
            return None
        refuted = objections.refutations([*map(self.proof_at, self.claims)])
        return self._judged(self.claims, 1.0, *refuted)

    def judged(self, delta: float, claim: float, prior: float = 1.0) -> Verdict:
        """The verdict on another claim at one delta, the scale of the prior multiplied by ``prior``.

        Refuted are claims below the proven epsilon; tested against the data is only the question's.
        """
        proof = self.proof_at(delta)
        known = proof, proof and proof.conditional
        refuted = [each.bound if each and each.refutes(claim) else None for each in known]
        return self._judged({delta: claim}, prior, *refuted)

    def _judged(self, claims: Mapping[float, float], prior: float, *refuted: str | None) -> Verdict:
        claim = claims.get(self.delta, next(iter(claims.values())))
        *at_deltas, anywhere = self._probability_above(claims, prior)
        rows = zip(claims.items(), at_deltas, strict=True)
        return decide(
            claim=claim,
            above=anywhere,
            # The prior of epsilon k times as wide is that of k times epsilon.
            before=self.posterior.prior_probability_above(claim / prior),
            refuted=refuted[0],
            conditional=refuted[1],
            objections=lambda leaning: self._objections(claims, prior, leaning),
            caveats=lambda: self._caveats(claim) if self.delta in claims else (),
            thresholds=self.question.thresholds,
            untrusted=self.untrusted,
            by_delta=tuple(JudgedDelta(delta, epsilon, above) for (delta, epsilon), above in rows),
        )

    def with_prior(self, factor: float) -> AlternativePrior | None:
        """Epsilon with another scale of the prior; None if it cannot be estimated."""

        def reweighted() -> AlternativePrior | None:
            # Some contradict the data, or extend beyond what the engine can integrate.
            with suppress(ContradictionError, InputError):
                return self._reweighted(factor)
            return None

        if factor == 1:
            return AlternativePrior(factor=factor, posterior=self.posterior)
        return self._once(("prior", factor), reweighted)

    @cached_property
    def other_priors(self) -> tuple[AlternativePrior, ...]:
        """Epsilon with the prior's scale halved and doubled; empty if epsilon is fixed."""
        return tuple(filter(None, map(self.with_prior, PRIOR_FACTORS)))

    def _misfit(self, leaning: Outcome) -> Iterator[str]:
        """Reasons why the data do not fit the model, or the model cannot answer."""
        odd = self.predictive.surprising
        if odd:
            named = "; ".join(odd[: objections.MOST_NAMED])
            yield f"such {self.made_from} are unlikely under the model ({named})"

    def _objections(
        self, claims: Mapping[float, float], prior: float, leaning: Outcome
    ) -> Iterator[str]:
        """Objections to the side that the posterior takes."""
        against = [*([objections.SHARED] if self.shares_models else ())]
        against += self._once(("misfit", leaning), lambda: list(self._misfit(leaning)))
        for delta, claim in claims.items():
            against += objections.bound_reasons(self.bounds_at(delta), claim, leaning)
        below = max(self._below(delta, prior) for delta in (self.delta, *claims))
        if below > objections.CONTRADICTED:
            against.append(objections.REFUTED_POSTERIOR)
        yield from dict.fromkeys(against)
        if not against:  # other priors need one more estimate each
            yield from objections.prior_reasons(
                lambda factor: self._probability_above(claims, prior * factor)[-1],
                leaning,
                self.question.thresholds,
            )

    def _best_bound(self, delta: float) -> Bound:
        """The largest valid bound: at the model's delta of all, elsewhere what is proven."""
        proof = self.proof_at(delta)
        known = [] if proof is None else [Bound("the proof", proof.at_least)]
        known += self.bounds_at(delta) if delta == self.delta else ()
        return max(known, key=lambda bound: bound.epsilon, default=Bound("", 0.0))

    def _below(self, delta: float, prior: float) -> float:
        """The posterior probability that epsilon is below the largest valid bound."""

        def below() -> float:
            bound = self._best_bound(delta).epsilon
            if not bound > 0:
                return 0.0
            return 1 - self.epsilon_at(delta, prior).probability_above(bound)

        return self._once(("below", delta, prior), below)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to know before quoting the result, the most serious first."""
        warnings = []
        if not self.posterior.accurate:
            warnings.append(f"Do not quote this result: {self.posterior.engine_description}.")
        asked, proofs = self.question, map(self.proof_at, self.claims)
        beyond = objections.beyond_reach(self.proven_from, self.claims, asked, proofs)
        found = (self.contradiction, *map(capital, self.origin.warnings), *self.model_warnings)
        warnings += [text for text in (*self.flaws, *found, beyond) if text]
        odd = self.predictive.surprising
        if odd:
            more = [f"and {len(odd) - MOST_LISTED} more"] if len(odd) > MOST_LISTED else []
            warnings.append(
                f"{capital(self.made_from)} like these are unlikely under the model: "
                f"{'; '.join([*odd[:MOST_LISTED], *more])}. {self.misfit_means}"
            )
        return tuple(dict.fromkeys(warnings))

    # --- views --------------------------------------------------------------------------------

    def write(self, folder: str | PathLike[str]) -> None:
        """Write summary.json, posterior.nc and figures to a folder; it may exist already."""
        view_of(self).write(self, folder)

    def report(self, path: str | PathLike[str]) -> None:
        """Write a self-contained HTML report to a file; an existing one is replaced."""
        view_of(self).report(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Everything worth quoting, as plain values: the contents of summary.json."""
        return dict(view_of(self).data(self))

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        """What was made under this key, made when first asked for: verdicts share it."""
        if key not in self._kept:
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept

    def _tell(self, line: str) -> None:
        if self.on_message is not None:
            self.on_message(line)
