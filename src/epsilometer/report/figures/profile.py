"""The figures of a result of the whole-curve model; those of single bases are in `profile_bases.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import percent, probability_text
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.curve.posterior import FamilyShare
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.units import units_of
from epsilometer.report.figures import checks
from epsilometer.report.figures.answer import answer_chart
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.delta_curve import FARTHEST_CLAIM, MOST_DOTS
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Points, ReferenceLine
from epsilometer.report.figures.posterior import exceedance_chart
from epsilometer.report.figures.profile_bases import leaks_chart, roc_chart, roc_check_chart

PROFILE_CHART_NAMES = (
    "answer",
    "exceedance",
    "roc",
    "leaks",
    "families",
    "delta-curve",
    "prior",
    "predictive",
)
"""Names of all figures of this model, the stems of their files."""

MOST_FAMILIES = 12
"""Maximum number of mixtures drawn separately."""

WORTH_A_ROW = 1e-3
"""A mixture of smaller probability is drawn together with others."""

DELTAS, SMALLEST_DELTA, LARGEST_DELTA = 25, 1e-8, 0.1
"""Default grid of delta."""

WORTH_A_WORD = 1e-3
"""Smallest probability of no leak that captions mention."""


def profile_charts(result: ProfileResult) -> list[Chart]:
    """Every figure of a result, in the order of the page."""
    found = [
        answer(result),
        exceedance(result),
        roc_chart(result),
        leaks_chart(result),
        families_chart(result, result.poorly_fitting_families),
        profile_delta_chart(result),
    ]
    if result.other_priors:
        found.append(profile_prior_chart(result))
    return [*found, roc_check_chart(result)]


def folder_charts(result: ProfileResult) -> list[Chart]:
    """The figures that need nothing but the posterior itself."""
    return [
        answer(result),
        exceedance(result),
        roc_chart(result),
        leaks_chart(result),
        families_chart(result, {}),
        profile_delta_chart(result),
    ]


# --- epsilon ----------------------------------------------------------------------------------


def answer(result: ProfileResult) -> Chart:
    """What is proven, shown, estimated and claimed."""
    no_leak = result.posterior.solution.no_leak
    return answer_chart(result, units=units_of(result.scores), no_leak=no_leak)


def exceedance(result: ProfileResult) -> Chart:
    """P(epsilon > e); the caption states the probability of no leak."""
    chart = exceedance_chart(
        result.posterior, verdict=result.verdict, thresholds=result.question.thresholds
    )
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


def profile_prior_chart(result: ProfileResult) -> Chart:
    """Epsilon with the prior's scale halved and doubled."""
    posterior, prior = result.posterior, result.model.epsilon
    leaks = 1 - float(result.model.no_leak or 0.0)
    own = checks.PriorVersion(1.0, prior, leaks, posterior.marginal("epsilon"))
    others = [
        checks.PriorVersion(other.factor, prior.rescaled(other.factor), leaks, other.epsilon)
        for other in result.other_priors
    ]
    chart = checks.priors_chart([own, *others], level=result.level)
    nothing = posterior.solution.no_leak
    if nothing < WORTH_A_WORD:
        return chart
    told = f" Not drawn: probability {probability_text(nothing)} of no leak, where epsilon is 0."
    return replace(chart, caption=chart.caption + told)


# --- families ---------------------------------------------------------------------------------


def family_label(row: FamilyShare) -> str:
    """A family with its mixture, in a few words."""
    said = {"mechanism": ", used at rate {:g}", "attack": ", seen at rate {:g}"}
    return row.family + said.get(row.reading, "").format(row.mixing)


def families_chart(result: ProfileResult, misfits: Mapping[str, str]) -> Chart:
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


# --- epsilon over delta -----------------------------------------------------------------------


def curve_of(result: ProfileResult) -> JointDeltaCurve:
    """The requested curve over delta, or one on the default grid."""
    if result.over_delta is not None:
        return result.over_delta
    own = result.model.delta
    smallest = min(SMALLEST_DELTA, own) if own > 0 else SMALLEST_DELTA
    deltas = np.geomspace(smallest, max(LARGEST_DELTA, own), DELTAS)
    # The result's own delta, and where extrapolation ends, instead of ones that are hardly others.
    for each in (own, result.posterior.extrapolated_below_delta):
        if smallest <= each <= deltas.max():
            deltas = np.append(deltas[np.abs(np.log(deltas / each)) > 1e-6], each)
    return JointDeltaCurve(posterior=result.posterior, deltas=deltas, level=result.level)


def profile_delta_chart(result: ProfileResult) -> Chart:
    """Epsilon over delta: intervals, the joint band, the extrapolated part, and the claim."""
    curve, own = curve_of(result), result.model.delta
    deltas = curve.grid
    positive = deltas[deltas > 0]
    # 0 is not on a logarithmic axis: it is drawn to the left of the smallest other.
    x = np.where(deltas > 0, deltas, 0.1 * float(positive[0]) if len(positive) else 1.0)
    lines = np.stack([*curve.quantiles, *curve.joint_band])
    top = 1.12 * float(lines[np.isfinite(lines)].max(initial=0.0)) or 1.0
    # Infinite values leave the plot at its top.
    low, median, high, joint_low, joint_high = np.where(np.isfinite(lines), lines, 2 * top)
    said = np.stack([low, high, joint_low, joint_high], axis=1).tolist()
    marks: list[Mark] = _bands(x, (low, high, joint_low, joint_high), curve)
    marker = "circle" if len(x) <= MOST_DOTS else None
    hover = (
        "delta {x:.3g}: median {y:.4g}\ninterval {0:.4g} to {1:.4g}\njoint band {2:.4g} to {3:.4g}"
    )
    marks.append(Line(x, median, "blue", "median", marker=marker, hover=hover, rows=said))
    caption = (
        f"Dark: {percent(curve.level)} interval of epsilon at each single delta. Light: the band that "
        f"contains the whole curve with probability {percent(curve.level)}. "
    )
    if curve.extrapolated.any():
        below, units = result.posterior.extrapolated_below_delta, units_of(result.scores)
        caption += (
            f"Hatched, below delta = {below:.2g}: extrapolated by the family of curves, since "
            f"no {units.base} "
            f"has enough {units.scored} to show the error rates that determine epsilon there. "
        )
    if deltas[0] == 0:
        caption += "The leftmost point is delta = 0, which a logarithmic axis cannot show. "
    if not np.isfinite(lines).all():
        caption += "Where the curve leaves the plot at the top, there is no finite epsilon. "
    if own > 0:
        place = float(result.posterior.median("epsilon"))
        marks += [
            ReferenceLine(x=own),
            Points([own], [place], "green", f"delta = {own:g}", symbol="square", size=7,
                   hover=f"the delta of this result: {own:g}"),
        ]  # fmt: skip
        caption += f"Green: delta = {own:g}, the delta of this result. "
    claims, more, top = _claims(result, curve, x, top)
    axes = Axis("delta", _ends(x), logarithmic=True, powers=True), Axis("epsilon", (0, top))
    return Chart(
        name="delta-curve",
        title="Epsilon over delta",
        caption=(caption + more).strip(),
        plots=[Plot(*axes, [*marks, *claims])],
        size=(6.8, 4.6),
    )


def _ends(x: FloatArray) -> tuple[float, float]:
    """The axis of delta; a single one has some room on either side."""
    if len(x) == 1:
        return 0.1 * float(x[0]), min(10 * float(x[0]), 1.0)
    return 0.8 * float(x[0]), min(1.25 * float(x[-1]), 1.0)


def _bands(
    x: FloatArray,
    lines: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    curve: JointDeltaCurve,
) -> list[Mark]:
    """The interval and the joint band, hatched where extrapolated."""
    if len(x) == 1:  # a band over one delta has no width
        x = x * np.array([0.9, 1.1])
        low, high, joint_low, joint_high = (np.repeat(line, 2) for line in lines)
        beyond = np.repeat(curve.extrapolated, 2)
    else:
        (low, high, joint_low, joint_high), beyond = lines, curve.extrapolated
    last = int(beyond.sum())  # deltas rise, so the first ones are extrapolated
    level = percent(curve.level)
    found: list[Mark] = [
        Band(x, joint_low, joint_high, "blue", f"{level} joint band", opacity=0.12)
    ]
    if last:
        part = slice(0, last + 1)
        look = "extrapolated"
        found.append(Band(x[part], low[part], high[part], "blue", look, opacity=0.5, hatched=True))
    if last < len(x):
        part = slice(last, None)
        label = f"{level} interval"
        found.append(Band(x[part], low[part], high[part], "blue", label, opacity=0.3))
    return found


def _claims(
    result: ProfileResult, curve: JointDeltaCurve, x: FloatArray, top: float
) -> tuple[list[Mark], str, float]:
    """The claim as marks, text for the caption, and the end of the axis of epsilon."""
    shown = np.where(np.isfinite(curve.claims), curve.claims, np.nan)
    if curve.claim is None and result.question.claim is not None and result.model.delta > 0:
        x, shown = np.array([result.model.delta]), np.array([result.question.claim])
    claimed, far = np.isfinite(shown), shown > FARTHEST_CLAIM * top
    if not claimed.any():
        return [], "", top
    more = ""
    if far.any():
        more = f"{int(far.sum())} claims are above the plot. " if far.sum() > 1 else (
            "The claim is above the plot. "
        )  # fmt: skip
    if far.all() or (far | ~claimed).all():
        return [], more, top
    seen = np.where(far, np.nan, shown)
    hover = "claimed at delta {x:.3g}: {y:.4g}"
    if len(seen) == 1:
        mark: Mark = Points(x, seen, "orange", "claim", hover=hover, size=7)
    else:
        mark = Line(x, seen, "orange", "claim", step="post", hover=hover,
                    marker="circle" if len(x) <= MOST_DOTS else None)  # fmt: skip
    more += "Orange: the claim. "
    if curve.claim is not None:
        more += (
            "Epsilon exceeds it at one delta or more with probability "
            f"{probability_text(curve.probability_anywhere)}. "
        )
    return [mark], more, max(top, 1.12 * float(np.nanmax(seen)))
