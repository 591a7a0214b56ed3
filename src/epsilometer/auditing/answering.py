"""From data to a result: the model that suits them, the posterior, and the question put to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from epsilometer import _files, _validate
from epsilometer.auditing.claims import stated_claim
from epsilometer.engines import estimate as engines
from epsilometer.errors import InputError
from epsilometer.inputs.held import source_of
from epsilometer.inputs.recorded import COUNT, CURVE
from epsilometer.inputs.source import Source
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel, CurveModel, likelihood_for, model_of

KINDS = {CountModel: COUNT, CurveModel: CURVE}


def default_model(data: Any, delta: float) -> CountModel | CurveModel:
    """The model for data without a chosen one: by their kind, and how they were measured."""
    if isinstance(data, AttackCounts):
        return model_of(delta, likelihood=likelihood_for(data))
    return CurveModel(delta=delta)


def prepared(
    source: Source, model: Any = None, delta: float | None = None
) -> tuple[Any, CountModel | CurveModel]:
    """The data and the model of an estimate.

    ``model`` is a model with its delta; or ``curve`` or ``count`` or None, with ``delta`` or that of a
    result.
    """
    if isinstance(model, CountModel | CurveModel):
        if delta is not None and delta != model.delta:
            raise InputError(
                f"expected `delta=` or a model, which has delta={model.delta:g}, got both."
            )
        return source.data(KINDS[type(model)]), model
    if model is None:
        kind = source.kind
    elif isinstance(model, str):
        kind = _validate.one_of("model", model, (CURVE, COUNT))
    else:
        raise InputError(
            f"expected CountModel or CurveModel, 'curve' or 'count', got model={_files.shown(model)}."
        )
    known: Any = source.result
    if delta is None and known is None:
        raise InputError(
            "expected `delta=` with 0 <= delta < 1, or a model, which has one: this privacy parameter "
            "has no default."
        )
    data = source.data(kind)
    wanted = known.delta if delta is None else _validate.delta(delta)
    if known is not None and known.kind == kind:
        return data, replace(known.posterior.model, delta=wanted)
    return data, default_model(data, wanted)


def question_of(source: Source, delta: float, **given: Any) -> Question:
    """The question as given, by the names of `Question`; what is None is that of the result.

    ``delta`` is that of the model.
    """
    asked = source.asked
    if source.result is not None and delta != source.result.delta:
        asked.pop("deltas", None)
    chosen = {name: value for name, value in given.items() if value is not None}
    if "claim" in chosen:
        asked = {name: value for name, value in asked.items() if name != "claim_source"}
    asked |= chosen
    asked["claim"] = stated_claim(asked.get("claim"), asked.get("deltas") or (delta,))
    return Question(**asked)


def result_for(
    given: Any,
    *,
    delta: float | None = None,
    model: Any = None,
    question: Question | None = None,
    on_message: Any = None,
    origin: Any = None,
    **asked: Any,
) -> Result:
    """The result of a question about anything that `source_of` takes.

    A result keeps its posterior, unless another delta or a model is given.  The question is given
    whole, or as arguments of `question_of`.
    """
    source = source_of(given)
    known = source.result
    if delta is not None:
        delta = _validate.delta(delta)
    if known is not None and model is None and delta in (None, known.delta):
        question = question or question_of(source, known.delta, **asked)
        return judged(source, question, on_message=on_message, origin=origin)
    data, chosen = prepared(source, model, delta)
    question = question or question_of(source, chosen.delta, **asked)
    engine = known.posterior.engine if known is not None and model is None else None
    posterior = engines.estimate(data, chosen, engine, on_message=on_message)
    context = {} if origin is None else {"origin": origin}
    return result_of(posterior, question, scores=source.models, on_message=on_message, **context)


def judged(source: Source, question: Question, *, on_message: Any, origin: Any = None) -> Result:
    """A result that was read or given, judged by another question."""
    result: Any = source.result
    if origin is None and source.reread is not None:
        origin = replace(result.origin, curves=source.curves)
    scores = {"scores": source.models} if result.kind == COUNT else {}
    answer: Result = replace(
        result,
        question=question,
        on_message=on_message,
        origin=result.origin if origin is None else origin,
        **scores,
    )
    return answer
