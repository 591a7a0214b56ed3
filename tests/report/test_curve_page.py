"""The page of the curve model: what it must hold, what must never be in it, and in a browser."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import epsilometer as em
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.question import Question
from epsilometer.model.models import CurveModel
from epsilometer.report.figures.charts import charts_of
from epsilometer.report.gates import finding_of
from epsilometer.report.page import sections
from epsilometer.report.text.sentences import finding, meaning_of_epsilon
from epsilometer.report.text.values import page_values
from epsilometer.report.writing import write_page
from tests.report.browser import HOSTILE, marks, spec, visit
from tests.report.browser import words as words_of
from tests.report.curve_results import (
    bare,
    full,
    gaussian,
    hostile,
    judged,
    many,
    null,
    posterior,
)
from tests.report.test_count_page import parsed


def render(result: CurveResult) -> str:
    return sections.render(result, charts_of(result))


@pytest.fixture(scope="module")
def page() -> Callable[[Callable[[], CurveResult]], str]:
    """Pages by how their result is made, each rendered once."""
    made: dict[Any, str] = {}

    def get(make: Callable[[], CurveResult]) -> str:
        if make not in made:
            made[make] = render(make())
        return made[make]

    return get


Page = Callable[[Callable[[], CurveResult]], str]


def words(text: str) -> str:
    """What a reader sees, with single spaces."""
    return re.sub(r"\s+", " ", "".join(parsed(text).text))


def downloads(text: str) -> dict[str, str]:
    return {
        str(attributes["download"]): base64.b64decode(
            str(attributes["href"]).split("base64,")[1]
        ).decode()
        for tag, attributes in parsed(text).tags
        if tag == "a" and "download" in attributes
    }


# --- content ----------------------------------------------------------------------------------


def test_downloads_are_the_results_numbers(page: Page) -> None:
    found = downloads(page(full))
    assert set(found) == {"report.json", "leaks.csv", "curve.csv"}
    whole = json.loads(found["report.json"])
    assert whole == page_values(full())
    assert [row["challenge_base"] for row in whole["bases"]] == ["0", "2", "1"]
    assert len(whole["predictive_check"]["names"]) == 3
    deltas = [float(row["delta"]) for row in csv.DictReader(io.StringIO(found["curve.csv"]))]
    assert deltas == [1e-6, 1e-3, 0.5]


def test_without_a_claim_there_is_an_estimate(page: Page) -> None:
    text = page(bare)
    assert '<p class="badge">ESTIMATE</p>' in text
    assert "<title>ESTIMATE · Privacy audit: 3 challenge bases</title>" in text
    shown = words(text)
    assert "Proven: epsilon is at least" in shown
    assert "at delta = 0.001, extrapolated beyond the data: epsilon of the algorithm" in shown
    assert "FAIL (judged) and PASS (judged)" not in shown
    assert "FAIL (judged) and PASS (judged)" in words(page(full))
    assert 'id="count-model"' not in text
    assert "The scores do not say which datasets are neighbours" in shown
    # A curve is drawn though nobody asked for one.
    assert 'id="figure-delta-curve"' in text


def test_a_verdict_stands_on_top(page: Page) -> None:
    text = page(full)
    result = full()
    assert result.verdict is not None
    top = words(text.split('<section id="numbers">')[0])
    assert f'<p class="badge">{result.verdict.label}</p>' in text
    assert f'<section class="verdict {result.verdict.outcome}" id="verdict">' in text
    assert top.count(f"{result.verdict.label}: ") == 0
    assert f"{result.verdict.meaning[0].upper()}{result.verdict.meaning[1:]}." in top
    assert result.verdict.outcome is em.judgement.Outcome.FAIL
    assert "Look for a mistake in the algorithm" in top
    above = result.posterior.probability_above("shown", result.verdict.claim)
    assert f"exceeds the claim with probability {above:.4f}" in top or above > 1 - 1e-4
    alone = words(sections.render(replace(result, question=Question(claim=0.8)), []))
    assert "with 0.5 times the scale" in alone


@pytest.mark.parametrize(
    ("claim", "said"),
    [(50.0, "not a proof"), (3.0, "Next: Rely on the proven bound, or fix the family")],
)
def test_other_verdicts_have_their_advice(claim: float, said: str) -> None:
    result = replace(bare(), question=Question(claim=claim))
    assert said in words(sections.render(result, []))


def test_what_was_found_assumed_and_extrapolated_is_there(page: Page) -> None:
    shown = words(page(full))
    result = full()
    for expected in (
        "shown (worst base)",
        "estimated (algorithm)",
        "attack strength",
        "no leak at all",
        "with probability",
        "Below delta = ",
        *result.model.sentences,
        "FreeStrengths",
        "120 of models without the point, 120 of models with the point",
        "threshold, statistic loss",
        "abc123",
        "240 trained, 0 reused, 0 failed",
        "with or without the challenge point",
        "exact sums",
        meaning_of_epsilon(result),
    ):
        assert expected in shown
    for leak in result.leaks:
        assert f"{leak.median:.3f}" in shown


def test_the_count_model_has_a_section_of_its_own(page: Page) -> None:
    result = full()
    assert result.beside is not None
    part = words(page(full).split('<section id="count-model">')[1].split("</section>")[0])
    assert "at the false-positive rate 0.1" in part
    theirs = result.beside.posterior
    assert f"{theirs.median('epsilon'):.3f}" in part
    assert "false positives" in part
    assert (result.disagreement or "do not contradict each other") in part
    assert result.beside.verdict is not None
    assert f"would be {result.beside.verdict.label}:" in part


def test_families_are_listed_until_they_are_negligible(page: Page) -> None:
    part = page(bare).split('<figure id="figure-families">')[1].split("</figure>")[0]
    shown = words(part)
    likeliest = bare().posterior.families[0]
    assert f"{likeliest.probability:.4f}" in shown
    assert "others" in shown


def test_the_probability_of_no_leak_is_told(page: Page) -> None:
    nothing = null().posterior.solution.no_leak
    assert f"Probability {nothing:.4f} (prior: 0.5)." in words(page(null))
    passes = r"By the posterior alone a claim of [\d.]+ or more would pass"
    # Where nothing may have leaked no claim would fail.
    assert re.search(rf"{passes}\.", words(page(null)))
    assert re.search(rf"{passes}, and one of [\d.]+ or less would fail\.", words(page(bare)))


def test_the_same_posterior_makes_the_same_page(page: Page) -> None:
    again = replace(bare())  # which repeats its checks
    assert render(again) == page(bare)


# --- in a browser -----------------------------------------------------------------------------


def opens(browser: Browser, result: CurveResult, path: Path) -> tuple[float, float]:
    """Write a page of many bases and open it: the seconds of each."""
    result.concluded()
    _ = result.what_if
    start = time.monotonic()
    write_page(result, path)
    written = time.monotonic()
    with visit(browser, path) as seen:
        opened = time.monotonic()
        bases = len(result.scores)
        assert seen.page.locator("#bases tbody tr").count() == bases
        assert seen.page.locator("#leaks-1 .point").count() == 2 + min(bases, 50)  # and two answers
        assert seen.page.locator("#figure-roc .panel").count() == 12
        assert f"of {bases:,}" in seen.page.locator("#figure-leaks figcaption").inner_text()
        seen.check_quiet()
    return written - start, opened - written


def test_of_many_bases_the_worst_are_drawn_and_all_are_listed(
    browser: Browser, tmp_path: Path
) -> None:
    opens(browser, many(60), tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_000_000


@pytest.mark.slow
def test_a_thousand_bases_are_written_and_opened_in_seconds(
    browser: Browser, tmp_path: Path
) -> None:
    wrote, opened = opens(browser, many(1000), tmp_path / "page.html")
    # No measurements, but promises: nobody may take the page for broken, on two busy cores either.
    assert wrote < 60
    assert opened < 20
    assert (tmp_path / "page.html").stat().st_size < 2_000_000


def test_a_hostile_page_is_only_read(browser: Browser, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(hostile), encoding="utf-8")
    with visit(browser, path, color_scheme="dark") as seen:
        assert seen.page.evaluate("window.hacked") is None
        drawn = seen.page.evaluate(
            "[...document.querySelectorAll('.panel')].every((p) => p.dataset.drawn === 'yes')"
        )
        assert drawn
        order = [HOSTILE[leak.name] or leak.name for leak in hostile().leaks]
        # A name is seen as it is, where it is short enough, when hovering over its base.
        bases = marks(seen.page, "leaks-1")[-1]
        assert len(bases["x"]) == len(HOSTILE)
        for point, name in enumerate(order):
            first = words_of(seen.page, "leaks-1", 3, point)[0]
            assert first == (name if len(name) <= 40 else f"{name[:39]}…")
        # And above its plot.
        titles = [
            seen.page.evaluate(
                "id => document.querySelector(`#${id} .heading`).textContent", f"roc-{place + 1}"
            )
            for place in range(12)
        ]
        for title, name in zip(titles, order, strict=False):
            assert title.startswith(f"{name if len(name) <= 22 else name[:21] + '…'}: ")
        seen.check_quiet()


def test_the_extrapolated_part_is_hatched(browser: Browser, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(bare), encoding="utf-8")
    with visit(browser, path) as seen:
        strokes = seen.page.evaluate("document.querySelectorAll('#delta-curve-1 pattern').length")
        assert strokes >= 1
        assert spec(seen.page, "roc-1")["x"]["logarithmic"]
        seen.check_quiet()


def test_a_phone_needs_no_scrolling_sideways(browser: Browser, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(full), encoding="utf-8")
    size = {"width": 390, "height": 844}
    with visit(browser, path, viewport=size, is_mobile=True, has_touch=True) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 390
        seen.check_quiet()


def test_an_extrapolated_estimate_says_so_wherever_it_is_quoted() -> None:
    words_of_it = "extrapolated beyond the data"
    assert bare().posterior.extrapolated
    assert words_of_it in finding(bare())
    assert f"{words_of_it}." in finding_of(bare()).sentence
    shown = posterior(gaussian([1.5, 0.2, 0.8], 40), CurveModel(delta=0.1))
    assert not shown.extrapolated
    result = judged(shown)
    assert "extrapolated" not in finding(result)
    assert "extrapolated" not in finding_of(result).sentence
