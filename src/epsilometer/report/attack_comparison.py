"""Every attack on the same models: how well each tells members, and what epsilon each proves and shows.

And where the gap to a claim comes from: from the estimator, the attack or the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_attacks import PoolAttack, cross_fitted_scores, held_out_scores
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.result import AttackResult
from epsilometer.errors import InputError
from epsilometer.inference.profile.engine import ProfileSettings
from epsilometer.inference.profile.posterior import interval_of
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.profile import ProfileModel
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import ERROR, prove

RATES = (0.001, 0.01)
"""False-positive rates at which the field compares attacks."""

SMALLEST_RATE, CURVE_POINTS = 1e-5, 120
"""Of the curves that are drawn."""

JUDGED = "judged"

SAME_ORDER = (
    "Rules with the same statistic order the models of a base alike, so they prove and show the same; "
    "their curves differ in how they compare bases. The curves are of cross-fed p-values."
)

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Roc:
    """How well scores tell members from others, over all models and points.

    Attributes
    ----------
    auc
        Area under the curve; ties count half.
    false, true
        Rates of a curve at thresholds that few others pass: true positives at no more false ones.
    others
        How many scores are of others, which limits how small a rate can be told.
    """

    auc: float
    false: FloatArray
    true: FloatArray
    others: int

    def at(self, rate: float) -> float:
        """True-positive rate where at most that share of others is called a member; NaN if too few."""
        if rate * self.others < 1:
            return math.nan
        return float(self.true[np.searchsorted(self.false, rate, side="right") - 1])


def roc_of(without: FloatArray, with_point: FloatArray) -> Roc:
    """The curve of scores of others and of members.

    Examples
    --------
    >>> curve = roc_of(np.arange(1000.0), np.arange(1000.0) + 500)
    >>> round(curve.auc, 3), curve.at(0.01)
    (0.875, 0.51)
    """
    others, members = np.sort(without), np.sort(with_point)
    low = np.searchsorted(others, members, side="left").mean()
    high = np.searchsorted(others, members, side="right").mean()
    least = max(SMALLEST_RATE, 1 / len(others))
    rates = np.unique([*np.geomspace(least, 1, CURVE_POINTS), *(r for r in RATES if r >= least)])
    allowed = np.minimum(np.floor(rates * len(others) + 1e-9).astype(np.int64), len(others))
    # Above the highest score that would be one false positive too many.
    limits = np.append(others, np.inf)[::-1][np.minimum(allowed + 1, len(others))]
    true = (len(members) - np.searchsorted(members, limits, side="right")) / len(members)
    true = np.where(allowed >= len(others), 1.0, true)
    return Roc(
        auc=float((low + high) / (2 * len(others))), false=rates, true=true, others=len(others)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackRow:
    """One attack on one set of points.

    Attributes
    ----------
    attack, points
        What is attacked, and how.
    roc
        Of all models and points, each model judged by what was learnt from others.
    proven
        Epsilon that the attack proves, except with the stated error.
    shown
        Low end, median and high end of the epsilon of the point that leaks most, as this attack sees it.
    """

    attack: str
    points: str
    roc: Roc
    proven: float
    shown: tuple[float, float, float]

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        rates = {f"true_positive_rate_at_{rate:g}": _plain(self.roc.at(rate)) for rate in RATES}
        return {
            "attack": self.attack,
            "points": self.points,
            "auc": self.roc.auc,
            **rates,
            "proven": self.proven,
            "shown": dict(zip(("low", "median", "high"), self.shown, strict=True)),
        }


@dataclass(frozen=True, kw_only=True)
class Gap:
    """What lies between a claim and what is proven, part by part; each is at least 0.

    ``estimator``: what these scores show but do not prove.  ``attack``: what the best attack here shows
    beyond the audit's.  ``points``: what the points that leak most show beyond those judged.
    ``unexplained``: what is left to the claim, which may be slack of the claim, attacks nobody has, or
    points that are not in the data.
    """

    claim: float
    proven: float
    estimator: float
    attack: float
    points: float
    unexplained: float

    def described(self) -> dict[str, float]:
        """As plain values for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackComparison:
    """Attacks on the same models, the best first.

    Attributes
    ----------
    rows
        Every attack on the points that the audit judges, the one that proves most first.
    point_sets
        The best attack on each set of points.
    skipped
        Attacks that cannot be made here, and why.
    """

    source: str
    delta: float
    error: float
    level: float
    rows: tuple[AttackRow, ...]
    point_sets: tuple[AttackRow, ...]
    skipped: tuple[tuple[str, str], ...]
    gap: Gap | None
    notes: tuple[str, ...] = ()

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "source": self.source,
            "delta": self.delta,
            "error": self.error,
            "level": self.level,
            "attacks": [row.described() for row in self.rows],
            "points": [row.described() for row in self.point_sets],
            "skipped": [{"attack": name, "reason": reason} for name, reason in self.skipped],
            "gap": None if self.gap is None else self.gap.described(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Judge:
    """What every attack is asked: epsilon at which delta, with which error and level."""

    delta: float
    error: float = ERROR
    level: float = 0.9
    independent: bool = True
    """Whether bases of many models have models of their own."""
    report: Report | None = None

    def proven(self, scores: Scores | PoolScores) -> float:
        """The epsilon that scores prove."""
        found = prove(scores, delta=self.delta, error=self.error, independent=self.independent)
        return found.at_least

    def shown(self, scores: Scores) -> tuple[float, float, float]:
        """The epsilon of the worst base, as the whole-curve model sees it."""
        # One coarse level: rows are set side by side, no verdict hangs on their last digits.
        posterior = ProfileSettings().estimate_quickly(scores, ProfileModel(delta=self.delta))
        low, high = (float(end) for end in interval_of(posterior.shown, self.level))
        return low, float(posterior.shown.quantile(0.5)), high

    def say(self, text: str) -> None:
        """Tell what is being done."""
        if self.report is not None:
            self.report(text)


def compare_pool_attacks(
    losses: PoolLosses,
    attacks: Mapping[str, PoolAttack],
    *,
    teachers: IntArray,
    own: str,
    points: Mapping[str, IntArray],
    judge: Judge,
    source: str,
    claim: float | None = None,
) -> AttackComparison:
    """Attack a pool in every way.

    Parameters
    ----------
    attacks
        By name; those that cannot read these losses, or lack teachers, are skipped with a reason.
    teachers
        The models that teach; the others are judged.
    own
        The name of the audit's own attack; without it there is no gap to tell.
    points
        Sets of points by name; the first is the one that the audit judges.
    """
    skipped, rows, curves = [], [], {}
    first, *_ = points
    for name, attack in attacks.items():
        judge.say(f"attack {name}")
        try:
            attack.check(losses)
            if attack.least_teachers > len(teachers):
                raise InputError(f"it learns from {attack.least_teachers} models or more.")
            curves[name] = roc_of(*cross_fitted_scores(losses, attack).pooled())
            rows.append(_row(losses, attack, teachers, (first, points[first]), curves[name], judge))
        except InputError as error:
            skipped.append((name, str(error)))
    if not rows:
        raise InputError(f"no attack can be made on {source}: {skipped[0][1]}")
    rows.sort(key=lambda row: (row.proven, row.shown[1], row.roc.auc), reverse=True)
    best = rows[0]  # by proofs: a vague attack can show more than a sharp one
    sets = [best]
    for name, chosen in list(points.items())[1:]:
        judge.say(f"points {name}")
        attack = attacks[best.attack]
        sets.append(_row(losses, attack, teachers, (name, chosen), curves[best.attack], judge))
    return AttackComparison(
        source=source,
        delta=judge.delta,
        error=judge.error,
        level=judge.level,
        rows=tuple(rows),
        point_sets=tuple(sets),
        skipped=tuple(skipped),
        gap=gap_of(claim, own, rows, sets),
    )


def compare_model_attacks(
    attacks: Mapping[str, tuple[AttackResult, Scores]],
    *,
    own: str,
    judge: Judge,
    source: str,
    claim: float | None = None,
) -> AttackComparison:
    """Attacks on models of bases: p-values make the curve, scores what is proven and shown.

    Within a base attacks order models as their statistic does, so rules that share a statistic prove and
    show the same; they differ in how they compare bases.
    """
    known: dict[str, tuple[float, tuple[float, float, float]]] = {}
    rows = []
    for name, (attacked, scores) in attacks.items():
        judge.say(f"attack {name}")
        if attacked.statistic not in known:
            known[attacked.statistic] = judge.proven(scores), judge.shown(scores)
        sides = (attacked.p_values_h0, attacked.p_values_h1)
        roc = roc_of(*(-side[~np.isnan(side)] for side in sides))
        proven, shown = known[attacked.statistic]
        rows.append(AttackRow(attack=name, points=JUDGED, roc=roc, proven=proven, shown=shown))
    if not rows:
        raise InputError(f"no attack can be made on {source}.")
    rows.sort(key=lambda row: (row.proven, row.shown[1], row.roc.auc), reverse=True)
    best = rows[0]
    return AttackComparison(
        source=source,
        delta=judge.delta,
        error=judge.error,
        level=judge.level,
        rows=tuple(rows),
        point_sets=(best,),
        skipped=(),
        gap=gap_of(claim, own, rows, [best]),
        notes=(SAME_ORDER,),
    )


def _row(
    losses: PoolLosses,
    attack: PoolAttack,
    teachers: IntArray,
    points: tuple[str, IntArray],
    roc: Roc,
    judge: Judge,
) -> AttackRow:
    scores = held_out_scores(losses, attack, teachers=teachers, points=points[1])
    return AttackRow(
        attack=attack.name,
        points=points[0],
        roc=roc,
        proven=judge.proven(scores),
        shown=judge.shown(scores.by_point()),
    )


def gap_of(
    claim: float | None, own: str, rows: Sequence[AttackRow], sets: Sequence[AttackRow]
) -> Gap | None:
    """The way from what the audit's own attack proves to a claim: by medians of what is shown.

    It never goes down.  None without a claim, or where the audit's own attack is not among the rows,
    the best of which comes first.
    """
    mine = next((row for row in rows if row.attack == own), None)
    if claim is None or mine is None:
        return None
    best = rows[0]
    steps = [mine.proven, mine.shown[1], best.shown[1], max(row.shown[1] for row in sets), claim]
    reached = np.minimum(np.maximum.accumulate(steps), max(claim, mine.proven))
    estimator, attack, points, rest = np.diff(reached).tolist()
    return Gap(
        claim=claim,
        proven=mine.proven,
        estimator=estimator,
        attack=attack,
        points=points,
        unexplained=rest,
    )


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
