"""The protocols of training algorithms that can be audited, and how an algorithm is identified."""

import inspect
import random
import re
import sys
import textwrap
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
from epsilometer.measurement.source_files import source_digest, source_digests


class Algorithm(Protocol):
    """A training algorithm under audit.

    ``train`` must draw all its randomness from ``rng``, so that any model can be retrained identically
    elsewhere.  ``loss`` returns the model's loss on one record; it must be finite.
    """

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Any: ...

    def loss(self, model: Any, point: Point) -> float: ...


def loss_as_number(value: Any, call: str = "loss(model, point)") -> float:
    """What ``loss`` returned, as a number; names the type of anything else.

    Examples
    --------
    >>> loss_as_number(None)
    Traceback (most recent call last):
    epsilometer.errors.InputError: loss(model, point) returned None; expected a number
    """
    try:
        return float(value)
    except (RuntimeError, TypeError, ValueError):  # PyTorch raises a RuntimeError
        kind, shape = type(value).__name__, getattr(value, "shape", None)
        what = "None" if value is None else f"a value of type {kind}"
        if shape:
            what += f" and shape {tuple(shape)}"
        raise InputError(f"{call} returned {what}; expected a number") from None


@runtime_checkable
class TrainsMany(Protocol):
    """Trains a batch of models at once; each must equal what ``train`` returns for its data and rng."""

    def train_many(
        self, datasets: Sequence[Dataset], rngs: Sequence[np.random.Generator]
    ) -> Sequence[Any]: ...


@runtime_checkable
class HasParameters(Protocol):
    """Exposes a model's parameters as one vector, so that wrappers can perturb them before release.

    An adapter that supports this for some models only explains why not in a text attribute
    ``no_parameters`` (empty or absent otherwise), so that a wrapper can refuse before training starts.
    """

    def parameters(self, model: Any) -> Array: ...

    def with_parameters(self, model: Any, parameters: Array) -> Any:
        """A copy of the model with other parameters; the original is not changed."""


@runtime_checkable
class Releases(Protocol):
    """Releases several variants of each trained model, which share one training run.

    Losses are stored per variant, by name.  ``rng`` depends on the model and the variant, so adding a
    variant later does not change the others.
    """

    @property
    def variants(self) -> tuple[str, ...]: ...

    def release(self, model: Any, variant: str, rng: np.random.Generator) -> Any: ...


@runtime_checkable
class ScoresMany(Protocol):
    """Computes the losses of many records at once, in order."""

    def losses(self, model: Any, points: Dataset) -> Sequence[float]: ...


@runtime_checkable
class HasQueries(Protocol):
    """Augments a point: the models of a pool are queried at the point and at each augmentation.

    Returns features of shape (queries, ...), the same number for every point; the label is unchanged.
    It must be deterministic: a point has the same queries under every model.
    """

    def queries(self, point: Point) -> Array: ...


@runtime_checkable
class HasInitialModel(Protocol):
    """Returns the model from which ``train`` starts when given the same ``rng``.

    ``dataset`` provides the shapes; it contains no canaries, because only the model may depend on them.
    """

    def initial_model(self, dataset: Dataset, rng: np.random.Generator) -> Any: ...


@runtime_checkable
class PlantsCanaries(Protocol):
    """Inserts canaries into its own gradients and scores them by the gradients that it releases.

    ``gradient_canaries`` is their number; 0 for none.
    """

    @property
    def gradient_canaries(self) -> int: ...

    @property
    def canary_settings(self) -> dict[str, object]:
        """Settings that affect the scores but not how models are trained, as plain values."""

    def gradient_scores(
        self, dataset: Dataset, included: BoolArray, rng: np.random.Generator
    ) -> Array:
        """Train with the included canaries; returns one score per canary, higher for members."""


@runtime_checkable
class Claims(Protocol):
    """States its own privacy guarantee, which is tested when an audit states no claim."""

    def claimed_epsilon(self, delta: float) -> float:
        """The guaranteed epsilon at a delta, when one record is added or removed.

        Infinite if there is no guarantee.  Replacing a record is two such steps, so the guarantee does
        not cover audits that replace records.
        """


class TrainingClaim(Claims, Protocol):
    """The privacy guarantee of a model that was trained."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Reasons to distrust the guarantee, whatever its epsilon; one sentence each."""


@runtime_checkable
class ClaimsByTraining(Protocol):
    """Accounts for privacy while training, so a model must be trained to know the guarantee."""

    @property
    def accounts(self) -> bool:
        """Whether it does; a wrapper has this method whatever it wraps."""

    def claim_by_training(self, dataset: Dataset, rng: np.random.Generator) -> TrainingClaim:
        """Train as ``train`` does, and return the privacy guarantee of the model.

        Two guarantees compare equal if their accounting is the same.
        """


def variants_of(algorithm: object) -> tuple[str, ...]:
    """Names of the variants; one empty name for an algorithm that releases its model unchanged."""
    return algorithm.variants if isinstance(algorithm, Releases) else ("",)


#: Batch size of algorithms that train batches and set no ``batch_size``.
BATCH_SIZE = 16


def batch_size_of(algorithm: object) -> int:
    """How many models an algorithm trains at once; at least 1."""
    if not isinstance(algorithm, TrainsMany):
        return 1
    return max(1, int(getattr(algorithm, "batch_size", None) or BATCH_SIZE))


def check(algorithm: Any, *, name: str = "the algorithm") -> None:
    """Raise :class:`InputError` unless the algorithm has ``train`` and ``loss``."""
    if inspect.isclass(algorithm):
        raise InputError(f"{name}: expected an object with train and loss, got a class.")
    for method in ("train", "loss"):
        if not callable(getattr(algorithm, method, None)):
            raise InputError(
                f"{name}: expected an object with train(dataset, rng) and loss(model, point), "
                f"got {type(algorithm).__name__} without {method}."
            )


#: Key of source-code hashes in an identity; it contains a space, so no attribute can have this
#: name.
SOURCE = "source file"

#: Values nested more deeply are refused: they contain themselves, or are too complex to compare.
DEEPEST_NESTING = 30

#: Types that are fully described by their repr.
_PLAIN = (bytes, Path, Decimal, Fraction, date, time, re.Pattern, complex, slice, range, np.dtype)

#: Random generators: their state changes with use, so they cannot be described.
_STREAMS = (np.random.Generator, np.random.RandomState, random.Random)


def identity(algorithm: object) -> dict[str, Any]:
    """A description of an algorithm in plain values; equal identities train equal models.

    The algorithm's ``fingerprint`` attribute (text) if it has one; otherwise its class, the source files
    of its class and base classes, and all attributes except those that the class lists in ``may_grow``.

    Raises
    ------
    InputError
        If an attribute cannot be described, so that a change to it could go unnoticed.
    """
    return _described_object(algorithm, "algorithm", 0)


def _described(value: Any, where: str, depth: int) -> Any:
    if depth > DEEPEST_NESTING:
        raise _undescribable(value, where)
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
    if (description := _described_array(value)) is not None:
        return description
    given = getattr(value, "fingerprint", None)
    if isinstance(given, str):
        return {"class": _name(type(value)), "fingerprint": given}
    if isinstance(value, partial):
        return {"partial": _described([value.func, value.args, value.keywords], where, depth + 1)}
    if inspect.isclass(value):
        return {"object": _name(value)} | _source(value)
    if inspect.isroutine(value):
        held = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        owner = getattr(value, "__self__", None)
        if owner is not None and not inspect.ismodule(owner):
            held.append(owner)
        source = _source(value)
        if source:  # the user's own code; defaults of installed functions are covered by the name
            held += [*(getattr(value, "__defaults__", None) or ())]
            held += [*(getattr(value, "__kwdefaults__", None) or {}).values()]
        holds = {"holds": _described(held, where, depth + 1)} if held else {}
        return {"object": _name(value)} | source | holds
    items = None if isinstance(value, _STREAMS) else _attributes(value)
    if items is None:
        raise _undescribable(value, where)
    settings = {"settings": _described_items(items, where, depth)} if items else {}
    return {"class": _name(type(value))} | _source(type(value)) | settings


def _described_array(value: Any) -> dict[str, Any] | None:
    """Description of arrays and tensors, whose values are in no attribute; None for anything else."""
    if isinstance(value, np.ndarray):
        return {"array": array_fingerprint(value)}
    torch = sys.modules.get("torch")
    if torch is None:
        return None  # without torch loaded, nothing can be a tensor
    if isinstance(value, torch.Tensor):
        raw = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
        return {"tensor": [str(value.dtype), list(value.shape), array_fingerprint(raw)]}
    return {"torch": repr(value)} if isinstance(value, torch.device | torch.dtype) else None


def _undescribable(value: object, where: str) -> InputError:
    return InputError(
        f"{where}: cannot detect whether a {type(value).__name__} has changed between two runs; "
        "give the algorithm a text attribute `fingerprint` and change it whenever its training changes."
    )


def _attributes(value: Any) -> dict[str, Any] | None:
    """All attributes of an object by name; None if its state is stored elsewhere."""
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
    """Digests of the user's files that define it; installed packages are identified by name only."""
    digests: dict[str, str] = {}
    for parent in value.__mro__ if inspect.isclass(value) else (value,):
        digests |= _digests(parent)
    return {SOURCE: dict(sorted(digests.items()))} if digests else {}


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
        return {}  # typed interactively, or compiled
    return {"(typed in)": source_digest(textwrap.dedent(text).encode())}
