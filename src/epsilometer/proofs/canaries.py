"""Claim test of canaries of training runs, each included by its own fair coin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epsilometer.baselines.one_run import check_fair_coin, fair_coin
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.scores import Scores

#: Allowed probability, over all runs, that the coins of a run are all equal (no scores).
ONE_SIDED = 0.01


def check_coins(scores: Scores) -> None:
    """Raise :class:`InputError` unless the coins of every run could be fair.

    Runs whose coins are all equal are missing from the data.  If that is likely, the coins of the
    remaining runs are not independent, and one-run bounds do not hold.
    """
    sizes = scores.trials_h0 + scores.trials_h1
    if float(np.sum(2.0 ** (1.0 - sizes))) > ONE_SIDED:
        raise InputError(
            f"expected more canaries per run, got runs of {int(sizes.min())} to {int(sizes.max())}: "
            "runs whose coins are all equal are dropped, and there would be too many."
        )
    check_fair_coin(scores.trials_h1, scores.trials_h0, runs=len(scores))


def auditor_of(base: BaseScores) -> CanaryScoreAuditor:
    """Published bounds for a base, from ranks instead of scores, which may be infinite."""
    ranks = -np.arange(len(base.value), dtype=float)
    return CanaryScoreAuditor(np.repeat(ranks, base.ones), np.repeat(ranks, base.zeros))


@dataclass(frozen=True, kw_only=True, eq=False)
class OneRunTest:
    """Canaries of one training run: the f-DP bound of Mahloujifar et al. (2024), analysed once.

    Its e-value is 1 / error below the bound and 0 above.  Canaries of several runs are pooled if coins
    were flipped separately for each; otherwise the best run counts, and runs share the error.

    Attributes
    ----------
    independent
        Whether every run has its own coins.
    """

    scores: Scores
    independent: bool = True

    any_time = False

    @property
    def assumes(self) -> str:
        premise = "each canary included by its own fair coin"
        if len(self.scores) == 1:
            return f"{premise}, one planned analysis"
        coins = (
            "flipped separately for every run" if self.independent else "possibly equal in all runs"
        )
        return f"{premise}, {coins}; one planned analysis"

    @cached_property
    def _found(self) -> dict[tuple[float, float], float]:
        return {}

    def bound(self, delta: float, error: float) -> float:
        """Lower bound of epsilon, except with probability ``error``."""
        if (delta, error) not in self._found:
            check_coins(self.scores)
            parts = [self.scores.all_runs] if self.independent else self.scores.bases
            share = error / len(parts)
            bounds = [auditor_of(base).epsilon_one_run_fdp(share, delta) for base in parts]
            self._found[delta, error] = max(bounds)
        return self._found[delta, error]

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        return -math.log(error) if epsilon < self.bound(delta, error) else -math.inf

    def most_provable(self, delta: float, error: float) -> float:
        base = self.scores.all_runs
        if not bool(fair_coin(base.trials_h1, base.trials_h0)):
            return math.inf
        perfect = CanaryScoreAuditor(
            np.arange(base.trials_h1) + 1.0, -np.arange(base.trials_h0, dtype=float)
        )
        return perfect.epsilon_one_run_fdp(error, delta)
