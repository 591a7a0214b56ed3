"""Claims of algorithms that account for their training, obtained from the first models of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer._display import Displayed
from epsilometer.measurement.algorithm import ClaimsByTraining, TrainingClaim
from epsilometer.measurement.plan import Plan, Task, training_stream

UNEQUAL = (
    "the accountant counted different steps or sampling rates with more records than with fewer, and "
    "this alone distinguishes the datasets; the claim is the largest epsilon of the models trained. "
    "Choose a number of records at which one more record adds no batch, or state the claim."
)


@dataclass(frozen=True, kw_only=True, repr=False)
class LargestClaim(Displayed, view="measured.TRAINING_CLAIM"):
    """A guarantee that covers several models: the largest of their epsilons."""

    claims: tuple[TrainingClaim, ...]

    def claimed_epsilon(self, delta: float) -> float:
        # Compute equal guarantees once: accountants are slow.
        different: list[TrainingClaim] = []
        for claim in self.claims:
            different += [] if claim in different else [claim]
        return max(claim.claimed_epsilon(delta) for claim in different)

    @property
    def caveats(self) -> tuple[str, ...]:
        caveats = [caveat for claim in self.claims for caveat in claim.caveats]
        if any(claim != self.claims[0] for claim in self.claims):
            caveats.append(UNEQUAL)
        return tuple(dict.fromkeys(caveats))


def first_models(plan: Plan) -> tuple[Task, ...]:
    """The models to train for the claim: the first of each hypothesis; empty without accounting."""
    algorithm = plan.algorithm
    if plan.design.in_gradients or not isinstance(algorithm, ClaimsByTraining):
        return ()
    groups = plan.design.groups(plan.bases[0]) if algorithm.accounts else ()
    base = plan.bases[0]
    tasks: list[Task] = []
    for hypothesis, replicates in groups:
        # The models of a pool have different dataset sizes: the smallest has the largest sampling rate,
        # the largest may take more steps.
        sizes = [base.size(hypothesis, number) for number in replicates]
        ends = {sizes.index(min(sizes)), sizes.index(max(sizes))}
        tasks += [Task(0, hypothesis, replicates[place]) for place in sorted(ends)]
    return tuple(tasks)


def claim_from_training(plan: Plan) -> TrainingClaim | None:
    """Train the first models of a plan and return their privacy guarantee; None if there is none.

    The models are ones that the plan trains anyway: on the datasets of its first base, without and with
    the challenge point, each from its own random stream; with canaries, the first run.  The guarantee
    therefore does not depend on the caller or on the store.  Training happens in this process.

    Returns
    -------
    claim
        ``claim.claimed_epsilon(delta)`` is the larger epsilon of the models at a delta;
        ``claim.caveats`` lists reasons to distrust it, one sentence each.
    """
    algorithm, base = plan.algorithm, plan.bases[0]
    tasks = first_models(plan)
    if not tasks:
        return None
    assert isinstance(algorithm, ClaimsByTraining)
    return LargestClaim(
        claims=tuple(
            algorithm.claim_by_training(
                base.train_on(plan.all_records, task.hypothesis, task.replicate),
                training_stream(plan.seed, task),
            )
            for task in tasks
        )
    )
