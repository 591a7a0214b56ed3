"""Traces of epsilon, strength, tau and rho for all six algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..drawing import COLOURS, chains_of, new_figure, tidy
from ..workshop import Workshop

PARAMETERS = {
    "epsilon": "epsilon",
    "strength": "strength",
    "within_correlation": "tau",
    "cross_correlation": "rho",
}


def make(workshop: Workshop) -> None:
    """A column an algorithm, a row a parameter, a colour a chain."""
    config = workshop.config(__file__)
    names = config["algorithms"]
    figure = new_figure(2.1 * len(names), 6.2)
    rows: Any = figure.subplots(len(PARAMETERS), len(names), sharex="col", sharey="row")
    for column, name in enumerate(names):
        posterior = workshop.chains(name)
        for axes, (parameter, label) in zip(rows[:, column], PARAMETERS.items(), strict=True):
            chains = chains_of(posterior, parameter)
            places = np.linspace(0, chains.shape[1] - 1, config["points"]).astype(int)
            for chain, colour in zip(chains, COLOURS, strict=False):
                axes.plot(
                    places, chain[places], color=colour, linewidth=0.35, alpha=0.8, rasterized=True
                )
            axes.set_ylabel(label if column == 0 else "", fontsize=9)
            tidy(axes)
        rows[0, column].set_title(workshop.audits[name].title, fontsize=8)
        rows[-1, column].set_xlabel("iteration", fontsize=8)
    workshop.save(figure, "traces")
