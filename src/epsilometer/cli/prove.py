"""``epsilometer prove``: lower bounds on epsilon, without a model or a prior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import epsilometer as em
from epsilometer import _validate
from epsilometer._display import view_of
from epsilometer._text import table_lines, wrapped
from epsilometer.cli import options, results
from epsilometer.cli.delivery import REFUSED
from epsilometer.cli.options import argument, flag, option
from epsilometer.errors import InputError
from epsilometer.inputs.source import LossOptions


@options.flat
def prove(
    file: str = argument(
        "FILE",
        "Scores or losses of models in training order, a store of `audit`, a posterior.nc or a result "
        "folder; counts of decision rules fixed in advance; or canaries of one run (score, member). - "
        "reads standard input. A result has defaults for delta and claim.",
    ),
    *,
    delta: float | None = options.DELTA,
    claim: float | None = options.CLAIM,
    error: float | None = option("P", "Error probability of the proof. Default: 0.05."),
    losses: options.ScoreOptions,
    shared_models: bool = flag(
        "Bases share models: average over bases instead of multiplying.", "--shared-models"
    ),
    assume_independent_noise: bool = options.INDEPENDENT_NOISE,
    fail_on: str = option(
        "never|proven|conditional",
        "Exit with code 3 if the claim is refuted; `conditional`: also if it is refuted provided that "
        "the noise of canaries is independent.",
        default="never",
    ),
    as_json: bool = options.AS_JSON,
) -> int:
    """Prove a lower bound on epsilon, or refute a claim.

    Proofs from scores, losses and stores are anytime-valid: repeat them as often as you like while
    models are being trained. Proofs from counts, canaries and points that share models are valid for one
    planned analysis.
    """
    if error is not None:
        _validate.open_unit_interval("error", error)
    _validate.one_of("fail_on", fail_on, ("never", "proven", "conditional"))
    if claim is not None:
        options.check_claim(claim)
    source = results.source_of(file, LossOptions(**vars(losses)))
    if assume_independent_noise:
        source = replace(source, scores=results.assuming_independent_noise(source.provable))
    result = source.result
    delta = _validate.delta(options.need_delta(delta, result))
    stated: Any = claim
    if claim is None and result is not None and delta == result.delta:
        stated = result.question.claim
        stated = stated(delta) if callable(stated) else stated
    stated = em.judgement.Question(claim=stated).claim  # where infinity becomes no promise
    promised = not isinstance(stated, em.judgement.NoPromise)
    if not promised:
        results.warn(f"NO PROMISE: the training promises nothing: {stated.reason}.")
    elif stated is None and fail_on != "never":
        raise InputError(f"--fail-on {fail_on} needs a claimed epsilon: --claim.")
    claim = stated if promised else None
    independent = False if shared_models else None
    proof = em.prove(source, delta=delta, claim=claim, error=error, independent=independent)
    results.answer(as_json, proof.described, lambda: _text(proof, source.provable))
    also = proof.conditional if fail_on == "conditional" else None
    refuted = proof.refuted or (also is not None and also.refuted)
    return REFUSED if not promised or (fail_on != "never" and refuted) else 0


def _text(proof: em.Proof, data: Any) -> str:
    """The answer as text for a terminal."""
    from epsilometer.proofs.proof import rounded_down

    at, table = f"at delta = {proof.delta:g}", proof.summary()
    finding = f"Proven: {at}, epsilon is at least {rounded_down(proof.at_least, 3)}."
    if not proof.at_least > 0:
        finding = f"Nothing is proven {at}: the attacks do not rule out epsilon = 0."
    if proof.claim is not None:
        word = "Refuted" if proof.refuted else "Not refuted"
        finding = f"{word}: a claim of {proof.claim:g}. {finding}"
    notes = [*table.notes, f"Data: {view_of(data).words(data)}."]
    if not proof.refuted:
        notes.append("A claim that is not refuted is not proven: attacks can only refute.")
    lines = [*wrapped(finding), "", *table_lines(table.cells()[1:]), ""]
    return "\n".join([*lines, *(line for note in notes for line in wrapped(note))]) + "\n"
