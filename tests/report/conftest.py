"""A browser and pages to open in it; a page is made once for all modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.report.browser import PHONE, Make, Open, Shelf, Visit, launched, visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def opened(browser: Browser, shelf: Shelf) -> Iterator[Open]:
    """Pages on a desktop, light, opened once; tests only move the mouse and the focus in them."""
    yield from keep_open(browser, shelf, color_scheme="light")


@pytest.fixture(scope="module")
def on_phone(browser: Browser, shelf: Shelf) -> Iterator[Open]:
    """Pages on a phone, opened once."""
    yield from keep_open(browser, shelf, **PHONE)


def keep_open(browser: Browser, shelf: Shelf, **context: Any) -> Iterator[Open]:
    visits: dict[Make, Visit] = {}
    with ExitStack() as stack:

        def get(make: Make) -> Visit:
            if make not in visits:
                visits[make] = stack.enter_context(visit(browser, shelf.path(make), **context))
            return visits[make]

        yield get
        for seen in visits.values():
            seen.check_quiet()
