"""The numbers of a report as plain values: the page's JSON and CSV downloads."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._text import inert, plain
from epsilometer.attacks.result import ErrorCurves
from epsilometer.judgement.result import Result
from epsilometer.report.text.delta_table import curve_data
from epsilometer.report.text.model_table import comparison_data
from epsilometer.report.text.summary import summary_data

PERCENTS = (0.1, 0.5, 1, 2.5, *range(5, 100, 5), 97.5, 99, 99.5, 99.9)
"""Quantiles of each parameter in the download, in per cent."""

ATTACK = ("attack", "statistic", "target_alpha")
"""Metadata of the attack in the download; its counts are in the table of bases."""


def report_data(result: Result) -> dict[str, Any]:
    """All numbers on the page as plain values ready for JSON."""
    posterior, origin = result.posterior, result.origin
    percents, shares = [f"{each:g} %" for each in PERCENTS], np.array(PERCENTS) / 100
    found: dict[str, Any] = {
        "summary": summary_data(result),
        "warnings": list(result.warnings),
        "bases": base_rows(result),
        "quantiles": {
            name: dict(zip(percents, posterior.quantile(name, shares).tolist(), strict=True))
            for name in posterior.parameters
        },
        "other_priors": [
            {
                "factor": other.factor,
                "median": float(other.epsilon.quantile(0.5)),
                "interval": list(other.credible_interval(result.level)),
                "level": result.level,
            }
            for other in result.other_priors
        ],
        "predictive_check": {
            "level": result.predictive.level,
            "replicates": result.predictive.replicates,
            "statistics": [
                {
                    "name": item.name,
                    "observed": item.observed,
                    "interval": [item.low, item.high],
                    "p_value": item.p_value,
                }
                for item in result.predictive.statistics
            ],
        },
        "origin": {
            "plan": dict(origin.plan),
            "attack": {key: value for key, value in origin.attack.items() if key in ATTACK},
            "models": dict(origin.models),
            "variant": origin.variant,
        },
    }
    if result.models is not None:
        found["model_comparison"] = comparison_data(result.models, level=result.level)
    if result.over_delta is not None:
        found["over_delta"] = curve_data(result.over_delta)
    if result.outlook is not None:
        found["more_data"] = {
            name: more and asdict(more) | {"outcome": str(more.outcome)}
            for name, more in vars(result.outlook).items()
        }
    return {name: plain(value) for name, value in found.items()}


def base_rows(result: Result) -> list[dict[str, Any]]:
    """Counts and error rates of each base, and epsilon without that base."""
    counts, influence = result.posterior.counts, result.influence
    rows: list[dict[str, Any]] = []
    for index, row in enumerate(counts.rows()):
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


def bases_csv(result: Result) -> str:
    """The counts as CSV for `epsilometer estimate`.

    A name that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    counts = result.posterior.counts
    measured = counts.measured
    if measured is not None and measured.statistic is not None:
        name = inert(measured.statistic)[: _files.LONGEST_LABEL]
        measured = replace(measured, statistic=name)
    names, groups = _inert(counts.names), _inert(counts.groups)
    return replace(counts, names=names, groups=groups, measured=measured).to_csv()


def curves_csv(curves: ErrorCurves) -> str:
    """The error curves as CSV, with names escaped as in :func:`bases_csv`."""
    return replace(curves, names=_inert(curves.names)).to_csv()


def _inert(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(inert(name) for name in names)
