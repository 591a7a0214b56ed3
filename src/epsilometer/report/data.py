"""The numbers of a report as plain values: what can be downloaded from the page as JSON and CSV."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer.attacks import curves_files
from epsilometer.attacks.result import ErrorCurves
from epsilometer.inference.outlook import MoreData
from epsilometer.model import counts_files
from epsilometer.model.counts import COLUMNS
from epsilometer.report.evidence import Evidence
from epsilometer.report.model_table import comparison_data
from epsilometer.report.summary import plain

PERCENTS = (0.1, 0.5, 1, 2.5, *range(5, 100, 5), 97.5, 99, 99.5, 99.9)
"""Quantiles of each parameter that are handed out."""


def report_data(evidence: Evidence) -> dict[str, Any]:
    """Everything the page shows, ready for JSON."""
    posterior, origin = evidence.posterior, evidence.origin
    found: dict[str, Any] = {
        "summary": evidence.summary,
        "warnings": list(evidence.warnings),
        "bases": base_rows(evidence),
        "quantiles": {
            name: dict(
                zip(
                    (f"{percent:g} %" for percent in PERCENTS),
                    posterior.quantile(name, np.array(PERCENTS) / 100).tolist(),
                    strict=True,
                )
            )
            for name in posterior.parameters
        },
        "other_priors": [
            {
                "factor": other.factor,
                "median": float(other.epsilon.quantile(0.5)),
                "interval": list(other.credible_interval(evidence.level)),
                "level": evidence.level,
            }
            for other in evidence.other_priors
        ],
        "predictive_check": {
            "level": evidence.predictive.level,
            "replicates": evidence.predictive.replicates,
            "statistics": [
                {
                    "name": item.name,
                    "observed": item.observed,
                    "interval": [item.low, item.high],
                    "p_value": item.p_value,
                }
                for item in evidence.predictive.statistics
            ],
        },
        "origin": {
            "plan": dict(origin.plan),
            "attack": dict(origin.attack),
            "models": dict(origin.models),
            "variant": origin.variant,
        },
    }
    if evidence.models is not None:
        found["model_comparison"] = comparison_data(evidence.models, level=evidence.level)
    if evidence.over_delta is not None:
        found["over_delta"] = evidence.over_delta.data()
    if evidence.outlook is not None:
        found["more_data"] = {
            "challenges": _more(evidence.outlook.challenges),
            "bases": _more(evidence.outlook.bases),
        }
    return {name: plain(value) for name, value in found.items()}


def _more(more: MoreData | None) -> dict[str, Any] | None:
    if more is None:
        return None
    return {
        "factor": more.factor,
        "outcome": str(more.outcome),
        "probability_above": more.probability_above,
        "largest_factor": more.largest_factor,
    }


def base_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Every base with its counts and rates, and epsilon without it."""
    counts, influence = evidence.posterior.counts, evidence.influence
    rows: list[dict[str, Any]] = []
    for index, row in enumerate(counts_files.rows(counts)):
        whole: dict[str, Any] = dict(row)
        whole["false_positive_rate"] = float(counts.false_positive_rates[index])
        whole["false_negative_rate"] = float(counts.false_negative_rates[index])
        if influence is not None:
            whole["epsilon_without"] = {
                "median": float(influence.median[index]),
                "interval": [float(influence.low[index]), float(influence.high[index])],
                "reliable": bool(influence.reliable[index]),
            }
        rows.append(whole)
    return rows


def bases_csv(evidence: Evidence) -> str:
    """The counts as CSV that `epsilometer estimate` reads.

    A spreadsheet would run a name that begins like a formula, so such a name gets an apostrophe.
    """
    counts = evidence.posterior.counts
    header = counts_files.columns_of(counts)
    table = [
        [row[name] if name in COLUMNS else _inert(str(row[name])) for name in header]
        for row in counts_files.rows(counts)
    ]
    return _files.csv_text(header, table)


def curves_csv(curves: ErrorCurves) -> str:
    """The error curves as CSV, with names as in :func:`bases_csv`."""
    return curves_files.to_csv(replace(curves, names=tuple(map(_inert, curves.names))))


def _inert(name: str) -> str:
    return f"'{name}" if name[:1] in tuple("=+-@\t\r") else name
