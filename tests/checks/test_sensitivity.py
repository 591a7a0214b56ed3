"""Other priors on the same surface: the result is that of a run with the other prior."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

from epsilometer.checks import sensitivity
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact import surface
from epsilometer.engines.exact.engine import estimate_exact
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Exponential, Fixed, HalfNormal, LogNormal, Uniform
from tests.checks.test_warnings import draws
from tests.drawn import error_counts

Scaled = HalfNormal | Exponential | LogNormal | Uniform

PROBED = [0.05, 0.25, 0.5, 0.75, 0.95]

ONE = AttackCounts(false_positives=[10], trials_h0=100, false_negatives=[20], trials_h1=100)
STRONG = error_counts([40, 50], [250, 200], 1000)
WEAK = error_counts([50, 45], [48, 52], 100)
CORRELATED = {"likelihood": CorrelatedNormal()}


#: Its results are those of either model; here they are of the count model.
prior_sensitivity: Any = sensitivity.prior_sensitivity

_RUNS: dict[tuple[int, CountModel], GridPosterior] = {}


def run(counts: AttackCounts, model: CountModel) -> GridPosterior:
    """A trustworthy posterior, each computed once; counts are those of this module."""
    key = id(counts), model
    if key not in _RUNS:
        _RUNS[key] = estimate(counts, model)
        assert _RUNS[key].trustworthy
    return _RUNS[key]


def exact(counts: AttackCounts, epsilon: Scaled, **others: Any) -> GridPosterior:
    return run(counts, CountModel(delta=0.01, epsilon=epsilon, **others))


def excess(posterior: GridPosterior, other: Any) -> float:
    """How far the quantiles are from those of a run with the other prior, in errors of both runs.

    At most 1 is as accurate as stated.  Differences are relative above 1, like the engine's
    own estimates of its error are.
    """
    direct = run(posterior.counts, other.model)
    expected = direct.quantile("epsilon", PROBED)
    gap = np.abs(other.epsilon.quantile(PROBED) - expected) / np.maximum(1, expected)
    return float(gap.max()) / (posterior.accuracy.error + direct.accuracy.error)


# --- the same result as a separate run --------------------------------------------------------

CASES: list[tuple[AttackCounts, Scaled, float, dict[str, Any]]] = [
    (ONE, HalfNormal(), 0.5, {}),
    (STRONG, LogNormal(), 2.0, {}),
    (ONE, LogNormal(), 0.5, {"strength": Fixed(value=0.3)}),
    (STRONG, HalfNormal(), 0.5, CORRELATED),
    (WEAK, Exponential(mean=2.1), 5.0, {}),
    (STRONG, HalfNormal(), 0.1, {}),
]


@pytest.mark.parametrize(("counts", "prior", "factor", "others"), CASES)
def test_another_prior_equals_a_separate_run(
    counts: AttackCounts, prior: Scaled, factor: float, others: dict[str, Any]
) -> None:
    posterior = exact(counts, prior, **others)
    messages: list[str] = []
    (other,) = prior_sensitivity(posterior, factors=[factor], on_message=messages.append)
    assert messages == [f"prior scale x {factor:g}"]
    assert other.factor == factor
    assert other.model.epsilon == prior.rescaled(factor)
    assert other.model.likelihood == posterior.model.likelihood
    assert other.model.strength == posterior.model.strength
    assert other.model.delta == posterior.model.delta
    assert excess(posterior, other) <= 1
    # Control: the original posterior is detected as different.
    twin = SimpleNamespace(model=other.model, epsilon=posterior.marginals["epsilon"])
    assert excess(posterior, twin) > 1


def test_tables_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrower prior needs no table beyond those of the posterior."""
    posterior = exact(STRONG, HalfNormal())

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("there are tables")

    monkeypatch.setattr(surface, "FluxMasses", refuse)
    assert len(prior_sensitivity(posterior, factors=[0.5, 0.8])) == 2


@pytest.mark.parametrize("counts", [ONE, STRONG], ids=["inside", "cut"])
@pytest.mark.parametrize("others", [{}, CORRELATED], ids=["binomial", "correlated"])
def test_uniform_priors_end_abruptly(counts: AttackCounts, others: dict[str, Any]) -> None:
    posterior = exact(counts, Uniform(upper=6.0), **others)
    narrow, wide = prior_sensitivity(posterior)
    assert [each.model.epsilon for each in (narrow, wide)] == [
        Uniform(upper=3.0),
        Uniform(upper=12.0),
    ]
    assert excess(posterior, narrow) <= 1
    assert excess(posterior, wide) <= 1
    assert float(narrow.epsilon.quantile(1.0)) <= 3.0
    # Below the narrow end the posteriors are proportional: the wide one, truncated there.  A
    # tolerance of 1e-2 of epsilon for correlated counts is at most this much probability here.
    cut = float(wide.epsilon.cdf(3.0))
    for probability in PROBED:
        at = float(narrow.epsilon.quantile(probability))
        slack = 0.02 if others else 2e-3
        assert float(wide.epsilon.cdf(at)) / cut == pytest.approx(probability, abs=slack)


def test_draws_are_estimated_again() -> None:
    model = CountModel(delta=0.01)
    others = prior_sensitivity(draws(ONE, model))
    assert [other.factor for other in others] == [0.5, 2.0]
    for other in others:
        # The same computation except for the extent of its tables.
        expected = estimate(ONE, other.model).quantile("epsilon", PROBED)
        np.testing.assert_allclose(other.epsilon.quantile(PROBED), expected, rtol=1e-4)


# --- the result -------------------------------------------------------------------------------


def test_intervals() -> None:
    posterior = exact(STRONG, LogNormal())
    (other,) = prior_sensitivity(posterior, factors=[2])
    for level in (0.5, 0.9):
        low, high = other.credible_interval(level)
        assert float(other.epsilon.cdf(low)) == pytest.approx(0.5 - level / 2, abs=1e-9)
        assert float(other.epsilon.cdf(high)) == pytest.approx(0.5 + level / 2, abs=1e-9)
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="level"):
            other.credible_interval(bad)


def test_a_fixed_epsilon_has_no_prior() -> None:
    posterior = estimate_exact(ONE, CountModel(delta=0.01, epsilon=Fixed(value=2.0)))
    with pytest.raises(InputError, match="got a fixed epsilon"):
        prior_sensitivity(posterior)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf, "2", None])
def test_factors_are_positive_numbers(factor: Any) -> None:
    with pytest.raises(InputError, match="factor"):
        prior_sensitivity(exact(ONE, LogNormal()), factors=[2.0, factor])
