"""Commands that sample do so briefly; the files that a module names."""

from __future__ import annotations

from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.cli import options


@pytest.fixture(autouse=True)
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chains of 200 draws, which do not converge."""
    short = em.engines.McmcSettings(num_iterations=200, num_chains=2)
    monkeypatch.setattr(options, "chains_of", lambda engine: short)


@pytest.fixture
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The module's CONFIG as a file of its own."""
    path = tmp_path / "audit.toml"
    path.write_text(request.module.CONFIG)
    return path


@pytest.fixture
def counts(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The module's COUNTS as a file of its own."""
    path = tmp_path / "counts.csv"
    path.write_text(request.module.COUNTS)
    return path
