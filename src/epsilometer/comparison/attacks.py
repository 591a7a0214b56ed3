"""Compare attacks on the same models: ROC curve, proven epsilon and shown epsilon of each.

Also splits the gap to a claim into the parts due to the estimator, the attack and the points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray, IntArray, OnMessage
from epsilometer._text import plain
from epsilometer.attacks.pool_attacks import PoolAttack, cross_fitted_scores, held_out_scores
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.result import AttackResult
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.errors import InputError
from epsilometer.model.models import CurveModel
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import ERROR, prove

#: False-positive rates at which attacks are commonly compared.
RATES = (0.001, 0.01)

#: Grid of the drawn ROC curves.
SMALLEST_RATE, CURVE_POINTS = 1e-5, 120

JUDGED = "judged"

SAME_ORDER = (
    "Attacks with the same statistic rank the models of a base identically, so they prove and show the "
    "same epsilon; their ROC curves, computed from cross-fed p-values, differ because p-values compare "
    "models across bases."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Roc:
    """ROC curve of membership scores over all models and points.

    Attributes
    ----------
    auc
        Area under the curve; ties count half.
    false, true
        False-positive rates, and the largest true-positive rate at each.
    others
        Number of non-member scores, which limits the smallest rate that can be measured.
    """

    auc: float
    false: FloatArray
    true: FloatArray
    others: int

    def at(self, rate: float) -> float:
        """True-positive rate at a false-positive rate; NaN if there are too few non-members."""
        if rate * self.others < 1:
            return math.nan
        return float(self.true[np.searchsorted(self.false, rate, side="right") - 1])


def roc_of(without: FloatArray, with_point: FloatArray) -> Roc:
    """ROC curve of the scores of non-members and members.

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
        Names of the attack and of the set of points.
    roc
        Over all models and points, cross-fitted: each model is scored by an attack fitted on the others.
    proven
        Epsilon that the attack proves, with the stated error probability.
    shown
        Lower end, median and upper end of the epsilon of the point that leaks most under this attack.
    """

    attack: str
    points: str
    roc: Roc
    proven: float
    shown: tuple[float, float, float]

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        rates = {f"true_positive_rate_at_{rate:g}": self.roc.at(rate) for rate in RATES}
        shown = dict(zip(("low", "median", "high"), self.shown, strict=True))
        row = {"attack": self.attack, "points": self.points, "auc": self.roc.auc}
        return dict(plain(row | rates | {"proven": self.proven, "shown": shown}))


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The gap between a claim and the proven epsilon, split into parts that are at least 0.

    ``estimator``: shown by these scores but not proven.  ``attack``: shown by the best attack here
    beyond the audit's own.  ``points``: shown by the points that leak most beyond the judged ones.
    ``unexplained``: the rest up to the claim, due to a loose claim, unknown attacks, or points that are
    not in the data.
    """

    claim: float
    proven: float
    estimator: float
    attack: float
    points: float
    unexplained: float


@dataclass(frozen=True, kw_only=True)
class Judge:
    """What every attack is asked: delta, error and credible level.

    ``own`` is the audit's own attack, of which the gap to the ``claim`` is told; ``source`` names the
    data.
    """

    delta: float
    source: str = "these losses"
    own: str = ""
    claim: float | None = None
    error: float = ERROR
    level: float = 0.9
    #: Whether the bases have separately trained models.
    independent: bool = True
    report: OnMessage | None = None

    def row(self, attack: str, points: str, roc: Roc, scores: Scores | PoolScores) -> AttackRow:
        """What the scores of an attack prove, and show of the worst base under the curve model."""
        proof = prove(scores, delta=self.delta, error=self.error, independent=self.independent)
        by_base = scores.by_point() if isinstance(scores, PoolScores) else scores
        # A coarse grid is enough: no verdict depends on the last digits of a table.
        posterior = CurveSettings().estimate_quickly(by_base, CurveModel(delta=self.delta))
        low, high = posterior.credible_interval("shown", self.level)
        least, middle = proof.at_least, float(posterior.shown.quantile(0.5))
        shown = max(low, least), max(middle, least), max(high, least)
        return AttackRow(attack=attack, points=points, roc=roc, proven=proof.at_least, shown=shown)

    def compared(
        self, rows: Sequence[AttackRow], sets: Sequence[AttackRow], **more: Any
    ) -> AttackComparison:
        """The comparison of these rows, best first, with the gap to the claim."""
        gap = gap_of(self.claim, self.own, rows, sets)
        return AttackComparison(judge=self, rows=rows, point_sets=sets, gap=gap, **more)

    def say(self, text: str) -> None:
        """Report progress."""
        if self.report is not None:
            self.report(text)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackComparison:
    """Attacks on the same models, best first.

    Attributes
    ----------
    rows
        Every attack on the judged points, in decreasing order of proven epsilon.
    point_sets
        The best attack on each set of points.
    skipped
        Attacks that cannot run on these losses, and why.
    """

    judge: Judge
    rows: Sequence[AttackRow]
    point_sets: Sequence[AttackRow]
    gap: Gap | None
    skipped: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **{name: getattr(self.judge, name) for name in ("source", "delta", "error", "level")},
            "attacks": [row.described() for row in self.rows],
            "points": [row.described() for row in self.point_sets],
            "skipped": [{"attack": name, "reason": reason} for name, reason in self.skipped],
            "gap": None if self.gap is None else dict(vars(self.gap)),
            "notes": list(self.notes),
        }


def compare_pool_attacks(
    losses: PoolLosses,
    attacks: Mapping[str, PoolAttack],
    *,
    teachers: IntArray,
    points: Mapping[str, IntArray],
    judge: Judge,
) -> AttackComparison:
    """Run every attack on a pool.

    Parameters
    ----------
    attacks
        Attacks by name; those that cannot read these losses or have too few teachers are skipped with a
        reason.
    teachers
        Indices of the models that the attack learns from; the other models are judged.
    points
        Sets of points by name; the first is the one that the audit judges.
    """
    skipped, rows = [], []

    def row_of(attack: PoolAttack, name: str, roc: Roc | None = None) -> AttackRow:
        roc = roc or roc_of(*cross_fitted_scores(losses, attack).pooled())
        scores = held_out_scores(losses, attack, teachers=teachers, points=points[name])
        return judge.row(attack.name, name, roc, scores)

    first, *others = points
    for name, attack in attacks.items():
        judge.say(f"attack {name}")
        try:
            attack.check(losses)
            if attack.least_teachers > len(teachers):
                raise InputError(f"it needs at least {attack.least_teachers} models to learn from.")
            rows.append(row_of(attack, first))
        except InputError as error:
            skipped.append((name, str(error)))
    if not rows:
        raise InputError(f"no attack can run on {judge.source}: {skipped[0][1]}")
    best, *_ = rows = _best_first(rows)
    sets = [best]
    for name in others:
        judge.say(f"points {name}")
        sets.append(row_of(attacks[best.attack], name, best.roc))
    return judge.compared(rows, sets, skipped=skipped)


def _best_first(rows: Sequence[AttackRow]) -> list[AttackRow]:
    """By proven epsilon: an imprecise attack can have a higher median."""
    return sorted(rows, key=lambda row: (row.proven, row.shown[1], row.roc.auc), reverse=True)


def compare_model_attacks(
    attacks: Mapping[str, tuple[AttackResult, Scores]], judge: Judge
) -> AttackComparison:
    """Compare attacks on models of challenge bases: ROC curves from p-values, epsilon from scores.

    Within a base an attack ranks models by its statistic, so attacks that share a statistic prove and
    show the same epsilon; they differ in how they compare bases.
    """
    known: dict[str, AttackRow] = {}
    rows = []
    for name, (attacked, scores) in attacks.items():
        judge.say(f"attack {name}")
        sides = (attacked.p_values_h0, attacked.p_values_h1)
        roc = roc_of(*(-side[~np.isnan(side)] for side in sides))
        if attacked.statistic not in known:
            known[attacked.statistic] = judge.row(name, JUDGED, roc, scores)
        rows.append(replace(known[attacked.statistic], attack=name, roc=roc))
    if not rows:
        raise InputError(f"no attack can run on {judge.source}.")
    rows = _best_first(rows)
    return judge.compared(rows, rows[:1], notes=[SAME_ORDER])


def gap_of(
    claim: float | None, own: str, rows: Sequence[AttackRow], sets: Sequence[AttackRow]
) -> Gap | None:
    """Split the gap from the audit's own proven epsilon to a claim, by medians of the shown epsilon.

    ``rows`` are sorted, best first.  None without a claim, or if the audit's own attack is not among the
    rows.
    """
    mine = next((row for row in rows if row.attack == own), None)
    if claim is None or mine is None:
        return None
    best = rows[0]
    steps = [mine.proven, mine.shown[1], best.shown[1], max(row.shown[1] for row in sets), claim]
    reached = np.minimum(np.maximum.accumulate(steps), max(claim, mine.proven))
    parts = ("estimator", "attack", "points", "unexplained")
    steps_of = dict(zip(parts, np.diff(reached).tolist(), strict=True))
    return Gap(claim=claim, proven=mine.proven, **steps_of)
