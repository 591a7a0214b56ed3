"""Values under the mouse, the finger and the arrow keys; names that try to be more than names."""

from __future__ import annotations

import re

import pytest

import epsilometer as em
from epsilometer.report.page.frame import SCRIPTS
from tests.report.browser import (
    HACK,
    SEEN,
    Open,
    Shelf,
    chains,
    hostile,
    label,
    places,
    spec,
    words,
)

# --- mouse and finger --------------------------------------------------------------------------------


def expected_label(counts: em.AttackCounts, base: int) -> list[str]:
    x, n0 = counts.false_positives[base], counts.trials_h0[base]
    y, n1 = counts.false_negatives[base], counts.trials_h1[base]
    return [
        counts.names[base],
        f"false positives {x} of {n0} ({x / n0:.4g})",
        f"false negatives {y} of {n1} ({y / n1:.4g})",
    ]


def test_mouse_over_an_attack_names_its_base(opened: Open, shelf: Shelf) -> None:
    panel = "region-1"
    seen, counts = opened(chains), shelf.evidence(chains).posterior.counts
    for base, (x, y) in enumerate(places(seen.page, panel, -1)):
        seen.page.mouse.move(x, y)
        seen.wait_for(lambda: label(seen.page, panel), expected_label(counts, base))
    seen.page.mouse.move(0, 0)
    seen.wait_for(lambda: label(seen.page, panel), None)


def test_mouse_beside_an_attack_tells_what_is_allowed_there(opened: Open, shelf: Shelf) -> None:
    seen, posterior = opened(chains), shelf.evidence(chains).posterior
    places(seen.page, "region-1", -1)  # scrolls
    middle = "EpsilometerPlot.position(document.getElementById('region-1'), 0.5, 0.5)"
    x, y = seen.page.evaluate(middle)
    seen.page.mouse.move(x, y)
    seen.wait_for(lambda: label(seen.page, "region-1") is not None, True)
    where, probability = label(seen.page, "region-1") or ("", "")
    assert re.fullmatch(
        r"false-positive rate 0\.(49|5)\d*, false-negative rate 0\.(49|5)\d*", where
    )
    # The very middle is allowed for any epsilon.
    assert posterior.probability_above("epsilon", 0.0) == 1
    assert probability == "allowed with probability 1.000"
    seen.page.mouse.move(0, 0)


def test_finger_on_an_attack_names_its_base(on_phone: Open, shelf: Shelf) -> None:
    seen, counts = on_phone(chains), shelf.evidence(chains).posterior.counts
    x, y = places(seen.page, "region-1", -1)[3]
    seen.page.touchscreen.tap(x, y)
    seen.wait_for(lambda: label(seen.page, "region-1"), expected_label(counts, 3))
    # A drag is left to the browser, which scrolls the page.
    style = "getComputedStyle(document.getElementById('region-1')).touchAction"
    assert seen.page.evaluate(style) != "none"
    # A tap elsewhere puts it away.
    seen.page.locator("#figure-region h3").tap()
    seen.wait_for(lambda: label(seen.page, "region-1"), None)


def test_arrow_keys_go_through_the_values(opened: Open, shelf: Shelf) -> None:
    seen, counts = opened(chains), shelf.evidence(chains).posterior.counts
    page = seen.page
    page.locator("#region-1").focus()
    page.keyboard.press("ArrowRight")
    assert label(page, "region-1") == expected_label(counts, 0)
    page.keyboard.press("ArrowRight")
    assert label(page, "region-1") == expected_label(counts, 1)
    page.keyboard.press("End")
    assert label(page, "region-1") == expected_label(counts, len(counts) - 1)
    assert page.locator("#region-1 .ring").get_attribute("visibility") == "visible"
    assert page.locator("#region-1 .tip").get_attribute("role") == "status"
    page.keyboard.press("Escape")
    assert label(page, "region-1") is None
    # Up and down go from one line to the other, at the same epsilon.
    page.locator("#exceedance-1").focus()
    for key in ("Home", "End", "ArrowDown"):
        page.keyboard.press(key)
    assert (label(page, "exceedance-1") or [""])[0].startswith("prior: ")
    page.keyboard.press("Tab")
    assert label(page, "exceedance-1") is None


@pytest.mark.parametrize(
    ("value", "format", "expected"),
    [
        (0.12345, ".3f", "0.123"), (1234567.0, ",", "1,234,567"), (1234.6, ",.0f", "1,235"),
        (2.0, "g", "2"), (0.1, "g", "0.1"), (1e-5, ".3g", "1e-05"),
        (0.00012345, ".3g", "0.000123"), (123456.0, ".3g", "1.23e+05"), (0.0, ".4g", "0"),
        (-1.5, ".2f", "-1.50"), (3.0, "", "3"),
    ],
)  # fmt: skip
def test_numbers_are_formatted_as_python_does(
    value: float, format: str, expected: str, opened: Open
) -> None:
    if format:
        assert f"{value:{format}}".replace(".0", "") == expected or f"{value:{format}}" == expected
    call = "([value, format]) => EpsilometerPlot.format(value, format)"
    assert opened(chains).page.evaluate(call, [value, format]) == expected


# --- names that want to be more ----------------------------------------------------------------------


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def test_hostile_names_stay_names_in_the_text(opened: Open) -> None:
    page = opened(hostile).page
    assert page.locator("#bases tbody td:first-child bdi").all_inner_texts() == SEEN
    assert page.locator("#bases tbody bdi > *").count() == 0
    population, variant = f"<img src=x onerror={HACK}>", f"</script><script>{HACK}</script>"
    heading = f"Privacy audit: {len(SEEN)} challenge bases from {population}, variant {variant}"
    assert page.locator("h1").inner_text() == heading
    assert page.title() == f"FAIL (proven) · {heading}"
    labelled = page.locator("#origin dt").all_inner_texts()
    facts = dict(zip(labelled, page.locator("#origin dd").all_inner_texts(), strict=True))
    assert facts["population"] == population
    assert facts["variant"].startswith(variant)
    assert facts["design"] == "{{ 7*7 }}"
    assert facts["hash of the plan"] == "&lt;"
    assert facts["attack"].startswith("<b>bold</b>, statistic {x}, ")
    warnings = page.locator("#warnings li").all_inner_texts()
    assert f"<script>{HACK}</script>" in warnings
    assert r"A <b>bold</b> \u202ewarning" in warnings
    made = "h1 *, dd *, dt *, #warnings li *, figcaption :not(.save), .verdict p :not(strong)"
    assert page.locator(made).count() == 0


def test_hostile_names_stay_names_under_the_mouse(opened: Open) -> None:
    seen = opened(hostile)
    for name, (x, y) in zip(SEEN, places(seen.page, "region-1", -1), strict=True):
        seen.page.mouse.move(x, y)
        wanted = shortened(name, 40)
        seen.wait_for(lambda: (label(seen.page, "region-1") or [""])[0], wanted)
        tags = seen.page.evaluate(
            """[...document.querySelectorAll("#region-1 .tip *")].map((e) => e.tagName)"""
        )
        assert tags == ["DIV"] * 3
    seen.page.mouse.move(0, 0)


def test_hostile_names_stay_names_in_every_plot(opened: Open) -> None:
    page = opened(hostile).page
    wanted = {shortened(name, 40) for name in SEEN}
    for panel in ("predictive-1", "predictive-2", "predictive-3", "curves-1"):
        drawn = spec(page, panel)["marks"]
        (number,) = (place for place, mark in enumerate(drawn) if "rows" in mark)
        values = range(len(drawn[number]["x"]))
        assert {words(page, panel, number, value)[0] for value in values} == wanted
    for panel in ("curves-1", "curves-2"):
        lines = [
            place
            for place, mark in enumerate(spec(page, panel)["marks"])
            if "hover" in mark and "rows" not in mark
        ]
        shown = [words(page, panel, number, 5) for number in lines]
        assert {each[0] for each in shown} == wanted
        # The numbers are filled in all the same.
        assert all(re.search(r"0\.\d+", each[1]) for each in shown)
    assert page.locator(".panel svg a, .panel svg text *, .tip div *").count() == 0


def test_hostile_names_run_nothing(opened: Open) -> None:
    page = opened(hostile).page
    assert page.evaluate("window.hacked") is None
    scripts = page.evaluate("[...document.scripts].filter((s) => s.type === '').length")
    assert scripts == len(SCRIPTS)
    assert page.evaluate("typeof EpsilometerPlot.draw") == "function"
    assert page.locator("[onerror], a[href^='javascript:'], b, i, img:not(.still)").count() == 0
