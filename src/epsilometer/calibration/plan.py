"""Plans of calibration studies: cells, each with a known truth and an attack on it.

`study.py` runs them, `table.py` tabulates the results.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from epsilometer import _validate
from epsilometer.calibration.interference import (
    Failures,
    Interference,
    Release,
    Separate,
    SharedCapacity,
    SharedLuck,
    SharedNoise,
    SharedScale,
    SpillOver,
)
from epsilometer.calibration.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)
from epsilometer.calibration.one_run import OneRunBoundCell, OneRunIntervalCell
from epsilometer.calibration.pool import PoolBoundCell, PoolIntervalCell, PoolMechanism
from epsilometer.calibration.proofs import PowerCell, RefutationCell
from epsilometer.calibration.verdicts import COUNTS, SCORES, VerdictCell
from epsilometer.model.families import AVERAGE

DELTA = 1e-5
"""Small enough for one-run bounds with thousands of canaries."""


@dataclass(frozen=True, kw_only=True)
class CountsCell:
    """Counts of attacks on a known mechanism, for estimators from counts and optionally the posterior.

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
    """Scores of canaries on a known mechanism, for estimators from scores."""

    delta: float = DELTA
    mechanism: Mechanism
    power: float
    canaries: int
    runs: int

    chunk = 100


@dataclass(frozen=True, kw_only=True)
class ModelCell:
    """Parameters from the prior, counts from the model itself: coverage must be exact."""

    delta: float = 0.01
    likelihood: str
    bases: int
    trials: int
    runs: int

    chunk = 10


@dataclass(frozen=True, kw_only=True)
class CurveCell:
    """Scores of challenge bases on a known mechanism, analysed with the curve model.

    ``models`` are trained without the point in each base, and as many with it.  ``strengths`` are those
    of :func:`draw_bases`.  ``mixing`` is the model's setting: "free", or the sampling rate.  ``family``
    is "average" except in controls, which deliberately use a wrong one.
    """

    delta: float = DELTA
    mechanism: Mechanism
    power: float = 1.0
    strengths: tuple[float, float] | None = None
    bases: int
    models: int
    mixing: str | float = "free"
    family: str = AVERAGE
    runs: int

    chunk = 10


Judging = (
    VerdictCell
    | RefutationCell
    | PowerCell
    | OneRunBoundCell
    | OneRunIntervalCell
    | PoolBoundCell
    | PoolIntervalCell
)
"""Cells that evaluate their own runs."""

Cell = CountsCell | ScoresCell | ModelCell | CurveCell | Judging


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """Cells, with the error probability of bounds and the seed."""

    cells: tuple[Cell, ...]
    significance: float = 0.05
    seed: int = 1

    def __post_init__(self) -> None:
        _validate.whole_number("seed", self.seed, least=0)

    def described(self) -> dict[str, Any]:
        """The plan as plain data, which identifies it."""
        return {
            "significance": self.significance,
            "seed": self.seed,
            "cells": [describe(cell) for cell in self.cells],
        }

    def digest(self) -> str:
        """A short hash of the plan."""
        text = json.dumps(self.described(), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]


KINDS: dict[type, str] = {CurveCell: "ProfileCell"}
"""Former names of cells: they seed the random numbers of published studies."""


def describe(cell: Cell) -> dict[str, Any]:
    """A cell as plain data, in the order of its fields; it seeds the random numbers of its runs."""
    description: dict[str, Any] = {"kind": KINDS.get(type(cell), type(cell).__name__)}
    for name, value in vars(cell).items():
        if name == "mechanism":
            description |= {"mechanism": value.name, "options": asdict(value)}
        elif name == "rate":
            description["false_positive_rate"] = "any" if value is None else value
        else:
            description[name] = value
    return description


MECHANISMS: tuple[Mechanism, ...] = (
    Null(),
    LaplaceMechanism(1.0),
    LaplaceMechanism(3.0),
    GaussianMechanism(1.0),
    RandomisedResponse(1.0),
    SubsampledGaussian(2.0, 0.2),
)
POWERS, BASES = (1.0, 0.5), (1, 5, 20)
"""The best possible attacks and attacks of half power, on one base and on typical numbers of bases."""


def _counted(mechanism: Mechanism, power: float, trials: int, bases: int) -> CountsCell:
    """Attacks at one false-positive rate; with many trials the posterior would take too long."""
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
    """The study whose results ship with the docs: about an hour and a half on two cores."""
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
            # More runs where stated errors are checked closely, fewer where a run takes long.
            much = mechanism in (Null(), LaplaceMechanism(1.0)) and power == 1
            cells += [
                ScoresCell(mechanism=mechanism, power=power, canaries=canaries, runs=runs)
                for canaries, runs in ((400, 10_000 if much else 500), (4000, 200))
            ]
    return StudyPlan(cells=tuple(cells))


def quick_plan() -> StudyPlan:
    """A few minutes: every estimator and the control, on the null and on Laplace epsilon = 1."""
    cells: list[Cell] = [ModelCell(likelihood="binomial", bases=5, trials=100, runs=60)]
    for mechanism in (Null(), LaplaceMechanism(1.0)):
        cells += [
            replace(_counted(mechanism, 1.0, 100, bases), runs=5000, posterior_runs=20)
            for bases in (1, 5)
        ]
        cells.append(ScoresCell(mechanism=mechanism, power=1.0, canaries=400, runs=400))
    return StudyPlan(cells=tuple(cells))


# --- the curve model: a separate plan, so that the studies are independent --------------------

SIZES = ((1, 100), (5, 100), (20, 100), (1, 1000))
"""Bases, and models per side in each."""

SUBSAMPLED = (SubsampledGaussian(2.0, 0.2), SubsampledGaussian(1.0, 0.1))
PROFILE_MECHANISMS: tuple[Mechanism, ...] = (
    Null(),
    LaplaceMechanism(1.0),
    LaplaceMechanism(3.0),
    GaussianMechanism(0.5),
    GaussianMechanism(1.0),
    GaussianMechanism(2.0),
    RandomisedResponse(1.0),
    *SUBSAMPLED,
)
STUDIED_STRENGTHS = ((1.0, 1.0), (0.5, 0.5), (5.0, 2.0), (1.0, 3.0))
"""Beta distributions of strengths: uniform, weak or full, mostly strong, mostly weak."""

CONTROL = CurveCell(
    mechanism=LaplaceMechanism(1.0), bases=20, models=100, family="gaussian", runs=200
)
"""Assuming Gaussian noise for Laplace noise triples the estimated epsilon: this must be detected."""


def curve_plan(runs: int = CONTROL.runs) -> StudyPlan:
    """The study of the curve model whose results ship with the docs: an hour on two idle cores."""
    cells: list[Cell] = [
        CurveCell(mechanism=mechanism, power=power, bases=bases, models=models, runs=runs)
        for power in POWERS
        for mechanism in PROFILE_MECHANISMS
        for bases, models in SIZES
        if power == 1 or mechanism != Null()
    ]
    cells += [
        CurveCell(
            mechanism=subsampled, bases=bases, models=models, mixing=subsampled.rate, runs=runs
        )
        for subsampled in SUBSAMPLED
        for bases, models in SIZES
    ]
    cells += [
        CurveCell(
            mechanism=GaussianMechanism(1.5), strengths=law, bases=bases, models=100, runs=runs
        )
        for law in STUDIED_STRENGTHS
        for bases in (5, 20)
    ]
    return StudyPlan(cells=(*cells, replace(CONTROL, runs=runs)))


def quick_curve_plan() -> StudyPlan:
    """A minute or two: a smoke test, and the control."""
    cells = [
        CurveCell(mechanism=mechanism, bases=5, models=100, runs=20)
        for mechanism in (Null(), LaplaceMechanism(1.0), GaussianMechanism(1.0))
    ]
    return StudyPlan(cells=(*cells, replace(CONTROL, runs=20)))


# --- proofs and verdicts ---------------------------------------------------------------------------

PAIRS = (50, 100, 200, 400, 800, 1600, 3200, 6400)
"""Models per side of one base at which methods are compared."""


def proof_plan() -> StudyPlan:
    """False refutations under continuous monitoring, and power: half an hour on two idle cores."""
    cells: list[Cell] = [
        RefutationCell(mechanism=mechanism, bases=bases, models=models, runs=runs)
        for mechanism in MECHANISMS
        for bases, models, runs in ((1, 100, 10_000), (5, 100, 2000), (1, 1000, 2000))
    ]
    leaking = [mechanism for mechanism in MECHANISMS if mechanism != Null()]
    cells += [
        PowerCell(mechanism=mechanism, bases=1, sizes=PAIRS, runs=40) for mechanism in leaking
    ]
    cells += [
        PowerCell(mechanism=mechanism, bases=bases, sizes=(100,), runs=100)
        for mechanism in leaking
        for bases in (5, 20)
    ]
    return StudyPlan(cells=tuple(cells))


def quick_proof_plan() -> StudyPlan:
    """A minute: the null and randomised response, where a tight claim is most easily refuted."""
    cells: list[Cell] = [
        RefutationCell(mechanism=mechanism, bases=1, models=100, runs=400)
        for mechanism in (Null(), RandomisedResponse(1.0))
    ]
    cells.append(PowerCell(mechanism=RandomisedResponse(1.0), bases=1, sizes=(100, 400), runs=10))
    return StudyPlan(cells=tuple(cells))


def verdict_plan() -> StudyPlan:
    """Every outcome for claims below, at and above the truth: about an hour on two cores."""
    cells: list[Cell] = [
        VerdictCell(mechanism=mechanism, power=power, data=data, bases=bases, runs=runs)
        for data, power, runs in ((SCORES, 1.0, 100), (SCORES, 0.5, 50), (COUNTS, 1.0, 100))
        for mechanism in MECHANISMS
        for bases in (5, 20)
        if power == 1 or mechanism != Null()
    ]
    return StudyPlan(cells=tuple(cells))


def quick_verdict_plan() -> StudyPlan:
    """A minute: a smoke test."""
    cells: list[Cell] = [
        VerdictCell(mechanism=mechanism, data=data, bases=5, runs=10)
        for data in (SCORES, COUNTS)
        for mechanism in (RandomisedResponse(1.0), GaussianMechanism(1.0))
    ]
    return StudyPlan(cells=tuple(cells))


# --- interfering canaries of one training run -----------------------------------------------------

CATASTROPHE = Release(probability=0.1, share=1.0)
"""Everything or nothing: (0, 0.1)-private, and one run in ten has no privacy at all."""

INTERFERING: tuple[tuple[float, Interference], ...] = (
    (DELTA, Separate(mu=0.0)),
    (DELTA, Separate(mu=1.0)),
    (DELTA, Separate(mu=2.0)),
    *(
        (DELTA, SharedNoise(mu=1.0, group=group, correlation=correlation))
        for group in (10, 100)
        for correlation in (0.5, 0.9)
    ),
    (DELTA, SpillOver(mu=1.0, group=10, spill=0.3)),
    (DELTA, SharedCapacity(mu=2.0, group=10, room=2)),
    (DELTA, SharedScale(strong=2.0, weak=0.5, share=0.5)),
    (DELTA, SharedScale(strong=2.0, weak=0.5, share=0.1)),
    (DELTA, SharedLuck(mu=1.0, group=100)),
    (DELTA, SharedLuck(mu=1.0, group=1000)),
    (DELTA, SharedLuck(mu=2.0, group=1000)),
    (0.1, SharedLuck(mu=1.0, group=1000)),
    (0.1, CATASTROPHE),
)
"""Each with the delta at which it is evaluated."""

BOUNDS_ONLY: tuple[tuple[float, Interference], ...] = (
    (DELTA, SpillOver(mu=1.0, group=100, spill=0.1)),
    (DELTA, SharedCapacity(mu=2.0, group=1000, room=250)),
    (0.1, Release(probability=0.5, share=0.2)),
    (0.1, Release(probability=1.0, share=0.1)),
)
"""The last two: a burst (a fifth of the coins in every second run) and its independent counterpart."""

SEVERAL_RUNS: tuple[tuple[float, Interference], ...] = (
    (DELTA, Separate(mu=1.0)),
    (DELTA, SharedScale(strong=2.0, weak=0.5, share=0.5)),
    (DELTA, SharedLuck(mu=1.0, group=250)),
    (0.1, CATASTROPHE),
)
"""Repeated with the same number of canaries in four runs."""


def one_run_plan(runs: int = 400, interval_runs: int = 200) -> StudyPlan:
    """Proofs, bounds and intervals where canaries interfere: about half an hour on two idle cores."""
    noise = SharedNoise(mu=1.0, group=10, correlation=0.5)
    places: list[dict[str, Any]] = [
        {"delta": delta, "mechanism": mechanism} for delta, mechanism in INTERFERING
    ]
    places += [{"mechanism": noise, "canaries": canaries} for canaries in (200, 5000)]
    places += [{"delta": 0.1, "mechanism": CATASTROPHE, "canaries": 200}]
    places += [
        {"delta": delta, "mechanism": mechanism, "training_runs": 4}
        for delta, mechanism in SEVERAL_RUNS
    ]
    more: list[dict[str, Any]] = [
        {"delta": delta, "mechanism": mechanism} for delta, mechanism in BOUNDS_ONLY
    ]
    more += [{"delta": 0.1, "mechanism": CATASTROPHE, "canaries": 5000}]
    # A false-alarm rate of 10 % must be distinguished from 5 %.
    control = {"delta": 0.1, "mechanism": CATASTROPHE}
    cells: list[Cell] = [
        OneRunBoundCell(**place, runs=5 * runs if place == control else runs)
        for place in [*places, *more]
    ]
    cells += [OneRunIntervalCell(**place, runs=interval_runs) for place in places]
    return StudyPlan(cells=tuple(cells))


def quick_one_run_plan() -> StudyPlan:
    """A minute: independent canaries, shared luck and the catastrophic failure."""
    cells: list[Cell] = []
    for delta, mechanism in (
        (DELTA, Separate(mu=1.0)),
        (DELTA, SharedLuck(mu=1.0, group=400)),
        (0.1, CATASTROPHE),
    ):
        place: dict[str, Any] = {"delta": delta, "mechanism": mechanism, "canaries": 400}
        cells += [OneRunBoundCell(**place, runs=200), OneRunIntervalCell(**place, runs=40)]
    return StudyPlan(cells=tuple(cells))


# --- points that share models -----------------------------------------------------------------------

POOL_MODELS = (16, 64, 128)


def pooled(points: int) -> tuple[tuple[float, PoolMechanism], ...]:
    """Mechanisms for ``points`` points, each with the delta at which it is evaluated."""
    spread = round(1 / (points - 1) ** 0.5, 3)
    return (
        (DELTA, Separate(mu=0.0)),
        (DELTA, SharedNoise(mu=0.0, group=points, correlation=0.5)),
        (DELTA, Separate(mu=1.0)),
        (DELTA, SharedNoise(mu=1.0, group=points, correlation=0.5)),
        (DELTA, SharedNoise(mu=1.0, group=points, correlation=0.9)),
        (DELTA, SpillOver(mu=1.0, group=points, spill=spread)),
        (DELTA, SharedLuck(mu=1.0, group=points)),
        (0.1, Failures(response=0.0, probability=0.1)),
        (0.1, Failures(response=1.0, probability=0.1)),
        (0.1, Failures(response=1.0, probability=0.1, shared=False)),
    )


POOL_RUNS = {20: (200, 40), 200: (100, 20)}
"""By number of points: how many audits for proofs and for intervals."""

POOL_INTERVALS = ((16, 20), (128, 20), (128, 200))
"""Models and points of the pools for which the posterior is computed, which takes long."""


def pool_plan() -> StudyPlan:
    """Proofs and intervals where points share models: about a quarter of an hour on one core."""
    cells: list[Cell] = []
    for points, (runs, interval_runs) in POOL_RUNS.items():
        for models in POOL_MODELS:
            for delta, mechanism in pooled(points):
                place: dict[str, Any] = {"delta": delta, "mechanism": mechanism}
                place |= {"models": models, "points": points}
                cells.append(PoolBoundCell(**place, runs=runs))
                if (models, points) in POOL_INTERVALS:
                    cells.append(PoolIntervalCell(**place, runs=interval_runs))
    return StudyPlan(cells=tuple(cells))


def quick_pool_plan() -> StudyPlan:
    """A minute: the null, a Gaussian mechanism with shared noise, and failures."""
    cells: list[Cell] = []
    for delta, mechanism in (
        (DELTA, Separate(mu=0.0)),
        (DELTA, SharedNoise(mu=1.0, group=20, correlation=0.9)),
        (0.1, Failures(response=0.0, probability=0.1)),
    ):
        place: dict[str, Any] = {"delta": delta, "mechanism": mechanism, "models": 64, "points": 20}
        cells += [PoolBoundCell(**place, runs=200), PoolIntervalCell(**place, runs=20)]
    return StudyPlan(cells=tuple(cells))
