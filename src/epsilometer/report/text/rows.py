"""Tables of a result as rows of text, the heading first: parameters and bases."""

from __future__ import annotations

import math

from epsilometer import _files
from epsilometer._text import number_text, shortened
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.proofs.proof import rounded_down

Rows = list[tuple[str, ...]]

LABELS = {
    "epsilon": "epsilon",
    "strength": "attack strength",
    "within_correlation": "within correlation",
    "cross_correlation": "cross correlation",
    "spread": "spread in groups",
}
"""Display names of the parameters."""

NAME_COLUMNS = 30
"""Longest name of a base."""


def labels_of(result: Result) -> dict[str, str]:
    """The parameters to show with their names; epsilon and the strength even if fixed."""
    if result.kind == "curve":
        shown = units_of(result.scores).shown  # type: ignore[attr-defined]
        return {"shown": shown, "epsilon": "estimated (algorithm)", "strength": LABELS["strength"]}
    wanted = {"epsilon", "strength", *result.posterior.parameters}
    return {name: label for name, label in LABELS.items() if name in wanted}


def rows_of_parameters(result: Result) -> Rows:
    """What is proven, and each parameter: label, median, interval, mean."""
    posterior, proof = result.posterior, result.proof
    proven = "-" if proof is None else f"at least {rounded_down(proof.at_least)}"
    rows: Rows = [
        ("", "median", f"{100 * result.level:.10g} % interval", "mean"),
        ("proven", "", proven, ""),
    ]
    for name, label in labels_of(result).items():
        median = posterior.median(name)
        if name not in posterior.parameters:
            rows.append((label, f"{median:.6g}", "(fixed)", ""))
            continue
        low, high = posterior.credible_interval(name, result.level)
        digits = decimals(low, high)
        interval = f"{number_text(low, digits)} to {number_text(high, digits)}"
        mean = number_text(posterior.mean(name), digits)
        rows.append((label, number_text(median, digits), interval, mean))
    return rows


def rows_of_leaks(result: Result, most: int) -> Rows:
    """The worst bases with their epsilons."""
    units = units_of(result.scores)  # type: ignore[attr-defined]  # of the curve model only
    rows: Rows = [(units.base, "epsilon", f"{100 * result.level:.10g} %", "AUC", units.scored)]
    for leak in result.leaks[:most]:
        rows.append(
            (
                shortened(_files.printable(leak.name), NAME_COLUMNS),
                number_text(leak.median, 3),
                f"{number_text(leak.low, 3)} to {number_text(leak.high, 3)}",
                f"{leak.auc:.3f}",
                f"{leak.models_h0:,} + {leak.models_h1:,}",
            )
        )
    return rows


def decimals(low: float, high: float) -> int:
    """Number of decimals that shows three significant digits of the interval's width."""
    width = high - low
    if not 0 < width < math.inf:
        return 3 if width else 6  # a point, as :g would show it
    # At least three, as in the other tables; no more than a double holds.
    return min(max(2 - math.floor(math.log10(width)), 3), 12)
