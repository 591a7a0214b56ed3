"""Views of checks: predictions, alternative models, bases left out."""

from __future__ import annotations

from functools import partial

import numpy as np

from epsilometer._table import Cell, Table
from epsilometer._text import counted, pair_text, percent
from epsilometer.checks.comparison import ModelComparison
from epsilometer.checks.influence import Influence
from epsilometer.checks.predictive import PredictiveCheck
from epsilometer.checks.roc_curves import RocCheck
from epsilometer.display.view import View
from epsilometer.report.figures import bases, checks
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.text.model_table import comparison_data

LEVEL = 0.9


# --- ROC curves -------------------------------------------------------------------------------


def _roc_line(found: RocCheck) -> str:
    odd = found.surprising
    said = "fits" if not odd else f"{len(odd)} surprising: {odd[0]}"
    size = counted(len(found.names), "base")
    return f"{said}; {size}, {found.replications:,} simulated audits"


def _roc_table(found: RocCheck) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for column, statistic in enumerate(found.statistics):
        mean, spread = found.overall[column].tolist()
        rows.append((statistic, float(found.observed[:, column].mean()), mean, spread))
    columns = ("statistic", "mean over bases", "p-value of the mean", "p-value of the spread")
    notes = [f"Surprising: {surprise}." for surprise in found.surprising] or [
        "Nothing is surprising."
    ]
    return Table(columns=columns, rows=rows, notes=notes[:5])


def _roc_sheet(found: RocCheck) -> Sheet:
    order = np.argsort(-found.observed[:, 0], kind="stable")
    plots = bases.predicted_plots(found, order, base="base")
    title = "ROC curves: observed (dots) and predicted (bars)"
    return Sheet(title, plots, (11.0, 3.9), columns=len(plots))


ROC = View(line=_roc_line, table=_roc_table, figures={"predictive": _roc_sheet})


# --- counts -----------------------------------------------------------------------------------


def _predictive_line(found: PredictiveCheck) -> str:
    odd = [statistic.name for statistic in found.statistics if statistic.surprising]
    said = "fits" if not odd else f"{len(odd)} surprising: {odd[0]}"
    return f"{said}; {len(found.statistics)} statistics, {found.replicates:,} replicates"


def _predictive_table(found: PredictiveCheck) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            statistic.name,
            statistic.observed,
            statistic.low,
            statistic.high,
            statistic.p_value,
            statistic.surprising,
        )
        for statistic in found.statistics
    ]
    tails = [percent(0.5 - found.level / 2), percent(0.5 + found.level / 2)]
    return Table(
        columns=("statistic", "observed", *tails, "p-value", "surprising"),
        rows=rows,
        notes=[f"Percentages are quantiles of {found.replicates:,} replicates."],
    )


PREDICTIVE = View(
    line=_predictive_line,
    table=_predictive_table,
    figures={"predictive": partial(checks.predictive_chart, None)},
)


# --- alternative models -----------------------------------------------------------------------


def _models_line(found: ModelComparison) -> str:
    best = found.best
    return f"{len(found.assumptions)} models, largest evidence: {best.label}"


def _models_table(found: ModelComparison) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for item in comparison_data(found, level=LEVEL)["assumptions"]:
        epsilon = item["epsilon"]
        ends = [None, None] if epsilon is None else epsilon["interval"]
        median = None if epsilon is None else epsilon["median"]
        numbers = (item["log_bayes_factor"], item["probability"], median, *ends)
        rows.append((item["assumption"], *numbers, item["smallest_p_value"]))
    tails = [percent(0.5 - LEVEL / 2), percent(0.5 + LEVEL / 2)]
    columns = ("model", "log Bayes factor", "probability", "median", *tails, "smallest p-value")
    return Table(columns=columns, rows=rows, notes=found.sentences())


MODELS = View(
    line=_models_line,
    table=_models_table,
    figures={"models": partial(checks.models_chart, level=LEVEL)},
)


# --- bases left out ---------------------------------------------------------------------------


def _influence_line(found: Influence) -> str:
    low, median, high = found.with_all
    farthest = int(np.argmax(np.abs(found.median - median)))
    return (
        f"{counted(len(found.names), 'base')}; epsilon {median:.2f} ({pair_text(low, high)}) with all, "
        f"{found.median[farthest]:.2f} without {found.names[farthest]!r}"
    )


def _influence_table(found: Influence) -> Table:
    low, median, high = found.with_all
    order = np.argsort(-np.abs(found.median - median), kind="stable").tolist()
    rows: list[tuple[Cell, ...]] = [("(all bases)", median, low, high, True)]
    for base in order:
        numbers = (found.median[base], found.low[base], found.high[base])
        rows.append((found.names[base], *map(float, numbers), bool(found.reliable[base])))
    tails = [percent(0.5 - found.level / 2), percent(0.5 + found.level / 2)]
    return Table(columns=("without", "median", *tails, "reliable"), rows=rows)


INFLUENCE = View(
    line=_influence_line,
    table=_influence_table,
    figures={"influence": partial(checks.influence_chart, None)},
)
