"""Measuring a plan: train every model that its store does not hold yet, or only the first ones.

Also claims of algorithms that account for their training, obtained from the first models of a plan.
"""

from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import Any

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer._display import Displayed, Plotted
from epsilometer._progress import OnProgress, progress_of
from epsilometer._warnings import tell
from epsilometer.attacks.repeats import repeats
from epsilometer.errors import EpsilometerError
from epsilometer.measurement.algorithm import ClaimsByTraining, TrainingClaim
from epsilometer.measurement.executors import open_pool, planned_slots
from epsilometer.measurement.failures import Failure, Streak, training_error
from epsilometer.measurement.first_models import WARNING, seconds_for
from epsilometer.measurement.plan import Plan, Sizes, Task, training_stream
from epsilometer.measurement.pool import PoolBase
from epsilometer.measurement.run import Progress, Run, models_done
from epsilometer.measurement.store import MemoryStore, SqliteStore

#: Enough for random failures; a model that fails three times is likely to fail again.
RETRIES = 2


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Measurement(Plotted, view="measured.MEASUREMENT"):
    """The losses of a plan, and how many models were trained for them.

    Attributes
    ----------
    losses
        `Losses` by variant name, or `PoolLosses` for a pool; most algorithms have a single variant,
        named "" (see `only`).
    trained
        Models trained by this run.
    reused
        Models whose losses were already in the store, or were added by another process meanwhile.
    failures
        Models that failed, with the reason, also if they were trained when retried.
    shares_models
        Whether several variants come from the same trained models, so that estimates from their
        losses are not independent.
    """

    plan: Plan
    losses: Mapping[str, Any]
    trained: int
    reused: int
    failures: list[Failure]

    @property
    def only(self) -> Any:
        """The losses, for an algorithm that releases one variant."""
        (losses,) = self.losses.values()
        return losses

    @property
    def shares_models(self) -> bool:
        return len(self.losses) > 1

    @property
    def warnings(self) -> list[str]:
        """Problems with the losses, such as identical models, one sentence each."""
        return list(
            dict.fromkeys(text for losses in self.losses.values() for text in repeats(losses))
        )


def measure(
    plan: Plan,
    store: SqliteStore | str | PathLike[str] | None = None,
    *,
    executor: str | Executor = "serial",
    workers: int | None = None,
    retries: int = RETRIES,
    accept_changed_code: bool = False,
    on_progress: OnProgress = None,
    on_message: OnMessage | None = None,
) -> Measurement:
    """Train every model of a plan that the store does not hold yet, and return all losses.

    You can interrupt it at any time and call it again: it continues where it stopped.  If you ask for
    more bases, replicates or variants, only those are added.

    One model of each hypothesis is trained first, so that failing training code is reported immediately;
    `check_training` does only that.

    Parameters
    ----------
    plan
        What to train.
    store
        A file name, a store, or None to hold losses in memory.
    executor
        See `epsilometer.measurement.executors.open_pool`.
    workers
        Number of threads or processes; default: the number of processors.
    retries
        How often a failed model is retried before it is given up; >= 0.
    accept_changed_code
        Continue even if the code of the algorithm has changed since the store was created.
    on_progress
        A function that is called periodically from the calling thread; ``"bar"``; ``"none"``; or None,
        which shows a bar in notebooks and terminals.
    on_message
        Called with a sentence about the remaining time, if it is long, and about anything that looks
        wrong.

    Raises
    ------
    StoreError
        If the store belongs to another plan, is damaged, or the disk is full.  Committed losses are
        kept.
    ExecutorError
        If the workers cannot be reached.
    TrainingError
        If models fail with the same error and none is trained in between: the first ones, or many in a
        row.  It includes the traceback.
    """
    _validate.whole_number("retries", retries, least=0)
    with opened_store(store) as opened:
        opened.prepare(plan, accept_changed_code=accept_changed_code)
        with progress_of(on_progress, on_message, state=models_done, keep=True) as callbacks:
            run = Run(plan, opened, retries, *callbacks)
            run.first_models.begin(opened, schedule=not run.reused)
            if run.groups or run.first_models.waiting:
                run.train_on(open_pool(executor, plan, workers=workers))
            measured = _result(run)
    tell(measured.warnings)
    return measured


def opened_store(
    store: SqliteStore | str | PathLike[str] | None,
) -> AbstractContextManager[SqliteStore]:
    """The given store, a new one in memory, or a file that is open while needed."""
    if isinstance(store, SqliteStore):
        return nullcontext(store)
    return MemoryStore() if store is None else SqliteStore(store)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrainingCheck(Displayed, view="measured.TRAINING_CHECK"):
    """Result of training the first models of a plan.

    Attributes
    ----------
    losses
        By variant name, losses of the first base without and with the challenge point; for canaries,
        excluded and included ones.
    models_done, models_trained
        Models whose losses are in the store, and how many of them were trained by this check.
    seconds_per_model
        Training time per model on one worker; None if there was nothing left to train.
    workers
        Number of models that will be trained at the same time.
    failures
        Models that failed in this check although others of their hypothesis did not.
    warnings
        Anything that looks wrong, one sentence each.
    """

    plan: Plan
    losses: dict[str, tuple[list[float], list[float]]]
    models_done: int
    models_trained: int
    seconds_per_model: float | None
    workers: int
    failures: list[Failure]
    warnings: list[str]

    @property
    def models(self) -> int:
        """Number of models in the plan."""
        return self.plan.sizes.models

    @property
    def seconds_left(self) -> float:
        """Approximate time for training the rest."""
        left = self.models - self.models_done
        return seconds_for(left, self.seconds_per_model or 0.0, self.workers)

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        numbers = ("models", "models_done", "models_trained", "workers", "seconds_per_model")
        return {name: getattr(self, name) for name in (*numbers, "seconds_left")} | {
            "losses": [
                {"variant": name, "losses_h0": without, "losses_h1": with_point}
                for name, (without, with_point) in self.losses.items()
            ],
            "models_failed": [failure.described() for failure in self.failures],
            "warnings": self.warnings,
        }


def check_training(
    plan: Plan,
    store: SqliteStore | str | PathLike[str] | None = None,
    *,
    executor: str | Executor = "serial",
    workers: int | None = None,
    accept_changed_code: bool = False,
    on_progress: OnProgress = None,
) -> TrainingCheck:
    """Train only the first models of a plan, to check that training works and estimate the total time.

    Trains one model with the challenge point and two without, whose losses must differ; for
    `OneRun`, one run.  Their losses are kept, so nothing is trained twice.  Parameters and errors
    are those of `measure`.
    """
    with opened_store(store) as opened:
        opened.prepare(plan, accept_changed_code=accept_changed_code)
        messages: list[str] = []
        slots = planned_slots(executor, workers)
        with progress_of(on_progress, messages.append, state=_first_done) as callbacks:
            run = Run(plan, opened, RETRIES, *callbacks)
            run.first_models.begin(opened, schedule=True)
            run.first_models.alone = True
            if run.first_models.waiting:
                # Two workers are enough, and each has to load the data.
                pool = open_pool(executor, plan, workers=min(2, slots))
                slots = max(slots, pool.slots)
                run.train_on(pool)
        if run.failed and not run.reused + run.trained:
            first = run.failed[0]
            streak = Streak(tasks=tuple(failure.task for failure in run.failed), trained=False)
            raise training_error(streak, plan.sizes, first, opened)
        return TrainingCheck(
            plan=plan,
            losses=first_losses(opened, plan.sizes),
            models_done=run.reused + run.trained,
            models_trained=run.trained,
            seconds_per_model=run.first_models.pace.best if run.first_models.pace.chunks else None,
            workers=slots,
            failures=sorted(run.failed),
            warnings=[text.removeprefix(WARNING) for text in messages if text.startswith(WARNING)],
        )


def _first_done(state: Progress) -> tuple[str, None, None]:
    return f"{state.trained:,} of the first models trained", None, None


def first_losses(store: SqliteStore, sizes: Sizes) -> dict[str, tuple[list[float], list[float]]]:
    """Losses of the first base in a store, per variant, under H0 and H1.

    For a pool: per model, the mean over excluded points and the mean over included points.
    """
    losses: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in sizes.variants}
    for model in store.pool_rows(sizes) if sizes.points else ():
        # For a pool, the mean over points: one number per model.
        for hypothesis, side in enumerate((~model.member, model.member)):
            if side.any():
                losses[model.variant][hypothesis].append(float(model.losses[side].mean()))
    for row in store.rows(sizes._replace(challenge_bases=1)):
        losses[row.variant][row.hypothesis].append(row.loss)
    return losses


def _result(run: Run) -> Measurement:
    """All losses of a run that has ended."""
    sizes = run.sizes
    if not run.trained + run.reused:
        reason = run.failed[0] if run.failed else None
        detail = f" ({sizes.named(reason.task)}: {reason.message})" if reason else ""
        raise EpsilometerError(f"no model could be trained{detail}.")
    accounted = run.trained + run.reused + len(run.failed)
    if accounted != sizes.models:
        raise EpsilometerError(
            f"{accounted} models are accounted for, but {sizes.models} were planned; "
            "losses received so far are kept: run again."
        )
    return Measurement(
        plan=run.plan,
        losses={name: run.store.measured(sizes, name) for name in sizes.variants},
        trained=run.trained,
        reused=run.reused,
        failures=run.store.failures(sizes),
    )


UNEQUAL = (
    "the accountant counted different steps or sampling rates with more records than with fewer, and "
    "this alone distinguishes the datasets; the claim is the largest epsilon of the models trained. "
    "Choose a number of records at which one more record adds no batch, or state the claim."
)


@dataclass(frozen=True, kw_only=True, repr=False)
class LargestClaim(Displayed):
    """A guarantee that covers several models: the largest of their epsilons."""

    claims: tuple[TrainingClaim, ...]

    def claimed_epsilon(self, delta: float) -> float:
        # Compute equal guarantees once: accountants are slow.
        new = (claim for n, claim in enumerate(self.claims) if claim not in self.claims[:n])
        return max(claim.claimed_epsilon(delta) for claim in new)

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
    if not algorithm.accounts:
        return ()
    base = plan.bases[0]
    if isinstance(base, PoolBase):
        # Its models have different dataset sizes: the smallest has the largest sampling rate, the
        # largest may take more steps.
        sizes = [int(base.member(number).sum()) for number in range(plan.sizes.models)]
        ends = {sizes.index(min(sizes)), sizes.index(max(sizes))}
        return tuple(Task(0, 0, number) for number in sorted(ends))
    return tuple(Task(0, hypothesis, 0) for hypothesis, _ in plan.design.groups(base))


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
