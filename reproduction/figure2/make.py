"""One attack that errs in four of ten cases on either side: the interval under what is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import epsilometer as em

from ..drawing import BLUE, new_figure, tidy
from ..workshop import Workshop

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, float]


def make(workshop: Workshop) -> None:
    """Intervals of epsilon against the strength that is assumed, and against the challenges made."""
    config = workshop.config(__file__)
    by_strength = [
        {"strength": value} | _interval(workshop, config, config["strength"]["challenges"], value)
        for value in config["strength"]["values"]
    ]
    by_challenges = [
        {"challenges": value} | _interval(workshop, config, value, config["challenges"]["strength"])
        for value in config["challenges"]["values"]
    ]
    figure = new_figure(7.0, 2.9)
    left, right = figure.subplots(1, 2)
    left.set_xlabel(f"strength that is assumed (N = {config['strength']['challenges']})")
    _draw(left, by_strength, "strength")
    right.set_xlabel(f"challenges N (strength {config['challenges']['strength']} assumed)")
    _draw(right, by_challenges, "challenges")
    workshop.save(figure, "figure2")
    workshop.write_numbers(
        "figure2.json", {"by_strength": by_strength, "by_challenges": by_challenges}
    )


def _interval(workshop: Workshop, config: dict[str, Any], challenges: int, strength: float) -> Row:
    errors = round(config["error_rate"] * challenges)
    counts = em.AttackCounts(
        false_positives=[errors],
        trials_h0=challenges,
        false_negatives=[errors],
        trials_h1=challenges,
    )
    model = em.CountModel(delta=config["delta"], strength=em.priors.Fixed(value=strength))
    posterior = workshop.estimate(counts, model)
    low, high = posterior.credible_interval("epsilon", 0.9)
    return {"low": low, "median": posterior.median("epsilon"), "high": high}


def _draw(axes: Axes, rows: Sequence[Row], name: str) -> None:
    places = [row[name] for row in rows]
    middles = [row["median"] for row in rows]
    below = [row["median"] - row["low"] for row in rows]
    above = [row["high"] - row["median"] for row in rows]
    axes.errorbar(
        places, middles, yerr=[below, above], fmt="o", color=BLUE, markersize=4, capsize=3
    )
    axes.set_ylim(bottom=0)
    axes.set_ylabel("epsilon: 90 % interval, median")
    tidy(axes)
