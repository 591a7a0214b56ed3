"""Verdicts on other claims, at other deltas and with other priors: the tables behind a page's sliders.

Every entry is what ``Result.judged`` says; the page looks it up and computes nothing.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer._text import pair_text, percent, plain
from epsilometer.errors import ContradictionError
from epsilometer.judgement.verdict import PRIOR_ALONE
from epsilometer.proofs.proof import rounded_down

if TYPE_CHECKING:
    from epsilometer.judgement.result import Result

#: Deltas offered for the curve model, besides those of the question.
DELTAS = tuple(10.0**power for power in range(-8, 0))

#: The same for the count model, which has another posterior at each.
FEW_DELTAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)

#: Factors of the prior's scale; the check of the prior halves and doubles each of them again.
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)

#: Even steps of the claim, besides quantiles of epsilon.
STEPS = 60

#: Quantiles that are claims too: verdicts change there, and curves through them are smooth.
SHARES = (0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999)

#: The same at other deltas and with other priors.
FEW_SHARES = (0.05, 0.5, 0.95)

#: What another delta means, by the kind of the result.
NOTES = {
    "curve": "Epsilon is read off the same curves at another delta; the prior stays at delta = {:g}.",
    "count": "Each delta has its own posterior; this result is about delta = {:g}.",
}

EXTRAPOLATED = " Extrapolated: no scores reach the error rates that decide epsilon at this delta."


def table_of(result: Result) -> dict[str, Any] | None:
    """The tables as plain values, verdicts by prior, delta and claim; None if epsilon is fixed."""
    if result.model.epsilon.fixed_value is not None:
        return None
    deltas, priors = result.what_if_deltas, result.what_if_priors
    claims = _claims(result, deltas, priors)
    own_claim = result.claims.get(result.delta)
    verdicts: dict[tuple[str, ...], int] = {}
    sentences: dict[str, int] = {}
    cells = [
        [_cell(result, delta, prior, claims, verdicts) for delta in deltas] for prior in priors
    ]
    known = [
        [label, *(sentences.setdefault(text, len(sentences)) for text in reasons)]
        for label, *reasons in verdicts
    ]
    verdict = result.verdict
    return {
        "claims": claims,
        "deltas": deltas,
        "priors": priors,
        "own": {
            "claim": None if own_claim is None else claims.index(own_claim),
            "delta": deltas.index(result.delta),
            "prior": priors.index(1.0),
        },
        "level": percent(result.level),
        "note": NOTES[result.kind].format(result.delta),
        "label": "ESTIMATE" if verdict is None else verdict.label,
        "reasons": [] if verdict is None else list(verdict.reasons),
        "cells": cells,
        "verdicts": known,
        "sentences": list(sentences),
    }


def _claims(result: Result, deltas: tuple[float, ...], priors: tuple[float, ...]) -> list[float]:
    """Claims in increasing order: even steps, quantiles of epsilon, and the claim itself."""
    own = result.claims.get(result.delta)
    places: list[tuple[float, float, tuple[float, ...]]]
    places = [(delta, 1.0, FEW_SHARES) for delta in deltas if delta != result.delta]
    places += [(result.delta, prior, FEW_SHARES) for prior in priors if prior != 1]
    places.append((result.delta, 1.0, SHARES))
    ends: list[float] = []
    for delta, prior, shares in places:
        with suppress(ContradictionError):
            ends += result.epsilon_at(delta, prior).quantile(np.array(shares)).tolist()
    high = float(result.epsilon_at(result.delta).quantile(0.5 + result.level / 2))
    proven = 0.0 if result.proof is None else result.proof.at_least
    wanted = max(2 * (own or 0.0), 1.6 * high, 1.5 * proven, 0.1)
    unit = 10 ** math.floor(math.log10(wanted / STEPS))
    step = next(unit * times for times in (1, 2, 5, 10) if unit * times * STEPS >= wanted)
    even = [float(f"{step * place:.6g}") for place in range(STEPS + 1)]
    near = [float(f"{value:.3g}") for value in ends if math.isfinite(value) and value <= even[-1]]
    return sorted({*even, *near, *(() if own is None else (own,))})


def _cell(
    result: Result,
    delta: float,
    prior: float,
    claims: list[float],
    verdicts: dict[tuple[str, ...], int],
) -> dict[str, Any] | None:
    """One delta and prior: the interval, the proof, and each claim's probability and verdict."""
    try:
        epsilon = result.epsilon_at(delta, prior)
    except ContradictionError:
        return None
    shares = np.array([0.5 - result.level / 2, 0.5, 0.5 + result.level / 2])
    low, median, high = epsilon.quantile(shares).tolist()
    proof = result.proof_at(delta)
    proven = None if proof is None else proof.at_least
    if getattr(result.posterior, "saturated", False):
        low, median, high = min(low, result.posterior.most_shown), math.nan, math.inf
        said = pair_text(low, high)
    else:
        said = f"median {median:.2f}, {percent(result.level)} interval {low:.2f} to {high:.2f}"
    headline = f"Epsilon at delta = {delta:g}: {said}."
    if proven:
        headline += f" Proven: at least {rounded_down(proven)}."
    if delta < getattr(result.posterior, "extrapolated_below_delta", 0.0):
        headline += EXTRAPOLATED
    places = []
    for claim in claims:
        verdict = result.judged(delta, claim, prior)
        # The curve model's prior is about epsilon at its own delta.
        about = delta == result.delta or result.kind == "count"
        reasons = [text for text in verdict.reasons if about or text != PRIOR_ALONE]
        places.append(verdicts.setdefault((verdict.label, *reasons), len(verdicts)))
    return {
        "headline": headline,
        "ends": plain([float(f"{end:.4g}") for end in (low, median, high)]),
        "proven": proven,
        "above": [round(epsilon.probability_above(claim), 5) for claim in claims],
        "verdicts": places,
    }
