"""Counts: what is accepted, what is refused, and the symmetric cases that count as one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts

HEADER = "false_positives,trials_h0,false_negatives,trials_h1"


def test_broadcast_and_rates() -> None:
    counts = AttackCounts(
        false_positives=[1, 2], trials_h0=10, false_negatives=[0, 5], trials_h1=[5, 5]
    )
    assert len(counts) == 2
    assert counts.false_positive_rates.tolist() == [0.1, 0.2]
    assert counts.names == ("0", "1")


@pytest.mark.parametrize(
    ("x", "n0", "y", "n1", "message"),
    [
        ([11], 10, [0], 10, "0 <= false_positives <= trials_h0, got false_positives=11"),
        ([-1], 10, [0], 10, "false_positives=-1"),
        ([0], 0, [0], 10, "trials_h0=0"),
        ([0.5], 10, [0], 10, "whole numbers"),
        ([float("nan")], 10, [0], 10, "finite"),
        ([1, 2, 3], 10, [0, 1], 10, "equally many"),
        ([], 10, [], 10, "at least one"),
        (["a"], 10, [0], 10, "whole numbers"),
        ([0], 10**17, [0], 10, "1e\\+15"),
    ],
)
def test_refused(x: object, n0: object, y: object, n1: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AttackCounts(false_positives=x, trials_h0=n0, false_negatives=y, trials_h1=n1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty file"),
        (HEADER, "at least one challenge base"),
        ("a,b\n1,2", "missing false_positives"),
        (HEADER + ",extra\n1,2,1,2,3", "unknown column 'extra'"),
        (HEADER + "\n1,2,1", "row 2: expected 4 cells, got 3"),
        (HEADER + "\n1,2,1,2\n12,10,0,10", "row 3: expected 0 <= false_positives <= trials_h0"),
        (HEADER + "\n1.5,10,0,10", "row 2: expected a whole number"),
        (HEADER + "\nnan,10,0,10", "false_positives='nan'"),
        (HEADER + "\n1,10,0,99999999999999999999", "whole number"),
        (HEADER + "\n-1,10,0,10", "false_positives=-1"),
        (HEADER + "\n0,0,0,10", "trials_h0=0"),
        ('[{"false_positives": 1}]', "item 1: expected columns"),
        ("[1]", "item 1: expected an object"),
        ("{}", "expected a list"),
        ("[", "not valid JSON"),
        (
            '[{"false_positives": NaN, "trials_h0": 1, "false_negatives": 0, "trials_h1": 1}]',
            "whole numbers, got NaN",
        ),
    ],
)
def test_bad_files_are_named_with_their_row(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        AttackCounts.parse(text, name="counts.csv")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("counts.csv")


def test_csv_and_json_agree() -> None:
    csv = HEADER + ",challenge_base\n1,10,2,20,<script>\n0,5,5,5,é\n"
    json = (
        '[{"false_positives":1,"trials_h0":10,"false_negatives":2,"trials_h1":20,'
        '"challenge_base":"<script>"},{"false_positives":0,"trials_h0":5,"false_negatives":5,'
        '"trials_h1":5,"challenge_base":"é"}]'
    )
    assert AttackCounts.parse(csv, name="a") == AttackCounts.parse(json, name="b")


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.data()), min_size=1, max_size=6))
def test_distinct_keeps_every_base(rows: list[tuple[int, int, st.DataObject]]) -> None:
    x = [data.draw(st.integers(0, n0)) for n0, _, data in rows]
    y = [data.draw(st.integers(0, n1)) for _, n1, data in rows]
    n0, n1 = [row[0] for row in rows], [row[1] for row in rows]
    plain = AttackCounts(false_positives=x, trials_h0=n0, false_negatives=y, trials_h1=n1)
    turned = AttackCounts(
        false_positives=np.array(n1) - y,
        trials_h0=n1,
        false_negatives=np.array(n0) - x,
        trials_h1=n0,
    )
    first, times = plain.distinct()
    second, again = turned.distinct()
    assert times.sum() == len(rows)
    assert first == second
    assert times.tolist() == again.tolist()
