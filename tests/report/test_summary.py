"""The summary must say what the posterior says, in plain values and readable lines."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer._text import plain
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.text.sentences import count_assumptions
from epsilometer.report.text.summary import result_text
from epsilometer.report.text.values import result_values
from tests.drawn import error_counts, posterior_of_draws
from tests.report.count_results import TWO, exact, sampled

COUNTS = TWO


@cache
def plain_posterior() -> CountPosterior:
    return exact()


def chains(values: np.ndarray, **model: object) -> SamplePosterior:
    """Draws of each parameter that no sampler made."""
    made = sampled(**model)  # type: ignore[arg-type]
    return posterior_of_draws(TWO, made.model, dict(zip(made.samples, values, strict=True)))


def asked(posterior: CountPosterior, **question: float) -> Result:
    return result_of(posterior, Question(**question))  # type: ignore[arg-type]


def test_numbers_are_the_posteriors() -> None:
    posterior = plain_posterior()
    summary = result_values(asked(posterior, level=0.8, claim=1.5))
    for name in ("epsilon", "strength"):
        assert summary[name] == {
            "mean": posterior.mean(name),
            "median": posterior.median(name),
            "interval": list(posterior.credible_interval(name, 0.8)),
            "level": 0.8,
        }
    assert summary["claim"] == {
        "epsilon": 1.5,
        "probability_above": posterior.probability_above("epsilon", 1.5),
        "prior_probability_above": posterior.model.epsilon.probability_above(1.5),
    }
    verdict = em.judge(posterior, claim=1.5)
    assert summary["verdict"] == {
        "outcome": str(verdict.outcome),
        "grounds": str(verdict.grounds),
        "reasons": list(verdict.reasons),
        "meaning": "; ".join(verdict.reasons),
        "pass_at_most": 0.05,
        "fail_at_least": 0.95,
    }
    proof = em.prove(COUNTS, delta=0.01, claim=1.5)
    assert summary["proof"] == {
        "at_least": proof.at_least,
        "delta": 0.01,
        "error": 0.05,
        "any_time": False,
        "assumes": proof.assumes,
        "most_provable": proof.most_provable,
        "evidence": proof.evidence.described() if proof.evidence else None,
        "claim": 1.5,
        "refuted": False,
        "e_value": proof.e_value,
    }
    (bound,) = summary["bounds"]
    assert bound["epsilon"] == em.baselines.best_base(
        em.baselines.ClopperPearson(), COUNTS, 0.01, 0.05
    )
    assert bound["label"] == "the Clopper-Pearson bound of the best base"
    assert summary["contradiction"] is None
    known = {"num_challenge_bases": 2, "delta": 0.01, "engine": "exact", "converged": True}
    assert known.items() <= summary.items()
    assert summary["seconds"] == posterior.provenance.seconds
    assert set(summary["accuracy"]) == {"error", "tolerance", "met", "levels", "method"}
    assert "diagnostics" not in summary
    assert "within_correlation" not in summary
    assert summary["assumptions"]["priors"]["epsilon"]["name"] == "HalfNormal"
    assert "numpy" in summary["versions"]
    alone = result_values(asked(posterior, level=0.9))
    assert not {"claim", "verdict"} & set(alone)
    assert alone["proof"]["at_least"] == proof.at_least
    assert not {"claim", "refuted", "e_value"} & set(alone["proof"])


def test_numbers_that_json_lacks_become_null() -> None:
    value = plain({"a": (np.float64(1.5), math.inf, math.nan), "b": np.int64(3), "c": np.True_})
    assert value == {"a": [1.5, None, None], "b": 3, "c": True}
    assert type(value["b"]) is int
    assert type(value["c"]) is bool


def test_correlations_and_diagnostics_of_chains() -> None:
    values = np.random.default_rng(1).random((4, 2, 1000))
    result = asked(chains(values, likelihood=em.likelihoods.CorrelatedNormal()), level=0.9)
    summary = result_values(result)
    assert summary["cross_correlation"]["mean"] == values[3].mean()
    assert summary["within_correlation"]["mean"] == values[2].mean()
    assert set(summary["diagnostics"]["parameters"]) == {
        "epsilon", "strength", "within_correlation", "cross_correlation",
    }  # fmt: skip
    assert summary["converged"] is True
    assert "accuracy" not in summary
    text = result_text(result, details=True)
    assert "cross correlation" in text
    assert "converged" in text
    # Decisions that depend on each other prove nothing.
    assert summary["proof"] is None
    assert summary["bounds"] == []
    assert "no proof is possible" in text
    assert ["proven,", "at", "least"] in [line.split() for line in text.splitlines()]


def test_chains_that_never_moved_say_so() -> None:
    result = asked(chains(np.ones((2, 2, 100)) / 2), level=0.9)
    summary = result_values(result)
    assert summary["converged"] is False
    json.dumps(summary, allow_nan=False)
    assert "NOT CONVERGED; largest R-hat infinite" in result_text(result, details=True)


@pytest.mark.parametrize("claim", [0.0, 12.0])
def test_the_verdict_and_what_is_proven_come_first(claim: float) -> None:
    result = asked(plain_posterior(), claim=claim)
    verdict, proof = result.verdict, result.proof
    assert verdict is not None
    assert proof is not None
    text = result_text(result, details=True)
    assert max(map(len, text.splitlines())) <= 80
    said = " ".join(text.split())
    assert said.startswith(f"{verdict.label}: {'; '.join(verdict.reasons)}. ")
    rows = [line.split() for line in text.splitlines()]
    assert ["proven,", "at", "least", rounded_down(proof.at_least, 3)] in rows
    assert "(refuted at 20 or more)" in said
    least, most = rounded_down(proof.at_least), rounded_down(proof.most_provable)
    reach = f"epsilon is at least {least} (of at most {most} with this many models) at delta = 0.01"
    assert f"Proven: {reach}, for any algorithm and any attack; error at most 5 %." in said
    assert f"proven at least {least} of at most {most}, error 5 %" in said
    proven = claim < proof.at_least
    assert (f"epsilon at most {claim:g} at delta = 0.01. Proven:" in said) is proven
    assert (f"epsilon at most {claim:g} at delta = 0.01; exceeded with" in said) is not proven


def test_an_interval_below_what_is_proven_is_not_to_be_quoted() -> None:
    posterior = chains(0.5 + 0.01 * np.random.default_rng(1).random((2, 2, 1000)))
    for claim in (None, 0.5, 5.0):
        result = asked(posterior) if claim is None else asked(posterior, claim=claim)
        said = " ".join(result_text(result, details=True).split())
        assert result.contradiction is not None
        assert "Warnings: - Do not quote the interval: the posterior puts nearly all of its" in said
        assert "Estimated: not reliably: the same data refute the posterior" in said
        assert "(0.50 to" not in " ".join(result_text(result).split())
        assert result_values(result)["contradiction"] == result.contradiction
    assert result.verdict is not None
    assert (result.verdict.outcome, result.verdict.leaning) == ("INCONCLUSIVE", "PASS")
    assert "the posterior lies below what the same data prove" in result.verdict.reasons
    # Control: the posterior of these counts contradicts nothing.
    assert asked(plain_posterior()).contradiction is None
    assert "Do not quote" not in result_text(asked(plain_posterior()), details=True)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({}, "half-normal with scale 3.162"),
        ({"epsilon": em.priors.Exponential(mean=2)}, "exponential with mean 2"),
        ({"epsilon": em.priors.LogNormal(median=2, log_scale=0.5)}, "log-normal with median 2"),
        ({"epsilon": em.priors.Uniform(upper=7)}, "uniform between 0 and 7"),
        ({"epsilon": em.priors.Fixed(value=3)}, "epsilon is held at 3"),
        ({"strength": em.priors.Fixed(value=0.5)}, "strength is held at 0.5"),
        ({"strength": em.priors.Beta(a=2, b=3)}, "Beta(2, 3)"),
        ({}, "binomial"),
        ({"likelihood": em.likelihoods.CorrelatedNormal()}, "jointly normal"),
        ({"dependence": em.likelihoods.PooledGroups()}, "independently of the other attacks"),
    ],
)
def test_assumptions_are_said_in_words(model: dict[str, object], expected: str) -> None:
    audit = em.CountModel(delta=0.01, **model)  # type: ignore[arg-type]
    sentences = count_assumptions(audit, COUNTS)
    assert any(expected in sentence for sentence in sentences)
    assert all(sentence.endswith(".") for sentence in sentences)
    assert any("delta = 0.01" in sentence for sentence in sentences)


GROUPED = error_counts([1, 2], [3, 4], 9, groups=["a", "a"])
SCATTERED = em.likelihoods.ScatteredMembers


@pytest.mark.parametrize(
    ("dependence", "expected"),
    [
        (SCATTERED(), "scatter normally around its average"),
        (SCATTERED(scatter=em.likelihoods.UniformScatter()), "scatter uniformly"),
        (SCATTERED(spread=em.priors.Fixed(value=0.02)), "held at 0.02"),
        (em.likelihoods.PooledGroups(), "added up and taken to be normal"),
        (em.likelihoods.IndependentRows(), "which was ignored"),
    ],
)
def test_how_groups_depend_is_said_in_words(dependence: Any, expected: str) -> None:
    sentences = count_assumptions(em.CountModel(delta=0.01, dependence=dependence), GROUPED)
    assert any(expected in sentence for sentence in sentences)
    of_groups = any("average error rates of each group" in sentence for sentence in sentences)
    assert of_groups is not isinstance(dependence, em.likelihoods.IndependentRows)
