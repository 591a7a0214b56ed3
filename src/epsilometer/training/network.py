"""A network with one hidden layer, trained by gradient descent with momentum: the paper's algorithm.

The hidden layer has rectified linear units, the output a softmax with cross-entropy.  Training is
compiled and processes non-zero features only (`network_kernels`).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Point, dataset_of

Floats = NDArray[np.float32]


class NetworkModel(NamedTuple):
    """Weights: (features, hidden), (hidden,), (classes, hidden), (classes,)."""

    hidden_weights: Floats
    hidden_biases: Floats
    output_weights: Floats
    output_biases: Floats


@dataclass(frozen=True, kw_only=True)
class FixedInitialisation:
    """Every model starts from the same weights, drawn once from this seed."""

    seed: int = 0

    def __post_init__(self) -> None:
        _validate.whole_number("seed", self.seed, least=0)

    def stream(self, _: np.random.Generator) -> np.random.Generator:
        return np.random.default_rng(self.seed)


@dataclass(frozen=True, kw_only=True)
class RandomInitialisation:
    """Every model starts from its own random weights."""

    def stream(self, rng: np.random.Generator) -> np.random.Generator:
        return rng


Initialisation = FixedInitialisation | RandomInitialisation


@dataclass(frozen=True, kw_only=True)
class Network:
    """One hidden layer of rectified linear units, softmax, cross-entropy, descent with momentum.

    Records are reshuffled for each epoch; the last batch of an epoch may be smaller.  Weights are
    initialised uniformly as in Glorot and Bengio (2010), biases at 0.  The defaults are the setting of
    section 4.2 of the paper, with random initialisation.

    Parameters
    ----------
    hidden, epochs, batch_size
        Whole numbers >= 1.
    classes
        Number of labels, which are whole numbers from 0 to classes - 1.
    learning_rate
        > 0; gradients are means over the batch.
    momentum
        In [0, 1): velocity = momentum * velocity - learning_rate * gradient.
    initialisation
        `RandomInitialisation()` or `FixedInitialisation(seed=...)`.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> data = Dataset(features=np.eye(4), labels=np.array([0, 1, 0, 1]))
    >>> network = Network(hidden=8, classes=2, epochs=100, batch_size=2, learning_rate=0.1)
    >>> model = network.train(data, rng)
    >>> network.loss(model, Point(features=np.eye(4)[1], label=1)) < 0.1
    True
    """

    hidden: int = 128
    classes: int = 10
    epochs: int = 200
    batch_size: int = 100
    learning_rate: float = 0.01
    momentum: float = 0.9
    initialisation: Initialisation = field(default_factory=RandomInitialisation)
    #: Always true; a part of the identity by which stores know their algorithm.
    sparse: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("hidden", "classes", "epochs", "batch_size"):
            _validate.whole_number(name, getattr(self, name))
        _validate.positive("learning_rate", self.learning_rate)
        _validate.below_one("momentum", self.momentum)
        if not isinstance(self.initialisation, Initialisation):
            raise InputError(
                "expected RandomInitialisation() or FixedInitialisation(seed=...), "
                f"got initialisation={self.initialisation!r}."
            )

    def train(self, dataset: Dataset, rng: np.random.Generator) -> NetworkModel:
        from epsilometer.training.network_kernels import aligned_zeros, sparse_records, train_sparse

        labels = self._labels(dataset)
        rows = np.asarray(dataset.features, dtype=np.float32).reshape(len(dataset), -1)
        start = self.initial(rows.shape[1], self.initialisation.stream(rng))
        orders = np.stack([rng.permutation(len(rows)) for _ in range(self.epochs)])
        model = NetworkModel(*(aligned_zeros(*part.shape) for part in start))
        for part, begun in zip(model, start, strict=True):
            part[...] = begun
        size = min(self.batch_size, len(rows))
        # Divergence shows in the loss; no warnings are needed during training.
        with np.errstate(over="ignore", invalid="ignore"):
            train_sparse(
                *sparse_records(rows),
                labels,
                orders,
                size,
                np.float32(self.learning_rate),
                np.float32(self.momentum),
                *model,
                aligned_zeros(*model.hidden_weights.shape),
                aligned_zeros(*model.output_weights.shape),
                aligned_zeros(size, self.hidden),  # activations of the hidden units
                aligned_zeros(size, self.hidden),  # their gradients
            )
        return model

    def initial(self, inputs: int, rng: np.random.Generator) -> NetworkModel:
        """Weights before training: uniform within sqrt(6 / (units before + units after)); biases 0."""

        def uniform(shape: tuple[int, int]) -> Floats:
            bound = np.sqrt(6.0 / sum(shape))
            return rng.uniform(-bound, bound, shape).astype(np.float32)

        return NetworkModel(
            uniform((inputs, self.hidden)),
            np.zeros(self.hidden, dtype=np.float32),
            uniform((self.classes, self.hidden)),
            np.zeros(self.classes, dtype=np.float32),
        )

    def loss(self, model: NetworkModel, point: Point) -> float:
        """Cross-entropy in nats, in double precision, without lower or upper clipping.

        NaN or infinite for a model that diverged.
        """
        return float(self.losses(model, dataset_of(point))[0])

    def initial_model(self, dataset: Dataset, rng: np.random.Generator) -> NetworkModel:
        """The network before training."""
        return self.initial(dataset.features[:1].size, self.initialisation.stream(rng))

    def losses(self, model: NetworkModel, points: Dataset) -> FloatArray:
        """Cross-entropies of many records at once."""
        labels = self._labels(points)
        into, into_biases, out, out_biases = (part.astype(np.float64) for part in model)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.asarray(points.features, dtype=np.float64).reshape(len(points), -1)
            scores = np.maximum(rows @ into + into_biases, 0.0) @ out.T + out_biases
            label_scores = np.take_along_axis(scores, labels[:, None], axis=1)
            return np.asarray(np.logaddexp.reduce(scores - label_scores, axis=1))

    def parameters(self, model: NetworkModel) -> Floats:
        return np.concatenate([part.ravel() for part in model])

    def with_parameters(self, model: NetworkModel, parameters: Array) -> NetworkModel:
        ends = np.cumsum([part.size for part in model])
        pieces = np.split(np.array(parameters, dtype=np.float32), ends[:-1])
        return NetworkModel(
            *(piece.reshape(part.shape) for piece, part in zip(pieces, model, strict=True))
        )

    def _labels(self, dataset: Dataset) -> IntArray:
        labels = dataset.labels
        if labels is None or labels.dtype.kind not in "iu":
            raise InputError("a network needs integer labels, but this population has none.")
        _validate.whole_number("number of records", len(dataset))
        _validate.shape("labels", labels, (len(dataset),))
        if labels.min() < 0 or labels.max() >= self.classes:
            wrong = labels.max() if labels.max() >= self.classes else labels.min()
            raise InputError(
                f"expected whole numbers from 0 to {self.classes - 1} as labels "
                f"(classes={self.classes}), got {wrong}."
            )
        return labels.astype(np.int64)


def network(*, initialisation: str = "random", **options: Any) -> Network:
    """A `Network` from plain values, as in a configuration file.

    ``initialisation`` is ``random``, or ``fixed`` (seed 0); the rest are parameters of `Network`.
    """
    _validate.one_of("initialisation", initialisation, ("random", "fixed"))
    start = RandomInitialisation() if initialisation == "random" else FixedInitialisation()
    return Network(initialisation=start, **options)
