"""Commands that sample do so briefly."""

from __future__ import annotations

import pytest

import epsilometer as em
from epsilometer.cli import options


@pytest.fixture(autouse=True)
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chains of 200 draws, which do not converge."""
    short = em.engines.McmcSettings(num_iterations=200, num_chains=2)
    monkeypatch.setattr(options, "chains_of", lambda engine: short)
