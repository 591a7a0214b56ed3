"""Weak attacks above, strong ones below: error rates, the posterior of epsilon, that of the strength."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import epsilometer as em

from ..drawing import BLUE, ORANGE, new_figure, tidy, unit_square
from ..workshop import Workshop

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 301


def make(workshop: Workshop) -> None:
    """Both scenarios in one figure."""
    config = workshop.config(__file__)
    model = em.CountModel(delta=config["delta"])
    figure = new_figure(7.4, 4.9)
    rows: Any = figure.subplots(2, 3)
    numbers = {}
    for axes, (name, counts) in zip(rows, _scenarios(config).items(), strict=True):
        posterior = workshop.estimate(counts, model)
        _region(axes[0], posterior)
        axes[0].set_title(f"{name} attacks", fontsize=9, loc="left")
        _density(axes[1], posterior, "epsilon")
        _density(axes[2], posterior, "strength")
        numbers[name] = {
            parameter: [float(value) for value in posterior.quantile(parameter, [0.05, 0.5, 0.95])]
            for parameter in ("epsilon", "strength")
        }
    workshop.save(figure, "figure3")
    workshop.write_numbers("figure3.json", numbers)


def _scenarios(config: dict[str, Any]) -> dict[str, em.AttackCounts]:
    weak, strong, trials = config["weak"], config["strong"], config["challenges"]
    rng = np.random.default_rng(weak["seed"])
    rates = rng.beta(weak["shape"], weak["shape"], (2, weak["bases"]))
    drawn = rng.binomial(trials, rates)
    return {
        "weak": em.AttackCounts(
            false_positives=drawn[0],
            trials_h0=trials,
            false_negatives=drawn[1],
            trials_h1=trials,
        ),
        "strong": em.AttackCounts(
            false_positives=strong["false_positives"],
            trials_h0=trials,
            false_negatives=strong["false_negatives"],
            trials_h1=trials,
        ),
    }


def _region(axes: Axes, posterior: em.engines.CountPosterior) -> None:
    """Darker where the region of the posterior surely reaches; the observed rates as dots."""
    ticks = (np.arange(POINTS) + 0.5) / POINTS
    alpha, beta, inside = ticks[None, :], ticks[:, None], 1 - posterior.model.delta
    # The smallest epsilon whose region contains the point, and the probability of a larger one.
    ratio = np.maximum((inside - alpha) / beta, (inside - beta) / alpha)
    critical = np.log(np.maximum(ratio, 1.0))
    probability = np.linspace(0, 1, POINTS)[1:-1]
    below = np.interp(critical, posterior.quantile("epsilon", probability), probability, 0, 1)
    # The paper leaves out the mirror image above the line of guessing, where no attack should be.
    reached = np.where(alpha + beta <= 1, 1 - below, 0.0)
    axes.imshow(
        reached, origin="lower", extent=(0, 1, 0, 1), cmap="Greys", vmin=0, vmax=1.6, zorder=0
    )
    unit_square(axes)
    counts = posterior.counts
    axes.plot(
        counts.false_positive_rates,
        counts.false_negative_rates,
        "o",
        color=ORANGE,
        markersize=3.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        zorder=3,
    )
    axes.set_xlabel("false-positive rate", fontsize=8)
    axes.set_ylabel("false-negative rate", fontsize=8)


def _density(axes: Axes, posterior: em.engines.CountPosterior, parameter: str) -> None:
    most = 1.0 if parameter == "strength" else 1.1 * float(posterior.quantile(parameter, 0.999))
    values = np.linspace(0, most, 500)[1:-1]
    heights = posterior.density(parameter, values)
    axes.fill_between(values, heights, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(values, heights, color=BLUE, linewidth=1.2)
    for end in posterior.credible_interval(parameter, 0.9):
        axes.axvline(end, color=ORANGE, linestyle="--", linewidth=0.9)
    axes.set_xlim(0, most)
    axes.set_ylim(bottom=0)
    axes.set_yticks([])
    axes.set_xlabel("strength of the attacks" if parameter == "strength" else parameter, fontsize=8)
    tidy(axes)
