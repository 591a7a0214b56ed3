"""``prove``: epsilon is at least L, and a claim below it is refuted, with a stated error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs import claim_tests as kinds
from epsilometer.proofs.claim_tests import ClaimTest
from epsilometer.proofs.refuting import LARGEST, ROUNDING, refuted_up_to
from epsilometer.proofs.shared_models import SharedModels

ERROR = 0.05
"""Probability that a proof errs, unless given."""

LARGEST_LOG = 600.0
"""Of an e-value: beyond it nobody cares, and means of several stay finite."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What attacks prove about epsilon.

    Attributes
    ----------
    at_least
        Epsilon at ``delta`` is at least this, except with probability ``error``; 0: nothing is proven.
    delta, error
        As they were asked for.
    claim, e_value, refuted
        A claimed epsilon and the evidence against it: the capital of somebody who began with 1 and bet
        against the claim.  A true claim lets it reach 1 / error with probability at most ``error``:
        then it is refuted.  None and False without a claim.
    any_time
        Whether this holds however often somebody looked and whenever the audit stopped.
    assumes
        What must hold for it.
    most_provable
        What the best of all outcomes would have proven with as many canaries, or with these shared
        models; infinite for models of their own.
    """

    at_least: float
    delta: float
    error: float
    any_time: bool
    assumes: str
    most_provable: float = math.inf
    claim: float | None = None
    e_value: float | None = None
    refuted: bool = False

    @property
    def hopeless(self) -> str | None:
        """Why no outcome could have proven anything; None if some could."""
        if self.most_provable > 0:
            return None
        return (
            "not even members that are all told apart would prove anything from so few at this delta; "
            "more models or canaries, or a smaller delta, may"
        )

    def refutes(self, epsilon: float) -> bool:
        """Whether an epsilon lies below what is proven."""
        return epsilon < self.at_least

    @property
    def refutation(self) -> str:
        """How it refutes the claim, without the full stop."""
        found = f"the attacks prove that epsilon is at least {rounded_down(self.at_least)}"
        if self.claim is not None and not self.refutes(self.claim):
            # E-values need not fall with epsilon where delta is large.
            found = f"the attacks refute the claim (e-value {self.e_value:.3g})"
        return (
            f"{found} at delta = {self.delta:g}, with a probability of error of at most "
            f"{100 * self.error:g} %"
        )

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        found: dict[str, Any] = {
            "at_least": self.at_least,
            "delta": self.delta,
            "error": self.error,
            "any_time": self.any_time,
            "assumes": self.assumes,
        }
        if math.isfinite(self.most_provable):
            found["most_provable"] = self.most_provable
        if self.claim is not None:
            found |= {"claim": self.claim, "refuted": self.refuted, "e_value": self.e_value}
        return found


@singledispatch
def claim_test_of(data: object, *, independent: bool = True) -> ClaimTest:
    """The evidence in scores or counts."""
    raise InputError(f"expected scores or error counts to prove something from, got {data!r}.")


@claim_test_of.register
def _(data: Scores, *, independent: bool = True) -> ClaimTest:
    if data.models is not None:
        return SharedModels.of_scores(data)
    return kinds.of_scores(data, independent=independent)


@claim_test_of.register
def _(data: PoolScores, *, independent: bool = True) -> ClaimTest:
    del independent  # points share models
    return SharedModels.of_pool(data)


@claim_test_of.register
def _(data: AttackCounts, *, independent: bool = True) -> ClaimTest:
    if data.measured is not None and data.measured.cross_fed:
        raise InputError(kinds.DEPENDENT)
    return kinds.FixedCounts(counts=data, independent=independent)


def prove(
    data: Scores | AttackCounts | PoolScores,
    *,
    delta: float,
    claim: float | None = None,
    error: float = ERROR,
    independent: bool = True,
) -> Proof:
    """The largest epsilon that attacks refute, and whether they refute a claim.

    No model of the algorithm and no prior: only that the claim bounds every attack's error rates.

    Parameters
    ----------
    data
        Scores of models in the order in which they came: valid at any time.  Error counts of rules
        fixed beforehand, canaries of one run, or points that share models: valid for one look.
    delta
        In [0, 1).
    claim
        An epsilon to hold against the data, at least 0.
    error
        Probability that the proof errs, in (0, 1).
    independent
        Whether models of different bases were trained independently; without it, bases are averaged.
        Points that share models are averaged always.

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
    found = claim_test_of(data, independent=independent)
    e_value, refuted = None, False
    if claim is not None:
        logarithm = min(found.log_e_value(min(claim, LARGEST), delta, error), LARGEST_LOG)
        e_value, refuted = math.exp(logarithm), logarithm >= -math.log(error) - ROUNDING
        # Not refuted by rounding alone: who compares the two finds the same.
        e_value = max(e_value, 1 / error) if refuted else e_value
    return Proof(
        at_least=largest_refuted(found, delta, error),
        delta=delta,
        error=error,
        any_time=found.any_time,
        assumes=found.assumes,
        most_provable=found.most_provable(delta, error),
        claim=claim,
        e_value=e_value,
        refuted=refuted,
    )


def rounded_down(value: float, digits: int = 2) -> str:
    """A proven epsilon in words, never more than it is.

    Examples
    --------
    >>> rounded_down(1.0987), rounded_down(1.0987, 3)
    ('1.09', '1.098')
    """
    scale = 10**digits
    return f"{math.floor(value * scale) / scale:.{digits}f}"


def largest_refuted(evidence: ClaimTest, delta: float, error: float) -> float:
    """The epsilon up to which everything is refuted; see `refuting.py`."""
    return refuted_up_to(lambda epsilon: evidence.log_e_value(epsilon, delta, error), error)


def refuted_together(proofs: Sequence[Proof]) -> bool:
    """Whether claims at several deltas, held against the same data, are refuted as one.

    Their mean e-value decides: an average of e-values is one, however they depend on each other.
    """
    return bool(proofs) and float(np.mean([proof.e_value or 0.0 for proof in proofs])) >= max(
        1 / proof.error for proof in proofs
    )
