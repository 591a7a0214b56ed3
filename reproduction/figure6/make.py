"""How long the sampler remembers: autocorrelations of epsilon for all six algorithms."""

from __future__ import annotations

import numpy as np

from ..drawing import COLOURS, GREY, autocorrelations, chains_of, new_figure, tidy
from ..workshop import Workshop


def make(workshop: Workshop) -> None:
    """Autocorrelations of epsilon, averaged over the chains of a run."""
    config = workshop.config(__file__)
    figure = new_figure(4.6, 3.2)
    axes = figure.subplots()
    numbers = {}
    for name, colour in zip(config["algorithms"], COLOURS, strict=True):
        chains = chains_of(workshop.chains(name), "epsilon")
        lags = min(config["lags"], chains.shape[1] - 1)
        found = np.mean([autocorrelations(chain, lags) for chain in chains], axis=0)
        axes.plot(
            range(1, lags + 1),
            found[1:],
            color=colour,
            linewidth=1.2,
            label=workshop.audits[name].title,
        )
        below = np.flatnonzero(found < 0.05)
        numbers[name] = {"first_lag_below_0.05": int(below[0]) if len(below) else None}
    axes.axhline(0, color=GREY, linewidth=0.8)
    # Most of the decay is in the first tens of lags, the rest in hundreds: both should be seen.
    axes.set_xscale("log")
    axes.set(xlabel="lag in iterations", ylabel="autocorrelation of epsilon", xlim=(1, lags))
    axes.legend(fontsize=7, frameon=False)
    tidy(axes)
    workshop.save(figure, "figure6")
    workshop.write_numbers("figure6.json", numbers)
