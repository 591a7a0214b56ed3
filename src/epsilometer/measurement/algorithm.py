"""What can be audited: the protocols of training algorithms, and how an algorithm is recognised."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Point, array_fingerprint


class Algorithm(Protocol):
    """A training algorithm under audit.

    ``train`` must draw all randomness from ``rng``, so that a model can be trained again anywhere and
    come out the same.  ``loss`` is the model's loss of one record, finite.
    """

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Any: ...

    def loss(self, model: Any, point: Point) -> float: ...


@runtime_checkable
class TrainsMany(Protocol):
    """Trains a batch of models at once; each must equal what ``train`` makes of its data and stream."""

    def train_many(
        self, datasets: Sequence[Dataset], rngs: Sequence[np.random.Generator]
    ) -> Sequence[Any]: ...


@runtime_checkable
class HasParameters(Protocol):
    """Exposes a model's parameters as one vector, so that wrappers can perturb what is released."""

    def parameters(self, model: Any) -> Array: ...

    def with_parameters(self, model: Any, parameters: Array) -> Any:
        """A model like the given one with other parameters; the given one is left as it is."""
        ...


@runtime_checkable
class Releases(Protocol):
    """Releases several variants of each trained model, which then share the training.

    Losses are kept for each variant by name.  ``rng`` belongs to model and variant, so a variant added
    later leaves the others as they were.
    """

    @property
    def variants(self) -> tuple[str, ...]: ...

    def release(self, model: Any, variant: str, rng: np.random.Generator) -> Any: ...


ONLY = ""
"""Name of the variant of an algorithm that releases its model as it is."""


def variants_of(algorithm: object) -> tuple[str, ...]:
    """Names of the variants; one without a name for most algorithms."""
    return algorithm.variants if isinstance(algorithm, Releases) else (ONLY,)


BATCH = 16
"""Models at once for algorithms that train a batch and state no ``batch_size``."""


def batch_size_of(algorithm: object) -> int:
    """How many models an algorithm wants to train at once, at least."""
    usual = BATCH if isinstance(algorithm, TrainsMany) else 1
    return max(1, int(getattr(algorithm, "batch_size", usual)))


def check(algorithm: Any, *, name: str = "the algorithm") -> None:
    """Raise :class:`InputError` unless it has train and loss."""
    if inspect.isclass(algorithm):
        raise InputError(f"{name}: expected an object with train and loss, got a class.")
    for method in ("train", "loss"):
        if not callable(getattr(algorithm, method, None)):
            raise InputError(
                f"{name}: expected an object with train(dataset, rng) and loss(model, point), "
                f"got {type(algorithm).__name__} without {method}."
            )


def identity(algorithm: object) -> dict[str, Any]:
    """What an algorithm is, in plain values: equal identities train equal models.

    Its own ``fingerprint`` attribute (text) if it has one; otherwise its class, the source file of its
    class, and all its attributes.

    Raises
    ------
    InputError
        If an attribute has no plain description, so that a change of it could go unseen.
    """
    described = _described(algorithm, "algorithm")
    return described if isinstance(described, dict) else {"value": described}


def _described(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Path):
        return str(value)  # the shortest text that reads back to the same number
    if isinstance(value, list | tuple):
        return [_described(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): _described(item, f"{where}.{key}") for key, item in value.items()}
    return _described_object(value, where)


def _described_object(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, np.ndarray):
        return {"array": array_fingerprint(value)}
    given = getattr(value, "fingerprint", None)
    if isinstance(given, str):
        return {"class": _name(type(value)), "fingerprint": given}
    if inspect.isclass(value) or inspect.isroutine(value):
        return {"object": _name(value)} | _source(value)
    if isinstance(value, np.random.Generator) or not _has_attributes(value):
        raise InputError(
            f"{where}: cannot tell whether a {type(value).__name__} has changed between two runs; "
            "give the algorithm a text attribute `fingerprint` that you change with it."
        )
    return {"class": _name(type(value))} | _source(type(value)) | _attributes(value, where)


def _has_attributes(value: object) -> bool:
    return is_dataclass(value) or type(value).__module__ != "builtins"


def _attributes(value: Any, where: str) -> dict[str, Any]:
    if is_dataclass(value):
        items = {part.name: getattr(value, part.name) for part in fields(value)}
    else:
        items = dict(getattr(value, "__dict__", {}))
    shown = {name: _described(item, f"{where}.{name}") for name, item in items.items()}
    return {"settings": shown} if shown else {}


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', repr(value))}"


def _source(value: Any) -> dict[str, str]:
    """Hash of the file that defines it; installed packages are known by their name alone."""
    module = str(getattr(value, "__module__", ""))
    try:
        file = inspect.getsourcefile(value)
    except TypeError:
        return {}
    if file is None or module.startswith("epsilometer.") or "site-packages" in Path(file).parts:
        return {}
    try:
        return {"source": hashlib.sha256(Path(file).read_bytes()).hexdigest()}
    except OSError:
        return {}
