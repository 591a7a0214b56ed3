"""A curve over delta as a table, and what there is to say of it: for terminal, files and page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from epsilometer import _files
from epsilometer.inference.claimed_curve import JudgedCurve
from epsilometer.inference.delta_curve import POINTWISE, WHY_IT_RISES
from epsilometer.report.text import counted, plain, probability_text, wrapped

HEADER = (
    "delta",
    "low",
    "median",
    "high",
    "error",
    "solved",
    "claim",
    "probability_above",
    "verdict",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveTable(JudgedCurve):
    """A judged curve as text: rows, notes, CSV, JSON."""

    def rows(self) -> list[tuple[str, ...]]:
        """Text of the table, its heading first."""
        heading: tuple[str, ...] = ("delta", "low", "median", "high")
        if self.verdict is not None:
            heading += ("claim", "P(above)", "verdict")
        found = [heading]
        for index, delta in enumerate(self.curve.deltas.tolist()):
            row: tuple[str, ...] = (
                f"{delta:.3g}",
                *(_short(value) for value in self.quantiles[:, index].tolist()),
            )
            if self.verdict is not None:
                verdict = self.verdict.verdicts[index]
                row += ("-", "-", "no claim") if verdict is None else (
                    _short(verdict.claim),
                    probability_text(verdict.probability_above).partition(" (")[0],
                    str(verdict.outcome),
                )  # fmt: skip
            found.append(row)
        return found

    def notes(self) -> list[str]:
        """What to know of it, one sentence or more each."""
        found = []
        if not self.curve.trustworthy:
            number = int((~self.curve.met).sum())
            found.append(
                f"Do not quote this: the tolerance of {self.curve.tolerance:.0e} was not met at "
                f"{number} of {len(self.curve)} deltas; the largest estimated error is "
                f"{self.curve.errors.max():.1e}."
            )
        found.append(POINTWISE)
        if self.verdict is not None:
            found.append(self.verdict.sentence)
        if self.curve.rises:
            listed = "; ".join(
                f"the {100 * rise.probability:g} % quantile from {_short(rise.lowest)} at delta "
                f"{rise.lowest_at:.3g} to {_short(rise.highest)} at delta {rise.highest_at:.3g}"
                for rise in self.curve.rises
            )
            found.append(f"Estimates rise with delta: {listed}. {WHY_IT_RISES}")
        return found

    def text(self) -> str:
        """All of it for a terminal of 80 columns."""
        curve = self.curve
        bases = counted(len(curve.counts), "challenge base")
        verdict = "met" if curve.trustworthy else "NOT MET"
        title = (
            f"epsilon over delta from {bases}; low and high hold {100 * self.level:g} %. Exact "
            f"quadrature; estimated error {curve.errors.max():.1e}, tolerance "
            f"{curve.tolerance:.0e} {verdict}; "
        )
        solved = int(curve.solved.sum())
        if solved < len(curve):
            title += f"{solved} of {len(curve)} deltas solved, the others interpolated."
        else:
            title += "every delta solved."
        if self.verdict is not None:
            title = f"{self.verdict.outcome}: {title}"
        lines = [*wrapped(title), ""]
        table = self.rows()
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        for row in table:
            cells = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
            lines.append("  " + "   ".join(cells))
        for note in self.notes():
            lines += ["", *wrapped(note)]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """A row a delta, numbers in full."""
        rows = [[item[name] for name in HEADER] for item in self._items()]
        return _files.csv_text(HEADER, [["" if v is None else v for v in row] for row in rows])

    def data(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        curve = self.curve
        found: dict[str, Any] = {
            "level": self.level,
            "num_challenge_bases": len(curve.counts),
            "curve": self._items(),
            "trustworthy": curve.trustworthy,
            "tolerance": curve.tolerance,
            "rises": [vars(rise) for rise in self.curve.rises],
            "notes": self.notes(),
            "engine": curve.provenance.engine,
            "settings": dict(curve.provenance.settings),
            "seconds": curve.provenance.seconds,
            "versions": dict(curve.provenance.versions),
        }
        if self.verdict is not None:
            found["verdict"] = {"outcome": str(self.verdict.outcome)}
        return {name: plain(value) for name, value in found.items()}

    def _items(self) -> list[dict[str, Any]]:
        found = []
        for index, point in enumerate(self.curve.points):
            low, median, high = self.quantiles[:, index].tolist()
            item: dict[str, Any] = {
                "delta": point.delta,
                "low": low,
                "median": median,
                "high": high,
                "error": point.error if math.isfinite(point.error) else None,
                "solved": point.solved,
                "claim": None,
                "probability_above": None,
                "verdict": None,
            }
            verdict = self.verdict_at(point.delta)
            if verdict is not None:
                item["claim"] = verdict.claim
                item["probability_above"] = verdict.probability_above
                item["verdict"] = str(verdict.outcome)
            found.append(item)
        return found


def table_of(curve: JudgedCurve) -> CurveTable:
    """The table of a judged curve."""
    return CurveTable(curve=curve.curve, level=curve.level, verdict=curve.verdict)


def _short(value: float) -> str:
    """Three decimals, or three digits of what is smaller than that."""
    return f"{value:.3f}" if value >= 0.1 or value == 0 else f"{value:.3g}"
