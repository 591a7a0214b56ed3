"""Statistics: scores computed from losses.  A higher score suggests membership.

A statistic is called with an array of losses, one row per challenge base with all its models and NaN for
missing ones, and returns an array of the same shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError

LEAST_LOSS = -1e-6
"""Losses down to here are zeros that single-precision arithmetic has made negative."""


class Statistic(Protocol):
    """Scores from losses; see the module docstring for shapes."""

    @property
    def name(self) -> str: ...

    @property
    def least_loss(self) -> float:
        """The smallest loss in its domain."""

    def __call__(self, losses: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The negated loss: members have low losses.  The paper's choice."""

    name: ClassVar[str] = "loss"
    least_loss: ClassVar[float] = -np.inf

    def __call__(self, losses: FloatArray) -> FloatArray:
        return -losses


@dataclass(frozen=True, kw_only=True)
class Logit:
    """LiRA's statistic, log(p / (1 - p)) = -log(expm1(loss)) for a cross-entropy loss -log p.

    Its distribution is much closer to normal than that of the loss.  A loss of 0 is a rounded value too
    small for the arithmetic that computed it.  It is replaced by the smallest positive loss of its base
    divided by 2e, the geometric mean of a uniform distribution below half of that loss.  Its score is
    thus finite, and no other of the base is above it.  In a base without a positive loss all scores are
    equal.

    Examples
    --------
    >>> Logit()(np.array([[1.0, 0.0]])).round(3).tolist()
    [[-0.541, 1.6]]
    """

    name: ClassVar[str] = "logit"
    least_loss: ClassVar[float] = LEAST_LOSS

    def __call__(self, losses: FloatArray) -> FloatArray:
        positive = losses > 0
        smallest = np.min(losses, axis=-1, where=positive, initial=np.inf, keepdims=True)
        # Dividing a denormal number could give 0 again.
        floor = np.where(np.isfinite(smallest), np.maximum(smallest / (2 * math.e), 5e-324), 1.0)
        shown = np.where(losses <= 0, floor, losses)
        # log(expm1(x)) = x + log(-expm1(-x)), which does not overflow.
        return -(shown + np.log(-np.expm1(-shown)))


@dataclass(frozen=True, kw_only=True)
class CustomStatistic:
    """Any function of the losses; see the module docstring for shapes.

    Only `Offline` and `Threshold` depend on the direction (higher suggests membership); the likelihood
    ratio learns it.
    """

    function: Callable[[FloatArray], FloatArray]
    name: str = "custom"
    least_loss: float = -np.inf

    def __call__(self, losses: FloatArray) -> FloatArray:
        scores = np.asarray(self.function(losses), dtype=np.float64)
        if scores.shape != losses.shape:
            raise InputError(
                f"expected statistic {self.name} to return an array of shape {losses.shape}, "
                f"got shape {scores.shape}."
            )
        return scores


STATISTICS: dict[str, Statistic] = {"loss": Loss(), "logit": Logit()}
"""Statistics that can be selected by name."""
