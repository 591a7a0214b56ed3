"""The page of a result of the count model, inside the frame of `frame.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epsilometer import _files
from epsilometer._text import counted, pair_text, percent
from epsilometer.judgement.count_result import CountResult
from epsilometer.report.figures.chart import Chart
from epsilometer.report.page.frame import Download, fill
from epsilometer.report.text.over_delta import over_delta_of, table_over_delta
from epsilometer.report.text.rows import LABELS, Rows, models_table
from epsilometer.report.text.values import base_rows, counts_csv, curves_csv

STRENGTH = (
    "The attack strength measures how close the attacks came to the best possible ones on the worst "
    "base: 0 is guessing, 1 is the best possible."
)


def render(result: CountResult, charts: Sequence[Chart]) -> str:
    """The whole page with its figures."""
    estimated = "epsilon" in result.posterior.parameters
    return fill(
        "count.html.jinja",
        result,
        charts=charts,
        downloads=_downloads(result),
        made_from="counts",
        counted_bases=counted(len(result.counts), "challenge base"),
        strength=STRENGTH if estimated else "",
        statistics=result.predictive.statistics,
        tables=_tables(result),
        bases=_bases(result),
        level=percent(result.level),
    )


def _tables(result: CountResult) -> dict[str, tuple[Rows, list[str]]]:
    """Tables below figures, by the figure's name: rows, of which the first is the heading, and notes."""
    tables: dict[str, tuple[Rows, list[str]]] = {}
    over = over_delta_of(result)
    if over is not None:
        here = (
            f"The rest of this page is about delta = {result.delta:g}; here the same counts are used at "
            "other deltas."
        )
        table = table_over_delta(over)
        tables["delta-curve"] = table.cells(), [here, *table.notes]
    if result.models is not None:
        table = models_table(result.models, result.level)
        words = ["evidence", *(each.interpretation for each in result.models.assumptions)]
        rows = [(*row, word) for row, word in zip(table.cells(), words, strict=True)]
        tables["models"] = rows, list(table.notes)
    chains = result.posterior.chains
    if chains is not None:
        rows = [("", "R-hat", "effective draws (bulk)", "(tail)")]
        for name, item in chains.diagnostics.parameters.items():
            r_hat = f"{item.r_hat:.4f}" if math.isfinite(item.r_hat) else "infinite"
            sizes = item.bulk_effective_size, item.tail_effective_size
            rows.append((LABELS[name], r_hat, *(f"{size:,.0f}" for size in sizes)))
        tables["effective-draws"] = rows, []
    return tables


def _bases(result: CountResult) -> Rows:
    """Every base with its counts, the heading first."""
    without = f"epsilon without it, {percent(result.level)}"
    rows: Rows = [("base", "false positives", "rate", "false negatives", "rate", without)]
    for row in base_rows(result):
        text, influence = "", row.get("epsilon_without")
        if influence is not None:
            text = f"{'' if influence['reliable'] else 'about '}{pair_text(*influence['interval'])}"
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


def _downloads(result: CountResult) -> list[Download]:
    files = [
        Download("counts.csv", "the counts of every base", "text/csv", counts_csv(result.counts))
    ]
    if result.origin.curves is not None:
        text = curves_csv(result.origin.curves)
        files.append(Download("curves.csv", "error counts over target rates", "text/csv", text))
    return files
