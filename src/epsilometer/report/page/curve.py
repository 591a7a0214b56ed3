"""The page of a result of the curve model, inside the frame of `frame.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epsilometer import _files
from epsilometer._text import capital, counted, pair_text, percent, probability_text
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.units import ONE_RUN_SHORT, SHARED_ESTIMATE, units_of
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures.chart import Chart
from epsilometer.report.page.frame import Download, fill
from epsilometer.report.text.facts import extrapolation_fact, family_fact, strength_fact
from epsilometer.report.text.over_delta import over_delta_of, table_over_delta
from epsilometer.report.text.rows import Rows
from epsilometer.report.text.values import leaks_csv

NEGLIGIBLE_FAMILY = 1e-4
"""Smaller probabilities are shown as "below" this."""


def render(result: CurveResult, charts: Sequence[Chart]) -> str:
    """The whole page with its figures."""
    units = units_of(result.scores)
    leaks = Download(
        "leaks.csv", "epsilon of every base, worst first", "text/csv", leaks_csv(result)
    )
    return fill(
        "curve.html.jinja",
        result,
        charts=charts,
        downloads=[leaks],
        made_from="scores",
        counted_bases=units.bases(len(result.scores)),
        about=about(result),
        tables=_tables(result),
        bases=_bases(result),
        bases_note=units.note,
        bases_title=units.section,
        beside=None if result.beside is None else _beside(result, result.beside),
    )


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
        after = (
            probability_text(nothing)
            if nothing >= NEGLIGIBLE_FAMILY
            else f"below {NEGLIGIBLE_FAMILY:g}"
        )
        facts.append(("no leak at all", f"probability {after} (prior: {before:g})."))
    return [(label, capital(text)) for label, text in facts]


# --- tables -----------------------------------------------------------------------------------


def _tables(result: CurveResult) -> dict[str, tuple[Rows, list[str]]]:
    """Tables below figures, by the figure's name: rows, of which the first is the heading, and notes."""
    check, over = result.predictive, over_delta_of(result)
    assert over is not None
    table = table_over_delta(over)
    overall: Rows = [("p-value over all bases", "mean", "spread")]
    overall += [
        (name, f"{mean:.3f}", f"{spread:.3f}")
        for name, (mean, spread) in zip(check.statistics, check.overall.tolist(), strict=True)
    ]
    return {
        "families": (_families(result), _misfits(result)),
        "delta-curve": (table.cells(), list(table.notes)),
        "predictive": (overall, []),
    }


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


def _misfits(result: CurveResult) -> list[str]:
    """Why families do not fit, one sentence each."""
    return [
        f"{capital(name)} alone does not fit these scores: {_files.printable(why)}."
        for name, why in result.poorly_fitting_families.items()
    ]


def _bases(result: CurveResult) -> Rows:
    """Every base with its epsilon, worst first; the heading comes first."""
    base = units_of(result.scores).base
    sides = ("out", "in") if result.scores.one_run else ("without", "with")
    rows: Rows = [(base, "epsilon", f"{percent(result.level)} interval", "AUC", *sides)]
    for leak in result.leaks:
        rows.append(
            (
                _files.printable(leak.name),
                f"{leak.median:.3f}",
                pair_text(leak.low, leak.high),
                f"{leak.auc:.3f}",
                f"{leak.models_h0:,}",
                f"{leak.models_h1:,}",
            )
        )
    return rows


# --- the count model beside it ------------------------------------------------------------------


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


def _counts(counts: AttackCounts) -> Rows:
    rows: Rows = [("base", "false positives", "false negatives")]
    for row in counts.rows():
        rows.append(
            (
                _files.printable(str(row["challenge_base"])),
                f"{row['false_positives']:,} of {row['trials_h0']:,}",
                f"{row['false_negatives']:,} of {row['trials_h1']:,}",
            )
        )
    return rows
