"""Trying an audit out: its first models only, with what they tell of all."""

from __future__ import annotations

from concurrent.futures import Executor
from os import PathLike

from epsilometer.measurement.engine import RETRIES, Run, opened_store
from epsilometer.measurement.executors import open_pool, planned_slots
from epsilometer.measurement.failures import Alike, training_error
from epsilometer.measurement.first_models import WARNING, TrainingCheck
from epsilometer.measurement.plan import Plan, Sizes
from epsilometer.measurement.store import Store


def check_training(
    plan: Plan,
    store: Store | str | PathLike[str] | None = None,
    *,
    executor: str | Executor = "serial",
    workers: int | None = None,
    accept_changed_code: bool = False,
) -> TrainingCheck:
    """Train the first models of a plan only, to see that it works and how long all of it will take.

    One model with the challenge point and two without, whose losses must differ; of `MeasureOneRun` one
    run.  Their losses are kept, so that nothing is trained twice.  Parameters and errors are those of
    `measure`.
    """
    with opened_store(store) as opened:
        opened.prepare(plan, accept_changed_code=accept_changed_code)
        said: list[str] = []
        run = Run(plan, opened, RETRIES, None, said.append)
        run.first_models.begin()
        run.first_models.alone = True
        slots = planned_slots(executor, workers)
        if run.first_models.waiting:
            # Two are enough, and each has something to load.
            pool = open_pool(executor, plan, workers=min(2, slots))
            slots = max(slots, pool.slots)
            run.train_on(pool)
        if run.failed and not run.reused + run.trained:
            first = run.failed[0]
            alike = Alike(
                message=first.message, tasks=tuple(each.task for each in run.failed), trained=False
            )
            raise training_error(alike, plan.sizes, first, opened)
        return TrainingCheck(
            plan=plan,
            losses=first_losses(opened, plan.sizes),
            models_done=run.reused + run.trained,
            models_trained=run.trained,
            seconds_per_model=run.first_models.pace.best if run.first_models.pace.chunks else None,
            workers=slots,
            failures=sorted(run.failed),
            warnings=[text.removeprefix(WARNING) for text in said if text.startswith(WARNING)],
        )


def first_losses(store: Store, sizes: Sizes) -> dict[str, tuple[list[float], list[float]]]:
    """Losses of the first base that a store holds, for each variant, under H0 and H1.

    Of a pool for each model the mean over points that were left out, and over those that were in.
    """
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in sizes.variants}
    for model in store.pool_rows(sizes) if sizes.points else ():
        # Of a pool the mean over points, one number for each model.
        for hypothesis, side in enumerate((~model.member, model.member)):
            if side.any():
                found[model.variant][hypothesis].append(float(model.losses[side].mean()))
    for row in store.rows(sizes._replace(challenge_bases=1)):
        found[row.variant][row.hypothesis].append(row.loss)
    return found
