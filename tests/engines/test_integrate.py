"""The integrator evaluates a surface only where it has not done so before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer._arrays import FloatArray
from epsilometer.engines.exact.engine import make_surface
from epsilometer.engines.exact.integrate import Panels, evaluate, first_panels
from epsilometer.posteriors.panels import split_panels

COUNTS = em.AttackCounts(
    false_positives=[10, 3, 40], trials_h0=100, false_negatives=[30, 60, 45], trials_h1=100
)


@dataclass
class Counting:
    """A surface that records how many points it evaluated."""

    surface: Any
    evaluated: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.surface, name)

    def log_likelihood(self, epsilon: FloatArray, strength: FloatArray, delta: float) -> FloatArray:
        self.evaluated.append(len(strength))
        return np.asarray(self.surface.log_likelihood(epsilon, strength, delta))


def _refined(panels: Panels) -> Panels:
    """One panel of epsilon and one of t halved."""
    return Panels(
        epsilon=split_panels(panels.epsilon, np.arange(len(panels.epsilon) - 1) == 2),
        t=split_panels(panels.t, np.arange(len(panels.t) - 1) == 1),
        s=panels.s,
    )


@pytest.mark.parametrize(
    "likelihood", [em.likelihoods.IndependentBinomial(), em.likelihoods.CorrelatedNormal()]
)
@pytest.mark.parametrize("strength", [em.priors.Beta(a=1.0, b=1.0), em.priors.Beta(a=0.5, b=2.0)])
def test_rows_that_are_known_are_taken_over(likelihood: Any, strength: Any) -> None:
    model = em.CountModel(delta=0.01, likelihood=likelihood, strength=strength)
    surface = make_surface(COUNTS, model)
    first = first_panels(surface, model)
    counting: Any = Counting(surface.reaching(float(first.epsilon[-1])))
    before = evaluate(counting, model, first, 6)
    where = _refined(first)
    anew = evaluate(counting, model, where, 6)
    taken = evaluate(counting, model, where, 6, before.rows)
    # Positions that agree up to rounding are merged, so other queries round differently.
    np.testing.assert_allclose(taken.rows.log_likelihood, anew.rows.log_likelihood, rtol=1e-7)
    assert 0 < counting.evaluated[2] < 0.6 * counting.evaluated[1]


def test_rows_of_other_epsilons_are_not() -> None:
    """Control: as many panels at other epsilons."""
    model = em.CountModel(delta=0.01)
    surface = make_surface(COUNTS, model)
    first = first_panels(surface, model)
    counting: Any = Counting(surface.reaching(float(first.epsilon[-1])))
    rows = evaluate(counting, model, first, 6).rows
    moved = Panels(epsilon=1.01 * first.epsilon, t=first.t, s=first.s)
    evaluate(counting, model, moved, 6, rows)
    assert counting.evaluated[1] >= 0.9 * counting.evaluated[0]
