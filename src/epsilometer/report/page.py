"""A report as one HTML file that needs nothing else: no network, no server, no other file.

Names in it are untrusted.  Jinja2 escapes all text; the numbers of the plots are JSON in which no
``<`` can occur; names in plots are escaped once more, as Plotly reads tags in text; and the page's own
security policy lets no script run but the two that are part of it, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer import _files
from epsilometer.errors import InputError
from epsilometer.inference.claimed_curve import Claim, JudgedCurve
from epsilometer.inference.delta_curve import DeltaCurve
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.result import Origin, Question, Result
from epsilometer.inference.verdict import Thresholds, Verdict
from epsilometer.report import data, delta_table, model_table, wording
from epsilometer.report.evidence import charts
from epsilometer.report.figures.chart import FORMATS, Chart, save_figure
from epsilometer.report.figures.style import PAGE_COLOURS
from epsilometer.report.summary import LABELS, batches_note, rows_of_batches, rows_of_parameters
from epsilometer.report.text import counted, pair_text, percent

TEMPLATE = Path(__file__).with_name("page.html.jinja")
SCRIPT = Path(__file__).with_name("page.js")
STYLE = Path(__file__).with_name("page.css")

LARGEST_SVG = 400_000
"""Bytes from which the printed form of a figure goes into the page as PNG instead."""

MOST_OPEN_ROWS = 60
"""Up to so many bases the table of all bases is open, and goes to paper too."""


def check_extras() -> None:
    """Refuse to begin what could not be written in the end."""
    for module in ("jinja2", "plotly"):
        if find_spec(module) is None:
            raise InputError(f"the HTML report needs {module}: pip install 'epsilometer[report]'.")


def render(result: Result, shown: Sequence[Chart] | None = None) -> str:
    """The whole page; ``shown`` are its figures, if they are made already."""
    check_extras()
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    # What a browser hashes has its line ends normalised.
    plotly = _script(get_plotlyjs())
    own = _script(SCRIPT.read_text(encoding="utf-8"))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    verdict, batches = result.verdict, result.posterior.batches
    return template.render(
        policy=_policy(plotly, own),
        plotly=Markup(plotly),
        script=Markup(own),
        style=Markup(STYLE.read_text(encoding="utf-8")),
        colours=PAGE_COLOURS,
        title=_title(result),
        badge="ESTIMATE" if verdict is None else str(verdict.outcome),
        headline=wording.headline(result),
        after=wording.after_verdict(result),
        verdict=verdict,
        thresholds=result.asked.thresholds,
        meaning=wording.meaning_of_epsilon(result),
        either_way=wording.claims_either_way(result),
        parameters=rows_of_parameters(result),
        warnings=[_files.printable(text) for text in result.warnings],
        charts=[_chart(chart) for chart in (charts(result) if shown is None else shown)],
        statistics=result.predictive.statistics,
        tables=_tables(result),
        batches=rows_of_batches(batches) if len(batches) > 1 else [],
        batches_note=batches_note(batches),
        assumptions=wording.assumptions(result),
        facts=[(label, _files.printable(text)) for label, text in wording.facts(result)],
        bases=_bases(result),
        bases_counted=counted(len(result.counts), "challenge base"),
        level=percent(result.level),
        open_table=len(result.counts) <= MOST_OPEN_ROWS,
        downloads=_downloads(result),
    )


def _script(text: str) -> str:
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


def _title(result: Result) -> str:
    origin = result.origin
    title = f"Privacy audit: {counted(len(result.counts), 'challenge base')}"
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


def _tables(result: Result) -> dict[str, tuple[list[tuple[str, ...]], list[str]]]:
    """Tables below figures, by the figure's name: rows, of which the first is the heading, and notes."""
    found: dict[str, tuple[list[tuple[str, ...]], list[str]]] = {}
    if result.over_delta is not None:
        here = (
            f"The rest of this page is about delta = {result.model.delta:g}; here the same "
            "counts are held against other deltas."
        )
        notes = [here, *delta_table.curve_notes(result.over_delta)]
        found["delta-curve"] = delta_table.curve_rows(result.over_delta), notes
    if result.models is not None:
        models = model_table.comparison_data(result.models, level=result.level)
        words = ["evidence", *(item["in_words"] for item in models["assumptions"])]
        table = zip(model_table.rows_of_models(models), words, strict=True)
        notes = [model_table.models_note(models), *model_table.reasons(models)]
        found["models"] = [(*row, word) for row, word in table], notes
    chains = result.posterior.chains
    if chains is not None:
        rows: list[tuple[str, ...]] = [("", "R-hat", "effective draws (bulk)", "(tail)")]
        for name, item in chains.diagnostics.parameters.items():
            r_hat = f"{item.r_hat:.4f}" if math.isfinite(item.r_hat) else "infinite"
            sizes = item.bulk_effective_size, item.tail_effective_size
            rows.append((LABELS[name], r_hat, *(f"{size:,.0f}" for size in sizes)))
        found["effective-draws"] = rows, []
    return found


def _bases(result: Result) -> list[tuple[str, ...]]:
    """Every base with its counts, the heading first."""
    without = f"epsilon without it, {percent(result.level)}"
    rows: list[tuple[str, ...]] = [
        ("base", "false positives", "rate", "false negatives", "rate", without)
    ]
    for row in data.base_rows(result):
        text, found = "", row.get("epsilon_without")
        if found is not None:
            text = f"{'' if found['reliable'] else 'about '}{pair_text(*found['interval'])}"
        rows.append(
            (
                _files.printable(row["challenge_base"]),
                f"{row['false_positives']:,} of {row['trials_h0']:,}",
                f"{row['false_positive_rate']:.4f}",
                f"{row['false_negatives']:,} of {row['trials_h1']:,}",
                f"{row['false_negative_rate']:.4f}",
                text,
            )
        )
    return rows


def _downloads(result: Result) -> list[tuple[str, str, str]]:
    """Files in the page: name, what it is, address."""
    whole = json.dumps(data.report_data(result), indent=1, allow_nan=False)
    files = [
        ("report.json", "every number of this page", "application/json", whole),
        ("counts.csv", "the counts of every base", "text/csv", data.bases_csv(result)),
    ]
    if result.origin.curves is not None:
        text = data.curves_csv(result.origin.curves)
        files.append(("curves.csv", "error counts over target rates", "text/csv", text))
    if result.over_delta is not None:
        text = delta_table.curve_csv(result.over_delta)
        files.append(("curve.csv", "epsilon over delta", "text/csv", text))
    return [
        (name, what, f"data:{kind};charset=utf-8;base64,{_base64(text.encode())}")
        for name, what, kind, text in files
    ]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def write_report(
    posterior: Posterior,
    path: str | PathLike[str],
    *,
    claim: float | None = None,
    level: float = 0.9,
    thresholds: Thresholds | None = None,
    origin: Origin | None = None,
    curve: DeltaCurve | None = None,
    claimed_curve: Claim | None = None,
    report: Callable[[str], None] | None = None,
) -> Verdict | None:
    """Write a report on a posterior as one HTML file, and return its verdict.

    Parameters
    ----------
    path
        Where the page goes; a file of that name is replaced.
    claim
        An epsilon to hold the posterior against; without one the page has no verdict.
    level
        Probability of the credible intervals.
    thresholds
        Where the verdict takes sides.
    origin
        What is known of how the counts came about: plan, attack, error curves.
    curve
        The posterior of epsilon over delta, from :func:`epsilometer.estimate_curve`, as a section.
    claimed_curve
        What is claimed at each delta of the curve, as in :func:`epsilometer.judge_curve`; the claim
        at every delta unless given.
    report
        Called with a line of text now and then, for a progress display.

    Raises
    ------
    InputError
        If Jinja2 or Plotly are not installed; they are the extra ``report``.
    """
    check_extras()
    table = None
    if curve is not None:
        over = claim if claimed_curve is None else claimed_curve
        table = JudgedCurve.of(curve, level=level, claim=over, thresholds=thresholds)
    asked = Question(level=level, claim=claim, thresholds=thresholds or Thresholds())
    origin = origin or Origin()
    result = Result(
        posterior=posterior, asked=asked, origin=origin, over_delta=table, report=report
    )
    write_page(result, Path(path))
    return result.verdict


def write_page(result: Result, path: Path, shown: Sequence[Chart] | None = None) -> None:
    """Write the page; the file is whole or not there."""
    _files.write_text(path, render(result, shown))


def write_figures(shown: Sequence[Chart], folder: Path) -> None:
    """Write figures for print, as PNG, SVG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in shown:
        figure = chart.draw()
        for form in FORMATS:
            path = folder / f"{chart.name}.{form}"
            _files.replace(path, partial(save_figure, figure, form=form))
