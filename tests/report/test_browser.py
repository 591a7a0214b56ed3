"""The page in a real browser: every figure is drawn, and nothing strange runs in it."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

import pytest
from playwright.sync_api import Browser

from epsilometer.report.figures.charts import COUNT_CHARTS
from tests.report.browser import (
    HACK,
    KINDS,
    POSTERIORS,
    RARE,
    WIDTH,
    Make,
    Open,
    Shelf,
    chains,
    chromium,
    exact,
    fixed_epsilon,
    fixed_strength,
    hostile,
    many,
    marks,
    references,
    spec,
    visit,
)

# --- the browser -------------------------------------------------------------------------------------


def test_browser_is_the_first_that_is_installed() -> None:
    assert chromium({"google-chrome": "/opt/chrome"}.get, {}) == "/opt/chrome"
    both = {"google-chrome": "/opt/chrome", "chromium": "/usr/bin/chromium"}
    assert chromium(both.get, {"CI": "true"}) == "/usr/bin/chromium"


@pytest.mark.parametrize(
    ("value", "outcome"),
    [("", pytest.skip), ("false", pytest.skip), ("true", pytest.fail), ("1", pytest.fail)],
)
def test_without_a_browser_tests_are_skipped_but_never_in_ci(value: str, outcome: Any) -> None:
    with pytest.raises(outcome.Exception, match="needs Debian's chromium"):
        chromium(lambda _: None, {"CI": value})


# --- every figure is drawn ---------------------------------------------------------------------------


_DRAWN = """() => [...document.querySelectorAll(".panel")].map((panel) => ({
    id: panel.id,
    drawn: panel.dataset.drawn,
    seen: panel.checkVisibility() && panel.querySelector("svg").getBBox().width > 0,
    marks: [...panel.querySelectorAll("g[data-mark]")].map((group) => [
        group.getAttribute("class"), group.querySelectorAll("path[d], line, rect, text").length,
        [...group.querySelectorAll("image")].filter(
            (image) => image.href.baseVal.startsWith("data:image/png")).length]),
    titles: [...panel.querySelectorAll(".x-axis .title")].map((title) => title.textContent).join(" "),
}))"""


@POSTERIORS
def test_every_figure_is_drawn(make: Make, opened: Open, shelf: Shelf) -> None:
    page = opened(make).page
    panels = page.evaluate(_DRAWN)
    charts = shelf.charts(make)
    expected = [
        (f"{chart.name}-{number + 1}", panel)
        for chart in charts
        for number, panel in enumerate(chart.panels())
    ]
    assert [panel["id"] for panel in panels] == [name for name, _ in expected]
    for panel, (name, asked) in zip(panels, expected, strict=True):
        assert panel["drawn"] == "yes", name
        assert panel["seen"], name
        assert sorted(kind for kind, *_ in panel["marks"]) == sorted(
            mark["kind"] for mark in asked["marks"]
        )
        for kind, elements, images in panel["marks"]:
            assert images == (kind in ("heat",)), name
            assert images or elements or kind in ("note", "reference"), (name, kind)
        assert panel["titles"] == asked["x"]["title"].replace("\n", " "), name
        assert spec(page, panel["id"]) == json.loads(json.dumps(asked)), name
    seen = opened(make)
    assert seen.requests.count(seen.address) == 1
    assert page.locator("img.still").count() == 1
    assert not page.locator("img.still").is_visible()


_TEXTS = """() => [...document.querySelectorAll(".panel")].flatMap((panel) => {
    const box = (element) => { const b = element.getBoundingClientRect();
        return [b.left, b.top, b.right, b.bottom]; };
    const all = (selector) => [...panel.querySelectorAll(selector)].map(box);
    const before = (a, b, low, high) => a[high] <= b[low] + 0.5 || b[high] <= a[low] + 0.5;
    const apart = (a, b) => before(a, b, 0, 2) || before(a, b, 1, 3);
    const clash = (some, others) => some.some((a) => others.some((b) => a !== b && !apart(a, b)));
    const ticks = all(".tick"), titles = all(".title"), legend = all(".legend text");
    const frame = box(panel), outside = [...ticks, ...titles, ...legend].some(
        (b) => b[0] < frame[0] - 1 || b[2] > frame[2] + 1);
    return [clash(ticks, titles) && "title on ticks", clash(ticks, ticks) && "tick on tick",
            clash(legend, [...ticks, ...titles]) && "legend on axis", outside && "outside"]
        .filter(Boolean).map((what) => `${panel.id}: ${what}`);
})"""


@pytest.mark.parametrize("make", [exact, chains, hostile], ids=lambda make: make.__name__)
def test_titles_ticks_and_legends_never_overlap(make: Make, opened: Open, on_phone: Open) -> None:
    for page in (opened(make).page, on_phone(make).page):
        assert page.evaluate(_TEXTS) == []
    # A title moved onto the ticks would be noticed.
    page.evaluate("""document.querySelector("#answer-1 .x-axis .title").setAttribute("y",
        document.querySelector("#answer-1 .x-axis .tick").getAttribute("y"))""")
    assert page.evaluate(_TEXTS) == ["answer-1: title on ticks"]
    page.evaluate(
        "EpsilometerPlot.draw(...[document.getElementById('answer-1')].flatMap("
        "(div) => [div, EpsilometerPlot.spec(div)]))"
    )
    assert page.evaluate(_TEXTS) == []


def test_first_figure_has_the_proof_the_estimate_and_the_claim(opened: Open, shelf: Shelf) -> None:
    page, result = opened(fixed_strength).page, shelf.evidence(fixed_strength)
    assert result.verdict is not None
    assert result.proof is not None
    assert result.proof.at_least > 0
    drawn = spec(page, "answer-1")
    (claim,) = references(page, "answer-1")
    assert claim["x"] == result.verdict.claim
    estimated = next(mark for mark in drawn["marks"] if "x_ends" in mark)
    low, high = result.posterior.credible_interval("epsilon", result.level)
    assert estimated["x_ends"] == [[low], [high]]
    assert drawn["y"]["names"] == ["proven", "estimated", "posterior"]
    proven = [mark for mark in drawn["marks"] if mark.get("label") == "proven"]
    assert [mark["x"] for mark in proven] == [[result.proof.at_least]]
    order = page.evaluate("""[...document.querySelectorAll("#verdict, #answer, #what-if, #numbers")]
        .map((section) => section.id)""")
    assert order == ["verdict", "answer", "what-if", "numbers"]


def test_every_kind_of_figure_is_among_them(shelf: Shelf) -> None:
    found = {chart.name for make in KINDS if make not in RARE for chart in shelf.charts(make)}
    assert found == set(COUNT_CHARTS) - {"proof"}  # counts have no order of pairs


@pytest.mark.parametrize(
    ("make", "badge"),
    [
        (exact, "INCONCLUSIVE"),
        (chains, "INCONCLUSIVE"),
        (fixed_strength, "FAIL (proven)"),
        (fixed_epsilon, "ESTIMATE"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_verdict_comes_first(make: Make, badge: str, opened: Open, shelf: Shelf) -> None:
    page, evidence = opened(make).page, shelf.evidence(make)
    assert page.locator("#verdict .badge").inner_text() == badge
    assert page.locator("#next-step").inner_text().startswith("Next: ")
    # Its colour is that of the outcome, whatever the grounds.
    assert page.locator(f"#verdict.{badge.partition(' ')[0]}").count() == 1
    assert page.title().startswith(f"{badge} · Privacy audit: ")
    box = page.locator("#verdict").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900  # on the first screen
    text = page.locator("#verdict").inner_text()
    if evidence.verdict is not None:
        assert f"{evidence.verdict.claim:.4g}" in text
    warned = page.locator(".warnings").count()
    assert warned == bool(evidence.warnings)
    assert ("NOT CONVERGED" in page.content()) == (make is chains)


# --- nothing leaves the page, nothing strange runs in it ---------------------------------------------


def without_policy(text: str) -> str:
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text, count=1)


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "no policy"])
def test_what_is_put_into_the_page_reaches_nobody(
    policy: bool, browser: Browser, shelf: Shelf
) -> None:
    """The page's policy holds back what slipped into it; and without it, the checks here notice."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        tags = (
            f'<img src="{url}"><script>{HACK}</script>'
            f'<img src="data:," onerror="{HACK}"><script async src="{url}"></script>'
        )

        def change(text: str) -> str:
            text = text if policy else without_policy(text)
            return text.replace("<main>", f"<main>{tags}", 1)

        path = shelf.tampered(fixed_epsilon, change)
        server.settimeout(1.0 if policy else 20.0)
        with visit(browser, path, wait=False) as seen:
            if policy:
                seen.wait_until_ready()
                with pytest.raises(TimeoutError):
                    server.accept()
                assert seen.page.evaluate("window.hacked") is None
            else:
                server.accept()[0].close()
                assert seen.page.evaluate("window.hacked") == 1
            refused = [text for text in seen.complaints if "Content Security Policy" in text]
            assert len(refused) == (4 if policy else 0), seen.complaints
            # The check that all other pages pass notices either.
            with pytest.raises(AssertionError):
                seen.check_quiet()
            assert url in seen.strange_requests()


def test_errors_of_scripts_are_noticed(browser: Browser, shelf: Shelf) -> None:
    def change(text: str) -> str:
        broken = "<script>setTimeout(() => { throw Error('oh') }); console.warn('hm')</script>"
        return without_policy(text).replace("<main>", f"<main>{broken}", 1)

    with visit(browser, shelf.tampered(fixed_epsilon, change)) as seen:
        assert seen.complaints == ["warning: hm", "page error: oh"]


@pytest.mark.parametrize("mark", ["Draws plots as SVG", "Draws the plots of the page"])
def test_changed_script_does_not_run(mark: str, browser: Browser, shelf: Shelf) -> None:
    """The page lets exactly those scripts run that it was made with; the image is seen instead."""
    path = shelf.tampered(fixed_epsilon, lambda text: text.replace(mark, f"{mark} ", 1))
    with visit(browser, path, wait=False) as seen:
        seen.page.wait_for_load_state()
        assert seen.page.locator("img.still").is_visible()
        assert seen.page.locator("html[data-ready]").count() == 0
        assert any("Content Security Policy" in text for text in seen.complaints)


# --- many bases --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_thousand_bases_open_in_seconds(browser: Browser, shelf: Shelf) -> None:
    path = shelf.path(many)
    start = time.monotonic()
    with visit(browser, path, color_scheme="light") as seen:
        took = time.monotonic() - start
        page = seen.page
        # No measurement, but a promise: somebody who opens the file must not take it for broken.
        # It takes 4 s with two cores and nothing beside it; five times that leaves room for other
        # tests, and would not hide work that grows with the square of the bases.
        assert took < 20
        assert page.locator("#bases tbody tr").count() == 2000
        assert len(marks(page, "region-1")[-1]["x"]) == 2000
        assert page.locator("#region-1 .point").count() == 2000
        assert not page.locator("#bases table").is_visible()
        page.locator("#bases summary").click()
        assert page.locator("#bases tbody tr").first.is_visible()
        seen.check_quiet()
        # A window made narrow: the plots follow.
        page.set_viewport_size({"width": 390, "height": 844})
        seen.wait_for(lambda: page.evaluate(WIDTH), 390)
