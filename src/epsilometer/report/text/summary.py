"""A result on the terminal: a first screen that fits, and the details that follow on request."""

import math

from epsilometer import _files
from epsilometer._text import columns, counted, in_shell_words, percent, wrapped
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.question import OtherModels
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.report.text.facts import model_facts
from epsilometer.report.text.over_delta import lines_over_delta, over_delta_of, table_over_delta
from epsilometer.report.text.rows import answer_table, leak_table, models_table
from epsilometer.report.text.sentences import answers, assumed, proven_fact, verdict_sentence

#: Lines of the first screen at 80 columns; with the line that says what was written there are 25.
MOST_LINES = 23

#: Most lines of the verdict and of each warning on the first screen.
VERDICT_LINES, WARNING_LINES = 6, 2

#: Width of the labels below the table: the longest label and two spaces.
FACT_COLUMNS = 17

#: Number of bases listed, the worst ones.
MOST_BASES = 10


def result_text(result: Result, *, details: bool = False) -> str:
    """The result as text that fits the terminal; without ``details``, one screen of it."""
    lines = _whole(result) if details else first_screen(result)
    return "\n".join(lines) + "\n"


# --- the first screen -----------------------------------------------------------------------------


def first_screen(result: Result) -> list[str]:
    """The verdict, the answers, warnings and the next step, in as many lines as a screen has."""
    start = [*_short_verdict(result), *_answers(result)]
    end = _next_step(result)
    room = _lines(MOST_LINES) - len(start) - len(end)
    warnings = _warnings(result, WARNING_LINES)
    over = over_delta_of(result, asked=True)
    if over is not None:
        title = f"Epsilon over delta, {percent(over.level)} intervals:"
        table = ["", title, *table_over_delta(over, small=True).lines()]
        if len(table) + sum(map(len, warnings)) <= room:
            start += table
    lines = [line for each in warnings for line in each]
    if len(lines) > room:
        kept = max(k for k in range(len(warnings)) if sum(map(len, warnings[:k])) < room)
        lines = [line for each in warnings[:kept] for line in each]
        lines.append(f"- and {len(warnings) - kept} more: --details")
    return [*start, *lines, *end]


def _lines(number: int) -> int:
    """As many lines as hold the text of this number of lines of 80 columns."""
    return math.ceil(number * max(1.0, 80 / columns()))


def _short_verdict(result: Result) -> list[str]:
    """The verdict in a few lines, with as many reasons as fit."""
    if result.verdict is None:
        return []
    most, lines = _lines(VERDICT_LINES), []
    for reasons in range(len(result.verdict.reasons), 0, -1):
        said = _files.printable(verdict_sentence(result, reasons))
        lines = wrapped(said, most=most)
        if not lines[-1].endswith(" ..."):
            break
    return [*lines, ""]


def _answers(result: Result) -> list[str]:
    return [line for answer in answers(result) for line in wrapped(str(answer), rest="  ")]


def _warnings(result: Result, most: int | None = None) -> list[list[str]]:
    """The lines of the heading and the first warning, and of each other one."""
    texts = [in_shell_words(_files.printable(text)) for text in result.warnings]
    shown = [wrapped(text, first="- ", rest="  ", most=most) for text in texts]
    return [["", "Warnings:", *shown[0]], *shown[1:]] if shown else []


def _next_step(result: Result) -> list[str]:
    return ["", *wrapped(f"Next: {in_shell_words(_files.printable(result.next_step))}", rest="  ")]


# --- details ----------------------------------------------------------------------------------------


def _whole(result: Result) -> list[str]:
    """Everything: parameters, facts, bases, other models, assumptions, epsilon over delta."""
    said = _files.printable(verdict_sentence(result))
    lines = [*wrapped(said), ""] if said else []
    lines += _answers(result)
    lines += [line for each in _warnings(result) for line in each]
    lines += [*_next_step(result), "", *answer_table(result).lines(), ""]
    for label, text in [("proven", proven_fact(result)), *model_facts(result)]:
        lines += wrapped(text, first=f"{label:<{FACT_COLUMNS}}", rest=" " * FACT_COLUMNS)
    if isinstance(result, CurveResult):
        lines += _curve_details(result)
    lines += ["", "Assumed:"]
    for sentence in assumed(result):
        lines += wrapped(sentence, first="- ", rest="  ")
    if isinstance(result, CountResult) and result.question.other_models is OtherModels.FULL:
        models = result.models
        if models is not None:
            lines += ["", "Alternative models:", *models_table(models, result.level).lines()]
    over = over_delta_of(result, asked=True)
    return lines if over is None else [*lines, "", *lines_over_delta(over)]


def _curve_details(result: CurveResult) -> list[str]:
    """The worst bases, and the count model's estimate from the same models."""
    lines: list[str] = []
    bases, units = len(result.leaks), units_of(result.scores)
    if bases > 1:
        worst = "the worst " if bases > MOST_BASES else ""
        title = f"Epsilon of {worst}{counted(min(bases, MOST_BASES), units.base)}, worst first:"
        lines += ["", title, *leak_table(result, MOST_BASES).lines()]
    beside = result.beside
    if beside is not None:
        low, high = beside.posterior.credible_interval("epsilon", result.level)
        target = beside.origin.target_alpha
        at = "" if target is None else f", from counts at false-positive rate {target:g}"
        said = (
            f"For comparison, the count model{at}: {low:.2f} to {high:.2f} (median "
            f"{beside.posterior.median('epsilon'):.2f}). {result.disagreement or ''}"
        )
        lines += ["", *wrapped(said.rstrip())]
    return lines
