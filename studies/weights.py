"""How prior weights of families and strengths are chosen: audits are stored so that any can be tried.

``python -m studies.weights make FOLDER`` simulates audits and stores, for every group of curves and law
of strengths, the evidence as a function of epsilon; ``... try FOLDER`` prints how often 90 % intervals
miss under the model's weights and under `CANDIDATES`.  Weights are chosen on `CHOSEN_ON`, and judged in
the study of the curve model, with other seeds and on other mechanisms too.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.engines.curve.solve import Solution
from epsilometer.model.families import FAMILIES
from epsilometer.model.models import Component, CurveModel
from epsilometer.model.shapes import Cells, Shape
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
    if curves.family.shape is not None:
        name += f" {np.searchsorted(SHAPES[name].edges, curves.family.shape)}"
    return name + (f" {curves.interpretation}" if curves.mixed else "")


def evidence(solution: Solution, cells: Cells) -> dict[str, FloatArray]:
    """By group: evidence over epsilon, shape (laws, epsilons).

    The laws: equal strengths, unequal ones, and unequal ones with full strength among them.
    """
    laws, prior, model = solution.distributions, solution.distributions.weights, solution.model
    equal = np.isinf(laws.concentrations)
    which_laws = equal, ~equal & (laws.full == 0), ~equal & (laws.full > 0)
    found: dict[str, FloatArray] = {}
    for number, component in enumerate(solution.components):
        curves = component.curves
        epsilon = curves.epsilon(np.minimum(solution.edges, 1e3), DELTA)[::-1]
        both = []
        for which in which_laws:
            mass = solution.probability[number][which].sum(axis=0)[::-1] / prior[which].sum()
            both.append(np.diff(np.interp(EDGES, epsilon, np.append(0.0, np.cumsum(mass)))))
        own = np.stack(both) / (1 - (model.no_leak or 0.0))
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
    """Evidence by group, and that of no leak."""
    posterior = CurveSettings().estimate_quickly(scores, CurveModel(delta=DELTA))
    solution = posterior.solution
    nothing = np.full((3, len(EDGES) - 1), np.exp(-solution.log_evidence) / (len(EDGES) - 1))
    return {NOTHING: nothing} | evidence(solution, posterior.accuracy.cells)


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


#: What is tried: factors of the weights of groups whose names begin so, the probability of equal
#: strengths,
#: and the share of laws of unequal ones that have full strength among them.
CANDIDATES: dict[str, tuple[dict[str, float], float, float]] = {
    "the model's": ({}, 0.8, 0.5),
    "no full strength among unequal ones": ({}, 0.8, 0.0),
    "full strength among all unequal ones": ({}, 0.8, 1.0),
    "equal strengths less likely": ({}, 0.7, 0.5),
    "fewer hard caps": ({"hard-caps": 0.7}, 0.8, 0.5),
    "more smooth caps": ({"smooth-caps": 1.5}, 0.8, 0.5),
    "more Gaussian curves": ({"gaussian": 2.0}, 0.8, 0.5),
    "no mixed caps": ({"mixed-caps": 0.0}, 0.8, 0.5),
    "fewer thin tails": ({"thin-tails": 0.3}, 0.8, 0.5),
}


def quantiles(
    found: dict[str, FloatArray],
    weights: dict[str, float],
    laws: tuple[float, float],
    model: CurveModel,
) -> FloatArray:
    """5, 50 and 95 % of epsilon with these weights of groups."""
    (spike, full), nothing = laws, float(model.no_leak or 0.0)
    total = sum(weights.values())
    mass = np.zeros(len(EDGES) - 1)
    for group, value in found.items():
        each = spike * value[0] + (1 - spike) * ((1 - full) * value[1] + full * value[2])
        mass += (1 - nothing) * weights.get(group, 0.0) / total * each
    at_zero = nothing * float(found[NOTHING][0].sum())
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
    for name, (factors, *laws) in CANDIDATES.items():
        weights = {
            group: weight
            * next((f for start, f in factors.items() if group.startswith(start)), 1.0)
            for group, weight in own.items()
        }
        missed: dict[str, list[tuple[bool, bool]]] = {}
        for number, found in audits:
            mechanism, *_, power, unequal, _ = cells()[number]
            low, _, high = quantiles(found, weights, (laws[0], laws[1]), model)
            truth = mechanism.epsilon(DELTA)
            kind = "unequal strengths" if unequal else f"power {power:g}"
            missed.setdefault(kind, []).append((low > truth + 1e-6, high < truth - 1e-6))
        print(name)
        for kind, ends in missed.items():
            above, below = np.mean(ends, axis=0)
            print(f"  {kind}: {len(ends)} audits, above {above:.1%}, below {below:.1%}")


if __name__ == "__main__":
    {"make": make, "try": compare}[sys.argv[1]](Path(sys.argv[2]))
