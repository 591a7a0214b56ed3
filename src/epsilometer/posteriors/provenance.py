"""Where a posterior came from: engine, settings, seed, versions; and how accurate it is."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from math import isfinite


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the numerical packages used."""
    version_of = {"python": platform.python_version()}
    for package in ("epsilometer", "numpy", "scipy", "numba"):
        try:
            version_of[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            version_of[package] = "not installed"
    return version_of


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a posterior was computed.

    ``seconds`` is the time of the estimation, excluding compilation; ``versions`` defaults to the
    installed ones.
    """

    engine: str
    settings: Mapping[str, object]
    seed: int | None = None
    seconds: float
    versions: Mapping[str, str] = field(default_factory=versions)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> Provenance:
        """The inverse of :meth:`to_json`."""
        data = json.loads(text)
        return cls(
            engine=str(data["engine"]),
            settings=dict(data["settings"]),
            seed=None if data["seed"] is None else int(data["seed"]),
            seconds=float(data["seconds"]),
            versions={str(k): str(v) for k, v in data["versions"].items()},
        )


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The error estimate of an engine that refines until two steps agree.

    ``error`` is the largest change of any checked quantity between the last two refinement steps,
    relative for values above 1; ``levels`` is the number of steps.
    """

    error: float
    tolerance: float
    levels: int

    @property
    def met(self) -> bool:
        """Whether the error estimate is within the tolerance."""
        return bool(self.error <= self.tolerance)

    def __str__(self) -> str:
        shown = f"{self.error:.1e}" if isfinite(self.error) else "unknown"
        met = "met" if self.met else "NOT MET"
        return f"estimated error {shown}, tolerance {self.tolerance:.0e} {met}"

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {**asdict(self), "met": self.met}
