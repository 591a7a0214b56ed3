"""Views of counts, scores and losses: sizes in a line, bases in a table, curves and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._table import Cell, Table
from epsilometer._text import counted, shortened
from epsilometer.display.view import View, lazily
from epsilometer.judgement.units import units_of
from epsilometer.model.counts import AttackCounts
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses

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
    rows = list(zip(found.names, *(column.tolist() for column in (*columns, *rates)), strict=True))
    return Table(
        columns=("challenge base", "false positives", "trials H0", "false negatives", "trials H1",
                 "FPR", "FNR"),
        rows=rows,
    )  # fmt: skip


COUNTS = View(
    line=_counts_line,
    table=_counts_table,
    figures={"rates": lazily("data_figures", "counts_sheet")},
)


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


SCORES = View(
    line=_scores_line,
    table=_scores_table,
    figures={"roc": lazily("data_figures", "scores_sheet")},
)


def _pool_scores_line(found: PoolScores) -> str:
    from epsilometer.comparison.attacks import roc_of

    auc = roc_of(*found.pooled()).auc
    coins = "; fair coins" if found.fair_coins else ""
    return f"{found.models:,} models, {found.points:,} points; AUC {auc:.3f} over all{coins}"


def _pool_scores_table(found: PoolScores) -> Table:
    from epsilometer.comparison.attacks import RATES, roc_of

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


POOL_SCORES = View(
    line=_pool_scores_line,
    table=_pool_scores_table,
    figures={"roc": lazily("data_figures", "pool_scores_sheet")},
)


# --- losses -----------------------------------------------------------------------------------


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


LOSSES = View(
    line=losses_line,
    table=losses_table,
    figures={"histogram": lazily("data_figures", "losses_sheet")},
)


def pool_losses_line(found: PoolLosses) -> str:
    """How many models and points."""
    extra = f", {found.references:,} of them references" if found.references else ""
    queries = f", {found.queries} queries" if found.queries > 1 else ""
    return f"{found.models:,} models, {found.points:,} points{extra}{queries}"


def pool_losses_table(found: PoolLosses) -> Table:
    """Sizes, and mean losses of points in and out of training."""
    losses = found.loss[:, : found.challenges, 0]
    member = found.member[:, : found.challenges]
    rows: list[tuple[str, Cell]] = [
        ("models", found.models),
        ("points", found.challenges),
        ("reference points", found.references),
        ("queries per point", found.queries),
        ("points per model", float(member.sum(axis=1).mean())),
        ("fair coins", found.fair_coins),
        ("mean loss of members", float(losses[member].mean()) if member.any() else None),
        ("mean loss of others", float(losses[~member].mean()) if not member.all() else None),
    ]
    return Table(columns=("", "value"), rows=rows)


POOL_LOSSES = View(
    line=pool_losses_line,
    table=pool_losses_table,
    figures={"histogram": lazily("data_figures", "pool_losses_sheet")},
)


def name_text(name: object, longest: int = 40) -> str:
    """A name of a user, quoted and short."""
    return repr(shortened(str(name), longest))
