"""What every page of a report shares: its frame, its figures, its downloads and its security policy.

Names in a page are untrusted.  Jinja2 escapes all text; the numbers of the plots are JSON in which no
``<`` can occur; names in plots are escaped once more, as Plotly reads tags in text; and the page's own
security policy lets no script run but the two that are part of it, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from epsilometer import _files
from epsilometer.errors import InputError
from epsilometer.inference.result import Origin
from epsilometer.report.figures.chart import Chart, save_figure
from epsilometer.report.figures.style import PAGE_COLOURS

FOLDER = Path(__file__).parent
"""Where templates, script and style are."""

LARGEST_SVG = 400_000
"""Bytes from which the printed form of a figure goes into the page as PNG instead."""

MOST_OPEN_ROWS = 60
"""Up to so many bases the table of all bases is open, and goes to paper too."""


class Download(NamedTuple):
    """A file in the page: its name, what it is, its kind and its text."""

    name: str
    what: str
    kind: str
    text: str


def check_extras() -> None:
    """Refuse to begin what could not be written in the end."""
    for module in ("jinja2", "plotly"):
        if find_spec(module) is None:
            raise InputError(f"the HTML report needs {module}: pip install 'epsilometer[report]'.")


def fill(
    template: str, *, charts: Sequence[Chart], downloads: Sequence[Download], **values: Any
) -> str:
    """A whole page from its template, which extends the frame."""
    check_extras()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    # What a browser hashes has its line ends normalised.
    plotly = script(get_plotlyjs())
    own = script(_text("page.js"))
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        policy=_policy(plotly, own),
        plotly=Markup(plotly),
        script=Markup(own),
        style=Markup(_text("page.css")),
        colours=PAGE_COLOURS,
        charts=[_chart(chart) for chart in charts],
        downloads=[(each.name, each.what, _address(each)) for each in downloads],
        **values,
    )


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def script(text: str) -> str:
    """A script as it may stand in a page.

    ``</script`` would end it and ``<!--`` begin a comment; in strings and regular expressions, the only
    places where they can occur, the escaped form means the same.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(/script|!--)", r"<\\\1", text, flags=re.IGNORECASE)


def _policy(*scripts: str) -> str:
    """What the page may do: run the scripts that it came with, and show what it holds."""
    hashes = " ".join(
        f"'sha256-{_base64(hashlib.sha256(text.encode()).digest())}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def title_of(bases: str, origin: Origin) -> str:
    """What was audited, as far as it is known."""
    title = f"Privacy audit: {bases}"
    if "population" in origin.plan:
        title += f" from {_files.printable(origin.plan['population'])}"
    if origin.variant is not None:
        title += f", variant {_files.printable(origin.variant)}"
    return title


def _chart(chart: Chart) -> dict[str, Any]:
    """A figure; its printed form is seen where scripts do not run, and on paper."""
    figure, kind, image = chart.draw(), "svg+xml", io.BytesIO()
    save_figure(figure, image, form="svg")
    if image.tell() > LARGEST_SVG:
        kind, image = "png", io.BytesIO()
        save_figure(figure, image)
    return {
        "name": chart.name,
        "title": chart.title,
        "caption": chart.caption,
        "panels": chart.panels(),
        "image": f"data:image/{kind};base64,{_base64(image.getvalue())}",
    }


def _address(file: Download) -> str:
    return f"data:{file.kind};charset=utf-8;base64,{_base64(file.text.encode())}"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
