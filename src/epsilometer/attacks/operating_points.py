"""Several operating points on one challenge base, as a group of dependent attacks.

Operating points may differ in target rate, statistic or attack.  If each decided on every challenge, one
model's luck would be counted once per operating point; if only the best were reported, the selection
would need a correction.  The challenges of a base are therefore split among the operating points in
turn: every challenge is decided once, and the operating points of a base form one group.
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
    """A decision rule: an attack's p-values, thresholded at a target rate."""

    result: AttackResult
    target_alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_alpha", target_rate(self.target_alpha))

    @property
    def label(self) -> str:
        """Statistic, attack and target rate."""
        return f"{self.result.statistic}, {self.result.attack}, {self.target_alpha:g}"


def split_counts(rules: Sequence[OperatingPoint]) -> AttackCounts:
    """Error counts of all operating points; challenge j of a base goes to number j modulo their count.

    Parameters
    ----------
    rules
        At least two operating points, on the same challenge bases.

    Returns
    -------
    AttackCounts
        One row per base and operating point, with the base as its group.  An operating point that has no
        challenges on a base, because there are too few, has no row there.

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
        raise InputError(f"expected at least two operating points, got {len(rules)}.")
    names = rules[0].result.names
    if any(rule.result.names != names for rule in rules):
        raise InputError("expected operating points on the same challenge bases.")
    labels = [rule.label for rule in rules]
    if len(set(labels)) < len(labels):
        raise InputError(f"expected distinct operating points, got {', '.join(labels)}.")
    rows: list[tuple[int, int, int, int]] = []
    called, groups = [], []
    for base, name in enumerate(names):
        for number, rule in enumerate(rules):
            p_h0 = _share(rule.result.p_values_h0[base], number, len(rules))
            p_h1 = _share(rule.result.p_values_h1[base], number, len(rules))
            if not len(p_h0) or not len(p_h1):
                continue
            positives = int(np.count_nonzero(p_h0 <= rule.target_alpha))
            negatives = int(np.count_nonzero(p_h1 > rule.target_alpha))
            rows.append((positives, len(p_h0), negatives, len(p_h1)))
            called.append(f"{name} ({labels[number]})")
            groups.append(name)
    if not rows:
        raise InputError("expected challenges to split, got none.")
    columns = dict(zip(COLUMNS, np.array(rows).T, strict=True))
    measured = MeasuredBy.shared(rule.result.measured(rule.target_alpha) for rule in rules)
    return AttackCounts(**columns, names=called, groups=groups, measured=measured)


def _share(p_values: FloatArray, number: int, rules: int) -> FloatArray:
    """The challenges of one operating point that have a p-value.

    Split by position, so that a challenge without a value under one statistic does not shift the others.
    """
    mine = p_values[number::rules]
    return mine[~np.isnan(mine)]
