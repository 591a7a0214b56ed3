"""What a gate shows of a result: the estimate, the proven bound and the verdict on the claim.

Every format of this folder is a pure function of findings. How they are written is up to `cli`.
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer._text import estimate_text
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Grounds, Outcome, Verdict
from epsilometer.proofs.proof import rounded_down

NOT_CONVERGED = "NOT CONVERGED"
"""Label of a result that did not reach its accuracy and has no proven verdict."""


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
    verdict, claim_source
        The verdict, None without a claim; and who made the claim, if it was not the user.
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
    verdict: Verdict | None = None
    claim_source: str | None = None
    doubt: str | None = None
    seconds: float | None = None
    extrapolated: bool = False

    @property
    def where(self) -> str:
        """The deltas of the claim, or else the delta of the estimate."""
        deltas = [row.delta for row in self.verdict.by_delta] if self.verdict else []
        if len(deltas) > 1:
            return f"{len(deltas)} deltas from {short(min(deltas))} to {short(max(deltas))}"
        return f"delta = {short(deltas[0] if deltas else self.delta)}"

    @property
    def claimed(self) -> float | None:
        """The claimed epsilon; None if it differs between deltas, or if nothing is promised."""
        claims = {row.claim for row in self.verdict.by_delta} if self.verdict else set()
        return claims.pop() if len(claims) == 1 else None

    @property
    def above(self) -> float | None:
        """Probability that epsilon exceeds the claim; None if nothing is claimed."""
        verdict = self.verdict
        return verdict.probability_above if verdict is not None and verdict.by_delta else None

    @property
    def title(self) -> str:
        """The claim in one line; empty without one."""
        if self.verdict is None:
            return ""
        if self.verdict.outcome is Outcome.NO_PROMISE:
            return f"a finite epsilon at {self.where}"
        most = (
            "claimed epsilon" if self.claimed is None else f"epsilon at most {short(self.claimed)}"
        )
        return f"{most} at {self.where}"

    @property
    def message(self) -> str:
        """The verdict with its reasons; empty without a claim."""
        return "" if self.verdict is None else f"{self.verdict.label}: {self.verdict.meaning}."

    @property
    def proven_text(self) -> str | None:
        """The proven bound, rounded down; None if it is not above 0."""
        return rounded_down(self.proven) if self.proven is not None and self.proven > 0 else None

    @property
    def estimate_text(self) -> str:
        """The median with its interval."""
        if self.estimate is None:
            return ""
        low, median, high = self.estimate
        said = f"{estimate_text(median, low, high)[:-1]} with probability {self.level:g})"
        return f"{said}, extrapolated beyond the data" if self.extrapolated else said

    @property
    def sentence(self) -> str:
        """The result without its claim, in one sentence."""
        bound = self.proven_text
        said = f"epsilon is proven to be at least {bound}" if bound else "no epsilon is proven"
        if self.estimate is not None:
            said += f"; estimated {self.estimate_text}"
        doubt = "" if self.doubt is None else f" No estimate: {self.doubt}"
        return f"At delta = {short(self.delta)}, {said}.{doubt}"

    @property
    def converged(self) -> bool:
        """Whether the result may be quoted: what is proven or stated needs no engine."""
        known = self.verdict is not None and self.verdict.grounds in (
            Grounds.PROVEN,
            Grounds.STATED,
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
        verdict=result.verdict,
        claim_source=result.claim_source,
        seconds=posterior.provenance.seconds or None,
        extrapolated=bool(getattr(posterior, "extrapolated", False)),
    )
