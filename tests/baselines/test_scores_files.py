"""Score files: what is read, and what is refused with its row."""

from __future__ import annotations

import pytest

from epsilometer.baselines import scores_files
from epsilometer.errors import InputError


def test_columns_and_rows_in_any_order() -> None:
    text = "member,score\n1,2.5\n0,-1e3\nTrue,0.5\nfalse,7\n"
    auditor = scores_files.parse(text, name="scores.csv")
    members, others = auditor.in_order
    assert members.tolist() == [0.5, 2.5]
    assert others.tolist() == [-1000.0, 7.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score,member\n1,1\n2,2\n", "row 3.*member to be 0 or 1"),
        ("score,member\n1,1\nhigh,0\n", "row 3.*score to be a finite number"),
        ("score,member\nnan,1\n1,0\n", "row 2.*score to be a finite number"),
        ("score,member\ninf,1\n1,0\n", "row 2.*score to be a finite number"),
        ("score,member\n1,1\n", "scores with member 0, got none"),
        ("score,member\n1,0\n", "scores with member 1, got none"),
        ("score,group\n1,0\n", "member"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scores_files.parse(text, name="scores.csv")


def test_a_header_tells_scores_from_counts() -> None:
    assert scores_files.looks_like_scores('\ufeff"score", member\n1,1\n')
    assert not scores_files.looks_like_scores("false_positives,trials_h0\n1,2\n")
