"""The studies by name; each has a ``plan``, and ``blocks`` of text and tables for its page."""

from __future__ import annotations

from typing import Protocol

from studies import (
    auditors,
    conditional,
    count,
    curve,
    groups,
    one_run,
    planning,
    pool,
    proofs,
    verdicts,
)
from studies.runner import Plan
from studies.tables import Tables


class Study(Protocol):
    """What a module of a study offers."""

    def plan(self, *, quick: bool = False) -> Plan:
        """The whole plan, or a quick form of it."""

    def blocks(self, tables: Tables, significance: float) -> dict[str, str]:
        """Text and tables by the mark of their place on the page."""


STUDIES: dict[str, Study] = {
    "count": count,
    "curve": curve,
    "proofs": proofs,
    "verdicts": verdicts,
    "one-run": one_run,
    "conditional": conditional,
    "pool": pool,
    "groups": groups,
    "planning": planning,
    "auditors": auditors,
}

#: Pages of studies that are not in ``calibration.md``, relative to ``docs/``.
PAGES = {"groups": "how-to/counts.md", "planning": "how-to/planning.md", "auditors": "auditors.md"}
