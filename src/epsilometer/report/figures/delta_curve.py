"""Epsilon over delta, of either model: intervals and medians, the joint band, and what is claimed."""

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import capital, percent, probability_text
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.judgement.curve_result import NO_LIMIT
from epsilometer.judgement.units import units_of
from epsilometer.posteriors.over_delta import DeltaCurve
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Points, Reference
from epsilometer.report.text.over_delta import OverDelta

#: In units of where the band ends: claims beyond that are not shown, they would flatten the band.
FARTHEST_CLAIM = 2.5

#: Ratio of the largest to the smallest median from which the axis is logarithmic.
WIDE = 30.0

#: Maximum number of deltas drawn with a marker.
MOST_DOTS = 30


def delta_curve_chart(over: OverDelta) -> Chart:
    """Epsilon over a logarithmic axis of delta."""
    deltas, joint = over.deltas, over.joint_band
    positive = deltas[deltas > 0]
    # 0 is not on a logarithmic axis: it is drawn to the left of the smallest other.
    x = np.where(deltas > 0, deltas, 0.1 * float(positive[0]) if len(positive) else 1.0)
    lines = np.stack([*over.quantiles, *(() if joint is None else joint)])
    top = 1.12 * float(lines[np.isfinite(lines)].max(initial=0.0)) or 1.0
    # Infinite values leave the plot at its top.
    drawn = np.where(np.isfinite(lines), lines, 2 * top)
    low, median, high = drawn[:3]
    hover = "delta {x:.3g}: median {y:.4g}\ninterval {0:.4g} to {1:.4g}"
    if joint is not None:
        hover += "\njoint band {2:.4g} to {3:.4g}"
    rows = np.stack([low, high, *drawn[3:]], axis=1).tolist()
    marker = "circle" if len(x) <= MOST_DOTS else None
    marks = _bands(x, drawn, over)
    open_ended = bool(np.isnan(over.quantiles[1]).all())
    if not open_ended:
        marks.append(Line(x, median, "blue", "median", marker=marker, hover=hover, rows=rows))
    caption = _caption(over, finite=open_ended or bool(np.isfinite(lines).all()))
    if open_ended:
        caption += f" {capital(NO_LIMIT)}: only the lower end is drawn."
    else:
        marks += _own_delta(over)
    if isinstance(over.curve, DeltaCurve) and over.curve.rising.any():
        rising, label = over.curve.rising, "higher than at a smaller delta"
        marks.append(Points(x[rising], median[rising], "purple", label, hollow=True))
    claims, said, top = _claims(over, x, top)
    wide = joint is None and bool(median.max() > WIDE * median.min())
    up = Axis("epsilon", logarithmic=True) if wide else Axis("epsilon", (0, top))
    ends = 0.8 * float(x[0]), min(1.25 * float(x[-1]), 1.0)
    plot = Plot(Axis("delta", ends, logarithmic=True, powers=True), up, [*marks, *claims])
    caption = f"{caption} {said}".strip()
    return Chart(title="Epsilon over delta", caption=caption, plots=[plot], size=(6.8, 4.6))


def _caption(over: OverDelta, *, finite: bool) -> str:
    level, deltas, parts = percent(over.level), over.deltas, []
    if isinstance(over.curve, JointDeltaCurve):
        posterior = over.curve.posterior
        units, below = units_of(posterior.scores), posterior.extrapolated_below_delta
        parts.append(
            f"Dark: {level} interval of epsilon at each single delta. Light: the band that contains the "
            f"whole curve with probability {level}."
        )
        if over.extrapolated.any():
            parts.append(
                f"Hatched, below delta = {below:.2g}: extrapolated by the family of curves, since no "
                f"{units.base} has enough {units.scored}."
            )
        if posterior.model.delta > 0:
            parts.append(f"Green: delta = {posterior.model.delta:g}, the delta of this result.")
    else:
        parts.append(f"Median and {level} interval of epsilon at each single delta.")
        if over.curve.rising.any():
            parts.append("Circles: a quantile is higher than at some smaller delta; see the notes.")
    if deltas[0] == 0:
        parts.append("The leftmost point is delta = 0, which a logarithmic axis cannot show.")
    if not finite:
        parts.append("Where the curve leaves the plot at the top, there is no finite epsilon.")
    return " ".join(parts)


def _own_delta(over: OverDelta) -> list[Mark]:
    """The delta of the result; of the count model each delta has its own posterior."""
    if not isinstance(over.curve, JointDeltaCurve) or not over.curve.posterior.model.delta > 0:
        return []
    posterior = over.curve.posterior
    delta, label = posterior.model.delta, f"delta = {posterior.model.delta:g}"
    hover = f"the delta of this result: {delta:g}"
    place = Points([delta], [float(posterior.median("epsilon"))], "green", label, symbol="square",
                   size=7, hover=hover)  # fmt: skip
    return [Reference(x=delta), place]


def _bands(x: FloatArray, lines: FloatArray, over: OverDelta) -> list[Mark]:
    """The interval, hatched where extrapolated, and the joint band if there is one."""
    beyond = over.extrapolated
    if len(x) == 1:  # a band over one delta has no width
        x, beyond = x * np.array([0.9, 1.1]), np.repeat(beyond, 2)
        lines = np.repeat(lines, 2, axis=1)
    low, _, high = lines[:3]
    last = int(beyond.sum())  # deltas rise, so the first ones are extrapolated
    level = percent(over.level)
    bands: list[Mark] = []
    if len(lines) > 3:
        bands.append(Band(x, lines[3], lines[4], "blue", f"{level} joint band", opacity=0.12))
    if last:
        part, look = slice(0, last + 1), "extrapolated"
        bands.append(Band(x[part], low[part], high[part], "blue", look, opacity=0.5, hatched=True))
    if last < len(x):
        part, label = slice(last, None), f"{level} interval"
        bands.append(Band(x[part], low[part], high[part], "blue", label, opacity=0.3))
    return bands


def _claims(over: OverDelta, x: FloatArray, top: float) -> tuple[list[Mark], str, float]:
    """The claims as marks, text for the caption, and the end of the axis of epsilon."""
    claims = np.array([np.nan if each is None else each.claim for each in over.judged])
    claimed, far = np.isfinite(claims), claims > FARTHEST_CLAIM * top
    if not claimed.any():
        return [], "", top
    many = f"{int(far.sum())} claims are" if far.sum() > 1 else "The claim is"
    text = f"{many} above the plot. " if far.any() else ""
    if not (claimed & ~far).any():
        return [], text, top
    seen, hover = np.where(far, np.nan, claims), "claimed at delta {x:.3g}: {y:.4g}"
    if claimed.sum() == 1:
        mark: Mark = Points(x[claimed], seen[claimed], "orange", "claim", hover=hover, size=7)
    else:
        mark = Line(x, seen, "orange", "claim", step="post", hover=hover,
                    marker="circle" if len(x) <= MOST_DOTS else None)  # fmt: skip
        assert over.verdict is not None
        above = probability_text(over.verdict.probability_above)
        text += f"Epsilon exceeds the claim at one delta or more with probability {above}. "
    return [mark], f"{text}Orange: the claim. ", max(top, 1.12 * float(np.nanmax(seen)))
