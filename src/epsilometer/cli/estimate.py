"""``epsilometer estimate``: counts in, the posterior of epsilon out, at one delta or over several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import epsilometer as em
from epsilometer.cli import options, results
from epsilometer.cli.batches import Batches
from epsilometer.cli.delivery import (
    DeliveryOptions,
    VerdictOptions,
    deliver,
    hand_over,
    write_curve,
)
from epsilometer.cli.options import argument

if TYPE_CHECKING:
    from epsilometer.inference.claimed_curve import Claim, JudgedCurve


@options.flat
def estimate(
    files: list[str] = argument(
        "FILE...",
        "Counts: CSV with the columns false_positives, trials_h0, false_negatives, trials_h1 and "
        "optionally challenge_base and group, or JSON; - reads standard input. Several files are "
        "batches. The first may be a posterior.nc, or the folder that --output wrote, to go on "
        "from: delta, likelihood and priors are then its own.",
    ),
    *,
    delta: str | None = options.DELTAS,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
    engine: options.EngineOptions,
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> int:
    """Estimate epsilon and the attack strength from error counts."""
    from epsilometer.inference.updating import join_batches

    deltas = () if delta is None else options.parse_deltas(delta)
    data = Batches.read(files)
    if data.start is None:
        options.need_delta(delta)
        model = priors.model(deltas[0], groups.made())
    else:
        said = options.given(priors, groups) | {"engine": engine.engine, "preset": engine.preset}
        model = data.model_of(said | {"delta": deltas[0] if deltas else None})
    settings = engine.settings(data.start)
    claims.check(deltas)
    verdict.check()
    verdict.check_claim(claims.claim if claims.claim_curve is None else claims.claim_curve)
    delivery.check()
    data.check_output(delivery.output)
    if len(deltas) > 1:
        single = {"--check-model": delivery.check_model, "--engine mcmc": settings is not None}
        single["going on from a posterior"] = data.start is not None
        for name in (name for name, wanted in single.items() if wanted):
            options.refuse_deltas(name, "one delta", deltas)
        counts = join_batches(*(counts for _, counts in data.counts))
        return _over_delta(counts, model, deltas, claims, verdict, delivery)
    level = claims.level or options.DEFAULT_LEVEL
    result = verdict.result(data.estimate(model, settings), level, claims.claim, delivery)
    return deliver(result, delivery, verdict)


def curve_of(
    counts: em.AttackCounts,
    model: em.AuditModel,
    deltas: tuple[float, ...],
    *,
    level: float,
    claim: Claim | None,
    verdict: VerdictOptions,
) -> JudgedCurve:
    """The curve of epsilon over several deltas, judged."""
    from epsilometer.inference.claimed_curve import JudgedCurve

    model.check(counts)
    with results.progress("exact quadrature") as (report, _):
        curve = em.estimate_curve(counts, model, deltas, report=report)
    return JudgedCurve.of(
        curve,
        level=level,
        claim=claim,
        thresholds=verdict.thresholds,
        accept_untrusted=verdict.allow_unconverged,
    )


def _over_delta(
    counts: em.AttackCounts,
    model: em.AuditModel,
    deltas: tuple[float, ...],
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> int:
    """Estimate, write and print; the page, if wanted, is about the delta that was given first."""
    from epsilometer.report.delta_table import curve_data, curve_notes, curve_text

    claim = claims.over(deltas)
    level = claims.level or options.DEFAULT_LEVEL
    table = curve_of(counts, model, deltas, level=level, claim=claim, verdict=verdict)

    def write() -> list[Path]:
        written = []
        if delivery.output is not None:
            write_curve(table, delivery.output)
            written.append(delivery.output)
        if delivery.shows_all:
            posterior = results.run_engine(counts, replace(model, delta=deltas[0]), None)
            judged = table.verdict_at(deltas[0])
            claimed = None if judged is None else judged.claim
            result = verdict.result(posterior, level, claimed, delivery, over_delta=table)
            written += replace(delivery, output=None).write(result)
        return written

    hand_over(
        delivery.as_json,
        lambda: curve_data(table) if delivery.as_json else curve_text(table),
        write=write,
        warnings=lambda: [] if table.curve.trustworthy else curve_notes(table)[:1],
    )
    outcomes = [] if table.verdict is None else [table.verdict.outcome]
    return verdict.exit_code(table.curve.trustworthy, outcomes)
