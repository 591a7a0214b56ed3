"""The question that is put to a posterior: deltas, the claim, and how it is judged."""

import math
from dataclasses import dataclass, field
from enum import Enum

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.judgement.claims import Claim, NoPromise
from epsilometer.judgement.verdict import Thresholds
from epsilometer.proofs.proof import ERROR


class OtherModels(Enum):
    """How far to compare with alternative models."""

    NONE = "not at all"
    #: Correlated models without refinement; none if that would take minutes.
    QUICK = "in seconds"
    FULL = "all of them, at full accuracy"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a posterior.

    Attributes
    ----------
    level
        Probability of the central credible intervals, in (0, 1).
    claim, claim_source
        What somebody claims: one epsilon, at least 0; a function from delta to epsilon; or
        ``NoPromise``, which an infinite epsilon becomes.  Without a claim there is no verdict.  And
        the source of the claim: ``algorithm`` if the algorithm itself makes it.
    deltas
        Judge the claim at all of these deltas together; empty for the model's own delta alone.
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
    claim: Claim | None = None
    claim_source: str | None = None
    deltas: tuple[float, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    accept_untrusted: bool = False
    other_models: OtherModels = OtherModels.QUICK
    error: float = ERROR
    independent: bool = True

    def __post_init__(self) -> None:
        _validate.level(self.level)
        _validate.open_unit_interval("error", self.error)
        if self.deltas:
            object.__setattr__(self, "deltas", tuple(_validate.deltas(self.deltas)))
        claim = self.claim
        if claim == math.inf:
            object.__setattr__(self, "claim", NoPromise())
        elif not (claim is None or isinstance(claim, NoPromise) or callable(claim)):
            object.__setattr__(self, "claim", _validate.non_negative("claim", claim))

    def claims(self, delta: float) -> dict[float, float]:
        """The claimed epsilon by delta, where something is claimed.

        Raises
        ------
        InputError
            If a claimed curve says nothing at any of the deltas.
        """
        if self.claim is None or isinstance(self.claim, NoPromise):
            return {}
        claims, deltas = {}, self.deltas or (delta,)
        for each in deltas:
            value = float(self.claim(each) if callable(self.claim) else self.claim)
            if math.isnan(value) or value < 0:
                raise InputError(f"expected claim >= 0 at delta={each:g}, got claim={value}.")
            if math.isfinite(value):  # an infinite one says nothing there
                claims[each] = value
        if not claims:
            raise InputError(
                "expected a claim at one or more of the deltas, got none; the largest delta is "
                f"{max(deltas):g}."
            )
        return claims
