"""Views of what is said of a claim: verdicts, proofs, and tests of whole pipelines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._table import Cell, Table
from epsilometer._text import probability_text
from epsilometer.display.view import View
from epsilometer.judgement.claimed_curve import CurveVerdict
from epsilometer.judgement.verdict import Verdict
from epsilometer.proofs.proof import Proof, rounded_down
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, ReferenceLine, Sheet
from epsilometer.report.text.verdict_words import e_value_text

if TYPE_CHECKING:
    from epsilometer.calibration.selftest import SelfTest

SMALL = (6.0, 1.7)


def _facts(rows: list[tuple[str, Cell]], notes: tuple[str, ...] = ()) -> Table:
    return Table(columns=("", "value"), rows=rows, notes=notes)


# --- one claim --------------------------------------------------------------------------------


def _verdict_line(found: Verdict) -> str:
    above = probability_text(found.probability_above)
    return f"{found.label}: epsilon exceeds {found.claim:g} with probability {above}"


def _verdict_table(found: Verdict) -> Table:
    return _facts(
        [
            ("verdict", found.label),
            ("claimed epsilon", found.claim),
            ("P(epsilon > claim)", probability_text(found.probability_above)),
            ("before the data", probability_text(found.prior_probability_above)),
            ("PASS at most", found.thresholds.pass_at_most),
            ("FAIL at least", found.thresholds.fail_at_least),
        ],
        tuple(f"{reason[:1].upper()}{reason[1:]}." for reason in found.reasons),
    )


def _verdict_sheet(found: Verdict) -> Sheet:
    low, high = found.thresholds.pass_at_most, found.thresholds.fail_at_least
    marks: list[Mark] = [
        ReferenceLine(x=low, colour="green", dash="dash"),
        ReferenceLine(x=high, colour="orange", dash="dash"),
        Points(
            [found.prior_probability_above], [1], "grey", "before the data", hollow=True, size=8
        ),
        Points([found.probability_above], [0], "blue", "after the data", size=8),
    ]
    across = Axis(f"probability that epsilon exceeds {found.claim:g}", (-0.02, 1.02))
    up = Axis("", (1.6, -0.6), names=["after the data", "before the data"])
    plot = Plot(across, up, marks, legend=False)
    return Sheet(f"{found.label} (dashed: PASS below, FAIL above)", [plot], (6.0, 1.9))


VERDICT = View(line=_verdict_line, table=_verdict_table, figures={"probability": _verdict_sheet})


# --- claims over delta ------------------------------------------------------------------------


def _curve_line(found: CurveVerdict) -> str:
    claimed = sum(each is not None for each in found.verdicts)
    return f"{found.label} over {claimed} of {len(found.verdicts)} deltas"


def _curve_table(found: CurveVerdict) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for delta, verdict in zip(found.deltas.tolist(), found.verdicts, strict=True):
        if verdict is None:
            rows.append((f"{delta:.3g}", None, None, "no claim"))
        else:
            above = probability_text(verdict.probability_above)
            rows.append((f"{delta:.3g}", verdict.claim, above, verdict.label))
    columns = ("delta", "claim", "P(epsilon > claim)", "verdict")
    return Table(columns=columns, rows=rows, notes=[found.sentence])


def _curve_sheet(found: CurveVerdict) -> Sheet:
    deltas, judged = found.deltas, [each is not None for each in found.verdicts]
    positive = deltas[deltas > 0]
    # 0 has no place on a logarithmic axis and stands left of the smallest other.
    places = np.where(deltas > 0, deltas, 0.1 * float(positive[0]) if len(positive) else 1e-9)
    above = [each.probability_above for each in found.verdicts if each is not None]
    limits = next(each.thresholds for each in found.verdicts if each is not None)
    marks: list[Mark] = [
        ReferenceLine(y=limits.pass_at_most, colour="green", dash="dash"),
        ReferenceLine(y=limits.fail_at_least, colour="orange", dash="dash"),
        Line(places[judged], above, "blue", marker="circle"),
    ]
    across = Axis("delta", logarithmic=True, powers=True)
    plot = Plot(across, Axis("P(epsilon > claim)", (-0.03, 1.03)), marks, legend=False)
    return Sheet(f"{found.label} (dashed: PASS below, FAIL above)", [plot], (6.0, 3.2))


CURVE = View(line=_curve_line, table=_curve_table, figures={"probability": _curve_sheet})


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
