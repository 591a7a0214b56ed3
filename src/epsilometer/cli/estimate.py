"""``epsilometer estimate``: the posterior of epsilon from scores, losses or counts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer.cli import options, results
from epsilometer.cli.batches import Batches
from epsilometer.cli.delivery import (
    DeliveryOptions,
    VerdictOptions,
    deliver,
    write_and_print,
    write_curve,
)
from epsilometer.cli.gate_options import Gate
from epsilometer.cli.options import argument
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import WHOLE_CURVE

if TYPE_CHECKING:
    from epsilometer.inputs.recorded import Recorded
    from epsilometer.judgement.claimed_curve import Claim, JudgedCurve
    from epsilometer.judgement.curve_result import ProfileResult


@options.flat
def estimate(
    files: list[str] = argument(
        "FILE...",
        "Losses (challenge_base, hypothesis, replicate, loss) or scores (score instead of loss, or "
        "score, member) as CSV or Parquet; losses of a pool; a store of `audit`; a result folder; or "
        "counts (false_positives, trials_h0, false_negatives, trials_h1, optionally challenge_base and "
        "group) as CSV or JSON. - reads standard input. Several files are batches. If the first one is "
        "a result folder or a posterior.nc, the others update it, with its delta, assumptions and "
        "claim. A result alone is judged again, with the given options.",
    ),
    *,
    delta: str | None = options.DELTAS,
    curves: options.CurveOptions,
    losses: options.FileLossOptions,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
    engine: options.EngineOptions,
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> int:
    """Estimate epsilon from scores, losses or counts.

    `estimate result/posterior.nc new.csv --output result` updates a result in place and keeps the
    previous one in result/previous-1.
    """
    from epsilometer.inputs.sources import LossOptions

    deltas = () if delta is None else options.parse_deltas(delta)
    reading = LossOptions(**vars(losses))
    wanted = curves.chosen
    data = Batches.read(files, reading)
    kind = wanted or data.kind
    _refuse_mismatch(kind, data, curves, priors, groups, engine)
    if kind == WHOLE_CURVE and delivery.check_model:
        raise InputError(
            "--check-model is for --model published; the whole-curve model is always checked."
        )
    if data.recorded is None:
        options.need_delta(delta)
    batches = data.data(kind)
    own = None if data.alone is None else data.alone.of_kind(kind)
    model = _model(data, own, kind, deltas, batches, curves, priors, groups, engine)
    begun = data.start
    if own is not None and not engine.engine:
        begun = own.posterior  # the default engine is that of the result
    settings = None if kind == WHOLE_CURVE else engine.settings(begun)
    claims, source = _own_claim(claims, data, model, deltas)
    claims.check(deltas)
    verdict.check()
    verdict.check_claim(claims.claim if claims.claim_curve is None else claims.claim_curve)
    delivery.check(lambda folder: data.may_replace(folder, [each for _, each in batches]))
    file = Path(files[-1])
    level = claims.level or options.DEFAULT_LEVEL
    if own is not None and (reading.given or options.given(engine) or model != own.posterior.model):
        own = None  # with other options it is estimated again
    if own is not None and len(deltas) < 2:
        asked = (level, claims.claim, delivery)
        recorded = verdict.recorded_result(own, *asked, source=source)
        return deliver(recorded, delivery, verdict, file=file)
    if kind == WHOLE_CURVE:
        posterior = data.estimate(batches, model, None) if own is None else own.posterior
        judged = _profile_result(posterior, deltas, claims, verdict, delivery, source=source)
        keep = partial(data.keep_previous, delivery.output)
        return deliver(judged, delivery, verdict, keep, file=file)
    if len(deltas) > 1:
        from epsilometer.posteriors.updating import join_batches

        single = {"--check-model": delivery.check_model, "--engine mcmc": settings is not None}
        single["updating a posterior"] = data.start is not None
        for name in (name for name, wanted in single.items() if wanted):
            options.refuse_deltas(name, "one delta", deltas)
        counts = join_batches(*(each for _, each in batches))  # type: ignore[arg-type]
        return _over_delta(counts, model, deltas, claims, verdict, delivery, data.scores, file)
    found = data.estimate(batches, model, settings)
    result = verdict.result(found, level, claims.claim, delivery, source=source, scores=data.scores)
    keep = partial(data.keep_previous, delivery.output)
    return deliver(result, delivery, verdict, keep, file=file)


def _model(
    data: Batches,
    own: Recorded | None,
    kind: str,
    deltas: tuple[float, ...],
    batches: list[tuple[str, Any]],
    curves: options.CurveOptions,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
    engine: options.EngineOptions,
) -> Any:
    """The model of the posterior to update, of the result, or of the options."""
    from epsilometer.model.from_words import with_changes

    if data.start is not None:
        chosen = options.given(groups) | {k: v for k, v in priors.values.items() if v is not None}
        chosen |= {"engine": engine.engine, "preset": engine.preset}
        if kind == WHOLE_CURVE:
            chosen = _chosen_curve(curves, priors)
        found: Any = data.model_of(chosen | {"delta": deltas[0] if deltas else None})
        if kind != WHOLE_CURVE and not found.likelihood.parameters:
            for label, counts in batches:
                if counts.measured is not None and counts.measured.cross_fed:
                    results.warn(
                        f"warning: {label}: counts of cross-fed models, but {data.name} assumes "
                        "independent decisions, so the interval is too narrow."
                    )
        return found
    delta = deltas[0] if deltas or data.recorded is None else data.recorded.delta
    made = _made(kind, delta, [each for _, each in batches], curves, priors, groups)
    if own is None:
        return made
    words = options.given(priors, groups, curves).keys() - {"model"}
    return with_changes(own.posterior.model, made, [*words, *(["delta"] if deltas else [])])


def _made(
    kind: str,
    delta: float,
    batches: list[Any],
    curves: options.CurveOptions,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
) -> Any:
    from epsilometer.model.from_words import profile_of

    if kind != WHOLE_CURVE:
        return priors.model(delta, groups.made(), *batches)
    values = priors.values
    return profile_of(
        delta,
        family=curves.family,
        mixing=curves.mixing,
        strength=values["strength"],
        epsilon_prior_scale=values["epsilon_prior_scale"],
    )


def _own_claim(
    claims: options.ClaimOptions, data: Batches, model: Any, deltas: tuple[float, ...]
) -> tuple[options.ClaimOptions, str | None]:
    """The claim and level, by default those of the given result; and the source of the claim.

    The claim of a result holds at its own delta only.
    """
    known = data.recorded
    if known is None:
        return claims, None
    claims = replace(claims, level=claims.level or known.level)
    stated = known.claim
    free = claims.claim is None and claims.claim_curve is None and len(deltas) < 2
    if stated is None or not free or model.delta != known.delta:
        return claims, None
    return replace(claims, claim=stated.epsilon), stated.source


def _chosen_curve(curves: options.CurveOptions, priors: options.PriorOptions) -> dict[str, Any]:
    """The given options of a whole-curve model, to compare with those of a posterior."""
    from epsilometer.model.mixtures import mixing_of

    chosen: dict[str, Any] = {"family": curves.family, "mixing": curves.mixing}
    if curves.mixing is not None:
        known: Any = mixing_of(curves.mixing)
        chosen["mixing"] = getattr(known, "rate", known.name)
    return chosen | {name: priors.values[name] for name in ("strength", "epsilon_prior_scale")}


def _refuse_mismatch(
    kind: str,
    data: Batches,
    curves: options.CurveOptions,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
    engine: options.EngineOptions,
) -> None:
    """Refuse options that the model does not have."""
    started = data.start is not None and data.start.provenance.engine == WHOLE_CURVE
    if data.start is not None and started != (kind == WHOLE_CURVE):
        own = "the whole-curve model" if started else "the published model"
        raise InputError(
            f"{data.name}: is a posterior of {own}; update it with data for that model."
        )
    if kind != WHOLE_CURVE:
        hint = "" if curves.chosen else "; for that, add --model profile"
        curves.refuse(f"this is the published model{hint}")
        return
    other = options.given(groups, engine)
    if priors.likelihood is not None:
        other["likelihood"] = priors.likelihood
    if other.get("engine") == "exact":
        del other["engine"]
    if other:
        name = next(iter(other)).replace("_", "-")
        raise InputError(f"--{name} is for --model published, not for the whole-curve model.")


def _profile_result(
    posterior: em.engines.CurvePosterior,
    deltas: tuple[float, ...],
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
    *,
    source: str | None,
) -> ProfileResult:
    """A result of the whole-curve model, at one delta or over several."""
    level = claims.level or options.DEFAULT_LEVEL
    claim, over = claims.claim, None
    if len(deltas) > 1:
        over = profile_curve(posterior, deltas, level, claims.over(deltas))
        if claims.claim_curve is not None:
            at = dict(zip(over.grid.tolist(), over.claims.tolist(), strict=True))[deltas[0]]
            claim = at if at < float("inf") else None
    context: dict[str, Any] = {"source": source, "over_delta": over}
    return verdict.profile_result(posterior, level, claim, delivery, **context)


def profile_curve(
    posterior: em.engines.CurvePosterior,
    deltas: tuple[float, ...],
    level: float,
    claim: Claim | None,
) -> em.engines.JointDeltaCurve:
    """The curve over several deltas, with the claim."""
    return em.engines.JointDeltaCurve(posterior=posterior, deltas=deltas, level=level, claim=claim)


def curve_of(
    counts: em.AttackCounts,
    model: em.CountModel,
    deltas: tuple[float, ...],
    *,
    level: float,
    claim: Claim | None,
    verdict: VerdictOptions,
    scores: em.Scores | None = None,
) -> JudgedCurve:
    """The judged curve of epsilon over several deltas; ``scores`` are of the counted models."""
    from epsilometer.judgement.claimed_curve import JudgedCurve

    model.check(counts)
    with results.progress("exact quadrature") as (report, _):
        curve = em.engines.estimate_curve(counts, model, deltas, on_message=report)
    return JudgedCurve.of(
        curve,
        level=level,
        claim=claim,
        thresholds=verdict.thresholds,
        accept_untrusted=verdict.allow_unconverged,
        error=verdict.chosen_error,
        scores=scores,
    )


def _over_delta(
    counts: em.AttackCounts,
    model: em.CountModel,
    deltas: tuple[float, ...],
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
    scores: em.Scores | None,
    file: Path,
) -> int:
    """Estimate, write and print; a page is about the first delta."""
    from epsilometer.report.gates.findings import finding_of_curve
    from epsilometer.report.text.delta_table import curve_data, curve_notes, curve_text

    claim = claims.over(deltas)
    level = claims.level or options.DEFAULT_LEVEL
    table = curve_of(
        counts, model, deltas, level=level, claim=claim, verdict=verdict, scores=scores
    )

    gate = Gate(
        options=delivery,
        source=file,
        fail_on=verdict.fail_on,
        find=lambda: [finding_of_curve(table, accept_untrusted=verdict.allow_unconverged)],
        summarise=lambda: [curve_data(table)],
        report=delivery.report,
    )

    def write() -> list[Path]:
        written = gate.write()
        delivery.remember(None, done=False)
        if delivery.output is not None:
            write_curve(table, delivery.output)
            written.append(delivery.output)
        if delivery.shows_all:
            posterior = results.run_engine(counts, replace(model, delta=deltas[0]), None)
            judged = table.verdict_at(deltas[0])
            claimed = None if judged is None else judged.claim
            result = verdict.result(
                posterior, level, claimed, delivery, over_delta=table, scores=scores
            )
            written += replace(delivery, output=None).write(result)
        delivery.remember(None, done=True)
        return written

    write_and_print(
        delivery.as_json,
        lambda: curve_data(table) if delivery.as_json else curve_text(table),
        write=write,
        warnings=lambda: [] if table.curve.trustworthy else curve_notes(table)[:1],
    )
    gate.announce()
    judged = [] if table.verdict is None else [table.verdict]
    return verdict.exit_code(table.curve.trustworthy, judged)
