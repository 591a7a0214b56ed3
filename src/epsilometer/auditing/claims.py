"""What an audit holds its estimate against: a stated claim, or what the algorithm promises."""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

from epsilometer._arrays import OnMessage
from epsilometer.errors import InputError, TrainingError
from epsilometer.inputs import loading
from epsilometer.judgement.claims import NoPromise
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.engine import claim_from_training, first_models
from epsilometer.measurement.failures import message_of, traceback_of
from epsilometer.measurement.plan import Plan

NOTHING_STATED = "its accountant states no epsilon"

LEFT_ASIDE = (
    "The algorithm promises something for one record more or less; this audit replaces records, so the "
    "promise is left aside. State a claim to have one compared."
)


class Claim(NamedTuple):
    """What an audit holds its estimate against, and who says so.

    ``epsilon`` is that at the audit's delta, infinite if nothing is promised; ``stated`` is the claim as
    a question takes it.
    """

    epsilon: float
    source: Literal["option", "configuration", "algorithm"]
    stated: Any


#: A claim, or None, and doubts about it, a sentence each.
KnownClaim = tuple[Claim | None, tuple[str, ...]]


def claim_of(given: Any, deltas: Sequence[float], source: Any) -> Claim:
    """A claim that somebody states."""
    stated = stated_claim(given, deltas)
    if isinstance(stated, NoPromise):
        return Claim(math.inf, source, stated)
    return Claim(float(stated(deltas[0]) if callable(stated) else stated), source, stated)


def of_algorithm(plan: Plan, deltas: Sequence[float]) -> KnownClaim:
    """What the algorithm promises without any training."""
    if not _accounts(plan.algorithm):
        return None, ()
    return _for_neighbours(claim_of(plan.algorithm, deltas, "algorithm"), plan)


def _accounts(algorithm: Any) -> bool:
    """Whether an algorithm states an epsilon; one that wraps another does if that one does."""
    inner = getattr(algorithm, "algorithm", None)
    return isinstance(algorithm, algorithms.Claims) and (inner is None or _accounts(inner))


def _for_neighbours(claim: Claim, plan: Plan, doubts: tuple[str, ...] = ()) -> KnownClaim:
    """The claim, unless it is about other neighbours; one that promises nothing is about all.

    Noise that is added to trained models may keep what their own training does not promise, and nobody
    accounts for it: then there is no claim.
    """
    if isinstance(claim.stated, NoPromise) and hasattr(plan.algorithm, "algorithm"):
        return None, ()
    if plan.adjacency.name != "include" and not isinstance(claim.stated, NoPromise):
        return None, (LEFT_ASIDE,)
    return claim, doubts


def by_training(plan: Plan, deltas: Sequence[float], on_message: OnMessage) -> KnownClaim:
    """What the first models of a plan promise."""
    models = len(first_models(plan))
    if not models:
        return None, ()
    trained = "one model is" if models == 1 else f"{models} models are"
    on_message(
        f"no claim is stated, so {trained} trained first: the claim is that of the accountant."
    )
    try:
        promise = claim_from_training(plan)
    except loading.RAISED as error:
        text = message_of(error).removesuffix(".")
        # An InputError names the mistake itself.
        details = "" if isinstance(error, InputError) else traceback_of(error)
        raise TrainingError(f"[algorithm] training failed ({text}).", details) from None
    assert promise is not None  # of an algorithm that accounts
    return _for_neighbours(claim_of(promise, deltas, "algorithm"), plan, promise.caveats)


def stated_claim(claim: Any, deltas: Sequence[float]) -> Any:
    """A claim as a question takes it: one epsilon, a function of delta, or `NoPromise`.

    An accountant is an object with ``claimed_epsilon`` or ``get_epsilon``, as those of Opacus and
    dp_accounting have it.  One that states no finite epsilon at any of the deltas promises nothing.
    """
    names = [name for name in ("claimed_epsilon", "get_epsilon") if hasattr(claim, name)]
    if not names:
        return claim
    accountant, reasons = getattr(claim, names[0]), []
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
        raise InputError(f"claimed_epsilon: expected a number >= 0, got {epsilon!r}.")
    return float(epsilon), "its accountant states an infinite epsilon"
