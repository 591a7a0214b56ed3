"""What each batch of counts did to epsilon, as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epsilometer import _files
from epsilometer.inference.updating import Batch
from epsilometer.report.text import shortened

LONGEST_LABEL = 22
"""Characters of a batch's label that leave room for the numbers on the same line."""


def rows_of_batches(batches: Sequence[Batch]) -> list[tuple[str, ...]]:
    """A table of the batches of counts, what each did to epsilon; the first row is the heading."""
    rows: list[tuple[str, ...]] = [
        ("batch", "rows", "epsilon after it", "moved by", "nats", "log p")
    ]
    for batch in batches:
        low, high = batch.interval
        # Two digits of the interval's width, from two to four decimals: the line is short.
        digits = min(max(1 - math.floor(math.log10(high - low)), 2), 4) if high > low else 4
        predictive = batch.log_predictive
        rows.append(
            (
                shortened(_files.printable(batch.label), LONGEST_LABEL),
                f"{batch.rows:,}",
                f"{batch.median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})",
                f"{batch.shift:+.{digits}f}",
                f"{batch.information:.3f}",
                "" if predictive is None else f"{predictive:.2f}",
            )
        )
    if all(not row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return rows


def batches_note(batches: Sequence[Batch]) -> str:
    """What the columns of :func:`rows_of_batches` mean."""
    text = (
        "After each batch: the median of epsilon with its 90 % interval, how far the median moved, and "
        "what the batch said about epsilon (divergence from what was known before it, in nats)."
    )
    if any(batch.log_predictive is not None for batch in batches):
        text += " log p is the log probability of the batch given the ones before it."
    return text
