"""The claim of an algorithm that accounts for its training: of the same models whoever trains them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import epsilometer as em
from epsilometer.judgement.claims import NoPromise
from epsilometer.training.accounting import accounted_epsilon
from tests.cli.shell import Shell

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "opacus"


@cache
def claim_of(epochs: int) -> float:
    """What is promised of the example, with 2 batches in an epoch."""
    return accounted_epsilon([(4.0, 0.5, 2 * epochs)], 1e-2)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example with few models and one epoch, in a folder of its own."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    sys.modules.pop("training", None)
    code = (EXAMPLE / "training.py").read_text()
    assert "range(10)" in code
    (tmp_path / "training.py").write_text(code.replace("range(10)", "range(1)"))
    text = (EXAMPLE / "audit.toml").read_text()
    for old, new in (
        ("challenge_bases = 10", "challenge_bases = 1"),
        ("replicates = 50", "replicates = 4"),
        ('executor = "processes"', 'executor = "serial"'),
        ("delta = 1e-2", 'delta = 1e-2\nmodel = "count"\nlikelihood = "binomial"'),
    ):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "audit.toml"
    path.write_text(text)
    yield path
    sys.modules.pop("training", None)


def edited(config: Path, old: str, new: str) -> Path:
    for path in (config, config.with_name("training.py")):
        if old in path.read_text():
            path.write_text(path.read_text().replace(old, new))
            return config
    raise AssertionError(f"nothing to change: {old}")


def audited(config: Path, shell: Shell, *more: str) -> tuple[Any, str]:
    out, err = shell("audit", config, "--json", *more)
    return json.loads(out), err


@pytest.mark.slow
def test_the_example_is_held_against_its_accountant(config: Path, shell: Shell) -> None:
    first, err = audited(config, shell)
    assert (first["claim"]["epsilon"], first["claim"]["source"]) == (claim_of(1), "algorithm")
    assert err.startswith(
        "epsilometer: no claim is stated, so 2 models are trained first: the claim"
    )
    assert first["models_trained"] == 8
    # The store has all models; the claim is found again.
    again, _ = audited(config, shell)
    assert again["claim"] == first["claim"]
    assert again["models_trained"] == 0


@pytest.mark.slow
def test_workers_may_train(config: Path, shell: Shell) -> None:
    found, _ = audited(config, shell, "--executor", "processes", "--workers", "1")
    assert found["claim"]["epsilon"] == claim_of(1)
    assert found["models_trained"] == 8


def test_reading_a_configuration_trains_nothing(config: Path) -> None:
    edited(
        config,
        "def fit(module, dataset, without_noise=False):",
        "def fit(module, dataset):\n    1 / 0",
    )
    found = em.rows.read_audit(config)
    assert found.claim is None
    said: list[str] = []
    with pytest.raises(
        em.errors.TrainingError, match=r"\[algorithm\] training failed \(ZeroDivisionError"
    ):
        found.with_training_claim(said.append)
    stated = em.rows.read_audit(config, tables={"estimate": {"claim": 2.0}})
    assert stated.with_training_claim(said.append) is stated
    assert len(said) == 1


def test_a_promise_about_other_neighbours_is_left_aside(config: Path) -> None:
    edited(config, 'adjacency = "include"', 'adjacency = "replace"')
    found = em.rows.read_audit(config).with_training_claim(lambda _: None)
    assert found.claim is None
    assert "replaces records, so the promise is left aside" in found.warnings[0]


def test_other_deltas_and_doubts(config: Path) -> None:
    edited(config, "dataset_size = 98", "dataset_size = 100")
    edited(config, "PrivacyEngine()", 'PrivacyEngine(accountant="rdp")')
    said: list[str] = []
    found = em.rows.read_audit(config).with_training_claim(said.append)
    assert len(said) == 1
    assert found.warnings[0].startswith("the accountant counted different steps or sampling rates")
    assert found.claim is not None
    assert found.claim.stated(1e-2) == found.claim.epsilon
    assert found.claim.stated(1e-1) < found.claim.epsilon < found.claim.stated(1e-3)


@pytest.mark.parametrize("adjacency", ["include", "replace"])
def test_without_noise_nothing_is_promised(config: Path, adjacency: str) -> None:
    edited(config, "noise_multiplier=4.0", "noise_multiplier=0.0")
    edited(config, 'adjacency = "include"', f'adjacency = "{adjacency}"')
    claim = em.rows.read_audit(config).with_training_claim(lambda _: None).claim
    assert claim is not None
    assert claim.stated == NoPromise("its accountant states an infinite epsilon")


def test_an_engine_that_is_not_returned(config: Path, shell: Shell) -> None:
    edited(config, "    return privacy_engine\n", "")
    err = shell("audit", config, code=2)[1].splitlines()
    assert len(err) == 2
    assert "[algorithm] training failed (InputError: expected fit to return the Priv" in err[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fails"), [("algorithm", False), ("broken", True)])
def test_forgotten_noise_fails(config: Path, name: str, fails: bool) -> None:
    """The accountant says the same of both."""
    edited(config, "challenge_bases = 1", "challenge_bases = 4")
    edited(config, "replicates = 4", "replicates = 30")
    edited(config, "range(1)", "range(10)")
    edited(config, "training:algorithm", f"training:{name}")
    settings = em.rows.read_audit(config).with_training_claim(lambda _: None)
    assert settings.claim is not None
    assert settings.claim.epsilon == claim_of(10)
    scores = em.attacks.scores_of(em.measure(settings.plan).only)
    posterior = em.estimate(scores, em.CurveModel(delta=settings.delta))
    verdict = em.judge(posterior, claim=claim_of(10))
    assert verdict.label.startswith("FAIL") is fails
