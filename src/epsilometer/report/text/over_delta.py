"""Epsilon over several deltas, of either model: one table for the terminal, files and the page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer._text import counted, percent, plain, probability_text, table_lines, wrapped
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.exact.over_delta import POINTWISE, WHY_IT_RISES, DeltaCurve
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.judgement.verdict import JudgedDelta, Verdict

DELTAS, SMALLEST_DELTA, LARGEST_DELTA = 25, 1e-8, 0.1
"""Where the curve model is drawn if one delta was asked for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OverDelta:
    """A curve over delta as views show it: with a level, and with the claims that were judged."""

    curve: DeltaCurve | JointDeltaCurve
    level: float
    verdict: Verdict | None = None

    @property
    def deltas(self) -> FloatArray:
        """The deltas, increasing."""
        return np.asarray(self.curve.deltas, dtype=float)

    @cached_property
    def quantiles(self) -> FloatArray:
        """Lower end, median and upper end at each delta: shape (3, deltas)."""
        return self.curve.quantile([0.5 - self.level / 2, 0.5, 0.5 + self.level / 2])

    @cached_property
    def joint_band(self) -> FloatPair | None:
        """The band that contains the whole curve; None if each delta has its own posterior."""
        curve = self.curve
        return curve.joint_band(self.level) if isinstance(curve, JointDeltaCurve) else None

    @property
    def extrapolated(self) -> BoolArray:
        """Which deltas are extrapolated beyond the data; none of the count model."""
        if isinstance(self.curve, JointDeltaCurve):
            return self.curve.extrapolated
        return np.zeros(len(self.curve), dtype=bool)

    @property
    def judged(self) -> dict[float, JudgedDelta]:
        """The claims by delta, with the probability that epsilon exceeds them."""
        return {} if self.verdict is None else {row.delta: row for row in self.verdict.by_delta}

    @property
    def bases(self) -> str:
        """The number of bases with its noun."""
        if isinstance(self.curve, DeltaCurve):
            return counted(len(self.curve.counts), "challenge base")
        scores = self.curve.posterior.scores
        return units_of(scores).bases(len(scores))


def over_delta_of(result: Result) -> OverDelta | None:
    """Epsilon over delta; the curve model has it over a wide range even if nobody asked."""
    curve = result.over_delta
    if curve is None and result.kind == "curve":
        curve = _wide(result)
    return None if curve is None else OverDelta(
        curve=curve, level=result.level, verdict=result.verdict
    )  # fmt: skip


def _wide(result: Result) -> JointDeltaCurve:
    delta = result.delta
    smallest = min(SMALLEST_DELTA, delta) if delta > 0 else SMALLEST_DELTA
    deltas = np.geomspace(smallest, max(LARGEST_DELTA, delta), DELTAS)
    # The result's own delta, and where extrapolation ends, instead of ones that are hardly others.
    for special in (delta, result.posterior.extrapolated_below_delta):
        if smallest <= special <= deltas.max():
            deltas = np.append(deltas[np.abs(np.log(deltas / special)) > 1e-6], special)
    return JointDeltaCurve(posterior=result.posterior, deltas=deltas)


def items(over: OverDelta) -> list[dict[str, Any]]:
    """One item per delta; the keys are the columns of the CSV."""
    rows = []
    for place, (delta, ends) in enumerate(
        zip(over.deltas.tolist(), over.quantiles.T.tolist(), strict=True)
    ):
        item: dict[str, Any] = dict(
            zip(("delta", "low", "median", "high"), (delta, *ends), strict=True)
        )
        if over.joint_band is not None:
            low, high = over.joint_band
            item |= {"joint_low": low[place], "joint_high": high[place]}
            item["extrapolated"] = bool(over.extrapolated[place])
        if isinstance(over.curve, DeltaCurve):
            point = over.curve.points[place]
            item |= {"error": point.error, "solved": point.solved}
        judged = over.judged.get(delta)
        item["claim"] = None if judged is None else judged.claim
        item["probability_above"] = None if judged is None else judged.probability_above
        rows.append({name: plain(value) for name, value in item.items()})
    return rows


def rows_over_delta(over: OverDelta) -> list[tuple[str, ...]]:
    """Rows of the table, header first; a star marks extrapolated values."""
    names = ["low", "median", "high"]
    if over.joint_band is not None:
        names += ["joint_low", "joint_high"]
    starred, claimed = bool(over.extrapolated.any()), bool(over.judged)
    heading = ["delta", *(name.replace("_", " ") for name in names)]
    heading += [""] * starred + ["claim", "P(above)"] * claimed
    rows = [tuple(heading)]
    for item in items(over):
        row = [f"{item['delta']:.3g}", *(_short(item[name]) for name in names)]
        row += ["*" if item["extrapolated"] else ""] if starred else []
        if claimed:
            above = item["probability_above"]
            said = "-" if above is None else probability_text(above).partition(" (")[0]
            row += ["-" if above is None else _short(item["claim"]), said]
        rows.append(tuple(row))
    return rows


def compact_rows(over: OverDelta) -> list[tuple[str, ...]]:
    """The same table without the joint band and the stars, for the first screen."""
    rows = rows_over_delta(over)
    kept = [place for place, name in enumerate(rows[0]) if name and not name.startswith("joint")]
    return [tuple(row[place] for place in kept) for row in rows]


def notes_over_delta(over: OverDelta) -> list[str]:
    """Notes on the curve: its accuracy, what its intervals contain, rising quantiles."""
    curve = over.curve
    if isinstance(curve, JointDeltaCurve):
        starred = ["* extrapolated by the family of curves."] if over.extrapolated.any() else []
        return [*starred, *curve.notes(over.level)]
    notes = []
    if not curve.trustworthy:
        notes.append(
            f"Do not quote this: the tolerance {curve.tolerance:.0e} was not met at "
            f"{int((~curve.met).sum())} of {len(curve)} deltas; the largest estimated error is "
            f"{curve.errors.max():.1e}."
        )
    notes.append(POINTWISE)
    if curve.rises:
        listed = "; ".join(
            f"the {percent(rise.probability)} quantile from {_short(rise.lowest)} at delta "
            f"{rise.lowest_at:.3g} to {_short(rise.highest)} at delta {rise.highest_at:.3g}"
            for rise in curve.rises
        )
        notes.append(f"Estimates rise with delta: {listed}. {WHY_IT_RISES}")
    return notes


def lines_over_delta(over: OverDelta) -> list[str]:
    """The curve as lines of text that fit the terminal."""
    curve = over.curve
    title = (
        f"Epsilon over delta from {over.bases}; low and high are the ends of the "
        f"{percent(over.level)} interval at each delta"
    )
    if isinstance(curve, JointDeltaCurve):
        title += ", the joint band contains all of the curve."
    else:
        solved = int(curve.solved.sum())
        how = f"{solved} of {len(curve)} deltas solved, the others interpolated"
        title += (
            f". Exact quadrature; estimated error {curve.errors.max():.1e}, tolerance "
            f"{curve.tolerance:.0e} {'met' if curve.trustworthy else 'NOT MET'}; "
            f"{'every delta solved' if solved == len(curve) else how}."
        )
    lines = [*wrapped(title), "", *delta_table(rows_over_delta(over))]
    for note in notes_over_delta(over):
        lines += ["", *wrapped(note)]
    return lines


def delta_table(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a table without labels: every column to the right."""
    return [line[1:] for line in table_lines([("", *row) for row in rows])]


def csv_over_delta(over: OverDelta) -> str:
    """CSV with one row per delta, in full precision."""
    rows = items(over)
    cells = [["" if value is None else value for value in row.values()] for row in rows]
    return _files.csv_text(tuple(rows[0]), cells)


def values_over_delta(over: OverDelta) -> dict[str, Any]:
    """The curve as plain values ready for JSON."""
    curve = over.curve
    values: dict[str, Any] = {"level": over.level, "curve": items(over)}
    if isinstance(curve, JointDeltaCurve):
        provenance, bases = curve.posterior.provenance, len(curve.posterior.scores)
        values["model"] = "curve"
        values["extrapolated_below_delta"] = curve.posterior.extrapolated_below_delta
    else:
        provenance, bases = curve.provenance, len(curve.counts)
        values["model"] = "count"
        values["tolerance"] = curve.tolerance
        values["rises"] = [vars(rise) for rise in curve.rises]
    values |= {
        "num_challenge_bases": bases,
        "trustworthy": curve.trustworthy,
        "notes": notes_over_delta(over),
        "engine": provenance.engine,
        "settings": dict(provenance.settings),
        "seconds": provenance.seconds,
        "versions": dict(provenance.versions),
    }
    return {name: plain(value) for name, value in values.items()}


def _short(value: float | None) -> str:
    """Three decimals, or three significant digits of small numbers."""
    if value is None or not math.isfinite(value):
        return "infinite"
    return f"{value:.3f}" if value >= 0.1 or value == 0 else f"{value:.3g}"
