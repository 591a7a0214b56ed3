"""What a gate shows of a result: the estimate, the proven bound and each judged claim.

Every format of this folder is a pure function of findings. How they are written is up to `cli`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epsilometer._text import estimate_text
from epsilometer.judgement.verdict import FAIL_ON, Outcome
from epsilometer.proofs.proof import rounded_down

if TYPE_CHECKING:
    from epsilometer.judgement.claimed_curve import JudgedCurve
    from epsilometer.report.views import AnyResult

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
        The claimed epsilon; None if it differs between deltas.
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
        if self.epsilon is None:
            return f"claimed epsilon at {self.at}"
        return f"epsilon at most {short(self.epsilon)} at {self.at}"

    @property
    def message(self) -> str:
        """The verdict with its reasons."""
        return f"{self.label}: {'; '.join(self.reasons)}."

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
        return self.label in FAIL_ON.get(fail_on, ())


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result.

    Attributes
    ----------
    variant
        Of an audit with several variants, the name of this one.
    at
        The delta, or the range of several deltas, in words.
    delta
        The delta; None if there are several.
    model
        ``profile`` or ``published``.
    estimate
        Lower end, median and upper end of the credible interval; None if there are several deltas.
    extrapolated
        Whether the estimate depends on error rates that no base could show.
    proven
        The proven lower bound; None if nothing could be proven.
    accepted
        Whether the engine reached its accuracy, or the user accepted that it did not.
    seconds
        Time of the estimation, without training; None if it is not known.
    extrapolated
        Whether the estimate at this delta is extrapolated beyond the data.
    """

    variant: str | None
    at: str
    delta: float | None
    model: str
    level: float
    estimate: tuple[float, float, float] | None
    proven: float | None
    accepted: bool
    claims: tuple[JudgedClaim, ...]
    seconds: float | None = None
    extrapolated: bool = False

    @property
    def proven_text(self) -> str | None:
        """The proven bound, rounded down; None if it is not above 0."""
        return rounded_down(self.proven) if self.proven is not None and self.proven > 0 else None

    @property
    def sentence(self) -> str:
        """The result without a claim, in one sentence."""
        found = self.proven_text
        parts = [f"epsilon is proven to be at least {found}" if found else "no epsilon is proven"]
        if self.estimate is not None:
            low, median, high = self.estimate
            interval = estimate_text(median, low, high)
            beyond = ", extrapolated beyond the data" if self.extrapolated else ""
            parts.append(f"estimated {interval[:-1]} with probability {self.level:g}){beyond}")
        return f"At {self.at}, {'; '.join(parts)}."

    @property
    def converged(self) -> bool:
        """Whether the result may be quoted: a proven verdict does not depend on the engine."""
        return self.accepted or any("(proven)" in each.label for each in self.claims)


def short(number: float) -> str:
    """A number as people write it: ``1e-5``, not ``1e-05``.

    Examples
    --------
    >>> short(1e-5), short(4.0), short(0.01)
    ('1e-5', '4', '0.01')
    """
    digits, e, exponent = f"{number:g}".partition("e")
    return f"{digits}e{int(exponent)}" if e else digits


def finding_of(result: AnyResult, *, accept_untrusted: bool = False) -> Finding:
    """The finding of a result, with its claims at its delta and over several deltas."""
    posterior: Any = result.posterior
    delta, level = posterior.model.delta, result.level
    low, high = posterior.credible_interval("epsilon", level)
    at = f"delta = {short(delta)}"
    claims = []
    if result.verdict is not None:
        claims.append(_claim(result.verdict, at, result.verdict.claim, result.claim_source))
    over: Any = result.over_delta
    if over is not None:
        own = hasattr(over, "grid")  # the one curve of the whole-curve model
        deltas = (over.grid if own else over.curve.deltas).tolist()
        verdict = getattr(result, "curve_verdict", None) if own else over.verdict
        if verdict is not None:
            claims.append(_claim(verdict, _range(deltas), _only(over, own), result.claim_source))
    return Finding(
        variant=result.origin.variant,
        at=at,
        delta=delta,
        model="profile" if hasattr(posterior, "scores") else "published",
        level=level,
        estimate=(float(low), float(posterior.median("epsilon")), float(high)),
        proven=None if result.proof is None else result.proof.at_least,
        accepted=bool(result.trustworthy or accept_untrusted),
        claims=tuple(claims),
        seconds=posterior.provenance.seconds or None,
        extrapolated=bool(getattr(posterior, "extrapolated", False)),
    )


def finding_of_curve(judged: JudgedCurve, *, accept_untrusted: bool = False) -> Finding:
    """The finding of a curve over several deltas, of the published model."""
    at = _range(judged.curve.deltas.tolist())
    claims = () if judged.verdict is None else (_claim(judged.verdict, at, _only(judged), None),)
    return Finding(
        variant=None,
        at=at,
        delta=None,
        model="published",
        level=judged.level,
        estimate=None,
        proven=None,
        accepted=bool(judged.curve.trustworthy or accept_untrusted),
        claims=claims,
    )


def worst_claim(findings: Sequence[Finding]) -> JudgedClaim | None:
    """The claim with the most severe verdict; None without a claim."""
    order = (*FAIL_ON["inconclusive"], "PASS (judged)")
    claims = [each for finding in findings for each in finding.claims]
    return min(claims, key=lambda each: order.index(each.label), default=None)


def _claim(verdict: Any, at: str, epsilon: float | None, source: str | None) -> JudgedClaim:
    return JudgedClaim(
        at=at,
        epsilon=epsilon,
        label=verdict.label,
        reasons=tuple(verdict.reasons),
        probability_above=getattr(verdict, "probability_above", None),
        source=source,
    )


def _range(deltas: Sequence[float]) -> str:
    return f"{len(deltas)} deltas from {short(min(deltas))} to {short(max(deltas))}"


def _only(over: Any, own: bool = False) -> float | None:
    """The claimed epsilon if it is the same at every delta."""
    found = set((over.claims if own else over.verdict.claims).tolist())
    return float(found.pop()) if len(found) == 1 else None
