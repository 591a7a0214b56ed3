"""What else the data say of a claim: proofs, valid bounds, and objections to a judgement.

Objections are reasons as text without a full stop, for `verdict.decide`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from epsilometer.baselines.estimator import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.checks.sensitivity import PRIOR_FACTORS
from epsilometer.errors import ContradictionError, InputError
from epsilometer.judgement.question import Question
from epsilometer.judgement.units import more, units_of
from epsilometer.judgement.verdict import Outcome, Thresholds
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import Scores
from epsilometer.proofs.canaries import auditor_of, check_coins
from epsilometer.proofs.claim_tests import claim_test_of
from epsilometer.proofs.independent_noise import IndependentNoiseTest
from epsilometer.proofs.proof import Proof, prove, refuted_together, rounded_down
from epsilometer.proofs.refuting import MOST_MODELS, times_enough
from epsilometer.proofs.shared_models import SharedModels

#: Posterior probability below a valid bound at which the two contradict each other.
CONTRADICTED = 0.05

#: A probability that two digits would round to 1.
NEARLY_ALL = 0.995

REFUTED_POSTERIOR = "the posterior lies below what the same data prove"

PRIOR_DECIDES = "too little data to decide, so the prior decides"

#: Most surprising statistics to name in a reason; the report has a table.
MOST_NAMED = 2


class Bound(NamedTuple):
    """A lower bound of epsilon that holds for any algorithm, and its name."""

    label: str
    epsilon: float


#: Why nothing is judged from points that share models; measured by the pool study.
SHARED = (
    "points share models and the posterior treats them as independent: if models differ among "
    "themselves its interval is too narrow"
)


def proof_of(
    data: Scores | AttackCounts | None, delta: float, claim: float | None, asked: Question
) -> Proof | None:
    """What the data prove at a delta, and the test of the claim; None if nothing can be proven."""
    # Canaries not included by fair coins still have a posterior.
    with suppress(InputError):
        if data is not None:
            sure, apart = asked.error, asked.independent
            return prove(data, delta=delta, claim=claim, error=sure, independent=apart)
    return None


def beyond_reach(
    data: Any, claims: Mapping[float, float], asked: Question, proofs: Iterable[Proof | None] = ()
) -> str | None:
    """A warning if no data of this size could refute any of the claims; None if some could.

    Only the size of scores or counts matters; their ``proofs`` may answer at once.
    """
    known = [proof.conditional or proof for proof in proofs if proof is not None]
    if not claims or any(proof.most_provable > claims[proof.delta] for proof in known):
        return None
    with suppress(InputError):
        tests = [claim_test_of(data, independent=asked.independent)]
        if getattr(data, "independent_noise", False):
            tests.append(IndependentNoiseTest(scores=data, independent=asked.independent))

        def provable(delta: float, times: float = 1.0) -> float:
            return max(test.most_provable(delta, asked.error, times) for test in tests)

        most = {delta: provable(delta) for delta in claims}
        delta = min(claims, key=lambda delta: claims[delta] - most[delta])
        if most[delta] > claims[delta]:
            return None
        each = data.trials_h0 + data.trials_h1
        size = each.sum() if getattr(data, "models", None) is None else each.max()
        times = times_enough(partial(provable, delta), claims[delta], size)
        advice = f", nor with {MOST_MODELS:,} {units_of(data).scored}"
        if times is not None:
            advice = f": for that, {more(data, times)}"
        return (
            f"Not even perfect attacks could refute the claim of {claims[delta]:.4g} (they would prove "
            f"{rounded_down(most[delta])} at most){advice}."
        )
    return None


def refutations(proofs: Sequence[Proof | None]) -> tuple[str | None, str | None]:
    """How the claims are refuted, and how if the noise of canaries is independent."""
    return refutation(proofs), refutation(proof and proof.conditional for proof in proofs)


def refutation(proofs: Iterable[Proof | None]) -> str | None:
    """How the claims are refuted, all deltas together; None if they are not."""
    known = [proof for proof in proofs if proof is not None]
    if not refuted_together(known):
        return None
    return max(known, key=lambda proof: proof.e_value or 0.0).refutation


def valid_bounds(
    data: Scores | AttackCounts | None, delta: float, error: float
) -> tuple[Bound, ...]:
    """Valid bounds from scores or counts, in addition to the proof, corrected for choosing the best."""
    if isinstance(data, AttackCounts):
        value = best_base(ClopperPearson(), data, delta, error)
        return (Bound("the Clopper-Pearson bound of the best base", value),)
    if data is None or data.dependent or any(base.grouped for base in data.bases):
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


def contradiction(below: float, best: Bound, error: float) -> str:
    """A warning of a posterior that puts the probability ``below`` on what the best bound refutes."""
    share = f"probability {below:.2g}" if below < NEARLY_ALL else "nearly all of its probability"
    return (
        f"Do not quote the interval: the posterior puts {share} on an epsilon below "
        f"{best.epsilon:.2f}, which the same data refute ({best.label}, error {error:g})."
    )


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
