"""The page in light and dark, on a phone, on paper, without scripts, and its downloads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from epsilometer.report.text.values import page_values
from tests.report.browser import (
    WIDTH,
    Make,
    Open,
    Shelf,
    chains,
    exact,
    fixed_strength,
    hostile,
    visit,
)

# --- light and dark ----------------------------------------------------------------------------------


_COLOURS = """() => {
    const colour = (selector, property) => getComputedStyle(
        document.querySelector(selector))[property];
    return {
        ground: colour("body", "backgroundColor"),
        ink: colour("body", "color"),
        caption: colour("figcaption", "color"),
        link: colour("nav a", "color"),
        badge: colour("#verdict .badge", "color"),
        tick: colour("#exceedance-1 .x-axis .tick", "fill"),
        title: colour("#exceedance-1 .x-axis .title", "fill"),
        curve: colour("#exceedance-1 g.line path", "stroke"),
        dot: colour("#region-1 .point", "fill"),
    };
}"""


def luminance(colour: str) -> float:
    """Relative luminance of ``rgb(r, g, b)`` as the WCAG define it."""
    share = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_against_known_pairs() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    # The grey that the WCAG name as just enough on white, #767676: 4.54.
    assert contrast("rgb(118, 118, 118)", "rgb(255, 255, 255)") == pytest.approx(4.54, abs=0.005)


def test_dark_is_dark_and_switching_redraws(browser: Browser, shelf: Shelf) -> None:
    with visit(browser, shelf.path(fixed_strength), color_scheme="dark") as seen:
        page = seen.page
        dark = page.evaluate(_COLOURS)
        page.emulate_media(color_scheme="light")
        blue = "rgb(0, 114, 178)"
        seen.wait_for(lambda: page.evaluate(_COLOURS)["curve"], blue)
        light = page.evaluate(_COLOURS)
        page.emulate_media(color_scheme="dark")
        seen.wait_for(lambda: page.evaluate(_COLOURS), dark)
        seen.check_quiet()
    assert luminance(dark["ground"]) < 0.02
    assert luminance(light["ground"]) > 0.98
    for name in dark:
        assert dark[name] != light[name], name
    for colours in (dark, light):
        for name in ("ink", "caption", "link", "badge", "tick", "title"):
            # What the WCAG ask of text, level AA.
            assert contrast(colours[name], colours["ground"]) >= 4.5, name
        for name in ("curve", "dot"):
            # And of graphics.
            assert contrast(colours[name], colours["ground"]) >= 3, name


# --- phone, paper, no scripts ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [chains, hostile], ids=lambda make: make.__name__)
def test_phone_needs_no_sideways_scrolling(make: Make, on_phone: Open) -> None:
    page = on_phone(make).page
    assert page.evaluate("innerWidth") == 390
    assert page.evaluate(WIDTH) <= 390
    right = """[...document.querySelectorAll(".panel, .panel svg")].map(
        (element) => element.getBoundingClientRect().right)"""
    assert max(page.evaluate(right)) <= 390
    plots = """[...document.querySelectorAll(".panel")].map((panel) => {
        const box = panel.querySelector("clipPath rect");
        return [panel.id, box.width.baseVal.value, box.height.baseVal.value]; })"""
    # Room for a few ticks and a curve, beside names and legends.
    assert [plot for plot in page.evaluate(plots) if min(plot[1:]) < 120] == []
    names = """[...document.querySelectorAll("#bases td:first-child")].map(
        (cell) => cell.getBoundingClientRect().width)"""
    assert max(page.evaluate(names)) < 390 / 2  # leaves room for the counts beside them
    # Something wide would be noticed.
    page.evaluate("document.querySelector('footer').innerText += 'n'.repeat(500)")
    assert page.evaluate(WIDTH) > 390
    page.evaluate("document.querySelector('footer').remove()")
    assert page.evaluate(WIDTH) <= 390


_SEEN = """() => Object.fromEntries(
    [".panel svg", "img.still", "nav", ".save", "#data", "#bases tbody tr"].map(
        (selector) => [selector, [...document.querySelectorAll(selector)].map(
            (element) => element.checkVisibility())]))"""


def test_paper_gets_the_drawings(browser: Browser, shelf: Shelf, tmp_path: Path) -> None:
    # Dark on the screen must not mean a black page in the printer.
    with visit(browser, shelf.path(chains), color_scheme="dark") as seen:
        page = seen.page
        screen = page.evaluate(_SEEN)
        page.emulate_media(media="print")
        paper = page.evaluate(_SEEN)
        colours = page.evaluate(_COLOURS)
        pdf = page.pdf(format="A4")
        page.emulate_media(media="screen")
        assert page.evaluate(_SEEN) == screen
        seen.check_quiet()
    charts = shelf.charts(chains)
    assert len(screen[".panel svg"]) == sum(len(chart.panels()) for chart in charts)
    assert all(screen[".panel svg"] + screen[".save"])
    assert all(paper[".panel svg"])
    assert not any(paper["img.still"] + paper["nav"] + paper["#data"] + paper[".save"])
    assert all(paper["#bases tbody tr"])
    assert luminance(colours["ground"]) == pytest.approx(1)
    assert contrast(colours["tick"], colours["ground"]) >= 4.5
    check_paper(pdf, len(charts), tmp_path)


def check_paper(pdf: bytes, charts: int, folder: Path) -> None:
    assert pdf.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    # At most three figures go on a page, at least one.
    assert charts / 3 < pages < charts + 6
    reader = shutil.which("pdftotext")
    if reader:
        path = folder / "page.pdf"
        path.write_bytes(pdf)
        done = subprocess.run([reader, path, "-"], capture_output=True, check=True, text=True)
        text = " ".join(done.stdout.split())
        for words in ("INCONCLUSIVE", "Numbers", "Traces of the chains", "Every base", "eel"):
            assert words in text
        # Text of the drawings is text.
        assert "false-positive rate" in text
        assert "Point at a value" not in text
        assert "counts.csv" not in text


def test_without_scripts_there_are_the_first_figure_and_the_tables(
    browser: Browser, shelf: Shelf
) -> None:
    with visit(browser, shelf.path(exact), wait=False, java_script_enabled=False) as seen:
        page = seen.page
        page.wait_for_load_state()
        box = page.locator("img.still").bounding_box()
        assert box is not None
        assert box["width"] > 300  # drawn: an image that failed would show a small mark
        assert box["height"] > 150
        assert not any(panel.is_visible() for panel in page.locator(".panels").all())
        assert not any(button.is_visible() for button in page.locator(".save").all())
        assert "need JavaScript" in page.locator("#figures .no-script").inner_text()
        assert page.locator("#bases tbody tr").first.is_visible()


# --- downloads ---------------------------------------------------------------------------------------


def downloaded(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as waiting:
        page.get_by_role("link", name=name, exact=True).click()
    assert waiting.value.suggested_filename == name
    path = folder / name
    waiting.value.save_as(path)
    return path


def test_a_file_is_downloaded_whole(opened: Open, shelf: Shelf, tmp_path: Path) -> None:
    path = downloaded(opened(hostile).page, "report.json", tmp_path)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found == page_values(shelf.evidence(hostile))
