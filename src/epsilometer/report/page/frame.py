"""What every page of a report shares: its frame, its figures, its downloads and its security policy.

Names in a page are untrusted.  Jinja2 escapes all text; the numbers of the plots are JSON without any
``<``, and the scripts insert text as text only.  The page's security policy allows only the scripts
that are part of it, by their hashes, and no requests.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from epsilometer import _files
from epsilometer._text import capital
from epsilometer.judgement.origin import Origin
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.report.figures.chart import Chart, figure_address
from epsilometer.report.figures.style import PAGE_COLOURS
from epsilometer.report.text import sentences
from epsilometer.report.text.facts import provenance_facts
from epsilometer.report.text.over_delta import csv_over_delta, over_delta_of
from epsilometer.report.text.rows import answer_table
from epsilometer.report.text.values import page_values

#: Where templates, script and style are.
FOLDER = Path(__file__).parent

#: The scripts of the page, in the order in which they run.
SCRIPTS = ("plot.js", "page.js", "what_if.js")

#: Largest number of bases whose table is open at first, and printed.
MOST_OPEN_ROWS = 60


class Download(NamedTuple):
    """A file in the page: its name, what it is, its kind and its text."""

    name: str
    what: str
    kind: str
    text: str

    @property
    def address(self) -> str:
        return f"data:{self.kind};charset=utf-8;base64,{_base64(self.text.encode())}"


def fill(
    result: Result, *, charts: Sequence[Chart], downloads: Sequence[Download], **sections: Any
) -> str:
    """The whole page; the first figure leads it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    counted_bases = units_of(result.data).bases(len(result.data))
    scripts = [script(_text(name)) for name in SCRIPTS]
    verdict, headline = result.verdict, ""
    if verdict is not None:  # without the label, which is shown above it
        headline = capital(sentences.verdict_sentence(result).removeprefix(f"{verdict.label}: "))
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_unbroken,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("frame.html.jinja").render(
        policy=_policy(*scripts),
        scripts=[Markup(text) for text in scripts],
        style=Markup(_text("page.css")),
        colours=PAGE_COLOURS,
        # A static image, for readers without scripts.
        lead=[(chart, figure_address(chart.draw())) for chart in charts[:1]],
        charts=charts[1:],
        downloads=[*_shared_downloads(result), *downloads],
        title=_title(counted_bases, result.origin),
        counted_bases=counted_bases,
        made_from=result.made_from,
        open_table=len(result.data) <= MOST_OPEN_ROWS,
        badge="ESTIMATE" if verdict is None else verdict.label,
        headline=headline,
        answers=sentences.answers(result),
        next_step=result.next_step,
        after=sentences.after_verdict(result),
        verdict=verdict,
        thresholds=result.question.thresholds,
        warnings=[_files.printable(text) for text in result.warnings],
        what_if=result.what_if,
        parameters=answer_table(result).cells(),
        proven=capital(f"{sentences.proven_fact(result)}."),
        meaning=sentences.meaning_of_epsilon(result),
        settled=sentences.settled_claims(result),
        assumptions=sentences.all_assumptions(result),
        facts=[(label, _files.printable(text)) for label, text in provenance_facts(result)],
        **sections,
    )


def _shared_downloads(result: Result) -> list[Download]:
    text = json.dumps(page_values(result), indent=1, allow_nan=False)
    files = [Download("report.json", "all numbers of this page", "application/json", text)]
    over = over_delta_of(result)
    if over is not None:
        rows = csv_over_delta(over)
        files.append(Download("curve.csv", "epsilon over delta", "text/csv", rows))
    return files


def _unbroken(value: Any) -> Any:
    """Plain text with a percent sign that stays on the line of its number."""
    # Markup holds scripts, styles and JSON.
    return re.sub(r"(?<=\d) %", "\u00a0%", value) if type(value) is str else value


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def script(text: str) -> str:
    """A script that can be embedded in a page.

    ``</script`` would end it and ``<!--`` start a comment; in strings and regular expressions, the only
    places where they can occur, the escaped form means the same.  Line ends are normalised, as they
    are when a browser computes the hash.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(/script|!--)", r"<\\\1", text, flags=re.IGNORECASE)


def _policy(*scripts: str) -> str:
    """The content security policy: run the page's own scripts, load nothing."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    hashes = " ".join(f"'sha256-{_base64(digest)}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _title(bases: str, origin: Origin) -> str:
    """What was audited, as far as known."""
    title = f"Privacy audit: {bases}"
    if "population" in origin.plan:
        title += f" from {_files.printable(origin.plan['population'])}"
    if origin.variant is not None:
        title += f", variant {_files.printable(origin.variant)}"
    return title


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
