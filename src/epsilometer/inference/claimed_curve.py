"""Claims of epsilon over delta, as made by accountants, and verdicts on them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _files, _validate
from epsilometer._arrays import FloatArray
from epsilometer._display import Plotted
from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference.checks.comparison import CHECK_SEED
from epsilometer.inference.checks.predictive import PredictiveCheck, check_predictions
from epsilometer.inference.checks.sensitivity import FACTORS, prior_sensitivity
from epsilometer.inference.delta_curve import DeltaCurve, checked_deltas
from epsilometer.inference.exact.engine import estimate_exact
from epsilometer.inference.objections import (
    CONTRADICTED,
    REFUTED_POSTERIOR,
    bound_reasons,
    misfit_reasons,
    prior_reasons,
    valid_bounds,
)
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.verdict import Grounds, Outcome, Thresholds, Verdict, decide
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import ERROR, Proof, prove, refuted_together

COLUMNS = ("delta", "epsilon")

Claim = float | Callable[[float], float]
"""One epsilon for every delta, or a function from delta to the epsilon claimed there."""

SEVERAL_DELTAS = (
    "The same counts are tested at several deltas, and one FAIL is enough: a FAIL by chance is likelier "
    "than at a single delta that was chosen beforehand."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimedCurve:
    """A claimed epsilon at each of some deltas; call it with a delta.

    Between two deltas the claim is that of the smaller one, since a mechanism that satisfies it does so
    at every larger delta; beyond the largest delta its claim continues to hold.  Below the smallest
    delta nothing is claimed.

    Parameters
    ----------
    deltas
        Distinct, each in [0, 1); sorted on construction.
    epsilons
        The claim at each delta, at least 0; it must not increase with delta.

    Examples
    --------
    >>> claim = ClaimedCurve(deltas=[1e-6, 1e-4], epsilons=[3.0, 2.0])
    >>> claim(1e-5), claim(0.1)
    (3.0, 2.0)
    """

    deltas: ArrayLike
    epsilons: ArrayLike

    def __post_init__(self) -> None:
        given, claims = np.ravel(self.deltas), np.ravel(self.epsilons)
        if not len(given) or len(given) != len(claims):
            raise InputError(
                "expected a claimed epsilon for each of one or more deltas, got "
                f"{len(given)} deltas and {len(claims)} epsilons."
            )
        deltas = checked_deltas(given)
        numbers = [_validate.non_negative("epsilon", value) for value in claims.tolist()]
        epsilons = np.array(numbers)[np.argsort(given)]
        rising = np.flatnonzero(np.diff(epsilons) > 0)
        if len(rising):
            place = rising[0]
            raise InputError(
                "expected a claim that does not increase with delta, got "
                f"epsilon={epsilons[place]:g} at delta={deltas[place]:g} and "
                f"epsilon={epsilons[place + 1]:g} at delta={deltas[place + 1]:g}."
            )
        object.__setattr__(self, "deltas", deltas)
        object.__setattr__(self, "epsilons", epsilons)

    def __call__(self, delta: float) -> float:
        """The epsilon claimed at a delta; infinite below the smallest, where nothing is claimed."""
        deltas, epsilons = np.asarray(self.deltas), np.asarray(self.epsilons)
        place = int(np.searchsorted(deltas, _validate.delta(delta), side="right")) - 1
        return float(epsilons[place]) if place >= 0 else math.inf

    @classmethod
    def read_csv(cls, source: str | PathLike[str]) -> ClaimedCurve:
        """Read a CSV file with the columns delta and epsilon, in any order of rows."""
        return cls.parse_csv(_files.load(source), name=Path(source).name)

    @classmethod
    def parse_csv(cls, text: str, *, name: str) -> ClaimedCurve:
        """Read CSV text; errors name the file and the row."""
        pairs = []
        for record, place in _files.records(text, COLUMNS, name=name):
            delta, epsilon = (_number(record[column], column, place) for column in COLUMNS)
            try:
                pairs.append((_validate.delta(delta), _validate.non_negative("epsilon", epsilon)))
            except InputError as error:
                raise InputError(f"{place}: {error}") from None
        if not pairs:
            raise InputError(f"{name}: expected at least one row, got none.")
        try:
            return cls(deltas=[delta for delta, _ in pairs], epsilons=[claim for _, claim in pairs])
        except InputError as error:
            raise InputError(f"{name}: {error}") from None


def _number(text: str, column: str, place: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"{place}: expected {column} to be a number, got {_files.shown(text)}."
        ) from None


def claimed_at(claim: Claim, deltas: FloatArray) -> FloatArray:
    """The claimed epsilon at each delta, infinite where nothing is claimed."""
    if not callable(claim):
        return np.full(len(deltas), _validate.non_negative("claim", claim))
    found = []
    for delta in deltas.tolist():
        value = float(claim(delta))
        if math.isnan(value) or value < 0:
            raise InputError(f"expected claim >= 0 at delta={delta:g}, got claim={value}.")
        found.append(value)
    return np.array(found)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CurveVerdict(Plotted, view="verdicts.CURVE"):
    """The verdict on a claim, at each delta and overall.

    Attributes
    ----------
    deltas, claims
        The deltas of the curve, and the claimed epsilon at each; infinite where nothing is claimed.
    verdicts
        The verdict at each delta, None where nothing is claimed.
    outcome, grounds
        FAIL if it is FAIL at any delta, PASS only if it is PASS at all deltas with a claim; proven only
        if the claims at all deltas together are refuted.
    """

    deltas: FloatArray
    claims: FloatArray
    verdicts: tuple[Verdict | None, ...]
    outcome: Outcome
    grounds: Grounds

    @property
    def label(self) -> str:
        """The outcome with its grounds, unless it is inconclusive."""
        if self.grounds is Grounds.OPEN:
            return str(self.outcome)
        return f"{self.outcome} ({self.grounds})"

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons, without duplicates."""
        decisive = [
            each for each in self.verdicts if each is not None and each.outcome is self.outcome
        ]
        return tuple(dict.fromkeys(reason for each in decisive for reason in each.reasons))

    @property
    def sentence(self) -> str:
        """The outcome and its basis, in a sentence."""
        judged = Counter(verdict.outcome for verdict in self.verdicts if verdict is not None)
        tally = ", ".join(f"{each} at {judged[each]}" for each in Outcome if each in judged)
        left_out = len(self.verdicts) - judged.total()
        also = f"; no claim at {left_out} more" if left_out else ""
        return f"Of {judged.total()} deltas with a claim: {tally}{also}. {SEVERAL_DELTAS}"


def judge_curve(
    curve: DeltaCurve,
    claim: Claim,
    *,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
    error: float = ERROR,
    scores: Scores | None = None,
) -> CurveVerdict:
    """Judge claims by the posteriors of a curve.

    Parameters
    ----------
    claim
        One epsilon for every delta, or any callable that takes a delta and returns the epsilon claimed
        there: a :class:`ClaimedCurve`, ``accountant.get_epsilon`` of dp_accounting, or
        ``claimed_epsilon`` of an algorithm.  Infinite means that nothing is claimed.
    thresholds
        Posterior probabilities at which to PASS or FAIL.  Default: 0.05 and 0.95.
    accept_untrusted
        Also PASS or FAIL at deltas where the engine did not reach its accuracy.
    error
        Error probability of a proof.
    scores
        Scores of the models that were counted, if known: proofs are then made from them.

    Raises
    ------
    InputError
        If nothing is claimed at any of the curve's deltas.
    """
    thresholds = thresholds or Thresholds()
    claims = claimed_at(claim, curve.deltas)
    if not np.isfinite(claims).any():
        raise InputError(
            "expected a claim at one or more of the curve's deltas, got none; "
            f"the largest delta is {curve.deltas[-1]:g}."
        )
    claimed = {
        delta: value
        for delta, value in zip(curve.deltas.tolist(), claims.tolist(), strict=True)
        if math.isfinite(value)
    }
    checks = _Checks(
        curve=curve, claimed=claimed, thresholds=thresholds, error=error, scores=scores
    )
    above = curve.probability_above(claims)
    verdicts = tuple(
        checks.verdict(delta, probability, trusted=bool(met or accept_untrusted))
        if delta in claimed
        else None
        for delta, probability, met in zip(
            curve.deltas.tolist(), above.tolist(), curve.met, strict=True
        )
    )
    outcomes = {verdict.outcome for verdict in verdicts if verdict is not None}
    outcome, grounds = Outcome.INCONCLUSIVE, Grounds.OPEN
    if outcomes == {Outcome.PASS}:
        outcome, grounds = Outcome.PASS, Grounds.JUDGED
    if Outcome.FAIL in outcomes:
        outcome, grounds = Outcome.FAIL, Grounds.PROVEN if checks.refuted else Grounds.JUDGED
    return CurveVerdict(
        deltas=curve.deltas, claims=claims, verdicts=verdicts, outcome=outcome, grounds=grounds
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Checks:
    """The basis of the verdicts at all deltas: proofs, and checked posteriors."""

    curve: DeltaCurve
    claimed: dict[float, float]
    thresholds: Thresholds
    error: float
    scores: Scores | None = None

    @cached_property
    def _data(self) -> Scores | AttackCounts | None:
        """Data for valid bounds; None if decisions depend on each other."""
        if self.scores is not None:
            return self.scores
        measured = self.curve.counts.measured
        shared = measured is not None and measured.cross_fed
        independent = self.curve.model.likelihood.independent and not shared
        return self.curve.counts if independent else None

    @cached_property
    def _proofs(self) -> dict[float, Proof]:
        """The proof at each delta; none if decisions depend on each other."""
        found = {}
        if self._data is not None:
            with suppress(InputError):  # scores that prove nothing
                for delta, claim in self.claimed.items():
                    found[delta] = prove(self._data, delta=delta, claim=claim, error=self.error)
        return found

    @cached_property
    def refuted(self) -> bool:
        """Whether the claims at all deltas are refuted jointly: the same counts are tested at each."""
        return refuted_together(list(self._proofs.values()))

    def verdict(self, delta: float, above: float, *, trusted: bool) -> Verdict:
        """The verdict at one delta."""
        claim, proof = self.claimed[delta], self._proofs.get(delta)
        refuted = self.refuted and proof is not None and proof.refuted
        return decide(
            claim=claim,
            above=above,
            before=self.curve.model.epsilon.probability_above(claim),
            refuted=proof.refutation if refuted and proof is not None else None,
            objections=lambda leaning: self._objections(delta, claim, leaning),
            thresholds=self.thresholds,
            trusted=trusted,
        )

    def _objections(self, delta: float, claim: float, leaning: Outcome) -> Iterator[str]:
        found = list(misfit_reasons(self._predictive))
        if self._data is not None:
            bounds = valid_bounds(self._data, delta, self.error)
            found += bound_reasons(bounds, claim, leaning)
        proof = self._proofs.get(delta)
        if proof is not None and leaning is Outcome.PASS:
            below = 1 - self.curve.at(delta).probability_above(proof.at_least)
            if proof.at_least > 0 and below > CONTRADICTED:
                found.append(REFUTED_POSTERIOR)
        yield from found
        if not found:
            yield from prior_reasons(self._others(delta, claim), leaning, self.thresholds)

    def _posterior(self, delta: float) -> Posterior:
        return estimate_exact(self.curve.counts, replace(self.curve.model, delta=delta))

    @cached_property
    def _predictive(self) -> PredictiveCheck:
        """At the smallest delta with a claim; it hardly depends on delta."""
        posterior = self._posterior(min(self.claimed))
        return check_predictions(posterior, rng=np.random.default_rng(CHECK_SEED))

    def _others(self, delta: float, claim: float) -> Iterator[tuple[float, float]]:
        """For other priors at that delta: scale factor, and probability above the claim."""
        posterior = self._posterior(delta)
        for factor in FACTORS:
            with suppress(ContradictionError, InputError):
                for other in prior_sensitivity(posterior, factors=(factor,)):
                    yield other.factor, other.epsilon.probability_above(claim)


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedCurve:
    """A curve with credible intervals, and the verdict on a claim if there is one."""

    curve: DeltaCurve
    level: float
    verdict: CurveVerdict | None = None

    @classmethod
    def of(
        cls,
        curve: DeltaCurve,
        *,
        level: float = 0.9,
        claim: Claim | None = None,
        thresholds: Thresholds | None = None,
        accept_untrusted: bool = False,
        error: float = ERROR,
        scores: Scores | None = None,
    ) -> Self:
        """The curve, judged if there is a claim."""
        verdict = None
        if claim is not None:
            verdict = judge_curve(
                curve,
                claim,
                thresholds=thresholds,
                accept_untrusted=accept_untrusted,
                error=error,
                scores=scores,
            )
        return cls(curve=curve, level=_validate.level(level), verdict=verdict)

    def verdict_at(self, delta: float) -> Verdict | None:
        """The verdict at one of the deltas; None where nothing is claimed."""
        if self.verdict is None:
            return None
        place = [point.delta for point in self.curve.points].index(delta)
        return self.verdict.verdicts[place]

    @cached_property
    def quantiles(self) -> FloatArray:
        """Lower end, median and upper end at each delta, shape (3, delta)."""
        return self.curve.quantile([0.5 - self.level / 2, 0.5, 0.5 + self.level / 2])
