"""Data that can be read can be written: every ending, odd names included, gives the same back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epsilometer as em
from epsilometer.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
ODD = st.sampled_from(["=1+1", 'a"b', "a,b", "a\r\nb", "\ufeff", "#", "nan", "$x$", "<b>"])
#: Any text without blanks around it, which files do not keep.
NAMES = st.lists((TEXT | ODD).map(str.strip), min_size=2, max_size=3, unique=True)

SCORES = st.floats(allow_nan=False)


def counts_of(names: list[str], numbers: Any) -> em.AttackCounts:
    return em.AttackCounts(
        false_positives=[numbers.draw(st.integers(0, 9)) for _ in names],
        trials_h0=9,
        false_negatives=[numbers.draw(st.integers(0, 7)) for _ in names],
        trials_h1=7,
        names=names,
        groups=numbers.draw(st.sampled_from([None, names, ["one"] * len(names)])),
        measured=numbers.draw(
            st.sampled_from([None, em.rows.MeasuredBy(design="cross-fed", target_alpha=0.1)])
        ),
    )


def scores_of(names: list[str], numbers: Any) -> em.Scores:
    sides = [
        [numbers.draw(st.lists(SCORES, min_size=1, max_size=4)) for _ in names] for _ in range(2)
    ]
    return em.Scores(
        without=sides[0], with_point=sides[1], names=names, one_run=numbers.draw(st.booleans())
    )


def losses_of(names: list[str], numbers: Any) -> em.Losses:
    return em.Losses(
        challenge_base=[name for name in names for _ in range(4)],
        hypothesis=[0, 0, 1, 1] * len(names),
        replicate=[0, 1, 2, 3] * len(names),
        loss=[numbers.draw(st.floats()) for _ in range(4 * len(names))],
        one_run=numbers.draw(st.booleans()),
    )


def pool_losses_of(names: list[str], numbers: Any) -> em.PoolLosses:
    member = _sides(names)
    loss = [[numbers.draw(st.floats(-1e300, 1e300)) for _ in names] for _ in member]
    return em.PoolLosses(
        loss=loss, member=member, names=names, fair_coins=numbers.draw(st.booleans())
    )


def _sides(names: list[str]) -> np.ndarray[Any, Any]:
    """Models with and without every point."""
    return np.array([[True] * len(names), [False] * len(names), [True] * len(names)])


KINDS = {
    ("counts", ".csv"): (em.AttackCounts, counts_of),
    ("counts", ".json"): (em.AttackCounts, counts_of),
    ("scores", ".csv"): (em.Scores, scores_of),
    ("scores", ".parquet"): (em.Scores, scores_of),
    ("losses", ".csv"): (em.Losses, losses_of),
    ("losses", ".parquet"): (em.Losses, losses_of),
    ("pool-losses", ".csv"): (em.PoolLosses, pool_losses_of),
    ("pool-losses", ".parquet"): (em.PoolLosses, pool_losses_of),
    ("pool-losses", ".npz"): (em.PoolLosses, pool_losses_of),
}


@pytest.mark.parametrize("kind", KINDS, ids="".join)
@settings(max_examples=25, derandomize=True, deadline=None)
@given(names=NAMES, numbers=st.data())
def test_what_is_written_is_read_back(
    kind: tuple[str, str], tmp_path_factory: pytest.TempPathFactory, names: list[str], numbers: Any
) -> None:
    cls: Any = KINDS[kind][0]
    path = tmp_path_factory.mktemp("files") / f"x{kind[1]}"
    held: Any = KINDS[kind][1](names, numbers)
    held.write(path)
    assert cls.read(path) == held


@pytest.mark.parametrize("kind", KINDS, ids="".join)
@pytest.mark.parametrize("ending", [".xlsx", ".txt", ".csv.gz"])
def test_other_endings_are_refused(kind: tuple[str, str], ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{ending}"
    with pytest.raises(InputError, match=r"expected a (file )?name that ends in \..* or \."):
        _plain(kind[0]).write(path)
    assert not path.exists()


def _plain(kind: str) -> Any:
    member = _sides(["a", "b"])
    made: dict[str, Any] = {
        "counts": lambda: em.AttackCounts(
            false_positives=[1], trials_h0=5, false_negatives=[1], trials_h1=5
        ),
        "scores": lambda: em.Scores(without=[[0.1]], with_point=[[0.2]]),
        "losses": lambda: em.Losses(
            challenge_base=["a"], hypothesis=[0], replicate=[0], loss=[1.0]
        ),
        "pool-losses": lambda: em.PoolLosses(loss=np.ones((3, 2)), member=member),
    }
    return made[kind]()


@pytest.mark.parametrize("name", [" a", "a\t", "x" * 201, "a\0b"])
def test_names_that_would_change_are_not_written(name: str, tmp_path: Path) -> None:
    sides: dict[str, Any] = {"without": [[0.1]], "with_point": [[0.2]]}
    counts = em.AttackCounts(
        false_positives=[1], trials_h0=5, false_negatives=[1], trials_h1=5, names=[name]
    )
    for data in (em.Scores(names=[name], **sides), counts):
        with pytest.raises(InputError, match="to write a file: expected challenge_base"):
            data.write(tmp_path / "x.csv")


def test_canaries_are_written_as_they_are_saved(tmp_path: Path) -> None:
    population = em.Population(features=np.arange(40.0).reshape(20, 2), labels=[0, 1] * 10)
    canaries = em.Canaries.draw(population, count=8, rng=np.random.default_rng(1))
    canaries.write(tmp_path / "c.npz")
    again = em.Canaries.read(tmp_path / "c.npz", population)
    assert again.fingerprint == canaries.fingerprint
    with pytest.raises(InputError, match=r"'c.csv': expected a file name that ends in \.npz"):
        canaries.write(tmp_path / "c.csv")
