"""Views of checks: predictions, alternative models and priors, bases left out."""

from functools import partial

import numpy as np

from epsilometer._table import Cell, Table, tails
from epsilometer._text import counted, pair_text
from epsilometer.checks.comparison import ModelComparison
from epsilometer.checks.influence import Influence
from epsilometer.checks.predictive import PredictiveCheck
from epsilometer.checks.roc_curves import RocCheck
from epsilometer.checks.sensitivity import AlternativePrior
from epsilometer.display.view import View
from epsilometer.report.figures import predictions
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.text.rows import LEVEL, models_table, predictive_table, roc_table


def _fits(odd: list[str]) -> str:
    return "fits" if not odd else f"{len(odd)} surprising: {odd[0]}"


# --- ROC curves -------------------------------------------------------------------------------


def _roc_line(found: RocCheck) -> str:
    size = counted(len(found.names), "base")
    return f"{_fits(found.surprising)}; {size}, {found.replications:,} simulated audits"


def _roc_sheet(found: RocCheck) -> Sheet:
    order = np.argsort(-found.observed[:, 0], kind="stable")
    plots = predictions.predicted_plots(found, order, base="base")
    title = "ROC curves: observed (dots) and predicted (bars)"
    return Sheet(title, plots, (11.0, 3.9), columns=len(plots))


ROC = View(line=_roc_line, table=roc_table, figures={"predictive": _roc_sheet})


# --- counts -----------------------------------------------------------------------------------


def _predictive_line(found: PredictiveCheck) -> str:
    size = f"{len(found.statistics)} statistics, {found.replicates:,} replicates"
    return f"{_fits(found.surprising)}; {size}"


PREDICTIVE = View(
    line=_predictive_line,
    table=predictive_table,
    figures={"predictive": partial(predictions.predictive_chart, None)},
)


# --- alternative models and priors ------------------------------------------------------------


def _models_line(found: ModelComparison) -> str:
    return f"{len(found.assumptions)} models, largest evidence: {found.best.label}"


MODELS = View(line=_models_line, table=partial(models_table, level=LEVEL))


def _prior_table(found: AlternativePrior) -> Table:
    median = float(found.epsilon.quantile([0.5])[0])
    row = (f"scale x {found.factor:g}", median, *found.credible_interval(LEVEL))
    note = f"With this prior epsilon is {found.model.epsilon.description} before the data."
    return Table(columns=("prior", "epsilon", *tails(LEVEL)), rows=[row], notes=[note])


PRIOR = View(table=_prior_table)


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
    rows: list[tuple[Cell, ...]] = [("(all bases)", median, low, high, True)]
    for base in np.argsort(-np.abs(found.median - median), kind="stable").tolist():
        numbers = (found.median[base], found.low[base], found.high[base])
        rows.append((found.names[base], *map(float, numbers), bool(found.reliable[base])))
    return Table(columns=("without", "median", *tails(found.level), "reliable"), rows=rows)


INFLUENCE = View(line=_influence_line, table=_influence_table)
