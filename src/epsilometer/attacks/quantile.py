"""Quantile regression: no shadow models, only points that the model never saw.

Bertran et al., "Scalable membership inference attacks via quantile regression" (NeurIPS 2023).
Under each judged model the log odds of reference points are regressed on their features and labels:
what would the model say of such a point if it had not been trained on it?  The predicted distribution
is normal, with a mean and a spread that depend on the point (the paper's Gaussian variant), and the
score is how far above the mean the point is, in spreads.

The paper trains a neural network or boosted trees for every model.  Here it is ridge regression on
random Fourier features, which approximate a Gaussian kernel on features and label together: all models
share one singular value decomposition, so that a hundred of them cost little more than one.  Residuals
are those of leaving the reference out, in closed form, and so is the choice of the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.own_losses import require_references
from epsilometer.attacks.pool_losses import BLOCK, PoolLosses, log_odds_of
from epsilometer.errors import InputError

LEAST_REFERENCES = 20
MOST_FITTED = 4000
"""Of more references so many are regressed on, evenly spaced."""

MOST_LABELS = 200
"""Labels with more values than this are not classes, and count as a feature."""

NEARNESS, NEARNESS_OF_LABELS = 0.25, 2.0
"""Of the kernel exp(-(0.25 d)^2 / 2 - 4 [labels differ]), d the root of the mean square difference of
features.  Of a dozen pairs these predicted log odds of handwritten digits under small networks best;
membership was not looked at.
"""

PENALTIES = tuple(10.0**power for power in range(-6, 2))
"""Tried for each model, times the number of references."""

SMALLEST_RESIDUAL = 1e-4
"""Share of the mean square that a squared residual is at least before its logarithm is taken."""

ROUNDING = 1e-12
"""And what it is at least where all references have the same log odds."""


@dataclass(frozen=True, kw_only=True)
class QuantileAttack:
    """How far above what a model that never saw the point would say; see the module.

    Needs reference points and features.  The random features come from a fixed seed, so scores do not
    differ from call to call.

    Parameters
    ----------
    width
        How many random features.
    """

    width: int = 400

    name: ClassVar[str] = "quantile"
    least_teachers: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _validate.whole_number("width", self.width)

    def check(self, losses: PoolLosses) -> None:
        losses.require_cross_entropy()
        require_references(losses, self.name, LEAST_REFERENCES)
        _table(losses)

    def score(self, losses: PoolLosses, *, teachers: IntArray, judged: IntArray) -> FloatArray:
        table = _Inputs.of(losses, self.width)
        stride = -(-losses.references // MOST_FITTED)
        fitted: IntArray = np.arange(losses.challenges, losses.points, stride)
        # (points, models) from here on, so that one product serves all models.
        target = np.stack(
            [log_odds_of(losses.loss[each, fitted]).mean(axis=1) for each in judged], 1
        )
        ridge = Ridge.of(table.inputs(fitted))
        mean, residual = ridge.fit(target)
        squares = residual**2
        floor = np.maximum(SMALLEST_RESIDUAL * squares.mean(axis=0), ROUNDING)
        spread, _ = ridge.fit(np.log(np.maximum(squares, floor)))
        value = np.empty((len(judged), losses.challenges))
        step = max(1, BLOCK // max(len(judged), self.width))
        for start in range(0, losses.challenges, step):
            part = np.arange(start, min(start + step, losses.challenges))
            inputs = table.inputs(part)
            odds = np.stack([log_odds_of(losses.loss[each, part]).mean(axis=1) for each in judged])
            value[:, part] = (odds - mean(inputs).T) / np.exp(spread(inputs).T / 2)
        return value


def _table(losses: PoolLosses) -> FloatArray:
    """Features of all points as a table of numbers."""
    if losses.features is None:
        raise InputError(
            "expected features of points for the attack quantile, got none: `audit` and "
            "`compare-attacks` of its TOML know them."
        )
    if losses.features.dtype.kind not in "biuf":
        raise InputError(
            f"expected features to be numbers for the attack quantile, got {losses.features.dtype}."
        )
    table = losses.features.reshape(losses.points, -1)
    if not table.shape[1] or not np.isfinite(table).all():
        raise InputError("expected finite features of points for the attack quantile.")
    return table


@dataclass(frozen=True, kw_only=True)
class _Inputs:
    """What is regressed on: random features of (features, label), and the label itself."""

    table: FloatArray
    centre: FloatArray
    scale: FloatArray
    label: IntArray
    directions: FloatArray
    shift_of_label: FloatArray
    """(labels, width): phases; each label turns the random features its own way."""

    @classmethod
    def of(cls, losses: PoolLosses, width: int) -> _Inputs:
        table, label = _table(losses), np.zeros(losses.points, dtype=np.int64)
        if losses.labels is not None and losses.labels.ndim == 1:
            classes, found = np.unique(losses.labels, return_inverse=True)
            if len(classes) <= MOST_LABELS:
                label = found
            elif losses.labels.dtype.kind in "biuf":
                table = np.concatenate([table, losses.labels[:, None]], axis=1)
        references = table[losses.challenges :].astype(float)
        scale = references.std(axis=0)
        rng = np.random.default_rng(2023)
        directions = NEARNESS * rng.standard_normal((table.shape[1], width))
        turns = NEARNESS_OF_LABELS * rng.standard_normal((label.max() + 1, width))
        return cls(
            table=table,
            centre=references.mean(axis=0),
            scale=np.where(scale > 0, scale, 1.0),
            label=label,
            directions=directions / np.sqrt(table.shape[1]),
            shift_of_label=turns + rng.uniform(0, 2 * np.pi, width),
        )

    def inputs(self, points: IntArray) -> FloatArray:
        shown = (self.table[points].astype(float) - self.centre) / self.scale
        angle = shown @ self.directions + self.shift_of_label[self.label[points]]
        waves = np.cos(angle) * np.sqrt(2 / angle.shape[1])
        classes = np.eye(len(self.shift_of_label))[self.label[points]]
        linear = shown / np.sqrt(shown.shape[1])
        return np.concatenate([waves, classes, linear], axis=1)


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """Ridge regression of many targets on the same inputs, by one decomposition of these."""

    centre: FloatArray
    left: FloatArray
    values: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, inputs: FloatArray) -> Ridge:
        centre = inputs.mean(axis=0)
        left, values, right = np.linalg.svd(inputs - centre, full_matrices=False)
        kept = values > 1e-10 * max(values[0], 1e-300)
        return cls(centre=centre, left=left[:, kept], values=values[kept], right=right[kept])

    def fit(self, target: FloatArray) -> tuple[Predictor, FloatArray]:
        """Predictions for other inputs, and residuals where the row itself is left out.

        ``target`` is (rows, targets); each has the penalty whose residuals have the least mean square.
        """
        # About the first row, so that equal targets are met exactly.
        level = target[0] + (target - target[0]).mean(axis=0)
        rotated = self.left.T @ (target - level)
        best = np.full(target.shape[1], np.inf)
        residual = np.empty_like(target)
        weight = np.empty((self.right.shape[1], target.shape[1]))
        for share in PENALTIES:
            squares = self.values**2
            shrink = squares / (squares + share * len(target))
            lever = 1 / len(target) + self.left**2 @ shrink
            left_out = (target - level - self.left @ (shrink[:, None] * rotated)) / (1 - lever)[
                :, None
            ]
            error = (left_out**2).mean(axis=0)
            better = error < best
            best[better] = error[better]
            residual[:, better] = left_out[:, better]
            scaled = (shrink / self.values)[:, None] * rotated[:, better]
            weight[:, better] = self.right.T @ scaled
        return Predictor(centre=self.centre, level=level, weight=weight), residual


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """Linear functions of the inputs, one for each target."""

    centre: FloatArray
    level: FloatArray
    weight: FloatArray

    def __call__(self, inputs: FloatArray) -> FloatArray:
        return np.asarray(self.level + (inputs - self.centre) @ self.weight)
