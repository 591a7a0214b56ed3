"""The one-run bounds on error counts: an attack's decisions are treated as guesses about canaries.

The attack's trials are the canaries and its decisions the guesses: only those that say "member", or all.
Fix this choice before you see the counts.  Bases whose trials are too uneven for a fair coin get 0: the
bound does not apply to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.baselines.estimator import Kind, LowerEndOnly, check_significance
from epsilometer.baselines.one_run import epsilon_one_run, fair_coin
from epsilometer.baselines.one_run_fdp import ApproximateDP, Family, epsilon_one_run_fdp
from epsilometer.model.counts import AttackCounts

_COIN = "each canary included by a fair coin, a decision rule fixed in advance"


def _guessed(counts: AttackCounts, *, all_trials: bool) -> tuple[IntArray, IntArray, IntArray]:
    """Canaries, guesses and correct guesses of each base; no guesses if the coin was not fair."""
    fair = fair_coin(counts.trials_h1, counts.trials_h0)
    canaries = counts.trials_h0 + counts.trials_h1
    right = counts.trials_h1 - counts.false_negatives
    guesses = right + counts.false_positives
    if all_trials:
        guesses = canaries
        right = canaries - counts.false_positives - counts.false_negatives
    return canaries, np.where(fair, guesses, 0), np.where(fair, right, 0)


@dataclass(frozen=True)
class OneRunBound(LowerEndOnly):
    """Steinke's bound; see `one_run.py`.

    Parameters
    ----------
    all_trials
        Count "not a member" as a guess too; otherwise only "member" counts, as in jax_privacy.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=500, false_negatives=[410], trials_h1=500
    ... )
    >>> round(float(OneRunBound().lower(counts, 1e-5)[0]), 4)
    1.6261
    """

    all_trials: bool = False

    label = "one run"
    kind = Kind.EXACT_BOUND
    assumes = _COIN

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        guessed = _guessed(counts, all_trials=self.all_trials)
        return epsilon_one_run(*guessed, delta, check_significance(significance))


@dataclass(frozen=True)
class OneRunFdpBound(LowerEndOnly):
    """Mahloujifar's bound; see `one_run_fdp.py`.

    Parameters
    ----------
    all_trials
        As for `OneRunBound`.
    family
        Family of trade-off curves; `ApproximateDP()` holds for every algorithm.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10], trials_h0=500, false_negatives=[410], trials_h1=500
    ... )
    >>> round(float(OneRunFdpBound().lower(counts, 1e-5)[0]), 4)
    1.6143
    """

    all_trials: bool = False
    family: Family = field(default_factory=ApproximateDP)

    kind = Kind.EXACT_BOUND

    @property
    def label(self) -> str:
        return "one run, f-DP, Gaussian" if self.gaussian else "one run, f-DP"

    @property
    def assumes(self) -> str:
        return f"a Gaussian trade-off curve, {_COIN}" if self.gaussian else _COIN

    @property
    def gaussian(self) -> bool:
        return self.family.gaussian

    def lower(self, counts: AttackCounts, delta: float, significance: float = 0.05) -> FloatArray:
        guessed = _guessed(counts, all_trials=self.all_trials)
        significance = check_significance(significance)
        return epsilon_one_run_fdp(*guessed, delta, significance, family=self.family)
