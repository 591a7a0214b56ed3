"""Posteriors of the curve model as labelled trees: the contents of their NetCDF files.

The layout is ArviZ's, as in `posteriors/trees.py`: draws, the scores, and in the group ``grid`` the
tables of likelihoods, from which everything else is recomputed.  `files.py` reads files.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer.posteriors import trees

if TYPE_CHECKING:
    import xarray

    from epsilometer.engines.curve.posterior import CurvePosterior

ARRIVALS = ("arrival_h0", "arrival_h1")
"""Index of each model's score within its base, in the order of training."""

MODEL_NUMBERS = ("model_h0", "model_h1")
"""Numbers of the models of each base, in the same order, if bases share models."""


def to_datatree(posterior: CurvePosterior) -> xarray.DataTree:
    """Draws, scores and tables as a tree."""
    import xarray

    rng = np.random.default_rng(trees.STORED_DRAWS_SEED)
    drawn = posterior.draw_bases(trees.STORED_DRAWS, rng=rng)
    names, escaped = trees.stored_names(posterior.scores.names)
    draws = xarray.Dataset(
        {
            name: (("chain", "draw"), drawn[name][None, :])
            for name in (*posterior.parameters, "family")
        }
        | {"leak": (("chain", "draw", "base"), drawn["leak"][None, :, :])},
        coords={"chain": np.arange(1), "draw": np.arange(trees.STORED_DRAWS)},
        attrs=trees.library() | {"draws_seed": trees.STORED_DRAWS_SEED},
    )
    bases = posterior.scores.bases
    observed = xarray.Dataset(
        {
            "score": ("rank", np.concatenate([base.value for base in bases])),
            "zeros": ("rank", np.concatenate([base.zeros for base in bases])),
            "ones": ("rank", np.concatenate([base.ones for base in bases])),
            "size": ("base", np.array([len(base.value) for base in bases], dtype=np.int64)),
            "grouped": ("base", np.array([base.grouped for base in bases], dtype=np.int64)),
            "one_run": ((), np.int64(posterior.scores.one_run)),
            "dependent": ((), np.int64(posterior.scores.dependent)),
            "fair_coins": ((), np.int64(posterior.scores.fair_coins)),
            "challenge_base": ("base", names, {"names_are_json": int(escaped)}),
        }
    )
    if all(base.arrival is not None for base in bases):
        for side, name in enumerate(ARRIVALS):
            places = [base.arrival[side] for base in bases if base.arrival is not None]
            observed[name] = (f"model_{name}", np.concatenate(places).astype(np.int64))
    shared = posterior.scores.models
    if shared is not None:
        for side, (name, order) in enumerate(zip(MODEL_NUMBERS, ARRIVALS, strict=True)):
            numbers = np.concatenate([pair[side] for pair in shared]).astype(np.int64)
            observed[name] = (f"model_{order}", numbers)
    grid: dict[str, Any] = {}
    for number, table in enumerate(posterior.tables):
        grid[f"leaks_{number}"] = ((f"leak_{number}",), table.leaks)
        grid[f"logs_{number}"] = (("base", f"leak_{number}"), table.logs)
    texts = {
        "model": json.dumps(trees.values_of(posterior.model)),
        "provenance": posterior.provenance.to_json(),
        "accuracy": json.dumps(asdict(posterior.accuracy)),
        "log_evidence": json.dumps(posterior.log_evidence),
        "tables": json.dumps(
            [
                {"family": trees.plain(table.family), "rate": table.rate}
                for table in posterior.tables
            ]
        ),
        **trees.flaws_text(posterior.scores.known_flaws),
    }
    groups = {"posterior": draws, "observed_data": observed, "grid": xarray.Dataset(grid)}
    return trees.assembled(groups, texts)
