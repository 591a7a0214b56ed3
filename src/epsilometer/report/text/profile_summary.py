"""Summary of a result of the whole-curve model: text for people, and plain JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._text import (
    counted,
    inert,
    plain,
    probability_text,
    shortened,
    table_lines,
    wrapped,
)
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.curve.tree import model_values
from epsilometer.judgement.curve_result import ProfileResult
from epsilometer.judgement.units import assumptions, units_of
from epsilometer.judgement.verdict import Verdict
from epsilometer.posteriors.tabulated import Tabulated
from epsilometer.report.text.summary import (
    FACT_COLUMNS,
    answers_data,
    batches_note,
    engine_data,
    origin_data,
    rows_of_batches,
    summary_data,
)
from epsilometer.report.text.verdict_words import (
    headline,
    judged_data,
    proven_fact,
    proven_row,
    verdict_data,
)

LABELS = {
    "shown": "",
    "epsilon": "estimated (algorithm)",
    "strength": "attack strength",
}
"""Display names of the parameters; `units` names the one that is empty here."""

MOST_BASES = 10
"""Number of bases listed on the terminal, the worst ones."""

NAME_COLUMNS = 30

NO_LEAK = 0.01
"""Smallest probability of no leak that is mentioned."""


def _interval(distribution: Tabulated, level: float) -> tuple[float, float, float]:
    low, median, high = distribution.quantile([0.5 - level / 2, 0.5, 0.5 + level / 2])
    return float(low), float(median), float(high)


# --- JSON -------------------------------------------------------------------------------------


def profile_data(result: ProfileResult) -> dict[str, Any]:
    """The summary as plain values ready for JSON; never NaN or infinity."""
    posterior, level = result.posterior, result.level
    found = answers_data(posterior, ("epsilon", "strength", "shown"), level)
    found["strength"]["all_best"] = posterior.full_strength_probability
    found |= {
        "model": "profile",
        "num_challenge_bases": len(result.scores),
        "delta": result.model.delta,
        "no_leak": posterior.solution.no_leak,
        "families": [vars(row) for row in posterior.families],
        "bases": [base_data(row, level) for row in leak_rows(result)],
        "extrapolated_below_delta": posterior.extrapolated_below_delta,
        "extrapolation": extrapolation_sentence(result),
        **verdict_data(result),
        "assumptions": model_values(result.model) | {"sentences": assumptions(result)},
        **engine_data(posterior),
        "warnings": list(result.warnings),
    }
    if result.published is not None:
        found["published"] = summary_data(result.published) | {"parts": result.disagreement}
    if result.over_delta is not None:
        found["over_delta"] = profile_curve_data(result.over_delta, result.curve_verdict)
    return {name: plain(value) for name, value in found.items()} | origin_data(result.origin)


def leak_rows(result: ProfileResult) -> list[dict[str, Any]]:
    """Epsilon, AUC and number of models of each base, the worst first."""
    posterior = result.posterior
    rows = []
    for name, base, leak in zip(
        result.scores.names, result.scores.bases, posterior.leaks, strict=True
    ):
        low, median, high = _interval(leak, result.level)
        rows.append(
            {
                "challenge_base": name,
                "auc": base.auc(),
                "median": median,
                "low": low,
                "high": high,
                "models_h0": base.trials_h0,
                "models_h1": base.trials_h1,
            }
        )
    return sorted(rows, key=lambda row: (-row["median"], -row["auc"]))


def base_data(row: dict[str, Any], level: float) -> dict[str, Any]:
    """A row of :func:`leak_rows` in the JSON layout."""
    return {
        "challenge_base": row["challenge_base"],
        "epsilon": {
            "median": row["median"],
            "interval": [row["low"], row["high"]],
            "level": level,
        },
        "auc": row["auc"],
        "models_h0": row["models_h0"],
        "models_h1": row["models_h1"],
    }


def leaks_csv(result: ProfileResult) -> str:
    """CSV with one row per base, the worst first, in full precision."""
    rows = leak_rows(result)
    for row in rows:
        # Names are untrusted: no spreadsheet formulas, no control characters.
        row["challenge_base"] = inert(_files.printable(row["challenge_base"]))
    return _files.csv_text(tuple(rows[0]), [list(row.values()) for row in rows])


# --- sentences ----------------------------------------------------------------------------------


def finding(result: ProfileResult) -> str:
    """The result in a few sentences; with a claim the verdict comes first."""
    posterior, level = result.posterior, result.level
    low, high = posterior.credible_interval("epsilon", level)
    shown = posterior.credible_interval("shown", level)
    beyond = ", extrapolated beyond the data" if posterior.extrapolated else ""
    return headline(
        result,
        f"estimated at {_number(posterior.median('epsilon'))} ({_number(low)} to {_number(high)} with "
        f"probability {level:g}){beyond}; {units_of(result.scores).worst_shows} {_number(shown[0])} to "
        f"{_number(shown[1])}",
    )


def family_sentence(result: ProfileResult) -> str:
    """Posterior probability of each family of curves."""
    posterior = result.posterior
    names = [family.name for family in result.model.families]
    shares = {name: posterior.family_probability(name) for name in names}
    best = max(shares, key=lambda name: shares[name])
    if len(names) == 1:
        text = f"{best} (fixed)"
    else:
        text = f"{best} with probability {probability_text(shares[best])}"
        rest = [
            f"{name} {probability_text(share)}"
            for name, share in shares.items()
            if name != best and share >= 1e-3
        ]
        text += f"; {', '.join(rest)}" if rest else ""
    mixed = sum(row.probability for row in posterior.families if row.mixing < 1)
    if result.model.mixing.name == "free":
        text += f"; with mixing {_at_least(mixed)}"
    nothing = posterior.solution.no_leak
    if nothing >= max(NO_LEAK, shares[best]):
        return f"no leak at all with probability {probability_text(nothing)}; otherwise {text}"
    if nothing >= NO_LEAK:
        text += f"; no leak at all {probability_text(nothing)}"
    return text


def strength_sentence(result: ProfileResult) -> str:
    """How close the attacks came to the best possible ones."""
    fixed = result.model.strength.fixed_value
    if fixed is not None:
        return f"fixed at {fixed:g}"
    low, high = result.posterior.credible_interval("strength", result.level)
    units = units_of(result.scores)
    found = (
        f"{low:.2f} to {high:.2f} on average over {units.base}s; probability that every attack was the "
        f"best possible: {_at_least(result.posterior.full_strength_probability)}"
    )
    if len(result.scores) == 1:
        found += f". This comes from the prior: {units.one_cannot_tell}"
    return found


def _at_least(probability: float) -> str:
    """A probability; small values are only given as an upper limit."""
    return probability_text(probability) if probability >= 1e-4 else "below 0.0001"


def extrapolation_sentence(result: ProfileResult) -> str:
    """The delta below which only the family of curves determines epsilon."""
    posterior = result.posterior
    below, models = posterior.extrapolated_below_delta, round(1 / posterior.finest_rate)
    if not below > 0:
        return (
            "not at the median, which depends on rates that the scores can show; the upper end may "
            "depend on smaller ones, and then on the family"
        )
    where = "which includes this delta" if result.model.delta < below else "not at this delta"
    return (
        f"below delta = {below:.2g}, {where}: there epsilon depends on false-positive rates under "
        f"1 / {models:,}, which no {units_of(result.scores).base} can show, so the family determines it"
    )


# --- terminal -----------------------------------------------------------------------------------


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "infinite"
    return f"{value:.2f}" if value < 100 else f"{value:.4g}"


def rows_of_answers(result: ProfileResult) -> list[tuple[str, ...]]:
    """Table of the parameters (label, median, interval, mean); the first row is the header."""
    posterior = result.posterior
    rows: list[tuple[str, ...]] = [
        ("", "median", f"{100 * result.level:.10g} % interval", "mean"),
        proven_row(result),
    ]
    for name, own in LABELS.items():
        label = own or units_of(result.scores).shown
        if name not in posterior.parameters:
            rows.append((label, f"{posterior.median(name):.3g}", "(fixed)", ""))
            continue
        low, high = posterior.credible_interval(name, result.level)
        rows.append(
            (
                label,
                f"{posterior.median(name):.3f}",
                f"{_three(low)} to {_three(high)}",
                _three(posterior.mean(name)),
            )
        )
    return rows


def _three(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "infinite"


def rows_of_leaks(result: ProfileResult, most: int) -> list[tuple[str, ...]]:
    """Table of the worst bases; the first row is the header."""
    level, units = f"{100 * result.level:.10g} %", units_of(result.scores)
    rows: list[tuple[str, ...]] = [(units.base, "epsilon", level, "AUC", units.scored)]
    for row in leak_rows(result)[:most]:
        rows.append(
            (
                shortened(_files.printable(row["challenge_base"]), NAME_COLUMNS),
                _three(row["median"]),
                f"{_three(row['low'])} to {_three(row['high'])}",
                f"{row['auc']:.3f}",
                f"{row['models_h0']:,} + {row['models_h1']:,}",
            )
        )
    return rows


def profile_text(result: ProfileResult) -> str:
    """The summary as text, at most 80 columns wide; the result comes first."""
    posterior, units = result.posterior, units_of(result.scores)
    lines = [*wrapped(finding(result)), "", *table_lines(rows_of_answers(result)), ""]
    facts = [
        ("proven", proven_fact(result)),
        ("family", family_sentence(result)),
        ("strength", strength_sentence(result)),
        ("extrapolated", extrapolation_sentence(result)),
        (f"{units.whole_base}s", f"{len(result.scores):,}"),
        ("delta", f"{result.model.delta:g}"),
        ("engine", posterior.engine_description),
        ("time", f"{posterior.provenance.seconds:.2f} s"),
    ]
    for label, text in facts:
        lines += wrapped(text, first=f"{label:<{FACT_COLUMNS}}", rest=" " * FACT_COLUMNS)
    bases = len(result.scores)
    if bases > 1:
        worst = "the worst " if bases > MOST_BASES else ""
        title = f"Epsilon of {worst}{counted(min(bases, MOST_BASES), units.base)}, worst first:"
        lines += ["", title, *table_lines(rows_of_leaks(result, MOST_BASES))]
    if len(posterior.batches) > 1:
        lines += ["", *table_lines(rows_of_batches(posterior.batches))]
        lines += wrapped(batches_note(posterior.batches))
    if result.published is not None:
        lines += ["", *_published_lines(result)]
    lines += ["", "Assumed:"]
    for sentence in assumptions(result):
        lines += wrapped(sentence, first="- ", rest="  ")
    text = "\n".join(lines) + "\n"
    if result.over_delta is not None:
        text += "\n" + profile_curve_text(result.over_delta, result.curve_verdict)
    return text


def _published_lines(result: ProfileResult) -> list[str]:
    assert result.published is not None
    theirs = result.published.posterior
    low, high = theirs.credible_interval("epsilon", result.level)
    where = result.published.origin.target_alpha
    at = "" if where is None else f", from counts at false-positive rate {where:g}"
    said = (
        f"For comparison, the published model{at}: {low:.2f} to {high:.2f} (median "
        f"{theirs.median('epsilon'):.2f})."
    )
    return wrapped(f"{said} {result.disagreement}" if result.disagreement else said)


# --- epsilon over delta -------------------------------------------------------------------------


def profile_curve_items(curve: JointDeltaCurve) -> list[dict[str, Any]]:
    """One item per delta; the keys are the columns of the CSV."""
    low, median, high = curve.quantiles
    joint_low, joint_high = curve.joint_band
    found = []
    for place, delta in enumerate(curve.grid.tolist()):
        claimed = bool(np.isfinite(curve.claims[place]))
        found.append(
            {
                "delta": delta,
                "low": float(low[place]),
                "median": float(median[place]),
                "high": float(high[place]),
                "joint_low": float(joint_low[place]),
                "joint_high": float(joint_high[place]),
                "extrapolated": bool(curve.extrapolated[place]),
                "claim": float(curve.claims[place]) if claimed else None,
                "probability_above": float(curve.probability_above[place]) if claimed else None,
            }
        )
    return [{name: plain(value) for name, value in item.items()} for item in found]


def profile_curve_data(curve: JointDeltaCurve, verdict: Verdict | None = None) -> dict[str, Any]:
    """A curve over delta and its verdict, if any, as plain values ready for JSON."""
    posterior = curve.posterior
    found: dict[str, Any] = {
        "model": "profile",
        "level": curve.level,
        "num_challenge_bases": len(posterior.scores),
        "curve": profile_curve_items(curve),
        "trustworthy": curve.trustworthy,
        "extrapolated_below_delta": posterior.extrapolated_below_delta,
        "notes": curve.notes,
        "engine": posterior.provenance.engine,
        "settings": dict(posterior.provenance.settings),
        "seconds": posterior.provenance.seconds,
        "versions": dict(posterior.provenance.versions),
    }
    if verdict is not None:
        found["verdict"] = judged_data(verdict) | {
            "probability_anywhere": curve.probability_anywhere
        }
    return {name: plain(value) for name, value in found.items()}


def profile_curve_csv(curve: JointDeltaCurve) -> str:
    """CSV with one row per delta, in full precision."""
    items = profile_curve_items(curve)
    rows = [["" if value is None else value for value in item.values()] for item in items]
    return _files.csv_text(tuple(items[0]), rows)


def rows_of_profile_curve(curve: JointDeltaCurve) -> list[tuple[str, ...]]:
    """Rows of the table, header first; a star marks extrapolated values."""
    heading: tuple[str, ...] = ("delta", "low", "median", "high", "joint low", "joint high", "")
    claimed = curve.claim is not None
    rows = [(*heading, "claim", "P(above)") if claimed else heading]
    for item in profile_curve_items(curve):
        numbers = [item[name] for name in ("low", "median", "high", "joint_low", "joint_high")]
        row: tuple[str, ...] = (
            f"{item['delta']:.3g}",
            *("infinite" if value is None else f"{value:.3f}" for value in numbers),
            "*" if item["extrapolated"] else "",
        )
        if claimed:
            said = item["claim"]
            above = item["probability_above"]
            row += ("-", "-") if said is None else (f"{said:.3f}", probability_text(above))
        rows.append(row)
    return rows


def profile_curve_text(curve: JointDeltaCurve, verdict: Verdict | None = None) -> str:
    """The curve over delta as text, at most 80 columns wide."""
    bases = units_of(curve.posterior.scores).bases(len(curve.posterior.scores))
    title = (
        f"epsilon over delta from {bases}; {100 * curve.level:g} % intervals: low and high at each "
        f"delta, the joint band over all deltas; {curve.posterior.engine_description}."
    )
    if verdict is not None:
        title = f"{verdict.label}: {verdict.meaning}. {title[0].upper()}{title[1:]}"
    table = table_lines([("", *row) for row in rows_of_profile_curve(curve)], gap="  ")
    lines = [*wrapped(title), "", *(line[1:] for line in table)]
    if curve.extrapolated.any():
        lines += ["* extrapolated by the family of curves"]
    for note in curve.notes:
        lines += ["", *wrapped(note)]
    return "\n".join(lines) + "\n"
