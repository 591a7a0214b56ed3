"""What a page has besides its frame: tables below figures, every base, the count model beside.

The two models differ in their tables; everything else is the same page.
"""

from __future__ import annotations

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
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures.chart import Chart
from epsilometer.report.page.frame import Download, fill
from epsilometer.report.text.facts import extrapolation_fact, family_fact, strength_fact
from epsilometer.report.text.over_delta import over_delta_of, table_over_delta
from epsilometer.report.text.rows import LABELS, Rows, models_table
from epsilometer.report.text.values import base_rows, counts_csv, curves_csv, leaks_csv

NEGLIGIBLE_FAMILY = 1e-4
"""Smaller probabilities are shown as "below" this."""

STRENGTH = (
    " The attack strength measures how close the attacks came to the best possible ones on the worst "
    "base: 0 is guessing, 1 is the best possible."
)

Tables = dict[str, tuple[Rows, list[str]]]
"""Tables below figures, by the figure's name: rows, of which the first is the heading, and notes."""


def render(result: Result, charts: Sequence[Chart]) -> str:
    """The whole page with its figures."""
    tables: Tables = {}
    over = over_delta_of(result)
    if over is not None:
        table = table_over_delta(over)
        here = f"The rest of this page is about delta = {result.delta:g}."
        tables["delta-curve"] = table.cells(), [here, *table.notes]
    if isinstance(result, CurveResult):
        sections = _of_curves(result)
    else:
        assert isinstance(result, CountResult)
        sections = _of_counts(result)
    tables |= sections.pop("tables")
    missing: dict[str, Any] = {"strength": "", "about": [], "models": None, "beside": None}
    return fill(result, charts=charts, tables=tables, **(missing | sections))


def _of_counts(result: CountResult) -> dict[str, Any]:
    estimated = "epsilon" in result.posterior.parameters
    bases = counted(len(result.counts), "challenge base")
    csv = counts_csv(result.counts)
    downloads = [Download("counts.csv", "the counts of every base", "text/csv", csv)]
    if result.origin.curves is not None:
        text = curves_csv(result.origin.curves)
        downloads.append(Download("curves.csv", "error counts over target rates", "text/csv", text))
    return {
        "downloads": downloads,
        "made_from": "counts",
        "counted_bases": bases,
        "strength": STRENGTH if estimated else "",
        "tables": _tables_of_counts(result),
        "bases": _bases(result),
        "bases_title": "Every base",
        "bases_summary": f"{bases} with counts",
        "bases_note": _most_influential(result.influence),
        "models": None if result.models is None else _other_models(result.models, result.level),
    }


def _of_curves(result: CurveResult) -> dict[str, Any]:
    units, csv = units_of(result.scores), leaks_csv(result)
    bases = units.bases(len(result.scores))
    check = result.predictive
    overall: Rows = [("p-value over all bases", "mean", "spread")]
    overall += [
        (name, f"{mean:.3f}", f"{spread:.3f}")
        for name, (mean, spread) in zip(check.statistics, check.overall.tolist(), strict=True)
    ]
    misfits = [
        f"{capital(name)} alone does not fit these scores: {_files.printable(why)}."
        for name, why in result.poorly_fitting_families.items()
    ]
    what = "epsilon of every base, worst first"
    return {
        "downloads": [Download("leaks.csv", what, "text/csv", csv)],
        "made_from": "scores",
        "counted_bases": bases,
        "about": about(result),
        "tables": {"families": (_families(result), misfits), "predictive": (overall, [])},
        "bases": _leaks(result),
        "bases_title": units.section,
        "bases_summary": f"{bases}, worst first",
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
        facts.append(
            ("no leak at all", f"probability {probability_text(nothing)} (prior: {before:g}).")
        )
    return [(label, capital(text)) for label, text in facts]


# --- tables -----------------------------------------------------------------------------------


def _tables_of_counts(result: CountResult) -> Tables:
    tables: Tables = {}
    checked: Rows = [
        ("over all bases", "observed", f"predicted, {percent(result.level)}", "p-value")
    ]
    for item in result.predictive.statistics:
        p_value = f"{item.p_value:.3f}{' (odd)' if item.surprising else ''}"
        ends = f"{item.low:.3g} to {item.high:.3g}"
        checked.append((item.name, f"{item.observed:.3g}", ends, p_value))
    tables["predictive"] = checked, []
    chains = result.posterior.chains
    if chains is not None:
        rows: Rows = [("", "R-hat", "effective draws (bulk)", "(tail)")]
        for name, found in chains.diagnostics.parameters.items():
            r_hat = f"{found.r_hat:.4f}" if math.isfinite(found.r_hat) else "infinite"
            sizes = found.bulk_effective_size, found.tail_effective_size
            rows.append((LABELS[name], r_hat, *(f"{size:,.0f}" for size in sizes)))
        tables["ranks"] = rows, []
    return tables


def _other_models(models: ModelComparison, level: float) -> tuple[Rows, list[str]]:
    """Other models with their evidence in words, and notes."""
    table = models_table(models, level)
    words = ["evidence", *(each.interpretation for each in models.assumptions)]
    rows = [(*row, word) for row, word in zip(table.cells(), words, strict=True)]
    return rows, list(table.notes)


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


def _counts(counts: AttackCounts) -> Rows:
    """Every base with its counts, the heading first."""
    rows: Rows = [("base", "false positives", "false negatives")]
    for row in counts.rows():
        positives = f"{row['false_positives']:,} of {row['trials_h0']:,}"
        negatives = f"{row['false_negatives']:,} of {row['trials_h1']:,}"
        rows.append((_files.printable(str(row["challenge_base"])), positives, negatives))
    return rows


def _bases(result: CountResult) -> Rows:
    """The same with rates, and epsilon without each base."""
    more: Rows = [("rates", f"epsilon without it, {percent(result.level)}")]
    for row in base_rows(result):
        text, influence = "", row.get("epsilon_without")
        if influence is not None:
            text = f"{'' if influence['reliable'] else 'about '}{pair_text(*influence['interval'])}"
        more.append((f"{row['false_positive_rate']:.4f}, {row['false_negative_rate']:.4f}", text))
    return [(*row, *rest) for row, rest in zip(_counts(result.counts), more, strict=True)]


def _leaks(result: CurveResult) -> Rows:
    """Every base with its epsilon, worst first; the heading comes first."""
    base = units_of(result.scores).base
    sides = ("out", "in") if result.scores.one_run else ("without", "with")
    rows: Rows = [(base, "epsilon", f"{percent(result.level)} interval", "AUC", *sides)]
    for leak in result.leaks:
        interval, name = pair_text(leak.low, leak.high), _files.printable(leak.name)
        sizes = f"{leak.models_h0:,}", f"{leak.models_h1:,}"
        rows.append((name, f"{leak.median:.3f}", interval, f"{leak.auc:.3f}", *sizes))
    return rows


def _families(result: CurveResult) -> Rows:
    """Families with their mixtures, except improbable ones; the heading first."""
    mixtures = {"mechanism": "the algorithm", "attack": "the attacks"}
    rows: Rows = [("family", "mixing", "of", "probability", "prior")]
    families = result.posterior.families
    kept = [row for row in families if row.probability >= NEGLIGIBLE_FAMILY]
    for row in kept:
        mixed = row.interpretation in mixtures
        words = (f"{row.mixing:g}", mixtures[row.interpretation]) if mixed else ("none", "")
        numbers = probability_text(row.probability), f"{row.prior:.3f}"
        rows.append((row.family, *words, *numbers))
    rest = families[len(kept) :]
    if rest:
        before = sum(row.prior for row in rest)
        rows.append(
            (f"{len(rest)} others", "", "", f"below {NEGLIGIBLE_FAMILY:g} each", f"{before:.3f}")
        )
    return rows


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
        "counts": _counts(beside.counts),
    }
