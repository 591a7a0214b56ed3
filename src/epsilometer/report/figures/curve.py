"""The figures of a result of the curve model; those of single bases are in `bases.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from epsilometer._text import probability_text
from epsilometer.engines.curve.family_shares import FamilyShare
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.units import units_of
from epsilometer.report.figures import checks
from epsilometer.report.figures.answer import answer_chart
from epsilometer.report.figures.bases import leaks_chart, roc_chart, roc_check_chart
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.marks import Axis, Mark, Plot, Points
from epsilometer.report.figures.posterior import exceedance_chart
from epsilometer.report.text.over_delta import over_delta_of

MOST_FAMILIES = 12
"""Maximum number of mixtures drawn separately."""

WORTH_A_ROW = 1e-3
"""A mixture of smaller probability is drawn together with others."""

WORTH_A_WORD = 1e-3
"""Smallest probability of no leak that captions mention."""


# --- epsilon ----------------------------------------------------------------------------------


def answer(result: CurveResult) -> Chart:
    """What is proven, shown, estimated and claimed."""
    no_leak = result.posterior.solution.no_leak
    return answer_chart(result, units=units_of(result.scores), no_leak=no_leak)


def exceedance(result: CurveResult) -> Chart:
    """P(epsilon > e); the caption states the probability of no leak."""
    claim, thresholds = result.claims.get(result.delta), result.question.thresholds
    chart = exceedance_chart(result.posterior, claim=claim, thresholds=thresholds)
    nothing = result.posterior.solution.no_leak
    if nothing < WORTH_A_WORD:
        return chart
    before = float(result.model.no_leak or 0.0)
    told = (
        f" The curve starts below 1: with probability {probability_text(nothing)} nothing leaks "
        "and epsilon "
        f"is 0 (prior probability {before:g})."
    )
    return replace(chart, caption=chart.caption + told)


def prior_chart(result: CurveResult) -> Chart | None:
    """Epsilon with the prior's scale halved and doubled."""
    if not result.other_priors:
        return None
    posterior, prior = result.posterior, result.model.epsilon
    leaks = 1 - float(result.model.no_leak or 0.0)
    reported = checks.PriorVersion(1.0, prior, leaks, posterior.marginal("epsilon"))
    others = [
        checks.PriorVersion(other.factor, prior.rescaled(other.factor), leaks, other.epsilon)
        for other in result.other_priors
    ]
    chart = checks.priors_chart([reported, *others], level=result.level)
    nothing = posterior.solution.no_leak
    if nothing < WORTH_A_WORD:
        return chart
    told = f" Not drawn: probability {probability_text(nothing)} of no leak, where epsilon is 0."
    return replace(chart, caption=chart.caption + told)


# --- families ---------------------------------------------------------------------------------


def family_label(row: FamilyShare) -> str:
    """A family with its mixture, in a few words."""
    said = {"mechanism": ", used at rate {:g}", "attack": ", seen at rate {:g}"}
    return row.family + said.get(row.interpretation, "").format(row.mixing)


def families_chart(result: CurveResult, misfits: Mapping[str, str]) -> Chart:
    """Posterior and prior probabilities of families and of their mixtures."""
    rows = result.posterior.families
    names = list(dict.fromkeys(row.family for row in rows))
    totals = [
        (
            name,
            sum(row.probability for row in rows if row.family == name),
            sum(row.prior for row in rows if row.family == name),
            name in misfits,
        )
        for name in names
    ]
    totals.sort(key=lambda total: -total[1])
    shown = [row for row in rows if row.probability >= WORTH_A_ROW][:MOST_FAMILIES]
    rest = rows[len(shown) :]
    detail = [
        (family_label(row), row.probability, row.prior, row.family in misfits) for row in shown
    ]
    if rest:
        others = sum(row.probability for row in rest), sum(row.prior for row in rest)
        detail.append((f"{len(rest)} others", *others, False))
    caption = (
        "Posterior (bars) and prior (rings) probability of each shape of the trade-off curve; "
        "the estimate "
        'is averaged over all of them. First by family, then with mixtures: a point "used at rate" r '
        'matters in that share of trainings only; one "seen at rate" r is visible in that share '
        "of attacks. "
        "Scores cannot tell these two apart."
    )
    wrong = [name for name in names if name in misfits]
    if wrong:
        caption += (
            f" Purple: {', '.join(wrong)} does not fit these ROC curves; that matters only "
            "where its bar is "
            "long."
        )
    size = max(len(totals), len(detail))
    return Chart(
        name="families",
        title="Families of trade-off curves",
        subtitle=" (rings: prior)",
        caption=caption,
        plots=[_bars(totals, size), _bars(detail, size)],
        size=(10.6, 1.7 + 0.3 * size),
        columns=2,
    )


def _bars(rows: list[tuple[str, float, float, bool]], size: int) -> Plot:
    """A bar for each row: name, probability after and before the data, whether it does not fit."""
    after, before = (np.array([row[column] for row in rows], dtype=float) for column in (1, 2))
    wrong, places = np.array([row[3] for row in rows]), np.arange(len(rows))
    marks: list[Mark] = []
    for which, colour, label in ((~wrong, "blue", "fits"), (wrong, "purple", "does not fit")):
        if which.any():
            ends = np.zeros(int(which.sum())), after[which]
            said = [[f"{value:.4f}"] for value in after[which].tolist()]
            marks.append(
                Points(after[which], places[which], colour, label, x_ends=ends, bar=5,
                       size=5, rows=said, hover="posterior probability {0}")
            )  # fmt: skip
    hover = "prior probability {x:.4f}"
    # A little lower, so that no bar covers them.
    rings = Points(before, places + 0.3, "grey", "prior", hollow=True, hover=hover)
    marks.append(rings)
    names = [row[0] for row in rows]
    return Plot(
        Axis("probability", (0, 1.03)),
        Axis("", (len(names) - 0.4, -0.6), names=names),
        marks,
        legend=False,
        page_height=110 + 28 * max(size, 4),
    )


# --- all of them ------------------------------------------------------------------------------


def _families(result: CurveResult) -> Chart:
    return families_chart(result, result.poorly_fitting_families)


def over_delta(result: CurveResult) -> Chart:
    """Epsilon over delta, over a wide range if one delta was asked for."""
    over = over_delta_of(result)
    assert over is not None
    return delta_curve_chart(over)


CURVE_CHARTS: dict[str, Callable[[CurveResult], Chart | None]] = {
    "answer": answer,
    "exceedance": exceedance,
    "roc": roc_chart,
    "leaks": leaks_chart,
    "families": _families,
    "delta-curve": over_delta,
    "prior": prior_chart,
    "predictive": roc_check_chart,
}
"""Every figure by the name of its file, in the order of the page; None where it does not apply."""

OF_THE_POSTERIOR: dict[str, Callable[[CurveResult], Chart | None]] = {
    "answer": answer,
    "exceedance": exceedance,
    "roc": roc_chart,
    "leaks": leaks_chart,
    "families": partial(families_chart, misfits={}),
    "delta-curve": over_delta,
}
"""The figures of a result folder, which need no check."""
