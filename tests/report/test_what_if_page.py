"""The sliders of the page: by keyboard, by touch, with the original verdict untouched."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import epsilometer as em
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.judgement.what_if import falling
from epsilometer.model.curve_model import CurveModel
from epsilometer.report.page.frame import FOLDER, SCRIPTS
from epsilometer.report.writing import write_page
from tests.report.browser import PHONE, SIX, Visit, chains, visit
from tests.report.curve_results import SETTINGS, gaussian

SMALLEST_TARGET = 24
"""Pixels of the smallest target for a finger."""


@cache
def result() -> Result:
    posterior = SETTINGS.estimate(gaussian([1.2, 0.8], 60), CurveModel(delta=1e-3))
    return result_of(posterior, Question(claim=2.345))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("what-if") / "page.html"
    write_page(result(), found)
    return found


def ready(seen: Visit) -> Page:
    seen.page.wait_for_selector("html[data-what-if=ready]", timeout=30_000)
    return seen.page


def text(page: Page, name: str) -> str:
    return page.inner_text(f"#what-if-{name}")


def settings(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("EpsilometerWhatIf.settings()")
    return found


def press(page: Page, name: str, key: str, times: int = 1) -> None:
    page.focus(f"#what-if-{name}")
    for _ in range(times):
        page.keyboard.press(key)
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def plotted(page: Page, name: str) -> str:
    return page.inner_html(f"#what-if-{name} svg")


def test_starts_with_the_original_verdict_word_for_word(browser: Browser, path: Path) -> None:
    verdict = result().verdict
    assert verdict is not None
    with visit(browser, path) as seen:
        page = ready(seen)
        assert text(page, "label") == verdict.label == page.inner_text("#verdict .badge")
        reasons = [f"{each[0].upper()}{each[1:]}." for each in verdict.reasons]
        assert page.locator("#what-if-reasons li").all_inner_texts() == reasons
        assert text(page, "source") == "As estimated; nothing was changed."
        assert page.is_disabled("#what-if-reset")
        seen.check_quiet()


def test_keyboard_alone_moves_every_slider_and_reset_restores_the_page(
    browser: Browser, path: Path
) -> None:
    with visit(browser, path) as seen:
        page = ready(seen)
        before = {name: plotted(page, name) for name in ("posterior", "curve")}
        start, label = settings(page), text(page, "label")
        # Reached by Tab alone, in this order.
        page.focus("#what-if-claim")
        order = []
        for _ in range(6):
            page.keyboard.press("Tab")
            order.append(page.evaluate("document.activeElement.id"))
        assert order[:5] == [
            "what-if-claim-number",
            "what-if-prior",
            "what-if-prior-number",
            "what-if-delta",
            "what-if-delta-number",
        ]
        press(page, "claim", "ArrowRight", 3)
        assert settings(page)["claim"] > start["claim"]
        press(page, "prior", "ArrowLeft", 30)
        assert settings(page)["priorScale"] == pytest.approx(start["priorScale"] / 2)
        press(page, "delta", "ArrowRight", 2)
        assert settings(page)["delta"] > start["delta"]
        assert text(page, "source") == "Recomputed in this page."
        changed = {name: plotted(page, name) for name in before}
        assert all(changed[name] != before[name] for name in before)
        numbers = page.evaluate(
            "() => { const {median, low, high} = EpsilometerWhatIf.compute("
            "EpsilometerWhatIf.settings()); return [median, low, high]; }"
        )
        posterior = result().posterior.with_prior(result().model.epsilon.rescaled(0.5))
        epsilon = posterior.epsilon_at(settings(page)["delta"])
        assert numbers == pytest.approx(epsilon.quantile([0.5, 0.05, 0.95]).tolist(), rel=5e-4)
        press(page, "reset", "Enter")
        assert settings(page) == start
        assert text(page, "label") == label
        assert text(page, "source") == "As estimated; nothing was changed."
        assert {name: plotted(page, name) for name in before} == before


def test_claims_are_shown_rounded_and_kept_exact(browser: Browser, tmp_path: Path) -> None:
    claim = 4.1879297
    long = result_of(result().posterior, Question(claim=claim))
    write_page(long, tmp_path / "page.html")
    with visit(browser, tmp_path / "page.html") as seen:
        page = ready(seen)
        assert page.input_value("#what-if-claim-number") == "4.188"
        assert settings(page)["claim"] == claim
        assert "claim of 4.188 with" in text(page, "headline")
        assert "epsilon at most 4.188 at" in page.inner_text("#verdict .headline")
        # The number that is shown, typed again, is the original claim.
        page.fill("#what-if-claim-number", "4.188")
        assert settings(page)["claim"] == claim
        page.fill("#what-if-claim-number", "4.1881234")
        page.keyboard.press("Tab")
        assert page.input_value("#what-if-claim-number") == "4.188"
        assert settings(page)["claim"] == 4.1881234
        press(page, "reset", "Enter")
        assert settings(page)["claim"] == claim
        # Percent signs stay on the line of their number.
        assert "90\N{NO-BREAK SPACE}%" in (page.text_content("#what-if-headline") or "")
        captions = " ".join(page.locator("figcaption").all_text_contents())
        assert "90\N{NO-BREAK SPACE}%" in captions
        assert not re.search(r"\d %", captions)
        # The line of the claim is drawn behind the notes.
        kinds = page.eval_on_selector_all(
            "#answer-1 svg > g[data-mark]", "all => all.map((g) => g.classList[0])"
        )
        assert kinds.index("reference") < kinds.index("note")


def test_without_a_claim_its_slider_is_at_the_left_and_dimmed(
    browser: Browser, tmp_path: Path
) -> None:
    write_page(result_of(result().posterior), tmp_path / "page.html")
    with visit(browser, tmp_path / "page.html") as seen:
        page = ready(seen)
        dimmed = "document.getElementById('what-if-claim').classList.contains('unset')"
        assert page.input_value("#what-if-claim") == "0"
        assert page.input_value("#what-if-claim-number") == ""
        assert page.evaluate(dimmed)
        assert page.get_attribute("#what-if-claim", "aria-valuetext") == "no claim"
        press(page, "claim", "ArrowRight", 2)
        assert settings(page)["claim"] > 0
        assert not page.evaluate(dimmed)


def test_arrows_there_and_back_are_the_original_again(browser: Browser, path: Path) -> None:
    with visit(browser, path) as seen:
        page = ready(seen)
        for name in ("claim", "prior", "delta"):
            press(page, name, "ArrowRight")
            assert text(page, "source") == "Recomputed in this page."
            press(page, name, "ArrowLeft")
            assert text(page, "source") == "As estimated; nothing was changed."


def test_numbers_can_be_typed_and_are_kept_within_range(browser: Browser, path: Path) -> None:
    with visit(browser, path) as seen:
        page = ready(seen)
        page.fill("#what-if-claim-number", "0.01")
        page.fill("#what-if-prior-number", "1000")
        page.fill("#what-if-delta-number", "1.1e-6")
        page.keyboard.press("Tab")
        found = settings(page)
        assert found["claim"] == 0.01
        data = result().what_if.data
        assert data is not None
        assert found["priorScale"] == pytest.approx(data["scale"]["factors"][1] * 10**0.5)
        assert found["delta"] == 1e-6
        assert page.input_value("#what-if-delta-number") == "1e-6"
        seen.wait_for(lambda: text(page, "label"), "FAIL (proven)")
        # An empty field is the original claim again.
        page.fill("#what-if-claim-number", "")
        assert settings(page)["claim"] == 2.345


def test_screen_readers_hear_the_verdict(browser: Browser, path: Path) -> None:
    with visit(browser, path) as seen:
        page = ready(seen)
        assert page.get_attribute("#what-if-live", "aria-live") == "polite"
        page.fill("#what-if-claim-number", "0.01")
        seen.wait_for(lambda: text(page, "live").startswith("FAIL (proven). Epsilon"), True)
        for name in ("claim", "prior", "delta"):
            assert page.get_attribute(f"#what-if-{name}", "aria-valuetext")
            assert page.locator(f"label[for=what-if-{name}]").count() == 1


def test_a_finger_moves_sliders_on_a_phone(browser: Browser, path: Path) -> None:
    with visit(browser, path, **PHONE) as seen:
        page = ready(seen)
        for name in ("claim", "prior", "delta", "reset", "claim-number"):
            box = page.locator(f"#what-if-{name}").bounding_box()
            assert box is not None
            assert box["height"] >= SMALLEST_TARGET
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        page.locator("#what-if-prior").scroll_into_view_if_needed()
        box = page.locator("#what-if-prior").bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2)
        seen.wait_for(lambda: text(page, "source"), "Recomputed in this page.")
        assert settings(page)["priorScale"] > 1.1 * 10**0.5
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        seen.check_quiet()


def test_policy_allows_only_the_scripts_of_the_page(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', source)
    assert found is not None
    policy = found[1].replace("&#39;", "'")
    scripts = next(part for part in policy.split(";") if "script-src" in part)
    assert "unsafe" not in scripts
    assert scripts.count("sha256-") == len(SCRIPTS)
    for name in SCRIPTS:
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert not re.search(r"\beval\b|\bFunction\(|innerHTML|on[a-z]+=", text), name


def test_without_a_claim_one_can_be_tried(browser: Browser, tmp_path: Path) -> None:
    own = result_of(result().posterior)
    write_page(own, tmp_path / "page.html")
    with visit(browser, tmp_path / "page.html") as seen:
        page = ready(seen)
        assert text(page, "label") == "ESTIMATE"
        assert page.input_value("#what-if-claim-number") == ""
        page.fill("#what-if-claim-number", "0.01")
        seen.wait_for(lambda: text(page, "label"), "FAIL (proven)")
        press(page, "reset", "Enter")
        assert text(page, "label") == "ESTIMATE"


def test_chains_have_no_sliders_and_the_page_says_why(browser: Browser, tmp_path: Path) -> None:
    write_page(chains(), tmp_path / "page.html")
    with visit(browser, tmp_path / "page.html") as seen:
        assert "Markov chains" in seen.page.inner_text("#what-if")
        assert seen.page.locator("#what-if input").count() == 0
        seen.check_quiet()


def test_count_model_offers_the_deltas_of_its_curve(browser: Browser, tmp_path: Path) -> None:
    model = em.CountModel(delta=1e-2)
    own = result_of(em.estimate(SIX, model), Question(claim=2.0))
    data = own.what_if.data
    assert data is not None
    assert data["deltas"] == [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
    write_page(own, tmp_path / "page.html")
    with visit(browser, tmp_path / "page.html") as seen:
        page = ready(seen)
        assert "offers these deltas only" in text(page, "delta-note")
        press(page, "delta", "ArrowLeft")
        assert settings(page)["delta"] == 1e-3
        seen.check_quiet()


# --- bounds over delta ----------------------------------------------------------------------------


def test_proven_bounds_never_exceed_the_proof() -> None:
    scores = gaussian([1.5, 1.0], 200)
    own = result_of(SETTINGS.estimate(scores, CurveModel(delta=1e-5)))
    data = own.what_if.data
    assert data is not None
    exact = [em.prove(scores, delta=delta).at_least for delta in data["deltas"]]
    assert max(exact) > 0.5
    for bound, truth in zip(data["proven"], exact, strict=True):
        assert truth - 3e-3 * max(1.0, truth) <= bound <= truth + 1e-9


def test_flat_bounds_are_the_smaller_of_their_neighbours() -> None:
    calls = []

    def bound(delta: float, start: float) -> float:
        calls.append(delta)
        assert start <= max(1 - delta, 0.5)
        return 1 - delta

    deltas = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 0.1, 0.5]
    found = falling(bound, deltas, {3: 1 - 1e-5})
    assert all(value <= 1 - delta for value, delta in zip(found, deltas, strict=True))
    assert 1e-6 not in calls
    assert found[5] == 0.9
