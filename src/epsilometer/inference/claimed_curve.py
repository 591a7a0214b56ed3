"""Claims of epsilon over delta, as accountants make them, and what posteriors say of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _files, _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError
from epsilometer.inference.delta_curve import DeltaCurve, Rise
from epsilometer.inference.verdict import Outcome, Thresholds, Verdict, verdict_of

COLUMNS = ("delta", "epsilon")

Claim = float | Callable[[float], float]
"""One epsilon for every delta, or a function from delta to the epsilon that is claimed there."""

SEVERAL_LOOKS = (
    "Several looks are taken at the same counts, one at each delta, and one FAIL is enough: a FAIL by "
    "chance is likelier than at a single delta that was chosen beforehand."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimedCurve:
    """A claimed epsilon at each of some deltas; call it with a delta.

    Between two of them the claim is that of the smaller delta, as a mechanism with that promise keeps it
    at every larger delta; beyond the largest its claim goes on.  Below the smallest nothing is claimed.

    Parameters
    ----------
    deltas
        Distinct, each in [0, 1); sorted on construction.
    epsilons
        The claim at each, at least 0; it must not rise with delta.

    Examples
    --------
    >>> claim = ClaimedCurve(deltas=[1e-6, 1e-4], epsilons=[3.0, 2.0])
    >>> claim(1e-5), claim(0.1)
    (3.0, 2.0)
    """

    deltas: ArrayLike
    epsilons: ArrayLike

    def __post_init__(self) -> None:
        deltas = [_validate.delta(value) for value in np.asarray(self.deltas).ravel().tolist()]
        epsilons = [
            _validate.non_negative("epsilon", value)
            for value in np.asarray(self.epsilons).ravel().tolist()
        ]
        if not deltas or len(deltas) != len(epsilons):
            raise InputError(
                "expected a claimed epsilon for each of one or more deltas, got "
                f"{len(deltas)} deltas and {len(epsilons)} epsilons."
            )
        pairs = sorted(zip(deltas, epsilons, strict=True))
        for (before, more), (after, less) in pairwise(pairs):
            if before == after:
                raise InputError(f"expected distinct deltas, got delta={after} twice.")
            if less > more:
                raise InputError(
                    "expected a claim that does not rise with delta, got "
                    f"epsilon={more:g} at delta={before:g} and epsilon={less:g} at delta={after:g}."
                )
        object.__setattr__(self, "deltas", np.array([delta for delta, _ in pairs]))
        object.__setattr__(self, "epsilons", np.array([epsilon for _, epsilon in pairs]))

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
        header, rows, places = _files.table(text, COLUMNS, name=name)
        _files.check_columns(header, COLUMNS, where=f"{name} row 1")
        if not rows:
            raise InputError(f"{name}: expected at least one row, got none.")
        found: dict[str, list[float]] = {column: [] for column in COLUMNS}
        for row, place in zip(rows, places, strict=True):
            for column in COLUMNS:
                text_of = row[header.index(column)]
                try:
                    value = float(text_of)
                    if column == "delta":
                        _validate.delta(value)
                    else:
                        _validate.non_negative(column, value)
                except InputError as error:
                    raise InputError(f"{place}: {error}") from None
                except ValueError:
                    raise InputError(
                        f"{place}: expected {column} to be a number, got {_files.shown(text_of)}."
                    ) from None
                found[column].append(value)
        try:
            return cls(deltas=found["delta"], epsilons=found["epsilon"])
        except InputError as error:
            raise InputError(f"{name}: {error}") from None


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


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveVerdict:
    """What a curve says of a claim, at each delta and over all.

    Attributes
    ----------
    claims
        The claimed epsilon at each delta; infinite where nothing is claimed.
    verdicts
        The verdict at each delta, None where nothing is claimed.
    outcome
        FAIL if it is FAIL at any delta, PASS only if it is at all that have a claim.
    """

    claims: FloatArray
    verdicts: tuple[Verdict | None, ...]
    outcome: Outcome

    @property
    def sentence(self) -> str:
        """The answer and what it rests on."""
        judged = [verdict for verdict in self.verdicts if verdict is not None]
        tally = ", ".join(
            f"{outcome} at {sum(v.outcome is outcome for v in judged)}"
            for outcome in Outcome
            if any(v.outcome is outcome for v in judged)
        )
        left_out = len(self.verdicts) - len(judged)
        also = f"; nothing is claimed at {left_out} more" if left_out else ""
        return f"Of {len(judged)} deltas with a claim: {tally}{also}. {SEVERAL_LOOKS}"


def judge_curve(
    curve: DeltaCurve,
    claim: Claim,
    *,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
) -> CurveVerdict:
    """Hold the posteriors of a curve against claims.

    Parameters
    ----------
    claim
        One epsilon for every delta, or anything that is called with a delta and returns the epsilon
        claimed there: a :class:`ClaimedCurve`, ``accountant.get_epsilon`` of dp_accounting, or
        ``claimed_epsilon`` of an algorithm.  Infinite means that nothing is claimed.
    thresholds
        Where sides are taken; 0.05 and 0.95 unless given.
    accept_untrusted
        Take sides even at deltas where the engine did not reach its accuracy.

    Raises
    ------
    InputError
        If nothing is claimed at any of the curve's deltas.
    """
    thresholds = thresholds or Thresholds()
    claims = claimed_at(claim, curve.deltas)
    if not np.isfinite(claims).any():
        raise InputError(
            "expected a claim at one of the curve's deltas or more, got none; "
            f"the largest delta is {curve.deltas[-1]:g}."
        )
    above = curve.probability_above(claims)
    verdicts = tuple(
        verdict_of(
            probability,
            claim=value,
            prior=curve.model.epsilon,
            thresholds=thresholds,
            trusted=bool(met or accept_untrusted),
        )
        if math.isfinite(value)
        else None
        for value, probability, met in zip(claims.tolist(), above.tolist(), curve.met, strict=True)
    )
    outcomes = {verdict.outcome for verdict in verdicts if verdict is not None}
    outcome = Outcome.INCONCLUSIVE
    if Outcome.FAIL in outcomes:
        outcome = Outcome.FAIL
    elif outcomes == {Outcome.PASS}:
        outcome = Outcome.PASS
    return CurveVerdict(claims=claims, verdicts=verdicts, outcome=outcome)


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedCurve:
    """A curve with intervals of one level, and the verdict on a claim if there is one."""

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
    ) -> Self:
        """The curve, judged if something is claimed."""
        verdict = None
        if claim is not None:
            verdict = judge_curve(
                curve, claim, thresholds=thresholds, accept_untrusted=accept_untrusted
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

    @cached_property
    def rises(self) -> tuple[Rise, ...]:
        """Which quantiles rise with delta, worked out once."""
        return self.curve.rises
