"""Views of epsilon over delta."""

from __future__ import annotations

from epsilometer._table import Table
from epsilometer._text import counted, pair_text, percent, probability_text
from epsilometer.display.view import View
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.exact.over_delta import DeltaCurve
from epsilometer.judgement.claimed_curve import JudgedCurve
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.result import Question
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.profile import profile_delta_chart
from epsilometer.report.text.delta_table import curve_notes
from epsilometer.report.text.profile_summary import profile_curve_items

LEVEL = 0.9


def _span(deltas: list[float]) -> str:
    text = counted(len(deltas), "delta")
    return text if len(deltas) == 1 else f"{text} from {deltas[0]:.3g} to {deltas[-1]:.3g}"


# --- the published model ----------------------------------------------------------------------


def _published_line(found: DeltaCurve) -> str:
    low, high = float(found.median.min()), float(found.median.max())
    doubtful = "" if found.trustworthy else "; NOT ACCURATE"
    medians = f"median epsilon {pair_text(low, high)}"
    return f"{_span(found.deltas.tolist())}: {medians}{doubtful}"


def _published_table(found: DeltaCurve) -> Table:
    judged = JudgedCurve.of(found, level=LEVEL)
    ends = [percent(0.5 - LEVEL / 2), "median", percent(0.5 + LEVEL / 2)]
    rows = [
        (f"{delta:.3g}", *numbers)
        for delta, numbers in zip(found.deltas.tolist(), judged.quantiles.T.tolist(), strict=True)
    ]
    return Table(columns=("delta", *ends), rows=rows, notes=curve_notes(judged))


def _published_chart(found: DeltaCurve) -> Chart:
    return delta_curve_chart(JudgedCurve.of(found, level=LEVEL))


PUBLISHED = View(
    line=_published_line, table=_published_table, figures={"delta-curve": _published_chart}
)


# --- the whole trade-off curve ----------------------------------------------------------------


def _profile_line(found: JointDeltaCurve) -> str:
    _, median, _ = found.quantiles
    text = f"{_span(found.grid.tolist())}: median epsilon {median.max():.2f} down to {median.min():.2f}"
    if found.claim is not None:
        anywhere = probability_text(found.probability_anywhere)
        text += f"; the claim is exceeded at one delta or more with probability {anywhere}"
    return text


def _profile_table(found: JointDeltaCurve) -> Table:
    names = ["low", "median", "high", "joint_low", "joint_high", "extrapolated"]
    if found.claim is not None:
        names += ["claim", "probability_above"]
    rows = [
        (f"{item['delta']:.3g}", *(item[name] for name in names))
        for item in profile_curve_items(found)
    ]
    columns = ("delta", *(name.replace("_", " ") for name in names))
    return Table(columns=columns, rows=rows, notes=found.notes)


def _profile_chart(found: JointDeltaCurve) -> Chart:
    question = Question(level=found.level)
    return profile_delta_chart(
        ProfileResult(posterior=found.posterior, question=question, over_delta=found)
    )


WHOLE_CURVE = View(
    line=_profile_line, table=_profile_table, figures={"delta-curve": _profile_chart}
)
