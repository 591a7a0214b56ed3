"""Several decision rules on one challenge base, as a group of dependent attacks.

Rules may differ in their target rate, their statistic or their method.  If each of them judged every
challenge, one model's luck would be counted once a rule; if only the best were kept, the choice would
have to be paid for.  So the challenges of a base are dealt out to the rules in turn: every challenge is
judged once, by one rule, and the rules of a base are one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.attacks.result import AttackResult, target_rate
from epsilometer.errors import InputError
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.model.measured import MeasuredBy


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatingPoint:
    """One way to decide: an attack's p-values, called members up to a target rate."""

    result: AttackResult
    target_alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_alpha", target_rate(self.target_alpha))

    @property
    def label(self) -> str:
        """Statistic, attack and target rate."""
        return f"{self.result.statistic}, {self.result.attack}, {self.target_alpha:g}"


def split_counts(rules: Sequence[OperatingPoint]) -> AttackCounts:
    """Error counts of all rules, challenge j of a base judged by rule j modulo the number of rules.

    Parameters
    ----------
    rules
        At least two, about the same challenge bases.

    Returns
    -------
    AttackCounts
        A row for each base and rule, the base as its group.  A rule without challenges on a base, where
        there are fewer of them than rules, has no row there.

    Examples
    --------
    >>> result = AttackResult(
    ...     names=("0",),
    ...     statistic="loss",
    ...     attack="threshold",
    ...     p_values_h0=np.array([[0.01, 0.3, 0.5, 0.15]]),
    ...     p_values_h1=np.array([[0.01, 0.02, 0.3, 0.9]]),
    ...     scores_h0=np.zeros((1, 4)),
    ...     scores_h1=np.zeros((1, 4)),
    ... )
    >>> counts = split_counts(
    ...     [OperatingPoint(result=result, target_alpha=rate) for rate in (0.1, 0.2)]
    ... )
    >>> counts.groups, counts.trials_h0.tolist(), counts.false_positives.tolist()
    (('0', '0'), [2, 2], [1, 1])
    """
    if len(rules) < 2:
        raise InputError(f"expected at least two rules to deal out to, got {len(rules)}.")
    names = rules[0].result.names
    if any(rule.result.names != names for rule in rules):
        raise InputError("expected rules about the same challenge bases.")
    labels = [rule.label for rule in rules]
    if len(set(labels)) < len(labels):
        raise InputError(f"expected rules that differ, got {', '.join(labels)}.")
    rows: list[tuple[int, int, int, int]] = []
    called, groups = [], []
    for base, name in enumerate(names):
        for number, rule in enumerate(rules):
            p_h0 = _dealt(rule.result.p_values_h0[base], number, len(rules))
            p_h1 = _dealt(rule.result.p_values_h1[base], number, len(rules))
            if not len(p_h0) or not len(p_h1):
                continue
            positives = int(np.count_nonzero(p_h0 <= rule.target_alpha))
            negatives = int(np.count_nonzero(p_h1 > rule.target_alpha))
            rows.append((positives, len(p_h0), negatives, len(p_h1)))
            called.append(f"{name} ({labels[number]})")
            groups.append(name)
    if not rows:
        raise InputError("expected challenges to deal out, got none.")
    columns = dict(zip(COLUMNS, np.array(rows).T, strict=True))
    measured = MeasuredBy.shared(rule.result.measured(rule.target_alpha) for rule in rules)
    return AttackCounts(**columns, names=called, groups=groups, measured=measured)


def _dealt(p_values: FloatArray, number: int, rules: int) -> FloatArray:
    """The challenges of one rule; those without a p-value were never made.

    By position, so that a challenge that one statistic has no value for does not move the others.
    """
    mine = p_values[number::rules]
    return mine[~np.isnan(mine)]
