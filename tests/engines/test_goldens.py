"""The exact engine against golden values from before it was rewritten, on every path.

The values are in tests/golden/paths.json and their problems in tests/golden/path_cases.py.  They check
that a rewrite changes nothing; `test_stated_error.py` checks that the values are right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import epsilometer as em
from epsilometer.checks.comparison import alternatives, label_of
from epsilometer.engines.estimate import estimate
from tests.golden import path_cases
from tests.golden.make_paths import prior_median
from tests.golden.path_cases import CASES

GOLDEN: dict[str, Any] = json.loads(Path(path_cases.__file__).with_name("paths.json").read_text())

PROBABILITIES = [0.05, 0.25, 0.5, 0.75, 0.95]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Allowed error of a result, in addition to the error stated by the engine.

    ``quantile`` is of quantiles and means of epsilon and of the strength, relative above 1;
    ``nuisance`` of the correlations' and the spread's, in units of their 90 % interval.
    """

    quantile: float
    evidence: float
    nuisance: float = 0.0


# Binomial: the engine's tolerance is 1e-3, and the golden values are good to 1e-5.  The evidence is
# a sum over up to ten bases, each good to a few 1e-5; 2e-3 does not change any odds worth quoting.
FLUXES = Tolerance(quantile=1e-3, evidence=2e-3)
# Correlated counts and groups: two-dimensional quadrature with a tolerance of 1e-2; at 20 bases
# refinement steps differ by 3e-3 in the evidence, and the rules over the correlations by slightly
# more.  Marginals of the correlations come from rules of few nodes: between two refinement steps
# their quantiles moved by up to .015 of the interval.
PLANAR = Tolerance(quantile=1e-2, evidence=3e-2, nuisance=0.05)

TOLERANCES = {"binomial": FLUXES, "sharp": FLUXES, "correlated": PLANAR, "groups": PLANAR}


def named(names: Iterable[str]) -> list[object]:
    return [
        pytest.param(name, marks=pytest.mark.slow) if CASES[name].slow else name for name in names
    ]


@cache
def found(name: str) -> Any:
    return estimate(CASES[name].counts, CASES[name].model)


def close(values: ArrayLike, expected: Sequence[float], tolerance: float) -> None:
    """Within the tolerance, relative above 1."""
    allowed = tolerance * np.maximum(1.0, np.abs(expected))
    np.testing.assert_array_less(np.abs(np.subtract(values, expected)), allowed)


def check_posterior(posterior: Any, name: str) -> None:
    """Every golden value of a case: quantiles, means and the log evidence."""
    tolerance, golden = TOLERANCES[CASES[name].path], GOLDEN["posteriors"][name]
    assert posterior.trustworthy
    assert posterior.parameters == tuple(golden)
    stated = posterior.accuracy.error
    for parameter, expected in golden.items():
        values = [*posterior.quantile(parameter, PROBABILITIES), posterior.mean(parameter)]
        if parameter in ("epsilon", "strength"):
            close(values, expected, tolerance.quantile + stated)
        else:
            width = expected[4] - expected[0]
            np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance.nuisance * width)
    evidence = posterior.log_evidence
    (expected_evidence,) = GOLDEN["evidences"][name]["log_evidence"]
    assert evidence == pytest.approx(expected_evidence, abs=tolerance.evidence)


@pytest.mark.parametrize("name", named(CASES))
def test_posteriors(name: str) -> None:
    check_posterior(found(name), name)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ten strong", {"delta": 0.013}),
        ("ten strong", {"epsilon": em.priors.HalfNormal(scale=3.25)}),
        ("one base", {"strength": em.priors.Beta(a=1.02)}),
        ("one base, strength 0.9", {"strength": em.priors.Fixed(value=0.91)}),
        ("epsilon 3, strength 0.6", {"strength": em.priors.Fixed(value=0.602)}),
        (
            "correlated, unequal trials",
            {"likelihood": em.likelihoods.CorrelatedNormal(within_correlation_scale=0.025)},
        ),
        (
            "spread .04",
            {"dependence": em.likelihoods.ScatteredMembers(spread=em.priors.Fixed(value=0.046))},
        ),
    ],
)
def test_a_model_that_is_slightly_another_fails_the_same_check(
    name: str, change: dict[str, object]
) -> None:
    """Negative controls: changing one assumption by a few per cent exceeds the tolerances."""
    case = CASES[name]
    other = estimate(case.counts, replace(case.model, **change))  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        check_posterior(other, name)


@pytest.mark.parametrize("name", named(path_cases.LEFT_OUT))
def test_leave_one_out(name: str) -> None:
    golden, tolerance = GOLDEN["left_out"][name], TOLERANCES[CASES[name].path].quantile
    influence = em.checks.leave_one_out(found(name), level=0.9)
    assert influence.reliable.all()
    # The golden values matched estimates from the other bases to the tolerance, and so may these.
    for part, expected in golden.items():
        close(getattr(influence, part), expected, 2 * tolerance)


@pytest.mark.parametrize("name", named(path_cases.RESCALED))
def test_prior_sensitivity(name: str) -> None:
    tolerance = TOLERANCES[CASES[name].path].quantile
    others = em.checks.prior_sensitivity(found(name))
    assert [f"{other.factor:g}" for other in others] == list(GOLDEN["rescaled"][name])
    for other, expected in zip(others, GOLDEN["rescaled"][name].values(), strict=True):
        # Reweighting amplifies the error of the posterior by little: twice.
        close(other.credible_interval(0.9), expected, 2 * tolerance)


@pytest.mark.parametrize("name", named(path_cases.CURVES))
def test_curves(name: str) -> None:
    case = CASES[name]
    tolerance = TOLERANCES[case.path].quantile
    curve = em.engines.estimate_curve(case.counts, case.model, path_cases.DELTAS)
    assert curve.trustworthy
    values = curve.quantile(PROBABILITIES)
    for place, (delta, expected) in enumerate(GOLDEN["curves"][name].items()):
        assert curve.deltas[place] == float(delta)
        close(values[:, place], expected, tolerance + float(curve.errors[place]))


@pytest.mark.parametrize("name", named(path_cases.COMPARED))
def test_comparison(name: str) -> None:
    own = found(name)
    models = alternatives(own.model, own.counts)
    assert [label_of(own.model, own.counts), *models] == list(GOLDEN["compared"][name])
    # The golden evidences date from when correlated counts had only the published density.
    models |= {
        label: replace(model, likelihood=em.likelihoods.CorrelatedNormal())
        for label, model in models.items()
        if label.startswith("correlated")
    }
    comparison = em.checks.compare_models(own, models)
    for each in comparison.assumptions:
        path = "correlated" if each.label.startswith("correlated") else "binomial"
        (expected,) = GOLDEN["compared"][name][each.label]
        assert each.log_evidence == pytest.approx(expected, abs=TOLERANCES[path].evidence)


@pytest.mark.parametrize("name", named(path_cases.UPDATED))
def test_updating(name: str) -> None:
    case, golden = CASES[name], GOLDEN["updated"][name]
    tolerance = TOLERANCES[case.path]
    posterior = estimate(case.counts.take([0]), case.model)
    median, evidence = prior_median(case), 0.0
    for row, (shift, *_, log_predictive) in enumerate(golden.values()):
        if row:
            posterior = posterior.update(case.counts.take([row]))
        # Each is a difference of two posteriors, so of two errors; medians here are below 4.
        moved, gained = posterior.median("epsilon") - median, posterior.log_evidence - evidence
        assert moved == pytest.approx(shift, abs=2 * 4 * tolerance.quantile)
        assert gained == pytest.approx(log_predictive, abs=2 * tolerance.evidence)
        median, evidence = posterior.median("epsilon"), posterior.log_evidence
