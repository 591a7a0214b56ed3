"""A result on the terminal: a first screen that fits, and the details that follow on request."""

from __future__ import annotations

import math
import textwrap

from epsilometer import _files, _terminal
from epsilometer._text import counted, in_shell_words, percent, table_lines, wrapped
from epsilometer.judgement.question import OtherModels
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.report.text.explanations import assumed
from epsilometer.report.text.facts import engine_fact, model_facts
from epsilometer.report.text.model_table import comparison_data, models_text
from epsilometer.report.text.over_delta import (
    OverDelta,
    compact_rows,
    delta_table,
    lines_over_delta,
)
from epsilometer.report.text.rows import (
    rows_of_leaks,
    rows_of_parameters,
)
from epsilometer.report.text.sentences import answers, proven_fact, verdict_sentence

MOST_LINES = 23
"""Lines of the first screen at 80 columns; with the line that says what was written there are 25."""

VERDICT_LINES, WARNING_LINES = 6, 2
"""Most lines of the verdict and of each warning on the first screen."""

LABEL_COLUMNS = 18
"""Width of the labels of parameters, so that all tables align."""

FACT_COLUMNS = 17
"""Width of the labels below the table: the longest label and two spaces."""

MOST_BASES = 10
"""Number of bases listed, the worst ones."""


def result_text(result: Result, *, details: bool = False) -> str:
    """The result as text that fits the terminal; without ``details``, one screen of it."""
    lines = _answer_lines(result, details) if details else first_screen(result)
    if details:
        lines += ["", *_detail_lines(result)]
    return "\n".join(lines) + "\n"


# --- the first screen -----------------------------------------------------------------------------


def first_screen(result: Result) -> list[str]:
    """The verdict, the answers, warnings and the next step, in as many lines as a screen has."""
    room = math.ceil(MOST_LINES * max(1.0, 80 / _terminal.columns()))
    start, end = _answer_lines(result, whole=False, warned=False), _next_lines(result)
    left = room - len(start) - len(end)
    warnings = _warning_lines(result, left)
    table = _small_table(result)
    if (
        table
        and len(table) + len(warnings) <= left
        and len(warnings) == len(_warning_lines(result))
    ):
        start += table
    return [*start, *warnings, *end]


def _answer_lines(result: Result, whole: bool, warned: bool = True) -> list[str]:
    lines = []
    if result.verdict is not None:
        said = _files.printable(verdict_sentence(result))
        lines += [*(wrapped(said) if whole else _short_verdict(result)), ""]
    for answer in answers(result):
        lines += wrapped(str(answer), rest="  ")
    if warned:
        lines += [*_warning_lines(result, whole=True), *_next_lines(result)]
    return lines


def _short_verdict(result: Result) -> list[str]:
    """The verdict in a few lines, with as many reasons as fit."""
    assert result.verdict is not None
    most = math.ceil(VERDICT_LINES * max(1.0, 80 / _terminal.columns()))
    lines: list[str] = []
    for reasons in range(len(result.verdict.reasons), 0, -1):
        lines = wrapped(_files.printable(verdict_sentence(result, reasons)))
        if len(lines) <= most:
            return lines
    return [*lines[: most - 1], f"{lines[most - 1][: _terminal.columns() - 4]} ..."]


def _warning_lines(result: Result, room: int | None = None, *, whole: bool = False) -> list[str]:
    """The warnings, as many as there is room for, each in two lines unless ``whole``."""
    texts = [in_shell_words(_files.printable(text)) for text in result.warnings]
    if not texts:
        return []
    shown = [wrapped(text, first="- ", rest="  ") if whole else _cut(text) for text in texts]
    lines = ["", "Warnings:", *(line for lines in shown for line in lines)]
    if room is None or len(lines) <= room:
        return lines
    kept: list[str] = []
    number = 0
    while number < len(shown) and len(kept) + len(shown[number]) <= room - 3:
        kept += shown[number]
        number += 1
    return ["", "Warnings:", *kept, f"- and {len(shown) - number} more: --details"]


def _cut(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _terminal.columns(),
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        max_lines=WARNING_LINES,
        placeholder=" ...",
    )


def _next_lines(result: Result) -> list[str]:
    return ["", *wrapped(f"Next: {in_shell_words(_files.printable(result.next_step))}", rest="  ")]


def _small_table(result: Result) -> list[str]:
    """Epsilon over several deltas, if that was asked for."""
    over = _asked_over_delta(result)
    if over is None:
        return []
    title = f"Epsilon over delta, {percent(over.level)} intervals:"
    return ["", title, *delta_table(compact_rows(over))]


def _asked_over_delta(result: Result) -> OverDelta | None:
    if result.over_delta is None:
        return None
    return OverDelta(curve=result.over_delta, level=result.level, verdict=result.verdict)


# --- details ----------------------------------------------------------------------------------------


def _detail_lines(result: Result) -> list[str]:
    """The parameters, facts, bases, other models, assumptions and the curve over delta."""
    lines = [*table_lines(rows_of_parameters(result), least=LABEL_COLUMNS), ""]
    facts = [("proven", proven_fact(result)), *model_facts(result), *engine_fact(result)]
    for label, text in facts:
        lines += wrapped(text, first=f"{label:<{FACT_COLUMNS}}", rest=" " * FACT_COLUMNS)
    if len(result.leaks) > 1:
        bases, units = len(result.leaks), units_of(result.scores)  # type: ignore[attr-defined]
        worst = "the worst " if bases > MOST_BASES else ""
        title = f"Epsilon of {worst}{counted(min(bases, MOST_BASES), units.base)}, worst first:"
        lines += ["", title, *table_lines(rows_of_leaks(result, MOST_BASES))]
    lines += _beside_lines(result)
    lines += ["", "Assumed:"]
    for sentence in assumed(result):
        lines += wrapped(sentence, first="- ", rest="  ")
    models = _compared_models(result)
    if models:
        lines += ["", *models.splitlines()]
    over = _asked_over_delta(result)
    return lines if over is None else [*lines, "", *lines_over_delta(over)]


def _compared_models(result: Result) -> str:
    """The alternative models, if all of them were asked for."""
    models = getattr(result, "models", None)
    if models is None or result.question.other_models is not OtherModels.FULL:
        return ""
    return models_text(comparison_data(models, level=result.level))


def _beside_lines(result: Result) -> list[str]:
    """The count model's estimate from the same models, for comparison."""
    beside: Result | None = getattr(result, "beside", None)
    if beside is None:
        return []
    low, high = beside.posterior.credible_interval("epsilon", result.level)
    target = beside.origin.target_alpha
    at = "" if target is None else f", from counts at false-positive rate {target:g}"
    said = (
        f"For comparison, the count model{at}: {low:.2f} to {high:.2f} (median "
        f"{beside.posterior.median('epsilon'):.2f})."
    )
    parts: str | None = getattr(result, "disagreement", None)
    return ["", *wrapped(f"{said} {parts}" if parts else said)]
