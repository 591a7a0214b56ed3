"""``prove``: a lower bound of epsilon with a stated error, and whether it refutes a claim."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._display import Plotted
from epsilometer.model.counts import AttackCounts
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs.claim_tests import claim_test_of
from epsilometer.proofs.evidence import Evidence
from epsilometer.proofs.independent_noise import CONDITION, IndependentNoiseTest
from epsilometer.proofs.refuting import (
    LARGEST_CLAIM,
    ClaimTest,
    largest_refuted,
    least_log_e_value,
    log_mean,
)

#: Default error probability of a proof.
ERROR = 0.05

#: Largest log e-value reported: larger values carry no information, and means stay finite.
LARGEST_LOG = 600.0

#: What JSON has of every proof; more if there is a claim.
ALWAYS_TOLD = ("at_least", "delta", "error", "any_time", "assumes", "most_provable")


@dataclass(frozen=True, kw_only=True, repr=False)
class Proof(Plotted, view="results.PROOF"):
    """What attacks prove about epsilon.

    Attributes
    ----------
    at_least
        Epsilon at ``delta`` is at least this, except with probability ``error``; 0 if nothing is proven.
    delta, error
        As requested.
    claim, e_value, refuted
        A claimed epsilon and the e-value against it: the capital of a bettor who started with 1 and bet
        against the claim; where an order of pairs was planned, the largest that it ever was.  If the
        claim is true, it reaches 1 / error with probability at most ``error``; if it does, the claim is
        refuted.  None and False without a claim.
    any_time
        Whether this is valid at any time: however often you check, and whenever the audit stops.
    assumes
        The assumptions.
    most_provable
        What the best possible outcome would have proven, with as many models or canaries: a bound far
        below it comes from weak attacks or little leak, one near it from a small audit.
    evidence
        Where the proof comes from: bases, thresholds, and the capital over pairs.
    conditional
        What else is proven if the noise of canaries is independent; None unless that is assumed, as for
        gradient canaries.
    """

    at_least: float
    delta: float
    error: float
    any_time: bool
    assumes: str
    most_provable: float
    claim: float | None = None
    e_value: float | None = None
    refuted: bool = False
    evidence: Evidence | None = field(default=None, compare=False)
    conditional: "ConditionalProof | None" = None

    @property
    def hopeless(self) -> str | None:
        """Why no outcome could have proven anything; None if some could."""
        if self.most_provable > 0:
            return None
        return (
            "even perfectly separated members would prove nothing with so few models or canaries at "
            "this delta; use more of them, or a smaller delta"
        )

    @property
    def source(self) -> str:
        """Where the proof comes from, or what there is against a claim that it does not refute."""
        if self.evidence is None:
            return ""
        if self.claim is None or self.refuted:
            return f"where it comes from: {self.evidence.sentence}"
        return f"against the claim: {self.evidence.sentence}; this does not refute it"

    def refutes(self, epsilon: float) -> bool:
        """Whether an epsilon is below the proven bound."""
        return epsilon < self.at_least

    @property
    def refutation(self) -> str:
        """How the claim is refuted, without a full stop."""
        if self.claim is not None and not self.refutes(self.claim):
            # E-values are not always monotone in epsilon if delta is large.
            return self._sentence(f"the attacks refute the claim (e-value {self.e_value:.3g})")
        return self.bound

    @property
    def bound(self) -> str:
        """The bound in words, without a full stop."""
        least = rounded_down(self.at_least)
        return self._sentence(f"the attacks prove that epsilon is at least {least}")

    def _sentence(self, clause: str) -> str:
        return (
            f"{clause} at delta = {self.delta:g}, with a probability of error of at most "
            f"{100 * self.error:g} %"
        )

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        claimed = () if self.claim is None else ("claim", "refuted", "e_value")
        entries = {name: getattr(self, name) for name in (*ALWAYS_TOLD, *claimed)}
        parts = {"evidence": self.evidence, "conditional": self.conditional}
        known = {name: part.described() for name, part in parts.items() if part is not None}
        return entries | known


@dataclass(frozen=True, kw_only=True, repr=False)
class ConditionalProof(Proof):
    """What is proven if the noise of canaries is independent and normal; see `independent_noise.py`.

    Attributes
    ----------
    shared_luck
        P-value of the search for luck that neighbouring canaries share; None if it was not made.
    withheld
        Why there is no such proof, without a full stop; None if there is one.
    """

    shared_luck: float | None = None
    withheld: str | None = None

    @property
    def finding(self) -> str:
        """What is proven under the condition, or why nothing is, without a full stop."""
        if self.withheld is not None:
            return f"nothing: {self.withheld}"
        least = f"epsilon is at least {rounded_down(self.at_least)}"
        return (
            f"{least if self.at_least > 0 else 'nothing'} at delta = {self.delta:g}, and neighbouring "
            f"canaries show no shared luck (p = {self.shared_luck:.2g})"
        )

    def _sentence(self, clause: str) -> str:
        return f"{super()._sentence(clause)}, if {CONDITION}"

    def described(self) -> dict[str, Any]:
        more = {"condition": CONDITION, "shared_luck_p_value": self.shared_luck}
        return super().described() | more | {"withheld": self.withheld}


def prove(
    data: Scores | AttackCounts | PoolScores,
    *,
    delta: float,
    claim: float | None = None,
    error: float = ERROR,
    independent: bool = True,
) -> Proof:
    """The largest epsilon that attacks refute, and whether they refute a claim.

    Uses no model of the algorithm and no prior: only that the claim bounds the error rates of every
    attack.

    Parameters
    ----------
    data
        Scores of models in the order in which they were trained: valid at any time.  Error counts of
        decision rules fixed in advance, canaries of one run, or points that share models: valid for one
        planned analysis.
    delta
        In [0, 1).
    claim
        A claimed epsilon to test, at least 0.
    error
        Error probability of the proof, in (0, 1).
    independent
        Whether models of different bases were trained independently; if not, bases are averaged.  Points
        that share models are always averaged.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> scores = Scores(without=[rng.normal(size=500)], with_point=[rng.normal(size=500) + 2])
    >>> proof = prove(scores, delta=1e-5, claim=1.0)
    >>> proof.refuted, proof.any_time, 1.5 < proof.at_least < 3
    (True, True, True)
    """
    delta = _validate.delta(delta)
    error = _validate.open_unit_interval("error", error)
    if claim is not None:
        claim = _validate.non_negative("claim", claim)
    asked = (delta, claim, error)
    found = _tested(claim_test_of(data, independent=independent), *asked)
    if isinstance(data, Scores) and data.independent_noise:
        test = IndependentNoiseTest(scores=data, independent=independent)
        why, luck = test.withheld(delta), test.searched
        known = ConditionalProof(**_tested(test, *asked), withheld=why, shared_luck=luck)
        found["conditional"] = known
    return Proof(**found)


def _tested(test: ClaimTest, delta: float, claim: float | None, error: float) -> dict[str, Any]:
    """The fields of a proof by a test."""
    e_value, refuted = None, False
    if claim is not None:
        known = test.log_e_value(claim, delta, error) if claim <= LARGEST_CLAIM else -math.inf
        logarithm = min(known, LARGEST_LOG)
        e_value, refuted = math.exp(logarithm), logarithm >= least_log_e_value(error)
        # Consistent with `refuted`, despite rounding.
        e_value = max(e_value, 1 / error) if refuted else e_value
    at_least = largest_refuted(test, delta, error)
    at = at_least if claim is None else claim
    return {
        "at_least": at_least,
        "delta": delta,
        "error": error,
        "any_time": test.any_time,
        "assumes": test.assumes,
        "most_provable": test.most_provable(delta, error),
        "claim": claim,
        "e_value": e_value,
        "refuted": refuted,
        "evidence": test.evidence(min(at, LARGEST_CLAIM), delta, error),
    }


def rounded_down(value: float, digits: int = 2) -> str:
    """A proven epsilon as text, rounded down.

    Examples
    --------
    >>> rounded_down(1.0987), rounded_down(1.0987, 3)
    ('1.09', '1.098')
    """
    scale = 10**digits
    return f"{math.floor(value * scale) / scale:.{digits}f}"


def refuted_together(proofs: Sequence[Proof]) -> bool:
    """Whether claims at several deltas, tested on the same data, are refuted together.

    Their mean e-value decides: an average of e-values is an e-value, however they depend on each other.
    In a planned order capitals are averaged after every pair, and the largest average counts.
    """
    if not proofs:
        return False
    known = [proof.evidence for proof in proofs]
    paths = [evidence.path for evidence in known if evidence is not None and evidence.ordered]
    if len(paths) == len(proofs):
        most = log_mean(paths).max(initial=-np.inf)
    else:
        values = np.array([proof.e_value or 0.0 for proof in proofs])
        most = np.log(max(values.mean(), 1e-300))
    return bool(most >= least_log_e_value(min(proof.error for proof in proofs)))
