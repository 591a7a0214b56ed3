"""Objections to a judgement: a model that does not fit, a prior that decides, a valid bound.

Each function yields reasons as text without a full stop, for `verdict.decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import singledispatch
from typing import NamedTuple

from epsilometer.baselines.estimator import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.checks.predictive import PredictiveCheck
from epsilometer.checks.sensitivity import PRIOR_FACTORS
from epsilometer.errors import ContradictionError, InputError
from epsilometer.judgement.verdict import Outcome, Thresholds
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import Scores
from epsilometer.proofs.claim_tests import auditor_of, check_coins
from epsilometer.proofs.shared_models import SharedModels

CONTRADICTED = 0.05
"""Posterior probability below a valid bound at which the two contradict each other."""

REFUTED_POSTERIOR = "the posterior lies below what the same data prove"

PRIOR_DECIDES = "too little data to decide, so the prior decides"

MOST_NAMED = 2
"""Most surprising statistics to name in a reason; the report has a table."""


class Bound(NamedTuple):
    """A lower bound of epsilon that holds for any algorithm, and its name."""

    label: str
    epsilon: float


SHARED = (
    "points share models and the posterior treats them as independent: if models differ among "
    "themselves its interval is too narrow"
)
"""Why nothing is judged from points that share models; measured by the pool study."""


@singledispatch
def valid_bounds(data: object, delta: float, error: float) -> tuple[Bound, ...]:
    """Valid bounds from scores or counts, in addition to the proof, corrected for choosing the best."""
    raise InputError(f"expected scores or error counts, got {data!r}.")


@valid_bounds.register
def _(data: Scores, delta: float, error: float) -> tuple[Bound, ...]:
    if data.dependent or any(base.grouped for base in data.bases):
        return ()
    if data.models is not None and data.fair_coins:
        epsilon = SharedModels.of_scores(data).bound_by_model(delta, error)
        return (Bound("the one-run bound over all models", epsilon),)
    if data.one_run:
        # Coins that cannot be fair, or are not independent, give no bound.
        with suppress(InputError):
            check_coins(data)
            epsilon = auditor_of(data.all_runs).epsilon_one_run(error, delta)
            return (Bound("the one-run bound of Steinke et al.", epsilon),)
        return ()
    rule, share = ClopperPearson(), error / len(data)
    scans = [auditor_of(base).epsilon_lower(rule, share, delta) for base in data.bases]
    return (Bound("a scan of the ROC curves with Clopper-Pearson limits", max(scans)),)


@valid_bounds.register
def _(data: AttackCounts, delta: float, error: float) -> tuple[Bound, ...]:
    value = best_base(ClopperPearson(), data, delta, error)
    return (Bound("the Clopper-Pearson bound of the best base", value),)


def misfit_reasons(check: PredictiveCheck) -> Iterator[str]:
    """Reasons if such counts are unlikely under the published model."""
    odd = [item for item in check.statistics if item.surprising]
    if odd:
        named = "; ".join(
            f"{item.name} {item.observed:.3g} where {item.low:.3g} to {item.high:.3g} is expected"
            for item in odd[:MOST_NAMED]
        )
        yield f"such counts are unlikely under the model ({named})"


def prior_reasons(
    above_with: Callable[[float], float], leaning: Outcome, thresholds: Thresholds
) -> Iterator[str]:
    """Reasons if the prior decides.

    ``above_with`` returns the probability that the claim is exceeded with the prior's scale multiplied
    by a factor.
    """
    tried = 0
    for factor in PRIOR_FACTORS:
        # Some priors contradict the data, or extend beyond what the engine can integrate.
        with suppress(ContradictionError, InputError):
            above = above_with(factor)
            tried += 1
            outcome = thresholds.outcome(above)
            if outcome is not leaning:
                yield (
                    f"{PRIOR_DECIDES}: with its scale multiplied by {factor:g} the verdict would be "
                    f"{outcome}, epsilon above the claim with probability {above:.2g}"
                )
    if not tried:
        yield "no other prior could be tried, so the prior may decide"


def bound_reasons(bounds: Sequence[Bound], claim: float, leaning: Outcome) -> Iterator[str]:
    """Reasons if a valid bound exceeds a claim that the posterior would let pass."""
    if leaning is Outcome.PASS:
        for bound in bounds:
            if bound.epsilon > claim:
                yield f"{bound.label} is {bound.epsilon:.2f}, above the claim"
