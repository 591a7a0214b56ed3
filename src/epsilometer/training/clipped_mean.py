"""The mean of clipped records with normal noise: an algorithm whose privacy is known exactly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.measurement.bases import Adjacency, Include
from epsilometer.measurement.population import Array, Dataset, Point
from epsilometer.model.gaussian_mechanism import gaussian_epsilon


@dataclass(frozen=True, kw_only=True)
class ClippedMean:
    """Release the mean of records, each clipped to a ball, plus normal noise.

    The divisor is public, ``records``, so that neighbouring datasets differ only in one record's share.
    The loss of a point is its negative alignment with the release: normal with equal variances under
    both hypotheses, so the likelihood-ratio attack on it is optimal.

    Parameters
    ----------
    noise
        Standard deviation of the noise in each coordinate of the mean; >= 0.
    records
        The public divisor.
    bound
        Radius of the ball; > 0.

    Examples
    --------
    >>> algorithm = ClippedMean(noise=0.01, records=100)
    >>> round(algorithm.epsilon(0.1), 3)
    1.16
    """

    noise: float
    records: int
    bound: float = 1.0

    def __post_init__(self) -> None:
        _validate.non_negative("noise", self.noise)
        _validate.whole_number("records", self.records)
        _validate.positive("bound", self.bound)

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        return self.train_many([dataset], [rng])[0]

    def train_many(
        self, datasets: Sequence[Dataset], rngs: Sequence[np.random.Generator]
    ) -> list[FloatArray]:
        means = []
        for dataset, rng in zip(datasets, rngs, strict=True):
            rows = np.asarray(dataset.features, dtype=np.float64).reshape(len(dataset), -1)
            total = self._clip(rows).sum(axis=0)
            means.append(total / self.records + self.noise * rng.standard_normal(total.shape))
        return means

    def loss(self, model: FloatArray, point: Point) -> float:
        clipped = self._clip(np.asarray(point.features, dtype=np.float64).reshape(1, -1))[0]
        length = float(np.linalg.norm(clipped))
        return -float(clipped @ model) / length if length > 0 else 0.0

    def parameters(self, model: FloatArray) -> Array:
        return model

    def with_parameters(self, model: FloatArray, parameters: Array) -> FloatArray:
        return np.asarray(parameters, dtype=np.float64)

    def _clip(self, rows: FloatArray) -> FloatArray:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.asarray(rows * np.minimum(1.0, self.bound / lengths))

    def epsilon(self, delta: float, adjacency: Adjacency | None = None) -> float:
        """The true epsilon at a delta: that of the Gaussian mechanism, attained in the worst case."""
        share = self.bound / self.records
        replaced = (adjacency or Include()).name == "replace"
        sensitivity = 2 * share if replaced else share
        if self.noise == 0:
            return float("inf")
        return gaussian_epsilon(delta, sensitivity=sensitivity, noise=self.noise)

    def claimed_epsilon(self, delta: float) -> float:
        """The true epsilon when one record is added or removed: the claim is tight."""
        return self.epsilon(delta)
