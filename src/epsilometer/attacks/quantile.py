"""Quantile regression: needs no shadow models, only points that the model never saw.

Bertran et al., "Scalable membership inference attacks via quantile regression" (NeurIPS 2023).
For each target model the log odds of reference points are regressed on their features and labels, which
predicts the model's log odds at a point that it was not trained on.  The predicted distribution is
normal, with a mean and a spread that depend on the point (the paper's Gaussian variant); the score is
the distance of the point above the mean, in units of the spread.

The paper trains a neural network or boosted trees for every model.  This implementation uses ridge
regression on random Fourier features, which approximate a Gaussian kernel on features and label: all
models share one singular value decomposition, so a hundred of them cost little more than one.
Leave-one-out residuals and the choice of the penalty are in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.pool_losses import LOSSES_AT_ONCE, PoolLosses, log_odds_of
from epsilometer.attacks.single_loss import require_references
from epsilometer.errors import InputError

LEAST_REFERENCES = 20
MOST_FITTED = 4000
"""If there are more references, this many are used, evenly spaced."""

MOST_LABELS = 200
"""Labels with more distinct values are not treated as classes but as a feature."""

NEARNESS, NEARNESS_OF_LABELS = 0.25, 2.0
"""Of the kernel exp(-(0.25 d)^2 / 2 - 4 [labels differ]), with d the root mean square difference of the
features.  Of a dozen pairs these best predicted log odds of handwritten digits under small networks;
membership was not used.
"""

PENALTIES = tuple(10.0**power for power in range(-6, 2))
"""Tried for each model, multiplied by the number of references."""

SMALLEST_RESIDUAL = 1e-4
"""Lower limit of a squared residual before taking its logarithm, as a share of the mean square."""

SAME_LOG_ODDS = 1e-12
"""Absolute lower limit, for references that all have the same log odds."""


@dataclass(frozen=True, kw_only=True)
class QuantileAttack:
    """Log odds above the prediction for a point that the model never saw; see the module docstring.

    Needs reference points and features.  The random features have a fixed seed, so scores are
    reproducible.

    Parameters
    ----------
    width
        Number of random features.
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
        # (points, models) from here on, so that one matrix product serves all models.
        target = np.stack(
            [log_odds_of(losses.loss[model, fitted]).mean(axis=1) for model in judged], 1
        )
        ridge = Ridge.of(table.inputs(fitted))
        mean, residual = ridge.fit(target)
        squares = residual**2
        floor = np.maximum(SMALLEST_RESIDUAL * squares.mean(axis=0), SAME_LOG_ODDS)
        spread, _ = ridge.fit(np.log(np.maximum(squares, floor)))
        value = np.empty((len(judged), losses.challenges))
        step = max(1, LOSSES_AT_ONCE // max(len(judged), self.width))
        for start in range(0, losses.challenges, step):
            part = np.arange(start, min(start + step, losses.challenges))
            inputs = table.inputs(part)
            odds = np.stack(
                [log_odds_of(losses.loss[model, part]).mean(axis=1) for model in judged]
            )
            value[:, part] = (odds - mean(inputs).T) / np.exp(spread(inputs).T / 2)
        return value


def _table(losses: PoolLosses) -> FloatArray:
    """Features of all points as a table of numbers."""
    if losses.features is None:
        raise InputError(
            "expected features of points for the attack quantile, got none: `audit` and "
            "`compare-attacks` with the audit's TOML file provide them."
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
    """Regression inputs: random features of (features, label), and the label itself."""

    table: FloatArray
    centre: FloatArray
    scale: FloatArray
    label: IntArray
    directions: FloatArray
    shift_of_label: FloatArray
    """(labels, width): phases, which shift the random features differently for each label."""

    @classmethod
    def of(cls, losses: PoolLosses, width: int) -> _Inputs:
        table, label = _table(losses), np.zeros(losses.points, dtype=np.int64)
        if losses.labels is not None and losses.labels.ndim == 1:
            classes, codes = np.unique(losses.labels, return_inverse=True)
            if len(classes) <= MOST_LABELS:
                label = codes
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
    """Ridge regression of many targets on the same inputs, with a single decomposition."""

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
        """A predictor for other inputs, and leave-one-out residuals.

        ``target`` is (rows, targets); each target has the penalty with the least mean square residual.
        """
        # Relative to the first row, so that constant targets are fitted exactly.
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
    """Linear functions of the inputs, one per target."""

    centre: FloatArray
    level: FloatArray
    weight: FloatArray

    def __call__(self, inputs: FloatArray) -> FloatArray:
        return np.asarray(self.level + (inputs - self.centre) @ self.weight)
