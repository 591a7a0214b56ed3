"""90 % intervals of epsilon for all six algorithms and both statistics, beside the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np

import epsilometer as em

from ..workshop import Workshop

NEAR_ZERO = 0.05
"""Below this is the mode that weak attacks leave; nothing else is there."""

SHOWN = 0.001
"""Probability from which that mode is worth a line."""

STATISTICS: dict[str, em.Statistic] = {"loss": em.Loss(), "logit": em.Logit()}


def make(workshop: Workshop) -> None:
    """The table as Markdown, CSV and JSON."""
    config = workshop.config(__file__)
    rows = [
        _row(workshop, name, statistic, config["paper"][name])
        for name in config["algorithms"]
        for statistic in STATISTICS
    ]
    workshop.write_numbers("table1.json", rows)
    workshop.write("table1.csv", _csv(rows))
    workshop.write("table1.md", _markdown(workshop, rows))
    workshop.write("table1-modes.md", _modes(workshop, rows))


def _row(workshop: Workshop, name: str, statistic: str, paper: list[float]) -> dict[str, Any]:
    audit = workshop.audits[name]
    result = audit.attacked(STATISTICS[statistic])
    posterior = workshop.posterior(name, statistic=STATISTICS[statistic])
    counts = result.counts(audit.target_alpha)
    low, high = posterior.credible_interval("epsilon", 0.9)
    near_zero = 1 - posterior.probability_above("epsilon", NEAR_ZERO)
    rest = near_zero + (1 - near_zero) * np.array([0.05, 0.95])
    rest_low, rest_high = posterior.quantile("epsilon", rest)
    return {
        "algorithm": name,
        "statistic": statistic,
        "paper_low": paper[0],
        "paper_high": paper[1],
        "low": low,
        "median": posterior.median("epsilon"),
        "high": high,
        "mean_strength": posterior.mean("strength"),
        "probability_near_zero": near_zero,
        "rest_low": float(rest_low),
        "rest_high": float(rest_high),
        "target_rate": audit.target_alpha,
        "realised_rate_least": float(counts.false_positive_rates.min()),
        "realised_rate_mean": float(counts.false_positive_rates.mean()),
        "realised_rate_most": float(counts.false_positive_rates.max()),
        "bases_that_missed": sum(check.missed for check in result.checks(audit.target_alpha)),
        "mean_false_negative_rate": float(np.mean(counts.false_negative_rates)),
        "trustworthy": posterior.trustworthy,
    }


def _csv(rows: list[dict[str, Any]]) -> str:
    lines = [",".join(rows[0])]
    lines += [",".join(str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def _markdown(workshop: Workshop, rows: list[dict[str, Any]]) -> str:
    """A line an algorithm: the paper's interval, then ours by either statistic with what it rests on."""
    by_name: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["algorithm"], {})[row["statistic"]] = row
    lines = [
        "| algorithm | paper | `loss` | realised rate | `logit` | realised rate |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in by_name.items():
        loss = found["loss"]
        cells = [
            workshop.audits[name].title,
            f"{loss['paper_low']:.2f} to {loss['paper_high']:.2f}",
        ]
        for row in (loss, found["logit"]):
            doubt = "" if row["trustworthy"] else " (!)"
            cells.append(
                f"{row['low']:.2f} to {row['high']:.2f}, median {row['median']:.2f}{doubt}"
            )
            cells.append(
                f"{row['realised_rate_least']:.2f} to {row['realised_rate_most']:.2f}, "
                f"{row['bases_that_missed']} missed"
            )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _modes(workshop: Workshop, rows: list[dict[str, Any]]) -> str:
    """What is left of an interval when the mode near 0 is set aside."""
    lines = [
        f"| algorithm | statistic | probability of ε < {NEAR_ZERO} | 90 % interval of the rest |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {workshop.audits[row['algorithm']].title} | `{row['statistic']}` "
        f"| {row['probability_near_zero']:.3f} | {row['rest_low']:.2f} to {row['rest_high']:.2f} |"
        for row in rows
        if row["probability_near_zero"] >= SHOWN
    ]
    return "\n".join(lines) + "\n"
