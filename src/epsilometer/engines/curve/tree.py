"""Posteriors of the curve model as labelled trees: the contents of their NetCDF files.

The layout is ArviZ's, as in `posteriors/trees.py`: draws, the scores, and in the group ``grid`` the
tables of likelihoods, from which everything else is recomputed.  `files.py` reads files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer.posteriors import trees

if TYPE_CHECKING:
    import xarray

    from epsilometer.engines.curve.posterior import CurvePosterior

#: Index of each model's score within its base, in the order of training.
ARRIVALS = ("arrival_h0", "arrival_h1")

#: Numbers of the models of each base, in the same order, if bases share models.
MODEL_NUMBERS = ("model_h0", "model_h1")

#: Numbers of complete and of begun pairs of each base, or -1.
PAIRS = ("pairs_complete", "pairs_begun")

#: Planned numbers of bases and of pairs, and the numbers of the bases that have scores.
PLANNED = ("planned_bases", "planned_pairs", "base_number")

#: What holds of all scores together.
FLAGS = ("one_run", "dependent", "fair_coins", "independent_noise")


def to_datatree(posterior: CurvePosterior) -> xarray.DataTree:
    """Draws, scores and tables as a tree."""
    rng = np.random.default_rng(trees.STORED_DRAWS_SEED)
    drawn = posterior.draw_bases(trees.STORED_DRAWS, rng=rng)
    draws: dict[str, trees.Labelled] = {
        name: (trees.DRAWS, drawn[name][None, :]) for name in (*posterior.parameters, "family")
    }
    draws["leak"] = ((*trees.DRAWS, "base"), drawn["leak"][None, :, :])
    scores, bases = posterior.scores, posterior.scores.bases
    observed: dict[str, tuple[Any, ...]] = {
        "score": ("rank", np.concatenate([base.value for base in bases])),
        "zeros": ("rank", np.concatenate([base.zeros for base in bases])),
        "ones": ("rank", np.concatenate([base.ones for base in bases])),
        "size": ("base", np.array([len(base.value) for base in bases], dtype=np.int64)),
        "grouped": ("base", np.array([base.grouped for base in bases], dtype=np.int64)),
        "challenge_base": ("base", *trees.stored_names(scores.names)),
    } | {flag: ((), np.int64(getattr(scores, flag))) for flag in FLAGS}
    if any(base.pairs is not None for base in bases):
        pairs = np.array([base.pairs or (-1, -1) for base in bases], dtype=np.int64)
        observed |= {name: ("base", part) for name, part in zip(PAIRS, pairs.T, strict=True)}
    if scores.planned_order is not None:
        sizes, numbers = scores.planned_order
        for name, part in zip(PLANNED, (*sizes.T, numbers), strict=True):
            observed[name] = ("base" if part is numbers else "plan", part)
    for side, (name, order) in enumerate(zip(MODEL_NUMBERS, ARRIVALS, strict=True)):
        places = [base.arrival[side] for base in bases if base.arrival is not None]
        if len(places) == len(bases):
            observed[order] = (f"model_{order}", np.concatenate(places).astype(np.int64))
        if scores.models is not None:
            numbers = np.concatenate([pair[side] for pair in scores.models])
            observed[name] = (f"model_{order}", numbers.astype(np.int64))
    grid: dict[str, trees.Labelled] = {}
    for number, table in enumerate(posterior.tables):
        grid[f"leaks_{number}"] = ((f"leak_{number}",), table.leaks)
        grid[f"logs_{number}"] = (("base", f"leak_{number}"), table.logs)
    tables = [
        {"family": trees.plain(t.family), "rate": t.rate}
        | ({} if t.reference is None else {"last": t.last})
        for t in posterior.tables
    ]
    return trees.assembled(posterior, draws, observed, grid=grid, tables=json.dumps(tables))
