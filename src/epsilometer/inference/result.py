"""A complete result: the question, the posterior, its checks and its verdict, each computed once.

Terminal output, JSON, pages and files are views of it and compute nothing themselves.  Slow parts are
computed on first access, at most once, and announced through ``report``.
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
"""Attack strength below which a PASS adds that attacks may have been weak."""


class OtherModels(Enum):
    """How far to compare with alternative models."""

    NONE = "not at all"
    QUICK = "in seconds"
    """Correlated models without refinement; none if that would take minutes."""
    FULL = "all of them, at full accuracy"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a posterior.

    Attributes
    ----------
    level
        Probability of the central credible intervals, in (0, 1).
    claim, claim_source
        An epsilon claimed by somebody, at least 0; without it there is no verdict.  And the source of
        the claim: ``algorithm`` if the algorithm itself makes it.
    thresholds
        Posterior probabilities at which the verdict is PASS or FAIL.
    accept_untrusted
        Allow PASS or FAIL by judgement even if the engine did not reach its accuracy.
    other_models
        How far to compare with alternative models.
    error
        Error probability of the proof, in (0, 1).
    independent
        Whether models of different bases were trained independently; if not, proofs average over bases.
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
    """How the data were produced, as far as known; empty for counts supplied by a user.

    Attributes
    ----------
    plan
        What was audited: hash, population, adjacency, design, dataset_size, seed; the kind of challenge
        points unless they are random.
    attack
        The attack: target_alpha, statistic, attack, and any metadata of the attack itself.
    models, failures
        Numbers of models trained, reused and failed; the failures, each as plain values.
    warnings
        Warnings from the attack, and problems with the challenge points.
    curves
        Error counts over target rates: an ``ErrorCurves`` from `attacks`, opaque to inference.
    claim_source
        ``algorithm`` if the claim is made by the algorithm itself.
    variant, siblings
        Which of several variants made from the same models, and the others.
    stopping
        Why an audit with early stopping ended, as plain values.
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
    """Shared by all results: what the data prove, contradictions, and the verdict."""

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
        """The source of the claim that is judged."""
        return self.question.claim_source or self.origin.claim_source

    @property
    @abstractmethod
    def proven_from(self) -> Scores | AttackCounts | None:
        """The data from which a proof can be made; None if there are none."""

    @abstractmethod
    def _misfit(self, leaning: Outcome) -> Iterator[str]:
        """Reasons why the data do not fit the model, or the model cannot answer."""

    @abstractmethod
    def _caveats(self, claim: float) -> Iterator[str]:
        """Further limitations of a PASS."""

    @abstractmethod
    def _above_with_other_priors(self, claim: float) -> Iterator[tuple[float, float]]:
        """Prior scale factors, and the probability that epsilon exceeds the claim."""

    def constant_objections(self, leaning: Outcome) -> tuple[str, ...]:
        """Objections to a side that depend neither on the claim nor on the prior."""
        return tuple(self._misfit(leaning))

    def caveats_at(self, claim: float) -> tuple[str, ...]:
        """Further limitations of a PASS of this claim."""
        return tuple(self._caveats(claim))

    @cached_property
    def proof(self) -> Proof | None:
        """What the attacks prove, whatever the model; None if nothing can be proven."""
        return self.proof_at(self.posterior.model.delta, self.question.claim)

    def proof_at(self, delta: float, claim: float | None) -> Proof | None:
        """The proof at any delta."""
        data = self.proven_from
        if data is None:
            return None
        # Canaries not included by fair coins still have a posterior.
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
        """A warning if the posterior lies below what the same data prove; None if it does not."""
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
            f"{best.epsilon:.2f}, which the same data refute ({best.label}, error "
            f"{self.question.error:g})."
        )

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the claim; None without a claim."""
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
        """Objections to the side that the posterior takes."""
        found = [*self._misfit(leaning), *bound_reasons(self.bounds, claim, leaning)]
        if self.contradiction is not None:
            found.append(REFUTED_POSTERIOR)
        yield from found
        if not found:  # other priors need one more estimate each
            others = self._above_with_other_priors(claim)
            yield from prior_reasons(others, leaning, self.question.thresholds)

    def _report_progress(self, line: str) -> None:
        if self.report is not None:
            self.report(line)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(JudgedResult):
    """A posterior with everything a reader or reviewer would ask about it.

    Parameters
    ----------
    posterior, question
        The posterior, with counts, model and provenance; and the question put to it.
    origin
        How the counts were produced.
    over_delta
        The same counts at other deltas, if a curve was requested.
    scores
        Scores of the same models, if known: proofs are then made from scores, not counts.
    report
        Called with a line of text whenever a slow part is computed.
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
        """The observed counts."""
        return self.posterior.counts

    @property
    def model(self) -> AuditModel:
        """The model."""
        return self.posterior.model

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached its accuracy, also over delta if there is a curve."""
        over = self.over_delta is None or self.over_delta.curve.trustworthy
        return bool(self.posterior.trustworthy and over)

    # --- checks, each computed once -----------------------------------------------------------

    @cached_property
    def independent_counts(self) -> ExtremeCounts | None:
        """The result for independent counts, if the one found should not be used alone."""
        # A contradiction under independence must not prevent the result.
        with suppress(ContradictionError):
            return check_extreme_counts(self.posterior, level=self.level, report=self.report)
        return None

    @cached_property
    def outlook(self) -> Outlook | None:
        """How much more data would settle the verdict; None unless it is inconclusive."""
        verdict = self.verdict
        if verdict is None or verdict.grounds is not Grounds.OPEN:
            return None
        if verdict.leaning is not Outcome.INCONCLUSIVE:
            return None  # more data of the same kind would not remove the objections
        if not verdict.trustworthy or not self._estimated:
            return None
        return look_ahead(self.posterior, verdict, report=self.report)

    @cached_property
    def other_priors(self) -> tuple[AlternativePrior, ...]:
        """Epsilon under other priors, leaving out those that cannot be estimated."""
        found: list[AlternativePrior] = []
        self._report_progress("other priors")
        for factor in FACTORS if self._estimated else ():
            # The exact engine refuses priors that extend beyond epsilon = 600.
            with suppress(ContradictionError, InputError):
                found += prior_sensitivity(
                    self.posterior, factors=(factor,), on_message=self.report
                )
        return tuple(found)

    @cached_property
    def influence(self) -> Influence | None:
        """Epsilon without each base; None if epsilon is fixed."""
        if not self._estimated:
            return None
        self._report_progress("leaving out one base at a time")
        # A contradiction when one base is left out must not prevent the rest of the report.
        with suppress(ContradictionError):
            return leave_one_out(self.posterior, level=self.level, on_message=self.report)
        return None

    @cached_property
    def predictive(self) -> PredictiveCheck:
        """The predictive check: whether the model generates such counts."""
        self._report_progress("predictive check")
        rng = np.random.default_rng(CHECK_SEED)
        return check_predictions(self.posterior, rng=rng, level=self.level)

    @cached_property
    def models(self) -> ModelComparison | None:
        """The counts under alternative models; None if not computed."""
        extent = self.question.other_models
        if extent is OtherModels.NONE or (extent is OtherModels.QUICK and not self._estimated):
            return None
        self._report_progress("alternative models")
        if extent is OtherModels.FULL:
            return compare_models(self.posterior, on_message=self.report)
        wanted = {
            label: model
            for label, model in alternatives(self.model, self.counts).items()
            if is_quick(self.counts, model) and not self._members_scatter(model)
        }
        if not wanted or not is_quick(self.counts, self.model):
            return None
        with suppress(ContradictionError, InputError):
            return compare_models(self.posterior, wanted, quick=True, on_message=self.report)
        return None

    @cached_property
    def data_warnings(self) -> tuple[str, ...]:
        """Problems that the engine cannot detect, a sentence or two each."""
        independent = self.independent_counts
        found = (independent and independent.sentence, repeated_bases(self.counts))
        return tuple(sentence for sentence in found if sentence)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to know before quoting the result, the most serious first."""
        found = []
        if not self.posterior.trustworthy:
            found.append(f"Do not quote this result: {self.posterior.engine_description}.")
        found += self.data_warnings
        found += [f"{text[0].upper()}{text[1:]}" for text in self.origin.warnings if text]
        failed = self.origin.models.get("failed", 0)
        if failed:
            found.append(
                f"{failed:,} of the models failed and {'is' if failed == 1 else 'are'} missing from "
                "the counts; if failures depend on the challenge point, the estimate is biased."
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
                f"Counts like these are unlikely under the model: {listed}. It assumes that the rates "
                "of attacks may be anywhere in the region allowed by epsilon and the strength; if they "
                "are all close to one point, the interval may miss the true epsilon on either side."
            )
        return tuple(found)

    @property
    def proven_from(self) -> Scores | AttackCounts | None:
        """Scores of the models, otherwise counts; None if decisions depend on each other."""
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
                f"the attacks may have been weak (strength {low:.2f} to {high:.2f}, where 1 is the best "
                "possible)"
            )

    def _above_with_other_priors(self, claim: float) -> Iterator[tuple[float, float]]:
        for other in self.other_priors:
            yield other.factor, other.epsilon.probability_above(claim)

    @property
    def _estimated(self) -> bool:
        return "epsilon" in self.posterior.parameters

    def _members_scatter(self, model: AuditModel) -> bool:
        """Whether members scatter, which is too slow in the exact engine for a report."""
        return model.scatters(self.counts) and model.dependence.scatter is not None
