"""What a page needs to answer "what if": the data behind its sliders for claim, prior and delta.

`what_if.js` recomputes the posterior and the verdict from it; what a page cannot recompute (whether the
model fits, whether the engine reached its accuracy) is passed on as it was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.checks.comparison import is_quick
from epsilometer.checks.sensitivity import prior_sensitivity
from epsilometer.errors import ContradictionError, InputError
from epsilometer.judgement.objections import CONTRADICTED, REFUTED_POSTERIOR, valid_bounds
from epsilometer.judgement.verdict import Outcome
from epsilometer.judgement.what_if_measures import (
    Measure,
    finite_deltas,
    map_of_curves,
    measure_of_curves,
    measure_of_densities,
    measures_over_deltas,
    share_beyond,
)
from epsilometer.model.priors import Prior
from epsilometer.proofs.proof import claim_test_of
from epsilometer.proofs.refuting import refuted_up_to

if TYPE_CHECKING:
    from epsilometer.judgement.count_result import CountResult
    from epsilometer.judgement.curve_result import CurveResult
    from epsilometer.judgement.result import Result

DELTAS = tuple(digit * 10.0**power for power in range(-8, -1) for digit in (1, 2, 5)) + (0.1,)
"""Deltas that the slider offers for the curve model, besides the result's own."""

FEW_DELTAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""The same for the count model, which has another posterior at each."""

FACTORS = (0.25, 4.0)
"""How far the slider rescales the prior; the check of the prior halves and doubles that again."""

WIDER, BEYOND, BEYOND_DOUBLED = (3.0, 2.0, 1.5, 1.25, 1.0), 1e-3, 0.03
"""Smaller upper ends of the slider, tried until at most this share of the posterior is beyond the
largest leak with a likelihood: at the end of the slider, and where the check of the prior doubles it."""

FLAT, BOUND_ACCURACY = 1e-3, 1e-3
"""Bounds that differ by less, relative where above 1, count as equal; the smaller one is used."""

PRIOR_KINDS = ("half-normal", "exponential", "log-normal", "uniform")
"""Priors that `what_if.js` knows."""

SCALES = {"mean": "Mean", "median": "Median", "upper": "Upper end"}
"""How priors call the number that scales them."""

LIMITED = (
    "The slider ends at {end:.3g}: a wider prior would need the likelihood of larger epsilons, which "
    "this page does not have."
)

CHAINS = (
    "This page cannot recompute its answer: it was sampled with Markov chains, and draws do not carry "
    "the likelihood at other settings. Estimate with the exact engine to get sliders here."
)
FIXED = "This page cannot recompute its answer: the model holds epsilon fixed."
CUSTOM = "This page cannot recompute its answer: it does not know the density of a custom prior."


class WhatIf(NamedTuple):
    """The data of the sliders, or the reason why there are none."""

    data: dict[str, Any] | None
    reason: str = ""


class _Grid(NamedTuple):
    """Deltas on offer, which of them is the result's own, and the measure and maps behind them."""

    deltas: list[float]
    measures: list[Measure]
    maps: list[dict[str, Any]]
    factors: tuple[float, float]
    note: str = ""


def of_counts(result: CountResult) -> WhatIf:
    """The data of the sliders for a result of the count model."""
    if result.posterior.chains is not None:
        return WhatIf(None, CHAINS)
    return _cannot(result) or _described(result, _count_grid(result))


def of_curves(result: CurveResult) -> WhatIf:
    """The data of the sliders for a result of the curve model."""
    return _cannot(result) or _described(result, _curve_grid(result))


def _cannot(result: Result) -> WhatIf | None:
    """Why there are no sliders, because of the prior."""
    prior = result.model.epsilon
    if prior.fixed_value is not None:
        return WhatIf(None, FIXED)
    if prior.compiled is None or prior.compiled[0] not in PRIOR_KINDS:
        return WhatIf(None, CUSTOM)
    return None


def _described(result: CountResult | CurveResult, grid: _Grid) -> WhatIf:
    prior = result.model.epsilon
    kind, *numbers = prior.compiled
    scale = fields(prior)[0].name  # every compiled prior is a dataclass
    return WhatIf(
        {
            "prior": {"kind": kind, "numbers": numbers},
            "scale": {
                "name": f"{SCALES.get(scale, 'Scale')} of epsilon's prior ({kind})",
                "value": getattr(prior, scale),
                "factors": grid.factors,
            },
            "deltas": grid.deltas,
            "own": grid.deltas.index(result.model.delta),
            "deltaNote": grid.note,
            "scaleNote": ""
            if grid.factors[1] == FACTORS[1]
            else LIMITED.format(end=grid.factors[1] * getattr(prior, scale)),
            "perDelta": len(grid.measures) > 1,
            "measures": [measure.described() for measure in grid.measures],
            "maps": grid.maps,
            **_judging(result, grid.deltas),
        }
    )


def _curve_grid(result: CurveResult) -> _Grid:
    """Of the curve model: one measure, and epsilon read off it at any delta."""
    posterior = result.posterior
    solutions = [
        posterior.solution,
        *(other.solution for other in result.with_other_priors.values()),
    ]
    with suppress(ContradictionError):
        narrowest = posterior.model.epsilon.rescaled(FACTORS[0] / 2)
        solutions.append(posterior.with_prior(narrowest).solution)
    measure, curves = measure_of_curves(posterior, solutions)
    ends = [
        [component.ends for component in measure.components if component.map_number == number]
        for number in range(len(curves))
    ]
    spans = [(min(low for low, _ in pairs), max(high for _, high in pairs)) for pairs in ends]
    extra = result.question.deltas
    wanted = np.array(sorted({*DELTAS, *extra, posterior.model.delta}))
    largest = max(high for _, high in spans)
    deltas = finite_deltas(curves, largest, wanted).tolist()
    maps = [map_of_curves(curve, span, deltas) for curve, span in zip(curves, spans, strict=True)]
    note = (
        f"Epsilon is read off the same curves at another delta; the prior stays at delta = "
        f"{posterior.model.delta:g}. A number in the field selects the nearest delta of the slider."
    )

    def reaches(factor: float) -> bool:
        prior = posterior.model.epsilon
        shares = [
            share_beyond(measure, curves, prior.rescaled(multiple * factor), posterior.model.delta)
            for multiple in (1, 2)
        ]
        return shares[0] <= BEYOND and shares[1] <= BEYOND_DOUBLED

    widest = next((factor for factor in (FACTORS[1], *WIDER) if reaches(factor)), 1.0)
    return _Grid(deltas, [measure], maps, (FACTORS[0], widest), note)


def _count_grid(result: CountResult) -> _Grid:
    """Of the count model: a measure for each delta, as each has its own posterior."""
    posterior, model = result.posterior, result.model
    quick = is_quick(result.counts, model) and not model.scatters(result.counts)
    known: list[tuple[Prior, Any]] = [(model.epsilon, posterior.marginal("epsilon"))]
    known += [(other.model.epsilon, other.epsilon) for other in result.other_priors]
    if not quick:
        note = "Only the delta of this result: other deltas would take minutes to estimate."
        return _Grid([model.delta], [measure_of_densities(known)], [], (0.5, 2.0), note)
    priors = []
    for factor in (FACTORS[0] / 2, 2 * FACTORS[1]):
        # The exact engine does not take every wide prior.
        with suppress(ContradictionError, InputError):
            (other,) = prior_sensitivity(posterior, factors=(factor,))
            known.append((other.model.epsilon, other.epsilon))
            priors.append(other.model.epsilon)
    priors.insert(1, model.epsilon)
    own_measure = measure_of_densities(known)
    factors = FACTORS if len(priors) == 3 else (0.5, 2.0)
    offered = FEW_DELTAS if result.over_delta is None else result.question.deltas
    others = sorted({*offered} - {model.delta}) if model.likelihood.bounded else []
    measures = measures_over_deltas(posterior, priors, others) if others else []
    pairs = sorted(
        [(model.delta, own_measure), *zip(others, measures, strict=True)], key=lambda pair: pair[0]
    )
    note = "Each delta has its own posterior, so the slider offers these deltas only."
    if not others:
        note = "Only the delta of this result: other deltas would take long to estimate."
    return _Grid(
        [delta for delta, _ in pairs], [measure for _, measure in pairs], [], factors, note
    )


# --- the verdict ----------------------------------------------------------------------------------


def _judging(result: CountResult | CurveResult, deltas: list[float]) -> dict[str, Any]:
    """What the verdict rests on besides the posterior, and the verdict that was found."""
    verdict, question, posterior = result.verdict, result.question, result.posterior
    caveat = next(iter(result.caveats_at(math.inf)), None)
    low, high = posterior.credible_interval("epsilon", question.level)
    original = {
        "claim": result.claims.get(result.delta),
        "low": low,
        "median": posterior.median("epsilon"),
        "high": high,
        "label": None if verdict is None else verdict.label,
        "reasons": [] if verdict is None else list(verdict.reasons),
    }
    shown: float | None = None
    if result.kind == "curve":
        shown = 2 * posterior.credible_interval("shown", question.level)[1]
    proven, bounds = bounds_over(result, deltas)
    return {
        "original": {key: _number(value) for key, value in original.items()},
        "level": question.level,
        "thresholds": {
            "pass": question.thresholds.pass_at_most,
            "fail": question.thresholds.fail_at_least,
        },
        "untrusted": result.untrusted,
        "against": {
            str(leaning): list(result.constant_objections(leaning))
            for leaning in (Outcome.PASS, Outcome.FAIL)
        },
        "noOtherPriors": not result.other_priors,
        "caveat": None if caveat is None else {"text": caveat, "above": shown or 0.0},
        "contradicted": CONTRADICTED,
        "refutedPosterior": REFUTED_POSTERIOR,
        "error": question.error,
        "proven": proven,
        "bounds": bounds,
        "noLeakPrior": float(getattr(posterior.model, "no_leak", 0.0) or 0.0),
        "extrapolatedBelow": getattr(posterior, "extrapolated_below_delta", 0.0),
    }


def _number(value: Any) -> Any:
    """JSON has no infinity: None stands for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def bounds_over(
    result: Result, deltas: list[float]
) -> tuple[list[float] | None, list[dict[str, Any]]]:
    """The proven epsilon at each delta, and other valid bounds; never more than they are."""
    data, own_place = result.proven_from, deltas.index(result.posterior.model.delta)
    if data is None:
        return None, []
    error = result.question.error
    bounds = []
    for place, bound in enumerate(result.bounds):

        def other(delta: float, start: float, place: int = place) -> float:
            del start
            return valid_bounds(data, delta, error)[place].epsilon

        values = falling(other, deltas, {own_place: bound.epsilon})
        bounds.append({"label": bound.label, "values": values.tolist()})
    if result.proof is None:
        return None, bounds
    test = claim_test_of(data, independent=result.question.independent)

    def proven(delta: float, start: float) -> float:
        return refuted_up_to(
            lambda epsilon: test.log_e_value(epsilon, delta, error),
            error,
            start=start,
            accuracy=BOUND_ACCURACY,
        )

    return falling(proven, deltas, {own_place: result.proof.at_least}).tolist(), bounds


def falling(
    bound: Callable[[float, float], float], deltas: Sequence[float], known: dict[int, float]
) -> FloatArray:
    """A lower bound of epsilon at increasing deltas, evaluated where it is not flat.

    A bound at one delta holds at every smaller one, so where two deltas have all but the same bound,
    that of the larger serves those between them.  ``bound`` takes a delta and the bound at a larger
    one, at which a search may start.
    """
    bounds = dict(known)
    last = len(deltas) - 1
    if last not in bounds:
        bounds[last] = bound(deltas[last], 0.0)
    if 0 not in bounds:
        bounds[0] = bound(deltas[0], bounds[min(bounds)])
    gaps = [(low, high) for low, high in zip(sorted(bounds)[:-1], sorted(bounds)[1:], strict=True)]
    while gaps:
        low, high = gaps.pop()
        if high <= low + 1:
            continue
        if abs(bounds[low] - bounds[high]) <= FLAT * max(1.0, bounds[high]):
            for between in range(low + 1, high):
                bounds[between] = min(bounds[low], bounds[high])
            continue
        middle = (low + high) // 2
        bounds[middle] = bound(deltas[middle], min(bounds[low], bounds[high]))
        gaps += [(low, middle), (middle, high)]
    return np.array([bounds[place] for place in range(len(deltas))])
