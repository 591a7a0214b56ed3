"""Verdicts on a claimed epsilon: PASS, FAIL, INCONCLUSIVE or NO PROMISE, and their grounds.

A FAIL is proven, proven under a condition that it names, or marked as a judgement.  A PASS is a
judgement that survived its checks.  Training that promises nothing has nothing to judge, and is told
first.  Everything else is inconclusive, with reasons.  :func:`decide` is the only place where this is
decided.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from epsilometer import _validate
from epsilometer._display import Plotted
from epsilometer.errors import InputError


class Outcome(StrEnum):
    """The outcomes."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    #: The training's own accountant states an infinite epsilon, or none at all.
    NO_PROMISE = "NO PROMISE"


class Grounds(StrEnum):
    """What a verdict rests on."""

    #: Valid for any algorithm and any attack, with a stated error probability.
    PROVEN = "proven"
    #: Valid, with a stated error probability, if the noise of canaries is independent and normal.
    CONDITIONAL = "proven if the noise is independent"
    #: The posterior supports it, and no check contradicts it.
    JUDGED = "judged"
    #: The claim itself says so.
    STATED = "stated"
    #: Neither a proof nor a judgement.
    OPEN = "open"

    @property
    def without_engine(self) -> bool:
        """Whether it holds even if the engine did not reach its accuracy."""
        return self in (Grounds.PROVEN, Grounds.CONDITIONAL, Grounds.STATED)


#: Labels of the verdicts that a gate adds to those of the gates before, the most severe first.
#:
#: Training that promises nothing fails every gate: there is no claim that could hold.
_GATES = {
    "never": "NO PROMISE",
    "proven": "FAIL (proven)",
    "conditional": f"FAIL ({Grounds.CONDITIONAL})",
    "fail": "FAIL (judged)",
    "inconclusive": "INCONCLUSIVE",
}
#: Labels of the verdicts that fail a gate, by the name of the gate.
FAIL_ON = {gate: tuple(_GATES.values())[: n + 1] for n, gate in enumerate(_GATES)}


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Posterior probabilities at which a verdict is PASS or FAIL.

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
        """The outcome from the posterior alone, given P(epsilon > claim); thresholds included."""
        if probability_above <= self.pass_at_most:
            return Outcome.PASS
        if probability_above >= self.fail_at_least:
            return Outcome.FAIL
        return Outcome.INCONCLUSIVE


class JudgedDelta(NamedTuple):
    """The claim at one delta, and the posterior probability that epsilon exceeds it there."""

    delta: float
    claim: float
    probability_above: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict(Plotted, view="results.VERDICT"):
    """The verdict on a claim, and what it rests on.

    Attributes
    ----------
    outcome, grounds, reasons
        The outcome; whether it is proven, proven under a condition, judged, stated or open; and the
        reasons, one sentence each, without the full stop.
    claim
        The claimed epsilon, over several deltas that at the model's own delta or else at the smallest;
        infinite if nothing is promised.
    probability_above
        Posterior probability that the true epsilon exceeds the claim, over several deltas at one or more
        of them.
    prior_probability_above
        The same for ``claim`` before any data: the difference is the contribution of the attacks.
    by_delta
        The claim and the posterior probability at each delta with a claim.
    trustworthy
        Whether the engine reached its accuracy, or its inaccuracy was explicitly accepted.
    """

    outcome: Outcome
    grounds: Grounds
    reasons: tuple[str, ...]
    claim: float
    probability_above: float
    prior_probability_above: float
    thresholds: Thresholds = field(default_factory=Thresholds)
    trustworthy: bool = True
    by_delta: tuple[JudgedDelta, ...] = ()

    @property
    def label(self) -> str:
        """The outcome, with its grounds if it is proven or judged."""
        if self.grounds in (Grounds.STATED, Grounds.OPEN):
            return str(self.outcome)
        return f"{self.outcome} ({self.grounds})"

    def stops(self, fail_on: str) -> bool:
        """Whether a gate rejects this verdict."""
        return self.label in FAIL_ON[fail_on]

    @property
    def meaning(self) -> str:
        """The reasons in one sentence without the full stop."""
        return "; ".join(self.reasons)

    @property
    def leaning(self) -> Outcome:
        """The outcome from the posterior alone."""
        return self.thresholds.outcome(self.probability_above)

    @property
    def prior_alone(self) -> bool:
        """Whether the prior alone has the same verdict: then the attacks added little."""
        judged = self.grounds is Grounds.JUDGED
        return judged and self.thresholds.outcome(self.prior_probability_above) is self.outcome


#: Added to every PASS.
NO_PROOF = "this is not a proof of privacy: stronger attacks or worse records may show more"

PRIOR_ALONE = "the prior alone would have given the same verdict"

#: Returns the objections to the side that the posterior takes, one reason each.
Objections = Callable[[Outcome], Iterable[str]]


def no_promise(reason: str, thresholds: Thresholds, *, trusted: bool) -> Verdict:
    """The verdict on training that promises nothing, whatever the data say."""
    return Verdict(
        outcome=Outcome.NO_PROMISE,
        grounds=Grounds.STATED,
        reasons=(f"the training promises nothing: {reason}",),
        claim=math.inf,
        probability_above=0.0,
        prior_probability_above=0.0,
        thresholds=thresholds,
        trustworthy=trusted,
    )


def decide(
    *,
    claim: float,
    above: float,
    before: float,
    refuted: str | None,
    conditional: str | None = None,
    objections: Objections,
    caveats: Callable[[], Iterable[str]] = tuple,
    thresholds: Thresholds | None = None,
    untrusted: str | None = None,
    by_delta: tuple[JudgedDelta, ...] = (),
) -> Verdict:
    """Decide the verdict on a claim.

    Parameters
    ----------
    above, before
        Probability that epsilon exceeds the claim, after and before the data.
    refuted
        How the attacks refute the claim, if they do.
    conditional
        How they refute it if the noise of canaries is independent, if they do.
    objections
        Called with PASS or FAIL, if the posterior takes that side; returns the objections to it.
    caveats
        Further limitations of a PASS.
    untrusted
        Why the posterior cannot be relied on at all, if so: an engine that did not reach its accuracy,
        or flawed data.
    by_delta
        The claim and probability at each delta.
    """
    limits = thresholds or Thresholds()

    verdict = partial(
        Verdict,
        claim=claim,
        probability_above=above,
        prior_probability_above=before,
        thresholds=limits,
        trustworthy=untrusted is None,
        by_delta=by_delta,
    )
    undecided = partial(verdict, outcome=Outcome.INCONCLUSIVE, grounds=Grounds.OPEN)
    # A proof depends on neither the engine nor the model.
    if refuted is not None:
        return verdict(outcome=Outcome.FAIL, grounds=Grounds.PROVEN, reasons=(refuted,))
    if conditional is not None:
        return verdict(outcome=Outcome.FAIL, grounds=Grounds.CONDITIONAL, reasons=(conditional,))
    if untrusted is not None:
        return undecided(reasons=(f"{untrusted}, so the claim cannot be judged",))
    leaning = limits.outcome(above)
    if leaning is Outcome.INCONCLUSIVE:
        return undecided(reasons=("the posterior lies on both sides of the claim",))
    against = tuple(objections(leaning))
    side = "below" if leaning is Outcome.PASS else "above"
    if against:
        reason = f"the posterior lies {side} the claim, but that cannot be relied on"
        return undecided(reasons=(reason, *against))
    reason = f"the posterior lies {side} the claim, and no check contradicts it"
    also = ["no proof refutes the claim"] if leaning is Outcome.FAIL else [NO_PROOF, *caveats()]
    if limits.outcome(before) is leaning:
        also.append(PRIOR_ALONE)
    return verdict(outcome=leaning, grounds=Grounds.JUDGED, reasons=(reason, *also))
