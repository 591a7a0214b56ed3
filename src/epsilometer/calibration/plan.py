"""What a calibration study runs: cells, each a known truth with a way of attacking it.

Running them is in `study.py`, what comes out in `table.py`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from epsilometer import _validate
from epsilometer.calibration.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)

DELTA = 1e-5
"""Small enough for one-run bounds with thousands of canaries."""


@dataclass(frozen=True, kw_only=True)
class CountsCell:
    """Attacks on a known mechanism, counted; estimators from counts and, if asked, the posterior.

    ``rate`` is the false-positive rate of :func:`draw_counts`.
    """

    delta: float = DELTA
    mechanism: Mechanism
    power: float
    rate: float | None
    trials: int
    bases: int
    runs: int
    posterior_runs: int = 0

    chunk = 2500
    posterior_chunk = 10


@dataclass(frozen=True, kw_only=True)
class ScoresCell:
    """Scores of canaries on a known mechanism; estimators from scores."""

    delta: float = DELTA
    mechanism: Mechanism
    power: float
    canaries: int
    runs: int

    chunk = 100


@dataclass(frozen=True, kw_only=True)
class ModelCell:
    """Parameters from the prior, counts from the model itself: intervals must cover exactly."""

    delta: float = 0.01
    likelihood: str
    bases: int
    trials: int
    runs: int

    chunk = 10


Cell = CountsCell | ScoresCell | ModelCell


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """Cells with the probability of error that bounds are asked for, and the seed of it all."""

    cells: tuple[Cell, ...]
    significance: float = 0.05
    seed: int = 1

    def __post_init__(self) -> None:
        _validate.whole_number("seed", self.seed, least=0)

    def described(self) -> dict[str, Any]:
        """The plan as plain data: enough to see what was run, and to tell plans apart."""
        return {
            "significance": self.significance,
            "seed": self.seed,
            "cells": [describe(cell) for cell in self.cells],
        }

    def digest(self) -> str:
        """A short name for exactly this plan."""
        text = json.dumps(self.described(), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]


def describe(cell: Cell) -> dict[str, Any]:
    """A cell as plain data, in the order of its fields; random numbers of its runs come from it."""
    found: dict[str, Any] = {"kind": type(cell).__name__}
    for name, value in vars(cell).items():
        if name == "mechanism":
            found |= {"mechanism": value.name, "options": asdict(value)}
        elif name == "rate":
            found["false_positive_rate"] = "any" if value is None else value
        else:
            found[name] = value
    return found


MECHANISMS: tuple[Mechanism, ...] = (
    Null(),
    Laplace(1.0),
    Laplace(3.0),
    Gaussian(1.0),
    RandomisedResponse(1.0),
    SubsampledGaussian(2.0, 0.2),
)
POWERS, BASES = (1.0, 0.5), (1, 5, 20)
"""Attacks as good as can be and half as good, on one base and on as many as are audited."""


def _counted(mechanism: Mechanism, power: float, trials: int, bases: int) -> CountsCell:
    """Attacks at one false-positive rate; many trials take the posterior too long."""
    return CountsCell(
        mechanism=mechanism,
        rate=0.1,
        power=power,
        trials=trials,
        bases=bases,
        runs=10_000,
        posterior_runs=100 if trials == 100 else 0,
    )


def full_plan() -> StudyPlan:
    """The study whose results ship: about an hour and a half on two cores."""
    cells: list[Cell] = [
        ModelCell(likelihood=likelihood, bases=bases, trials=trials, runs=runs)
        for likelihood, trials, many in (
            ("binomial", 100, (1000, 800, 300)),
            ("correlated", 2000, (400, 250, 120)),
        )
        for bases, runs in zip(BASES, many, strict=True)
    ]
    cells.append(ScoresCell(mechanism=Null(), power=1.0, canaries=20_000, runs=400, delta=1e-9))
    for mechanism in MECHANISMS:
        for power in POWERS[: 1 if mechanism == Null() else None]:
            for trials in (100, 1000):
                cells += [_counted(mechanism, power, trials, bases) for bases in BASES]
            cells.append(replace(_counted(mechanism, power, 100, 20), rate=None))
            # Where nominal errors are checked much, and less where a run is long.
            much = mechanism in (Null(), Laplace(1.0)) and power == 1
            cells += [
                ScoresCell(mechanism=mechanism, power=power, canaries=canaries, runs=runs)
                for canaries, runs in ((400, 10_000 if much else 500), (4000, 200))
            ]
    return StudyPlan(cells=tuple(cells))


def quick_plan() -> StudyPlan:
    """A few minutes: every estimator and the control, on the null and on Laplace epsilon = 1."""
    cells: list[Cell] = [ModelCell(likelihood="binomial", bases=5, trials=100, runs=60)]
    for mechanism in (Null(), Laplace(1.0)):
        cells += [
            replace(_counted(mechanism, 1.0, 100, bases), runs=5000, posterior_runs=20)
            for bases in (1, 5)
        ]
        cells.append(ScoresCell(mechanism=mechanism, power=1.0, canaries=400, runs=400))
    return StudyPlan(cells=tuple(cells))
