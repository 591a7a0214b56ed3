"""RMIA, the robust membership-inference attack.

Zarifzadeh, Liu and Shokri, "Low-cost high-power membership inference attacks" (ICML 2024).
Under the target model theta, a point x is compared with many others, z:

    score(x) = Pr_z[ (Pr(x | theta) / Pr(x)) / (Pr(z | theta) / Pr(z)) >= gamma ]

Pr(x | theta) = exp(-loss).  Pr(x) is the average over models that have x with probability 1/2:

    online    (mean over shadow models with x + mean over shadow models without x) / 2
    offline   ((1 + a) mean over shadow models without x + 1 - a) / 2

The second follows from the first if a model with x has probability a p + 1 - a where one without it has
p. Published settings, from the configurations next to the authors' code (Privacy Meter, 2024): gamma = 2
throughout; a = 0.3 for CIFAR-10 and CINIC-10, 0.6 for CIFAR-100, 0.2 for Purchase-100.  These use a
softmax of temperature 2 (1 for CIFAR-100) and means over shadow models trimmed by a fifth at each end;
here the probabilities are the model's own, since only losses are available, and means are untrimmed.

With several queries, x beats z if it does so in more than half of them, as in the authors' code.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_losses import PoolLosses

#: Number of points to compare with if votes over queries must be counted for each pair.
MOST_COMPARED = 2500

#: The score of a point that has no other point to compare with.
NO_OTHER = 0.5


@dataclass(frozen=True, kw_only=True)
class _Ratios:
    """What both variants share: everything but Pr(x)."""

    gamma: float = 2.0
    a: float = 0.3

    def __post_init__(self) -> None:
        _validate.positive("gamma", self.gamma)
        _validate.unit_interval("a", self.a)

    def check(self, losses: PoolLosses) -> None:
        losses.require_cross_entropy()

    def _usual(self, without: FloatArray, with_point: FloatArray) -> FloatArray:
        """Log Pr(x) from the log means; here that of models without the point, if there are any."""
        with np.errstate(divide="ignore"):
            # log(((1 + a) p + 1 - a) / 2)
            line = np.logaddexp(without + np.log1p(self.a), np.log1p(-self.a)) - np.log(2)
        return np.where(np.isneginf(without), with_point, line)

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        """Share of z that each point beats under each target model."""
        usual, challenges = self._usual(*log_means(losses, teachers)), losses.challenges
        others = np.arange(challenges if losses.references else 0, losses.points)
        if losses.queries > 1:
            others = others[:: -(-len(others) // MOST_COMPARED)]
        places = np.full(challenges, -1)
        if not losses.references:
            places[others] = np.arange(len(others))
        sizes = len(others) - (places >= 0)
        value = np.empty((len(judged), challenges))
        for row, model in enumerate(judged):
            ratio = -losses.loss[model] - usual
            least = ratio[:challenges] - np.log(self.gamma)
            if losses.queries == 1:
                ordered = np.sort(ratio[others, 0])
                beaten = np.searchsorted(ordered, least[:, 0], side="right")
                # A point is not compared with itself, where its ratio is 1.
                beaten -= (places >= 0) & (least[:, 0] >= ratio[:challenges, 0])
            else:
                beaten = _votes(
                    np.ascontiguousarray(least), np.ascontiguousarray(ratio[others].T), places
                )
            value[row] = np.where(sizes > 0, beaten / np.maximum(sizes, 1), NO_OTHER)
        return value


@dataclass(frozen=True, kw_only=True)
class Rmia(_Ratios):
    """Online RMIA: models with and without the point have equal weight, whatever their numbers.

    z are the reference points, or all other points if there are none.  A point without shadow models on
    one side, such as a reference, has the Pr(x) of `RmiaOffline`; for a point that all shadow models
    were trained on it is their mean.  Scores are multiples of 1 over the number of z, so ties are
    common.

    Parameters
    ----------
    gamma
        Factor by which x must beat z; above 0.
    a
        Coefficient of the line that replaces missing models with the point; 0 <= a <= 1.
    """

    name: ClassVar[str] = "rmia"
    least_teachers: ClassVar[int] = 2

    def _usual(self, without: FloatArray, with_point: FloatArray) -> FloatArray:
        both = np.logaddexp(without, with_point) - np.log(2)
        one_sided = np.isneginf(without) | np.isneginf(with_point)
        return np.where(one_sided, super()._usual(without, with_point), both)


@dataclass(frozen=True, kw_only=True)
class RmiaOffline(_Ratios):
    """Offline RMIA: Pr(x) from models without the point only.

    z are the reference points, or all other points if there are none.  For a point that all shadow
    models were trained on, Pr(x) is their mean.

    Parameters
    ----------
    gamma
        Factor by which x must beat z; above 0.
    a
        Coefficient of the line from models without the point to those with it; 0 <= a <= 1.
    """

    name: ClassVar[str] = "rmia-offline"
    least_teachers: ClassVar[int] = 1


def log_means(losses: PoolLosses, teachers: IntArray) -> tuple[FloatArray, FloatArray]:
    """Log of the mean probability under models without and with each point: (points, queries).

    Minus infinity if there is no such model.
    """
    logs = np.empty((2, losses.points, losses.queries))
    for part in losses.blocks(len(teachers), points=losses.points):
        log_p, inside = -losses.loss[teachers, part], losses.member[teachers, part]
        for side, chosen in enumerate((~inside, inside)):
            shown = np.where(chosen[:, :, None], log_p, -np.inf)
            largest = shown.max(axis=0)
            shift = np.where(np.isneginf(largest), 0.0, largest)
            size = np.maximum(chosen.sum(axis=0), 1)[:, None]
            with np.errstate(divide="ignore"):
                logs[side, part] = shift + np.log(np.exp(shown - shift).sum(axis=0) / size)
    return logs[0], logs[1]


@njit(nogil=True, cache=True)
def _votes(least: FloatArray, others: FloatArray, own: IntArray) -> IntArray:
    """Number of others, (queries, z), that are no larger in more than half of the queries."""
    points, queries = least.shape
    counts = np.zeros(points, dtype=np.int64)
    votes = np.empty(others.shape[1], dtype=np.int16)
    for point in range(points):
        votes[:] = 0
        for query in range(queries):
            limit = least[point, query]
            row = others[query]
            for z in range(len(votes)):
                votes[z] += row[z] <= limit
        if own[point] >= 0:
            votes[own[point]] = 0
        total = 0
        for z in range(len(votes)):
            total += 2 * votes[z] > queries
        counts[point] = total
    return counts
