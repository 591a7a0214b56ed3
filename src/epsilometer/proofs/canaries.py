"""Claim test of canaries of training runs, each included by its own fair coin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epsilometer._arrays import IntArray
from epsilometer.baselines.one_run import check_fair_coin, epsilon_one_run_fdp
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.scores import Scores
from epsilometer.proofs.evidence import Evidence, ranked
from epsilometer.proofs.refuting import ClaimTest

#: Allowed probability, over all runs, that the coins of a run are all equal (no scores).
ONE_SIDED = 0.01

#: Ratio of successive numbers of guesses; with fewer of them each has more of the error.
RATIO = 2.0


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


def ranks_of(canaries: int) -> IntArray:
    """Numbers of guesses at an end, known before the scores.

    About half of the canaries are members, hardly ever fewer than the largest rank: of perfect scores
    all guesses are right.
    """
    largest = max(canaries / 2 - math.sqrt(canaries), 1.0)
    halved = largest / RATIO ** np.arange(math.log(largest, RATIO) + 1)
    return np.unique(np.rint(halved)).astype(np.int64)


def useful_ranks(canaries: int, error: float, *, both: bool) -> IntArray:
    """Those of the ranks that could prove something; they share the error.

    The bound of r guesses that are all correct is at most -log(level^(-1/r) - 1), so with
    r <= log2(1 / level) no outcome proves anything.
    """
    ranks = ranks_of(canaries)
    guesses = ranks * 2 if both else ranks
    while len(ranks) and 2.0 ** -guesses[0] >= error / len(ranks):
        ranks, guesses = ranks[1:], guesses[1:]
    return ranks


def guesses_at(base: BaseScores, ranks: IntArray, *, both: bool) -> tuple[IntArray, IntArray]:
    """Number of guesses at each rank, and how many of these are correct.

    The highest scores are called members and, for ``both`` ends, as many of the lowest non-members.  The
    bound is for a fixed number of guesses, so ties are broken at random.
    """
    members = base.orders(1)[0]
    right = np.cumsum(members)[ranks - 1]
    if not both:
        return ranks, right
    return 2 * ranks, right + np.cumsum(1 - members[::-1])[ranks - 1]


def bound_of(base: BaseScores, delta: float, error: float) -> tuple[float, str]:
    """Lower bound of epsilon from guesses at the top and at both ends, with half of the error each.

    With the guesses that attain it, in words.
    """
    check_fair_coin(base.trials_h1, base.trials_h0)
    canaries, found = base.trials_h0 + base.trials_h1, [(0.0, "no number of guesses")]
    for both in (False, True):
        ranks = useful_ranks(canaries, error / 2, both=both)
        if len(ranks):
            guesses, right = guesses_at(base, ranks, both=both)
            level = error / 2 / len(ranks)
            bounds = epsilon_one_run_fdp(canaries, guesses, right, delta, level)
            best = int(np.argmax(bounds))
            where = "on the highest and the lowest scores" if both else "on the highest scores"
            said = f"{right[best]:,} of {guesses[best]:,} guesses right, {where}"
            found.append((float(bounds[best]), said))
    return max(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class OneRunTest(ClaimTest):
    """Canaries of one training run: the f-DP bound of Mahloujifar et al. (2024), analysed once.

    The e-value is the mean of two, one of guesses at the top and one of guesses at both ends.  Each is
    2 / error below its bound with half of the error, and 0 above.  Canaries of several runs are pooled
    if coins were flipped separately for each; otherwise the best run counts, and runs share the error.

    Attributes
    ----------
    independent
        Whether every run has its own coins.
    """

    scores: Scores
    independent: bool = True

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
    def _found(self) -> dict[tuple[float, float], list[tuple[float, str]]]:
        return {}

    def _by_run(self, delta: float, error: float) -> list[tuple[float, str]]:
        """Of each run, or of all runs together: the bound, and its guesses in words."""
        if (delta, error) not in self._found:
            check_coins(self.scores)
            parts = [self.scores.all_runs] if self.independent else self.scores.bases
            share = error / len(parts)
            self._found[delta, error] = [bound_of(base, delta, share) for base in parts]
        return self._found[delta, error]

    def bound(self, delta: float, error: float) -> float:
        """Lower bound of epsilon, except with probability ``error``."""
        return max(bound for bound, _ in self._by_run(delta, error))

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        found = self._by_run(delta, error)
        names = ["all runs"] if len(found) < len(self.scores) else self.scores.names
        won = [-math.log(error) if epsilon < bound else 0.0 for bound, _ in found]
        guesses = ((max(found)[1], 1.0),)
        return Evidence(epsilon=epsilon, bases=ranked(names, won), thresholds=guesses)

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        # The mean of two e-values that are 2 / error or 0, if only one is not 0: enough to refute.
        return -math.log(error) if epsilon < self.bound(delta, error) else -math.inf

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        sizes = self.scores.trials_h0 + self.scores.trials_h1
        if self.independent:
            sizes = sizes.sum(keepdims=True)
        canaries = math.ceil(times * sizes.max())
        perfect = BaseScores.of(np.zeros(canaries // 2), np.ones(canaries - canaries // 2))
        return bound_of(perfect, delta, error / len(sizes))[0]
