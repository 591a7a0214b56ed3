"""Tables of a result: parameters, bases, other models, estimators, data and checks.

Each is described once; the terminal, the page, notebooks and `summary()` show the same rows.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from epsilometer._table import Cell, Table, tails
from epsilometer._text import pair_text, plain, wrapped
from epsilometer.baselines.estimator import Kind
from epsilometer.checks.comparison import ModelComparison
from epsilometer.checks.predictive import PredictiveCheck
from epsilometer.checks.roc_curves import RocCheck
from epsilometer.comparison.estimators import ABOUT_GAUSSIAN, Comparison
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.proofs.evidence import LISTED, Evidence
from epsilometer.proofs.proof import rounded_down

Rows = list[tuple[str, ...]]

#: Display names of the parameters.
LABELS = {
    "epsilon": "epsilon",
    "strength": "attack strength",
    "within_correlation": "within correlation",
    "cross_correlation": "cross correlation",
    "spread": "spread in groups",
}

MODELS_NOTE = (
    "The first row is the model in use. log BF: log Bayes factor against it. prob.: posterior "
    "probability, if all comparable models are equally likely a priori. min p: smallest p-value of the "
    "posterior predictive check; below 0.01 the model rarely produces counts like these."
)

#: What JSON has of each alternative model, besides its name, its words and its epsilon.
MODEL_VALUES = (
    *("log_evidence", "log_bayes_factor", "probability", "smallest_p_value", "comparable"),
    "reason",
)

#: Probability of the intervals of posteriors that nobody asked a question of.
LEVEL = 0.9


def labels_of(posterior: CountPosterior | CurvePosterior) -> dict[str, str]:
    """The parameters to show with their names; epsilon and the strength even if fixed."""
    if isinstance(posterior, CurvePosterior):
        shown = units_of(posterior.scores).shown
        return {"shown": shown, "epsilon": "estimated (algorithm)", "strength": LABELS["strength"]}
    wanted = {"epsilon", "strength", *posterior.parameters}
    return {name: label for name, label in LABELS.items() if name in wanted}


def parameter_values(
    posterior: CountPosterior | CurvePosterior, names: Iterable[str], level: float
) -> dict[str, Any]:
    """Mean, median and credible interval of each named parameter."""
    values: dict[str, Any] = {}
    for name in names:
        low, high = posterior.credible_interval(name, level)
        # Without an upper limit, means and medians are the prior's.
        middle: dict[str, Any] = {"mean": posterior.mean(name), "median": posterior.median(name)}
        middle = middle if np.isfinite(high) else dict.fromkeys(middle)
        values[name] = middle | {"interval": [low, high], "level": level}
    return values


def parameter_table(posterior: CountPosterior | CurvePosterior, level: float = LEVEL) -> Table:
    """Median, interval and mean of each parameter."""
    rows: list[tuple[Cell, ...]] = []
    labels = labels_of(posterior)
    for name, known in parameter_values(posterior, labels, level).items():
        fixed = "" if name in posterior.parameters else " (fixed)"
        rows.append((f"{labels[name]}{fixed}", known["median"], *known["interval"], known["mean"]))
    notes = [f"delta = {posterior.model.delta:g}; {posterior.engine_description}."]
    columns = ("", "median", *tails(level), "mean")
    return Table(columns=columns, rows=rows, notes=[*posterior.warnings, *notes])


def answer_table(result: Result, notes: Sequence[str] = ()) -> Table:
    """What is proven, and each parameter."""
    parameters, proof = parameter_table(result.posterior, result.level), result.proof
    proven = None if proof is None else float(rounded_down(proof.at_least, 3))
    rows: list[tuple[Cell, ...]] = [("proven, at least", None, proven, None, None)]
    if proof is not None and proof.conditional is not None:
        least = float(rounded_down(proof.conditional.at_least, 3))
        rows.append(("if noise is independent", None, least, None, None))
    rows += parameters.rows
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
    rows = []
    for each in comparison.assumptions:
        epsilon: dict[str, Any] | None = None
        if each.posterior is not None:
            ends = list(each.posterior.credible_interval("epsilon", level))
            median = each.posterior.median("epsilon")
            epsilon = {"median": median, "interval": ends, "level": level}
        row = {"assumption": each.label, "used": each.own, "in_words": each.interpretation}
        row |= {name: getattr(each, name) for name in MODEL_VALUES}
        rows.append(row | {"epsilon": epsilon})
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


# --- data and checks --------------------------------------------------------------------------


def counts_table(found: AttackCounts, notes: Sequence[str] = ()) -> Table:
    """The counts and rates of each base."""
    columns = {
        "challenge base": found.names,
        "false positives": found.false_positives.tolist(),
        "trials H0": found.trials_h0.tolist(),
        "false negatives": found.false_negatives.tolist(),
        "trials H1": found.trials_h1.tolist(),
        "FPR": found.false_positive_rates.tolist(),
        "FNR": found.false_negative_rates.tolist(),
    }
    rows = list(zip(*columns.values(), strict=True))
    return Table(columns=tuple(columns), rows=rows, notes=notes)


def base_table(result: CountResult) -> Table:
    """The same with epsilon without each base."""
    table, influence = counts_table(result.counts), result.influence
    if influence is None:
        return table
    ends = zip(influence.reliable, influence.low.tolist(), influence.high.tolist(), strict=True)
    without = [f"{'' if sure else 'about '}{pair_text(low, high)}" for sure, low, high in ends]
    rows = [(*row, text) for row, text in zip(table, without, strict=True)]
    return Table(columns=(*table.columns, "epsilon without it"), rows=rows)


def roc_table(found: RocCheck) -> Table:
    """Each statistic of the ROC curves over all bases, and how well it fits."""
    means = found.observed.mean(axis=0).tolist()
    tested = zip(found.statistics, means, found.overall.tolist(), strict=True)
    rows = [(name, mean, *pair) for name, mean, pair in tested]
    columns = ("statistic", "mean over bases", "p-value of the mean", "p-value of the spread")
    notes = [f"Surprising: {surprise}." for surprise in found.surprising[:5]]
    return Table(columns=columns, rows=rows, notes=notes or ["Nothing is surprising."])


def evidence_table(found: Evidence) -> Table:
    """The bases and thresholds that carry a proof."""
    bases = [(f"base {name}", won) for name, won in found.bases[:LISTED]]
    if others := found.bases[LISTED:]:
        bases.append((f"{len(others)} other bases", sum(won for _, won in others)))
    if len(found.path):
        together = found.counted[1]
        paid = together - sum(won for _, won in found.bases)
        # In a planned order bases have what is left after paying.
        bases += [] if found.ordered else [("what learning the best thresholds costs", paid)]
        bases.append(("together", together))
    won = [
        (what, f"capital times {math.exp(min(logarithm, 600)):.3g}") for what, logarithm in bases
    ]
    shares = [(what, f"{100 * share:.0f} % of the capital") for what, share in found.thresholds]
    return Table(columns=("from", "won"), rows=[*won, *shares[:LISTED]])


def predictive_table(found: PredictiveCheck) -> Table:
    """Each statistic of the counts, and what the posterior predicts."""
    rows = [
        (each.name, each.observed, each.low, each.high, each.p_value, each.surprising)
        for each in found.statistics
    ]
    columns = ("statistic", "observed", *tails(found.level), "p-value", "surprising")
    notes = [f"Percentages are quantiles of {found.replicates:,} replicates."]
    return Table(columns=columns, rows=rows, notes=notes)


#: The kind of an estimator that does not apply; its reason follows below the table.
NOT_APPLICABLE = "n/a"


def comparison_data(found: Comparison) -> dict[str, Any]:
    """Plain values for JSON."""
    about = {name: getattr(found, name) for name in ("delta", "significance", "source")}
    return about | {"rows": [row.described() for row in found.rows]}


def comparison_table(found: Comparison) -> Table:
    """A row for each estimator; a point estimate has only a first number."""
    pooled = any(row.pooled is not None for row in found.rows)
    rows: list[tuple[Cell, ...]] = []
    for row in found.rows:
        ends = [(row.low, row.high)] + ([row.pooled or (None, None)] if pooled else [])
        numbers = [
            end if row.applies and (place == 0 or row.bounded_above) else None
            for pair in ends
            for place, end in enumerate(pair)
        ]
        gaussian = ", if Gaussian" if row.about == ABOUT_GAUSSIAN else ""
        kind = f"{row.kind}{gaussian}" if row.applies else NOT_APPLICABLE
        if row.kind == Kind.EXACT_BOUND and numbers[0] is not None:
            numbers[0] = float(rounded_down(numbers[0], 3))
        rows.append((row.label, kind, *numbers))
    notes = ["At least 0.000: no bound. A bound is not an estimate: most are far below epsilon."]
    if found.several:
        notes.append(
            "At least and at most refer to the strongest attack: the largest over the bases, with a "
            "correction for the choice."
        )
    if pooled:
        notes.append("Pooled: the counts of all bases added, so for the average attack.")
    names = ("at least", "at most", *(("pooled: least", "most") if pooled else ()))
    return Table(columns=("estimator", "kind", *names), rows=rows, notes=[*notes, *found.notes])


def comparison_text(found: Comparison) -> str:
    """Text for a terminal."""
    title = (
        f"epsilon at delta = {found.delta:g} from {found.source}. Bounds err with probability "
        f"{found.significance:g} at each end"
    )
    if any(row.kind == Kind.CREDIBLE for row in found.rows):
        title += f"; credible intervals hold {100 * (1 - 2 * found.significance):g}\u00a0%"
    lines = [*wrapped(f"{title}."), "", *comparison_table(found).lines(most=len(found.rows))]
    lines += ["", "Quantity and assumptions of each estimator:"]
    alike: dict[str, list[str]] = {}
    for row in found.rows:
        text = f"{row.kind} of {row.about}; assumes {row.assumes}."
        if row.reason:
            text += f" Does not apply: {row.reason}"
        alike.setdefault(text, []).append(row.label)
    for text, labels in alike.items():
        lines += wrapped(f"{'; '.join(labels)}: {text}", first="  ", rest="      ")
    return "\n".join(lines) + "\n"
