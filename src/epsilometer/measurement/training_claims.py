"""What an algorithm promises that accounts for its training: asked of the first models of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.measurement.algorithm import ClaimsByTraining, TrainingClaim
from epsilometer.measurement.plan import Plan, Task, training_stream

UNEQUAL = (
    "the accountant counted other steps or sampling rates with more records than with fewer, and these "
    "alone tell data sets apart; the largest epsilon of those asked is the claim. Choose a number of "
    "records at which one more makes no more batches, or state the claim."
)


@dataclass(frozen=True, kw_only=True)
class Worst:
    """What holds for several models: the largest epsilon of their promises."""

    promises: tuple[TrainingClaim, ...]

    def claimed_epsilon(self, delta: float) -> float:
        # Equal promises are asked once: an accountant takes its time.
        different: list[TrainingClaim] = []
        for each in self.promises:
            different += [] if each in different else [each]
        return max(each.claimed_epsilon(delta) for each in different)

    @property
    def doubts(self) -> tuple[str, ...]:
        said = [doubt for each in self.promises for doubt in each.doubts]
        if any(each != self.promises[0] for each in self.promises):
            said.append(UNEQUAL)
        return tuple(dict.fromkeys(said))


def first_models(plan: Plan) -> tuple[Task, ...]:
    """The models that are asked: the first of each hypothesis; none if training promises nothing."""
    algorithm = plan.algorithm
    if plan.design.in_gradients or not isinstance(algorithm, ClaimsByTraining):
        return ()
    groups = plan.design.groups(plan.bases[0]) if algorithm.accounts else ()
    base = plan.bases[0]
    found: list[Task] = []
    for hypothesis, replicates in groups:
        # Models of a pool have data of several sizes: with little the sampling rate is largest, with
        # much there may be more steps.
        sizes = [base.size(hypothesis, number) for number in replicates]
        ends = {sizes.index(min(sizes)), sizes.index(max(sizes))}
        found += [Task(0, hypothesis, replicates[place]) for place in sorted(ends)]
    return tuple(found)


def claim_from_training(plan: Plan) -> TrainingClaim | None:
    """Train the first models of a plan, and tell what they promise; None if they promise nothing.

    The models are those that the plan trains anyway: on the data sets of its first base, without and
    with the challenge point, each from its own stream; of canaries the first run.  So the promise is
    the same whoever asks, and whatever a store holds.  They are trained in this process.

    Returns
    -------
    promise
        ``promise.claimed_epsilon(delta)`` is the larger of the two at a delta, ``promise.doubts`` what
        speaks against it, a sentence each.
    """
    algorithm, base = plan.algorithm, plan.bases[0]
    tasks = first_models(plan)
    if not tasks:
        return None
    assert isinstance(algorithm, ClaimsByTraining)
    return Worst(
        promises=tuple(
            algorithm.claim_by_training(
                base.train_on(plan.all_records, task.hypothesis, task.replicate),
                training_stream(plan.seed, task),
            )
            for task in tasks
        )
    )
