"""The page's recomputed posterior and verdict equal Python's to three digits, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import epsilometer as em
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.objections import REFUTED_POSTERIOR
from epsilometer.judgement.question import Question
from epsilometer.model.curve_model import CurveModel
from epsilometer.report.page.frame import FOLDER
from tests.report.browser import chains, fixed_epsilon
from tests.report.curve_results import gaussian
from tests.report.what_if_twin import Twin

AnyResult = CountResult | CurveResult

RELATIVE, ABSOLUTE = 5e-4, 5e-4
"""Three digits; quantiles and probabilities below 1 are compared to the fourth decimal place, as those
at 0 have no digits."""

HAIR = 0.002
"""A probability so close to a threshold may fall on either side of it."""


# --- results --------------------------------------------------------------------------------------


def of_curves(scores: em.Scores | em.AttackCounts, **model: Any) -> CurveResult:
    posterior = em.estimate(scores, CurveModel(**({"delta": 1e-5} | model)))
    return result_of(posterior, Question(claim=3.0))  # type: ignore[return-value]


def laplace(shift: float, size: int) -> em.Scores:
    rng = np.random.default_rng(3)
    return em.Scores(without=[rng.laplace(size=size)], with_point=[shift + rng.laplace(size=size)])


def counts(bases: int) -> em.AttackCounts:
    rng = np.random.default_rng(1)
    return em.AttackCounts(
        false_positives=rng.binomial(100, 0.1, bases),
        trials_h0=100,
        false_negatives=rng.binomial(100, 0.6, bases),
        trials_h1=100,
    )


def of_counts(bases: int, **model: Any) -> CountResult:
    posterior = em.estimate(counts(bases), em.CountModel(**({"delta": 1e-3} | model)))
    return result_of(posterior, Question(claim=2.0))  # type: ignore[return-value]


def one_strong_base() -> CountResult:
    """What one base proves, the posterior of twenty contradicts."""
    rng = np.random.default_rng(4)
    misses, alarms = rng.binomial(100, 0.75, 20), rng.binomial(100, 0.2, 20)
    misses[0], alarms[0] = 30, 2
    found = em.AttackCounts(
        false_positives=alarms, trials_h0=100, false_negatives=misses, trials_h1=100
    )
    posterior = em.estimate(found, em.CountModel(delta=1e-3))
    return result_of(posterior, Question(claim=2.0))  # type: ignore[return-value]


RESULTS: dict[str, Callable[[], AnyResult]] = {
    "one base": lambda: of_curves(gaussian([1.0], 100)),
    "no leak": lambda: of_curves(gaussian([0.0, 0.1], 40)),
    "bases that differ": lambda: of_curves(gaussian([2.0, 0.3, 0.8], 60), delta=1e-3),
    "20 bases": lambda: of_curves(gaussian([1.0] * 20, 100)),
    "laplace, no mixing": lambda: of_curves(
        laplace(1.5, 150), families=(em.families.Laplace(),), mixing=em.families.NoMixing()
    ),
    "prior matters": lambda: of_curves(gaussian([0.6], 30), delta=1e-3),
    "response": lambda: of_curves(
        gaussian([1.0], 80),
        families=(em.families.RandomizedResponse(),),
        mixing=em.families.NoMixing(),
    ),
    "sampling rate": lambda: of_curves(
        gaussian([0.4, 0.4], 200), mixing=em.families.KnownMixing(rate=0.2)
    ),
    "counts, curves": lambda: of_curves(counts(3), delta=1e-2),
    "other priors": lambda: of_curves(gaussian([1.0], 60), epsilon=em.priors.Exponential(mean=2.0)),
    "uniform prior": lambda: of_curves(gaussian([0.7], 60), epsilon=em.priors.Uniform(upper=5.0)),
    "log-normal prior": lambda: of_curves(gaussian([0.7], 60), epsilon=em.priors.LogNormal()),
    "counts, one base": lambda: of_counts(1),
    "counts, 20 bases": lambda: of_counts(20),
    "counts, one strong base": one_strong_base,
    "counts, exponential": lambda: of_counts(3, epsilon=em.priors.Exponential(mean=2.0)),
}


@cache
def result_named(name: str) -> AnyResult:
    return RESULTS[name]()


@cache
def data_of(name: str) -> dict[str, Any]:
    found = result_named(name).what_if.data
    assert found is not None
    return found


@cache
def twin_of(result: AnyResult) -> Twin:
    return Twin(result=result)


# --- the page's answers ---------------------------------------------------------------------------

ASK = """([data, settings]) => {
    const model = EpsilometerWhatIf.create(data);
    return settings.map((each) => {
        const {low, median, high, above, label, reasons, possible} = model.compute(each);
        return {low, median, high, above, label, reasons, possible};
    });
}"""


def asked_of_page(
    page: Page, data: dict[str, Any], settings: list[dict[str, float]], script: str | None = None
) -> list[dict[str, Any]]:
    """Answers of the script alone, on an empty page."""
    page.goto("about:blank")
    text = (FOLDER / "what_if.js").read_text(encoding="utf-8") if script is None else script
    page.add_script_tag(content=text)
    # What JSON cannot hold must not be in the data.
    plain = json.loads(json.dumps(data, allow_nan=False))
    found: list[dict[str, Any]] = page.evaluate(ASK, [plain, settings])
    return found


def settings_of(result: AnyResult, data: dict[str, Any]) -> list[dict[str, float]]:
    """Several places of all three sliders: each alone, and together."""
    low, high = data["scale"]["factors"]
    scale, own = data["scale"]["value"], result.model.delta
    deltas = [own, data["deltas"][0], data["deltas"][len(data["deltas"]) // 2], data["deltas"][-1]]
    middle = result.posterior.median("epsilon")
    _, top = result.posterior.credible_interval("epsilon", 0.9)
    claims = [0.3, middle, top, 1.5 * top, 4 * top]
    pairs = [(1.0, own), (low, own), (high, own), (0.7, own), (1.0, deltas[1]), (1.0, deltas[3])]
    pairs += [(high, deltas[2]), (low, deltas[1]), (0.6, deltas[3])]
    return [
        {"claim": claims[place % len(claims)], "priorScale": factor * scale, "delta": delta}
        for place, (factor, delta) in enumerate(pairs * 2)
    ]


def differences(
    result: AnyResult, settings: list[dict[str, float]], answers: list[dict[str, Any]], scale: float
) -> list[str]:
    """Where the page's answers are not Python's to three digits."""
    twin, found = twin_of(result), []
    for each, answer in zip(settings, answers, strict=True):
        factor = each["priorScale"] / scale
        epsilon = twin.epsilon(factor, each["delta"])
        wanted = dict(
            zip(
                ("low", "median", "high"), epsilon.quantile([0.05, 0.5, 0.95]).tolist(), strict=True
            )
        )
        wanted["above"] = epsilon.probability_above(each["claim"])
        for name, value in wanted.items():
            if not abs(answer[name] - value) <= RELATIVE * abs(value) + ABSOLUTE:
                found.append(f"{each}: {name} {answer[name]:.5g}, Python {value:.5g}")
        limits = result.question.thresholds
        near = min(
            abs(wanted["above"] - each) for each in (limits.pass_at_most, limits.fail_at_least)
        )
        verdict = twin.verdict(each["claim"], factor, each["delta"])
        refuted = [REFUTED_POSTERIOR in reasons for reasons in (verdict.reasons, answer["reasons"])]
        if near > HAIR and (verdict.label != answer["label"] or len(set(refuted)) > 1):
            found.append(f"{each}: {answer['label']} {answer['reasons']}, Python {verdict}")
    return found


QUICK = {"20 bases", "sampling rate", "counts, one base", "counts, one strong base"}


@pytest.mark.parametrize(
    "name",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in RESULTS],
)
def test_equals_python(browser: Browser, name: str) -> None:
    result = result_named(name)
    data = data_of(name)
    assert len(json.dumps(data)) < 200_000
    settings = settings_of(result, data)
    page = browser.new_page()
    try:
        answers = asked_of_page(page, data, settings)
    finally:
        page.close()
    assert differences(result, settings, answers, data["scale"]["value"]) == []


@pytest.mark.parametrize("name", ["prior matters", "one base"])
def test_slider_of_the_prior_ends_where_a_fresh_estimate_still_agrees(name: str) -> None:
    """Beyond it, likelihoods of larger epsilons would be missing, and the upper end be too low."""
    result = result_named(name)
    assert isinstance(result, CurveResult)
    widest = data_of(name)["scale"]["factors"][1]
    assert 1 < widest < 4

    def upper_ends(factor: float) -> tuple[float, float]:
        prior = result.model.epsilon.rescaled(factor)
        fresh = em.estimate(result.scores, replace(result.model, epsilon=prior))
        both = result.posterior.with_prior(prior), fresh
        kept, again = (float(each.quantile("epsilon", 0.95)) for each in both)
        return kept, again

    kept, fresh = upper_ends(widest)
    assert kept == pytest.approx(fresh, rel=0.02)  # each is within 0.01 of the limit
    kept, fresh = upper_ends(4 * widest)
    assert kept < 0.9 * fresh


def differences_with(browser: Browser, name: str, change: Callable[[str], str]) -> list[str]:
    """What a changed script gets wrong."""
    result = result_named(name)
    data = data_of(name)
    text = (FOLDER / "what_if.js").read_text(encoding="utf-8")
    assert change(text) != text
    settings = settings_of(result, data)[:9]
    page = browser.new_page()
    try:
        answers = asked_of_page(page, data, settings, change(text))
    finally:
        page.close()
    return differences(result, settings, answers, data["scale"]["value"])


SABOTAGED = {
    "prior not reweighted": ("rescaledPrior(data.prior, factor);\n      const logs", "1"),
    "prior density not normalised": (" - Math.log(factor)", ""),
    "delta ignored": (
        'epsilons(component, place, "edges")',
        'epsilons(component, data.own, "edges")',
    ),
    "no leak forgotten": ("let sum = noLeak;", "let sum = 0;"),
    "bounds ignored": ("own.below(best) > data.contradicted", "false"),
    "proof ignored": ("claim < data.proven[place]", "false"),
    "other priors ignored": ("if (outcome !== leaning)", "if (false)"),
}


SABOTAGE_SEEN_IN = dict.fromkeys(SABOTAGED, ("no leak", "prior matters")) | {
    "bounds ignored": ("counts, one strong base",),
    "proof ignored": ("bases that differ",),
}


@pytest.mark.parametrize("name", SABOTAGED)
def test_a_sabotaged_script_differs_from_python(browser: Browser, name: str) -> None:
    old, new = SABOTAGED[name]
    if name == "prior not reweighted":
        new = old.replace("factor", "1")
    found = [
        line
        for result in SABOTAGE_SEEN_IN[name]
        for line in differences_with(browser, result, lambda text: text.replace(old, new))
    ]
    assert found, f"{name}: nothing differs from Python"


def test_quick_cases_are_cases() -> None:
    assert set(RESULTS) > QUICK


def test_refuses_where_nothing_can_be_recomputed() -> None:
    sampled, held = chains().what_if, fixed_epsilon().what_if
    assert sampled.data is None
    assert "Markov chains" in sampled.reason
    assert held.data is None
    assert "fixed" in held.reason
