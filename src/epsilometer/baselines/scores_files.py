"""Scores of canaries as CSV: the columns ``score`` and ``member`` (0 or 1), a row for each canary."""

from __future__ import annotations

import math

from epsilometer import _files
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.model.score_tables import LABELS, MEMBER, SCORE, header_of

COLUMNS = (SCORE, MEMBER)


def looks_like_scores(text: str) -> bool:
    """Whether the header has a column of scores."""
    return SCORE in header_of(text)


def parse(text: str, *, name: str) -> CanaryScoreAuditor:
    r"""Read CSV text; ``name`` stands for the file in error messages.

    Examples
    --------
    >>> auditor = parse("score,member\n2.5,1\n0.3,0\n", name="scores.csv")
    >>> auditor.num_in, auditor.num_out
    (1, 1)
    """
    groups: dict[int, list[float]] = {1: [], 0: []}
    for record, place in _files.records(text, COLUMNS, name=name):
        given, truth = (record[column].strip() for column in COLUMNS)
        member, score = LABELS.get(truth.lower()), _files.number(given)
        if member is None:
            raise InputError(f"{place}: expected member to be 0 or 1, got {_files.shown(truth)}.")
        if score is None or not math.isfinite(score):
            raise InputError(
                f"{place}: expected score to be a finite number, got {_files.shown(given)}."
            )
        groups[member].append(score)
    for member, scores in groups.items():
        if not scores:
            raise InputError(f"{name}: expected scores with member {member}, got none.")
    return CanaryScoreAuditor(groups[1], groups[0])
