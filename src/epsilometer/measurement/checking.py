"""Trying out an audit: train its first models only and report what they show."""

from __future__ import annotations

from concurrent.futures import Executor
from os import PathLike

from epsilometer._progress import OnProgress, progress_of
from epsilometer.measurement.engine import RETRIES, Run, opened_store
from epsilometer.measurement.executors import open_pool, planned_slots
from epsilometer.measurement.failures import Streak, training_error
from epsilometer.measurement.first_models import WARNING, TrainingCheck
from epsilometer.measurement.plan import Plan, Sizes
from epsilometer.measurement.rows import Progress
from epsilometer.measurement.store import SqliteStore


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
            streak = Streak(
                message=first.message,
                tasks=tuple(failure.task for failure in run.failed),
                trained=False,
            )
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
