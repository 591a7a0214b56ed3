"""Columns of scores from CSV and Parquet: both layouts, and one-line errors for everything wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epsilometer.errors import InputError
from epsilometer.model.scores import Scores

HEADER = "challenge_base,hypothesis,score\n"
EXPECTED = Scores(without=[[0.5]], with_point=[[1.5, 2.0]], names=["a"])


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "a,0,0.5\na,1,1.5\na,1,2\n",
        "score,challenge_base,hypothesis\n0.5,a,0\n1.5,a,1\n2.0,a,1\n",
        "challenge_base,hypothesis,replicate,score\na,0,0,0.5\na,1,0,1.5\na,1,1,2\n",
        HEADER + "a,0,0.5\n\n a ,TRUE,1.5\na,true,2e0\n",
        '"challenge_base","hypothesis","score"\n"a","0","0.5"\n"a","1","1.5"\na,1,2\n',
    ],
)
def test_csv_with_a_row_for_each_model(text: str) -> None:
    assert Scores.parse_csv(text, name="scores.csv") == EXPECTED


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(b"\xef\xbb\xbf" + EXPECTED.to_csv().encode())
    assert Scores.read(tmp_path / "s.csv") == EXPECTED


def test_csv_of_canaries() -> None:
    found = Scores.parse_csv("score,member\n0.5,0\n1.5,true\n2,1\n", name="c.csv")
    assert found.names == ("canaries",)
    np.testing.assert_array_equal(found.bases[0].value, EXPECTED.bases[0].value)
    # With several bases, if there is such a column.
    text = "member,score,challenge_base\n0,1,x\n1,2,x\n0,1,y\n1,2,y\n"
    assert Scores.parse_csv(text, name="c.csv").names == ("x", "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header row"),
        (HEADER, "s.csv: expected at least one row, got none"),
        ("challenge_base,score\na,1\n", "missing hypothesis"),
        (HEADER[:-1] + ",loss\na,0,1,2\n", "s.csv row 1: unknown column 'loss'"),
        ("score,member,hypothesis\n1,0,0\n", "unknown column 'hypothesis'"),
        ("challenge_base,hypothesis,score,score\na,0,1,1\n", "column score occurs twice"),
        (
            HEADER + "a,2,0.5\n",
            "s.csv row 2: expected a whole number from 0 to 1 in hypothesis, got",
        ),
        (
            HEADER + "a,,0.5\n",
            "s.csv row 2: expected a whole number from 0 to 1 in hypothesis, got",
        ),
        (HEADER + "a,0,high\n", "s.csv row 2: expected a number in score, got score='high'"),
        (HEADER + "a,0,nan\n", "s.csv: challenge base 'a': expected numbers as scores, got nan"),
        (HEADER + "a,0,1_0\n", "s.csv row 2: expected a number in score"),
        (HEADER + "a,0,0.5\na,1\n", "s.csv row 3: expected 3 cells, got 2"),
        (
            HEADER + "a,0,0.5\n",
            "s.csv: challenge base 'a': expected scores of models with the point",
        ),
        ("score,member\n1,yes\n", "0 to 1 in member, got member='yes'"),
        (HEADER + f"{'a' * 300},0,0.5\n", "at most 200 characters"),
        (HEADER + "a\0,0,0.5\n", "s.csv: expected text, got a NUL byte"),
    ],
)
def test_csv_refusals(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        Scores.parse_csv(text, name="s.csv")
    assert str(caught.value).startswith("s.csv")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(InputError, match="cannot be read"):
            Scores.read(tmp_path / name)


# --- Parquet --------------------------------------------------------------------------------------


def stored(tmp_path: Path, **columns: Any) -> Path:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet(tmp_path: Path) -> None:
    path = stored(
        tmp_path, challenge_base=["a", "a", "a"], hypothesis=[0, 1, 1], score=[0.5, 1.5, 2.0]
    )
    assert Scores.read(path) == EXPECTED
    path = stored(tmp_path, score=[0.5, 1.5, 2.0], member=[False, True, True])
    assert Scores.read(path).names == ("canaries",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"hypothesis": [0, 1], "score": [1.0, 2.0]}, "missing challenge_base"),
        ({"member": [0, 1], "score": [1.0, 2.0], "loss": [1.0, 2.0]}, "unknown column 'loss'"),
        ({"member": [0, 2], "score": [1.0, 2.0]}, "expected 0 <= member <= 1, got member=2"),
        ({"member": [0, 0.5], "score": [1.0, 2.0]}, "0 <= member <= 1, got member=0.5"),
        ({"member": [0, None], "score": [1.0, 2.0]}, "a value in every row of member, got a null"),
        ({"member": [0, 1], "score": [1.0, np.nan]}, "got nan with the point"),
        ({"member": [0, 1], "score": ["a", "b"]}, "expected numbers in score, got string values"),
        ({"member": [0, 0], "score": [1.0, 2.0]}, "with the point (hypothesis 1), got none"),
        (
            {"member": [0.0, np.nan], "score": [1.0, 2.0]},
            "expected 0 <= member <= 1, got member=nan",
        ),
    ],
)
def test_parquet_refusals(columns: dict[str, list[Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Scores.read(stored(tmp_path, **columns))
