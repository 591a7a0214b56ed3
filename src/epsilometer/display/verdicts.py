"""Views of what is said of a claim: verdicts, proofs, and tests of whole pipelines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epsilometer._table import Cell, Table, facts
from epsilometer._text import capital, probability_text
from epsilometer.checks.selftest import SelfTest
from epsilometer.display.view import View
from epsilometer.judgement.verdict import JudgedDelta, Outcome, Verdict
from epsilometer.proofs.proof import Proof, rounded_down
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, ReferenceLine, Sheet
from epsilometer.report.text.sentences import claim_words, e_value_text


def rows_sheet(title: str, across: Axis, names: Sequence[str], marks: Sequence[Mark]) -> Sheet:
    """A figure of named rows."""
    up = Axis("", (len(names) - 0.4, -0.6), names=list(names))
    plot = Plot(across, up, list(marks), legend=False)
    return Sheet(title, [plot], (6.0, 1.3 + 0.3 * len(names)))


# --- one claim --------------------------------------------------------------------------------


def _verdict_line(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.NO_PROMISE:
        return f"{verdict.label}: {verdict.meaning}"
    above, deltas = probability_text(verdict.probability_above), len(verdict.by_delta)
    where = f" at one or more of {deltas} deltas" if deltas > 1 else ""
    return (
        f"{verdict.label}: epsilon exceeds {claim_words(verdict)}{where} with probability {above}"
    )


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
    rows += [
        ("PASS at most", verdict.thresholds.pass_at_most),
        ("FAIL at least", verdict.thresholds.fail_at_least),
    ]
    return facts(rows, [f"{capital(reason)}." for reason in verdict.reasons])


def _several(verdict: Verdict) -> tuple[JudgedDelta, ...]:
    return verdict.by_delta if len(verdict.by_delta) > 1 else ()


def _verdict_sheet(verdict: Verdict) -> Sheet:
    marks: list[Mark] = [
        ReferenceLine(x=verdict.thresholds.pass_at_most, colour="green", dash="dash"),
        ReferenceLine(x=verdict.thresholds.fail_at_least, colour="orange", dash="dash"),
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
    across = Axis(f"probability that epsilon exceeds {what}", (-0.02, 1.02))
    return rows_sheet(f"{verdict.label} (dashed: PASS below, FAIL above)", across, names, marks)


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
        ("delta", f"{found.delta:g}"),
        ("error", found.error),
        ("valid at any time", found.any_time),
    ]
    if found.claim is not None and found.e_value is not None:
        rows += [
            ("claimed epsilon", found.claim),
            ("refuted", found.refuted),
            ("e-value", f"{e_value_text(found.e_value)} (refuted from {1 / found.error:g})"),
        ]
    if math.isfinite(found.most_provable):
        rows.append(("most these data could prove", found.most_provable))
    return facts(rows, [f"Assumes {found.assumes}.", *filter(None, [found.hopeless])])


def _proof_sheet(found: Proof) -> Sheet:
    end = 1.25 * max(found.at_least, found.claim or 0.0, 1.0)
    marks: list[Mark] = [
        Line([found.at_least, end], [0, 0], "blue", width=2.6),
        Points([found.at_least], [0], "blue", symbol="end", size=10),
        Points([end], [0], "blue", symbol="arrow", size=5),
    ]
    title = f"Proven: epsilon is at least {rounded_down(found.at_least)}"
    if found.claim is not None:
        title += " (orange: the claim)"
        marks.append(ReferenceLine(x=found.claim, colour="orange", width=1.4, dash="solid"))
        marks.append(Points([found.claim], [0], "orange", size=6))
    across = Axis(f"epsilon at delta = {found.delta:g}", (0, 1.02 * end))
    return rows_sheet(title, across, ["not refuted"], marks)


PROOF = View(line=_proof_line, table=_proof_table, figures={"bound": _proof_sheet})


# --- tests of pipelines -----------------------------------------------------------------------


def _selftest_table(found: SelfTest) -> Table:
    return facts(
        [
            ("pipeline", found.label),
            ("broken", found.broken),
            ("runs on null data", found.runs),
            ("false alarms", found.alarms),
            ("false alarms allowed, per run", found.significance),
            ("largest bound of epsilon", found.largest),
        ]
    )


SELF_TEST = View(table=_selftest_table)
