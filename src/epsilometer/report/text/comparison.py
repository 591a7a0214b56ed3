"""The comparison of estimators: one table, as text and as plain values."""

from __future__ import annotations

from typing import Any

from epsilometer._table import Cell, Table
from epsilometer._text import wrapped
from epsilometer.baselines.estimator import Kind
from epsilometer.comparison.estimators import ABOUT_GAUSSIAN, Comparison

NOT_APPLICABLE = "n/a"
"""The kind of an estimator that does not apply; its reason follows below the table."""


def comparison_data(found: Comparison) -> dict[str, Any]:
    """Plain values for JSON."""
    return {
        "delta": found.delta,
        "significance": found.significance,
        "source": found.source,
        "rows": [row.described() for row in found.rows],
    }


def comparison_table(found: Comparison) -> Table:
    """A row for each estimator; a point estimate has only a first number."""
    pooled = any(row.pooled is not None for row in found.rows)
    rows: list[tuple[Cell, ...]] = []
    for row in found.rows:
        ends = [(row.low, row.high)] + ([row.pooled or (None, None)] if pooled else [])
        numbers = [
            end if row.applies and (place == 0 or row.bounded_above) else None
            for pair in ends
            for place, end in enumerate(pair)
        ]
        gaussian = ", if Gaussian" if row.about == ABOUT_GAUSSIAN else ""
        kind = f"{row.kind}{gaussian}" if row.applies else NOT_APPLICABLE
        rows.append((row.label, kind, *numbers))
    notes = ["At least 0.000: no bound. A bound is not an estimate: most are far below epsilon."]
    if found.several:
        notes.append(
            "At least and at most refer to the strongest attack: the largest over the bases, with a "
            "correction for the choice."
        )
    if pooled:
        notes.append("Pooled: the counts of all bases added, so for the average attack.")
    names = ("at least", "at most", *(("pooled: least", "most") if pooled else ()))
    return Table(columns=("estimator", "kind", *names), rows=rows, notes=[*notes, *found.notes])


def comparison_text(found: Comparison) -> str:
    """Text for a terminal."""
    title = (
        f"epsilon at delta = {found.delta:g} from {found.source}. Bounds err with probability "
        f"{found.significance:g} at each end"
    )
    if any(row.kind == Kind.CREDIBLE for row in found.rows):
        title += f"; credible intervals hold {100 * (1 - 2 * found.significance):g}\u00a0%"
    lines = [*wrapped(f"{title}."), "", *comparison_table(found).lines(most=len(found.rows))]
    lines += ["", "Quantity and assumptions of each estimator:"]
    alike: dict[str, list[str]] = {}
    for row in found.rows:
        text = f"{row.kind} of {row.about}; assumes {row.assumes}."
        if row.reason:
            text += f" Does not apply: {row.reason}"
        alike.setdefault(text, []).append(row.label)
    for text, labels in alike.items():
        lines += wrapped(f"{'; '.join(labels)}: {text}", first="  ", rest="      ")
    return "\n".join(lines) + "\n"
