"""Identities of algorithms: anything that could change the models must change the identity."""

from __future__ import annotations

import datetime
import decimal
import functools
import importlib.util
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.errors import InputError
from epsilometer.measurement.algorithm import (
    BATCH_SIZE,
    SOURCE,
    batch_size_of,
    check,
    identity,
    variants_of,
)
from epsilometer.measurement.plan import differences
from epsilometer.training.clipped_mean import ClippedMean
from epsilometer.training.output_perturbation import NoiseLevels, OutputPerturbation


class Holder:
    """An algorithm with one attribute."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def train(self, dataset: Any, rng: Any) -> None: ...

    def loss(self, model: Any, point: Any) -> float:
        return 0.0


class Slotted:
    """Stores its value where `vars` does not see it."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


@dataclass(frozen=True, kw_only=True)
class Nested:
    depth: int
    inside: Any = None


def closed_over(value: int) -> Callable[[], int]:
    return lambda: value


def with_default(value: int) -> Callable[..., int]:
    return lambda x=value: x


def with_named_default(value: int) -> Callable[..., int]:
    def named(*, x: int = value) -> int:
        return x

    return named


class Extended(ClippedMean):
    """A dataclass with an attribute in addition to its fields."""

    def __init__(self, extra: int) -> None:
        super().__init__(noise=0.1, records=10)
        object.__setattr__(self, "extra", extra)


PAIRS: dict[str, tuple[Any, Any]] = {
    "numbers": (1, 2),
    "nearby numbers": (0.1, np.nextafter(0.1, 1)),
    "whole and real": (1, 1.0),
    "signs of zero": (0.0, -0.0),
    "text": ("a", "b"),
    "number and text": (0.5, "0.5"),
    "nothing and text": (None, "None"),
    "lists": ([1, 2], [2, 1]),
    "mappings": ({"a": 1}, {"a": 2}),
    "keys": ({1: 0}, {"1": 0}),
    "paths": (Path("a"), Path("b")),
    "arrays": (np.arange(3), np.arange(3.0)),
    "numbers of numpy": (np.float64(1), np.float64(2)),
    "objects": (Nested(depth=1), Nested(depth=2)),
    "inner objects": (Nested(depth=1, inside=[Holder(1)]), Nested(depth=1, inside=[Holder(2)])),
    "classes": (Nested, Holder),
    "functions": (np.sum, np.mean),
    "own functions": (closed_over, check),
    "slots": (Slotted(1), Slotted(2)),
    "partial functions": (functools.partial(int, base=2), functools.partial(int, base=3)),
    "closures": (closed_over(1), closed_over(2)),
    "methods": (Holder(1).train, Holder(2).train),
    "patterns": (re.compile("a"), re.compile("b")),
    "decimals": (decimal.Decimal(1), decimal.Decimal(2)),
    "dates": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
    "sets": ({1}, {2}),
    "bytes": (b"a", b"b"),
    "generators": (np.random.default_rng(1), np.random.default_rng(2)),
    "slices": (slice(0, 2), slice(0, 3)),
    "ranges": (range(2), range(3)),
    "types of numbers": (np.dtype("f4"), np.dtype("f8")),
    "defaults": (with_default(1), with_default(2)),
    "defaults by name": (with_named_default(1), with_named_default(2)),
    "plain generators": (random.Random(1), random.Random(2)),
    "old generators": (np.random.RandomState(1), np.random.RandomState(2)),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_change_is_seen_or_refused(kind: str) -> None:
    one, other = PAIRS[kind]
    try:
        described = identity(Holder(one)), identity(Holder(other))
    except InputError as error:
        assert str(error).startswith("algorithm.value: cannot detect whether a ")  # noqa: PT017
        assert "text attribute `fingerprint`" in str(error)  # noqa: PT017
        return
    assert differences(*described)
    assert not differences(identity(Holder(one)), described[0])


def test_errors_name_the_refused_attribute() -> None:
    with pytest.raises(InputError, match=r"algorithm\.value\.list\[1\]: cannot detect"):
        identity(Holder({"list": [0, {1}]}))


def test_a_ring_of_objects_is_refused() -> None:
    ring = Holder()
    ring.value = ring
    with pytest.raises(InputError, match="algorithm"):
        identity(ring)


def test_attributes_besides_the_fields_of_a_dataclass() -> None:
    assert identity(Extended(1)) != identity(Extended(2))


def test_a_custom_fingerprint_is_used() -> None:
    holder = Holder(threading.Lock())
    holder.fingerprint = "version 1"  # type: ignore[attr-defined]
    other = Holder(threading.Lock())
    other.fingerprint = "version 2"  # type: ignore[attr-defined]
    assert identity(holder)["fingerprint"] == "version 1"
    assert identity(holder) != identity(other)
    assert "source" not in identity(holder)
    inside = OutputPerturbation(algorithm=with_parameters("x"), scale=1.0)
    assert identity(inside) != identity(
        OutputPerturbation(algorithm=with_parameters("y"), scale=1.0)
    )


def with_parameters(fingerprint: str) -> Any:
    class Exposed(Holder):
        def parameters(self, model: Any) -> Any: ...

        def with_parameters(self, model: Any, parameters: Any) -> Any: ...

    exposed: Any = Exposed()
    exposed.fingerprint = fingerprint
    return exposed


def from_file(path: Path, text: str, name: str = "mine") -> Any:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


MINE = """
class Mine:
    def train(self, dataset, rng): return 0
    def loss(self, model, point): return {}.0
"""


def test_the_source_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "epsilometer_test_mine.py"
    first = identity(from_file(path, MINE.format(1)).Mine())
    same = identity(from_file(path, MINE.format(1)).Mine())
    second = identity(from_file(path, MINE.format(2)).Mine())
    del sys.modules[path.stem]
    assert first == same
    assert first[SOURCE] != second[SOURCE]
    assert first["class"] == second["class"] == "epsilometer_test_mine:Mine"


def test_the_source_file_of_a_parent_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    parent, child = tmp_path / "epsilometer_test_parent.py", tmp_path / "epsilometer_test_child.py"
    text = "from epsilometer_test_parent import Mine\nclass Child(Mine): pass\n"
    found = []
    for number in (1, 2):
        from_file(parent, MINE.format(number))
        found.append(identity(from_file(child, text).Child()))
    del sys.modules[parent.stem], sys.modules[child.stem]
    assert found[0] != found[1]


@pytest.mark.parametrize("interactive", [False, True])
def test_an_algorithm_typed_in(interactive: bool) -> None:
    code = (
        "class Mine:\n"
        "    def train(self, dataset, rng): return 0\n"
        "    def loss(self, model, point): return 0.0\n\n"
        "from epsilometer.measurement.algorithm import identity\n"
        "print(identity(Mine())['class'])\n"
    )
    command = [sys.executable, "-"] if interactive else [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=code, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "__main__:Mine", done.stderr


# --- protocols ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Holder, "got a class"),
        (7, "got int without train"),
        (Nested(depth=1), "got Nested without train"),
    ],
)
def test_check(wrong: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(wrong)
    check(Holder())


def test_variants() -> None:
    levels = NoiseLevels(algorithm=ClippedMean(noise=0.0, records=3), scales=(0, 0.5))
    assert variants_of(levels) == ("0.0", "0.5")
    assert variants_of(Holder()) == ("",)


def test_batch_sizes() -> None:
    mean = ClippedMean(noise=0.0, records=3)
    assert batch_size_of(Holder()) == 1
    assert batch_size_of(mean) == BATCH_SIZE
    assert batch_size_of(OutputPerturbation(algorithm=mean, scale=1.0)) == BATCH_SIZE
    # Learners have a batch size of records; only algorithms that train many models mean models by it.
    learner = Holder()
    learner.batch_size = 256  # type: ignore[attr-defined]
    assert batch_size_of(learner) == 1
    learner.batch_size = None  # type: ignore[attr-defined]
    assert batch_size_of(learner) == 1
