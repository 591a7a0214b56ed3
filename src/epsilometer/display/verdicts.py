"""Views of what is said of a claim: verdicts, proofs, and tests of whole pipelines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from epsilometer._table import Cell, Table
from epsilometer._text import capital, probability_text
from epsilometer.display.view import View
from epsilometer.judgement.verdict import Outcome, Verdict
from epsilometer.proofs.proof import Proof, rounded_down
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, ReferenceLine, Sheet
from epsilometer.report.text.sentences import claim_words, e_value_text

if TYPE_CHECKING:
    from epsilometer.checks.selftest import SelfTest

SMALL = (6.0, 1.7)


def _facts(rows: list[tuple[str, Cell]], notes: tuple[str, ...] = ()) -> Table:
    return Table(columns=("", "value"), rows=rows, notes=notes)


# --- one claim --------------------------------------------------------------------------------


def _verdict_line(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.NO_PROMISE:
        return f"{verdict.label}: {verdict.meaning}"
    above = probability_text(verdict.probability_above)
    where = (
        "" if len(verdict.by_delta) < 2 else f" at one or more of {len(verdict.by_delta)} deltas"
    )
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
    if len(verdict.by_delta) > 1:
        rows += [
            (
                f"P(epsilon > {row.claim:g}) at {row.delta:.3g}",
                probability_text(row.probability_above),
            )
            for row in verdict.by_delta
        ]
    rows += [
        ("PASS at most", verdict.thresholds.pass_at_most),
        ("FAIL at least", verdict.thresholds.fail_at_least),
    ]
    return _facts(rows, tuple(f"{capital(reason)}." for reason in verdict.reasons))


def _verdict_sheet(verdict: Verdict) -> Sheet:
    low, high = verdict.thresholds.pass_at_most, verdict.thresholds.fail_at_least
    marks: list[Mark] = [
        ReferenceLine(x=low, colour="green", dash="dash"),
        ReferenceLine(x=high, colour="orange", dash="dash"),
    ]
    names, claimed = (
        ["after the data", "before the data"],
        verdict.outcome is not Outcome.NO_PROMISE,
    )
    if claimed:
        prior, above = verdict.prior_probability_above, verdict.probability_above
        marks += [
            Points([prior], [1], "grey", "before the data", hollow=True, size=8),
            Points([above], [0], "blue", "after the data", size=8),
        ]
    for place, row in enumerate(verdict.by_delta if len(verdict.by_delta) > 1 else (), start=2):
        names.append(f"at delta = {row.delta:.3g}")
        marks.append(Points([row.probability_above], [place], "blue", hollow=True, size=7))
    what = claim_words(verdict) if claimed else "a claim"
    across = Axis(f"probability that epsilon exceeds {what}", (-0.02, 1.02))
    up = Axis("", (len(names) - 0.4, -0.6), names=names)
    plot = Plot(across, up, marks, legend=False)
    size = (6.0, 1.3 + 0.3 * len(names))
    return Sheet(f"{verdict.label} (dashed: PASS below, FAIL above)", [plot], size)


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
    doubts = () if found.hopeless is None else (found.hopeless,)
    return _facts(rows, (f"Assumes {found.assumes}.", *doubts))


def _proof_sheet(found: Proof) -> Sheet:
    known = [found.at_least, found.claim or 0.0, 1.0]
    end = 1.25 * max(known)
    marks: list[Mark] = [
        Line([found.at_least, end], [0, 0], "blue", "not refuted", width=2.6),
        Points([found.at_least], [0], "blue", symbol="end", size=10),
        Points([end], [0], "blue", symbol="arrow", size=5),
    ]
    if found.claim is not None:
        marks.append(ReferenceLine(x=found.claim, colour="orange", width=1.4, dash="solid"))
        marks.append(Points([found.claim], [0], "orange", f"claim {found.claim:g}", size=6))
    across = Axis(f"epsilon at delta = {found.delta:g}", (0, 1.02 * end))
    plot = Plot(across, Axis("", (-0.8, 0.8), names=["not refuted"]), marks, legend=False)
    claim = "" if found.claim is None else " (orange: the claim)"
    proven = f"Proven: epsilon is at least {rounded_down(found.at_least)}{claim}"
    return Sheet(proven, [plot], SMALL)


PROOF = View(line=_proof_line, table=_proof_table, figures={"bound": _proof_sheet})


# --- tests of pipelines -----------------------------------------------------------------------


def _selftest_line(found: SelfTest) -> str:
    said = "BROKEN" if found.broken else "fine"
    return (
        f"{found.label!r} is {said}: {found.alarms:,} false alarms in {found.runs:,} runs on null data, "
        f"{100 * found.significance:g} % allowed"
    )


def _selftest_table(found: SelfTest) -> Table:
    return _facts(
        [
            ("pipeline", found.label),
            ("broken", found.broken),
            ("runs on null data", found.runs),
            ("false alarms", found.alarms),
            ("false alarms allowed, per run", found.significance),
            ("largest bound of epsilon", found.largest),
        ]
    )


def _selftest_sheet(found: SelfTest) -> Sheet:
    share = found.alarms / found.runs
    spread = 1.645 * math.sqrt(max(share * (1 - share), 1 / found.runs) / found.runs)
    ends = [max(share - spread, 0.0)], [min(share + spread, 1.0)]
    colour = "orange" if found.broken else "blue"
    marks: list[Mark] = [
        ReferenceLine(x=found.significance, dash="dash"),
        Points([share], [0], colour, x_ends=ends, bar=2.5, size=7),
    ]
    across = Axis("share of runs with a false alarm", (0, min(1.0, max(0.2, 1.3 * ends[1][0]))))
    plot = Plot(across, Axis("", (-0.8, 0.8), names=[found.label]), marks, legend=False)
    return Sheet("False alarms on null data (dashed: allowed)", [plot], SMALL)


SELF_TEST = View(line=_selftest_line, table=_selftest_table, figures={"alarms": _selftest_sheet})
