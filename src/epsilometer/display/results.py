"""Views of results, of epsilon over delta, and of all estimators on the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer._table import Table
from epsilometer._text import counted, pair_text
from epsilometer.comparison.estimators import Comparison
from epsilometer.display.posteriors import epsilon_words
from epsilometer.display.view import View
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.errors import InputError
from epsilometer.judgement.result import Result
from epsilometer.posteriors.over_delta import DeltaCurve
from epsilometer.proofs.proof import rounded_down
from epsilometer.report import writing
from epsilometer.report.figures.comparison import comparison_sheet
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.text.comparison import comparison_table
from epsilometer.report.text.over_delta import OverDelta, table_over_delta
from epsilometer.report.text.rows import LEVEL, answer_table
from epsilometer.report.text.sentences import answers, verdict_sentence
from epsilometer.report.text.values import result_values
from epsilometer.report.views import views_of


def _line(result: Result) -> str:
    proof, verdict = result.proof, result.verdict
    parts = [] if verdict is None else [verdict.label]
    proven = 0.0 if proof is None else proof.at_least
    parts.append(
        f"epsilon at least {rounded_down(proven)} is proven" if proven else "nothing proven"
    )
    known = result.contradiction is None
    parts.append(epsilon_words(result.posterior, result.level) if known else "no reliable estimate")
    parts.append(f"delta = {result.delta:g}")
    parts += [] if result.trustworthy else ["DO NOT QUOTE"]
    parts += [counted(len(result.warnings), "warning")] if result.warnings else []
    return "; ".join(parts)


def _table(result: Result) -> Table:
    said = [verdict_sentence(result), *map(str, answers(result))]
    said += [f"Warning: {text}" for text in result.warnings]
    return answer_table(result, [*filter(None, said), f"Next: {result.next_step}"])


@dataclass(frozen=True, kw_only=True)
class ResultView(View):
    """The view of results, whose figures depend on the model; it also writes them."""

    def figures_for(self, shown: Any) -> Mapping[str, Callable[[Any], Sheet]]:
        return {name: _existing(name, make) for name, make in views_of(shown).figures.items()}

    def write(self, result: Result, folder: str | PathLike[str]) -> None:
        """Write a result folder."""
        writing.write_result(result, Path(folder))

    def report(self, result: Result, path: str | PathLike[str]) -> None:
        """Write the page."""
        writing.write_page(result, Path(path))

    def data(self, result: Result) -> dict[str, Any]:
        """The contents of summary.json."""
        return result_values(result)


def _existing(name: str, make: Callable[[Any], Sheet | None]) -> Callable[[Any], Sheet]:
    def draw(result: Result) -> Sheet:
        chart = make(result)
        if chart is None:
            raise InputError(f"this result has no figure {name}.")
        return chart

    return draw


RESULT = ResultView(line=_line, table=_table)


# --- epsilon over delta -----------------------------------------------------------------------


def _shown(curve: DeltaCurve | JointDeltaCurve) -> OverDelta:
    return OverDelta(curve=curve, level=LEVEL)


def _curve_line(curve: DeltaCurve | JointDeltaCurve) -> str:
    over = _shown(curve)
    deltas, median = over.deltas.tolist(), over.quantiles[1]
    span = f"{counted(len(deltas), 'delta')} from {deltas[0]:.3g} to {deltas[-1]:.3g}"
    doubtful = "" if curve.trustworthy else "; NOT ACCURATE"
    return f"{span}: median epsilon {pair_text(float(median.min()), float(median.max()))}{doubtful}"


OVER_DELTA = View(
    line=_curve_line,
    table=lambda curve: table_over_delta(_shown(curve)),
    figures={"delta-curve": lambda curve: delta_curve_chart(_shown(curve))},
)


# --- all estimators ---------------------------------------------------------------------------


def _comparison_line(found: Comparison) -> str:
    applying = sum(row.applies for row in found.rows)
    text = f"{applying} of {len(found.rows)} estimators apply to {found.source}"
    return f"{text}, at delta = {found.delta:g}, error {100 * found.significance:g} % on each side"


COMPARISON = View(
    line=_comparison_line, table=comparison_table, figures={"comparison": comparison_sheet}
)
