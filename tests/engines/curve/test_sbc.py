"""Simulation-based calibration of the whole-curve model: truths from the prior must rank uniformly.

Whether anything leaks, the family, epsilon and the strengths are drawn from the model, scores are
simulated, and the rank of the truth in the posterior is computed.  Within an atom (no leak) the rank is
drawn uniformly.  Kolmogorov-Smirnov at 1e-4 each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest

import epsilometer as em
from epsilometer.posteriors.marginals import Marginal
from tests.engines.curve.simulation import draw_scores, draw_truth

LEVEL = 1e-4
WHOLE = em.CurveModel(delta=1e-3)
COARSE = em.CurveModel(delta=0.03)
ONE = em.CurveModel(
    delta=1e-5,
    families=(em.families.Gaussian(),),
    mixing=em.families.NoMixing(),
    strength=em.families.FreeStrengths(),
)


def rank_of(marginal: Marginal, value: float, rng: np.random.Generator) -> float:
    """The rank of a value in its distribution; uniform within an atom at the value itself."""
    high = 1 - marginal.probability_above(value)
    low = 0.0 if value <= 0 else high
    return low + (high - low) * float(rng.random())


def ranks(
    model: em.CurveModel,
    replicates: int,
    *,
    seed: int,
    analysed: em.CurveModel | None = None,
    slip: float = 1.0,
    exchanged: bool = False,
    sizes: tuple[int, int, int] = (3, 30, 30),
    shown: bool = True,
) -> dict[str, NDArray[np.float64]]:
    """Ranks of the truths of some audits, perhaps with a deliberate fault."""
    rng, settings = np.random.default_rng(seed), em.engines.CurveSettings()
    found: dict[str, list[float]] = {"epsilon": [], "shown": []}
    for _ in range(replicates):
        truth = draw_truth(model, sizes[0], rng)
        scores = draw_scores(truth, *sizes[1:], rng, slip=slip)
        if exchanged:
            pairs = [base.by_hypothesis for base in scores.bases]
            scores = em.Scores(without=[b for _, b in pairs], with_point=[a for a, _ in pairs])
        posterior = settings.estimate_quickly(scores, analysed or model)
        found["epsilon"].append(rank_of(posterior.marginal("epsilon"), truth.epsilon, rng))
        if shown:
            found["shown"].append(rank_of(posterior.shown, truth.shown, rng))
    return {name: np.array(values) for name, values in found.items() if values}


def uniform(values: NDArray[np.float64]) -> bool:
    return bool(kstest(values, "uniform").pvalue > LEVEL)


@pytest.mark.parametrize(
    ("model", "replicates", "sizes"),
    [
        pytest.param(WHOLE, 10, (3, 30, 30), id="whole"),
        pytest.param(ONE, 40, (3, 25, 40), id="one family, unequal sizes"),
        pytest.param(WHOLE, 600, (3, 30, 30), id="whole, long", marks=pytest.mark.slow),
        pytest.param(COARSE, 400, (2, 60, 15), id="coarse delta, long", marks=pytest.mark.slow),
        pytest.param(ONE, 600, (5, 40, 40), id="one family, long", marks=pytest.mark.slow),
    ],
)
def test_truths_rank_uniformly(
    model: em.CurveModel, replicates: int, sizes: tuple[int, int, int]
) -> None:
    for name, values in ranks(model, replicates, seed=5, sizes=sizes).items():
        assert uniform(values), name


@pytest.mark.parametrize("wrong", ["leak", "exchanged", "strengths"])
def test_sabotaged_twins_do_not(wrong: str) -> None:
    """A leak off by a factor, labels exchanged, the average over strengths left out."""
    differing = replace(ONE, strength=em.families.FreeStrengths(best_possible=0.0))
    found = ranks(
        differing if wrong == "strengths" else ONE,
        40,
        seed=6,
        slip=2.0 if wrong == "leak" else 1.0,
        exchanged=wrong == "exchanged",
        analysed=replace(ONE, strength=em.families.FixedStrength())
        if wrong == "strengths"
        else None,
        shown=False,
    )
    assert not uniform(found["epsilon"])


@pytest.mark.slow
def test_a_smaller_slip_is_found_by_the_long_run() -> None:
    """Leaks off by a factor of 1.3: too small for 40 audits to detect, but not for 400."""
    assert not uniform(ranks(ONE, 400, seed=7, slip=1.3, shown=False)["epsilon"])
