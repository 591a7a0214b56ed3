"""Error curves as CSV: read back exactly, and errors in malformed files name their place."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epsilometer as em
from epsilometer.attacks.result import CURVE_COLUMNS, ErrorCurves
from epsilometer.errors import InputError

HEADING = ",".join(CURVE_COLUMNS)

HARD_NAMES = [
    "plain",
    "with, comma",
    '"quoted"',
    "two\nlines",
    "two\r\nlines",
    "carriage\rreturn",
    "<script>alert(1)</script>",
    "=1+1",
    "Zoë ∀ε",
    "0.01",
    "semi;colon\ttab",
]


def same(first: ErrorCurves, second: ErrorCurves) -> bool:
    """Equal to the last bit and in their types."""
    arrays = ("target_alpha", "false_positives", "trials_h0", "false_negatives", "trials_h1")
    return first.names == second.names and all(
        np.array_equal(getattr(first, name), getattr(second, name))
        and getattr(first, name).dtype == getattr(second, name).dtype
        for name in arrays
    )


def attacked(names: list[str]) -> em.attacks.AttackResult:
    """A cross-fed attack on normal losses; bases have different numbers of models."""
    rng = np.random.default_rng(3)
    rows = [
        (name, hypothesis, model, rng.normal(1.0 - hypothesis))
        for base, name in enumerate(names)
        for hypothesis in (0, 1)
        for model in range(10 + base + 3 * hypothesis)
    ]
    base, hypothesis, replicate, loss = zip(*rows, strict=True)
    losses = em.Losses(challenge_base=base, hypothesis=hypothesis, replicate=replicate, loss=loss)
    return em.rows.cross_feed(losses)


# --- round trips ------------------------------------------------------------------------------


def test_round_trip_of_a_measured_attack(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    plan = em.Plan(
        population=em.Population(features=rng.standard_normal((40, 4))),
        algorithm=em.training.ClippedMean(noise=0.05, records=20),
        design=em.CrossFed(replicates=12),
        challenge_bases=3,
        dataset_size=19,
        adjacency=em.rows.Include(),
        seed=5,
    )
    curves = plan.design.attack(em.measure(plan).only).sweep()
    path = tmp_path / "curves.csv"
    curves.write(path)
    again = ErrorCurves.read(path)
    assert same(again, curves)
    assert again.false_positives.shape == (99, 3)
    assert curves.trials_h0.tolist() == [12, 12, 12]
    # Distinguishable: rates rise, bases differ.
    assert len(np.unique(curves.false_negatives)) > 3
    assert same(ErrorCurves.read(str(path)), curves)
    assert [file.name for file in tmp_path.iterdir()] == ["curves.csv"]


def test_round_trip_with_hard_names(tmp_path: Path) -> None:
    curves = attacked(HARD_NAMES).sweep()
    assert curves.names == tuple(HARD_NAMES)
    assert len(set(curves.trials_h0.tolist())) == len(HARD_NAMES)
    path = tmp_path / "curves.csv"
    curves.write(path)
    assert same(ErrorCurves.read(path), curves)
    # Control: the comparison detects a name, a number and a type of number.
    other = attacked([*HARD_NAMES[:-1], "x"]).sweep()
    assert not same(other, curves)
    assert not same(attacked(HARD_NAMES).sweep([0.1, 0.2]), curves)
    assert same(attacked(HARD_NAMES).sweep(), curves)


def test_any_csv_reader_finds_the_rows() -> None:
    """A second way to the same numbers: the standard library's reader, row by row."""
    result = attacked(["a", "b, c"])
    levels = [0.1, 1 / 3, 0.7]
    records = list(csv.DictReader(io.StringIO(result.sweep(levels).to_csv(), newline="")))
    assert len(records) == 6
    for index, record in enumerate(records):
        level, base = divmod(index, 2)
        counts = result.counts(levels[level])
        assert float(record["target_alpha"]) == levels[level]
        assert record["challenge_base"] == ("a", "b, c")[base]
        for column in CURVE_COLUMNS[2:]:
            assert int(record[column]) == getattr(counts, column)[base]


def test_writing_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    attacked(["a", "b"]).sweep().write(path)
    short = attacked(["a"]).sweep([0.5])
    short.write(path)
    assert same(ErrorCurves.read(path), short)


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), min_size=1, max_size=6),
    st.lists(st.text(max_size=8), min_size=1, max_size=3, unique=True),
    st.integers(0, 2**32),
)
def test_writing_and_reading_round_trips(targets: list[float], names: list[str], seed: int) -> None:
    """Any increasing rates, any text that a file can hold, counts of any size."""
    kept = tuple(name.replace("\0", "").encode(errors="ignore").decode() for name in names)
    rng = np.random.default_rng(seed)
    rising = np.unique(targets)
    trials_h0, trials_h1 = rng.integers(1, 10**15, (2, len(kept)))
    shape = (len(rising), len(kept))
    curves = ErrorCurves(
        names=kept,
        target_alpha=rising,
        false_positives=rng.integers(0, trials_h0 + 1, shape),
        trials_h0=trials_h0,
        false_negatives=rng.integers(0, trials_h1 + 1, shape),
        trials_h1=trials_h1,
    )
    assert same(ErrorCurves.parse_csv(curves.to_csv(), name="curves.csv"), curves)


def test_columns_in_any_order_and_blank_rows() -> None:
    plain = f"{HEADING}\n0.1,a,1,10,2,20\n0.2,a,3,10,1,20\n"
    turned = (
        "trials_h1,false_negatives,trials_h0, false_positives ,challenge_base,target_alpha\r\n"
        "20,2,10,1,a,1e-1\r\n\r\n20,1,10,3,a,.2\r\n"
    )
    assert same(ErrorCurves.parse_csv(plain, name="a"), ErrorCurves.parse_csv(turned, name="b"))


def test_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    path.write_bytes(b"\xef\xbb\xbf" + f"{HEADING}\n0.1,a,1,10,2,20\n".encode())
    assert ErrorCurves.read(path).names == ("a",)


# --- malformed files --------------------------------------------------------------------------

GOOD = [
    ["0.1", "a", "1", "10", "8", "20"],
    ["0.1", "b", "0", "12", "9", "20"],
    ["0.2", "a", "2", "10", "6", "20"],
    ["0.2", "b", "3", "12", "7", "20"],
    ["0.3", "a", "2", "10", "5", "20"],
    ["0.3", "b", "4", "12", "0", "20"],
]


def text_of(rows: list[list[str]]) -> str:
    return "\n".join([HEADING, *(",".join(row) for row in rows)]) + "\n"


def changed(row: int, column: str, value: str) -> str:
    """The good table with one cell changed; row 2 is the first under the heading."""
    rows = [list(cells) for cells in GOOD]
    rows[row - 2][CURVE_COLUMNS.index(column)] = value
    return text_of(rows)


def test_the_good_table_is_good() -> None:
    curves = ErrorCurves.parse_csv(text_of(GOOD), name="curves.csv")
    assert curves.names == ("a", "b")
    assert curves.target_alpha.tolist() == [0.1, 0.2, 0.3]
    assert curves.false_positives.tolist() == [[1, 0], [2, 3], [2, 4]]
    assert curves.false_negatives.tolist() == [[8, 9], [6, 7], [5, 0]]
    assert (curves.trials_h0.tolist(), curves.trials_h1.tolist()) == ([10, 12], [20, 20])


RISING = "expected increasing target rates with the same bases for each of them"

MALFORMED: list[tuple[str, str]] = [
    ("", "curves.csv: expected a header row with target_alpha, .* got an empty file"),
    ("\n\n", "curves.csv: expected a header row"),
    (HEADING, "curves.csv: expected at least one row, got none"),
    ("a,b\n1,2\n", "curves.csv row 1: expected columns .*; missing target_alpha"),
    (text_of(GOOD).replace("trials_h1", "trials"), "row 1: expected columns .*; missing trials_h1"),
    (HEADING + ",more\n0.1,a,1,2,1,2,3\n", "row 1: unknown column 'more'"),
    (HEADING + ",trials_h0\n0.1,a,1,2,1,2,2\n", "row 1: column trials_h0 occurs twice"),
    (text_of([*GOOD[:3], GOOD[3][:5], *GOOD[4:]]), "row 5: expected 6 cells, got 5"),
    (text_of([[*GOOD[0], "7"], *GOOD[1:]]), "row 2: expected 6 cells, got 7"),
    # rows
    (text_of(GOOD[:-1]), "row 6: expected the same 2 bases for each .*, got 1 for the last"),
    (text_of(GOOD[1:]), f"row 3: {RISING}"),
    (text_of([*GOOD[:2], *GOOD[3:]]), f"row 4: {RISING}"),
    (text_of([*GOOD[:4], GOOD[5]]), f"row 6: {RISING}"),
    (text_of([GOOD[1], GOOD[0], *GOOD[2:]]), f"row 4: {RISING}"),
    (text_of([*GOOD, *GOOD[4:]]), f"row 8: {RISING}"),
    (text_of([*GOOD[2:4], *GOOD[:2]]), f"row 4: {RISING}"),
    (text_of([*GOOD[:4], *GOOD[:2]]), f"row 6: {RISING}"),
    (changed(5, "target_alpha", "0.25"), f"row 5: {RISING}"),
    (changed(5, "challenge_base", "c"), f"row 5: {RISING}"),
    (changed(5, "challenge_base", "B"), f"row 5: {RISING}"),
    # rates
    *(
        (
            changed(4, "target_alpha", value),
            f"row 4: expected 0 < target_alpha < 1, got '{re.escape(value)}'",
        )
        for value in (
            "0", "1", "0.0", "1.0", "-0.1", "1e-400", "1.5", "1e999", "nan", "inf", "", "x",
            "0.2.1", "0.1_5", "0x1p-2", "20%",
        )
    ),
    # counts
    *(
        (
            changed(6, column, value),
            f"row 6: expected a whole number from 0 to {10**15} in {column}, "
            f"got {column}='{re.escape(value)}'",
        )
        for column in CURVE_COLUMNS[2:]
        for value in ("-1", "+1", "1.0", "1e1", "", "x", "nan", "1_0", " 1", "²", "٣")
    ),
    *(
        (
            changed(6, column, "9" * size),
            f"row 6: expected a whole number from 0 to {10**15} in {column}, got {column}='99+",
        )
        for column in CURVE_COLUMNS[2:]
        for size in (16, 19, 5000)
    ),
    (
        changed(7, "false_positives", "13"),
        "row 7: expected 0 <= false_positives <= trials_h0, got false_positives=13, trials_h0=12",
    ),
    (
        changed(2, "false_negatives", "21"),
        "row 2: expected 0 <= false_negatives <= trials_h1, got false_negatives=21, trials_h1=20",
    ),
    (changed(3, "trials_h0", "0"), "row 3: expected 1 <= trials_h0 <= .*, got trials_h0=0"),
    (changed(3, "trials_h1", "0"), "row 3: expected 1 <= trials_h1 <= .*, got trials_h1=0"),
    (changed(4, "trials_h0", "11"), "row 4: expected the same number of trials as at the first"),
    (changed(7, "trials_h1", "21"), "row 7: expected the same number of trials as at the first"),
    # not CSV
    (text_of(GOOD) + '"open', "row 8: not valid CSV"),
    (text_of(GOOD) + '"a"b,1,2,3,4,5\n', "row 8: not valid CSV"),
    (text_of(GOOD) + "0.4,a\0,1,10,1,20\n", "curves.csv: expected text, got a NUL byte"),
    (text_of(GOOD) + f"0.4,{'a' * 200_000},1,10,1,20\n", "row 8: not valid CSV"),
    ("PAR1\x15\x04", "row 1: expected columns"),
    ('{"target_alpha": [0.1]}', "row 1: expected columns"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_files_are_named_with_their_place(
    tmp_path: Path, text: str, message: str
) -> None:
    readers: list[Callable[[], ErrorCurves]] = [
        lambda: ErrorCurves.parse_csv(text, name="curves.csv")
    ]
    if not text.startswith("PAR1"):
        path = tmp_path / "curves.csv"
        path.write_text(text, encoding="utf-8", newline="")
        readers.append(lambda: ErrorCurves.read(path))
    for read in readers:
        with pytest.raises(InputError, match=message) as caught:
            read()
        said = str(caught.value)
        assert said.startswith("curves.csv")
        assert "\n" not in said
        assert len(said) < 250


@pytest.mark.parametrize(
    ("row", "column"),
    # Names of the first rate are the reference for the others.
    [(r, c) for r in range(2, 8) for c in CURVE_COLUMNS if c != "challenge_base" or r >= 4],
)
def test_any_wrong_cell_is_found(row: int, column: str) -> None:
    with pytest.raises(InputError, match=rf"^curves\.csv row {row}: "):
        ErrorCurves.parse_csv(changed(row, column, "?"), name="curves.csv")


def test_one_wrong_name_at_the_first_rate_is_found_at_the_second() -> None:
    for row in (2, 3):
        with pytest.raises(InputError, match=rf"^curves\.csv row {row + 2}: {RISING}"):
            ErrorCurves.parse_csv(changed(row, "challenge_base", "?"), name="curves.csv")


def test_largest_counts() -> None:
    largest = "9" * 15
    rows = [["0.1", "a", "0", largest, largest, largest]]
    curves = ErrorCurves.parse_csv(text_of(rows), name="x")
    assert curves.trials_h0.tolist() == curves.false_negatives[0].tolist() == [10**15 - 1]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read \(No such file"):
        ErrorCurves.read(tmp_path / "absent.csv")
    (tmp_path / "latin.csv").write_bytes(HEADING.encode() + b"\n0.1,\xe9,1,2,1,2\n")
    with pytest.raises(InputError, match=r"latin\.csv: expected UTF-8"):
        ErrorCurves.read(tmp_path / "latin.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv: cannot be read"):
        ErrorCurves.read(tmp_path / "folder.csv")
    (tmp_path / "losses.parquet").write_bytes(b"PAR1\x15\x04")
    with pytest.raises(InputError, match=r"losses\.parquet: expected text"):
        ErrorCurves.read(tmp_path / "losses.parquet")


# --- arbitrary text ---------------------------------------------------------------------------


def outcome(text: str) -> str:
    """The outcome for a text: anything but curves or an InputError is raised here."""
    try:
        ErrorCurves.parse_csv(text, name="curves.csv")
    except InputError as error:
        said = str(error)
    else:
        return "read"
    assert said.startswith("curves.csv")
    return "refused"


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text(max_size=200))
def test_arbitrary_text_is_refused(text: str) -> None:
    assert outcome(text) == "refused"


CELLS = st.one_of(
    st.sampled_from(["0.1", "0.2", "a", "b", "0", "1", "2", "10", "20", "", '"', "\r", "1e3"]),
    st.text(max_size=6),
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.permutations(CURVE_COLUMNS),
    st.lists(st.lists(CELLS, min_size=5, max_size=7), max_size=6),
    st.sampled_from([",", ", ", ";"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_arbitrary_cells_under_a_good_heading(
    heading: list[str], rows: list[list[str]], comma: str, end: str
) -> None:
    """Few are good; none may raise anything but an InputError."""
    lines = [",".join(heading), *(comma.join(row) for row in rows)]
    outcome(end.join(lines))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.data())
def test_good_files_with_something_changed(data: st.DataObject) -> None:
    """Part of a good file replaced by something else: read as curves, or refused."""
    text = text_of(GOOD)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 12)))
    text = text[:start] + data.draw(CELLS) + text[stop:]
    if outcome(text) == "read":
        curves = ErrorCurves.parse_csv(text, name="curves.csv")
        assert np.all(np.diff(curves.target_alpha) > 0)
        assert np.all((curves.false_positives >= 0) & (curves.false_positives <= curves.trials_h0))
        assert np.all((curves.false_negatives >= 0) & (curves.false_negatives <= curves.trials_h1))
