"""What is said of a claimed epsilon: PASS, FAIL or INCONCLUSIVE, and on which grounds.

A FAIL is proven, or says that it is a judgement.  A PASS is a judgement that survived its checks.
Everything else is open, for reasons that are told.  :func:`decide` is the only place where that is so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from epsilometer import _validate
from epsilometer._display import Plotted
from epsilometer.errors import InputError


class Outcome(StrEnum):
    """The three answers."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class Grounds(StrEnum):
    """What an answer rests on."""

    PROVEN = "proven"
    """Valid for any algorithm and any attack, with a stated error."""
    JUDGED = "judged"
    """The posterior says so, and nothing that was checked speaks against it."""
    OPEN = "open"
    """Nothing can be said of the claim."""


FAIL_ON = {
    "proven": ("FAIL (proven)",),
    "fail": ("FAIL (proven)", "FAIL (judged)"),
    "inconclusive": ("FAIL (proven)", "FAIL (judged)", "INCONCLUSIVE"),
}
"""Labels of the verdicts at which a gate closes, by the name of the gate."""


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
        """What the posterior alone says, given P(epsilon > claim); ends included."""
        if probability_above <= self.pass_at_most:
            return Outcome.PASS
        if probability_above >= self.fail_at_least:
            return Outcome.FAIL
        return Outcome.INCONCLUSIVE


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict(Plotted, view="verdicts.VERDICT"):
    """The answer, and what it rests on.

    Attributes
    ----------
    outcome, grounds, reasons
        The answer; whether it is proven, judged or open; and why, one sentence each, without the full
        stop.
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
    grounds: Grounds
    reasons: tuple[str, ...]
    claim: float
    probability_above: float
    prior_probability_above: float
    thresholds: Thresholds = field(default_factory=Thresholds)
    trustworthy: bool = True

    @property
    def label(self) -> str:
        """The outcome with its grounds, where it takes a side."""
        if self.grounds is Grounds.OPEN:
            return str(self.outcome)
        return f"{self.outcome} ({self.grounds})"

    @property
    def meaning(self) -> str:
        """Why, in one sentence without the full stop."""
        return "; ".join(self.reasons)

    @property
    def leaning(self) -> Outcome:
        """What the posterior alone would say."""
        return self.thresholds.outcome(self.probability_above)

    @property
    def prior_alone(self) -> bool:
        """Whether the prior would have had the same verdict: then the attacks added little."""
        settled = self.grounds is Grounds.JUDGED
        return settled and self.thresholds.outcome(self.prior_probability_above) is self.outcome


NO_PROOF = "this is no proof of privacy: stronger attacks or worse records may show more"
"""What every PASS says of itself."""

Objections = Callable[[Outcome], Iterable[str]]
"""What speaks against a side that the posterior takes, one reason each."""


def decide(
    *,
    claim: float,
    above: float,
    before: float,
    refuted: str | None,
    objections: Objections,
    caveats: Callable[[], Iterable[str]] = tuple,
    thresholds: Thresholds | None = None,
    trusted: bool = True,
) -> Verdict:
    """The verdict on a claim: the only rule there is.

    Parameters
    ----------
    above, before
        Probability that epsilon exceeds the claim, after the data and before.
    refuted
        How the attacks refute the claim, if they do.
    objections
        Asked for what speaks against PASS or FAIL where the posterior takes that side.
    caveats
        What else a PASS does not say.
    trusted
        Whether the engine reached its accuracy.
    """
    limits = thresholds or Thresholds()

    def verdict(outcome: Outcome, grounds: Grounds, reasons: Sequence[str]) -> Verdict:
        return Verdict(
            outcome=outcome,
            grounds=grounds,
            reasons=tuple(reasons),
            claim=claim,
            probability_above=above,
            prior_probability_above=before,
            thresholds=limits,
            trustworthy=trusted,
        )

    if refuted is not None:
        # A proof needs neither the engine nor the model.
        return verdict(Outcome.FAIL, Grounds.PROVEN, [refuted])
    if not trusted:
        reason = "the computation did not reach its accuracy, so nothing can be said of the claim"
        return verdict(Outcome.INCONCLUSIVE, Grounds.OPEN, [reason])
    leaning = limits.outcome(above)
    if leaning is Outcome.INCONCLUSIVE:
        reason = "the posterior lies on both sides of the claim"
        return verdict(leaning, Grounds.OPEN, [reason])
    against = tuple(objections(leaning))
    side = "below" if leaning is Outcome.PASS else "above"
    if against:
        reason = f"the posterior lies {side} the claim, but that cannot be relied on"
        return verdict(Outcome.INCONCLUSIVE, Grounds.OPEN, [reason, *against])
    said = f"the posterior lies {side} the claim, and its checks do not speak against it"
    also = ["no proof refutes the claim"] if leaning is Outcome.FAIL else [NO_PROOF, *caveats()]
    if limits.outcome(before) is leaning:
        also.append("the prior alone would have said so before any data")
    return verdict(leaning, Grounds.JUDGED, [said, *also])
