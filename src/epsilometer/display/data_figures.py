"""Figures of counts, scores and losses: error rates, ROC curves and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.comparison.attacks import roc_of
from epsilometer.display.data import WITH, WITHOUT
from epsilometer.model.counts import AttackCounts
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.report.figures import style
from epsilometer.report.figures.bases import drawn_roc
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Sheet

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses

MOST_CURVES = 40
"""ROC curves that are drawn one by one."""

BINS = 40


def counts_sheet(found: AttackCounts) -> Sheet:
    """Error rates of each base."""
    rates = found.false_positive_rates, found.false_negative_rates
    marks: list[Mark] = [
        Line([0, 1], [1, 0], "grey", "guessing", width=1, dash="dot"),
        style.attack_points(found, *rates, label="challenge bases"),
    ]
    plot = style.unit_square("false-positive rate", "false-negative rate", marks)
    return Sheet("Error rates of the attacks", [plot], (4.4, 4.4))


def scores_sheet(found: Scores) -> Sheet:
    """ROC curves of the bases."""
    finest = 0.5 / int(found.trials_h0.max())
    order = np.argsort([-base.auc() for base in found.bases], kind="stable")
    drawn = order[style.picked(len(order), MOST_CURVES)].tolist()
    few = len(drawn) <= len(style.SEVERAL)
    rates = np.geomspace(finest, 1.0, 60)
    marks: list[Mark] = [Line(rates, rates, "grey", "guessing", width=1, dash="dot")]
    for number, place in enumerate(drawn):
        x, y = drawn_roc(found.bases[place], finest)
        colour = style.SEVERAL[number] if few else "blue"
        label = style.printed_name(found.names[place])
        marks.append(
            Line(x, y, colour, label, listed=few, width=1.4 if few else 0.8,
                 opacity=1.0 if few else 0.5)
        )  # fmt: skip
    across = Axis("false-positive rate", (finest, 1.0), logarithmic=True)
    plot = Plot(across, Axis("true-positive rate", (-0.02, 1.02)), marks)
    return Sheet("ROC curves", [plot], (5.4, 3.8))


def pool_scores_sheet(found: PoolScores) -> Sheet:
    """One ROC curve over all models and points."""
    curve = roc_of(*found.pooled())
    some = curve.true > 0
    marks: list[Mark] = [
        Line(curve.false, curve.false, "grey", "guessing", width=1, dash="dot"),
        Line(curve.false[some], curve.true[some], "blue", f"AUC {curve.auc:.3f}"),
    ]
    across, up = (
        Axis(f"{which}-positive rate", (float(curve.false[0]), 1.0), logarithmic=True)
        for which in ("false", "true")
    )
    return Sheet("ROC curve over all models and points", [Plot(across, up, marks)], (4.6, 4.2))


def histogram(
    without: FloatArray, with_point: FloatArray, labels: Sequence[str], **more: Any
) -> Plot:
    """Densities of losses on both sides; the largest 0.5 % may lie beyond the plot."""
    finite = [side[np.isfinite(side)] for side in (without, with_point)]
    both = np.concatenate(finite)
    if not len(both):
        both = np.zeros(1)
    low, high = np.quantile(both, [0.0, 0.995])
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    marks: list[Mark] = []
    for side, colour, label in zip(finite, ("grey", "orange"), labels, strict=True):
        if len(side):
            share = np.histogram(side, edges)[0] / len(side)
            x, y = np.repeat(edges, 2)[1:-1], np.repeat(share, 2)
            marks.append(Band(x, None, y, colour, label, opacity=0.35))
            marks.append(Line(x, y, colour, width=1.2))
    return Plot(Axis("loss"), Axis("share of losses", from_zero=True), marks, **more)


def losses_plot(found: Losses, **more: Any) -> Plot:
    """Histograms over all bases."""
    sides = [found.loss[found.hypothesis == side] for side in (0, 1)]
    return histogram(sides[0], sides[1], (WITHOUT, WITH), **more)


def losses_sheet(found: Losses) -> Sheet:
    """Histograms of losses."""
    return Sheet("Losses of the challenge points", [losses_plot(found)], (5.4, 3.4))


def pool_losses_plot(found: PoolLosses, **more: Any) -> Plot:
    """Histograms over all models and points."""
    losses = found.loss[:, : found.challenges, 0]
    member = found.member[:, : found.challenges]
    return histogram(losses[~member], losses[member], ("not trained on", "trained on"), **more)


def pool_losses_sheet(found: PoolLosses) -> Sheet:
    """Histograms of losses over all models and points."""
    return Sheet("Losses over all models and points", [pool_losses_plot(found)], (5.4, 3.4))
