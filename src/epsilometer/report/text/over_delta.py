"""Epsilon over several deltas, of either model: one table for the terminal, files and the page."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer._table import Table
from epsilometer._text import percent, plain, probability_text, wrapped
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.judgement.verdict import JudgedDelta, Verdict
from epsilometer.posteriors.over_delta import DeltaCurve

#: Where the curve model is drawn if one delta was asked for.
DELTAS, SMALLEST_DELTA, LARGEST_DELTA = 25, 1e-8, 0.1


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
        low, high = self.curve.credible_interval(self.level)
        # Without an upper limit, medians are the prior's.
        middle = np.where(np.isinf(high), np.nan, self.curve.quantile(0.5))
        return np.stack([low, middle, high])

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
    def judged(self) -> list[JudgedDelta | None]:
        """The claim at each delta, with the probability that epsilon exceeds it; None without one."""
        rows = () if self.verdict is None else self.verdict.by_delta
        return list(map({row.delta: row for row in rows}.get, self.deltas.tolist()))


def over_delta_of(result: Result, *, asked: bool = False) -> OverDelta | None:
    """Epsilon over delta; the curve model has it over a wide range even if nobody ``asked``."""
    curve = result.over_delta
    if curve is None and result.kind == "curve" and not asked:
        curve = result._once(_wide, lambda: _wide(result))
    if curve is None:
        return None
    return OverDelta(curve=curve, level=result.level, verdict=result.verdict)


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
    (low, median, high), deltas = over.quantiles.tolist(), over.deltas.tolist()
    columns: dict[str, list[Any]] = {"delta": deltas, "low": low, "median": median, "high": high}
    if over.joint_band is not None:
        columns["joint_low"], columns["joint_high"] = (end.tolist() for end in over.joint_band)
        columns["extrapolated"] = over.extrapolated.tolist()
    if not isinstance(over.curve, JointDeltaCurve):
        columns |= {"error": over.curve.errors.tolist(), "solved": over.curve.solved.tolist()}
    for name in ("claim", "probability_above"):
        columns[name] = [getattr(each, name, None) for each in over.judged]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def table_over_delta(over: OverDelta, *, small: bool = False) -> Table:
    """The curve as a table; if ``small`` without the joint band and without notes."""
    rows, hidden = items(over), {"delta", "error", "solved"}
    hidden |= {"joint_low", "joint_high", "extrapolated"} if small else set()
    hidden |= set() if any(over.judged) else {"claim", "probability_above"}
    names = [name for name in rows[0] if name not in hidden]
    for row in rows:
        if row["probability_above"] is not None:  # never rounded to 0 or 1
            row["probability_above"] = probability_text(row["probability_above"]).partition(" (")[0]
    words = [name.replace("probability_above", "P(above)").replace("_", " ") for name in names]
    listed = [(f"{row['delta']:.3g}", *(row[name] for name in names)) for row in rows]
    notes = [] if small else over.curve.notes(over.level)
    return Table(columns=("delta", *words), rows=listed, notes=notes)


def lines_over_delta(over: OverDelta) -> list[str]:
    """The curve as lines of text that fit the terminal."""
    data = over.curve.data
    title = (
        f"Epsilon over delta from {units_of(data).bases(len(data))}; low and high are the ends of the "
        f"{percent(over.level)} interval at each delta"
    )
    joint = "" if over.joint_band is None else ", the joint band contains all of the curve"
    table = table_over_delta(over)
    return [*wrapped(f"{title}{joint}."), "", *table.lines(most=len(table))]


def csv_over_delta(over: OverDelta) -> str:
    """CSV with one row per delta, in full precision."""
    rows = items(over)
    listed = (plain(list(row.values())) for row in rows)
    cells = [["" if value is None else value for value in values] for values in listed]
    return _files.csv_text(tuple(rows[0]), cells)


def values_over_delta(over: OverDelta) -> dict[str, Any]:
    """The curve as plain values ready for JSON."""
    curve = over.curve
    values: dict[str, Any] = {"level": over.level, "curve": items(over)}
    if isinstance(curve, JointDeltaCurve):
        provenance = curve.posterior.provenance
        values["model"] = "curve"
        values["extrapolated_below_delta"] = curve.posterior.extrapolated_below_delta
    else:
        provenance = curve.provenance
        values |= {"model": "count", "tolerance": curve.tolerance}
        values["rises"] = [vars(rise) for rise in curve.rises]
    values |= {
        "num_challenge_bases": len(curve.data),
        "trustworthy": curve.trustworthy,
        "notes": curve.notes(over.level),
        "engine": provenance.engine,
        "settings": dict(provenance.settings),
        "seconds": provenance.seconds,
        "versions": dict(provenance.versions),
    }
    return dict(plain(values))
