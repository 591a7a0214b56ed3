"""What the algorithms on PyTorch share: randomness from one stream, losses, parameters as a vector."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from epsilometer import _extras
from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Point

Module = Any
"""A ``torch.nn.Module``.  Not named as such: PyTorch is loaded when something is trained."""

BATCH = 1024
"""Records whose losses are computed at once."""

_in_turn = threading.RLock()


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Seed every global generator from a stream, and use one torch thread; restore all of it at the end.

    PyTorch, NumPy and `random` each have one generator for the whole process, and some of what is drawn
    (dropout, initial weights, shuffling) cannot be drawn from another.  So threads come in here one
    after the other.  One torch thread, because sums split among threads differ in rounding, and models
    must not depend on the number of processors; small modules are trained faster as well.
    """
    torch = loaded()
    with _in_turn:
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
    """A library of the extra ``torch``, or what to install."""
    library = module.partition(".")[0]
    return _extras.load(module, f"training with PyTorch needs {library}", "torch")


def check_factory(factory: Any) -> None:
    """Raise :class:`InputError` unless it can be called for a new module; does not call it."""
    already_one = hasattr(factory, "state_dict") and not isinstance(factory, type)
    if already_one or not callable(factory):
        raise InputError(
            "expected module to be a class or function that makes one, so that every model starts "
            f"afresh, got {type(factory).__name__}."
        )


def made(factory: Callable[[], Any]) -> Module:
    """A new module."""
    module = factory()
    if not isinstance(module, loaded().nn.Module):
        raise InputError(f"expected module() to make a torch.nn.Module, got {module!r}.")
    return module


def initial(factory: Callable[[], Any], rng: np.random.Generator) -> Module:
    """The module that training from this stream starts with."""
    with seeded(rng):
        return finished(made(factory))


def finished(module: Module) -> Module:
    """A trained module as it is kept: ready to predict, without gradients."""
    module.zero_grad(set_to_none=True)
    return module.eval()


def features_for(module: Module, features: Array) -> Any:
    """Features as a tensor of their own, of the type of the module's parameters."""
    torch = loaded()
    first = next(module.parameters(), None)
    if first is None:
        return torch.tensor(np.asarray(features), dtype=torch.get_default_dtype())
    return torch.tensor(np.asarray(features), dtype=first.dtype, device=first.device)


def labels_of(dataset: Dataset) -> Array:
    """Labels of a data set, which must be whole numbers from 0."""
    labels = dataset.labels
    if labels is None or labels.dtype.kind not in "iu":
        raise InputError("cross-entropy needs whole numbers as labels; this population has none.")
    if len(labels) and labels.min() < 0:
        raise InputError(f"expected labels from 0, got {labels.min()}.")
    return labels.astype(np.int64)


def cross_entropy(module: Module, point: Point) -> float:
    """Cross-entropy of one record in nats: from 0 up, without a floor or a ceiling.

    The module answers in its own precision; what follows is double, and exact near 0.
    """
    torch = loaded()
    with torch.no_grad():
        answer = module(features_for(module, point.features)[None])
    if answer.ndim != 2 or len(answer) != 1:
        raise InputError(
            "expected the module to answer scores (records, classes), got shape "
            f"{tuple(answer.shape)} for one record; give a loss of your own."
        )
    scores = answer[0].double().cpu().numpy()
    label = point.label
    if not isinstance(label, int | np.integer) or not 0 <= label < len(scores):
        raise InputError(f"expected labels from 0 to {len(scores) - 1}, got {label}.")
    return float(np.logaddexp.reduce(scores - scores[label]))


def cross_entropies(module: Module, points: Dataset) -> Array:
    """The same of many records, in their order."""
    torch = loaded()
    labels, found = labels_of(points), []
    for start in range(0, len(points), BATCH):
        part = slice(start, start + BATCH)
        with torch.no_grad():
            answer = module(features_for(module, points.features[part]))
        size = len(labels[part])
        if answer.ndim != 2 or len(answer) != size:
            raise InputError(
                "expected the module to answer scores (records, classes), got shape "
                f"{tuple(answer.shape)} for {size} records; give a loss of your own."
            )
        scores = answer.double().cpu().numpy()
        if labels[part].max() >= scores.shape[1]:
            raise InputError(
                f"expected labels from 0 to {scores.shape[1] - 1}, got {labels[part].max()}."
            )
        own = np.take_along_axis(scores, labels[part][:, None], axis=1)
        found.append(np.logaddexp.reduce(scores - own, axis=1))
    return np.concatenate(found)


def trained_parts(module: Module) -> list[Any]:
    """The parameters that are trained; not buffers, such as running means."""
    parts = [part for part in module.parameters() if part.requires_grad]
    if not parts:
        raise InputError(f"{type(module).__name__} has no parameters that are trained.")
    return parts


class ModuleParameters:
    """The parameters of modules, for algorithms whose models are modules."""

    def parameters(self, model: Module) -> Array:
        """All parameters that are trained, as one vector."""
        parts = [part.detach().cpu().numpy().ravel() for part in trained_parts(model)]
        return np.concatenate(parts)

    def with_parameters(self, model: Module, parameters: Array) -> Module:
        """A copy with other parameters."""
        torch = loaded()
        changed = copy.deepcopy(model)
        parts = trained_parts(changed)
        ends = np.cumsum([part.numel() for part in parts])
        with torch.no_grad():
            for part, piece in zip(parts, np.split(np.asarray(parameters), ends[:-1]), strict=True):
                part.copy_(torch.tensor(piece).reshape(part.shape))
        return changed
