"""The first models: estimating the total time from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.errors import TrainingError
from epsilometer.measurement.engine import check_training, measure
from epsilometer.measurement.first_models import Pace, time_sentence
from epsilometer.measurement.store import MemoryStore
from tests.measurement.algorithms import ManyAtOnce, NoisyMean, noted, one_run_plan, plan, pool_plan
from tests.measurement.test_engine import Recorder


@pytest.mark.parametrize(
    ("models", "seconds", "workers", "expected"),
    [
        (4000, 0.36, 2, "about 12 min for 4,000 models with 2 workers"),
        (1, 7200.0, 8, "about 2.0 h for 1 model with 8 workers"),
        (10, 3.0, 1, "about 30 s for 10 models with 1 worker"),
    ],
)
def test_time_in_words(models: int, seconds: float, workers: int, expected: str) -> None:
    assert time_sentence(models, seconds, workers) == expected


def test_the_first_model_of_a_worker_does_not_count() -> None:
    pace = Pace()
    for seconds in (9.0, 8.0, 0.1):
        assert not pace.known(2)
        pace.add(1, seconds)
    assert pace.known(1)
    pace.add(4, 0.8)
    assert pace.known(2)
    assert pace.best == 0.1


def test_the_time_is_reported_once_and_only_if_long() -> None:
    said: list[str] = []
    measure(plan(replicates=50), executor=Recorder(slots=1, seconds=0.5), on_message=said.append)
    assert said == ["about 2 min for 200 models with 1 worker"]
    measure(plan(replicates=50), executor=Recorder(slots=1, seconds=1e-3), on_message=said.append)
    assert len(said) == 1


def test_models_of_each_hypothesis_of_the_first_base_come_first() -> None:
    recorder = Recorder(slots=1)
    measure(plan(bases=5, replicates=20), executor=recorder)
    assert [chunk[:2] for chunk in recorder.chunks[:3]] == [(0, 0), (0, 1), (0, 0)]
    assert recorder.sizes[:3] == [1, 1, 1]


def test_a_resumed_run_has_no_first_models() -> None:
    store = MemoryStore()
    measure(plan(bases=1, replicates=3), store)
    recorder = Recorder(slots=1)
    measure(plan(bases=1, replicates=40), store, executor=recorder)
    assert recorder.sizes[:3] == [1, 2, 4]  # grow at once instead of three chunks of one


def test_batches_are_tried_as_batches(tmp_path: object) -> None:
    algorithm = ManyAtOnce(log=f"{tmp_path}/log", batch_size=4)
    trial = check_training(plan(algorithm, replicates=20))
    assert trial.models_trained == len(noted(algorithm.log)) == 8
    assert list(map(len, trial.losses[""])) == [4, 4]


def test_a_run_with_canaries_is_checked_as_a_whole() -> None:
    trial = check_training(one_run_plan(runs=3, canaries=20))
    assert (trial.models, trial.models_trained) == (3, 1)
    assert sum(map(len, trial.losses[""])) == 20


def test_checking_again_trains_others_until_nothing_is_left() -> None:
    store, wanted = MemoryStore(), plan(bases=1, replicates=3)
    done = [check_training(wanted, store).models_done for _ in range(4)]
    assert done == [3, 5, 6, 6]
    trial = check_training(wanted, store)
    assert trial.seconds_per_model is None
    assert trial.seconds_left == 0
    assert measure(wanted, store).trained == 0


def test_the_time_left_follows_from_the_pace() -> None:
    trial = check_training(plan(NoisyMean(seconds=0.01), replicates=20), workers=1)
    assert trial.seconds_per_model is not None
    assert 0.01 <= trial.seconds_per_model < 1
    assert trial.seconds_left == pytest.approx(77 * trial.seconds_per_model)
    assert trial.described()["models_trained"] == 3


class Refuses(NoisyMean):
    """Always fails, with its number of records in the message: in a pool the numbers differ."""

    def train(self, dataset: Any, rng: np.random.Generator) -> Any:
        raise ValueError(f"expected images, got {len(dataset)} records")


@pytest.mark.parametrize("only_first", [False, True])
def test_errors_that_differ_in_numbers_are_alike(only_first: bool, tmp_path: Path) -> None:
    """So a pool that cannot be trained is given up early, also when it is only checked."""
    begin = check_training if only_first else measure
    with pytest.raises(
        TrainingError, match=r"no model could be trained .* expected images"
    ) as ended:
        begin(pool_plan(Refuses(), models=30), tmp_path / "store.db")
    assert "in train" in ended.value.traceback
    assert "stopped after 2 of 30" in str(ended.value)
