"""Views of counts, scores and losses: sizes in a line, bases in a table, curves and histograms."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._table import Cell, Table, facts
from epsilometer._text import counted
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.comparison.attacks import RATES, roc_of
from epsilometer.display.view import View
from epsilometer.judgement.units import units_of
from epsilometer.model.counts import AttackCounts
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores
from epsilometer.report.figures import style
from epsilometer.report.figures.comparison import roc_sheet
from epsilometer.report.figures.curve_model import drawn_roc
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Plot, Sheet
from epsilometer.report.text.rows import counts_table

WITHOUT, WITH = "without the point", "with the point"

#: ROC curves that are drawn one by one.
MOST_CURVES = 40

BINS = 40


# --- counts -----------------------------------------------------------------------------------


def _counts_line(found: AttackCounts) -> str:
    sizes = [*found.trials_h0.tolist(), *found.trials_h1.tolist()]
    trials = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    rates = found.false_positive_rates.mean(), found.false_negative_rates.mean()
    text = f"{counted(len(found), 'challenge base')}, {trials} trials per hypothesis; mean rates: "
    text += f"false positives {rates[0]:.3g}, false negatives {rates[1]:.3g}"
    if found.dependent:
        text += f"; {len(found.members)} groups"
    return text if found.measured is None else f"{text}; {found.measured.design}"


def _counts_sheet(found: AttackCounts) -> Sheet:
    plot = style.error_rates(found, "challenge bases")
    return Sheet("Error rates of the attacks", [plot], (4.4, 4.4))


COUNTS = View(line=_counts_line, table=counts_table, figures={"rates": _counts_sheet})


# --- scores -----------------------------------------------------------------------------------


def _scores_line(found: Scores) -> str:
    units, trials = units_of(found), int(found.trials_h0.sum() + found.trials_h1.sum())
    aucs = [base.auc() for base in found.bases]
    low, high = f"{min(aucs):.3f}", f"{max(aucs):.3f}"
    text = f"{units.bases(len(found))}, {trials:,} scores of {units.scored}; AUC "
    text += low if low == high else f"{low} to {high}"
    return f"{text}; dependent" if found.dependent else text


def _scores_table(found: Scores) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, base in zip(found.names, found.bases, strict=True):
        rates = base.true_positive_rate(np.array([0.01, 0.1])).tolist()
        rows.append((name, base.trials_h0, base.trials_h1, base.auc(), *rates))
    columns = (units_of(found).base, WITHOUT, WITH, "AUC", "TPR at 1 %", "TPR at 10 %")
    return Table(columns=columns, rows=rows)


def _scores_sheet(found: Scores) -> Sheet:
    finest = 0.5 / int(found.trials_h0.max())
    order = np.argsort([-base.auc() for base in found.bases], kind="stable")
    drawn = order[style.picked(len(order), MOST_CURVES)].tolist()
    few = len(drawn) <= len(style.SEVERAL)
    looks: dict[str, Any] = {"width": 1.4} if few else {"width": 0.8, "opacity": 0.5}
    rates = np.geomspace(finest, 1.0, 60)
    marks: list[Mark] = [Line(rates, rates, "grey", "guessing", width=1, dash="dot")]
    for number, place in enumerate(drawn):
        x, y = drawn_roc(found.bases[place], finest)
        colour = style.SEVERAL[number] if few else "blue"
        label = style.printed_name(found.names[place])
        marks.append(Line(x, y, colour, label, listed=few, **looks))
    across = Axis("false-positive rate", (finest, 1.0), logarithmic=True)
    plot = Plot(across, Axis("true-positive rate", (-0.02, 1.02)), marks)
    return Sheet("ROC curves", [plot], (5.4, 3.8))


SCORES = View(line=_scores_line, table=_scores_table, figures={"roc": _scores_sheet})


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
    return facts(rows)


def _pool_scores_sheet(found: PoolScores) -> Sheet:
    return roc_sheet("ROC curve over all models and points", {"scores": roc_of(*found.pooled())})


POOL_SCORES = View(table=_pool_scores_table, figures={"roc": _pool_scores_sheet})


# --- losses -----------------------------------------------------------------------------------


def sides_of(found: Losses | PoolLosses) -> list[FloatArray]:
    """The losses of points that were not trained on, and of those that were."""
    if isinstance(found, Losses):
        return [found.loss[found.hypothesis == side] for side in (0, 1)]
    loss, member = found.loss[:, : found.challenges, 0], found.member[:, : found.challenges]
    return [loss[~member], loss[member]]


def means_of(sides: Sequence[FloatArray]) -> list[float | None]:
    """The mean of the finite losses of each side; None if there are none."""
    finite = [side[np.isfinite(side)] for side in sides]
    return [float(side.mean()) if len(side) else None for side in finite]


def losses_plot(found: Losses | PoolLosses, **more: Any) -> Plot:
    """Histograms of losses on both sides; the largest 0.5 % may lie beyond the plot."""
    finite = [side[np.isfinite(side)] for side in sides_of(found)]
    both = np.concatenate([*finite, *([] if any(map(len, finite)) else [np.zeros(1)])])
    low, high = np.quantile(both, [0.0, 0.995])
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    marks: list[Mark] = []
    for side, colour, label in zip(finite, ("grey", "orange"), (WITHOUT, WITH), strict=True):
        if len(side):
            share = np.histogram(side, edges)[0] / len(side)
            x, y = np.repeat(edges, 2)[1:-1], np.repeat(share, 2)
            marks.append(Band(x, None, y, colour, label, opacity=0.35))
            marks.append(Line(x, y, colour, width=1.2))
    return Plot(Axis("loss"), Axis("share of losses", from_zero=True), marks, **more)


def _losses_sheet(found: Losses | PoolLosses) -> Sheet:
    return Sheet("Losses of the challenge points", [losses_plot(found)], (5.4, 3.4))


def _losses_line(found: Losses) -> str:
    bad = int((~np.isfinite(found.loss)).sum())
    what = "canaries" if found.one_run else "models"
    bases = counted(len(found.names), "training run" if found.one_run else "challenge base")
    text = f"{bases}, {len(found):,} losses of {what}"
    return f"{text}; {bad:,} not finite" if bad else text


def _losses_table(found: Losses) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, *sides in zip(found.names, *found.by_hypothesis(), strict=True):
        sizes = [int((~np.isnan(side)).sum()) for side in sides]
        rows.append((name, *sizes, *means_of(sides)))
    base = "run" if found.one_run else "challenge base"
    return Table(columns=(base, WITHOUT, WITH, f"mean {WITHOUT}", f"mean {WITH}"), rows=rows)


LOSSES = View(line=_losses_line, table=_losses_table, figures={"histogram": _losses_sheet})


def _pool_losses_table(found: PoolLosses) -> Table:
    others, members = means_of(sides_of(found))
    rows: list[tuple[str, Cell]] = [
        ("models", found.models),
        ("points", found.challenges),
        ("reference points", found.references),
        ("queries per point", found.queries),
        ("points per model", float(found.member[:, : found.challenges].sum(axis=1).mean())),
        ("fair coins", found.fair_coins),
        ("mean loss of members", members),
        ("mean loss of others", others),
    ]
    return facts(rows)


POOL_LOSSES = View(table=_pool_losses_table, figures={"histogram": _losses_sheet})
