"""One result: what was asked, what was found, how it was checked.  Made once and judged once.

Terminal, JSON, page and files are views of it and work nothing out themselves.  What takes time is
worked out when it is first asked for, at most once, and ``report`` is told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import Say
from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference.checks.comparison import (
    CHECK_SEED,
    ModelComparison,
    alternatives,
    compare_models,
)
from epsilometer.inference.checks.influence import Influence, leave_one_out
from epsilometer.inference.checks.outlook import Outlook, is_quick, look_ahead
from epsilometer.inference.checks.predictive import PredictiveCheck, check_predictions
from epsilometer.inference.checks.sensitivity import FACTORS, AlternativePrior, prior_sensitivity
from epsilometer.inference.checks.warnings import (
    MOST_LISTED,
    ExtremeCounts,
    check_extreme_counts,
    repeated_bases,
)
from epsilometer.inference.claimed_curve import JudgedCurve
from epsilometer.inference.objections import (
    CONTRADICTED,
    REFUTED_POSTERIOR,
    SHARED,
    Bound,
    bound_reasons,
    misfit_reasons,
    prior_reasons,
    valid_bounds,
)
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.verdict import Grounds, Outcome, Thresholds, Verdict, decide
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import ERROR, Proof, prove

if TYPE_CHECKING:
    from epsilometer.inference.profile.posterior import ProfilePosterior


NEARLY_ALL = 0.995
"""A probability that two digits would round to 1."""

WEAK_STRENGTH = 0.5
"""Attack strength below which a PASS says that attacks may have been weak."""


class OtherModels(Enum):
    """How far other assumptions are set beside the one made."""

    NONE = "not at all"
    QUICK = "in seconds"
    """Correlated models at one resolution; none where that would take minutes."""
    FULL = "all of them, at full accuracy"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What was asked of a posterior.

    Attributes
    ----------
    level
        Probability of the central credible intervals, in (0, 1).
    claim, claim_source
        An epsilon that somebody claims, at least 0, without which there is no verdict; and who claims
        it: ``algorithm`` if the algorithm itself does.
    thresholds
        Where the verdict takes sides.
    accept_untrusted
        Let the verdict take sides even if the engine did not reach its accuracy.
    other_models
        How far other assumptions are tried.
    error
        Probability that the proof errs, in (0, 1).
    independent
        Whether models of different bases were trained independently; proofs average over bases else.
    """

    level: float = 0.9
    claim: float | None = None
    claim_source: str | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    accept_untrusted: bool = False
    other_models: OtherModels = OtherModels.QUICK
    error: float = ERROR
    independent: bool = True

    def __post_init__(self) -> None:
        _validate.level(self.level)
        _validate.open_unit_interval("error", self.error)
        if self.claim is not None:
            _validate.non_negative("claim", self.claim)


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """What is known of how the counts came about; empty for counts that somebody brought.

    Attributes
    ----------
    plan
        What was audited: hash, population, adjacency, design, dataset_size, seed; the kind of challenge
        points unless they are random.
    attack
        How it was attacked: target_alpha, statistic, attack, and what else the attack says of itself.
    models, failures
        How many models were trained, reused and failed; those that failed, each as plain values.
    warnings
        What the attack itself warned of, and what is known against the challenge points.
    curves
        Error counts over target rates, an ``ErrorCurves`` of the attacks, which inference does not know.
    claim_source
        ``algorithm`` if the claim is the algorithm's own.
    variant, siblings
        Which of several variants made from the same models, and the others.
    stopping
        How an audit that stops by itself came to its end, as plain values.
    """

    plan: Mapping[str, Any] = field(default_factory=dict)
    attack: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = ()
    curves: Any = None
    claim_source: str | None = None
    variant: str | None = None
    siblings: tuple[str, ...] = ()
    stopping: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target_alpha(self) -> float | None:
        """The false-positive rate that the attacks aimed at."""
        value = self.attack.get("target_alpha")
        return None if value is None else float(value)


class JudgedResult(ABC):
    """What every result has: what the data prove, what contradicts the answer, and the verdict."""

    if TYPE_CHECKING:

        @property
        def posterior(self) -> Posterior | ProfilePosterior: ...
        @property
        def question(self) -> Question: ...
        @property
        def origin(self) -> Origin: ...
        @property
        def report(self) -> Say | None: ...

    @property
    def level(self) -> float:
        """Probability of the credible intervals."""
        return self.question.level

    @property
    def claim_source(self) -> str | None:
        """Who claims what is judged."""
        return self.question.claim_source or self.origin.claim_source

    @property
    @abstractmethod
    def proven_from(self) -> Scores | AttackCounts | None:
        """What a proof can be made from; None if it cannot."""

    @abstractmethod
    def _misfit(self, leaning: Outcome) -> Iterator[str]:
        """That the model would hardly make such data, or cannot answer."""

    @abstractmethod
    def _caveats(self, claim: float) -> Iterator[str]:
        """What else a PASS does not say."""

    @abstractmethod
    def _above_with_other_priors(self, claim: float) -> Iterator[tuple[float, float]]:
        """The prior's scale factor, and the probability that epsilon exceeds the claim."""

    @cached_property
    def proof(self) -> Proof | None:
        """What the attacks prove, whatever the model; None where nothing can be tried."""
        return self.proof_at(self.posterior.model.delta, self.question.claim)

    def proof_at(self, delta: float, claim: float | None) -> Proof | None:
        """The same at any delta."""
        data = self.proven_from
        if data is None:
            return None
        # Canaries that no fair coin put in have a posterior all the same.
        with suppress(InputError):
            return prove(
                data,
                delta=delta,
                claim=claim,
                error=self.question.error,
                independent=self.question.independent,
            )
        return None

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """Other valid lower bounds of epsilon from the same data."""
        data = self.proven_from
        if data is None:
            return ()
        return valid_bounds(data, self.posterior.model.delta, self.question.error)

    @cached_property
    def contradiction(self) -> str | None:
        """That the answer lies below what the same data prove; None if it does not."""
        known = list(self.bounds)
        if self.proof is not None:
            known.insert(0, Bound("the proof", self.proof.at_least))
        best = max(known, key=lambda bound: bound.epsilon, default=Bound("", 0.0))
        if not best.epsilon > 0:
            return None
        below = 1 - self.posterior.probability_above("epsilon", best.epsilon)
        if not below > CONTRADICTED:
            return None
        share = (
            f"probability {below:.2g}" if below < NEARLY_ALL else "nearly all of its probability"
        )
        return (
            f"Do not quote the interval: the posterior puts {share} on an epsilon below "
            f"{best.epsilon:.2f}, which the same data refute ({best.label}, error {self.question.error:g})."
        )

    @cached_property
    def verdict(self) -> Verdict | None:
        """What is said of the claim; None without one."""
        claim = self.question.claim
        if claim is None:
            return None
        return decide(
            claim=claim,
            above=self.posterior.probability_above("epsilon", claim),
            before=self.posterior.prior_probability_above(claim),
            refuted=self.proof.refutation if self.proof and self.proof.refuted else None,
            objections=lambda leaning: self._objections(claim, leaning),
            caveats=lambda: self._caveats(claim),
            thresholds=self.question.thresholds,
            trusted=bool(self.posterior.trustworthy or self.question.accept_untrusted),
        )

    def _objections(self, claim: float, leaning: Outcome) -> Iterator[str]:
        """What speaks against a side that the posterior takes."""
        found = [*self._misfit(leaning), *bound_reasons(self.bounds, claim, leaning)]
        if self.contradiction is not None:
            found.append(REFUTED_POSTERIOR)
        yield from found
        if not found:  # other priors take another estimate each
            others = self._above_with_other_priors(claim)
            yield from prior_reasons(others, leaning, self.question.thresholds)

    def _report_progress(self, line: str) -> None:
        if self.report is not None:
            self.report(line)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(JudgedResult):
    """A posterior with everything a reader or a reviewer would ask about it.

    Parameters
    ----------
    posterior, question
        What was found, with counts, model and provenance; and what was asked of it.
    origin
        How the counts came about.
    over_delta
        The same counts at other deltas, if somebody asked for a curve.
    scores
        Scores of the same models, if these are known: proofs from them need no count.
    report
        Called with a line of text whenever something that takes time is worked out.
    """

    posterior: Posterior
    question: Question = field(default_factory=Question)
    origin: Origin = field(default_factory=Origin)
    over_delta: JudgedCurve | None = None
    scores: Scores | None = None
    report: Say | None = None

    def __post_init__(self) -> None:
        curves = self.origin.curves
        if curves is not None and curves.names != self.counts.names:
            raise InputError(
                "expected error curves of the same challenge bases as the posterior's."
            )
        if self.over_delta is not None and self.over_delta.curve.counts != self.counts:
            raise InputError("expected a curve over delta of the same counts as the posterior's.")

    @property
    def counts(self) -> AttackCounts:
        """What was observed."""
        return self.posterior.counts

    @property
    def model(self) -> AuditModel:
        """What was assumed."""
        return self.posterior.model

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached its accuracy, over delta too if there is a curve."""
        over = self.over_delta is None or self.over_delta.curve.trustworthy
        return bool(self.posterior.trustworthy and over)

    # --- checks, each worked out once ---------------------------------------------------------

    @cached_property
    def independent_counts(self) -> ExtremeCounts | None:
        """The answer for independent counts, where the one found is not to be taken alone."""
        # Counts that independence contradicts must not cost the result.
        with suppress(ContradictionError):
            return check_extreme_counts(self.posterior, level=self.level, report=self.report)
        return None

    @cached_property
    def outlook(self) -> Outlook | None:
        """What more data would settle; None unless the verdict is open."""
        verdict = self.verdict
        if verdict is None or verdict.grounds is not Grounds.OPEN:
            return None
        if verdict.leaning is not Outcome.INCONCLUSIVE:
            return None  # more of the same data would not mend what speaks against it
        if not verdict.trustworthy or not self._estimated:
            return None
        return look_ahead(self.posterior, verdict, report=self.report)

    @cached_property
    def other_priors(self) -> tuple[AlternativePrior, ...]:
        """Epsilon under other priors, without those under which nothing can be estimated."""
        found: list[AlternativePrior] = []
        self._report_progress("other priors")
        for factor in FACTORS if self._estimated else ():
            # The exact engine takes no prior that reaches beyond epsilon = 600.
            with suppress(ContradictionError, InputError):
                found += prior_sensitivity(self.posterior, factors=(factor,), report=self.report)
        return tuple(found)

    @cached_property
    def influence(self) -> Influence | None:
        """Epsilon without each base; None for a fixed one."""
        if not self._estimated:
            return None
        self._report_progress("leaving out one base at a time")
        # A base whose absence leaves a contradiction must not cost the rest of the report.
        with suppress(ContradictionError):
            return leave_one_out(self.posterior, level=self.level, report=self.report)
        return None

    @cached_property
    def predictive(self) -> PredictiveCheck:
        """Whether the model would make such counts at all."""
        self._report_progress("predictive check")
        rng = np.random.default_rng(CHECK_SEED)
        return check_predictions(self.posterior, rng=rng, level=self.level)

    @cached_property
    def models(self) -> ModelComparison | None:
        """The counts under other assumptions; None where it was not worked out."""
        extent = self.question.other_models
        if extent is OtherModels.NONE or (extent is OtherModels.QUICK and not self._estimated):
            return None
        self._report_progress("other assumptions")
        if extent is OtherModels.FULL:
            return compare_models(self.posterior, report=self.report)
        wanted = {
            label: model
            for label, model in alternatives(self.model, self.counts).items()
            if is_quick(self.counts, model) and not self._members_scatter(model)
        }
        if not wanted or not is_quick(self.counts, self.model):
            return None
        with suppress(ContradictionError, InputError):
            return compare_models(self.posterior, wanted, quick=True, report=self.report)
        return None

    @cached_property
    def data_warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the result that its engine cannot see, a sentence or two each."""
        beside = self.independent_counts
        found = (beside and beside.sentence, repeated_bases(self.counts))
        return tuple(sentence for sentence in found if sentence)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to know before quoting the result, the gravest first."""
        found = []
        if not self.posterior.trustworthy:
            found.append(f"Do not quote this result: {self.posterior.engine_description}.")
        found += self.data_warnings
        found += [f"{text[0].upper()}{text[1:]}" for text in self.origin.warnings if text]
        failed = self.origin.models.get("failed", 0)
        if failed:
            found.append(
                f"{failed:,} of the models failed and {'is' if failed == 1 else 'are'} missing from "
                "the counts; if failing depends on the challenge point, the estimate is biased."
            )
        odd = [item for item in self.predictive.statistics if item.surprising]
        if odd:
            listed = "; ".join(
                f"{item.name} {item.observed:.3g} where {item.low:.3g} to {item.high:.3g} is expected"
                for item in odd[:MOST_LISTED]
            )
            rest = len(odd) - MOST_LISTED
            if rest > 0:
                listed += f"; and {rest} more in the table of the predictive check"
            found.append(
                f"The model would hardly make counts like these: {listed}. It takes the rates of "
                "attacks to lie anywhere in the region that epsilon and the strength leave them; where "
                "they all lie near one place, the interval may miss the true epsilon on either side."
            )
        return tuple(found)

    @property
    def proven_from(self) -> Scores | AttackCounts | None:
        """Scores of the models, else counts; decisions that depend on each other prove nothing."""
        if self.scores is not None:
            return self.scores
        shared = self.counts.measured is not None and self.counts.measured.cross_fed
        return self.counts if self.model.likelihood.independent and not shared else None

    def _misfit(self, leaning: Outcome) -> Iterator[str]:
        if self.counts.measured is not None and self.counts.measured.pool:
            yield SHARED
        yield from misfit_reasons(self.predictive)

    def _caveats(self, claim: float) -> Iterator[str]:
        low, high = self.posterior.credible_interval("strength", self.level)
        if low < WEAK_STRENGTH:
            yield (
                f"the attacks may have been weak (strength {low:.2f} to {high:.2f}, 1 is the best "
                "possible)"
            )

    def _above_with_other_priors(self, claim: float) -> Iterator[tuple[float, float]]:
        for other in self.other_priors:
            yield other.factor, other.epsilon.probability_above(claim)

    @property
    def _estimated(self) -> bool:
        return "epsilon" in self.posterior.parameters

    def _members_scatter(self, model: AuditModel) -> bool:
        """Such models take the exact engine longer than a page should."""
        return model.scatters(self.counts) and model.dependence.scatter is not None
