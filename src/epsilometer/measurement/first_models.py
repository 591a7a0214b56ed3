"""The first models of a run: they reveal failures and the total time before everything is trained."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from epsilometer._arrays import OnMessage
from epsilometer._text import counted
from epsilometer.attacks.repeats import FEWEST_EQUAL_LOSSES, equal_losses, first_repeats
from epsilometer.measurement.bases import LossRow, Row
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.store import SqliteStore
from epsilometer.measurement.tasks import Chunk, cut

#: Runs shorter than this are over before anyone has read an estimate of their duration.
SECONDS_WORTH_SAYING = 10.0

#: Longest time in seconds that a worker's first model may spend loading libraries and compiling.
WARM_UP = 30.0


#: Prefix of messages about something wrong.
WARNING = "warning: "


@dataclass(kw_only=True)
class Pace:
    """Training speed, from the fastest chunk so far: slower ones had libraries to load."""

    best: float = float("inf")
    chunks: int = 0

    def add(self, models: int, seconds: float) -> None:
        self.best = min(self.best, seconds / models)
        self.chunks += 1

    def known(self, slots: int) -> bool:
        """Whether a worker has trained twice, or the time is too long to be explained by loading."""
        return self.chunks > slots + 1 or (self.chunks > 1 and self.best > WARM_UP)


@dataclass(kw_only=True)
class FirstModels:
    """The models of a run that are trained before all others, and messages about them.

    Parameters
    ----------
    groups
        Models per base and hypothesis that the run has yet to hand out; first models are removed from
        it.
    batch_size
        Number of models that are trained at once.
    """

    plan: Plan
    groups: list[Chunk]
    batch_size: int
    on_message: OnMessage
    waiting: deque[Chunk] = field(default_factory=deque)
    pace: Pace = field(default_factory=Pace)
    #: Losses of the first models of the first base, until it is known whether they differ.
    first: list[float] | None = field(default_factory=list)
    time_reported: bool = False
    #: Whether only the first models are to be trained.
    alone: bool = False

    def begin(self, store: SqliteStore, *, schedule: bool) -> None:
        """Check models that were trained before, so that every run warns; schedule new ones."""
        sizes = self.plan.sizes
        if not sizes.canaries and not sizes.points:
            known = store.rows(sizes._replace(challenge_bases=1, variants=sizes.variants[:1]))
            self.check_repeats([row for row in known if row.hypothesis == 0][:FEWEST_EQUAL_LOSSES])
        if not schedule:
            return
        # One model of each hypothesis, and a second one without the challenge point.
        sides = sorted({self.plan.sizes.side(group.hypothesis) for group in self.groups})
        for side in [*sides, 0] if self.batch_size == 1 and len(sides) > 1 else sides:
            self.add(side)

    def add(self, side: int) -> None:
        """Schedule another model of a hypothesis before all others, if one is left."""
        for place, group in enumerate(self.groups):
            if self.plan.sizes.side(group.hypothesis) == side:
                self.waiting.append(cut(self.groups, place, self.batch_size))
                return

    def check_repeats(self, rows: Iterable[Row]) -> None:
        """Warn early if models are identical."""
        sizes = self.plan.sizes
        if self.first is None or sizes.canaries or sizes.points:
            return  # models of a pool have different data, canaries are different points
        first = [row for row in rows if row[:2] == (0, 0) and row.variant == sizes.variants[0]]
        new = [row.loss for row in first if isinstance(row, LossRow)]
        self.first += new
        if new and len(self.first) == 2 and equal_losses(self.first):
            self.add(0)  # two could be a coincidence
        if (text := first_repeats(self.first, self.plan.names[0])) is not None:
            self.on_message(f"{WARNING}{text}")
        if len(self.first) > 2:
            self.first = None

    def report_time(self, done: int, slots: int) -> None:
        """Report once how long the remaining models will take, if that is long."""
        if self.time_reported or not self.pace.known(slots):
            return
        self.time_reported = True
        left = self.plan.sizes.models - done
        if seconds_for(left, self.pace.best, slots) >= SECONDS_WORTH_SAYING:
            self.on_message(time_sentence(left, self.pace.best, slots))


def seconds_for(models: int, seconds_per_model: float, workers: int) -> float:
    """Time for training a number of models."""
    return models * seconds_per_model / max(1, min(workers, models))


def time_sentence(models: int, seconds_per_model: float, workers: int) -> str:
    """``about 12 min for 4,000 models with 2 workers``."""
    whole = duration(seconds_for(models, seconds_per_model, workers))
    return f"about {whole} for {counted(models, 'model')} with {counted(workers, 'worker')}"


def duration(seconds: float) -> str:
    """A duration as text."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
