"""Summary of a result: text for people, and one plain JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from epsilometer import _files
from epsilometer._text import (
    digits_of,
    estimate_text,
    plain,
    shortened,
    table_lines,
    wrapped,
)
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.result import Origin, OtherModels, Result
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.priors import Beta
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.trees import values_of
from epsilometer.posteriors.updating import Batch
from epsilometer.report.text.delta_table import curve_data, curve_text
from epsilometer.report.text.model_table import comparison_data, models_text
from epsilometer.report.text.verdict_words import headline, proven_fact, proven_row, verdict_data

LABELS = {
    "epsilon": "epsilon",
    "strength": "attack strength",
    "within_correlation": "within correlation",
    "cross_correlation": "cross correlation",
    "spread": "spread in groups",
}
"""Display names of the parameters."""

LABEL_COLUMNS = 18
"""Width of the label column: the longest label above, so that all tables align."""

BATCH_COLUMNS = 22
"""Longest batch label that leaves room for the numbers on the same line."""

FACT_COLUMNS = 17
"""Width of the labels below the table: the longest label and two spaces."""


def parameters_of(result: Result) -> list[str]:
    """Parameters to show; epsilon and the strength are included even if fixed."""
    shown = {"epsilon", "strength", *result.posterior.parameters}
    return [name for name in LABELS if name in shown]


def answers_data(
    posterior: CountPosterior | CurvePosterior, names: Iterable[str], level: float
) -> dict[str, Any]:
    """Mean, median and credible interval of each named parameter."""
    return {
        name: {
            "mean": posterior.mean(name),
            "median": posterior.median(name),
            "interval": list(posterior.credible_interval(name, level)),
            "level": level,
        }
        for name in names
    }


def engine_data(posterior: CountPosterior | CurvePosterior) -> dict[str, Any]:
    """How a posterior was computed, and its convergence diagnostics."""
    provenance = posterior.provenance
    return {
        "engine": provenance.engine,
        "seconds": provenance.seconds,
        "converged": bool(posterior.trustworthy),
        "batches": [batch.to_dict() for batch in posterior.batches],
        **posterior.quality,
        "settings": dict(provenance.settings),
        "seed": provenance.seed,
        "versions": dict(provenance.versions),
    }


def summary_data(result: Result) -> dict[str, Any]:
    """Everything worth quoting, as plain Python values ready for JSON; never NaN or infinity."""
    found: dict[str, Any] = answers_data(result.posterior, parameters_of(result), result.level)
    found |= {
        "num_challenge_bases": len(result.counts),
        "delta": result.model.delta,
        **verdict_data(result),
        "assumptions": _assumptions_data(result.model, result.counts),
        **engine_data(result.posterior),
    }
    independent = result.independent_counts
    if independent is not None:
        found["independent_counts"] = {
            "bases": independent.bases,
            "of": independent.of,
            "interval": list(independent.binomial_interval),
            "level": independent.level,
        }
    return {name: plain(value) for name, value in found.items()}


def result_data(result: Result) -> dict[str, Any]:
    """The summary, the origin of the counts, and any optional parts that were requested."""
    found = summary_data(result) | origin_data(result.origin)
    if result.question.other_models is OtherModels.FULL and result.models is not None:
        found["model_comparison"] = comparison_data(result.models, level=result.level)
    if result.over_delta is not None:
        found["over_delta"] = curve_data(result.over_delta)
    return found


def origin_data(origin: Origin) -> dict[str, Any]:
    """Origin of the counts or scores: attack, plan, variant, models."""
    found: dict[str, Any] = {}
    parts: dict[str, Any] = {
        "counts": dict(origin.attack),
        "plan": dict(origin.plan),
        "variant": origin.variant,
        "shares_models_with": list(origin.siblings),
        "stopping": dict(origin.stopping),
    }
    if origin.models:
        found |= {
            "models_trained": origin.models["trained"],
            "models_reused": origin.models["reused"],
            "models_failed": plain(list(origin.failures)),
        }
    return found | {name: plain(value) for name, value in parts.items() if value}


def _assumptions_data(model: CountModel, counts: AttackCounts) -> dict[str, Any]:
    chosen = values_of(model)
    names = ("delta", "likelihood", "dependence") if counts.dependent else ("delta", "likelihood")
    priors = {name: chosen[name] for name in ("epsilon", "strength")}
    said = {"priors": priors, "sentences": plain_assumptions(model, counts)}
    return {name: chosen[name] for name in names} | said


def plain_assumptions(model: CountModel, counts: AttackCounts) -> list[str]:
    """Assumptions of the model, one sentence each."""
    epsilon, strength = model.epsilon, model.strength
    before = "" if epsilon.fixed_value is not None else "Before the data, "
    sentences = [
        f"The algorithm is (epsilon, delta)-DP at delta = {model.delta:g} for some epsilon, which is "
        "estimated.",
        f"{before}epsilon is {epsilon.description}.",
    ]
    if strength.fixed_value is not None:
        sentences.append(f"The attack strength is {strength.description}.")
    elif strength == Beta():
        sentences.append("Before the data, every attack strength from 0 to 1 is equally likely.")
    else:
        sentences.append(f"Before the data, the attack strength is {strength.description}.")
    grouped = model.scatters(counts)
    whose = "The average error rates of each group" if grouped else "Each attack's error rates"
    other = "groups" if grouped else "attacks"
    sentences += [
        *([] if counts.measured is None else [counts.measured.description]),
        *model.likelihood.description,
        f"{whose} are uniformly distributed over the region that epsilon and the strength allow, "
        f"independently of the other {other}.",
    ]
    return sentences + (list(model.dependence.description) if counts.dependent else [])


def finding(result: Result) -> str:
    """The result in a few sentences; with a claim the verdict comes first."""
    posterior = result.posterior
    low, high = posterior.credible_interval("epsilon", result.level)
    median = posterior.median("epsilon")
    if result.model.epsilon.fixed_value is not None:
        return headline(result, f"fixed at {median:g}, not estimated")
    digits = max(_decimals(low, high) - 1, 2)
    found = (
        f"estimated at {median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f} with probability "
        f"{result.level:g})"
    )
    return headline(result, found)


# --- for the terminal -------------------------------------------------------------------------


def summary_text(result: Result) -> str:
    """The summary as plain ASCII text, at most 80 columns wide; the result comes first."""
    posterior = result.posterior
    lines = [*wrapped(finding(result)), ""]
    lines += [*table_lines(rows_of_parameters(result), least=LABEL_COLUMNS), ""]
    if len(posterior.batches) > 1:
        lines += table_lines(rows_of_batches(posterior.batches))
        lines += [*wrapped(batches_note(posterior.batches)), ""]
    facts = [
        ("proven", proven_fact(result)),
        ("challenge bases", f"{len(result.counts):,}"),
        ("delta", f"{result.model.delta:g}"),
        ("engine", posterior.engine_description),
        ("time", f"{posterior.provenance.seconds:.2f} s"),
    ]
    for label, text in facts:
        lines += wrapped(text, first=f"{label:<{FACT_COLUMNS}}", rest=" " * FACT_COLUMNS)
    lines += ["", "Assumed:"]
    for sentence in plain_assumptions(result.model, result.counts):
        lines += wrapped(sentence, first="- ", rest="  ")
    return "\n".join(lines) + "\n"


def result_text(result: Result) -> str:
    """The summary with the optional parts: alternative models, the curve over delta."""
    text = summary_text(result)
    if result.question.other_models is OtherModels.FULL and result.models is not None:
        text += "\n" + models_text(comparison_data(result.models, level=result.level))
    if result.over_delta is not None:
        text += "\n" + curve_text(result.over_delta)
    return text


def rows_of_parameters(result: Result) -> list[tuple[str, str, str, str]]:
    """Table of the parameters (label, median, interval, mean); the first row is the header."""
    posterior = result.posterior
    rows = [("", "median", f"{100 * result.level:.10g} % interval", "mean"), proven_row(result)]
    for name in parameters_of(result):
        median = posterior.median(name)
        if name not in posterior.parameters:
            rows.append((LABELS[name], f"{median:.6g}", "(fixed)", ""))
            continue
        low, high = posterior.credible_interval(name, result.level)
        digits = _decimals(low, high)
        rows.append(
            (
                LABELS[name],
                _number(median, digits),
                f"{_number(low, digits)} to {_number(high, digits)}",
                _number(posterior.mean(name), digits),
            )
        )
    return rows


def rows_of_batches(batches: Sequence[Batch]) -> list[tuple[str, ...]]:
    """Table of the batches of data and their effect on epsilon; the first row is the header."""
    rows: list[tuple[str, ...]] = [("batch", "rows", "epsilon", "change", "nats", "log p")]
    for batch in batches:
        digits, predictive = min(digits_of(*batch.interval), 4), batch.log_predictive
        rows.append(
            (
                shortened(_files.printable(batch.label), BATCH_COLUMNS),
                f"{batch.rows:,}",
                estimate_text(batch.median, *batch.interval),
                f"{batch.shift:+.{digits}f}",
                f"{batch.information:.3f}",
                "" if predictive is None else f"{predictive:.2f}",
            )
        )
    if all(not row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return rows


def batches_note(batches: Sequence[Batch]) -> str:
    """Explanation of the columns of :func:`rows_of_batches`."""
    text = (
        "After each batch: the median of epsilon with its 90 % interval, the change of the median, and "
        "the information the batch added about epsilon (KL divergence from the previous posterior, in "
        "nats)."
    )
    if any(batch.log_predictive is not None for batch in batches):
        text += (
            " log p is the log predictive probability of the batch given the earlier ones; for scores, "
            "relative to a random order."
        )
    return text


def _decimals(low: float, high: float) -> int:
    """Number of decimals that shows three significant digits of the interval's width."""
    width = high - low
    if not width > 0:
        return 6  # a point, as :g would show it
    # At least three, as in the other tables; no more than a double holds.
    return min(max(2 - math.floor(math.log10(width)), 3), 12)


def _number(value: float, decimals: int) -> str:
    # Above a million the decimals are noise and the column would overflow.
    return f"{value:.4g}" if abs(value) >= 1e6 else f"{value:.{decimals}f}"
