"""Any PyTorch module with any training loop, as an algorithm to audit.

Shared with the other PyTorch algorithms: seeding, losses, and parameters as a vector.
"""

import copy
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from epsilometer import _extras
from epsilometer.errors import InputError
from epsilometer.measurement.algorithm import loss_as_number
from epsilometer.measurement.population import Array, Dataset, Point, dataset_of, points_of

#: A ``torch.nn.Module``; typed as Any because PyTorch is imported only when something is trained.
Module = Any

#: Records whose losses are computed at once.
RECORDS_AT_ONCE = 1024

_lock = threading.RLock()


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Seed every global generator from a stream and use one torch thread; restore both afterwards.

    PyTorch, NumPy and `random` each have one generator for the whole process, and some random numbers
    (dropout, initial weights, shuffling) cannot come from elsewhere, so threads take turns here.  A
    single torch thread is used because sums that are split among threads differ in rounding, and models
    must not depend on the number of processors; small modules also train faster.
    """
    torch = loaded()
    with _lock:
        threads, plain = torch.get_num_threads(), random.getstate()
        legacy = np.random.get_state()  # noqa: NPY002 - code that is trained may use it
        devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(rng.integers(2**63)))
            np.random.seed(rng.integers(2**32, size=4))  # noqa: NPY002
            random.seed(int(rng.integers(2**63)))
            torch.set_num_threads(1)
            try:
                yield
            finally:
                torch.set_num_threads(threads)
                np.random.set_state(legacy)  # noqa: NPY002
                random.setstate(plain)


def loaded(module: str = "torch") -> Any:
    """Import a library of the extra ``torch``, or explain what to install."""
    library = module.partition(".")[0]
    return _extras.load(module, f"training with PyTorch needs {library}", "torch")


def check_factory(factory: Any) -> None:
    """Raise :class:`InputError` unless ``factory`` is callable and not itself a module."""
    already_one = hasattr(factory, "state_dict") and not isinstance(factory, type)
    if already_one or not callable(factory):
        raise InputError(
            "expected module to be a class or function that returns a new torch.nn.Module, so that "
            f"every model starts from scratch, got {type(factory).__name__}."
        )


def new_module(factory: Callable[[], Any]) -> Module:
    """A new module."""
    module = factory()
    if not isinstance(module, loaded().nn.Module):
        raise InputError(f"expected module() to return a torch.nn.Module, got {module!r}.")
    return module


def in_evaluation_mode(module: Module) -> Module:
    """A trained module in evaluation mode, without gradients."""
    module.zero_grad(set_to_none=True)
    return module.eval()


def features_for(module: Module, features: Array) -> Any:
    """A copy of the features as a tensor with the dtype and device of the module's parameters."""
    torch = loaded()
    first = next(module.parameters(), torch.empty(0))
    return torch.tensor(np.asarray(features), dtype=first.dtype, device=first.device)


def labels_of(dataset: Dataset) -> Array:
    """Labels of a dataset, which must be whole numbers from 0."""
    labels = dataset.labels
    if labels is None or labels.dtype.kind not in "iu":
        raise InputError("cross-entropy needs integer labels, but these records have none.")
    if len(labels) and labels.min() < 0:
        raise InputError(f"expected labels from 0, got {labels.min()}.")
    return labels.astype(np.int64)


def cross_entropies(module: Module, points: Dataset) -> Array:
    """Cross-entropies of records in nats, in order, without lower or upper clipping.

    The module computes scores in its own precision; the rest is in double precision and accurate near 0.
    """
    labels, losses = labels_of(points), []
    for start in range(0, len(points), RECORDS_AT_ONCE):
        part = slice(start, start + RECORDS_AT_ONCE)
        with loaded().no_grad():
            output = module(features_for(module, points.features[part]))
        size, most = len(labels[part]), labels[part].max()
        if output.ndim != 2 or len(output) != size:
            raise InputError(
                "expected the module to return scores of shape (records, classes), got shape "
                f"{tuple(output.shape)} for {size} records; pass your own loss."
            )
        scores = output.double().cpu().numpy()
        if most >= scores.shape[1]:
            raise InputError(f"expected labels from 0 to {scores.shape[1] - 1}, got {most}.")
        label_scores = np.take_along_axis(scores, labels[part][:, None], axis=1)
        with np.errstate(all="ignore"):  # losses that are not finite are reported as such
            losses.append(np.logaddexp.reduce(scores - label_scores, axis=1))
    return np.concatenate(losses)


def trainable_parameters(module: Module) -> list[Any]:
    """The trainable parameters; excludes buffers, such as running means."""
    parts = [part for part in module.parameters() if part.requires_grad]
    if not parts:
        raise InputError(f"{type(module).__name__} has no trainable parameters.")
    return parts


class ModuleAlgorithm:
    """What algorithms whose models are modules share: losses, the initial model, and parameters."""

    module: Callable[[], Any]

    def loss(self, model: Module, point: Point) -> float:
        """Cross-entropy of one record in nats, in evaluation mode."""
        return float(self.losses(model, dataset_of(point))[0])

    def losses(self, model: Module, points: Dataset) -> Array:
        """Cross-entropies of many records at once."""
        # A module may still draw random numbers.  They must not come from the generators of another
        # thread's training, and losses must be reproducible, so every loss uses the same seed.
        with seeded(np.random.default_rng(0)):
            return cross_entropies(model.eval(), points)

    def initial_model(self, dataset: Dataset, rng: np.random.Generator) -> Module:
        """The module before training."""
        with seeded(rng):
            return in_evaluation_mode(new_module(self.module))

    def parameters(self, model: Module) -> Array:
        """All trainable parameters as one vector."""
        parts = [part.detach().cpu().numpy().ravel() for part in trainable_parameters(model)]
        return np.concatenate(parts)

    def with_parameters(self, model: Module, parameters: Array) -> Module:
        """A copy with other parameters."""
        torch = loaded()
        changed = copy.deepcopy(model)
        parts = trainable_parameters(changed)
        ends = np.cumsum([part.numel() for part in parts])
        with torch.no_grad():
            for part, piece in zip(parts, np.split(np.asarray(parameters), ends[:-1]), strict=True):
                part.copy_(torch.tensor(piece).reshape(part.shape))
        return changed


@dataclass(frozen=True, kw_only=True)
class PyTorch(ModuleAlgorithm):
    """Train your own module with your own training loop.

    ``fit`` may use the global generators of PyTorch, NumPy and `random` as training code usually does:
    they are seeded from the model's stream before the module is created, and restored afterwards.  Do
    not seed them in your code.  Because of this, the executor ``threads`` trains one model at a time;
    use ``processes`` to train in parallel.

    For ``processes``, define functions at the top level of an importable module.

    Parameters
    ----------
    module
        A class or function without arguments that returns a ``torch.nn.Module``.
    fit
        ``fit(module, dataset)`` trains the module in place.  The dataset holds NumPy arrays,
        ``dataset.features`` and ``dataset.labels``.
    loss
        ``loss(module, point)``, a finite number for one record.  Default: cross-entropy, for which the
        module takes features with its parameters' dtype, one row per record, and returns one score per
        class.

    Examples
    --------
    >>> from functools import partial
    >>> import torch
    >>> def fit(module, dataset):
    ...     features = torch.tensor(dataset.features, dtype=torch.float32)
    ...     descent = torch.optim.SGD(module.parameters(), lr=1.0)
    ...     for _ in range(100):
    ...         descent.zero_grad()
    ...         scores = module(features)
    ...         torch.nn.functional.cross_entropy(scores, torch.tensor(dataset.labels)).backward()
    ...         descent.step()
    >>> algorithm = PyTorch(module=partial(torch.nn.Linear, 2, 2), fit=fit)
    >>> data = Dataset(features=np.eye(2), labels=np.array([0, 1]))
    >>> model = algorithm.train(data, np.random.default_rng(1))
    >>> algorithm.loss(model, Point(features=np.eye(2)[1], label=1)) < 0.1
    True
    """

    module: Callable[[], Any]
    fit: Callable[[Any, Dataset], Any]
    loss_function: Callable[[Any, Point], float] | None

    def __init__(
        self,
        *,
        module: Callable[[], Any],
        fit: Callable[[Any, Dataset], Any],
        loss: Callable[[Any, Point], float] | None = None,
    ) -> None:
        if find_spec("torch") is None:  # without importing it, which takes seconds
            loaded()  # explains how to install it
        check_factory(module)
        for name, function in (("fit", fit), ("loss", loss)):
            if not callable(function) and (name, function) != ("loss", None):
                raise InputError(f"expected {name} to be a function, got {name}={function!r}.")
        vars(self).update(module=module, fit=fit, loss_function=loss)

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Module:
        with seeded(rng):
            module = new_module(self.module)
            returned = self.fit(module.train(), dataset)
        if returned is not None and returned is not module:
            raise InputError(
                "expected fit to train the given module in place and to return nothing, "
                f"got a {type(returned).__name__} back."
            )
        return in_evaluation_mode(module)

    def loss(self, model: Module, point: Point) -> float:
        """The loss of one record, in evaluation mode."""
        if self.loss_function is None:
            return super().loss(model, point)
        with seeded(np.random.default_rng(0)):
            return loss_as_number(self.loss_function(model.eval(), point), "loss(module, point)")

    def losses(self, model: Module, points: Dataset) -> Array:
        """Losses of many records; computed together if the loss is cross-entropy."""
        if self.loss_function is None:
            return super().losses(model, points)
        return np.array([self.loss(model, point) for point in points_of(points)])
