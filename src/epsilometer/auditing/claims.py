"""What an audit holds its estimate against: a stated claim, or what the algorithm promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

from epsilometer.errors import InputError, TrainingError
from epsilometer.inputs import loading
from epsilometer.judgement.claims import NoPromise
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.failures import message_of, traceback_of
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.training_claims import claim_from_training, first_models

NOTHING_STATED = "its accountant states no epsilon"

Say = Callable[[str], None]

LEFT_ASIDE = (
    "warning: the algorithm promises something for one record more or less; this audit "
    "replaces records, so the promise is left aside. State a claim to have one compared."
)


class Claim(NamedTuple):
    """An epsilon to hold the estimate against, and who says so."""

    epsilon: float
    source: Literal["option", "configuration", "algorithm"]


def known(stated: float | None, plan: Plan, delta: float, say: Say) -> Claim | None:
    """The claim that is stated, or else what the algorithm promises without any training."""
    if stated is not None:
        return Claim(stated, "configuration")
    if not isinstance(plan.algorithm, algorithms.Claims):
        return None
    epsilon = promised(plan.algorithm, delta)
    if not math.isfinite(epsilon):
        return None
    if plan.adjacency.name != "include":
        say(LEFT_ASIDE)
        return None
    return Claim(epsilon, "algorithm")


def by_training(
    plan: Plan, delta: float, say: Say
) -> tuple[Claim, algorithms.TrainingClaim] | None:
    """What the first models of a plan promise; None if nothing."""
    models = len(first_models(plan))
    if not models:
        return None
    if plan.adjacency.name != "include":
        say(LEFT_ASIDE)
        return None
    trained = "one model is" if models == 1 else f"{models} models are"
    say(f"no claim is stated, so {trained} trained first: the claim is that of the accountant.")
    try:
        promise = claim_from_training(plan)
    except loading.RAISED as error:
        text = message_of(error).removesuffix(".")
        # An InputError names the mistake itself.
        details = "" if isinstance(error, InputError) else traceback_of(error)
        raise TrainingError(f"[algorithm] training failed ({text}).", details) from None
    if promise is None:
        return None
    for doubt in promise.caveats:
        say(f"warning: {doubt}")
    epsilon = promised(promise, delta)
    return (Claim(epsilon, "algorithm"), promise) if math.isfinite(epsilon) else None


def promised(promises: algorithms.Claims, delta: float) -> float:
    """The claimed epsilon at a delta; infinite if there is none."""
    place = "[algorithm] claimed_epsilon"
    failure = f"{place}: cannot be called with delta"
    epsilon = loading.run_user_code(failure, promises.claimed_epsilon, delta=delta)
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not float(epsilon) >= 0:
        raise InputError(f"{place}: expected a number >= 0, got {epsilon!r}.")
    return float(epsilon)


def stated_claim(claim: Any, deltas: Sequence[float]) -> Any:
    """A claim as a question takes it: one epsilon, a function of delta, or `NoPromise`.

    An accountant is an object with ``claimed_epsilon`` or ``get_epsilon``, as those of Opacus and
    dp_accounting have it.  One that states no finite epsilon at any of the deltas promises nothing.
    """
    for name in ("claimed_epsilon", "get_epsilon"):
        if hasattr(claim, name):
            return promise_of(getattr(claim, name), deltas)
    return claim


def promise_of(
    accountant: Callable[[float], Any], deltas: Sequence[float]
) -> Callable[[float], float] | NoPromise:
    """What an accountant promises: a function of delta, or nothing, with the reason."""
    reasons = []
    for delta in deltas:
        epsilon, reason = _epsilon_at(accountant, delta)
        if math.isfinite(epsilon):
            return lambda delta: _epsilon_at(accountant, delta)[0]
        reasons.append(reason)
    return NoPromise(reasons[0])


def _epsilon_at(accountant: Callable[[float], Any], delta: float) -> tuple[float, str]:
    """The epsilon that an accountant states at a delta; infinite if none, with the reason."""
    try:
        epsilon = accountant(delta)
    except loading.RAISED as error:
        return math.inf, f"its accountant failed ({type(error).__name__}: {error})"
    if epsilon is None:
        return math.inf, NOTHING_STATED
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or math.isnan(epsilon):
        return math.inf, f"its accountant states epsilon = {epsilon!r}"
    if float(epsilon) < 0:
        raise InputError(f"expected a claimed epsilon >= 0, got {epsilon!r} at delta={delta:g}.")
    return float(epsilon), "its accountant states an infinite epsilon"
