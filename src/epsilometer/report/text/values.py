"""A result as plain values: summary.json, the page's JSON and the CSV tables.

Never NaN or infinity: a number that is not finite becomes null.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._text import inert, plain
from epsilometer.attacks.result import ErrorCurves
from epsilometer.judgement.claims import NoPromise
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.origin import Origin
from epsilometer.judgement.question import OtherModels
from epsilometer.judgement.result import Result
from epsilometer.judgement.verdict import Verdict
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors.trees import values_of
from epsilometer.report.text.facts import extrapolation_fact
from epsilometer.report.text.over_delta import over_delta_of, values_over_delta
from epsilometer.report.text.rows import labels_of, models_data, parameter_values
from epsilometer.report.text.sentences import assumed

#: Quantiles of each parameter in the page's JSON, in per cent.
PERCENTS = (0.1, 0.5, 1, 2.5, *range(5, 100, 5), 97.5, 99, 99.5, 99.9)


def result_values(result: Result) -> dict[str, Any]:
    """Everything worth quoting, ready for JSON."""
    values = _values(result)
    if isinstance(result, CurveResult) and result.beside is not None:
        values["count_model"] = _values(result.beside) | {"parts": result.disagreement}
    if isinstance(result, CountResult) and result.question.other_models is OtherModels.FULL:
        values |= _models(result)
    over = over_delta_of(result, asked=True)
    if over is not None:
        values["over_delta"] = values_over_delta(over)
    return dict(plain(values | origin_values(result.origin)))


def _values(result: Result) -> dict[str, Any]:
    posterior = result.posterior
    values: dict[str, Any] = {"model": result.kind}
    values |= parameter_values(posterior, labels_of(posterior), result.level)
    values |= {"num_challenge_bases": len(result.data), "delta": result.delta}
    if isinstance(result, CurveResult):
        values["strength"]["all_best"] = posterior.full_strength_probability
        values |= _curve_values(result)
    values |= judged_values(result)
    values["assumptions"] = _assumptions(result) | {"sentences": assumed(result)}
    provenance = posterior.provenance
    values |= {
        "engine": provenance.engine,
        "seconds": provenance.seconds,
        "converged": bool(posterior.accurate),
        **posterior.quality,
        "settings": dict(provenance.settings),
        "seed": provenance.seed,
        "versions": dict(provenance.versions),
        "trustworthy": result.trustworthy,
        "flaws": list(result.flaws),
        "warnings": list(result.warnings),
        "next_step": result.next_step,
    }
    found = result.independent_counts if isinstance(result, CountResult) else None
    if found is not None:
        values["independent_counts"] = found
    return values


def _curve_values(result: CurveResult) -> dict[str, Any]:
    posterior, at_level = result.posterior, {"level": result.level}
    return {
        "saturated": posterior.saturated,
        "upper": posterior.credible_interval("epsilon", result.level)[1],
        "shown_at_least": result.shown[0],
        "most_shown": posterior.most_shown,
        "no_leak": posterior.solution.no_leak,
        "families": list(posterior.families),
        "bases": [
            {
                "challenge_base": leak.name,
                "epsilon": {"median": leak.median, "interval": (leak.low, leak.high)} | at_level,
                **{name: getattr(leak, name) for name in ("auc", "models_h0", "models_h1")},
            }
            for leak in result.leaks
        ],
        "extrapolated_below_delta": posterior.extrapolated_below_delta,
        "extrapolation": extrapolation_fact(result),
    }


def judged_values(result: Result) -> dict[str, Any]:
    """The proof, any contradiction of the estimate, and the verdict if there is a claim."""
    proof, verdict, asked = result.proof, result.verdict, result.question
    values: dict[str, Any] = {
        "asked": {
            "error": asked.error,
            **vars(asked.thresholds),
            "shared_models": not asked.independent,
        },
        "proof": None if proof is None else proof.described(),
        "bounds": [bound._asdict() for bound in result.bounds_at(result.delta)],
        "contradiction": result.contradiction,
    }
    if verdict is None:
        return values
    claim: dict[str, Any] = {"epsilon": verdict.claim}
    if isinstance(asked.claim, NoPromise):
        claim["no_promise"] = asked.claim.reason
    else:
        claim["probability_above"] = verdict.probability_above
        claim["prior_probability_above"] = verdict.prior_probability_above
    if asked.claim_source is not None:
        claim["source"] = asked.claim_source
    return values | {"claim": claim, "verdict": verdict_values(verdict)}


def verdict_values(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain values."""
    return {
        "outcome": str(verdict.outcome),
        "grounds": str(verdict.grounds),
        "reasons": list(verdict.reasons),
        "meaning": verdict.meaning,
        **vars(verdict.thresholds),
    }


def _assumptions(result: Result) -> dict[str, Any]:
    if isinstance(result, CurveResult):
        return values_of(result.model)
    chosen = values_of(result.posterior.model)
    priors = {name: chosen.pop(name) for name in ("epsilon", "strength")}
    if not result.data.dependent:
        del chosen["dependence"]
    return chosen | {"priors": priors}


def _models(result: CountResult) -> dict[str, Any]:
    models = result.models
    return {} if models is None else {"model_comparison": models_data(models, level=result.level)}


def origin_values(origin: Origin) -> dict[str, Any]:
    """Origin of the counts or scores: attack, plan, variant, models."""
    values: dict[str, Any] = {}
    if origin.models:
        values |= {f"models_{what}": origin.models[what] for what in ("trained", "reused")}
        values["models_failed"] = list(origin.failures)
    parts: dict[str, Any] = {
        "counts": dict(origin.attack),
        "plan": dict(origin.plan),
        "variant": origin.variant,
        "shares_models_with": list(origin.siblings),
        "stopping": dict(origin.stopping),
    }
    return values | {name: value for name, value in parts.items() if value}


# --- the page -----------------------------------------------------------------------------------------


def page_values(result: Result) -> dict[str, Any]:
    """All numbers on the page: those above, quantiles and checks."""
    posterior, shares = result.posterior, np.array(PERCENTS) / 100
    percents = [f"{percent:g} %" for percent in PERCENTS]
    quantiles = {
        name: dict(zip(percents, posterior.quantile(name, shares).tolist(), strict=True))
        for name in posterior.parameters
    }
    values: dict[str, Any] = {"quantiles": quantiles}
    over = over_delta_of(result)
    if over is not None:
        values["over_delta"] = values_over_delta(over)
    assert isinstance(result, CountResult | CurveResult)
    values["other_priors"] = [
        {
            "factor": other.factor,
            "median": float(other.epsilon.quantile(0.5)),
            "interval": list(other.credible_interval(result.level)),
            "level": result.level,
        }
        for other in result.other_priors
    ]
    return result_values(result) | dict(plain(values | _checks(result)))


def _checks(result: CountResult | CurveResult) -> dict[str, Any]:
    if isinstance(result, CurveResult):
        rocs = {"statistics": result.predictive.statistics} | vars(result.predictive)
        return {"misfits": dict(result.poorly_fitting_families), "predictive_check": rocs}
    check = result.predictive
    fit = {name: getattr(check, name) for name in ("level", "replicates", "statistics")}
    return {"bases": base_rows(result), "predictive_check": fit} | _models(result)


def base_rows(result: CountResult) -> list[dict[str, Any]]:
    """Counts and error rates of each base, and epsilon without that base."""
    counts, influence = result.counts, result.influence
    rows: list[dict[str, Any]] = [{**row} for row in counts.rows()]
    for index, values in enumerate(rows):
        values["false_positive_rate"] = float(counts.false_positive_rates[index])
        values["false_negative_rate"] = float(counts.false_negative_rates[index])
        if influence is not None:
            values["epsilon_without"] = {
                "median": float(influence.median[index]),
                "interval": [float(influence.low[index]), float(influence.high[index])],
                "reliable": bool(influence.reliable[index]),
            }
    return rows


# --- CSV ----------------------------------------------------------------------------------------------


def leaks_csv(result: CurveResult) -> str:
    """CSV with one row per base, the worst first, in full precision."""
    columns = ("challenge_base", "auc", "median", "low", "high", "models_h0", "models_h1")
    rows = [
        # Names are untrusted: no spreadsheet formulas, no control characters.
        [inert(_files.printable(leak.name)), *(getattr(leak, name) for name in columns[1:])]
        for leak in result.leaks
    ]
    return _files.csv_text(columns, rows)


def counts_csv(counts: AttackCounts) -> str:
    """The counts as CSV for `epsilometer estimate`.

    A name that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    measured = counts.measured
    if measured is not None and measured.statistic is not None:
        name = inert(measured.statistic)[: _files.LONGEST_LABEL]
        measured = replace(measured, statistic=name)
    names, groups = (tuple(map(inert, each)) for each in (counts.names, counts.groups))
    return replace(counts, names=names, groups=groups, measured=measured).to_csv()


def curves_csv(curves: ErrorCurves) -> str:
    """The error curves as CSV, with names escaped as in :func:`counts_csv`."""
    return replace(curves, names=tuple(map(inert, curves.names))).to_csv()
