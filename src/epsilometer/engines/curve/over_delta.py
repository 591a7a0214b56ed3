"""Epsilon over delta as one random curve: joint bands over all deltas, and claimed curves.

All deltas are evaluated on the same trade-off functions, so quantiles fall with delta by construction,
and the probability that a claimed curve is exceeded anywhere is a single number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer._display import Plotted
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.model.scores import Scores

EXTRAPOLATION = (
    "Epsilon at delta is determined where the trade-off function is as steep as e^epsilon. Below a "
    "delta of {below:.3g} that is at false-positive rates under 1 / N, N = {models:,} models of the "
    "largest base: no score is there, and the curve is extrapolated by its family alone."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JointDeltaCurve(Plotted, view="results.OVER_DELTA"):
    """The posterior of epsilon over delta, of the curve model.

    Parameters
    ----------
    posterior
        Of the whole trade-off curve.
    deltas
        Distinct, each in [0, 1); sorted on construction.
    """

    posterior: CurvePosterior
    deltas: ArrayLike

    def __post_init__(self) -> None:
        deltas = _validate.deltas(np.ravel(self.deltas).tolist())
        object.__setattr__(self, "deltas", np.array(deltas))

    def __len__(self) -> int:
        """The number of deltas."""
        return len(self._grid)

    @property
    def data(self) -> Scores:
        """The scores."""
        return self.posterior.scores

    @property
    def _grid(self) -> FloatArray:
        return np.asarray(self.deltas, dtype=float)

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray]:
        """Epsilon of every curve at every delta, shape (cells, deltas), and probabilities."""
        pairs, weight = self.posterior.cells()
        rows = [
            np.stack([curves.epsilon(leaks, delta) for delta in self._grid.tolist()], axis=1)
            for curves, leaks in pairs
        ]
        return np.concatenate([*rows, np.zeros((1, len(self)))]), weight

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """Quantiles of epsilon: the shape of ``probability`` plus a last axis of deltas."""
        target = np.asarray(probability, dtype=float)
        columns = [
            self.posterior.epsilon_at(delta).quantile(target) for delta in self._grid.tolist()
        ]
        return np.stack(columns, axis=-1)

    def credible_interval(self, level: float = 0.9) -> FloatPair:
        """The ends of the central interval at each delta separately."""
        level = _validate.level(level)
        low, high = self.quantile([0.5 - level / 2, 0.5 + level / 2])
        if self.posterior.saturated:
            return np.minimum(low, self.posterior.most_shown), np.full_like(high, np.inf)
        return low, high

    def joint_band(self, level: float = 0.9) -> FloatPair:
        """Ends of a band that contains the whole curve with the probability ``level``.

        Curves that come closest to either end of the distribution at some delta are left out first,
        until the remaining probability is the level.
        """
        level = _validate.level(level)
        values, weight = self._cells
        depth = np.full(len(weight), 1.0)
        for column in values.T:
            # Curves that agree at a delta have equal depth there.
            _, which = np.unique(column, return_inverse=True)
            mass = np.bincount(which, weight)
            below = (np.cumsum(mass) - mass / 2)[which]
            depth = np.minimum(depth, np.minimum(below, 1 - below))
        order = np.argsort(-depth, kind="stable")
        inside = order[: int(np.searchsorted(np.cumsum(weight[order]), level)) + 1]
        # Cells have a width: never narrower than the intervals at single deltas.
        low, high = self.credible_interval(level)
        return (
            np.minimum(values[inside].min(axis=0), low),
            np.maximum(values[inside].max(axis=0), high),
        )

    @property
    def extrapolated(self) -> BoolArray:
        """Which deltas are extrapolated; see :attr:`CurvePosterior.extrapolated_below_delta`."""
        return np.asarray(self._grid < self.posterior.extrapolated_below_delta)

    def probability_above(self, claims: Mapping[float, float]) -> list[float]:
        """P(epsilon > claim) at each of the claims by delta."""
        return [
            self.posterior.epsilon_at(delta).probability_above(claim)
            for delta, claim in claims.items()
        ]

    def probability_anywhere(self, claims: Mapping[float, float]) -> float:
        """P(epsilon > claim at one or more deltas): the claimed curve judged as a whole."""
        values, weight = self._cells
        limits = np.array([claims.get(delta, np.inf) for delta in self._grid.tolist()])
        anywhere = float(weight[(values > limits).any(axis=1)].sum())
        # Cells have a width: never less than at a single delta.
        return max([anywhere, *self.probability_above(claims)])

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached its accuracy."""
        return self.posterior.accurate

    def notes(self, level: float = 0.9) -> list[str]:
        """Notes on the curve, one or more sentences each."""
        posterior = self.posterior
        notes = [
            f"One curve is estimated, not one epsilon for each delta: the joint band contains all of it "
            f"with probability {level:g}. The prior of epsilon is at delta = "
            f"{posterior.model.delta:g}."
        ]
        if self.extrapolated.any():
            models = round(1 / posterior.finest_rate)
            below = posterior.extrapolated_below_delta
            notes.append(EXTRAPOLATION.format(below=below, models=models))
        return notes
