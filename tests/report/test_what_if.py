"""The what-if section: its tables are verdicts of results made anew, and the page shows just them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

import epsilometer as em
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.judgement.what_if import SCALES
from epsilometer.report.writing import write_page
from tests.report import count_results, curve_results
from tests.report.browser import PHONE, WIDTH, Visit, visit

Table = dict[str, Any]


@cache
def counted() -> Result:
    return count_results.gather(count_results.exact(), claim=2.0, compare=False)


@cache
def curved() -> Result:
    found = curve_results.bare()
    return result_of(found.posterior, Question(claim=1.0))


BOTH = pytest.mark.parametrize("make", [counted, curved], ids=["count", "curve"])


def table_of(result: Result) -> Table:
    table = result.what_if
    assert table is not None
    return copy.deepcopy(table)


def said(table: Table, prior: int, delta: int, claim: int) -> tuple[str, list[str]]:
    """The label and the reasons that the page would show."""
    label, *places = table["verdicts"][table["cells"][prior][delta]["verdicts"][claim]]
    return label, [table["sentences"][place] for place in places]


def made_anew(result: Result, prior: float, delta: float) -> Result:
    """A result that nobody asked what if of: other settings estimated from the start."""
    model = replace(result.model, epsilon=result.model.epsilon.rescaled(prior))
    if result.kind == "count":
        posterior = em.estimate(result.data, replace(model, delta=delta))
        return count_results.gather(posterior, compare=False)
    return result_of(curve_results.posterior(result.data, model), Question(deltas=(delta,)))


def check(result: Result, table: Table, fresh: Result, prior: float, delta: float) -> None:
    """Labels, probabilities and intervals of the table are those of a result made anew."""
    place, row = table["deltas"].index(delta), table["priors"].index(prior)
    cell = table["cells"][row][place]
    epsilon = fresh.epsilon_at(delta)
    ends = epsilon.quantile(np.array([0.05, 0.5, 0.95]))
    # Two estimates of one posterior, each within its tolerance.
    assert cell["ends"] == pytest.approx(ends, rel=0.02, abs=0.01)
    for number in range(5, len(table["claims"]), 20):
        claim = table["claims"][number]
        asked = replace(fresh.question, claim=claim)
        verdict = result_of(fresh.posterior, asked).verdict
        assert verdict is not None
        assert cell["above"][number] == pytest.approx(verdict.probability_above, abs=0.01)
        near = abs(verdict.probability_above - np.array([0.05, 0.95])).min() < 0.01
        if not near:
            assert said(table, row, place, number)[0] == verdict.label, claim


@pytest.mark.parametrize(("prior", "delta"), [(1.0, 0.01), (2.0, 0.01), (1.0, 1e-4)])
def test_counts_are_judged_as_if_asked_anew(prior: float, delta: float) -> None:
    check(counted(), table_of(counted()), made_anew(counted(), prior, delta), prior, delta)


@pytest.mark.parametrize(("prior", "delta"), [(1.0, 1e-3), (0.5, 1e-3), (1.0, 1e-5)])
def test_curves_are_judged_as_if_asked_anew(prior: float, delta: float) -> None:
    check(curved(), table_of(curved()), made_anew(curved(), prior, delta), prior, delta)


@pytest.mark.parametrize("sabotage", ["verdicts", "above", "ends"])
def test_a_wrong_table_would_be_noticed(sabotage: str) -> None:
    """Control: the neighbouring claim's verdicts, its probabilities, or another prior's interval."""
    table, fresh = table_of(counted()), made_anew(counted(), 1.0, 0.01)
    cells = table["cells"][table["priors"].index(1.0)]
    cell = cells[table["deltas"].index(0.01)]
    other = table["cells"][0][table["deltas"].index(0.01)]
    cell[sabotage] = other["ends"] if sabotage == "ends" else cell[sabotage][20:] + [0] * 20
    with pytest.raises(AssertionError):
        check(counted(), table, fresh, 1.0, 0.01)


@BOTH
def test_the_result_itself_is_in_its_table(make: Callable[[], Result]) -> None:
    result, table = make(), table_of(make())
    own, verdict = table["own"], result.verdict
    assert verdict is not None
    assert table["claims"][own["claim"]] == verdict.claim
    assert table["deltas"][own["delta"]] == result.delta
    assert said(table, own["prior"], own["delta"], own["claim"]) == (
        verdict.label,
        list(verdict.reasons),
    )
    assert (table["label"], table["reasons"]) == (verdict.label, list(verdict.reasons))
    # The same digits as at the top of the page.
    low, high = result.epsilon_at(result.delta).quantile(np.array([0.05, 0.95])).tolist()
    cell = table["cells"][own["prior"]][own["delta"]]
    assert f"interval {low:.2f} to {high:.2f}." in cell["headline"]
    json.dumps(table, allow_nan=False)


@BOTH
def test_between_claims_the_curve_is_the_posteriors(make: Callable[[], Result]) -> None:
    """The page draws straight lines between the claims of the table."""
    result, table = make(), table_of(make())
    claims = np.array(table["claims"])
    between = (claims[1:] + claims[:-1]) / 2
    for row, prior in enumerate(table["priors"]):
        cell = table["cells"][row][table["own"]["delta"]]
        drawn = np.interp(between, claims, cell["above"])
        exact = [result.epsilon_at(result.delta, prior).probability_above(e) for e in between]
        assert np.abs(drawn - exact).max() < 0.02  # a line of the plot is that thick
    coarse = np.interp(between, claims[::30], np.array(cell["above"])[::30])
    assert np.abs(coarse - exact).max() > 0.02  # a coarser table would be noticed


def test_priors_and_deltas_are_few_and_chains_have_one() -> None:
    assert table_of(curved())["priors"] == SCALES
    chains = count_results.gather(count_results.sampled(), claim=0.5, compare=False)
    table = table_of(chains)
    assert (table["priors"], table["deltas"]) == ((1.0,), (0.01,))
    claimless = count_results.gather(count_results.exact(), compare=False)
    assert table_of(claimless)["own"]["claim"] is None


def test_an_epsilon_that_is_fixed_has_no_table() -> None:
    fixed = count_results.exact(epsilon=em.priors.Fixed(value=1.0))
    assert count_results.gather(fixed, compare=False).what_if is None


def test_a_prior_that_cannot_be_estimated_has_no_entries() -> None:
    wide = em.priors.HalfNormal(scale=40.0)
    result = count_results.gather(count_results.exact(epsilon=wide), claim=1.0, compare=False)
    cells = table_of(result)["cells"]
    assert cells[-1][-1] is None
    assert cells[2][-1] is not None


# --- in the browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("what-if") / "page.html"
    write_page(counted(), path)
    return path


_MOVE = """([name, value]) => { const field = document.getElementById(`what-if-${name}`);
    field.value = value; field.dispatchEvent(new Event("input"));
    field.dispatchEvent(new Event("change")); }"""

_SHOWN = """() => [document.getElementById("what-if-label").textContent,
    [...document.getElementById("what-if-reasons").children].map((item) => item.textContent)]"""


def move(seen: Visit, **places: float | str) -> list[Any]:
    """Move sliders by name and return what is shown afterwards."""
    for name, value in places.items():
        seen.page.evaluate(_MOVE, [name.replace("_", "-"), str(value)])
    seen.page.wait_for_timeout(60)
    shown: list[Any] = seen.page.evaluate(_SHOWN)
    return shown


def sentences(reasons: list[str]) -> list[str]:
    return [re.sub(r"(?<=\d) %", "\u00a0%", f"{text[0].upper()}{text[1:]}.") for text in reasons]


def text_of(seen: Visit, name: str) -> str:
    return seen.page.locator(f"#what-if-{name}").text_content() or ""


def test_the_page_shows_the_table(browser: Browser, path: Path) -> None:
    table = table_of(counted())
    with visit(browser, path) as seen:
        assert text_of(seen, "source").startswith("As estimated")
        for prior, delta, claim in ((0, 1, 3), (4, 4, 40), (2, 2, 70)):
            label, reasons = said(table, prior, delta, claim)
            shown = move(seen, prior=prior, delta=delta, claim=claim)
            assert shown == [label, sentences(reasons)]
            headline = text_of(seen, "headline")
            cell = table["cells"][prior][delta]
            assert headline.startswith(cell["headline"].replace(" %", "\u00a0%"))
            assert f"claim of {table['claims'][claim]:.4g} with probability" in headline
            assert seen.page.locator("#what-if-answer").get_attribute("data-changed") == "yes"
        # A number that is typed becomes the nearest claim of the table.
        move(seen, claim_number=1e9)
        assert float(seen.page.locator("#what-if-claim-number").input_value()) == pytest.approx(
            table["claims"][-1], rel=1e-3
        )
        seen.page.locator("#what-if-prior").press("ArrowRight")
        seen.wait_for(lambda: text_of(seen, "prior-text"), "2")
        seen.page.locator("#what-if-reset").click()
        seen.wait_for(lambda: text_of(seen, "label"), counted().verdict.label)  # type: ignore[union-attr]
        seen.wait_for(lambda: text_of(seen, "live").startswith(text_of(seen, "label")), True)
        assert seen.page.locator("#what-if-reset").is_disabled()
        seen.check_quiet()


def test_the_page_believes_its_table(browser: Browser, path: Path, tmp_path: Path) -> None:
    """It decides nothing itself: another verdict in the table is another verdict on the page."""
    text = path.read_text(encoding="utf-8")
    assert '"INCONCLUSIVE"' in text
    changed = tmp_path / "changed.html"
    changed.write_text(text.replace('"INCONCLUSIVE"', '"ELSEWHERE"'), encoding="utf-8")
    table = table_of(counted())
    place = next(
        number
        for number in range(len(table["claims"]))
        if said(table, 2, 4, number)[0] == "INCONCLUSIVE"
    )
    with visit(browser, changed) as seen:
        assert move(seen, claim=place)[0] == "ELSEWHERE"


def test_a_phone_has_room_for_the_sliders(browser: Browser, path: Path) -> None:
    with visit(browser, path, **PHONE) as seen:
        move(seen, prior=4, claim=5)
        assert seen.page.evaluate(WIDTH) == 390
        box = seen.page.locator("#what-if-claim").bounding_box()
        assert box is not None
        assert box["height"] >= 44  # a finger's width
