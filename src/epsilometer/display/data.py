"""Views of counts, scores and losses: sizes in a line, bases in a table, curves and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._table import Cell, Table
from epsilometer.display.view import View
from epsilometer.model.counts import AttackCounts
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.report.attack_comparison import RATES, roc_of
from epsilometer.report.figures import style
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Sheet
from epsilometer.report.figures.profile_bases import drawn_roc
from epsilometer.report.text import counted, shortened
from epsilometer.report.units import units_of

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses

MOST_CURVES = 40
"""ROC curves that are drawn one by one."""

BINS = 40

WITHOUT, WITH = "without the point", "with the point"


def sizes_text(sizes: Sequence[int]) -> str:
    """``100``, or ``20 to 100``."""
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# --- counts -----------------------------------------------------------------------------------


def _counts_line(found: AttackCounts) -> str:
    trials = sizes_text([*found.trials_h0.tolist(), *found.trials_h1.tolist()])
    rates = found.false_positive_rates.mean(), found.false_negative_rates.mean()
    text = f"{counted(len(found), 'challenge base')}, {trials} trials per hypothesis; mean rates: "
    text += f"false positives {rates[0]:.3g}, false negatives {rates[1]:.3g}"
    if found.dependent:
        text += f"; {len(found.members)} groups"
    return text if found.measured is None else f"{text}; {found.measured.design}"


def _counts_table(found: AttackCounts) -> Table:
    columns = (found.false_positives, found.trials_h0, found.false_negatives, found.trials_h1)
    rates = (found.false_positive_rates, found.false_negative_rates)
    rows = list(zip(found.names, *(each.tolist() for each in (*columns, *rates)), strict=True))
    return Table(
        columns=("challenge base", "false positives", "trials H0", "false negatives", "trials H1",
                 "FPR", "FNR"),
        rows=rows,
    )  # fmt: skip


def _counts_sheet(found: AttackCounts) -> Sheet:
    rates = found.false_positive_rates, found.false_negative_rates
    marks: list[Mark] = [
        Line([0, 1], [1, 0], "grey", "guessing", width=1, dash="dot"),
        style.attack_points(found, *rates, label="challenge bases"),
    ]
    plot = style.unit_square("false-positive rate", "false-negative rate", marks)
    return Sheet("Error rates of the attacks", [plot], (4.4, 4.4))


COUNTS = View(line=_counts_line, table=_counts_table, figures={"rates": _counts_sheet})


# --- scores -----------------------------------------------------------------------------------


def _scores_line(found: Scores) -> str:
    units, trials = units_of(found), int(found.trials_h0.sum() + found.trials_h1.sum())
    aucs = [base.auc() for base in found.bases]
    text = f"{units.bases(len(found))}, {trials:,} scores of {units.scored}; AUC "
    low, high = f"{min(aucs):.3f}", f"{max(aucs):.3f}"
    text += low if low == high else f"{low} to {high}"
    return f"{text}; dependent" if found.dependent else text


def _scores_table(found: Scores) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, base in zip(found.names, found.bases, strict=True):
        rates = [float(rate) for rate in base.true_positive_rate(np.array([0.01, 0.1]))]
        rows.append((name, base.trials_h0, base.trials_h1, base.auc(), *rates))
    units = units_of(found)
    return Table(columns=(units.base, WITHOUT, WITH, "AUC", "TPR at 1 %", "TPR at 10 %"), rows=rows)


def _scores_sheet(found: Scores) -> Sheet:
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


SCORES = View(line=_scores_line, table=_scores_table, figures={"roc": _scores_sheet})


def _pool_scores_line(found: PoolScores) -> str:
    auc = roc_of(*found.pooled()).auc
    coins = "; fair coins" if found.fair_coins else ""
    return f"{found.models:,} models, {found.points:,} points; AUC {auc:.3f} over all{coins}"


def _pool_scores_table(found: PoolScores) -> Table:
    curve = roc_of(*found.pooled())
    rows: list[tuple[str, Cell]] = [
        ("models", found.models),
        ("points", found.points),
        ("points per model", float(found.member.sum(axis=1).mean())),
        ("fair coins", found.fair_coins),
        ("dependent", found.dependent),
        ("AUC", curve.auc),
        *((f"TPR at {100 * rate:g} %", curve.at(rate)) for rate in RATES),
    ]
    return Table(columns=("", "value"), rows=rows)


def _pool_scores_sheet(found: PoolScores) -> Sheet:
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


POOL_SCORES = View(
    line=_pool_scores_line, table=_pool_scores_table, figures={"roc": _pool_scores_sheet}
)


# --- losses -----------------------------------------------------------------------------------


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


def losses_table(found: Losses) -> Table:
    """Sizes and mean losses of each base."""
    without, with_point = found.by_hypothesis()
    rows: list[tuple[Cell, ...]] = []
    for name, *sides in zip(found.names, without, with_point, strict=True):
        kept = [side[np.isfinite(side)] for side in sides]
        means = [float(side.mean()) if len(side) else None for side in kept]
        rows.append((name, *(int((~np.isnan(side)).sum()) for side in sides), *means))
    base = "run" if found.one_run else "challenge base"
    names = [f"mean {WITHOUT}", f"mean {WITH}"]
    return Table(columns=(base, WITHOUT, WITH, *names), rows=rows)


def losses_line(found: Losses) -> str:
    """How many losses of what."""
    bad = int((~np.isfinite(found.loss)).sum())
    what = "canaries" if found.one_run else "models"
    bases = counted(len(found.names), "training run" if found.one_run else "challenge base")
    text = f"{bases}, {len(found):,} losses of {what}"
    return f"{text}; {bad:,} not finite" if bad else text


def losses_plot(found: Losses, **more: Any) -> Plot:
    """Histograms over all bases."""
    sides = [found.loss[found.hypothesis == side] for side in (0, 1)]
    return histogram(sides[0], sides[1], (WITHOUT, WITH), **more)


def _losses_sheet(found: Losses) -> Sheet:
    return Sheet("Losses of the challenge points", [losses_plot(found)], (5.4, 3.4))


LOSSES = View(line=losses_line, table=losses_table, figures={"histogram": _losses_sheet})


def pool_losses_line(found: PoolLosses) -> str:
    """How many models and points."""
    extra = f", {found.references:,} of them references" if found.references else ""
    queries = f", {found.queries} queries" if found.queries > 1 else ""
    return f"{found.models:,} models, {found.points:,} points{extra}{queries}"


def pool_losses_table(found: PoolLosses) -> Table:
    """Sizes, and mean losses of points in and out of training."""
    own = found.loss[:, : found.challenges, 0]
    member = found.member[:, : found.challenges]
    rows: list[tuple[str, Cell]] = [
        ("models", found.models),
        ("points", found.challenges),
        ("reference points", found.references),
        ("queries per point", found.queries),
        ("points per model", float(member.sum(axis=1).mean())),
        ("fair coins", found.fair_coins),
        ("mean loss of members", float(own[member].mean()) if member.any() else None),
        ("mean loss of others", float(own[~member].mean()) if not member.all() else None),
    ]
    return Table(columns=("", "value"), rows=rows)


def pool_losses_plot(found: PoolLosses, **more: Any) -> Plot:
    """Histograms over all models and points."""
    own = found.loss[:, : found.challenges, 0]
    member = found.member[:, : found.challenges]
    return histogram(own[~member], own[member], ("not trained on", "trained on"), **more)


def _pool_losses_sheet(found: PoolLosses) -> Sheet:
    return Sheet("Losses over all models and points", [pool_losses_plot(found)], (5.4, 3.4))


POOL_LOSSES = View(
    line=pool_losses_line, table=pool_losses_table, figures={"histogram": _pool_losses_sheet}
)


def name_text(name: object, longest: int = 40) -> str:
    """A name of a user, quoted and short."""
    return repr(shortened(str(name), longest))
