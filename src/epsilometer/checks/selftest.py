"""Self-test with null data: a pipeline that finds epsilon > 0 there is broken.

Null scores contain no information about membership, so the true epsilon is 0 and a lower bound above 0
is a false alarm.  A valid bound raises one in at most ``significance`` of the runs.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.stats import binom

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer._display import Displayed
from epsilometer._progress import OnProgress, progress_of
from epsilometer.attacks.losses import COLUMNS, Losses
from epsilometer.baselines.catalogue import ScoreEstimator
from epsilometer.baselines.estimator import CountEstimator
from epsilometer.baselines.intervals import ClopperPearson, Katz
from epsilometer.baselines.scores import CanaryScoreAuditor, hull_cuts
from epsilometer.errors import InputError

Data = TypeVar("Data")
#: Takes scores of members and of non-members, returns a lower bound of epsilon.
Pipeline = Callable[[FloatArray, FloatArray], float]

#: P-value below which a number of false alarms is not attributed to chance.
CHANCE = 1e-4

#: Bounds of at most this size are 0 up to rounding.
POSITIVE = 1e-9


@dataclass(frozen=True, kw_only=True, repr=False)
class SelfTest(Displayed, view="results.SELF_TEST"):
    """The result of a pipeline on null data."""

    label: str
    runs: int
    alarms: int
    largest: float
    significance: float

    @property
    def broken(self) -> bool:
        """Whether there were more alarms than a valid bound would raise by chance."""
        return bool(binom.sf(self.alarms - 1, self.runs, self.significance) <= CHANCE)


def null_scores(runs: int, canaries: int, *, seed: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Scores of members and non-members from the same distribution; membership is a coin flip."""
    canaries = _validate.whole_number("canaries", canaries, least=4)
    seed = _validate.whole_number("seed", seed, least=0)
    for run in range(_validate.whole_number("runs", runs)):
        rng = np.random.default_rng([seed, run])
        member = rng.random(canaries) < 0.5
        while not 0 < member.sum() < canaries:
            member = rng.random(canaries) < 0.5
        rng.random(canaries)  # not used; a seed keeps its scores
        scores = rng.standard_normal(canaries)
        yield scores[member], scores[~member]


def check_pipeline(
    pipeline: Pipeline,
    *,
    label: str,
    runs: int = 200,
    canaries: int = 400,
    significance: float = 0.05,
    seed: int = 1,
    on_progress: OnProgress = None,
) -> SelfTest:
    """Apply a pipeline to null scores and count its false alarms.

    Examples
    --------
    >>> always = check_pipeline(lambda members, others: 1.0, label="always 1", runs=20)
    >>> always.alarms, always.broken
    (20, True)
    """

    def bounds(scores: tuple[FloatArray, FloatArray]) -> dict[str, float]:
        return {label: number_of(pipeline(*scores), label)}

    def state(done: int, total: int) -> tuple[str, int, int]:
        return f"{done:,} of {total:,} runs", done, total

    drawn = null_scores(runs, canaries, seed=seed)
    with progress_of(on_progress, state=state) as (progress, _):
        return count_alarms(drawn, runs, bounds, significance, progress)[0]


def count_alarms(
    drawn: Iterable[Data],
    runs: int,
    bounds: Callable[[Data], dict[str, float]],
    significance: float,
    on_progress: Callable[[int, int], None] | None,
) -> list[SelfTest]:
    """One test per labelled bound, all on the same null data."""
    by_label: dict[str, list[float]] = {}
    for run, data in enumerate(drawn, start=1):
        for label, bound in bounds(data).items():
            by_label.setdefault(label, []).append(bound)
        if on_progress is not None:
            on_progress(run, runs)
    return [
        SelfTest(
            label=label,
            runs=runs,
            alarms=sum(bound > POSITIVE for bound in values),
            largest=max(values),
            significance=significance,
        )
        for label, values in by_label.items()
    ]


def number_of(value: object, label: str) -> float:
    """The result of a pipeline, or an error that names the pipeline."""
    a_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not a_number or math.isnan(float(value)):  # type: ignore[arg-type]
        raise InputError(f"{label}: expected a lower bound of epsilon as a number, got {value!r}.")
    return float(value)  # type: ignore[arg-type]


def null_losses(losses: Losses, rng: np.random.Generator) -> Losses:
    """Losses of models without the point only, with a random half per base labelled as with it.

    The attack then sees real losses of the user's own training, without information on membership.
    """
    rows: list[tuple[str, int, int, float]] = []
    for base, name in enumerate(losses.names):
        without = losses.loss[(losses.base == base) & (losses.hypothesis == 0)]
        half = len(without) // 2
        if half < 3:
            raise InputError(
                f"challenge base {name!r}: expected at least 6 models without the point, "
                f"got {len(without)}."
            )
        for place, loss in enumerate(rng.permutation(without)[: 2 * half].tolist()):
            rows.append((name, *divmod(place, half), loss))
    columns: dict[str, Any] = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    return Losses(**columns)


# --- deliberately wrong estimators, which a check must detect -------------------------------------


def uncorrected_scan(estimator: CountEstimator) -> ScoreEstimator:
    """The threshold that looks best, treated as if it had been fixed in advance."""

    def lower(scores: CanaryScoreAuditor, delta: float, significance: float) -> float:
        # Each vertex of the hull gets the whole error.
        counts = scores.counts_of(hull_cuts(*scores.in_order))
        return float(estimator.lower(counts, delta, significance).max())

    label = f"control: uncorrected scan, {estimator.label}"
    assumes = "that no correction for choosing the best threshold is needed, which is wrong"
    return ScoreEstimator(label=label, assumes=assumes, lower=lower)


#: Not for use: without them one could not tell a good check from one that never fails.
CONTROLS = (uncorrected_scan(ClopperPearson()), uncorrected_scan(Katz()))
