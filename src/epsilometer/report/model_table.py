"""The counts under other assumptions, as plain values, as rows of a table and as text."""

from __future__ import annotations

from typing import Any

from epsilometer.inference.checks.comparison import ModelComparison, to_rows
from epsilometer.report.text import estimate_text, paragraphs, percent, plain, table_lines

LONGEST_LABEL = 27
"""Characters of a label that leave room for the numbers on the same line."""

SMALLEST_SHARE = 0.001
"""The least that three decimals can show."""


def comparison_data(comparison: ModelComparison, *, level: float) -> dict[str, Any]:
    """Everything about the assumptions, ready for JSON."""
    rows = to_rows(comparison, level=level)
    return dict(plain({"assumptions": rows, "sentences": comparison.sentences()}))


def rows_of_models(data: dict[str, Any]) -> list[tuple[str, ...]]:
    """A table of the assumptions, numbers as text; the first row is the heading."""
    rows: list[tuple[str, ...]] = [("assumption", "log BF", "share", "epsilon", "least p")]
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
    """What the columns mean."""
    first = next((item["epsilon"] for item in data["assumptions"] if item["epsilon"]), None)
    level = "" if first is None else f", {percent(first['level'])} interval"
    return (
        "The first is the model used. log BF: log Bayes factor against it. share: probability of "
        "each, if all that compare were equally likely before. epsilon: median"
        f"{level}. least p: smallest p-value of the predictive check; below 0.01 the assumption "
        "hardly makes counts like these."
    )


def reasons(data: dict[str, Any]) -> list[str]:
    """Why some assumptions have no number, or what to mind."""
    return [
        f"{item['assumption']}: {item['reason'].rstrip('.')}."
        for item in data["assumptions"]
        if item["reason"]
    ]


def models_text(data: dict[str, Any]) -> str:
    """The table for reading, at most 80 columns wide, in plain ASCII."""
    rows = rows_of_models(data)
    if max(len(row[0]) for row in rows) <= LONGEST_LABEL:
        lines = table_lines(rows)
    else:  # labels and, indented, their numbers
        numbers = table_lines([("", *row[1:]) for row in rows], least=2)
        lines = [line for row, text in zip(rows, numbers, strict=True) for line in (row[0], text)]
    table = "".join(f"{line}\n" for line in ["Other assumptions:", *lines])
    return table + paragraphs([models_note(data), *reasons(data), *data["sentences"]])
