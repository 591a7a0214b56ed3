"""What a page has besides its frame: tables below figures, every base, the count model beside.

The two models differ in their tables; everything else is the same page.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._text import capital, counted, pair_text, percent, probability_text
from epsilometer.checks.comparison import ModelComparison
from epsilometer.checks.influence import Influence
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import ONE_RUN_SHORT, SHARED_ESTIMATE, units_of
from epsilometer.report.figures.chart import Chart
from epsilometer.report.page.frame import Download, fill
from epsilometer.report.text import rows
from epsilometer.report.text.facts import extrapolation_fact, family_fact, strength_fact
from epsilometer.report.text.over_delta import over_delta_of, table_over_delta
from epsilometer.report.text.rows import LABELS, Rows
from epsilometer.report.text.values import counts_csv, curves_csv, leaks_csv

#: Smaller probabilities are shown as "below" this.
NEGLIGIBLE_FAMILY = 1e-4

STRENGTH = (
    " The attack strength measures how close the attacks came to the best possible ones on the worst "
    "base: 0 is guessing, 1 is the best possible."
)

#: Tables below figures, by the figure's name: rows, of which the first is the heading, and notes.
Tables = dict[str, tuple[Rows, list[str]]]


def render(result: Result, charts: Sequence[Chart]) -> str:
    """The whole page with its figures."""
    tables: Tables = {}
    over = over_delta_of(result)
    if over is not None:
        table = table_over_delta(over)
        here = f"The rest of this page is about delta = {result.delta:g}."
        tables["delta-curve"] = table.cells(), [here, *table.notes]
    if result.proof is not None and result.proof.evidence is not None:
        tables["proof"] = rows.evidence_table(result.proof.evidence).cells(), []
    assert isinstance(result, CountResult | CurveResult)
    sections = _of_curves(result) if isinstance(result, CurveResult) else _of_counts(result)
    tables |= sections.pop("tables")
    missing: dict[str, Any] = {"strength": "", "about": [], "models": None, "beside": None}
    return fill(result, charts=charts, tables=tables, **(missing | sections))


def _of_counts(result: CountResult) -> dict[str, Any]:
    estimated = "epsilon" in result.posterior.parameters
    csv = counts_csv(result.counts)
    downloads = [Download("counts.csv", "the counts of every base", "text/csv", csv)]
    if result.origin.curves is not None:
        text = curves_csv(result.origin.curves)
        downloads.append(Download("curves.csv", "error counts over target rates", "text/csv", text))
    return {
        "downloads": downloads,
        "strength": STRENGTH if estimated else "",
        "tables": _tables_of_counts(result),
        "bases": rows.base_table(result).cells(whole=True),
        "bases_title": "Every base",
        "bases_summary": "with counts",
        "bases_note": _most_influential(result.influence),
        "models": None if result.models is None else _other_models(result.models, result.level),
    }


def _of_curves(result: CurveResult) -> dict[str, Any]:
    units, csv = units_of(result.scores), leaks_csv(result)
    misfits = [
        f"{capital(name)} alone does not fit these scores: {_files.printable(why)}."
        for name, why in result.poorly_fitting_families.items()
    ]
    what = "epsilon of every base, worst first"
    return {
        "downloads": [Download("leaks.csv", what, "text/csv", csv)],
        "about": about(result),
        "tables": {
            "families": (_families(result), misfits),
            "predictive": (rows.roc_table(result.predictive).cells(), []),
        },
        "bases": rows.leak_table(result).cells(whole=True),
        "bases_title": units.section,
        "bases_summary": "worst first",
        "bases_note": units.note,
        "beside": None if result.beside is None else _beside(result, result.beside),
    }


def about(result: CurveResult) -> list[tuple[str, str]]:
    """What the numbers depend on: label and sentence."""
    nothing, before = result.posterior.solution.no_leak, float(result.model.no_leak or 0.0)
    facts = [
        ("family of curves", f"{family_fact(result)}."),
        ("attack strength", f"{strength_fact(result)}."),
        ("extrapolated", f"{extrapolation_fact(result)}."),
    ]
    if result.scores.one_run:
        facts.append(("one run", ONE_RUN_SHORT))
    if result.scores.models is not None:
        facts.append(("shared models", SHARED_ESTIMATE))
    if before:
        said = f"probability {probability_text(nothing)} (prior: {before:g})."
        facts.append(("no leak at all", said))
    return [(label, capital(text)) for label, text in facts]


# --- tables -----------------------------------------------------------------------------------


def _tables_of_counts(result: CountResult) -> Tables:
    tables: Tables = {"predictive": (rows.predictive_table(result.predictive).cells(), [])}
    chains = result.posterior.chains
    if chains is not None:
        listed: Rows = [("", "R-hat", "effective draws (bulk)", "(tail)")]
        for name, found in chains.diagnostics.parameters.items():
            r_hat = f"{found.r_hat:.4f}" if math.isfinite(found.r_hat) else "infinite"
            sizes = found.bulk_effective_size, found.tail_effective_size
            listed.append((LABELS[name], r_hat, *(f"{size:,.0f}" for size in sizes)))
        tables["ranks"] = listed, []
    return tables


def _other_models(models: ModelComparison, level: float) -> tuple[Rows, list[str]]:
    """Other models with their evidence in words, and notes."""
    table = rows.models_table(models, level)
    words = ["evidence", *(each.interpretation for each in models.assumptions)]
    listed = [(*row, word) for row, word in zip(table.cells(), words, strict=True)]
    return listed, list(table.notes)


def _most_influential(influence: Influence | None) -> str:
    """The base without which epsilon would change most."""
    if influence is None:
        return ""
    low, _, high = influence.with_all
    without = np.stack([influence.low, influence.median, influence.high], axis=1)
    base = int(np.abs(without - np.array(influence.with_all)).max(axis=1).argmax())
    return (
        f"The most influential base is {_files.printable(influence.names[base])}: without it the "
        f"{percent(influence.level)} interval of epsilon is {pair_text(*without[base, ::2].tolist())} "
        f"instead of {pair_text(low, high)}."
    )


def _families(result: CurveResult) -> Rows:
    """Families with their mixtures, except improbable ones; the heading first."""
    mixtures = {"mechanism": "the algorithm", "attack": "the attacks"}
    listed: Rows = [("family", "mixing", "of", "probability", "prior")]
    families = result.posterior.families
    kept = [row for row in families if row.probability >= NEGLIGIBLE_FAMILY]
    for row in kept:
        mixed = row.interpretation in mixtures
        words = (f"{row.mixing:g}", mixtures[row.interpretation]) if mixed else ("none", "")
        numbers = probability_text(row.probability), f"{row.prior:.3f}"
        listed.append((row.family, *words, *numbers))
    rest = families[len(kept) :]
    if rest:
        before = sum(row.prior for row in rest)
        below = f"below {NEGLIGIBLE_FAMILY:g} each"
        listed.append((f"{len(rest)} others", "", "", below, f"{before:.3f}"))
    return listed


def _beside(result: CurveResult, beside: CountResult) -> dict[str, Any]:
    """The section on the count model: sentences, both estimates, its counts."""
    level, target = result.level, beside.origin.target_alpha
    at = "" if target is None else f" at the false-positive rate {target:g}"
    sentences = [
        f"The count model uses one operating point of each attack: error counts{at} of the same models.",
        result.disagreement or "The two estimates do not contradict each other.",
    ]
    verdict = beside.verdict
    if verdict is not None and verdict.by_delta:
        above = probability_text(verdict.probability_above)
        sentences.append(
            f"Its verdict on the claim of {verdict.claim:.4g} would be {verdict.label}: exceeded with "
            f"probability {above}."
        )
    answers: Rows = [("epsilon", "median", f"{percent(level)} interval")]
    for label, posterior in (("curve model", result.posterior), ("count model", beside.posterior)):
        ends = posterior.credible_interval("epsilon", level)
        answers.append((label, f"{posterior.median('epsilon'):.3f}", pair_text(*ends)))
    return {
        "sentences": sentences,
        "answers": answers,
        "summary": f"Counts of {counted(len(beside.counts), 'base')}{at}",
        "counts": rows.counts_table(beside.counts).cells(whole=True),
    }
