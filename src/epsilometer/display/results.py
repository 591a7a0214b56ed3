"""Views of posteriors, results, verdicts and proofs, and of all estimators on the same data."""

import math
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from epsilometer._table import Cell, Table, facts
from epsilometer._text import capital, counted, pair_text, percent, probability_text
from epsilometer.checks.selftest import SelfTest
from epsilometer.comparison.estimators import Comparison
from epsilometer.display.view import Figures, View
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.errors import InputError
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.judgement.verdict import JudgedDelta, Outcome, Verdict
from epsilometer.posteriors.over_delta import DeltaCurve
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.proofs.independent_noise import CONDITION
from epsilometer.proofs.proof import Proof, rounded_down
from epsilometer.report import writing
from epsilometer.report.figures import charts
from epsilometer.report.figures.comparison import comparison_sheet
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.marks import Line, Mark, Points, Reference, Sheet
from epsilometer.report.figures.style import interval_plot
from epsilometer.report.text.over_delta import OverDelta, table_over_delta
from epsilometer.report.text.rows import LEVEL, answer_table, comparison_table, parameter_table
from epsilometer.report.text.sentences import answers, claim_words, e_value_text, verdict_sentence
from epsilometer.report.text.values import result_values


def epsilon_words(found: CountPosterior | CurvePosterior, level: float = LEVEL) -> str:
    """The median of epsilon with its interval."""
    median = found.median("epsilon")
    if "epsilon" not in found.parameters:
        return f"epsilon = {median:g} (fixed)"
    low, high = found.credible_interval("epsilon", level)
    if math.isinf(high):
        return f"epsilon {pair_text(low, high)}"
    return f"epsilon {median:.2f}, {percent(level)} interval {pair_text(low, high)}"


def _posterior_line(shown: CountPosterior | CurvePosterior) -> str:
    size = units_of(shown.data).bases(len(shown.data))
    doubts = [] if shown.accurate else ["NOT CONVERGED"]
    doubts += ["FLAWED DATA"] if shown.data.flaws else []
    where = f"at delta = {shown.model.delta:g}"
    return "; ".join([f"{epsilon_words(shown)}, {where}", size, *doubts])


def _figures(shown: Any) -> Figures:
    """Figures of a result, or of a posterior that nobody asked a question of."""
    asked = isinstance(shown, Result)
    posterior = shown.posterior if asked else shown
    kind = "curve" if isinstance(posterior, CurvePosterior) else "count"
    makers = (charts.CHARTS if asked else charts.POSTERIOR_CHARTS)[kind]
    hidden = {"traces", "ranks"} if getattr(posterior, "chains", None) is None else set()
    hidden |= set() if "epsilon" in posterior.parameters else {*charts.OF_EITHER}

    def draw(name: str, shown: Any) -> Sheet:
        chart = makers[name](shown if asked else result_of(shown))
        if chart is None:
            raise InputError(f"this result has no figure {name}.")
        return chart

    return {name: partial(draw, name) for name in makers if name not in hidden}


POSTERIOR = View(line=_posterior_line, table=parameter_table, figures=_figures)


# --- results ----------------------------------------------------------------------------------


def _line(result: Result) -> str:
    proof, verdict = result.proof, result.verdict
    parts = [] if verdict is None else [verdict.label]
    proven = 0.0 if proof is None else proof.at_least
    bound = f"epsilon at least {rounded_down(proven)} is proven"
    parts.append(bound if proven else "nothing proven")
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
    """The view of results, which also writes them."""

    def write(self, result: Result, folder: str | PathLike[str]) -> None:
        """Write a result folder."""
        writing.write_result(result, Path(folder))

    def report(self, result: Result, path: str | PathLike[str]) -> None:
        """Write the page."""
        writing.write_page(result, Path(path))

    def data(self, result: Result) -> dict[str, Any]:
        """The contents of summary.json."""
        return result_values(result)


RESULT = ResultView(line=_line, table=_table, figures=_figures)


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


# --- one claim --------------------------------------------------------------------------------


def _verdict_line(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.NO_PROMISE:
        return f"{verdict.label}: {verdict.meaning}"
    above, deltas = probability_text(verdict.probability_above), len(verdict.by_delta)
    where = f" at one or more of {deltas} deltas" if deltas > 1 else ""
    claimed = f"{claim_words(verdict)}{where}"
    return f"{verdict.label}: epsilon exceeds {claimed} with probability {above}"


def _verdict_table(verdict: Verdict) -> Table:
    rows: list[tuple[str, Cell]] = [("verdict", verdict.label)]
    if verdict.outcome is not Outcome.NO_PROMISE:
        rows += [
            ("claimed epsilon", claim_words(verdict)),
            ("P(epsilon > claim)", probability_text(verdict.probability_above)),
            ("before the data", probability_text(verdict.prior_probability_above)),
        ]
    for row in _several(verdict):
        above = probability_text(row.probability_above)
        rows.append((f"P(epsilon > {row.claim:g}) at {row.delta:.3g}", above))
    limits = verdict.thresholds
    rows += [("PASS at most", limits.pass_at_most), ("FAIL at least", limits.fail_at_least)]
    return facts(rows, [f"{capital(reason)}." for reason in verdict.reasons])


def _several(verdict: Verdict) -> tuple[JudgedDelta, ...]:
    return verdict.by_delta if len(verdict.by_delta) > 1 else ()


def _verdict_sheet(verdict: Verdict) -> Sheet:
    marks: list[Mark] = [
        Reference(x=verdict.thresholds.pass_at_most, colour="green", dash="dash"),
        Reference(x=verdict.thresholds.fail_at_least, colour="orange", dash="dash"),
    ]
    names, what = ["after the data", "before the data"], "a claim"
    if verdict.outcome is not Outcome.NO_PROMISE:
        what = claim_words(verdict)
        marks += [
            Points([verdict.prior_probability_above], [1], "grey", hollow=True, size=8),
            Points([verdict.probability_above], [0], "blue", size=8),
        ]
    for place, row in enumerate(_several(verdict), start=2):
        names.append(f"at delta = {row.delta:.3g}")
        marks.append(Points([row.probability_above], [place], "blue", hollow=True, size=7))
    across = f"probability that epsilon exceeds {what}"
    title = f"{verdict.label} (dashed: PASS below, FAIL above)"
    plot = interval_plot(across, names, marks, (-0.02, 1.02))
    return Sheet(title, [plot], (6.0, 1.3 + 0.3 * len(names)))


VERDICT = View(line=_verdict_line, table=_verdict_table, figures={"probability": _verdict_sheet})


# --- proofs -----------------------------------------------------------------------------------


def _proof_line(found: Proof) -> str:
    text = "nothing is proven"
    if found.at_least > 0:
        text = f"epsilon is at least {rounded_down(found.at_least)}"
    text += f" at delta = {found.delta:g}, error {100 * found.error:g} %"
    if found.claim is not None:
        text += f"; the claim of {found.claim:g} is {'' if found.refuted else 'not '}refuted"
    return text


def _proof_table(found: Proof) -> Table:
    rows: list[tuple[str, Cell]] = [
        ("epsilon is at least", rounded_down(found.at_least, 3)),
        ("most these data could prove", rounded_down(found.most_provable, 3)),
        ("delta", f"{found.delta:g}"),
        ("error", found.error),
        ("valid", "at any time" if found.any_time else "for one planned analysis"),
    ]
    if found.claim is not None and found.e_value is not None:
        rows += [
            ("claimed epsilon", found.claim),
            ("refuted", found.refuted),
            ("e-value", f"{e_value_text(found.e_value)} (refuted from {1 / found.error:g})"),
        ]
    notes = [f"Assumes {found.assumes}."]
    if found.evidence is not None:
        notes.append(f"{capital(found.source)}.")
    if found.conditional is not None:
        rows.append(("if noise is independent", rounded_down(found.conditional.at_least, 3)))
        notes.append(f"If {CONDITION}: {found.conditional.finding}.")
    if found.hopeless is not None:
        notes.append(f"{capital(found.hopeless)}.")
    return facts(rows, notes)


def _proof_sheet(found: Proof) -> Sheet:
    end = 1.25 * max(found.at_least, found.claim or 0.0, 1.0)
    marks: list[Mark] = [
        Line([found.at_least, end], [0, 0], "blue", width=2.6),
        Points([found.at_least], [0], "blue", symbol="end", size=10),
        Points([end], [0], "blue", symbol="arrow", size=5),
    ]
    least, most = rounded_down(found.at_least), rounded_down(found.most_provable)
    title = f"Proven: epsilon is at least {least} of at most {most}"
    if found.claim is not None:
        title += " (orange: the claim)"
        marks.append(Reference(x=found.claim, colour="orange", width=1.4, dash="solid"))
        marks.append(Points([found.claim], [0], "orange", size=6))
    across = f"epsilon at delta = {found.delta:g}"
    plot = interval_plot(across, ["not refuted"], marks, (0, 1.02 * end))
    return Sheet(title, [plot], (6.0, 1.6))


PROOF = View(line=_proof_line, table=_proof_table, figures={"bound": _proof_sheet})


# --- tests of pipelines -----------------------------------------------------------------------


def _selftest_table(found: SelfTest) -> Table:
    rows: list[tuple[str, Cell]] = [
        ("pipeline", found.label),
        ("broken", found.broken),
        ("runs on null data", found.runs),
        ("false alarms", found.alarms),
        ("false alarms allowed, per run", found.significance),
        ("largest bound of epsilon", found.largest),
    ]
    return facts(rows)


SELF_TEST = View(table=_selftest_table)
