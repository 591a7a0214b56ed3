"""Epsilon over delta as one random curve: joint bands over all deltas, and claimed curves.

All deltas are evaluated on the same trade-off functions, so quantiles fall with delta by construction,
and the probability that a claimed curve is exceeded anywhere is a single number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.inference.claimed_curve import Claim, claimed_at
from epsilometer.inference.delta_curve import checked_deltas
from epsilometer.inference.profile.posterior import ProfilePosterior

EXTRAPOLATION = (
    "Epsilon at delta is determined where the trade-off function is as steep as e^epsilon. Below a "
    "delta of {below:.3g} that is at false-positive rates under 1 / N, N = {models:,} models of the "
    "largest base: no score is there, and the curve is extrapolated by its family alone."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ProfileCurve(Plotted, view="curves.WHOLE_CURVE"):
    """The posterior of epsilon over delta, with the verdict on a claim.

    Parameters
    ----------
    posterior
        Of the whole trade-off curve.
    deltas
        Distinct, each in [0, 1); sorted on construction.
    level
        Probability of the intervals and of the joint band.
    claim
        One epsilon for all deltas, or a function from delta to the claimed epsilon; None for no claim.
    """

    posterior: ProfilePosterior
    deltas: ArrayLike
    level: float = 0.9
    claim: Claim | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "deltas", checked_deltas(np.ravel(self.deltas)))
        object.__setattr__(self, "level", _validate.level(self.level))
        if self.claim is not None and not np.isfinite(self.claims).any():
            raise InputError("expected a claim at one or more of the curve's deltas, got none.")

    @cached_property
    def grid(self) -> FloatArray:
        """The deltas as an array."""
        return np.asarray(self.deltas, dtype=float)

    @cached_property
    def claims(self) -> FloatArray:
        """The claimed epsilon at each delta; infinite where nothing is claimed."""
        if self.claim is None:
            return np.full(len(self.grid), np.inf)
        return claimed_at(self.claim, self.grid)

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray]:
        """Epsilon of every curve at every delta, shape (cells, deltas), and probabilities."""
        pairs, weight = self.posterior.cells()
        rows = [
            np.stack([curves.epsilon(leaks, delta) for delta in self.grid.tolist()], axis=1)
            for curves, leaks in pairs
        ]
        return np.concatenate([*rows, np.zeros((1, len(self.grid)))]), weight

    @cached_property
    def quantiles(self) -> FloatArray:
        """Lower end, median and upper end at each delta separately, shape (3, deltas)."""
        tails = [0.5 - self.level / 2, 0.5, 0.5 + self.level / 2]
        columns = [self.posterior.epsilon_at(delta).quantile(tails) for delta in self.grid.tolist()]
        return np.stack(columns, axis=1)

    @cached_property
    def joint_band(self) -> FloatPair:
        """Ends of a band that contains the whole curve with the probability ``level``.

        Curves that come closest to either end of the distribution at some delta are left out first,
        until the remaining probability is the level.
        """
        values, weight = self._cells
        depth = np.full(len(weight), 1.0)
        for column in values.T:
            order = np.argsort(column, kind="stable")
            below = np.empty(len(weight))
            # Curves that agree at a delta have equal depth there.
            _, which = np.unique(column[order], return_inverse=True)
            mass = np.bincount(which, weight[order])
            middle = np.cumsum(mass) - mass / 2
            below[order] = middle[which]
            depth = np.minimum(depth, np.minimum(below, 1 - below))
        order = np.argsort(-depth, kind="stable")
        inside = order[: int(np.searchsorted(np.cumsum(weight[order]), self.level)) + 1]
        # Cells have a width: never narrower than the intervals at single deltas.
        low, high = values[inside].min(axis=0), values[inside].max(axis=0)
        return np.minimum(low, self.quantiles[0]), np.maximum(high, self.quantiles[2])

    @property
    def extrapolated(self) -> BoolArray:
        """Which deltas are extrapolated; see :attr:`ProfilePosterior.extrapolated_below_delta`."""
        return np.asarray(self.grid < self.posterior.extrapolated_below_delta)

    @cached_property
    def probability_above(self) -> FloatArray:
        """P(epsilon > claim) at each delta; 0 where nothing is claimed."""
        pairs = zip(self.grid.tolist(), self.claims.tolist(), strict=True)
        return np.array(
            [
                self.posterior.epsilon_at(delta).probability_above(claim)
                if np.isfinite(claim)
                else 0.0
                for delta, claim in pairs
            ]
        )

    @cached_property
    def probability_anywhere(self) -> float:
        """P(epsilon > claim at one or more deltas): the claimed curve judged as a whole."""
        values, weight = self._cells
        anywhere = float(weight[(values > self.claims).any(axis=1)].sum())
        # Cells have a width: never less than at a single delta.
        return max(anywhere, float(self.probability_above.max()))

    @property
    def trustworthy(self) -> bool:
        """Whether the engine reached its accuracy."""
        return self.posterior.trustworthy

    @property
    def notes(self) -> list[str]:
        """Notes on the curve, one or more sentences each."""
        found = [
            f"One curve is estimated, not one epsilon for each delta: the joint band contains all of it "
            f"with probability {self.level:g}. The prior of epsilon is at delta = "
            f"{self.posterior.model.delta:g}."
        ]
        posterior = self.posterior
        if self.extrapolated.any():
            models = round(1 / posterior.finest_rate)
            below = posterior.extrapolated_below_delta
            found.append(EXTRAPOLATION.format(below=below, models=models))
        if self.claim is not None:
            anywhere = self.probability_anywhere
            shown = f"{anywhere:.4g}" if anywhere <= 1 - 1e-4 else "above 0.9999"
            found.append(
                f"The claimed curve is exceeded at one or more deltas with probability {shown}, all "
                "deltas judged jointly."
            )
        return found
