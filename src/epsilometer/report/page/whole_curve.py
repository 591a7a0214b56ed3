"""The page of a result of the whole-curve model, inside the frame of `frame.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from epsilometer import _files
from epsilometer._text import (
    counted,
    pair_text,
    percent,
    plain,
    probability_text,
    profile_summary,
    wording,
)
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.curve.tree import model_values
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.next_step import next_step
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import ONE_RUN_SHORT, SHARED_ESTIMATE, assumptions, units_of
from epsilometer.judgement.verdict import Outcome
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.profile import curve_of, profile_charts
from epsilometer.report.page.frame import MOST_OPEN_ROWS, Download, fill, title_of
from epsilometer.report.page.what_if import what_if
from epsilometer.report.text.summary import batches_note, rows_of_batches
from epsilometer.report.text.verdict_words import proven_fact

NEGLIGIBLE = 1e-4
"""Smaller probabilities are shown as "below" this."""

Rows = list[tuple[str, ...]]


def render_profile(result: ProfileResult, shown: Sequence[Chart] | None = None) -> str:
    """The whole page; ``shown`` are its figures, if already made."""
    verdict, batches = result.verdict, result.posterior.batches
    curve, units = curve_of(result), units_of(result.scores)
    return fill(
        "whole_curve.html.jinja",
        charts=profile_charts(result) if shown is None else shown,
        downloads=_downloads(result, curve),
        what_if=what_if(result),
        made_from="scores",
        title=title_of(units.bases(len(result.scores)), result.origin),
        badge="ESTIMATE" if verdict is None else verdict.label,
        headline=_headline(result),
        next_step=next_step(result),
        after=_after(result),
        verdict=verdict,
        thresholds=result.question.thresholds,
        warnings=[_files.printable(text) for text in result.warnings],
        answers=profile_summary.rows_of_answers(result),
        meaning=meaning(result),
        about=_about(result),
        either_way=wording.settled_claims(result),
        batches=rows_of_batches(batches) if len(batches) > 1 else [],
        batches_note=batches_note(batches),
        tables=_tables(result, curve),
        bases=_bases(result),
        bases_counted=units.bases(len(result.scores)),
        bases_note=units.note,
        bases_title=units.section,
        open_table=len(result.scores) <= MOST_OPEN_ROWS,
        published=None if result.published is None else _published(result, result.published),
        assumptions=[wording.neighbours(result.origin, "scores"), *assumptions(result)],
        facts=[(label, _files.printable(text)) for label, text in _facts(result)],
    )


# --- sentences --------------------------------------------------------------------------------


def _headline(result: ProfileResult) -> str:
    """The finding without the verdict's label, which is shown above it."""
    text = profile_summary.finding(result)
    if result.verdict is not None:
        text = text.removeprefix(f"{result.verdict.label}: ")
    return _capital(text)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _after(result: ProfileResult) -> list[str]:
    """What to keep in mind about the verdict."""
    verdict = result.verdict
    said = wording.caveats(result)
    if verdict is None or verdict.outcome is not Outcome.FAIL or result.question.claim is None:
        return said
    above = probability_text(result.posterior.probability_above("shown", result.question.claim))
    worst = units_of(result.scores).worst
    return [*said, f"The {worst} alone exceeds the claim with probability {above}."]


def meaning(result: ProfileResult) -> str:
    """What the answers mean for a person whose record is in the data."""
    level, alarm = result.level, wording.FALSE_ALARMS
    tails = [0.5 + level / 2, 0.5, 0.5 - level / 2]
    low, median, high = (1 - result.posterior.trade_off(alarm, tails)[:, 0]).tolist()
    return (
        f"{units_of(result.scores).about_shown} Estimated is the epsilon of the algorithm, "
        "including what they may have missed. At a "
        "false-positive rate of 1 %, the best attack on the worst record would find "
        f"{_percents(median)} of the members (between {_percents(low)} and {_percents(high)} with "
        f"probability {level:g}); guessing finds 1 %."
    )


def _percents(share: float) -> str:
    return f"{100 * share:.3g} %"


def _about(result: ProfileResult) -> list[tuple[str, str]]:
    """What the numbers depend on: label and sentence."""
    posterior = result.posterior
    nothing, before = posterior.solution.no_leak, float(result.model.no_leak or 0.0)
    found = [
        ("proven", f"{proven_fact(result)}."),
        ("family of curves", f"{profile_summary.family_sentence(result)}."),
        ("attack strength", f"{profile_summary.strength_sentence(result)}."),
        ("extrapolated", f"{profile_summary.extrapolation_sentence(result)}."),
    ]
    if result.scores.one_run:
        found.append(("one run", ONE_RUN_SHORT))
    if result.scores.models is not None:
        found.append(("shared models", SHARED_ESTIMATE))
    if before:
        after = probability_text(nothing) if nothing >= NEGLIGIBLE else f"below {NEGLIGIBLE:g}"
        said = f"probability {after} (prior: {before:g})."
        found.append(("no leak at all", said))
    return [(label, _capital(text)) for label, text in found]


def _facts(result: ProfileResult) -> list[tuple[str, str]]:
    """Provenance of the result: label and text."""
    scores, values = result.scores, model_values(result.model)
    units = units_of(scores)
    without, with_point = int(scores.trials_h0.sum()), int(scores.trials_h1.sum())
    families = ", ".join(wording.choice_text(each) for each in values["families"])
    chosen = {"epsilon": "prior of epsilon", "mixing": "mixing", "strength": "attack strength"}
    return [
        (f"{units.whole_base}s", f"{len(scores):,}"),
        ("scores", f"{without:,} of {units.without}, {with_point:,} of {units.with_point}"),
        ("delta", f"{result.model.delta:g}"),
        ("families", families),
        *((label, wording.choice_text(values[name])) for name, label in chosen.items()),
        *wording.origin_facts(result.origin),
        *wording.engine_facts(result.posterior),
    ]


# --- tables -----------------------------------------------------------------------------------


def _tables(result: ProfileResult, curve: JointDeltaCurve) -> dict[str, tuple[Rows, list[str]]]:
    """Tables below figures, by the figure's name: rows, of which the first is the heading, and notes."""
    check = result.predictive
    overall: Rows = [("p-value over all bases", "mean", "spread")]
    overall += [
        (name, f"{mean:.3f}", f"{spread:.3f}")
        for name, (mean, spread) in zip(check.statistics, check.overall.tolist(), strict=True)
    ]
    starred = ["* extrapolated by the family."] if curve.extrapolated.any() else []
    return {
        "families": (_families(result), _misfits(result)),
        "delta-curve": (
            profile_summary.rows_of_profile_curve(curve),
            [*starred, *curve.notes],
        ),
        "predictive": (overall, []),
    }


def _families(result: ProfileResult) -> Rows:
    """Families with their mixtures, except improbable ones; the heading first."""
    readings = {"mechanism": "the algorithm", "attack": "the attacks"}
    rows: Rows = [("family", "mixing", "of", "probability", "prior")]
    found = result.posterior.families
    kept = [row for row in found if row.probability >= NEGLIGIBLE]
    for row in kept:
        mixed = row.reading in readings
        words = (f"{row.mixing:g}", readings[row.reading]) if mixed else ("none", "")
        numbers = probability_text(row.probability), f"{row.prior:.3f}"
        rows.append((row.family, *words, *numbers))
    rest = found[len(kept) :]
    if rest:
        before = sum(row.prior for row in rest)
        rows.append((f"{len(rest)} others", "", "", f"below {NEGLIGIBLE:g} each", f"{before:.3f}"))
    return rows


def _misfits(result: ProfileResult) -> list[str]:
    """Why families do not fit, one sentence each."""
    return [
        f"{_capital(name)} alone does not fit these scores: {_files.printable(why)}."
        for name, why in result.poorly_fitting_families.items()
    ]


def _bases(result: ProfileResult) -> Rows:
    """Every base with its epsilon, worst first; the heading comes first."""
    base = units_of(result.scores).base
    sides = ("out", "in") if result.scores.one_run else ("without", "with")
    rows: Rows = [(base, "epsilon", f"{percent(result.level)} interval", "AUC", *sides)]
    for row in profile_summary.leak_rows(result):
        rows.append(
            (
                _files.printable(row["challenge_base"]),
                f"{row['median']:.3f}",
                pair_text(row["low"], row["high"]),
                f"{row['auc']:.3f}",
                f"{row['models_h0']:,}",
                f"{row['models_h1']:,}",
            )
        )
    return rows


def _published(result: ProfileResult, published: Result) -> dict[str, Any]:
    """The section on the published model: sentences, both estimates, its counts."""
    level, target = result.level, published.origin.target_alpha
    at = "" if target is None else f" at the false-positive rate {target:g}"
    sentences = [
        f"The published model uses one operating point of each attack: error counts{at} of the "
        "same models.",
        result.disagreement or "The two estimates do not contradict each other.",
    ]
    verdict = published.verdict
    if verdict is not None:
        sentences.append(
            f"Its verdict on the claim of {verdict.claim:.4g} would be {verdict.label}: exceeded with "
            f"probability {probability_text(verdict.probability_above)}."
        )
    answers: Rows = [("epsilon", "median", f"{percent(level)} interval")]
    for label, posterior in (("whole curve", result.posterior), ("published", published.posterior)):
        ends = posterior.credible_interval("epsilon", level)
        answers.append((label, f"{posterior.median('epsilon'):.3f}", pair_text(*ends)))
    return {
        "sentences": sentences,
        "answers": answers,
        "summary": f"Counts of {counted(len(published.counts), 'base')}{at}",
        "counts": _counts(published.counts),
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


# --- downloads --------------------------------------------------------------------------------


def report_data(result: ProfileResult) -> dict[str, Any]:
    """Everything the page shows, ready for JSON."""
    check, level = result.predictive, result.level
    checks: dict[str, Any] = {
        "misfits": dict(result.poorly_fitting_families),
        "other_priors": [
            {
                "factor": other.factor,
                "median": float(other.epsilon.quantile(0.5)),
                "interval": list(other.credible_interval(level)),
                "level": level,
            }
            for other in result.other_priors
        ],
        "predictive_check": {
            "level": check.level,
            "replications": check.replications,
            "statistics": list(check.statistics),
            "overall_p_values": check.overall.tolist(),
            "bases": [
                {
                    "challenge_base": name,
                    "observed": check.observed[row].tolist(),
                    "low": check.low[row].tolist(),
                    "high": check.high[row].tolist(),
                    "p_value": check.p_value[row].tolist(),
                }
                for row, name in enumerate(check.names)
            ],
        },
        "over_delta": profile_summary.profile_curve_data(curve_of(result)),
    }
    return profile_summary.profile_data(result) | {
        name: plain(value) for name, value in checks.items()
    }


def _downloads(result: ProfileResult, curve: JointDeltaCurve) -> list[Download]:
    whole = json.dumps(report_data(result), indent=1, allow_nan=False)
    leaks, over = profile_summary.leaks_csv(result), profile_summary.profile_curve_csv(curve)
    return [
        Download("report.json", "all numbers of this page", "application/json", whole),
        Download("leaks.csv", "epsilon of every base, worst first", "text/csv", leaks),
        Download("curve.csv", "epsilon over delta", "text/csv", over),
    ]
