"""Claim tests of points that share models: a pool of points, and models trained on random parts of it.

The e-value is the mean of two:

*By point.*  Given which models a point is in, the rest of every model's data has the same distribution.
So the n-th model without the point and the n-th with it are a pair for the bets of `pairs.py`: the claim
also bounds their behaviour on average over the rest of the data.  Points share models and their capitals
depend on each other, so capitals are averaged over points, never multiplied.

*By model.*  If each point is in each model by its own fair coin, all models together are one algorithm,
with one canary per pair of a model and a point: a coin affects only its own model.  The one-run f-DP
bound holds for them however scores depend on each other.  With half of the error the e-value is 2 /
error below the bound and 0 above.

Points whose models are all on one side have no scores by point.  This happens with probability
2^(1 - models), which is subtracted from the error of the bound by model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epsilometer._arrays import FloatPair, IntArray
from epsilometer.baselines.one_run import epsilon_one_run_fdp, fair_coin
from epsilometer.baselines.scores import Ranks
from epsilometer.errors import InputError
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.proofs.bettors import bettors_against
from epsilometer.proofs.evidence import Evidence
from epsilometer.proofs.outcomes import best_outcomes, outcomes_of
from epsilometer.proofs.pairs import PairTest, log_mixtures
from epsilometer.proofs.refuting import ClaimTest, ceiling, least_log_e_value, with_bound

FAIR = (
    "each point in each model by its own fair coin, each score from a single target model; one planned "
    "analysis"
)
DRAWN = (
    "models trained independently on records drawn so that a point's coin is independent of the others, "
    "each score from a single target model; one planned analysis"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedModels(ClaimTest):
    """Scores of many points under the same models, analysed once.

    Incomplete pairs are visible, so stopping could depend on them.

    Attributes
    ----------
    points
        The scores of each point without it and with it, in the order of its models.
    names
        Of the points.
    fair_coins
        Whether each point was in each model by its own fair coin.
    one_sided
        Probability that some point is missing because its coins were all equal.
    """

    points: Sequence[FloatPair]
    names: Sequence[str] = ()
    fair_coins: bool = False
    one_sided: float = 0.0

    @classmethod
    def of_pool(cls, pool: PoolScores) -> SharedModels:
        """From the matrix of scores; no point is left out."""
        columns = zip(pool.value.T, pool.member.T, strict=True)
        points = [(value[~inside], value[inside]) for value, inside in columns]
        return cls(points=points, names=pool.names, fair_coins=pool.fair_coins)

    @classmethod
    def of_scores(cls, scores: Scores) -> SharedModels:
        """From bases that are points with known models."""
        if scores.models is None or any(base.arrival is None for base in scores.bases):
            raise InputError("expected points that share models, with the model of each score.")
        trained = (base.in_training_order for base in scores.bases)
        points = [
            (zeros[np.argsort(without)], ones[np.argsort(with_point)])
            for (zeros, ones), (without, with_point) in zip(trained, scores.models, strict=True)
        ]
        one_sided = float(np.sum(2.0 ** (1.0 - scores.trials_h0 - scores.trials_h1)))
        fair = scores.fair_coins
        return cls(points=points, names=scores.names, fair_coins=fair, one_sided=one_sided)

    @cached_property
    def sizes(self) -> IntArray:
        """Numbers of models without and with the point, for each point."""
        return np.array([[len(side) for side in point] for point in self.points], dtype=np.int64)

    @property
    def assumes(self) -> str:
        return FAIR if self.fair_coins else DRAWN

    # --- by point ---------------------------------------------------------------------------------

    @cached_property
    def by_point(self) -> PairTest:
        """Bets on the pairs of every point, averaged over points."""
        pairs = [(zeros[: len(ones)], ones[: len(zeros)]) for zeros, ones in self.points]
        return PairTest(outcomes=outcomes_of(pairs), names=self.names, independent=False)

    def evidence(self, epsilon: float, delta: float, error: float) -> Evidence:
        """Where the capital by point comes from."""
        return self.by_point.evidence(epsilon, delta, error)

    # --- by model ---------------------------------------------------------------------------------

    @cached_property
    def _guesses(self) -> tuple[IntArray, IntArray]:
        """Pairs of a model and a point called members, and how many of them are, at fixed ranks."""
        members = np.sort(np.concatenate([inside for _, inside in self.points]))
        together = np.sort(np.concatenate([side for point in self.points for side in point]))
        thresholds = together[len(together) - Ranks().of(len(together))]
        guesses, right = (
            len(scores) - np.searchsorted(scores, thresholds) for scores in (together, members)
        )
        return guesses, right

    @cached_property
    def _found(self) -> dict[tuple[float, float], float]:
        return {}

    def bound_by_model(self, delta: float, error: float) -> float:
        """Lower bound of epsilon, except with probability ``error``; 0 if coins are unfair."""
        if (delta, error) not in self._found:
            self._found[delta, error] = self._bound(self.sizes, *self._guesses, delta, error)
        return self._found[delta, error]

    def _bound(
        self, sizes: IntArray, guesses: IntArray, right: IntArray, delta: float, error: float
    ) -> float:
        level = (error - self.one_sided) / len(guesses)
        others, members = self.sizes.sum(axis=0)
        if not (self.fair_coins and fair_coin(members, others) and level > 0):
            return 0.0
        return float(epsilon_one_run_fdp(sizes.sum(), guesses, right, delta, level).max())

    # --- both -------------------------------------------------------------------------------------

    def log_e_value(self, epsilon: float, delta: float, error: float) -> float:
        mixture = self.by_point.log_e_value(epsilon, delta, error)
        # Whether to include the bound must not depend on the coins.
        if not self.fair_coins:
            return mixture
        return with_bound(mixture, epsilon, self.bound_by_model(delta, error / 2), error)

    def most_provable(self, delta: float, error: float, times: float = 1.0) -> float:
        # Points with the same number of pairs have the same best outcome.
        sizes = np.ceil(times * self.sizes).astype(np.int64)
        pairs, often = np.unique(sizes.min(axis=1), return_counts=True)
        best, weights = best_outcomes(pairs), np.log(often / often.sum())
        # Members have equal scores, above all others, and are guessed together at every rank.
        ranks = Ranks().of(int(sizes.sum()))
        guesses = np.full_like(ranks, sizes[:, 1].sum())
        bound = self._bound(sizes, guesses, guesses, delta, error / 2)

        def refuted(epsilon: float) -> bool:
            mixtures = log_mixtures(best, bettors_against(epsilon, delta))
            log_e = float(np.logaddexp.reduce(mixtures + weights))
            if self.fair_coins:
                log_e = with_bound(log_e, epsilon, bound, error)
            return log_e >= least_log_e_value(error)

        return ceiling(refuted)
