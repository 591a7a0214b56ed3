"""What a gate shows of a result: the estimate, the proven bound and each judged claim.

Every format of this folder is a pure function of findings. How they are written is up to `cli`.
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer._text import estimate_text
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import FAIL_ON, Outcome
from epsilometer.proofs.proof import rounded_down

NOT_CONVERGED = "NOT CONVERGED"
"""Label of a result that did not reach its accuracy and has no proven verdict."""


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    """A claim and its verdict.

    Attributes
    ----------
    at
        Where the claim holds, such as ``delta = 1e-5``.
    epsilon
        The claimed epsilon; None if it differs between deltas, or if nothing is promised.
    source
        Who made the claim, if it was not the user.
    """

    at: str
    epsilon: float | None
    label: str
    reasons: tuple[str, ...]
    probability_above: float | None = None
    source: str | None = None

    @property
    def title(self) -> str:
        """The claim in one line."""
        if self.promises_nothing:
            return f"a finite epsilon at {self.at}"
        if self.epsilon is None:
            return f"claimed epsilon at {self.at}"
        return f"epsilon at most {short(self.epsilon)} at {self.at}"

    @property
    def message(self) -> str:
        """The verdict with its reasons."""
        return f"{self.label}: {'; '.join(self.reasons)}."

    @property
    def promises_nothing(self) -> bool:
        """Whether the training itself states an infinite epsilon, or none."""
        return self.label == str(Outcome.NO_PROMISE)

    @property
    def failed(self) -> bool:
        """Whether the verdict is FAIL, proven or judged."""
        return self.label.startswith(str(Outcome.FAIL))

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASS."""
        return self.label.startswith(str(Outcome.PASS))

    def stops(self, fail_on: str) -> bool:
        """Whether ``--fail-on`` ends the command with exit code 3 at this verdict."""
        return self.label in FAIL_ON[fail_on]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result.

    Attributes
    ----------
    variant
        Of an audit with several variants, the name of this one.
    delta
        The delta of the estimate and of the proven bound.
    model
        ``curve`` or ``count``.
    estimate
        Lower end, median and upper end of the credible interval; None if it is not to be quoted.
    doubt
        Why the estimate is not to be quoted, if so: flawed data, or data that refute the posterior.
    proven
        The proven lower bound; None if nothing could be proven.
    accepted
        Whether the engine reached its accuracy, or the user accepted that it did not.
    claim
        The claim and its verdict; None without one.
    seconds
        Time of the estimation, without training; None if it is not known.
    extrapolated
        Whether the estimate at this delta is extrapolated beyond the data.
    """

    variant: str | None
    delta: float
    model: str
    level: float
    estimate: tuple[float, float, float] | None
    proven: float | None
    accepted: bool
    claim: JudgedClaim | None = None
    doubt: str | None = None
    seconds: float | None = None
    extrapolated: bool = False

    @property
    def at(self) -> str:
        """The delta in words."""
        return f"delta = {short(self.delta)}"

    @property
    def proven_text(self) -> str | None:
        """The proven bound, rounded down; None if it is not above 0."""
        return rounded_down(self.proven) if self.proven is not None and self.proven > 0 else None

    @property
    def sentence(self) -> str:
        """The result without a claim, in one sentence."""
        bound = self.proven_text
        parts = [f"epsilon is proven to be at least {bound}" if bound else "no epsilon is proven"]
        if self.estimate is not None:
            low, median, high = self.estimate
            interval = estimate_text(median, low, high)
            beyond = ", extrapolated beyond the data" if self.extrapolated else ""
            parts.append(f"estimated {interval[:-1]} with probability {self.level:g}){beyond}")
        doubt = "" if self.doubt is None else f" No estimate: {self.doubt}"
        return f"At {self.at}, {'; '.join(parts)}.{doubt}"

    @property
    def converged(self) -> bool:
        """Whether the result may be quoted: a verdict that is proven needs no engine."""
        known = self.claim is not None and (
            "(proven)" in self.claim.label or self.claim.promises_nothing
        )
        return self.accepted or known


def short(number: float) -> str:
    """A number as people write it: ``1e-5``, not ``1e-05``.

    Examples
    --------
    >>> short(1e-5), short(4.0), short(0.01)
    ('1e-5', '4', '0.01')
    """
    digits, e, exponent = f"{number:g}".partition("e")
    return f"{digits}e{int(exponent)}" if e else digits


def finding_of(result: Result) -> Finding:
    """The finding of a result."""
    posterior, doubt = result.posterior, next(iter(result.flaws), result.contradiction)
    low, high = posterior.credible_interval("epsilon", result.level)
    estimate = float(low), float(posterior.median("epsilon")), float(high)
    return Finding(
        variant=result.origin.variant,
        delta=result.delta,
        model=result.kind,
        level=result.level,
        estimate=estimate if doubt is None else None,
        doubt=doubt,
        proven=None if result.proof is None else result.proof.at_least,
        accepted=result.accurate or result.question.accept_untrusted,
        claim=_claim(result),
        seconds=posterior.provenance.seconds or None,
        extrapolated=bool(getattr(posterior, "extrapolated", False)),
    )


def _claim(result: Result) -> JudgedClaim | None:
    verdict = result.verdict
    if verdict is None:
        return None
    rows = verdict.by_delta
    deltas, epsilons = [row.delta for row in rows] or [result.delta], {row.claim for row in rows}
    at = f"delta = {short(deltas[0])}"
    if len(deltas) > 1:
        at = f"{len(deltas)} deltas from {short(min(deltas))} to {short(max(deltas))}"
    return JudgedClaim(
        at=at,
        epsilon=epsilons.pop() if len(epsilons) == 1 else None,
        label=verdict.label,
        reasons=verdict.reasons,
        probability_above=verdict.probability_above if rows else None,
        source=result.claim_source,
    )
