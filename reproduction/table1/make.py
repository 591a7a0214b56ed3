"""90 % intervals of epsilon for all six algorithms, next to the paper's.

By the count model from error counts, for both statistics, and by the curve model from all scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import epsilometer as em

from ..workshop import FAMILIES, Workshop

#: The second mode, from weak attacks, is below this epsilon; nothing else is.
NEAR_ZERO = 0.05

#: Probability from which that mode is reported.
SHOWN = 0.001

STATISTICS: dict[str, em.attacks.Statistic] = {
    "loss": em.attacks.Loss(),
    "logit": em.attacks.Logit(),
}


def make(workshop: Workshop) -> None:
    """The tables as Markdown, CSV and JSON."""
    config = workshop.config(__file__)
    rows = [
        _row(workshop, name, statistic, config["paper"][name])
        for name in config["algorithms"]
        for statistic in STATISTICS
    ]
    curves = [_curve(workshop, name, config["curve_model"]) for name in config["algorithms"]]
    for name, table in (("table1", rows), ("table1-curves", curves)):
        workshop.write_numbers(f"{name}.json", table)
        workshop.write(f"{name}.csv", _csv(table))
    workshop.write("table1.md", _markdown(workshop, rows, curves))
    workshop.write("table1-modes.md", _modes(workshop, rows))
    workshop.write("table1-worst.md", _worst_bases(workshop, rows, curves))
    workshop.write("table1-families.md", _families(workshop, curves))


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


def _curve(workshop: Workshop, name: str, statistic: str) -> dict[str, Any]:
    """The estimate of the curve model for one algorithm: its interval and family probabilities."""
    audit = workshop.audits[name]
    posterior = workshop.curve(name, statistic=STATISTICS[statistic])
    counts = audit.attacked(STATISTICS[statistic]).counts(audit.target_alpha)
    low, high = posterior.credible_interval("epsilon", 0.9)
    shown_low, shown_high = posterior.credible_interval("shown", 0.9)
    likeliest = posterior.families[0]
    alone = {
        family: workshop.curve(name, statistic=STATISTICS[statistic], family=family)
        for family in FAMILIES
    }
    ends = {family: each.credible_interval("epsilon", 0.9) for family, each in alone.items()}
    return {
        "algorithm": name,
        "statistic": statistic,
        "low": low,
        "median": posterior.median("epsilon"),
        "high": None if posterior.saturated else high,
        "shown_low": shown_low,
        "shown_high": shown_high,
        "largest_auc": max(base.auc() for base in posterior.scores.bases),
        "proved": em.baselines.best_base(
            em.baselines.ClopperPearson(), counts, audit.model.delta, 0.05
        ),
        "probability_alike": posterior.full_strength_probability,
        "family": likeliest.family,
        "mixing": likeliest.mixing,
        "interpretation": likeliest.interpretation,
        "family_probability": likeliest.probability,
        **{f"{family}_low": low for family, (low, _) in ends.items()},
        **{f"{family}_median": each.median("epsilon") for family, each in alone.items()},
        **{f"{family}_high": high for family, (_, high) in ends.items()},
        "trustworthy": all(each.trustworthy for each in (posterior, *alone.values())),
    }


def _csv(rows: list[dict[str, Any]]) -> str:
    lines = [",".join(rows[0])]
    lines += [",".join(str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def _interval(row: dict[str, Any]) -> str:
    doubt = "" if row["trustworthy"] else " (!)"
    middle = "" if row["high"] is None else f", median {row['median']:.2f}"
    return f"{_ends(row)}{middle}{doubt}"


def _ends(row: dict[str, Any]) -> str:
    """The interval, or that the data set no upper limit."""
    if row["high"] is None:
        return f"at least {row['low']:.2f}, no upper limit"
    return f"{row['low']:.2f} to {row['high']:.2f}"


def _markdown(workshop: Workshop, rows: list[dict[str, Any]], curves: list[dict[str, Any]]) -> str:
    """One line per algorithm: the paper's interval, ours for both statistics, and the curve model."""
    by_name: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["algorithm"], {})[row["statistic"]] = row
    lines = [
        "| algorithm | paper | `loss` | realised rate | `logit` | realised rate | curve model |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (name, found), curve in zip(by_name.items(), curves, strict=True):
        loss = found["loss"]
        cells = [
            workshop.audits[name].title,
            f"{loss['paper_low']:.2f} to {loss['paper_high']:.2f}",
        ]
        for row in (loss, found["logit"]):
            cells.append(_interval(row))
            cells.append(
                f"{row['realised_rate_least']:.2f} to {row['realised_rate_most']:.2f}, "
                f"{row['bases_that_missed']} missed"
            )
        cells.append(_interval(curve))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _modes(workshop: Workshop, rows: list[dict[str, Any]]) -> str:
    """The interval without the mode near 0."""
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


def _worst_bases(
    workshop: Workshop, rows: list[dict[str, Any]], curves: list[dict[str, Any]]
) -> str:
    """What the strongest attack shows, next to the estimates of both models."""
    counted = {
        (row["algorithm"], row["statistic"]): f"{row['low']:.2f} to {row['high']:.2f}"
        for row in rows
    }
    lines = [
        "| algorithm | largest AUC of a base | proved | count model | curve model "
        "| shown by the worst base | all attacks alike |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in curves:
        alike = row["probability_alike"]
        cells = [
            workshop.audits[row["algorithm"]].title,
            f"{row['largest_auc']:.2f}",
            f"at least {row['proved']:.2f}",
            counted[row["algorithm"], row["statistic"]],
            _ends(row),
            f"{row['shown_low']:.2f} to {row['shown_high']:.2f}",
            f"{alike:.3f}" if alike >= SHOWN else f"below {SHOWN}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _families(workshop: Workshop, curves: list[dict[str, Any]]) -> str:
    """The most probable family, and the estimates of single families."""
    lines = [
        "| algorithm | likeliest family | "
        + " | ".join(f"{family} alone" for family in FAMILIES)
        + " |",
        "| --- | --- |" + " --- |" * len(FAMILIES),
    ]
    for row in curves:
        mixed = "" if row["mixing"] == 1 else f", mixed with {row['mixing']:g}"
        cells = [
            workshop.audits[row["algorithm"]].title,
            f"{row['family']}{mixed}, probability {row['family_probability']:.2f}",
        ]
        cells += [
            f"{row[f'{family}_low']:.2f} to {row[f'{family}_high']:.2f}" for family in FAMILIES
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
