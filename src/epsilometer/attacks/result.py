"""The result of an attack on every base: p-values, and from them counts at any target rate.

Operating points may differ in target rate, statistic or attack.  If each decided on every challenge, one
model's luck would be counted once per operating point; if only the best were reported, the selection
would need a correction.  `split_counts` therefore splits the challenges of a base among them in turn:
every challenge is decided once, and the operating points of a base form one group of dependent attacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epsilometer import _files, _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer._display import Displayed, Plotted
from epsilometer.attacks.rules import ranks
from epsilometer.errors import InputError
from epsilometer.model.count_tables import COLUMNS, MeasuredBy
from epsilometer.model.counts import AttackCounts

#: The target rates of the paper's figure 4.
SWEEP = tuple(level / 100 for level in range(1, 100))

#: Probability of at least one false alarm about the target rate, over all bases.
ALARM = 0.01

#: P-values below this are reported as far from normal: one in a thousand normal bases.
NOT_NORMAL = 1e-3

#: Shapiro-Wilk p-values are tabulated up to this size; larger samples are truncated to it.
LARGEST_SHAPIRO = 5000

#: Columns of error curves as CSV: one row per target rate and base.
CURVE_COLUMNS = ("target_alpha", "challenge_base", *COLUMNS)


@dataclass(frozen=True, kw_only=True)
class BaseCheck:
    """How closely the attack on one base met its target rate.

    Attributes
    ----------
    realised
        Realised false-positive rate: false positives divided by trials.
    missed
        Whether it differs from the target by more than chance explains (see `ALARM`).
    normality_h0, normality_h1
        P-values of the Shapiro-Wilk test of the scores; NaN for constant or fewer than 3 scores.
    """

    name: str
    realised: float
    missed: bool
    normality_h0: float
    normality_h1: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ErrorCurves(Displayed, view="measured.ERROR_CURVES"):
    """Error counts over target rates: arrays (rates, bases)."""

    names: tuple[str, ...]
    target_alpha: FloatArray
    false_positives: IntArray
    trials_h0: IntArray
    false_negatives: IntArray
    trials_h1: IntArray

    def to_csv(self) -> str:
        """CSV text, one row per target rate and base."""
        counts = np.stack(np.broadcast_arrays(*(getattr(self, name) for name in COLUMNS)), axis=-1)
        rows = [
            (target, name, *row)
            for target, table in zip(self.target_alpha.tolist(), counts.tolist(), strict=True)
            for name, row in zip(self.names, table, strict=True)
        ]
        return _files.csv_text(CURVE_COLUMNS, rows)

    def write(self, path: Path) -> None:
        """Write a CSV file; replaces an existing file."""
        _files.write_text(path, self.to_csv())


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AttackResult(Plotted, view="measured.ATTACK"):
    """P-values of every challenge, and the counts that follow from them.

    Attributes
    ----------
    names
        The challenge bases that could be attacked.
    p_values_h0, p_values_h1
        (bases, challenges); NaN if there is no challenge.  At target rate a the attack calls a challenge
        a member if its p-value is at most a.
    scores_h0, scores_h1
        The scores that the attack used, for the check of normality.
    left_out
        Bases with too few usable losses to attack.
    dropped
        Number of losses with non-finite value or score, for bases that have any.
    design
        Whether models were cross-fed or each challenge had its own shadows, as in
        :class:`~epsilometer.rows.MeasuredBy`; None if unknown.
    flaws
        Why the losses cannot be relied on, such as a fixed seed; empty if nothing is known against them.
    """

    names: tuple[str, ...]
    statistic: str
    attack: str
    p_values_h0: FloatArray
    p_values_h1: FloatArray
    scores_h0: FloatArray
    scores_h1: FloatArray
    left_out: tuple[str, ...] = ()
    dropped: tuple[tuple[str, int], ...] = ()
    design: str | None = None
    flaws: tuple[str, ...] = ()

    def measured(self, target_alpha: float | None) -> MeasuredBy | None:
        """Metadata of counts of this attack at a target rate."""
        if self.design is None:
            return None
        return MeasuredBy(design=self.design, target_alpha=target_alpha, statistic=self.statistic)

    def counts(self, target_alpha: float) -> AttackCounts:
        """Error counts at one target false-positive rate in (0, 1)."""
        curves = self.sweep([target_alpha])
        return AttackCounts(
            false_positives=curves.false_positives[0],
            trials_h0=curves.trials_h0,
            false_negatives=curves.false_negatives[0],
            trials_h1=curves.trials_h1,
            names=self.names,
            measured=self.measured(float(curves.target_alpha[0])),
        ).with_flaws(self.flaws)

    def sweep(self, levels: Sequence[float] = SWEEP) -> ErrorCurves:
        """Error counts at many target rates in one pass (figure 4 of the paper)."""
        targets = np.array([target_rate(level) for level in levels])
        rates = np.broadcast_to(targets, (len(self.names), len(targets)))
        called_h0, trials_h0 = ranks(self.p_values_h0, rates, side="right")
        called_h1, trials_h1 = ranks(self.p_values_h1, rates, side="right")
        return ErrorCurves(
            names=self.names,
            target_alpha=targets,
            false_positives=called_h0.T,
            trials_h0=trials_h0,
            false_negatives=trials_h1 - called_h1.T,
            trials_h1=trials_h1,
        )

    def checks(self, target_alpha: float) -> tuple[BaseCheck, ...]:
        """For each base: realised and target rate, and whether the scores look normal."""
        from scipy.special import bdtr, bdtrc

        counts = self.counts(target_alpha)
        called, trials = counts.false_positives, counts.trials_h0
        at_most = bdtr(called, trials, target_alpha)
        at_least = np.where(called > 0, bdtrc(called - 1.0, trials, target_alpha), 1.0)
        missed = 2 * np.minimum(at_most, at_least) < ALARM / len(self.names)
        return tuple(
            BaseCheck(
                name=name,
                realised=float(counts.false_positive_rates[row]),
                missed=bool(missed[row]),
                normality_h0=normality(self.scores_h0[row]),
                normality_h1=normality(self.scores_h1[row]),
            )
            for row, name in enumerate(self.names)
        )

    def warnings(self, target_alpha: float) -> list[str]:
        """Warnings about the counts; empty if there are none."""
        sentences = []
        if self.dropped:
            bases, numbers = zip(*self.dropped, strict=True)
            sentences.append(
                f"{sum(numbers)} losses are not finite and were dropped ({_listed(bases)})."
            )
        if self.left_out:
            sentences.append(f"too few losses to attack: {_listed(self.left_out)}.")
        most = int(self.counts(target_alpha).trials_h0.max())
        if target_alpha * most < 1:
            sentences.append(
                f"a target false-positive rate of {target_alpha:g} means less than one false positive "
                f"in the {most} challenges of a base: the counts can hardly distinguish it from 0."
            )
        checks = self.checks(target_alpha)
        missed = [check for check in checks if check.missed]
        if missed:
            worst = max(missed, key=lambda check: abs(check.realised - target_alpha))
            not_normal = sum(
                check.normality_h0 < NOT_NORMAL or check.normality_h1 < NOT_NORMAL
                for check in missed
            )
            advice = f"; {not_normal} of these have losses far from normal" if not_normal else ""
            if not_normal and self.statistic == "loss":
                advice += "; the statistic logit may work better"
            sentences.append(
                f"{len(missed)} of {len(checks)} bases missed the target false-positive rate "
                f"{target_alpha:g} (worst: {worst.name!r} with {worst.realised:.2f}){advice}. "
                "The counts are valid, but the attack did not operate at the intended rate."
            )
        return sentences


def target_rate(value: object) -> float:
    """A target false-positive rate, in (0, 1)."""
    return _validate.open_unit_interval("target_alpha", value)


def normality(scores: FloatArray) -> float:
    """P-value of the Shapiro-Wilk test; NaN if undefined."""
    from scipy.stats import shapiro

    present = scores[~np.isnan(scores)][:LARGEST_SHAPIRO]
    if len(present) < 3 or np.ptp(present) == 0:
        return float("nan")
    # The test is invariant to location and scale; unit scale keeps tiny losses from underflowing.
    present = (present - present.mean()) / np.ptp(present)
    return float(shapiro(present).pvalue) if np.ptp(present) > 0.5 else float("nan")


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


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
            both = (rule.result.p_values_h0[base], rule.result.p_values_h1[base])
            # By position, so that a challenge without a value under one statistic shifts no others.
            mine = [p_values[number :: len(rules)] for p_values in both]
            p_h0, p_h1 = (share[~np.isnan(share)] for share in mine)
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
