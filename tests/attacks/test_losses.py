"""Losses in memory: what is accepted, what is refused, and how they are arranged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilometer.attacks.losses import Losses
from epsilometer.errors import InputError

HEADER = "challenge_base,hypothesis,replicate,loss"
NAN = float("nan")
HARD = [0.0, -0.0, 0.1, 1 / 3, 1e-320, 5e-324, 2.2250738585072014e-308, 1e308, -1e-17, 2**53 + 2.0]
HARD += [float("inf"), float("-inf"), NAN, 0.30000000000000004, 123456789.123456789, 1e22, 1e23]
NAMES = [
    "plain",
    "é∮漢😀",
    'say "so"',
    "a,b",
    "two\nlines",
    "two\r\nlines",
    "carriage\rreturn",
    "n" * 200,
    "'",
    "",
    "0",
    "<script>",
]
FORMATS = ["losses.csv", "losses.parquet", "losses.PARQUET", "losses"]


def of(
    *, base: Any = "a", hypothesis: Any = 0, replicate: Any = None, loss: Any = (1.0, 2.0, 3.0)
) -> Losses:
    """Losses, by default of one base and hypothesis."""
    size = len(loss)
    return Losses(
        challenge_base=[base] * size if isinstance(base, str) else base,
        hypothesis=[hypothesis] * size if isinstance(hypothesis, int) else hypothesis,
        replicate=list(range(size)) if replicate is None else replicate,
        loss=loss,
    )


def hard_losses() -> Losses:
    """Names and numbers that files easily get wrong, with gaps in the replicates."""
    size = len(NAMES) * len(HARD)
    return Losses(
        challenge_base=np.repeat(NAMES, len(HARD)).tolist(),
        hypothesis=np.arange(size) % 2,
        replicate=np.arange(size) * 3 + 10**9,
        loss=HARD * len(NAMES),
    )


# --- the container --------------------------------------------------------------------------------


def test_sorted_by_base_hypothesis_and_replicate() -> None:
    losses = Losses(
        challenge_base=["b", "a", "b", "b", "a"],
        hypothesis=[1, 0, 0, 0, 1],
        replicate=[0, 5, 9, 2, 0],
        loss=[1.0, 2.0, 3.0, 4.0, 5.0],
    )
    assert losses.names == ("b", "a")
    assert losses.challenge_base == ["b", "b", "b", "a", "a"]
    assert losses.hypothesis.tolist() == [0, 0, 1, 0, 1]
    assert losses.replicate.tolist() == [2, 9, 0, 5, 0]
    assert losses.loss.tolist() == [4.0, 3.0, 1.0, 2.0, 5.0]
    assert len(losses) == 5


def test_rows_of_different_lengths_are_padded_at_the_end() -> None:
    losses = Losses(
        challenge_base=["a", "a", "a", "b", "b", "c"],
        hypothesis=[0, 0, 1, 1, 1, 0],
        replicate=[7, 3, 0, 1, 0, 4],
        loss=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    )
    h0, h1 = losses.by_hypothesis()
    np.testing.assert_array_equal(h0, [[2.0, 1.0], [NAN, NAN], [6.0, NAN]])
    np.testing.assert_array_equal(h1, [[3.0, NAN], [5.0, 4.0], [NAN, NAN]])


def test_a_hypothesis_without_models_has_no_columns() -> None:
    assert of(hypothesis=1).padded(0).shape == (1, 0)


@settings(derandomize=True, deadline=None)
@given(st.permutations(range(12)))
def test_order_of_rows_matters_only_to_the_order_of_bases(order: list[int]) -> None:
    base = [f"base {n % 3}" for n in range(12)]
    hypothesis, replicate = [n // 3 % 2 for n in range(12)], [n // 6 for n in range(12)]

    def table(rows: list[int]) -> dict[str, list[list[float]]]:
        losses = Losses(
            challenge_base=[base[n] for n in rows],
            hypothesis=[hypothesis[n] for n in rows],
            replicate=[replicate[n] for n in rows],
            loss=[float(n) for n in rows],
        )
        parts = [part.tolist() for part in losses.by_hypothesis()]
        return {name: [part[n] for part in parts] for n, name in enumerate(losses.names)}

    assert table(order) == table(list(range(12)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": []}, "expected at least one loss, got none"),
        ({"base": ["a", "a"]}, "hypothesis of shape"),
        ({"hypothesis": [0, 0]}, r"hypothesis of shape .* got shape \(2,\)"),
        ({"replicate": [0]}, r"replicate of shape .* got shape \(1,\)"),
        ({"loss": [[1.0], [2.0], [3.0]]}, r"loss of shape .* got shape \(3, 1\)"),
        ({"hypothesis": [0, 2, 1]}, "<= 1, got hypothesis=2"),
        ({"hypothesis": [0, -1, 1]}, "got hypothesis=-1"),
        ({"hypothesis": [0.0, 1.0, 1.0]}, "expected whole numbers in hypothesis, got float64"),
        ({"hypothesis": [True, False, True]}, "whole numbers in hypothesis, got bool"),
        ({"hypothesis": ["0", "1", "1"]}, "whole numbers in hypothesis"),
        ({"replicate": [0, 1, -4]}, r"expected 0 <= replicate <= 1e\+15, got replicate=-4"),
        ({"replicate": [0, 10**15 + 1, 1]}, "got replicate=1000000000000001"),
        ({"replicate": np.array([0, 2**63, 1], np.uint64)}, r"got replicate=9223372036854775808"),
        ({"replicate": [0, 2**64, 1]}, "whole numbers in replicate"),
        ({"replicate": [0.5, 1, 2]}, "whole numbers in replicate, got float64"),
        ({"replicate": [5, 0, 5]}, "hypothesis 0, replicate 5 of 'a' twice"),
        ({"loss": ["low", "high", "high"]}, "expected numbers in loss, got "),
        ({"loss": ["1.0", "2.0", "3.0"]}, "expected numbers in loss"),
        ({"loss": np.array(["1.0", "2.0", "3.0"])}, "expected numbers in loss"),
        ({"loss": [b"1.0", b"2.0", b"3.0"]}, "expected numbers in loss"),
        ({"loss": [1.0, "2.0", 3.0]}, "expected numbers in loss"),
        ({"loss": [1.0, 2j, 3.0]}, "expected numbers in loss"),
        ({"loss": np.array([1.0, 2j, 3.0])}, "expected numbers in loss"),
        ({"loss": [1.0, [2.0], 3.0]}, "expected numbers in loss"),
        ({"loss": [1.0, {}, 3.0]}, "expected numbers in loss"),
        ({"base": ["a", "a" * 201, "b"]}, "challenge_base of at most 200 characters, got 201"),
        ({"base": ["a", None, "b"]}, "expected challenge_base to be text, got None"),
        ({"base": ["a", True, "b"]}, "expected challenge_base to be text, got True"),
        ({"base": ["a", np.True_, "b"]}, "expected challenge_base to be text, got True"),
        ({"base": ["a", b"b", "b"]}, "expected challenge_base to be text, got b'b'"),
        ({"base": [["a"], ["b"], ["b"]]}, "expected challenge_base to be text"),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        of(**change)


def test_the_same_replicate_under_both_hypotheses_is_no_repeat() -> None:
    assert len(of(hypothesis=[0, 1, 0], replicate=[0, 0, 1])) == 3


def test_numbers_as_names_are_text() -> None:
    losses = of(base=[1, 2.5, "1"], replicate=[0, 0, 1])
    assert losses.names == ("1", "2.5")
    assert of(base=np.array([7, 12, 7])).names == ("7", "12")
    assert of(base=np.array(["b", "a", "b"])).names == ("b", "a")


@pytest.mark.parametrize("blanks", [" ", "\n", "\r\n", "\t", "\u2003"])
def test_blanks_around_names_are_taken_off(blanks: str) -> None:
    losses = of(base=[f"{blanks}a", f"a{blanks}", "a b"])
    assert losses.names == ("a", "a b")
    assert of(base=f"{blanks}{'a' * 200}{blanks}").names == ("a" * 200,)
    with pytest.raises(InputError, match="replicate 0 of 'a' twice"):
        of(base=[f"{blanks}a", "a", "b"], replicate=[0, 0, 0])


def test_largest_replicate() -> None:
    for replicate in ([0, 1, 10**15], np.array([0, 1, 10**15], np.uint64)):
        losses = of(replicate=replicate)
        assert losses.replicate.tolist() == [0, 1, 10**15]
        assert losses.replicate.dtype == np.int64


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.uint64])
def test_numbers_of_any_width(kind: type[np.integer[Any]]) -> None:
    columns = np.array([[0, 1, 0], [0, 1, 2]], kind)
    assert of(hypothesis=columns[0], replicate=columns[1]) == of(hypothesis=[0, 1, 0])
    for loss in ([1, 2, 3], np.array([1, 2, 3], np.float32), np.array([1, 2, 3], kind)):
        assert of(loss=loss) == of(loss=[1.0, 2.0, 3.0])


def test_columns_cannot_be_changed_and_do_not_share_memory() -> None:
    given_losses = np.array([1.0, 2.0, 3.0])
    losses = of(loss=given_losses)
    given_losses[0] = 99.0
    assert losses.loss[0] == 1.0
    for column in (losses.loss, losses.base, losses.hypothesis, losses.replicate):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


def test_equality_is_bit_for_bit() -> None:
    assert of(loss=[0.0, NAN]) == of(loss=[0.0, NAN])
    assert of(loss=[0.0]) != of(loss=[-0.0])
    assert of(loss=[1.0]) != of(loss=[np.nextafter(1.0, 2.0)])
    assert of(loss=[1.0]) != of(loss=[1.0], base="b")
    assert of(loss=[1.0]) != of(loss=[1.0], hypothesis=1)
    assert of(loss=[1.0]) != of(loss=[1.0], replicate=[3])
    assert of(loss=[1.0]) != "losses"
