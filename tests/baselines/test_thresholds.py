"""Cuts of scores: by hand, by brute force, by another hull; ties counted conservatively."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from epsilometer.baselines.thresholds import (
    Explicit,
    Ranks,
    Split,
    cuts_at,
    hull_cuts,
    rank_cuts,
)
from epsilometer.errors import InputError

FIXED = settings(derandomize=True, max_examples=100, deadline=None)
groups = st.tuples(
    st.lists(st.integers(0, 12), min_size=1, max_size=25),
    st.lists(st.integers(0, 12), min_size=1, max_size=25),
)


def in_order(pair: tuple[list[int], list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.sort(np.asarray(pair[0], dtype=float)), np.sort(np.asarray(pair[1], dtype=float))


@FIXED
@given(pair=groups, threshold=st.integers(-1, 13))
def test_errors_at_a_cut_are_counted(pair: tuple[list[int], list[int]], threshold: int) -> None:
    cuts = cuts_at(*in_order(pair), np.array([float(threshold)]))
    assert cuts.false_positives.tolist() == [sum(score >= threshold for score in pair[1])]
    assert cuts.false_negatives.tolist() == [sum(score < threshold for score in pair[0])]
    assert len(cuts) == 1


@FIXED
@given(pair=groups)
def test_hull_is_above_every_cut_and_has_no_vertex_to_spare(
    pair: tuple[list[int], list[int]],
) -> None:
    members, others = in_order(pair)
    cuts = hull_cuts(members, others)
    x, y = cuts.false_negatives, len(others) - cuts.false_positives
    assert (x[0], y[0]) == (0, 0)
    assert (x[-1], y[-1]) == (len(members), len(others))
    every = cuts_at(members, others, np.append(np.union1d(members, others), np.inf))
    # Brute force: no chord between two cuts passes above the hull.
    for miss, right in zip(every.false_negatives, len(others) - every.false_positives, strict=True):
        highest = max(y[x == miss].tolist(), default=-math.inf)
        assert right <= max(highest, float(np.interp(miss, x, y))) + 1e-9
    turns = np.diff(x)[:-1] * np.diff(y)[1:] - np.diff(y)[:-1] * np.diff(x)[1:]
    assert np.all(turns < 0)  # strictly to the right at every vertex
    again = cuts_at(members, others, cuts.thresholds)
    assert np.array_equal(again.false_positives, cuts.false_positives)


def test_hull_is_that_of_another_library() -> None:
    rng = np.random.default_rng(5)
    members, others = np.sort(rng.normal(1, 1, 300)), np.sort(rng.normal(0, 1, 200))
    cuts = hull_cuts(members, others)
    ours = set(zip(cuts.false_negatives.tolist(), cuts.false_positives.tolist(), strict=True))
    every = cuts_at(members, others, np.append(np.union1d(members, others), np.inf))
    points = np.stack([every.false_negatives, every.false_positives], axis=1)
    # All of them plus the corner that closes the hull above the diagonal.
    hull = ConvexHull(np.vstack([points, [[300, 200]]]))
    theirs = {tuple(map(int, hull.points[v])) for v in hull.vertices} - {(300, 200)}
    assert ours == theirs


@FIXED
@given(pair=groups, ratio=st.floats(1.05, 4))
def test_rank_cuts_count_ties_to_the_safe_side(
    pair: tuple[list[int], list[int]], ratio: float
) -> None:
    members, others = in_order(pair)
    ranks = Ranks(ratio)
    cuts = rank_cuts(members, others, ranks, one_sided=False)
    of_others, of_members = ranks.of(len(others)), ranks.of(len(members))
    assert len(cuts) == len(of_others) + len(of_members)
    for k, cut, x, y in zip(
        of_others, cuts.thresholds, cuts.false_positives, cuts.false_negatives, strict=False
    ):
        assert cut == sorted(pair[1], reverse=True)[k - 1]
        assert x == k - 1 >= sum(score > cut for score in pair[1])
        assert y == sum(score <= cut for score in pair[0])
    start = len(of_others)
    for k, cut, x, y in zip(
        of_members,
        cuts.thresholds[start:],
        cuts.false_positives[start:],
        cuts.false_negatives[start:],
        strict=True,
    ):
        assert cut == sorted(pair[0])[k - 1]
        assert y == k - 1 >= sum(score < cut for score in pair[0])
        assert x == sum(score >= cut for score in pair[1])
    one_sided = rank_cuts(members, others, ranks, one_sided=True)
    assert np.array_equal(one_sided.false_negatives, cuts.false_negatives[:start])


def test_ranks() -> None:
    assert Ranks().of(30).tolist() == [1, 2, 3, 4, 6, 8, 12, 18, 26]
    assert Ranks(2.0).of(16).tolist() == [1, 2, 4, 8, 16]
    assert Ranks().of(1).tolist() == [1]
    assert Ranks(1.0001).of(5).tolist() == [1, 2, 3, 4, 5]
    assert Ranks(1e6).of(1000).tolist() == [1]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 999, 10_000])
@pytest.mark.parametrize("ratio", [1.01, 1.5, 3.0])
def test_ranks_rise_within_the_size(size: int, ratio: float) -> None:
    ranks = Ranks(ratio).of(size)
    assert ranks[0] == 1
    assert np.all(np.diff(ranks) > 0)
    assert ranks[-1] <= size < max(ranks[-1] * ratio, ranks[-1] + 1) + 1


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.0, -1.0, math.nan, math.inf])
def test_ratio_out_of_range(ratio: float) -> None:
    with pytest.raises(InputError, match="ratio"):
        Ranks(ratio)


def test_threshold_must_be_one() -> None:
    with pytest.raises(InputError, match="threshold=nan"):
        Explicit(math.nan)
    assert Explicit(math.inf).threshold == math.inf


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_share_out_of_range(share: float) -> None:
    with pytest.raises(InputError, match="threshold_estimation_frac"):
        Split(threshold_estimation_frac=share)
