"""What a posterior says of a claimed epsilon: PASS, FAIL or INCONCLUSIVE."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.profile.posterior import ProfilePosterior


class Outcome(StrEnum):
    """The three answers; none of them is a proof."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """How sure the posterior must be before a side is taken.

    Parameters
    ----------
    pass_at_most
        PASS if the probability that epsilon exceeds the claim is at most this.
    fail_at_least
        FAIL if it is at least this; 0 <= pass_at_most < fail_at_least <= 1.
    """

    pass_at_most: float = 0.05
    fail_at_least: float = 0.95

    def __post_init__(self) -> None:
        low = _validate.unit_interval("pass_at_most", self.pass_at_most)
        high = _validate.unit_interval("fail_at_least", self.fail_at_least)
        if not low < high:
            raise InputError(
                f"expected pass_at_most < fail_at_least, got pass_at_most={low}, "
                f"fail_at_least={high}."
            )

    def outcome(self, probability_above: float) -> Outcome:
        """The answer for a probability that epsilon exceeds the claim; ends included."""
        if probability_above <= self.pass_at_most:
            return Outcome.PASS
        if probability_above >= self.fail_at_least:
            return Outcome.FAIL
        return Outcome.INCONCLUSIVE


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer, and what it rests on.

    Attributes
    ----------
    outcome
        INCONCLUSIVE whatever the probability, if the engine did not reach its accuracy.
    claim
        The epsilon that is claimed.
    probability_above
        Posterior probability that the true epsilon exceeds the claim.
    prior_probability_above
        The same before any data: the difference is what the attacks said.
    trustworthy
        Whether the engine reached its accuracy, or that it did not was accepted.
    """

    outcome: Outcome
    claim: float
    probability_above: float
    prior_probability_above: float
    thresholds: Thresholds = field(default_factory=Thresholds)
    trustworthy: bool = True

    @property
    def meaning(self) -> str:
        """The answer in a few words, never more than it says."""
        if not self.trustworthy:
            return "the computation did not reach its accuracy, so nothing can be said of the claim"
        said = {
            Outcome.PASS: "the posterior stays below the claim",
            Outcome.FAIL: "the posterior lies above the claim",
            Outcome.INCONCLUSIVE: "the posterior lies on both sides of the claim",
        }[self.outcome]
        return f"{said}, as the prior alone did before any data" if self.prior_alone else said

    @property
    def prior_alone(self) -> bool:
        """Whether the prior would have had the same verdict: then the attacks added little."""
        settled = self.outcome is not Outcome.INCONCLUSIVE
        return settled and self.thresholds.outcome(self.prior_probability_above) is self.outcome


def judge(
    posterior: Posterior | ProfilePosterior,
    *,
    claim: float,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
) -> Verdict:
    """Hold a posterior against a claimed epsilon.

    Parameters
    ----------
    claim
        The epsilon claimed at the delta of the posterior's model, at least 0.
    thresholds
        Where sides are taken; 0.05 and 0.95 unless given.
    accept_untrusted
        Take sides even if the engine did not reach its accuracy.

    Examples
    --------
    >>> import epsilometer as em
    >>> counts = em.AttackCounts(
    ...     false_positives=[40], trials_h0=1000, false_negatives=[250], trials_h1=1000
    ... )
    >>> verdict = judge(em.estimate(counts, em.AuditModel(delta=0.01)), claim=1.0)
    >>> str(verdict.outcome), verdict.probability_above > 0.9999
    ('FAIL', True)
    """
    claim = _validate.non_negative("claim", claim)
    return verdict_of(
        posterior.probability_above("epsilon", claim),
        claim=claim,
        before=posterior.prior_probability_above(claim),
        thresholds=thresholds or Thresholds(),
        trusted=bool(posterior.trustworthy or accept_untrusted),
    )


def verdict_of(
    above: float, *, claim: float, before: float, thresholds: Thresholds, trusted: bool
) -> Verdict:
    """The verdict on a claim; epsilon exceeds it with probability ``above``, ``before`` the data."""
    return Verdict(
        outcome=thresholds.outcome(above) if trusted else Outcome.INCONCLUSIVE,
        claim=claim,
        probability_above=above,
        prior_probability_above=before,
        thresholds=thresholds,
        trustworthy=trusted,
    )
