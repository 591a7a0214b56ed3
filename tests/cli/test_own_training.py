"""A newcomer's mistakes in training code and files: the message names the mistake and what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from epsilometer import _extras
from epsilometer.cli.main import run
from tests.cli.shell import Shell
from tests.cli.small_audit import own_audit

OWN = """
import numpy as np
class Own:
    def train(self, dataset, rng):
        {train}
    def loss(self, model, point):
        {loss}
algorithm = Own()
"""

OPACUS = """
import epsilometer as em
import torch
def module():
    return torch.nn.Linear(64, 2)
def fit(module, dataset):
    module(torch.zeros(1, 63))  # the wrong number of features
algorithm = em.Opacus(module=module, fit=fit)
"""


def own(folder: Path, name: str, train: str = "return rng.normal()", loss: str = "") -> str:
    return own_audit(folder, name, OWN.format(train=train, loss=loss or "return model"))


class Missing:
    """Makes imports fail as if a library were not installed."""

    def __init__(self, library: str) -> None:
        self.library = library

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self.library:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("module", "extra"), [("torch", "torch"), ("opacus", "torch"), ("sklearn", "sklearn")]
)
def test_a_missing_library_comes_with_the_command_that_installs_it(
    module: str, extra: str, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(module), *sys.meta_path])
    config = own_audit(tmp_path, f"needs_{module}", f"import {module}\n")
    line = shell.refused("audit", config)
    assert "ModuleNotFoundError" in line
    assert line.endswith(f"To install it: {_extras.advice(extra, module)}")


def test_a_library_of_no_extra_is_only_named(tmp_path: Path, shell: Shell) -> None:
    config = own_audit(tmp_path, "needs_other", "import no_such_library\n")
    line = shell.refused("audit", config)
    assert line.endswith("(ModuleNotFoundError: No module named 'no_such_library').")


def test_a_misspelt_object_is_suggested(tmp_path: Path, shell: Shell) -> None:
    config = Path(own(tmp_path, "misspelt"))
    config.write_text(config.read_text().replace(":algorithm", ":algoritm"))
    line = shell.refused("audit", config)
    assert line.endswith("misspelt has no algoritm; did you mean algorithm?")


@pytest.mark.parametrize(
    ("name", "loss", "expected"),
    [
        ("none", "model", "loss(model, point) returned None; expected a number"),
        ("list", "return [1.0]", "returned a value of type list; expected"),
        ("array", "return np.ones(3)", "returned a value of type ndarray and shape (3,); expected"),
        ("nan", "return float('nan')", "expected a finite loss, got loss=nan"),
    ],
)
def test_a_wrong_loss_is_named_without_promising_a_traceback(
    name: str, loss: str, expected: str, tmp_path: Path, shell: Shell
) -> None:
    line = shell.refused("audit", own(tmp_path, f"wrong_{name}", loss=loss))
    assert line.startswith("epsilometer: no model could be trained (base 0, ")
    assert expected in line
    assert "traceback" not in line


def test_no_model_is_named_with_the_line_that_needs_one(tmp_path: Path, shell: Shell) -> None:
    config = own(tmp_path, "no_model", "model = rng.normal()", "return model.mean()")
    first, *details = shell("audit", config, code=2)[1].splitlines()
    assert "train(dataset, rng) returned None; expected a model (AttributeError" in first
    assert "has the traceback" in first
    assert any("no_model.py" in line and "in loss" in line for line in details)
    # A loss that needs no model is not refused.
    config = own(tmp_path, "no_model_needed", "pass", "return float(np.sum(point.features))")
    config_path = Path(config)
    config_path.write_text(config_path.read_text().replace("seed = 1", 'seed = 1\nstore = "b.db"'))
    assert run(["audit", config, "--check"]) == 0


def test_nan_losses_of_a_module_raise_no_numpy_warning() -> None:
    torch = pytest.importorskip("torch")
    import numpy as np

    from epsilometer.measurement.population import Dataset
    from epsilometer.training.pytorch import cross_entropies

    module = torch.nn.Linear(2, 2)
    with torch.no_grad():
        module.weight.fill_(float("inf"))
    points = Dataset(features=np.ones((3, 2)), labels=np.array([0, 1, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(cross_entropies(module, points)).all()


@pytest.mark.parametrize("claim", [(), ("--claim", "2")], ids=["by training", "stated"])
def test_a_failing_opacus_loop_shows_the_users_line(
    claim: tuple[str, ...], tmp_path: Path, shell: Shell
) -> None:
    pytest.importorskip("opacus")
    name = f"wrong_loop_{len(claim)}"
    config = own_audit(tmp_path, name, OPACUS)
    err = shell("audit", config, *claim, code=2)[1].splitlines()
    shown = next(n for n, line in enumerate(err) if f'{name}.py", line 7, in fit' in line)
    assert "the wrong number of features" in err[shown + 1]
    assert "RuntimeError" in err[-1]
    assert not any("epsilometer/audit" in line or "epsilometer/meas" in line for line in err)


def test_data_given_to_audit(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("false_positives,trials_h0,false_negatives,trials_h1\n1,20,2,20\n")
    line = shell.refused("audit", path)
    assert f"use `epsilometer estimate {path} --delta ...`" in line
    assert run(["estimate", str(path), "--delta", "0.01"]) == 0
    line = shell.refused("audit", tmp_path / "none.csv")
    assert "use `epsilometer" not in line


@pytest.mark.parametrize(
    ("text", "got"), [("a,b\n1,2\n", "'a, b'"), ("a\n1\n", "'a'"), ("", "an empty file")]
)
def test_every_kind_of_table_is_named(text: str, got: str, tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    line = shell.refused("estimate", path, "--delta", "0.01")
    for kind in ("score, member", "hypothesis, replicate, loss", "false_positives, trials_h0"):
        assert kind in line
    assert line.endswith(f"got {got}.")


@pytest.mark.slow
def test_an_interrupt_of_processes_leaks_nothing(tmp_path: Path) -> None:
    code = "import os, pathlib, time; pathlib.Path({!r}, f'pid-{{os.getpid()}}').touch(); time.sleep(20)"
    config = own(tmp_path, "endless", code.format(str(tmp_path)))
    command = [sys.executable, "-m", "epsilometer", "audit", config, "--executor", "processes"]
    process = subprocess.Popen(
        [*command, "--workers", "2"],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 60
        while len(list(tmp_path.glob("pid-*"))) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.startswith("epsilometer: interrupted; finished models are kept")
    assert len(err.splitlines()) == 1
