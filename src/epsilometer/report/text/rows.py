"""Tables of a result: parameters, bases, other models.

Each is described once; the terminal, the page, notebooks and `summary()` show the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epsilometer._table import Cell, Table, tails
from epsilometer._text import plain
from epsilometer.checks.comparison import ModelComparison, to_rows
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.proofs.proof import rounded_down

Rows = list[tuple[str, ...]]

LABELS = {
    "epsilon": "epsilon",
    "strength": "attack strength",
    "within_correlation": "within correlation",
    "cross_correlation": "cross correlation",
    "spread": "spread in groups",
}
"""Display names of the parameters."""

MODELS_NOTE = (
    "The first row is the model in use. log BF: log Bayes factor against it. prob.: posterior "
    "probability, if all comparable models are equally likely a priori. min p: smallest p-value of the "
    "posterior predictive check; below 0.01 the model rarely produces counts like these."
)

LEVEL = 0.9
"""Probability of the intervals of posteriors that nobody asked a question of."""


def labels_of(posterior: CountPosterior | CurvePosterior) -> dict[str, str]:
    """The parameters to show with their names; epsilon and the strength even if fixed."""
    if isinstance(posterior, CurvePosterior):
        shown = units_of(posterior.scores).shown
        return {"shown": shown, "epsilon": "estimated (algorithm)", "strength": LABELS["strength"]}
    wanted = {"epsilon", "strength", *posterior.parameters}
    return {name: label for name, label in LABELS.items() if name in wanted}


def parameter_table(posterior: CountPosterior | CurvePosterior, level: float = LEVEL) -> Table:
    """Median, interval and mean of each parameter."""
    rows: list[tuple[Cell, ...]] = []
    for name, label in labels_of(posterior).items():
        fixed = "" if name in posterior.parameters else " (fixed)"
        low, high = posterior.credible_interval(name, level)
        rows.append((f"{label}{fixed}", posterior.median(name), low, high, posterior.mean(name)))
    notes = [f"delta = {posterior.model.delta:g}; {posterior.engine_description}."]
    columns = ("", "median", *tails(level), "mean")
    return Table(columns=columns, rows=rows, notes=[*posterior.warnings, *notes])


def answer_table(result: Result, notes: Sequence[str] = ()) -> Table:
    """What is proven, and each parameter."""
    parameters, proof = parameter_table(result.posterior, result.level), result.proof
    proven = None if proof is None else float(rounded_down(proof.at_least, 3))
    rows = [("proven, at least", None, proven, None, None), *parameters.rows]
    return Table(columns=parameters.columns, rows=rows, notes=notes)


def leak_table(result: CurveResult, most: int | None = None) -> Table:
    """The bases with their epsilons, the worst first."""
    units = units_of(result.scores)
    columns = (units.base, "epsilon", *tails(result.level), "AUC", units.scored)
    rows = [
        (leak.name, leak.median, leak.low, leak.high, leak.auc,
         f"{leak.models_h0:,} + {leak.models_h1:,}")
        for leak in result.leaks[:most]
    ]  # fmt: skip
    return Table(columns=columns, rows=rows)


def models_data(comparison: ModelComparison, *, level: float) -> dict[str, Any]:
    """Alternative models as plain values ready for JSON."""
    rows = to_rows(comparison, level=level)
    return dict(plain({"assumptions": rows, "sentences": comparison.sentences()}))


def models_table(comparison: ModelComparison, level: float) -> Table:
    """Alternative models: their evidence, epsilon and fit."""
    columns = ("model", "log BF", "prob.", "epsilon", *tails(level), "min p")
    rows: list[tuple[Cell, ...]] = []
    notes = [MODELS_NOTE]
    for each in comparison.assumptions:
        epsilon: tuple[float | None, ...] = (None, None, None)
        if each.posterior is not None:
            ends = each.posterior.credible_interval("epsilon", level)
            epsilon = each.posterior.median("epsilon"), *ends
        evidence = each.log_bayes_factor, each.probability
        rows.append((each.label, *evidence, *epsilon, each.smallest_p_value))
        if each.reason:
            notes.append(f"{each.label}: {each.reason.rstrip('.')}.")
    return Table(columns=columns, rows=rows, notes=[*notes, *comparison.sentences()])
