"""What can be audited: the protocols of training algorithms, and how an algorithm is recognised."""

from __future__ import annotations

import hashlib
import inspect
import random
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from epsilometer._arrays import BoolArray
from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Point, array_fingerprint
from epsilometer.measurement.source_files import source_digests


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
    """Exposes a model's parameters as one vector, so that wrappers can perturb what is released.

    An adapter that has these methods for some of its models only says why not in a text attribute
    ``no_parameters``, empty or absent otherwise: so a wrapper can refuse before anything is trained.
    """

    def parameters(self, model: Any) -> Array: ...

    def with_parameters(self, model: Any, parameters: Array) -> Any:
        """A model like the given one with other parameters; the given one is left as it is."""


@runtime_checkable
class Releases(Protocol):
    """Releases several variants of each trained model, which then share the training.

    Losses are kept for each variant by name.  ``rng`` belongs to model and variant, so a variant added
    later leaves the others as they were.
    """

    @property
    def variants(self) -> tuple[str, ...]: ...

    def release(self, model: Any, variant: str, rng: np.random.Generator) -> Any: ...


@runtime_checkable
class ScoresMany(Protocol):
    """Computes the losses of many records at once, in their order."""

    def losses(self, model: Any, points: Dataset) -> Sequence[float]: ...


@runtime_checkable
class HasQueries(Protocol):
    """Augments a point: a pool's models are asked about the point and about each of these.

    Answers features (queries, ...), equally many for every point; the label stays.  It must not be
    random: the same point has the same queries under every model.
    """

    def queries(self, point: Point) -> Array: ...


@runtime_checkable
class HasInitialModel(Protocol):
    """Tells the model from which ``train`` starts with the same stream.

    ``dataset`` is for its shape: it has no canaries, as nothing may depend on these but the model.
    """

    def initial_model(self, dataset: Dataset, rng: np.random.Generator) -> Any: ...


@runtime_checkable
class PlantsCanaries(Protocol):
    """Plants canaries in its own gradients, and scores them by the gradients that it releases.

    ``gradient_canaries`` is how many; 0 for none.
    """

    @property
    def gradient_canaries(self) -> int: ...

    @property
    def canary_settings(self) -> dict[str, object]:
        """What decides their scores beside how models are trained, in plain values."""

    def gradient_scores(
        self, dataset: Dataset, included: BoolArray, rng: np.random.Generator
    ) -> Array:
        """Train with those canaries that are included; a score for each, higher for members."""


@runtime_checkable
class Claims(Protocol):
    """Promises a privacy of its own, which an audit that states no claim is held against."""

    def claimed_epsilon(self, delta: float) -> float:
        """The promised epsilon at a delta, for data sets that differ by one record more or less.

        Infinite where nothing is promised.  A record in place of another is two such steps, so this is
        no promise for audits that replace records.
        """


class TrainingClaim(Claims, Protocol):
    """What is promised of models that were trained."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against the promise, whatever it says: a sentence each."""


@runtime_checkable
class ClaimsByTraining(Protocol):
    """Promises what its training accounts for, so that a model must be trained to know it."""

    @property
    def accounts(self) -> bool:
        """Whether it does: a wrapper has the method whatever it wraps."""

    def claim_by_training(self, dataset: Dataset, rng: np.random.Generator) -> TrainingClaim:
        """Train as ``train`` does, and tell what is promised of the model.

        Promises of two models are equal if the same was accounted for.
        """


def variants_of(algorithm: object) -> tuple[str, ...]:
    """Names of the variants; of an algorithm that releases its model as it is one without a name."""
    return algorithm.variants if isinstance(algorithm, Releases) else ("",)


BATCH = 16
"""Models at once for algorithms that train a batch and state no ``batch_size``."""


def batch_size_of(algorithm: object) -> int:
    """How many models an algorithm wants to train at once, at least."""
    if not isinstance(algorithm, TrainsMany):
        return 1
    return max(1, int(getattr(algorithm, "batch_size", None) or BATCH))


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


SOURCE = "source file"
"""Key under which an identity holds the hash of code; no attribute can have a name with a blank."""

DEEPEST = 30
"""Values nested deeper are refused: they hold themselves, or nobody could compare them."""

_PLAIN = (bytes, Path, Decimal, Fraction, date, time, re.Pattern, complex, slice, range, np.dtype)
"""What its own text tells apart."""

_STREAMS = (np.random.Generator, np.random.RandomState, random.Random)
"""What moves on while it is used, so that no description of it lasts."""


def identity(algorithm: object) -> dict[str, Any]:
    """What an algorithm is, in plain values: equal identities train equal models.

    Its own ``fingerprint`` attribute (text) if it has one; otherwise its class, the source files of its
    class and of its parents, and all its attributes but those its class lists in ``may_grow``.

    Raises
    ------
    InputError
        If an attribute has no plain description, so that a change of it could go unseen.
    """
    return _described_object(algorithm, "algorithm", 0)


def _described(value: Any, where: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise _unclear(value, where)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [
            _described(item, f"{where}[{number}]", depth + 1) for number, item in enumerate(value)
        ]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return _described_items(value, where, depth)
        pairs = [[key, item] for key, item in value.items()]
        return {"mapping": _described(pairs, where, depth + 1)}
    if isinstance(value, _PLAIN):
        return {type(value).__name__: repr(value)}
    return _described_object(value, where, depth)


def _described_items(items: Mapping[str, Any], where: str, depth: int) -> dict[str, Any]:
    return {name: _described(item, f"{where}.{name}", depth + 1) for name, item in items.items()}


def _described_object(value: Any, where: str, depth: int) -> dict[str, Any]:
    if (found := _described_array(value)) is not None:
        return found
    given = getattr(value, "fingerprint", None)
    if isinstance(given, str):
        return {"class": _name(type(value)), "fingerprint": given}
    if isinstance(value, partial):
        parts = [value.func, value.args, value.keywords]
        return {"partial": _described(parts, where, depth + 1)}
    if inspect.isclass(value):
        return {"object": _name(value)} | _source(value)
    if inspect.isroutine(value):
        held = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        owner = getattr(value, "__self__", None)
        if owner is not None and not inspect.ismodule(owner):
            held.append(owner)
        source = _source(value)
        if source:  # the user's own; defaults of installed functions are known by the name
            held += [*(getattr(value, "__defaults__", None) or ())]
            held += [*(getattr(value, "__kwdefaults__", None) or {}).values()]
        holds = {"holds": _described(held, where, depth + 1)} if held else {}
        return {"object": _name(value)} | source | holds
    items = None if isinstance(value, _STREAMS) else _attributes(value)
    if items is None:
        raise _unclear(value, where)
    settings = {"settings": _described_items(items, where, depth)} if items else {}
    return {"class": _name(type(value))} | _source(type(value)) | settings


def _described_array(value: Any) -> dict[str, Any] | None:
    """Arrays and tensors, which keep their numbers where no attribute shows them; None for the rest."""
    if isinstance(value, np.ndarray):
        return {"array": array_fingerprint(value)}
    torch = sys.modules.get("torch")
    if torch is None:
        return None  # nothing is a tensor before somebody has loaded it
    if isinstance(value, torch.Tensor):
        raw = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
        return {"tensor": [str(value.dtype), list(value.shape), array_fingerprint(raw)]}
    return {"torch": repr(value)} if isinstance(value, torch.device | torch.dtype) else None


def _unclear(value: object, where: str) -> InputError:
    return InputError(
        f"{where}: cannot tell whether a {type(value).__name__} has changed between two runs; "
        "give the algorithm a text attribute `fingerprint` that you change with it."
    )


def _attributes(value: Any) -> dict[str, Any] | None:
    """All attributes of an object by name; None if it keeps its state elsewhere."""
    declared = [
        vars(kind)["__slots__"] for kind in type(value).__mro__ if "__slots__" in vars(kind)
    ]
    if not declared and not hasattr(value, "__dict__"):
        return None
    names = list(getattr(value, "__dict__", ()))
    for slots in declared:
        names += [slots] if isinstance(slots, str) else list(slots)
    growing = getattr(type(value), "may_grow", ())
    return {
        name: getattr(value, name)
        for name in dict.fromkeys(names)
        if name not in growing and not name.startswith("__") and hasattr(value, name)
    }


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', repr(value))}"


def _source(value: Any) -> dict[str, Any]:
    """Hashes of the user's files that define it; installed packages are known by their name alone."""
    found: dict[str, str] = {}
    for parent in value.__mro__ if inspect.isclass(value) else (value,):
        found |= _digests(parent)
    return {SOURCE: dict(sorted(found.items()))} if found else {}


def _digests(value: Any) -> dict[str, str]:
    module = str(getattr(value, "__module__", None) or "")
    if module.partition(".")[0] in {"epsilometer", "builtins", *sys.stdlib_module_names}:
        return {}
    try:
        file = inspect.getsourcefile(value)
        if file is not None and Path(file).is_file():
            return source_digests(Path(file))
        text = inspect.getsource(value)
    except (OSError, TypeError):
        return {}  # typed in, or compiled
    return {"(typed in)": hashlib.sha256(text.encode()).hexdigest()}
