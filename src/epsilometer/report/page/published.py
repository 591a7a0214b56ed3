"""The page of a result of the published model, inside the frame of `frame.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from epsilometer import _files
from epsilometer._text import counted, data, delta_table, model_table, pair_text, percent, wording
from epsilometer.judgement.next_step import next_step
from epsilometer.judgement.result import Result
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.published import charts
from epsilometer.report.page.frame import MOST_OPEN_ROWS, Download, fill, title_of
from epsilometer.report.page.what_if import what_if
from epsilometer.report.text.summary import (
    LABELS,
    batches_note,
    rows_of_batches,
    rows_of_parameters,
)


def render(result: Result, shown: Sequence[Chart] | None = None) -> str:
    """The whole page; ``shown`` are its figures, if already made."""
    verdict, batches = result.verdict, result.posterior.batches
    return fill(
        "published.html.jinja",
        charts=charts(result) if shown is None else shown,
        downloads=_downloads(result),
        what_if=what_if(result),
        made_from="counts",
        title=title_of(counted(len(result.counts), "challenge base"), result.origin),
        badge="ESTIMATE" if verdict is None else verdict.label,
        headline=wording.headline(result),
        next_step=next_step(result),
        after=wording.after_verdict(result),
        verdict=verdict,
        thresholds=result.question.thresholds,
        meaning=wording.meaning_of_epsilon(result),
        either_way=wording.claims_either_way(result),
        parameters=rows_of_parameters(result),
        warnings=[_files.printable(text) for text in result.warnings],
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
    )


def _tables(result: Result) -> dict[str, tuple[list[tuple[str, ...]], list[str]]]:
    """Tables below figures, by the figure's name: rows, of which the first is the heading, and notes."""
    found: dict[str, tuple[list[tuple[str, ...]], list[str]]] = {}
    if result.over_delta is not None:
        here = (
            f"The rest of this page is about delta = {result.model.delta:g}; here the same "
            "counts are used at other deltas."
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


def _downloads(result: Result) -> list[Download]:
    whole = json.dumps(data.report_data(result), indent=1, allow_nan=False)
    files = [
        Download("report.json", "all numbers of this page", "application/json", whole),
        Download("counts.csv", "the counts of every base", "text/csv", data.bases_csv(result)),
    ]
    if result.origin.curves is not None:
        text = data.curves_csv(result.origin.curves)
        files.append(Download("curves.csv", "error counts over target rates", "text/csv", text))
    if result.over_delta is not None:
        text = delta_table.curve_csv(result.over_delta)
        files.append(Download("curve.csv", "epsilon over delta", "text/csv", text))
    return files
