"""``epsilometer estimate``: the posterior of epsilon from scores, losses or counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer.cli import options, results
from epsilometer.cli.batches import Batches
from epsilometer.cli.delivery import DeliveryOptions, VerdictOptions, deliver
from epsilometer.cli.options import argument
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import CURVE

if TYPE_CHECKING:
    from epsilometer.judgement.question import Question
    from epsilometer.judgement.result import Result


@options.flat
def estimate(
    files: list[str] = argument(
        "FILE...",
        "Losses (challenge_base, hypothesis, replicate, loss) or scores (score instead of loss, or "
        "score, member) as CSV or Parquet; losses of a pool; a store of `audit`; a result folder; or "
        "counts (false_positives, trials_h0, false_negatives, trials_h1, optionally challenge_base and "
        "group) as CSV or JSON. - reads standard input. Several files are estimated together. If "
        "the first one is a result folder or a posterior.nc, the others update it, with its delta, "
        "assumptions and claim. A result alone is judged again, with the given options.",
    ),
    *,
    delta: str | None = options.DELTAS,
    losses: options.FileLossOptions,
    assumed: options.ModelOptions,
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> int:
    """Estimate epsilon from scores, losses or counts.

    `estimate result/posterior.nc new.csv --output result-2` is the estimate from old and new data.
    """
    from epsilometer.auditing.answering import judged
    from epsilometer.inputs.source import LossOptions
    from epsilometer.judgement.judging import result_of

    deltas = () if delta is None else options.parse_deltas(delta)
    reading = LossOptions(**vars(losses))
    data = Batches.read(files, reading)
    kind = assumed.kind(data.kind)
    if kind == CURVE and delivery.check_model:
        raise InputError("--check-model is for --model count; the curve model is always checked.")
    if data.result is None:
        options.need_delta(delta)
    parts = [source.data(kind) for source in data.sources]
    own = data.own(kind)
    together = data.together(own, parts)
    model = _model(data, own, kind, deltas, parts, assumed)
    begun = None if own is None or assumed.engine else own.posterior
    settings = None if kind == CURVE else assumed.settings(begun)
    claims.check(deltas)
    verdict.check()
    question = _question(data, model, deltas, claims, verdict, delivery)
    verdict.check_claim(question.claim)
    if settings is not None and len(deltas) > 1:
        options.refuse_deltas("--engine mcmc", "one delta", deltas)
    data.check_output(delivery.output)
    delivery.check(lambda folder: data.may_replace(folder, together))
    again = reading.given or assumed.engine or data.updates
    if own is not None and not again and model == own.posterior.model:
        source = replace(data.sources[0], result=own)
        result = judged(source, question, on_message=results.tell)
    else:
        if data.updates and own is not None:
            settings = own.posterior.engine
        posterior = results.run_engine(together, model, settings)
        result = result_of(posterior, question, scores=data.scores, on_message=results.tell)
    return deliver(result, delivery, verdict, file=Path(files[-1]))


def _question(
    data: Batches,
    model: Any,
    deltas: tuple[float, ...],
    claims: options.ClaimOptions,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> Question:
    """The question of the options, by default that of the given result.

    The claim of a result holds at its own delta only.
    """
    known = {} if data.before is None else data.before.asked
    several = len(deltas) > 1
    other = data.result is None or model.delta != data.result.delta
    if deltas or other:
        known.pop("deltas", None)
    if several or other:
        known = {name: value for name, value in known.items() if not name.startswith("claim")}
    return verdict.question(
        delivery,
        known,
        claim=claims.stated(deltas),
        level=claims.level,
        deltas=deltas if several else None,
    )


def _model(
    data: Batches,
    own: Result | None,
    kind: str,
    deltas: tuple[float, ...],
    parts: list[Any],
    assumed: options.ModelOptions,
) -> Any:
    """The model of the options, or of the result with these options; one to update keeps its own."""
    from epsilometer.model.from_words import with_changes

    delta = deltas[0] if deltas or data.result is None else data.result.delta
    made = assumed.made(kind, delta, *parts)
    if own is None:
        return made
    name = "" if data.before is None else data.before.label
    given, known = [*assumed.words, *(["delta"] if deltas else [])], own.posterior.model
    if not data.updates:
        return with_changes(known, made, given)
    other = [name for name in given if with_changes(known, made, [name]) != known]
    if assumed.engine_name not in (None, own.posterior.provenance.engine):
        other.append("engine")
    if other:
        listed = ", ".join(f"--{word.replace('_', '-')}" for word in other)
        raise InputError(
            f"{listed} contradicts {name}: leave the option out, or estimate from all files again."
        )
    if kind != CURVE and not known.likelihood.parameters:
        for source, counts in zip(data.sources, parts, strict=True):
            if counts.measured is not None and counts.measured.cross_fed:
                results.warn(
                    f"warning: {source.label}: counts of cross-fed models, but {name} assumes "
                    "independent decisions, so the interval is too narrow."
                )
    return known
