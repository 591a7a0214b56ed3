"""``epsilometer prove``: what attacks prove about epsilon, without a model or a prior."""

from __future__ import annotations

import math
from typing import Any

import epsilometer as em
from epsilometer import _validate
from epsilometer.cli import options, results
from epsilometer.cli.delivery import DEFAULT_ERROR, REFUSED
from epsilometer.cli.options import argument, flag, option
from epsilometer.errors import InputError
from epsilometer.report.text import wrapped

FACT_COLUMNS = 11
"""Of the facts below the answer: the longest label and two spaces."""


def prove(
    file: str = argument(
        "FILE",
        "Scores or losses of models in the order in which they were trained, a store of `audit` or its "
        "result folder; counts of rules fixed beforehand; or canaries of one run (score, member). - "
        "reads standard input. Of a result, delta and claim are its own unless given.",
    ),
    delta: float | None = options.DELTA,
    claim: float | None = options.CLAIM,
    error: float | None = option("P", "Probability that the proof errs, at most; default 0.05."),
    statistic: str | None = option(
        "loss|logit|module:function",
        "Losses: what the attack looks at; default logit, which needs cross-entropy losses.",
    ),
    variant: str | None = options.STORE_VARIANT,
    shared_models: bool = flag(
        "Models serve several bases: average over bases instead of multiplying.", "--shared-models"
    ),
    fail_on: str = option("never|proven", "Exit with 3 if the claim is refuted.", default="never"),
    as_json: bool = options.AS_JSON,
) -> int:
    """Prove that epsilon is at least some L, or refute a claim.

    Scores, losses and stores may be looked at as often as anybody likes, while models are still being
    trained: the error holds for all looks together. Counts, canaries and points that share models are
    for one look.
    """
    from epsilometer.audit.inputs import LossOptions

    if error is not None:
        _validate.open_unit_interval("error", error)
    _validate.one_of("fail_on", fail_on, ("never", "proven"))
    if claim is not None:
        _validate.non_negative("claim", claim)
    source = results.source_of(file, LossOptions(statistic=statistic, variant=variant))
    recorded = source.recorded
    if delta is None and recorded is not None:
        delta = recorded.delta
    known = {} if recorded is None else recorded.asked
    error = known.get("error", DEFAULT_ERROR) if error is None else error
    shared_models = shared_models or known.get("shared_models", False)
    options.need_delta(delta)
    delta = _validate.delta(delta)
    if claim is None and recorded is not None and recorded.claim and delta == recorded.delta:
        claim = recorded.claim.epsilon
    if claim is None and fail_on != "never":
        raise InputError(f"--fail-on {fail_on} needs a claimed epsilon: --claim.")
    data = source.counts if source.models is None else source.models
    assert data is not None  # a source has one of them
    found = em.prove(data, delta=delta, claim=claim, error=error, independent=not shared_models)
    results.answer(as_json, found.described, lambda: _text(found, data))
    return REFUSED if fail_on == "proven" and found.refuted else 0


def _text(proof: em.Proof, data: Any) -> str:
    """The answer for reading, at most 80 columns wide."""
    from epsilometer.proofs.proof import rounded_down
    from epsilometer.report.text import counted
    from epsilometer.report.units import units_of
    from epsilometer.report.verdict_words import e_value_text

    at = f"at delta = {proof.delta:g}"
    said = f"Proven: {at}, epsilon is at least {rounded_down(proof.at_least, 3)}"
    if not proof.at_least > 0:
        said = f"Nothing is proven {at}: the attacks do not rule out epsilon = 0"
    if proof.claim is not None:
        word = "Refuted" if proof.refuted else "Not refuted"
        said = f"{word}: a claim of {proof.claim:g}. {said}"
    models = int(data.trials_h0.sum() + data.trials_h1.sum())
    when = (
        "valid at any time, however often it was looked at"
        if proof.any_time
        else "valid for one look that was planned, not for looking until it pleases"
    )
    facts = [("error", f"at most {100 * proof.error:g} %, {when}"), ("assumes", proof.assumes)]
    if proof.e_value is not None:
        needed = f"refuted from {1 / proof.error:g}"
        facts.append(("e-value", f"{e_value_text(proof.e_value)} against the claim; {needed}"))
    what, bases = "trials", counted(len(data), "challenge base")
    if hasattr(data, "bases"):
        units = units_of(data)
        what, bases = units.scored, units.bases(len(data))
        if data.shared_models:
            models, what = data.shared_models, "models that they share"
    facts.append(("data", f"{bases}, {models:,} {what}"))
    if proof.hopeless is not None:
        facts.append(("note", proof.hopeless))
    elif math.isfinite(proof.most_provable):
        most = rounded_down(proof.most_provable)
        told = "canaries" if data.one_run else "models with a point and without it"
        facts.append(("at most", f"{most} could be proven, were all {told} told apart"))
    lines = [*wrapped(f"{said}."), ""]
    for label, text in facts:
        lines += wrapped(text, first=f"{label:<{FACT_COLUMNS}}", rest=" " * FACT_COLUMNS)
    if not proof.refuted:
        lines += ["", *wrapped("What is not refuted is not proven private: only attacks refute.")]
    return "\n".join(lines) + "\n"
