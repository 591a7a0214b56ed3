"""Losses as CSV and Parquet: exact round trips, and every wrong row is named."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer import _columns
from epsilometer.attacks.losses import Losses
from epsilometer.errors import InputError
from tests.attacks.test_losses import FORMATS, HEADER, NAN, hard_losses, of

arrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
parquet_files = pytest.importorskip("pyarrow.parquet")

# --- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_bit_for_bit(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for losses in (of(), hard_losses()):  # the second file replaces the first
        losses.write(path)
        assert Losses.read(path) == Losses.read(str(path)) == losses
    assert [file.name for file in tmp_path.iterdir()] == [name]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_csv_round_trips_every_number(numbers: list[float]) -> None:
    losses = of(loss=numbers)
    assert Losses.parse_csv(losses.to_csv(), name="losses.csv") == losses


@pytest.mark.parametrize("bits", [0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001])
def test_there_is_one_nan(tmp_path: Path, bits: int) -> None:
    """On x86, inf - inf has a sign; other arithmetic leaves other payloads."""
    other = np.frombuffer(struct.pack("<Q", bits))
    losses = of(loss=other)
    assert losses == of(loss=[NAN])
    assert Losses.parse_csv(losses.to_csv(), name="losses.csv") == losses
    losses.write(tmp_path / "x.parquet")
    assert Losses.read(tmp_path / "x.parquet") == losses
    assert Losses.read(parquet(tmp_path / "y.parquet", loss=np.repeat(other, 3))) == Losses(
        **{**GOOD, "loss": [NAN] * 3}  # type: ignore[arg-type]
    )


@settings(derandomize=True, deadline=None)
@given(st.lists(st.text(max_size=8), min_size=1, max_size=5))
def test_any_losses_round_trip(names: list[str]) -> None:
    """Line ends, quotes and blanks of all kinds; NUL and lone surrogates do not occur in text files."""
    kept = [name.replace("\0", "").encode(errors="ignore").decode() for name in names]
    losses = of(base=kept, loss=[1.0] * len(kept))
    assert Losses.parse_csv(losses.to_csv(), name="losses.csv") == losses


# --- CSV ------------------------------------------------------------------------------------------


def test_csv_in_any_order_of_rows_and_columns() -> None:
    plain = f"{HEADER}\na,0,0,1.5\na,1,0,2.5\na,0,7,-0.5\n"
    turned = "loss,replicate,challenge_base,hypothesis\r\n-5e-1,7,a,0\r\n\r\n2.5,0,a,1\r\n1.5,0,a,0"
    assert Losses.parse_csv(plain, name="a") == Losses.parse_csv(turned, name="b")


def test_csv_with_byte_order_mark_and_blanks(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_bytes(b"\xef\xbb\xbf" + f" {HEADER} \n a , 0, 1 , 2.5\n".encode())
    losses = Losses.read(path)
    assert losses.names == ("a",)
    assert (losses.replicate.tolist(), losses.loss.tolist()) == ([1], [2.5])


def test_csv_accepts_words_for_non_finite_numbers() -> None:
    found = Losses.parse_csv(f"{HEADER}\na,0,0,inf\na,0,1,-Infinity\na,0,2,NaN\n", name="x").loss
    np.testing.assert_array_equal(found, [np.inf, -np.inf, NAN])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "\n", r"^losses.csv: expected at least one loss, got none\.$"),
        ("", "expected a header row with challenge_base, .* got an empty file"),
        ("a,b\n1,2", "row 1: expected columns .*; missing challenge_base"),
        (HEADER.replace(",loss", ""), "row 1: .* missing loss"),
        (HEADER + ",extra\na,0,0,1,2", "row 1: unknown column 'extra'"),
        (HEADER + ",loss\na,0,0,1,2", "row 1: column loss occurs twice"),
        (HEADER + "\na,0,0", "row 2: expected 4 cells, got 3"),
        (HEADER + "\na,0,0,1\nb,0,0,1,9", "row 3: expected 4 cells, got 5"),
        (HEADER + "\na,0,0,1\n\n\na,0,1,x", "row 5: expected a number in loss, got loss='x'"),
        (HEADER + "\na,0,0,", "row 2: expected a number in loss, got loss=''"),
        (HEADER + '\na,0,0,"1,5"', "row 2: .* loss='1,5'"),
        (HEADER + "\na,0,0,1_0", "row 2: expected a number in loss, got loss='1_0'"),
        (HEADER + "\na,0,0,1e1_0", "row 2: .* loss='1e1_0'"),
        (HEADER + "\na,0,1_0,1", "row 2: .* replicate='1_0'"),
        (HEADER + "\na,2,0,1", "row 2: .* 0 to 1 in hypothesis, got hypothesis='2'"),
        (HEADER + "\na,-1,0,1", "row 2: .* hypothesis='-1'"),
        (HEADER + "\na,H0,0,1", "row 2: .* hypothesis='H0'"),
        (HEADER + "\na,,0,1", "row 2: .* hypothesis=''"),
        (HEADER + "\na,0.5,0,1", "row 2: .* hypothesis='0.5'"),
        (HEADER + "\na,0,-1,1", "row 2: .* replicate='-1'"),
        (HEADER + "\na,0,1.5,1", "row 2: .* replicate='1.5'"),
        (HEADER + "\na,0,1e3,1", "row 2: .* replicate='1e3'"),
        (HEADER + "\na,0,1000000000000001,1", "row 2: .* 0 to 1000000000000000 in replicate"),
        (HEADER + f"\na,0,{'9' * 5000},1", "row 2: .* replicate='9+\\.\\.\\."),
        (HEADER + "\na,0,²,1", "row 2: .* replicate='²'"),
        (HEADER + f"\n{'a' * 201},0,0,1", "row 2: .* at most 200 characters, got 201"),
        (HEADER + '\n"a,0,0,1', "row 2: not valid CSV"),
        (HEADER + '\n"a"b,0,0,1', "row 2: not valid CSV"),
        (HEADER + "\na\0,0,0,1", "NUL"),
        (HEADER + "\na,0,4,1\nb,1,2,1\na,1,4,1\na,0,4,2", "hypothesis 0, replicate 4 of 'a' twice"),
        ("PAR1\x15\x04", "row 1: expected columns"),
    ],
)
def test_bad_csv_is_named_with_its_row(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Losses.parse_csv(text, name="losses.csv")
    assert str(caught.value).startswith("losses.csv")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("row", range(2, 7))
@pytest.mark.parametrize("column", range(1, 4))
def test_any_wrong_cell_is_found(row: int, column: int) -> None:
    cells = [["a", "0", str(replicate), "0.5"] for replicate in range(5)]
    cells[row - 2][column] = "?"
    text = "\n".join([HEADER, *(",".join(line) for line in cells)])
    with pytest.raises(InputError, match=rf"^losses.csv row {row}: .*='\?'\.$"):
        Losses.parse_csv(text, name="losses.csv")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read \(No such file"):
        Losses.read(tmp_path / "absent.csv")
    with pytest.raises(InputError, match=r"absent\.parquet: cannot be read as Parquet"):
        Losses.read(tmp_path / "absent.parquet")
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\n\xe9,0,0,1\n")
    with pytest.raises(InputError, match=r"latin\.csv: expected UTF-8"):
        Losses.read(tmp_path / "latin.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv: cannot be read"):
        Losses.read(tmp_path / "folder.csv")


# --- Parquet --------------------------------------------------------------------------------------


GOOD: dict[str, list[Any]] = {
    "challenge_base": ["a", "a", "b"],
    "hypothesis": [0, 1, 0],
    "replicate": [0, 0, 4],
    "loss": [0.5, 1.5, 2.5],
}


def parquet(path: Path, **changes: Any) -> Path:
    """A file with good columns except for the changes; None omits a column."""
    columns = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    parquet_files.write_table(arrow.table(columns), path)
    return path


def test_parquet_of_others(tmp_path: Path) -> None:
    """Written without a dictionary, in another order of columns, with narrower types."""
    path = parquet(
        tmp_path / "x.parquet",
        hypothesis=arrow.array([0, 1, 0], arrow.uint8()),
        loss=arrow.array([0.5, 1.5, 2.5], arrow.float32()),
    )
    assert Losses.read(path) == Losses(**GOOD)  # type: ignore[arg-type]
    assert Losses.read(parquet(path, loss=[1, 2, 3])).loss.tolist() == [1.0, 2.0, 3.0]


def test_parquet_in_many_pieces(tmp_path: Path) -> None:
    losses = hard_losses()
    losses.write(tmp_path / "whole.parquet")
    table = parquet_files.read_table(tmp_path / "whole.parquet")
    back = table.take(arrow.array(np.arange(len(losses))[::-1]))
    parquet_files.write_table(back, tmp_path / "pieces.parquet", row_group_size=7)
    again = Losses.read(tmp_path / "pieces.parquet")
    assert again.names == losses.names[::-1]
    assert sorted(zip(again.challenge_base, again.replicate.tolist(), strict=True)) == sorted(
        zip(losses.challenge_base, losses.replicate.tolist(), strict=True)
    )
    # Replicates are all different: they identify each loss.
    np.testing.assert_array_equal(
        again.loss[np.argsort(again.replicate)], losses.loss[np.argsort(losses.replicate)]
    )


def test_parquet_with_whole_numbers_as_names(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", challenge_base=[7, 7, 12])
    assert Losses.read(path).names == ("7", "12")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": None}, "missing loss"),
        ({"extra": [1, 2, 3]}, "unknown column 'extra'"),
        ({"loss": [0.5, None, 1.0]}, "every row of loss, got a null"),
        ({"hypothesis": [0, None, 1]}, "every row of hypothesis, got a null"),
        ({"challenge_base": ["a", None, "b"]}, "every row of challenge_base, got a null"),
        ({"loss": ["1", "2", "3"]}, "expected numbers in loss, got string"),
        ({"loss": [True, False, True]}, "expected numbers in loss, got bool"),
        ({"hypothesis": [0.0, 0.5, 0.0]}, "hypothesis <= 1, got hypothesis=0.5"),
        ({"replicate": [False, True, False]}, "whole numbers in replicate, got bool"),
        ({"hypothesis": [0, 1, 2]}, "hypothesis <= 1, got hypothesis=2"),
        ({"replicate": [0, -3, 0]}, "0 <= replicate <= .*, got replicate=-3"),
        ({"replicate": [0, 10**15 + 1, 0]}, "replicate <= .*, got replicate=1000000000000001"),
        ({"replicate": np.array([0, 2**63, 0], np.uint64)}, "got replicate=92233720368547"),
        ({"replicate": [0.5, 1.5, 2.5]}, "whole numbers in replicate, got double"),
        ({"replicate": [0, 0, 0], "hypothesis": [0, 0, 0]}, "replicate 0 of 'a' twice"),
        ({"challenge_base": [b"a", b"b", b"c"]}, "expected challenge_base to be text"),
        ({"challenge_base": [True, False, True]}, "expected challenge_base to be text"),
        ({"challenge_base": ["a", "a", "b" * 201]}, "at most 200 characters"),
    ],
)
def test_bad_parquet_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Losses.read(parquet(tmp_path / "x.parquet", **change))
    assert "x.parquet" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_truncated_parquet(tmp_path: Path, share: float) -> None:
    path = tmp_path / "x.parquet"
    hard_losses().write(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match=r"x\.parquet: cannot be read as Parquet"):
        Losses.read(path)


@pytest.mark.parametrize("place", ["column", "name"])
def test_parquet_with_text_that_is_not_utf8(tmp_path: Path, place: str) -> None:
    path = tmp_path / "x.parquet"
    if place == "column":
        parquet(path)
        path.write_bytes(path.read_bytes().replace(b"replicate", b"\xffeplicate"))
    else:
        names = arrow.array([b"a", b"a", b"\xff"]).view(arrow.string())
        parquet(path, challenge_base=names)
    with pytest.raises(InputError, match=r"x\.parquet"):
        Losses.read(path)


@pytest.mark.parametrize("mask", [pytest.param(0x01, marks=pytest.mark.slow), 0xFF], ids=hex)
def test_no_flipped_byte_of_parquet_goes_unnoticed(tmp_path: Path, mask: int) -> None:
    """Pages have checksums and the rest is checked: refused, or without effect."""
    path = tmp_path / "x.parquet"
    losses = of(
        base=[*"aaaabbb"],
        hypothesis=[0, 0, 1, 1, 0, 1, 1],
        replicate=[0, 1, 0, 1, 5, 0, 9],
        loss=[0.5, 1.5, 2.5, NAN, 0.1, 3.0, -1.0],
    )
    losses.write(path)
    whole = path.read_bytes()
    refusals, different = [], []
    for place in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[place] ^= mask
        path.write_bytes(spoilt)
        try:
            if Losses.read(path) != losses:
                different.append(place)
        except InputError as error:
            refusals.append(str(error))
    assert different == []
    assert all("x.parquet" in refusal for refusal in refusals)
    # Not all refused: offsets of indexes, encodings and versions that are never read.
    assert len(whole) / 3 < len(refusals) < len(whole)


def test_failed_writing_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"old")

    def fail(target: Path, columns: object) -> None:
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(_columns, "write_parquet", fail)
    with pytest.raises(OSError, match="disk full"):
        of().write(path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match="need pyarrow: pip install"):
        of().write(tmp_path / "x.parquet")
    with pytest.raises(InputError, match="need pyarrow: pip install"):
        Losses.read(tmp_path / "x.parquet")
