"""Counts and their files: what is accepted and refused, symmetric cases, how they were measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.errors import InputError
from epsilometer.model.count_tables import MeasuredBy
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.posteriors import trees

HEADER = "false_positives,trials_h0,false_negatives,trials_h1"


def test_broadcast_and_rates() -> None:
    counts = counts_of([1, 2], 10, [0, 5], [5, 5])
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
        ([float("nan")], 10, [0], 10, "whole numbers"),
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
    turned = counts_of(np.array(n1) - y, n1, np.array(n0) - x, n0)
    first, which = plain.distinct()
    second, again = turned.distinct()
    assert len(which) == len(rows)
    assert first == second
    assert which.tolist() == again.tolist()


# --- measurement metadata of counts: kept in every file, and refused if it makes no sense ---------


CROSS = MeasuredBy(design="cross-fed", target_alpha=0.1, statistic="logit")
PLAIN = counts_of([4, 6], 50, [20, 30], 50, names=["a", "b"])
COUNTS = replace(PLAIN, measured=CROSS)


@pytest.mark.parametrize(
    "measured",
    [
        CROSS,
        MeasuredBy(design="independent"),
        MeasuredBy(design="cross-fed", target_alpha=1e-300),
        MeasuredBy(design="independent", statistic='my.module:look, "at" it'),
        MeasuredBy(design="cross-fed", statistic="=1+1"),
        None,
    ],
)
@pytest.mark.parametrize("name", ["counts.csv", "counts.json"])
def test_files_give_back_what_was_written(
    measured: MeasuredBy | None, name: str, tmp_path: Path
) -> None:
    counts = replace(PLAIN, measured=measured)
    counts.write(tmp_path / name)
    assert AttackCounts.read(tmp_path / name) == counts
    assert AttackCounts.parse((tmp_path / name).read_text(), name=name) == counts


def test_nothing_is_written_of_what_is_not_known() -> None:
    assert PLAIN.to_csv().splitlines()[0] == f"challenge_base,{HEADER}"
    only = replace(PLAIN, measured=MeasuredBy(design="independent"))
    assert only.to_csv().splitlines()[0] == f"challenge_base,{HEADER},design"
    assert AttackCounts.parse(PLAIN.to_csv(), name="a").measured is None


def test_it_survives_what_is_done_to_counts() -> None:
    assert COUNTS.take([1]).measured == CROSS
    assert COUNTS.pooled().measured == CROSS
    assert replace(COUNTS, names=("c", "d")).measured == CROSS
    assert COUNTS.joined(COUNTS).measured == CROSS


def test_of_joined_counts_what_is_true_of_all_is_kept() -> None:
    other = replace(PLAIN, measured=replace(CROSS, target_alpha=0.2))
    assert COUNTS.joined(other).measured == replace(CROSS, target_alpha=None)
    independent = replace(PLAIN, measured=replace(CROSS, design="independent"))
    # With two designs, or an unknown one, there is nothing common to all rows.
    assert COUNTS.joined(independent).measured is None
    assert COUNTS.joined(PLAIN).measured is None
    assert PLAIN.joined(COUNTS).measured is None


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        ("design", ["guessed"], r"row 2: expected design to be one of cross-fed, independent"),
        ("design", ["Cross-fed"], "row 2: expected design to be one of"),
        ("design", ["cross-fed", "independent"], "row 3: expected the same design, target_alpha"),
        ("design", ["cross-fed", ""], "row 3: expected the same design"),
        ("design", ["", "cross-fed"], "row 3: expected the same design"),
        (
            "target_alpha",
            ["0.1"],
            "row 2: expected a design .* together with target_alpha, got none",
        ),
        ("statistic", ["loss"], "row 2: expected a design .* together with statistic, got none"),
        ("design,target_alpha", ["cross-fed,0"], "row 2: expected 0 < target_alpha < 1"),
        ("design,target_alpha", ["cross-fed,nan"], "row 2: expected a finite target_alpha"),
        ("design,target_alpha", ["cross-fed,often"], "row 2: expected target_alpha to be a number"),
        ("design,target_alpha", ["cross-fed,1_0"], "row 2: expected target_alpha to be a number"),
        ("design,statistic", ["cross-fed,a\x1b[2Jb"], "row 2: expected a name of printable"),
        ("design,statistic", ["cross-fed,\u202eb"], "row 2: expected a name of printable"),
        ("design,statistic", [f"cross-fed,{'x' * 201}"], "row 2: .* at most 200 characters"),
        ("design,design", ["cross-fed,cross-fed"], "column design occurs twice"),
    ],
)
def test_text_that_cannot_be_is_refused(columns: str, rows: list[str], message: str) -> None:
    text = "\n".join([f"{HEADER},{columns}", *(f"1,10,2,10,{row}" for row in rows)])
    with pytest.raises(InputError, match=message) as caught:
        AttackCounts.parse(text, name="counts.csv")
    assert str(caught.value).startswith("counts.csv")
    assert "\x1b" not in str(caught.value)


def test_empty_columns_say_nothing() -> None:
    text = f"{HEADER},design,target_alpha,statistic\n1,10,2,10,,,\n1,10,2,10, ,,\n"
    assert AttackCounts.parse(text, name="counts.csv").measured is None


@pytest.mark.parametrize(
    "change",
    [
        {"design": ["cross-fed"]},
        {"design": 1},
        {"design": "cross-fed", "target_alpha": True},
        {"design": "cross-fed", "target_alpha": [0.1]},
        {"design": "cross-fed", "statistic": 5},
        {"design": "cross-fed", "statistic": {"name": "loss"}},
        {"target_alpha": 0.1},
    ],
)
def test_json_of_other_kinds_is_refused(change: dict[str, Any]) -> None:
    row = {"false_positives": 1, "trials_h0": 9, "false_negatives": 2, "trials_h1": 9} | change
    with pytest.raises(InputError, match=r"^counts\.json item 1: expected"):
        AttackCounts.parse(json.dumps([row]), name="counts.json")


def test_attacks_say_how_they_measured() -> None:
    rng = np.random.default_rng(1)
    losses = em.Losses(
        challenge_base=["a"] * 70,
        hypothesis=[0] * 35 + [1] * 35,
        replicate=list(range(35)) * 2,
        loss=rng.uniform(0.1, 2.0, 70),
    )
    fast = em.CrossFed(replicates=35).attack(losses, statistic=em.attacks.Logit())
    assert fast.counts(0.2).measured == MeasuredBy(
        design="cross-fed", target_alpha=0.2, statistic="logit"
    )
    own = em.ShadowModels(replicates=7, shadows_h0=2, shadows_h1=2).attack(losses)
    assert own.counts(0.1).measured == MeasuredBy(
        design="independent", target_alpha=0.1, statistic="loss"
    )
    # Several decision rules: what they have in common.
    rules = [em.attacks.OperatingPoint(result=fast, target_alpha=rate) for rate in (0.1, 0.2)]
    assert em.attacks.split_counts(rules).measured == MeasuredBy(
        design="cross-fed", statistic="logit"
    )
    # A result made by hand may omit it.
    assert replace(fast, design=None).counts(0.2).measured is None


# --- posteriors in files ----------------------------------------------------------------------


def test_it_is_part_of_the_digest(tmp_path: Path) -> None:
    import h5py  # type: ignore[import-untyped]

    path = tmp_path / "posterior.nc"
    estimate(COUNTS, em.CountModel(delta=0.01)).save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["measured"] = json.dumps({"design": "independent"})
    with pytest.raises(InputError, match="digest"):
        em.load(path)


def test_files_from_before_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file from before counts had metadata, digest included."""
    path = tmp_path / "posterior.nc"
    monkeypatch.setattr(trees, "LATER_TEXTS", ("batches", "tables"))
    estimate(PLAIN, em.CountModel(delta=0.01)).save(path)
    monkeypatch.undo()
    assert em.load(path).counts.measured is None


@pytest.mark.parametrize(
    "text", ['{"design": "magic"}', "[]", "{", '{"design": "cross-fed", "x": 1}']
)
def test_nonsense_in_a_posterior_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a matching digest."""
    path = tmp_path / "posterior.nc"
    monkeypatch.setattr(MeasuredBy, "columns", lambda _: json.loads("0"))
    monkeypatch.setattr(json, "dumps", _swapped(json.dumps, text))
    estimate(COUNTS, em.CountModel(delta=0.01)).save(path)
    monkeypatch.undo()
    with pytest.raises(InputError):
        em.load(path)


def _swapped(dumps: Any, text: str) -> Any:
    return lambda value, **options: text if value == 0 else dumps(value, **options)
