"""How prior weights of families and strengths are chosen: audits are stored so that any can be tried.

``python -m studies.weights make FOLDER`` simulates audits and stores, for every group of curves and law
of strengths, the evidence as a function of epsilon; ``... try FOLDER`` prints how often 90 % intervals
miss under the model's weights and under `CANDIDATES`.  Weights are chosen on `CHOSEN_ON`, and judged in
the study of the curve model, with other seeds and on other mechanisms too.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.engines.curve.solve import Solution, solve
from epsilometer.model.families import FAMILIES
from epsilometer.model.models import Component, CurveModel
from epsilometer.model.shapes import Cells, Shape
from epsilometer.model.strengths import FreeStrengths
from studies.draws import draw_bases
from studies.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)
from studies.outside import CHOSEN_ON, ShiftedNoise

DELTA, SEED = 1e-5, 30
#: Epsilons between which evidence is summed.
EDGES = np.concatenate([[0.0], np.geomspace(0.02, 600.0, 160)])
#: Shapes by name: each of their first cells, which the engine only divides, may have its own weight.
SHAPES = {group.name: group for group in FAMILIES.values() if isinstance(group, Shape)}
#: The group without a leak.
NOTHING = "nothing"
#: Probability of full strength, among unequal ones.
FULL = (0.0, 0.3)

INSIDE = (
    Null(),
    LaplaceMechanism(1.0),
    LaplaceMechanism(3.0),
    GaussianMechanism(0.5),
    GaussianMechanism(1.0),
    GaussianMechanism(2.0),
    RandomisedResponse(1.0),
    SubsampledGaussian(2.0, 0.2),
)
UNEQUAL = (
    LaplaceMechanism(2.0),
    ShiftedNoise("logistic", 2.0),
    GaussianMechanism(1.0),
    RandomisedResponse(2.0),
)
STRENGTHS = (1.0, 0.8, 0.6, 0.4, 0.2)
SIZES = ((5, 100, 40), (20, 100, 40), (1, 1000, 24), (1, 100, 24))


def cells() -> list[tuple[Any, int, int, float, bool, int]]:
    """Mechanism, bases, models, power, whether strengths are unequal, and runs."""
    found = [
        (each, bases, models, 1.0, False, runs)
        for bases, models, runs in SIZES
        for each in (*INSIDE, *CHOSEN_ON)
    ]
    found += [
        (each, bases, 100, 0.5, False, 20)
        for bases in (5, 20)
        for each in (*INSIDE[1:5], INSIDE[6], CHOSEN_ON[0])
    ]
    return found + [(each, bases, 100, 1.0, True, 30) for each in UNEQUAL for bases in (5, 20)]


def group_of(component: Component) -> str:
    """The group whose weight may be chosen."""
    curves, name = component.curves, component.group
    if name in SHAPES:
        name += f" {np.searchsorted(SHAPES[name].edges, curves.family.shape)}"
    return name + (f" {curves.interpretation}" if curves.mixed else "")


def evidence(solution: Solution, cells: Cells, offset: float) -> dict[str, FloatArray]:
    """By group: evidence over epsilon, of equal and of unequal strengths."""
    equal = np.isinf(solution.distributions.concentrations)
    prior, model = solution.distributions.weights, solution.model
    found: dict[str, FloatArray] = {}
    for number, component in enumerate(solution.components):
        curves = component.curves
        epsilon = curves.epsilon(np.minimum(solution.edges, 1e3), DELTA)[::-1]
        both = []
        for which in (equal, ~equal):
            mass = solution.probability[number][which].sum(axis=0)[::-1] / prior[which].sum()
            both.append(np.diff(np.interp(EDGES, epsilon, np.append(0.0, np.cumsum(mass)))))
        own = np.stack(both) / (1 - (model.no_leak or 0.0)) * np.exp(offset)
        group = group_of(component)
        found[group] = found.get(group, np.zeros_like(own)) + own
    # Relative to the prior of all members of the group, also of those that were ruled out.
    whole = prior_of_groups(model, cells)
    return {group: value / whole[group] for group, value in found.items()}


def prior_of_groups(model: CurveModel, cells: Cells) -> dict[str, float]:
    """The model's own prior probability of each group."""
    whole: dict[str, float] = {}
    for component in model.components_of(cells):
        group = group_of(component)
        whole[group] = whole.get(group, 0.0) + component.probability
    return whole


def stored(scores: Any) -> dict[str, FloatArray]:
    """Evidence by group, for both laws of strengths: shape (laws, equal or not, epsilons)."""
    model = CurveModel(delta=DELTA, strength=FreeStrengths(full=FULL[0]))
    posterior = CurveSettings().estimate_quickly(scores, model)
    first = posterior.solution
    parts = []
    for full in FULL:
        solution = first
        if full != FULL[0]:
            other = replace(model, strength=FreeStrengths(full=full))
            solution = solve(other, posterior.tables, posterior.resolution)
        offset = solution.log_evidence - first.log_evidence
        parts.append(evidence(solution, posterior.accuracy.cells, offset))
    nothing = np.full((len(FULL), 2, 1), np.exp(-first.log_evidence) / (len(EDGES) - 1))
    return {NOTHING: np.repeat(nothing, len(EDGES) - 1, axis=2)} | {
        group: np.stack([part.get(group, np.zeros((2, len(EDGES) - 1))) for part in parts])
        for group in parts[0].keys() | parts[1].keys()
    }


def make_one(job: tuple[int, int, Path]) -> None:
    """One audit of a cell, unless it is stored."""
    number, run, folder = job
    target = folder / f"{number}-{run}.npz"
    if target.exists():
        return
    mechanism, bases, models, power, unequal, _ = cells()[number]
    rng = np.random.default_rng([SEED, number, run])
    fixed = STRENGTHS * (bases // 5) if unequal else None
    scores = draw_bases(
        mechanism, bases=bases, models=models, rng=rng, power=power, fixed_strengths=fixed
    )
    found = stored(scores)
    names = sorted(found)
    draft = target.with_suffix(".part.npz")
    np.savez_compressed(
        draft, names=np.array(names), logs=np.stack([found[n] for n in names]).astype(np.float32)
    )
    draft.rename(target)


def make(folder: Path) -> None:
    """All audits, on two processes; continues where it was interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    most = max(cell[-1] for cell in cells())
    jobs = [
        (number, run, folder)
        for run in range(most)
        for number, cell in enumerate(cells())
        if run < cell[-1]
    ]
    with ProcessPoolExecutor(2) as pool:
        for done, _ in enumerate(pool.map(make_one, jobs, chunksize=4), start=1):
            if done % 100 == 0:
                print(f"{done} of {len(jobs)} audits", flush=True)


#: What is tried: factors of the weights of groups whose names begin so, and the share of laws of unequal
#: strengths that have full strength among them.
CANDIDATES: dict[str, tuple[dict[str, float], float]] = {
    "the model's": ({}, 1.0),
    "no full strength among unequal ones": ({}, 0.0),
    "half the hard caps": ({"hard-caps": 0.5}, 1.0),
    "twice the hard caps": ({"hard-caps": 2.0}, 1.0),
    "no thin tails": ({"thin-tails": 0.0}, 1.0),
}


def quantiles(
    found: dict[str, FloatArray], weights: dict[str, float], full: float, model: CurveModel
) -> FloatArray:
    """5, 50 and 95 % of epsilon with these weights of groups."""
    spike, nothing = FreeStrengths().best_possible, float(model.no_leak or 0.0)
    total = sum(weights.values())
    mass = np.zeros(len(EDGES) - 1)
    for group, value in found.items():
        unequal = (1 - full) * value[0, 1] + full * value[1, 1]
        each = spike * value[0, 0] + (1 - spike) * unequal
        mass += (1 - nothing) * weights.get(group, 0.0) / total * each
    at_zero = nothing * float(found[NOTHING][0, 0].sum())
    reached = at_zero + np.append(0.0, np.cumsum(mass))
    return np.asarray(np.interp([0.05, 0.5, 0.95], reached / reached[-1], EDGES))


def compare(folder: Path) -> None:
    """How often intervals miss under each candidate: best attacks, half power, unequal strengths."""
    model = CurveModel(delta=DELTA)
    own = prior_of_groups(model, {})
    audits: list[tuple[int, dict[str, FloatArray]]] = []
    for path in sorted(folder.glob("*-*.npz")):
        with np.load(path) as held:
            parts = dict(zip(held["names"].tolist(), held["logs"].astype(float), strict=True))
        audits.append((int(path.stem.partition("-")[0]), parts))
    for name, (factors, full) in CANDIDATES.items():
        weights = {
            group: weight
            * next((f for start, f in factors.items() if group.startswith(start)), 1.0)
            for group, weight in own.items()
        }
        missed: dict[str, list[tuple[bool, bool]]] = {}
        for number, found in audits:
            mechanism, *_, power, unequal, _ = cells()[number]
            low, _, high = quantiles(found, weights, full, model)
            truth = mechanism.epsilon(DELTA)
            kind = "unequal strengths" if unequal else f"power {power:g}"
            missed.setdefault(kind, []).append((low > truth + 1e-6, high < truth - 1e-6))
        print(name)
        for kind, ends in missed.items():
            above, below = np.mean(ends, axis=0)
            print(f"  {kind}: {len(ends)} audits, above {above:.1%}, below {below:.1%}")


if __name__ == "__main__":
    {"make": make, "try": compare}[sys.argv[1]](Path(sys.argv[2]))
