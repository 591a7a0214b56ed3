"""``examples/text`` in a small size: the loop of one's own, the audit file, and what they rest on."""

from __future__ import annotations

import importlib
import json
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import epsilometer as em
from epsilometer.cli.main import run
from epsilometer.measurement.plan import Task, training_stream
from tests.docs.scripts import ROOT

#: Many passes over few records, so that a small model learns canaries by heart.
SMALL = {"count": 80, "records": 40, "pretraining": 200, "epochs": 10}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the example, whose modules can be imported until the test ends."""
    place = tmp_path / "text"
    shutil.copytree(ROOT / "examples" / "text", place, ignore=shutil.ignore_patterns("*.npz"))
    monkeypatch.syspath_prepend(str(place))
    threads = torch.get_num_threads()
    yield place
    torch.set_num_threads(threads)
    for name in ("fine_tuning", "own_loop"):
        sys.modules.pop(name, None)


def imported(name: str) -> Any:
    return importlib.import_module(name)


def test_the_loop_prints_a_line_for_each_kind_and_score(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported("own_loop").main(folder, **SMALL)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    kinds = ("unused-tokens", "random-tokens")
    assert [tuple(row[:2]) for row in rows] == [
        (kind, score) for kind in kinds for score in ("alone", "compared")
    ]
    # Learnt by heart: canaries of either kind that were in are told from the others.  A model that
    # learnt nothing of them has 0.5 with a standard deviation of 0.065.
    assert min(float(rows[n][2]) for n in (0, 2, 3)) > 0.8
    for kind in kinds:
        assert len(em.Canaries.read(folder / f"{kind}.npz")) == SMALL["count"]


def test_canaries_that_were_not_trained_on_are_not_told_apart(folder: Path) -> None:
    """Control: the same scores of a model that saw none of them."""
    loop, training = imported("own_loop"), imported("fine_tuning")
    loop.train(folder, **(SMALL | {"epochs": 0}))
    before = training.pretrained(SMALL["pretraining"])
    after = training.FineTuning(epochs=10, pretraining=SMALL["pretraining"]).train(
        em.rows.Dataset(features=training.toy_text(40, np.random.default_rng(3))),
        np.random.default_rng(4),
    )
    for scores in loop.audit(folder, before, after).values():
        # Three standard deviations of an AUC by chance.
        assert abs(scores.bases[0].auc() - 0.5) < 0.2


def test_the_audit_file_is_the_same_audit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(folder / "corpus.py"), run_name="__main__")
    config = folder / "one-run.toml"
    text = config.read_text()
    for old, new in (
        ("canaries = 1000", "canaries = 80"),
        ("dataset_size = 4000", "dataset_size = 40"),
        ("{ epochs = 2 }", "{ epochs = 10, pretraining = 200 }"),
    ):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    assert run(["audit", str(config), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["canary_kind"] == "fine_tuning:random_tokens"

    plan: Any = em.rows.read_audit(config).plan
    (drawn,) = plan.bases
    stream = training_stream(1, Task(0, int(drawn.coins[0]), 0))
    dataset = drawn.canaries.added_to(plan.population.take(drawn.dataset))
    model = plan.algorithm.train(dataset, stream)
    points = drawn.canaries.points
    scores = drawn.canaries.scores(
        plan.algorithm.losses(model, points),
        compared_with=plan.algorithm.losses(plan.algorithm.initial_model(dataset, stream), points),
    )
    assert found["bases"][0]["auc"] == scores.bases[0].auc() > 0.8


def test_losses_at_once_are_those_one_by_one(folder: Path) -> None:
    training = imported("fine_tuning")
    algorithm = training.FineTuning(epochs=1, pretraining=200)
    tokens = training.token_sequences(5, np.random.default_rng(1))
    model = algorithm.initial_model(None, None)
    together = algorithm.losses(model, em.rows.Dataset(features=tokens))
    alone = [algorithm.loss(model, em.rows.Point(features=row)) for row in tokens]
    # Single precision; a loss is about 100.
    assert together == pytest.approx(alone, rel=1e-5)


def test_training_leaves_the_pretrained_model_as_it_was(folder: Path) -> None:
    training = imported("fine_tuning")
    algorithm = training.FineTuning(epochs=1, pretraining=200)
    text = em.rows.Dataset(features=training.toy_text(50, np.random.default_rng(1)))
    before = algorithm.losses(algorithm.initial_model(text, None), text)
    after = algorithm.losses(algorithm.train(text, np.random.default_rng(1)), text)
    assert (algorithm.losses(algorithm.initial_model(text, None), text) == before).all()
    assert after.mean() < before.mean()


def test_no_place_sees_what_comes_after_it(folder: Path) -> None:
    training = imported("fine_tuning")
    model = training.Transformer().eval()
    tokens = torch.tensor(training.toy_text(1, np.random.default_rng(1)))
    changed = tokens.clone()
    changed[0, 8] = training.VOCABULARY - 1
    with torch.no_grad():
        difference = (model(tokens) - model(changed)).abs().sum(dim=2)[0]
    # The score of token 8 is made from those before it; what follows has seen it.
    assert difference[:9].max() < 1e-4 < difference[9:].min()


def test_text_has_no_unused_tokens(folder: Path) -> None:
    training = imported("fine_tuning")
    rng = np.random.default_rng(1)
    assert training.toy_text(500, rng).max() < training.WORDS
    assert training.unused_tokens(None, 50, rng)[0].min() >= training.WORDS
    assert training.random_tokens(None, 50, rng)[0].min() < training.WORDS
