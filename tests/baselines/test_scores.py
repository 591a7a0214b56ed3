"""Bounds from scores of canaries, and the cuts that they are made at."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

import epsilometer as em
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates, Katz
from epsilometer.baselines.one_run import GaussianDP, epsilon_one_run
from epsilometer.baselines.scores import (
    Bonferroni,
    CanaryScoreAuditor,
    Explicit,
    Ranks,
    Split,
    ThresholdStrategy,
    cuts_at,
    hull_cuts,
    rank_cuts,
)
from epsilometer.errors import InputError
from tests.baselines.oracles import base, normal_grid
from tests.golden import peers

FIXED = settings(derandomize=True, max_examples=100, deadline=None)
SEVEN = peers.TOLERANCE["seven decimals"]
SOLVED = peers.TOLERANCE["solved to 1e-6"]
HULL = Bonferroni()
ONE_SIDED = ClopperPearson(one_sided=True)
BOUNDS: dict[str, Callable[..., float]] = {
    "clopper-pearson": partial(CanaryScoreAuditor.epsilon_lower, estimator=ONE_SIDED),
    "gaussian": partial(CanaryScoreAuditor.epsilon_lower, estimator=GaussianRates()),
    "one-run": CanaryScoreAuditor.epsilon_one_run,
    "one-run-fdp": CanaryScoreAuditor.epsilon_one_run_fdp,
}


def bound_of(
    name: str, auditor: CanaryScoreAuditor, significance: float, delta: float, **how: Any
) -> float:
    return BOUNDS[name](auditor, significance=significance, delta=delta, **how)


def grid_auditor(size: int, shift: float) -> CanaryScoreAuditor:
    grid = normal_grid(size)
    return CanaryScoreAuditor(grid + shift, grid)


@pytest.mark.parametrize("shift", list(peers.TEN_THOUSAND_SCORES))
def test_peer_one_run(shift: int) -> None:
    bound = grid_auditor(10_000, shift).epsilon_one_run(0.05, 1e-6, threshold_strategy=HULL)
    assert bound == pytest.approx(peers.TEN_THOUSAND_SCORES[shift][0], abs=SOLVED)


@pytest.mark.parametrize("shift", [0, pytest.param(1, marks=pytest.mark.slow), 2, 4])
def test_peer_one_run_fdp(shift: int) -> None:
    bound = grid_auditor(10_000, shift).epsilon_one_run_fdp(
        0.05, 1e-6, threshold_strategy=HULL, family=GaussianDP()
    )
    assert bound == pytest.approx(peers.TEN_THOUSAND_SCORES[shift][1], abs=SOLVED)


@pytest.mark.parametrize("delta", list(peers.THOUSAND_SCORES_CLOPPER_PEARSON))
def test_peer_clopper_pearson(delta: float) -> None:
    auditor = grid_auditor(1000, 1)
    strategies: tuple[ThresholdStrategy, ...] = (Explicit(0.5), HULL)
    for strategy, expected in zip(
        strategies, peers.THOUSAND_SCORES_CLOPPER_PEARSON[delta], strict=True
    ):
        bound = auditor.epsilon_lower(ONE_SIDED, 0.05, delta, threshold_strategy=strategy)
        assert bound == pytest.approx(expected, abs=SEVEN)


def test_peer_numbers_of_a_thousand_scores() -> None:
    auditor = grid_auditor(1000, 1)
    gdp = auditor.epsilon_lower(GaussianRates(), 0.05, 1e-5, threshold_strategy=HULL)
    assert gdp == pytest.approx(peers.THOUSAND_SCORES_GDP, abs=SEVEN)
    one_run = auditor.epsilon_one_run(0.05, 1e-5, threshold_strategy=HULL)
    assert one_run == pytest.approx(peers.THOUSAND_SCORES_ONE_RUN, abs=SOLVED)
    fdp = auditor.epsilon_one_run_fdp(0.05, 1e-5, threshold_strategy=HULL, family=GaussianDP())
    assert fdp == pytest.approx(peers.THOUSAND_SCORES_FDP, abs=SOLVED)
    # Their summaries are of the ROC hull, which for these even scores is nearly the curve itself.
    found = em.Scores.of_canaries(normal_grid(1000) + 1, normal_grid(1000)).bases[0]
    assert found.auc() == pytest.approx(peers.THOUSAND_SCORES_AUROC, abs=1e-3)
    rate = float(found.true_positive_rate(0.01))
    assert rate == pytest.approx(peers.THOUSAND_SCORES_TPR_AT_FPR_01, abs=1e-3)


@pytest.mark.parametrize("delta", list(peers.RAW_COUNTS))
def test_peer_raw_counts(delta: float) -> None:
    values = np.arange(len(peers.RAW_COUNTS_MEMBERS), 0, -1)
    members = np.repeat(values[1:], np.diff(peers.RAW_COUNTS_MEMBERS))
    others = np.repeat(values[1:], np.diff(peers.RAW_COUNTS_OTHERS))
    auditor = CanaryScoreAuditor(members, others)
    found = math.exp(auditor.epsilon_raw_counts(min_count=1, delta=delta))
    assert found == pytest.approx(peers.RAW_COUNTS[delta], rel=1e-12)
    assert auditor.epsilon_raw_counts(min_count=8) == 0.0


def test_ranks_are_the_best_of_their_cuts_with_the_error_shared() -> None:
    rng = np.random.default_rng(2)
    members, others = rng.normal(1, 1, 60), rng.normal(0, 1, 50)
    auditor = CanaryScoreAuditor(members, others)
    ranks = Ranks().of(50)
    highest = np.sort(others)[::-1]
    bounds = [
        ClopperPearson(one_sided=True).lower(
            base(int(k - 1), 50, int((members <= highest[k - 1]).sum()), 60), 0.0, 0.1 / len(ranks)
        )[0]
        for k in ranks
    ]
    assert auditor.epsilon_lower(ONE_SIDED, 0.1) == pytest.approx(max(bounds), rel=1e-12)


@pytest.mark.parametrize("one_sided", [True, False])
def test_one_run_ranks_are_of_all_scores(*, one_sided: bool) -> None:
    rng = np.random.default_rng(4)
    scores, inside = rng.normal(size=200), rng.random(200) < 0.5
    scores[inside] += 2
    auditor = CanaryScoreAuditor(scores[inside], scores[~inside])
    right = inside[np.argsort(-scores)]
    ranks = Ranks().of(200 if one_sided else 100)
    bounds = []
    for k in ranks:
        guesses, correct = k, right[:k].sum()
        if not one_sided:
            guesses, correct = 2 * k, correct + (~right[-k:]).sum()
        bounds.append(float(epsilon_one_run(200, guesses, correct, 1e-5, 0.05 / len(ranks))))
    assert max(bounds) > 0.5
    found = auditor.epsilon_one_run(0.05, 1e-5, one_sided)
    assert found == pytest.approx(max(bounds), abs=1e-8)


def test_any_estimator_from_counts() -> None:
    auditor = grid_auditor(1000, 1)
    grid = normal_grid(1000)
    counts = base(int((grid >= 0.5).sum()), 1000, int((grid + 1 < 0.5).sum()), 1000)
    found = auditor.epsilon_lower(Katz(), 0.05, 1e-5, threshold_strategy=Explicit(0.5))
    assert found == Katz().lower(counts, 1e-5, 0.05)[0]


def test_splits() -> None:
    auditor = grid_auditor(400, 2)
    one, same, other = (
        auditor.epsilon_lower(ONE_SIDED, 0.05, threshold_strategy=Split(seed=seed))
        for seed in (1, 1, 2)
    )
    assert one == same != other
    assert 0.5 < auditor.epsilon_one_run(0.05, 1e-5, threshold_strategy=Split()) < 3.0
    few = CanaryScoreAuditor([1.0], [0.0, 1.0])  # one score cannot be split: no bound
    assert few.epsilon_lower(ONE_SIDED, 0.05, threshold_strategy=Split()) == 0.0


@FIXED
@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30),
    shift=st.integers(-3, 3),
)
def test_only_the_order_of_scores_matters(pairs: list[tuple[int, int]], shift: int) -> None:
    members, others = zip(*pairs, strict=True)
    auditor = CanaryScoreAuditor(members, others)
    moved = CanaryScoreAuditor(
        np.exp(np.asarray(members[::-1]) + shift), np.exp(np.asarray(others[::-1]) + shift)
    )
    for name in BOUNDS:
        bound = bound_of(name, auditor, 0.05, 1e-5)
        assert bound == bound_of(name, moved, 0.05, 1e-5)
        assert 0 <= bound < math.inf


@pytest.mark.parametrize("name", list(BOUNDS))
def test_bounds_are_monotone_and_near(name: str) -> None:
    auditor = grid_auditor(300, 2)
    by_level: list[float] = [bound_of(name, auditor, s, 1e-5) for s in (0.01, 0.05, 0.3)]
    assert by_level == sorted(by_level)
    by_delta: list[float] = [bound_of(name, auditor, 0.05, d) for d in (1e-5, 1e-3, 0.1)]
    assert by_delta == sorted(by_delta, reverse=True)
    assert by_level[1] > 0.9  # the mechanism has 2.3 at delta .01 already


@pytest.mark.parametrize("name", list(BOUNDS))
@pytest.mark.parametrize("strategy", [Ranks(), HULL, Explicit(0.0)], ids=lambda s: type(s).__name__)
def test_uninformative_scores(strategy: ThresholdStrategy, name: str) -> None:
    for size in (1, 10, 500):
        constant = CanaryScoreAuditor(np.zeros(size), np.zeros(size + 1))
        assert bound_of(name, constant, 0.05, 1e-5, threshold_strategy=strategy) == 0.0


@pytest.mark.parametrize("size", [10, 200])
def test_constant_scores_seen_from_both_sides(size: int) -> None:
    # Ties above rank k count as k - 1 false positives, more than there are: valid as an upper limit of
    # the rate, but the reflected decision would use it as a lower one.
    constant = CanaryScoreAuditor(np.zeros(size), np.zeros(size))
    assert constant.epsilon_lower(ClopperPearson(), 0.05) == 0.0


def test_perfect_scores() -> None:
    auditor = CanaryScoreAuditor(np.arange(200) + 1000, np.arange(200))
    for name in BOUNDS:
        assert 2 < bound_of(name, auditor, 0.05, 1e-5) < 30
    assert auditor.epsilon_one_run(0.05, 0.0, one_sided=False) > auditor.epsilon_one_run(0.05, 0.0)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], "one-dimensional and not empty"),
        ([[1.0]], r"got shape \(1, 1\)"),
        ([1.0, math.nan], "got nan"),
        ([math.inf], "got inf"),
    ],
)
def test_scores_out_of_range(scores: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"in_canary_scores.*{message}"):
        CanaryScoreAuditor(scores, [1.0])
    with pytest.raises(InputError, match=f"out_canary_scores.*{message}"):
        CanaryScoreAuditor([1.0], scores)


@pytest.mark.parametrize("name", list(BOUNDS))
@pytest.mark.parametrize(
    ("significance", "delta", "word"),
    [(0.0, 1e-5, "significance"), (1.0, 1e-5, "significance"), (0.05, 1.0, "delta")],
)
def test_settings_out_of_range(name: str, significance: float, delta: float, word: str) -> None:
    with pytest.raises(InputError, match=word):
        bound_of(name, grid_auditor(20, 1), significance, delta)


def test_other_settings_out_of_range() -> None:
    auditor = grid_auditor(20, 1)
    with pytest.raises(InputError, match="min_count >= 1"):
        auditor.epsilon_raw_counts(0)
    with pytest.raises(InputError, match=r"delta > 0, got delta=0\.0: Gaussian DP"):
        auditor.epsilon_lower(GaussianRates(), 0.05, 0.0)
    with pytest.raises(InputError, match=r"Ranks\(\) for one_sided=False"):
        auditor.epsilon_one_run(0.05, 0.0, one_sided=False, threshold_strategy=HULL)


# --- cuts of scores: by hand, by brute force, by another hull; ties counted conservatively --------


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
