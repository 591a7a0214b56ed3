"""A curve over delta as a table with notes, for the terminal, files and the page."""

from __future__ import annotations

import math
from typing import Any

from epsilometer import _files
from epsilometer._text import counted, percent, plain, probability_text, table_lines, wrapped
from epsilometer.engines.exact.over_delta import POINTWISE, WHY_IT_RISES
from epsilometer.judgement.claimed_curve import JudgedCurve

MOST_REASONS = 3
"""Number of reasons of the verdict shown in the title; JSON has all of them."""


def curve_rows(judged: JudgedCurve) -> list[tuple[str, ...]]:
    """Rows of the table, header first."""
    verdict, deltas = judged.verdict, judged.curve.deltas.tolist()
    rows: list[tuple[str, ...]] = [("delta", "low", "median", "high")]
    rows += [
        (f"{delta:.3g}", *map(_short, ends))
        for delta, ends in zip(deltas, judged.quantiles.T.tolist(), strict=True)
    ]
    if verdict is None:
        return rows
    claims = [("claim", "P(above)", "verdict")]
    for each in verdict.verdicts:
        claims.append(("-", "-", "no claim") if each is None else (
            _short(each.claim),
            probability_text(each.probability_above).partition(" (")[0],
            each.label,
        ))  # fmt: skip
    return [row + claim for row, claim in zip(rows, claims, strict=True)]


def curve_notes(judged: JudgedCurve) -> list[str]:
    """Notes on the curve: accuracy, coverage, verdict and rising quantiles."""
    curve, found = judged.curve, []
    if not curve.trustworthy:
        found.append(
            f"Do not quote this: the tolerance {curve.tolerance:.0e} was not met at "
            f"{int((~curve.met).sum())} of {len(curve)} deltas; the largest estimated error is "
            f"{curve.errors.max():.1e}."
        )
    found.append(POINTWISE)
    if judged.verdict is not None:
        found.append(judged.verdict.sentence)
    if judged.curve.rises:
        listed = "; ".join(
            f"the {percent(rise.probability)} quantile from {_short(rise.lowest)} at delta "
            f"{rise.lowest_at:.3g} to {_short(rise.highest)} at delta {rise.highest_at:.3g}"
            for rise in judged.curve.rises
        )
        found.append(f"Estimates rise with delta: {listed}. {WHY_IT_RISES}")
    return found


def curve_text(judged: JudgedCurve) -> str:
    """The curve as text, at most 80 columns wide."""
    curve, solved = judged.curve, int(judged.curve.solved.sum())
    how = "every delta solved."
    if solved < len(curve):
        how = f"{solved} of {len(curve)} deltas solved, the others interpolated."
    title = (
        f"epsilon over delta from {counted(len(curve.counts), 'challenge base')}; low and high are the "
        f"ends of the {percent(judged.level)} interval. Exact quadrature; estimated error "
        f"{curve.errors.max():.1e}, "
        f"tolerance {curve.tolerance:.0e} {'met' if curve.trustworthy else 'NOT MET'}; {how}"
    )
    if judged.verdict is not None:
        reasons = "; ".join(judged.verdict.reasons[:MOST_REASONS])
        title = f"{judged.verdict.label}: {reasons}. E{title[1:]}"
    # Without labels: every column to the right, wider apart.
    table = table_lines([("", *row) for row in curve_rows(judged)], gap="   ")
    lines = [*wrapped(title), "", *(line[1:] for line in table)]
    for note in curve_notes(judged):
        lines += ["", *wrapped(note)]
    return "\n".join(lines) + "\n"


def curve_csv(judged: JudgedCurve) -> str:
    """CSV with one row per delta, in full precision."""
    items = _items(judged)
    rows = [["" if value is None else value for value in item.values()] for item in items]
    return _files.csv_text(tuple(items[0]), rows)


def curve_data(judged: JudgedCurve) -> dict[str, Any]:
    """The curve as plain values ready for JSON."""
    curve = judged.curve
    found: dict[str, Any] = {
        "level": judged.level,
        "num_challenge_bases": len(curve.counts),
        "curve": _items(judged),
        "trustworthy": curve.trustworthy,
        "tolerance": curve.tolerance,
        "rises": [vars(rise) for rise in judged.curve.rises],
        "notes": curve_notes(judged),
        "engine": curve.provenance.engine,
        "settings": dict(curve.provenance.settings),
        "seconds": curve.provenance.seconds,
        "versions": dict(curve.provenance.versions),
    }
    if judged.verdict is not None:
        found["verdict"] = {
            "outcome": str(judged.verdict.outcome),
            "grounds": str(judged.verdict.grounds),
            "reasons": list(judged.verdict.reasons),
        }
    return {name: plain(value) for name, value in found.items()}


def _items(judged: JudgedCurve) -> list[dict[str, Any]]:
    """One item per delta; the keys are the columns of the CSV."""
    found = []
    for point, (low, median, high) in zip(
        judged.curve.points, judged.quantiles.T.tolist(), strict=True
    ):
        verdict = judged.verdict_at(point.delta)
        found.append(
            {
                "delta": point.delta,
                "low": low,
                "median": median,
                "high": high,
                "error": point.error if math.isfinite(point.error) else None,
                "solved": point.solved,
                "claim": None if verdict is None else verdict.claim,
                "probability_above": None if verdict is None else verdict.probability_above,
                "verdict": None if verdict is None else verdict.label,
            }
        )
    return found


def _short(value: float) -> str:
    """Three decimals, or three significant digits of small numbers."""
    return f"{value:.3f}" if value >= 0.1 or value == 0 else f"{value:.3g}"
