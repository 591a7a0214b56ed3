"""The audit that ships: what `epsilometer audit` does when it is given nothing."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.auditing.config import DEFAULT
from tests.cli.shell import Shell


def test_it_can_be_shown_and_used_as_a_file(tmp_path: Path, shell: Shell) -> None:
    text = shell.said("audit", "--show-config")
    assert tomllib.loads(text) == tomllib.loads(DEFAULT.read_text(encoding="utf-8"))
    copy = tmp_path / "audit.toml"
    copy.write_text(text, encoding="utf-8")
    config = em.rows.read_audit(copy)
    assert config.store == tmp_path / "digits-audit.db"
    assert config.plan.identity == em.rows.read_audit(DEFAULT, folder=tmp_path).plan.identity


def test_a_config_of_ones_own_can_be_shown(tmp_path: Path, shell: Shell) -> None:
    own = tmp_path / "own.toml"
    own.write_text("# mine\n", encoding="utf-8")
    assert shell.said("audit", own, "--show-config") == "# mine\n"


@pytest.mark.slow
def test_its_models_tell_members_from_others(tmp_path: Path) -> None:
    """A small part of it: without noise, points that were trained on have lower losses."""
    config = em.rows.read_audit(DEFAULT, folder=tmp_path)
    plan = replace(config.plan, challenge_bases=6, design=em.CrossFed(replicates=4))
    without, trained_on = em.measure(plan, executor="threads").only.by_hypothesis()
    assert without.shape == trained_on.shape == (6, 4)
    # Easy points are learnt without being seen; on average over six it is a factor of five here.
    assert (np.log(without) - np.log(trained_on)).mean() > 0.7


@pytest.mark.slow
def test_without_a_file_the_store_is_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    """The whole command, on the shipped file made small."""
    small = tmp_path / "shipped" / "default.toml"
    small.parent.mkdir()
    text = DEFAULT.read_text(encoding="utf-8")
    for large, less in (
        ("challenge_bases = 20", "challenge_bases = 2"),
        ("replicates = 100", "replicates = 12"),
        ("epochs = 100", "epochs = 5"),
    ):
        assert large in text
        text = text.replace(large, less)
    small.write_text(text, encoding="utf-8")
    monkeypatch.setattr("epsilometer.auditing.config.DEFAULT", small)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    out = shell.said("audit")
    assert (here / "digits-audit.db").is_file()
    assert "48 models trained now" in out
    assert " at delta = 0.001" in out
