"""When failures end a run, and what is stored about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epsilometer._arrays import FloatArray
from epsilometer.errors import TrainingError
from epsilometer.measurement import failures, run
from epsilometer.measurement.engine import check_training, measure
from epsilometer.measurement.failures import Streaks, message_of, traceback_of, truncated
from epsilometer.measurement.plan import Task
from epsilometer.measurement.population import Dataset
from epsilometer.measurement.store import SqliteStore
from epsilometer.measurement.tasks import Chunk, TaskFailure, train_chunk
from tests.measurement.algorithms import Faulty, FaultyMany, NoisyMean, noted, one_run_plan, plan


def faulty(tmp_path: Path, *tasks: Task, fault: str = "ValueError", many: bool = False) -> Faulty:
    kind = FaultyMany if many else Faulty
    return kind(faults=tuple((*task, fault) for task in tasks), log=str(tmp_path / "log"))


def all_tasks(hypothesis: int | None = None, bases: int = 4, replicates: int = 30) -> list[Task]:
    tasks = plan(bases=bases, replicates=replicates).tasks()
    return [task for task in tasks if hypothesis in (None, task.hypothesis)]


# --- the words of an error ------------------------------------------------------------------------


class MuteError(Exception):
    """An error that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except type(error) as caught:
        return caught


def test_message_is_one_short_line() -> None:
    assert message_of(ValueError("a\n  b")) == "ValueError: a b"
    assert len(message_of(ValueError("x" * 10_000))) == failures.LONGEST_STORED_MESSAGE
    assert message_of(MuteError()).startswith("MuteError: ")


def test_traceback_has_the_users_part_only(tmp_path: Path) -> None:
    answer = train_chunk(plan(faulty(tmp_path, Task(0, 0, 0))), Chunk(0, 0, (0,)))
    assert isinstance(answer, TaskFailure)
    first, *_ = lines = answer.traceback.splitlines()
    assert "algorithms.py" in first
    assert first.endswith("in train")
    assert not any("epsilometer/measurement" in line for line in lines)
    assert lines[-1] == "on two lines"


def test_an_error_of_ours_has_no_traceback() -> None:
    answer = train_chunk(one_run_plan(), Chunk(0, 0, (0,)))
    assert not isinstance(answer, TaskFailure)
    assert traceback_of(ValueError("never raised")) == ""


def test_traceback_is_bounded_and_printable() -> None:
    text = truncated("\n".join(f"line {n}\x1b[2J\t" + "x" * 999 for n in range(10_000)))
    lines = text.splitlines()
    assert len(lines) == failures.MOST_LINES + 1
    assert max(map(len, lines)) <= failures.LONGEST_LINE
    assert "\x1b" not in text
    assert lines[0].startswith("line 0")
    assert lines[-1].startswith("line 9999")
    assert len(traceback_of(raised(RuntimeError("x" * 10**6)))) < 10_000


# --- when a run ends ------------------------------------------------------------------------------


def streaks(*, before: bool, bases: int = 4, known: dict[Task, str] | None = None) -> Streaks:
    trained = {0: before, 1: before}
    return Streaks(models=1000, bases=bases, trained=trained, known=known or {})


def until_stopped(found: Streaks, tasks: list[Task], message: str = "E") -> int | None:
    for number, task in enumerate(tasks, start=1):
        if found.failed(task.hypothesis, task, message) is not None:
            return number
    return None


def test_the_first_two_models_end_it_but_not_one_again_and_again() -> None:
    assert until_stopped(streaks(before=False), all_tasks(0)) == 2
    assert until_stopped(streaks(before=False), [Task(0, 0, 0)] * 50) is None


def test_a_store_with_models_waits_for_five_and_then_for_twenty() -> None:
    found = streaks(before=True)
    across = sorted(all_tasks(0), key=lambda task: task.replicate)
    assert until_stopped(found, across) == failures.EQUAL_FAILURES
    found.trained(0)
    assert until_stopped(found, across) == failures.EQUAL_FAILURES_LATER


def test_different_errors_are_not_in_a_row() -> None:
    found = streaks(before=False)
    for number, task in enumerate(all_tasks(0)):
        assert found.failed(0, task, "EF"[number % 2]) is None


def test_a_trained_model_in_between_resets_the_count() -> None:
    found = streaks(before=True)
    for task in all_tasks(0):
        assert found.failed(0, task, "E") is None
        found.trained(0)


def test_models_with_the_point_are_counted_by_themselves() -> None:
    found = streaks(before=False)
    for number, task in enumerate(all_tasks(1), start=1):  # noqa: B007 - asked for below
        found.trained(0)
        alike = found.failed(1, task, "E")
        if alike is not None:
            break
    assert (number, alike is not None and alike.only) == (2, " with the challenge point")


def test_one_bad_base_does_not_end_the_others() -> None:
    found = streaks(before=True)
    found.trained(1)
    one = [task for task in all_tasks(1, replicates=60) if task.base == 0]
    assert until_stopped(found, one) is None


def test_models_that_failed_before_do_not_end_a_run() -> None:
    tasks = all_tasks(0)
    assert until_stopped(streaks(before=True, known=dict.fromkeys(tasks, "E")), tasks) is None
    assert until_stopped(streaks(before=True, known=dict.fromkeys(tasks, "F")), tasks) == 5


# --- in runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["serial", "threads"])
@pytest.mark.parametrize("many", [False, True])
def test_failing_code_ends_the_run_after_a_few_models(
    executor: str, many: bool, tmp_path: Path
) -> None:
    algorithm = faulty(tmp_path, *all_tasks(), many=many)
    path = tmp_path / "store.db"
    with pytest.raises(TrainingError, match="no model could be trained") as stopped:
        measure(plan(algorithm, bases=4, replicates=30), path, executor=executor, workers=2)
    assert "algorithms.py" in stopped.value.traceback
    # Two models, and those in progress; several at once fail at the first.
    assert len(noted(tmp_path / "log")) <= 8
    with SqliteStore(path, read_only=True) as store:
        kept = store.failures()
    assert 2 <= len(kept) <= 8
    assert all(failure.traceback == stopped.value.traceback for failure in kept)
    assert {failure.attempts for failure in kept} == {1}


def test_failures_with_the_point_are_detected_early(tmp_path: Path) -> None:
    algorithm = faulty(tmp_path, *all_tasks(1))
    with pytest.raises(TrainingError, match="no model with the challenge point could be trained"):
        measure(plan(algorithm, bases=4, replicates=30))
    assert len(noted(tmp_path / "log")) <= 4


def test_first_models_that_fail_alone_do_not_end_it(tmp_path: Path) -> None:
    first = Task(0, 0, 0), Task(0, 1, 0)
    algorithm = Faulty(
        faults=((*first[0], "ValueError"), (*first[1], "nan")), log=str(tmp_path / "log")
    )
    measured = measure(plan(algorithm, bases=4, replicates=30))
    assert [failure.task for failure in measured.failures] == list(first)
    assert measured.trained == 238


class Breaks(NoisyMean):
    """Works this many times, then fails."""

    fingerprint = "breaks"
    left = 0

    def train(self, dataset: Dataset, rng: np.random.Generator) -> FloatArray:
        type(self).left -= 1
        if self.left < 0:
            raise OSError("no space left")
        return super().train(dataset, rng)


@pytest.mark.parametrize(("works", "tried"), [(50, 20), (0, 5)])
def test_code_that_breaks_ends_the_run_and_losses_are_kept(
    works: int, tried: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a run, and where another run continues."""
    path, before = tmp_path / "store.db", 40
    # Models one by one, in random order: those that work are of both hypotheses.
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(Breaks, "left", before)
    measure(plan(Breaks(), bases=4, replicates=5), path)
    monkeypatch.setattr(Breaks, "left", works)
    said = rf"stopped: \d+ models in a row .*OSError: no space left .*status {path}` has"
    with pytest.raises(TrainingError, match=said):
        measure(plan(Breaks(), bases=4, replicates=100), path)
    with SqliteStore(path, read_only=True) as store:
        assert before <= len(store.rows(store.sizes())) <= before + works
        stopped = len(store.failures())
    assert tried <= stopped < 200
    # At most three times each, and once more for those of a chunk.
    assert -Breaks.left <= 4 * stopped
    monkeypatch.setattr(Breaks, "left", 10**6)
    measured = measure(plan(Breaks(), bases=4, replicates=100), path)
    assert (measured.trained + measured.reused, len(measured.failures)) == (800, stopped)
    with SqliteStore(path, read_only=True) as store:
        assert store.failures() == []


def test_checking_trains_three_models_and_measuring_none_of_them_again(tmp_path: Path) -> None:
    path, log = tmp_path / "store.db", tmp_path / "log"
    wanted = plan(faulty(tmp_path), bases=4, replicates=30)
    trial = check_training(wanted, path)
    assert noted(log) == [Task(0, 0, 0), Task(0, 1, 0), Task(0, 0, 1)]
    assert (trial.models, trial.models_done, trial.models_trained) == (240, 3, 3)
    measured = measure(wanted, path)
    assert (measured.trained, measured.reused) == (237, 3)
    assert len(noted(log)) == len(set(noted(log))) == 240
    without, with_point = trial.losses[""]
    assert measured.only.padded(0)[0, :2].tolist() == without
    assert measured.only.padded(1)[0, :1].tolist() == with_point
