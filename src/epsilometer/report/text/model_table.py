"""Alternative models of the counts, as plain values, as rows of a table and as text."""

from __future__ import annotations

from typing import Any

from epsilometer._text import estimate_text, paragraphs, percent, plain, table_lines
from epsilometer.checks.comparison import ModelComparison, to_rows

LONGEST_LABEL = 27
"""Longest label that leaves room for the numbers on the same line."""

SMALLEST_SHARE = 0.001
"""Smallest value that three decimals can show."""


def comparison_data(comparison: ModelComparison, *, level: float) -> dict[str, Any]:
    """The model comparison as plain values ready for JSON."""
    rows = to_rows(comparison, level=level)
    return dict(plain({"assumptions": rows, "sentences": comparison.sentences()}))


def rows_of_models(data: dict[str, Any]) -> list[tuple[str, ...]]:
    """Table of the models, numbers as text; the first row is the header."""
    rows: list[tuple[str, ...]] = [("model", "log BF", "prob.", "epsilon", "min p")]
    for item in data["assumptions"]:
        epsilon, factor, share = item["epsilon"], item["log_bayes_factor"], item["probability"]
        text = "not available"
        if epsilon is not None:
            text = estimate_text(epsilon["median"], *epsilon["interval"])
        rows.append(
            (
                item["assumption"],
                "" if factor is None else f"{factor:.1f}",
                _share(share),
                text,
                "" if item["smallest_p_value"] is None else f"{item['smallest_p_value']:.3f}",
            )
        )
    return rows


def _share(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value >= SMALLEST_SHARE else f"<{SMALLEST_SHARE:g}"


def models_note(data: dict[str, Any]) -> str:
    """Explanation of the columns."""
    first = next((item["epsilon"] for item in data["assumptions"] if item["epsilon"]), None)
    level = "" if first is None else f", {percent(first['level'])} interval"
    return (
        "The first row is the model in use. log BF: log Bayes factor against it. prob.: posterior "
        "probability, if all comparable models are equally likely a priori. epsilon: median"
        f"{level}. min p: smallest p-value of the posterior predictive check; below 0.01 the model "
        "rarely produces counts like these."
    )


def reasons(data: dict[str, Any]) -> list[str]:
    """Why some models have no numbers, and other remarks."""
    return [
        f"{item['assumption']}: {item['reason'].rstrip('.')}."
        for item in data["assumptions"]
        if item["reason"]
    ]


def models_text(data: dict[str, Any]) -> str:
    """The table as plain ASCII text, at most 80 columns wide."""
    rows = rows_of_models(data)
    if max(len(row[0]) for row in rows) <= LONGEST_LABEL:
        lines = table_lines(rows)
    else:  # each label on a line, its numbers indented below
        numbers = table_lines([("", *row[1:]) for row in rows], least=2)
        lines = [line for row, text in zip(rows, numbers, strict=True) for line in (row[0], text)]
    table = "".join(f"{line}\n" for line in ["Alternative models:", *lines])
    return table + paragraphs([models_note(data), *reasons(data), *data["sentences"]])
