"""The view of a result: the verdict in a line, the answers in a table, its figures, and its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer._table import Cell, Table
from epsilometer._text import percent
from epsilometer.display.posteriors import epsilon_words
from epsilometer.display.view import View
from epsilometer.errors import InputError
from epsilometer.judgement.result import Result
from epsilometer.proofs.proof import rounded_down
from epsilometer.report import writing
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.text.rows import labels_of
from epsilometer.report.text.sentences import answers, verdict_sentence
from epsilometer.report.text.values import parameter_values
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
    if result.warnings:
        parts.append(f"{len(result.warnings)} warning{'s' if len(result.warnings) > 1 else ''}")
    return "; ".join(parts)


def _table(result: Result) -> Table:
    labels, proof = labels_of(result), result.proof
    rows: list[tuple[Cell, ...]] = [
        ("proven", None, None if proof is None else proof.at_least, None, None)
    ]
    for name, values in parameter_values(result.posterior, labels, result.level).items():
        low, high = values["interval"]
        rows.append((labels[name], values["median"], low, high, values["mean"]))
    ends = [percent(0.5 - result.level / 2), percent(0.5 + result.level / 2)]
    said = [verdict_sentence(result), *map(str, answers(result))]
    notes = [*filter(None, said), *(f"Warning: {text}" for text in result.warnings)]
    return Table(
        columns=("", "median", *ends, "mean"),
        rows=rows,
        notes=[*notes, f"Next: {result.next_step}"],
    )


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
        return views_of(result).data(result)


def _existing(name: str, make: Callable[[Any], Sheet | None]) -> Callable[[Any], Sheet]:
    def draw(result: Result) -> Sheet:
        chart = make(result)
        if chart is None:
            raise InputError(f"this result has no figure {name}.")
        return chart

    return draw


RESULT = ResultView(line=_line, table=_table)
