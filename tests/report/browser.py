"""A real browser for the tests of the page, and the pages that they look at in it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import epsilometer as em
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.origin import Origin
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.charts import charts_of
from epsilometer.report.writing import write_page
from tests.drawn import error_counts
from tests.report.count_results import attack, gather

NAMES = ("chromium", "chromium-browser", "google-chrome")

#: Seconds until a test gives up on the browser.  Only a page that hangs waits so long: one of a few
#: bases is drawn in 1 to 3 s, and two cores may be busy with other tests.
PATIENCE = 30.0


def chromium(which: Callable[[str], str | None], environment: Mapping[str, str]) -> str:
    """The path of the browser; without one the test is skipped, and fails where nobody would notice."""
    for name in NAMES:
        found = which(name)
        if found:
            return found
    reason = (
        "the report's page is looked at in a real browser, which needs Debian's chromium "
        f"(apt-get install chromium); found none of {', '.join(NAMES)}."
    )
    if environment.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(f"{reason} With CI set, a skip is a failure.")
    pytest.skip(reason)


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser, for one module: in a whole session Playwright's event loop is in others' way."""
    path = chromium(shutil.which, os.environ)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A page that was opened, and all that it complained of or asked for."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def wait_until_ready(self) -> None:
        self.page.wait_for_selector("html[data-ready=yes]", timeout=1000 * PATIENCE)

    def strange_requests(self) -> list[str]:
        """Requests for anything but the page itself and what it holds."""
        held = ("data:", "blob:")
        return [url for url in self.requests if url != self.address and not url.startswith(held)]

    def check_quiet(self) -> None:
        """Nothing on the console, no error, and no request that leaves the page."""
        assert self.complaints == [], self.complaints
        assert self.strange_requests() == [], self.strange_requests()

    def wait_for(self, what: Callable[[], Any], expected: Any) -> None:
        """Wait until something has a value; a failure shows the value that it had at last."""
        end = time.monotonic() + PATIENCE
        while (found := what()) != expected and time.monotonic() < end:
            self.page.wait_for_timeout(20)
        assert found == expected, f"expected {expected!r}, got {found!r}"


@contextmanager
def visit(browser: Browser, path: Path, *, wait: bool = True, **context: Any) -> Iterator[Visit]:
    """Open a page in a context of its own: ``color_scheme``, ``is_mobile`` and the like."""
    with_size = {"viewport": {"width": 1280, "height": 900}} | context
    opened = browser.new_context(**with_size)
    try:
        page = opened.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        seen = Visit(page=page, address=path.as_uri())
        page.on("console", lambda message: _note(seen, message.type, message.text))
        page.on("pageerror", lambda error: seen.complaints.append(f"page error: {error}"))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(seen.address, wait_until="domcontentloaded")
        if wait:
            seen.wait_until_ready()
        yield seen
    finally:
        opened.close()


def _note(seen: Visit, kind: str, text: str) -> None:
    if kind in ("error", "warning", "assert"):
        seen.complaints.append(f"{kind}: {text}")


# --- plots -----------------------------------------------------------------------------------------

_SPEC = "id => EpsilometerPlot.spec(document.getElementById(id))"

_PLACES = """([id, mark]) => {
    const panel = document.getElementById(id);
    panel.scrollIntoView({block: "center"});
    const {x, y} = EpsilometerPlot.spec(panel).marks.at(mark);
    return x.map((value, i) => EpsilometerPlot.position(panel, value, y[i]));
}"""

_LABEL = """id => {
    const tip = document.querySelector(`#${id} .tip`);
    return tip.hidden ? null : [...tip.children].map((line) => line.textContent);
}"""

_WORDS = "([id, mark, i]) => EpsilometerPlot.words(document.getElementById(id), mark, i)"


def spec(page: Page, panel: str) -> dict[str, Any]:
    """What is drawn in a panel."""
    found: dict[str, Any] = page.evaluate(_SPEC, panel)
    return found


def marks(page: Page, panel: str) -> list[dict[str, Any]]:
    """The lines, bands, points and shades of a panel."""
    others = ("reference", "span", "note")
    return [mark for mark in spec(page, panel)["marks"] if mark["kind"] not in others]


def references(page: Page, panel: str) -> list[dict[str, Any]]:
    """The reference lines and spans of a panel."""
    return [mark for mark in spec(page, panel)["marks"] if mark["kind"] in ("reference", "span")]


def places(page: Page, panel: str, mark: int) -> list[tuple[float, float]]:
    """Where on the screen the values of a mark are; the panel is scrolled to first."""
    return [(x, y) for x, y in page.evaluate(_PLACES, [panel, mark])]


def label(page: Page, panel: str) -> list[str] | None:
    """What is shown for the value under the mouse, line by line; None if nothing is."""
    found: list[str] | None = page.evaluate(_LABEL, panel)
    return found


def words(page: Page, panel: str, mark: int, value: int) -> list[str]:
    """What a value would show if the mouse could reach it: others may lie on top."""
    found: list[str] = page.evaluate(_WORDS, [panel, mark, value])
    return found


# --- pages to look at ------------------------------------------------------------------------------

SIX = error_counts(
    [10, 30, 5, 22, 14, 8],
    [20, 30, 60, 41, 25, 71],
    100,
    names=["ant", "bee", "cat", "dog", "eel", "fox"],
)

HACK = "window.hacked=1"
#: Names of bases that want to be more than names, and what is seen of them if not themselves.
HOSTILE = {
    f"<script>{HACK}</script>": None,
    f"<img src=x onerror={HACK}>": None,
    f"</script><script>{HACK}</script>": None,
    "<b>bold</b>": None,
    f'<a href="javascript:{HACK}">x</a>': None,
    "two<br>lines": None,
    "{x}": None,
    "{label} {0:.3g}": None,
    "@blue": None,
    "{{ 7*7 }}": None,
    "$x^2$": None,
    "&lt;": None,
    "&#60;i&#62;": None,
    "=1+1": None,
    "+plus": None,
    "-minus": None,
    "日本語 🙂": None,
    # What moves or hides text is spelt out.
    "left\u202eright": r"left\u202eright",
    "new\nline": r"new\nline",
    "n" * 200: None,
}

SEEN = [shown or name for name, shown in HOSTILE.items()]


def exact() -> CountResult:
    """An audit with all that is known of it; nothing is settled."""
    result = attack()
    origin = Origin(
        plan={
            "population": "directions",
            "adjacency": "include",
            "design": "measure-mia-fast",
            "dataset_size": 49,
            "seed": 1,
            "hash": "0123456789abcdef",
        },
        attack={"attack": result.attack, "statistic": result.statistic, "target_alpha": 0.1},
        models={"trained": 40, "reused": 0, "failed": 0},
        warnings=tuple(result.warnings(0.1)),
        curves=result.sweep(),
    )
    posterior = em.estimate(result.counts(0.1), em.CountModel(delta=0.01))
    claim = posterior.median("epsilon")
    claims = em.judgement.ClaimedCurve(deltas=[1e-4], epsilons=[claim])
    return gather(posterior, claim=claims, origin=origin, deltas=(1e-6, 1e-4, 0.01, 0.1))


def chains() -> CountResult:
    """Chains too short to be believed."""
    settings = em.engines.McmcSettings(num_iterations=700, num_warmup=300, num_chains=3, seed=1)
    return gather(em.estimate(SIX, em.CountModel(delta=0.01), settings), claim=2.0, compare=False)


def fixed_strength() -> CountResult:
    model = em.CountModel(delta=0.01, strength=em.priors.Fixed(value=0.5))
    return gather(em.estimate(SIX, model), claim=0.5, level=0.8, compare=False)


def fixed_epsilon() -> CountResult:
    model = em.CountModel(delta=0.01, epsilon=em.priors.Fixed(value=2.0))
    return gather(em.estimate(SIX, model))


def hostile() -> CountResult:
    """Nothing in it is trusted: names of bases and of the plan, and warnings."""
    size = len(HOSTILE)
    # Apart from each other, so that the mouse meets one dot at a time.
    counts = error_counts(
        10 + 25 * (np.arange(size) % 6), 15 + 20 * (np.arange(size) // 6), 200, names=list(HOSTILE)
    )
    rng = np.random.default_rng(1)
    p_values = rng.random((size, 30)), rng.random((size, 30)) ** 3
    result = em.attacks.AttackResult(
        names=counts.names,
        statistic="loss",
        attack="threshold",
        p_values_h0=p_values[0],
        p_values_h1=p_values[1],
        scores_h0=p_values[0],
        scores_h1=p_values[1],
    )
    origin = Origin(
        plan={"population": f"<img src=x onerror={HACK}>", "design": "{{ 7*7 }}", "hash": "&lt;"},
        attack={"attack": "<b>bold</b>", "statistic": "{x}", "target_alpha": 0.1},
        variant=f"</script><script>{HACK}</script>",
        warnings=(f"<script>{HACK}</script>", "a <b>bold</b> \u202ewarning"),
        curves=result.sweep(),
    )
    return gather(
        em.estimate(counts, em.CountModel(delta=0.01)), claim=0.2, origin=origin, compare=False
    )


def many() -> CountResult:
    """2,000 bases, but only 40 different counts, so that estimating takes seconds."""
    rng = np.random.default_rng(1)
    counts = error_counts(
        np.tile(rng.binomial(100, 0.1, 40), 50), np.tile(rng.binomial(100, 0.6, 40), 50), 100
    )
    return gather(em.estimate(counts, em.CountModel(delta=0.01)), claim=30.0, compare=False)


KINDS = (exact, chains, fixed_strength, fixed_epsilon, hostile)

Make = Callable[[], CountResult]
Open = Callable[[Make], Visit]

#: Kinds of pages whose plots the others have too.
RARE = {fixed_strength, fixed_epsilon}
POSTERIORS = pytest.mark.parametrize(
    "make",
    [pytest.param(kind, marks=pytest.mark.slow) if kind in RARE else kind for kind in KINDS],
    ids=lambda make: make.__name__,
)
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}
WIDTH = "document.documentElement.scrollWidth"


class Shelf:
    """Pages made once, when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._evidence: dict[str, CountResult] = {}
        self._charts: dict[str, list[Chart]] = {}

    def evidence(self, make: Callable[[], CountResult]) -> CountResult:
        if make.__name__ not in self._evidence:
            self._evidence[make.__name__] = make()
        return self._evidence[make.__name__]

    def charts(self, make: Callable[[], CountResult]) -> list[Chart]:
        if make.__name__ not in self._charts:
            result = self.evidence(make)
            self._charts[make.__name__] = charts_of(result)
        return self._charts[make.__name__]

    def path(self, make: Callable[[], CountResult]) -> Path:
        path = self._folder / f"{make.__name__}.html"
        if not path.exists():
            write_page(self.evidence(make), path)
        return path

    def tampered(self, make: Callable[[], CountResult], change: Callable[[str], str]) -> Path:
        """The page with its text changed by hand."""
        text = self.path(make).read_text(encoding="utf-8")
        changed = change(text)
        assert changed != text
        path = self._folder / f"{make.__name__}-tampered.html"
        path.write_text(changed, encoding="utf-8")
        return path
