"""Leaving a base out by division against estimating without it; twins with a fault must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.checks import influence
from epsilometer.checks.influence import Influence, leave_one_out
from epsilometer.engines.exact.engine import ExactSettings, estimate_exact, estimate_on
from epsilometer.engines.exact.groups import Surface
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.errors import InputError
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Beta, Exponential, Fixed, HalfNormal, Prior, Uniform
from epsilometer.model.region import log_ring_area
from tests.drawn import error_counts
from tests.engines.stated_error_oracle import truth

PROBABILITIES = [0.05, 0.5, 0.95]

#: Both sides are good to 1e-5 here, relative above 1; the share in doubt that is let pass allows
#: for ten times that.
BINOMIAL = 1e-4

#: The exact engine's tolerance: the twin may stop at another refinement step.
CORRELATED = 1e-2


def _counts(x: object, n0: object, y: object, n1: object) -> AttackCounts:
    values = dict(zip(COLUMNS, (x, n0, y, n1), strict=True))
    return AttackCounts(**values)  # type: ignore[arg-type]


def _without(counts: AttackCounts, base: int) -> AttackCounts:
    x, n0, y, n1 = (np.delete(getattr(counts, name), base) for name in COLUMNS)
    return _counts(x, n0, y, n1)


def _quantiles(found: Influence) -> NDArray[np.float64]:
    return np.stack([found.low, found.median, found.high], axis=1)


def _twin(posterior: GridPosterior) -> NDArray[np.float64]:
    """The same quantiles from the exact engine, run without each base."""
    bases = range(len(posterior.counts))
    rests = [estimate_exact(_without(posterior.counts, base), posterior.model) for base in bases]
    return np.array([rest.quantile("epsilon", PROBABILITIES) for rest in rests])


def _gaps(found: Influence, expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest difference for each base, relative above 1."""
    gaps = np.abs(_quantiles(found) - expected) / np.maximum(1, expected)
    return np.asarray(gaps.max(axis=1))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[AttackCounts]:
    """The counts on which the exact engine ran again."""
    seen: list[AttackCounts] = []

    def recorded(
        surface: Surface, counts: AttackCounts, model: CountModel, settings: ExactSettings
    ) -> GridPosterior:
        seen.append(counts)
        return estimate_on(surface, counts, model, settings)

    monkeypatch.setattr(influence, "estimate_on", recorded)
    return seen


STRONG = ([40, 50, 100, 120, 200], [250, 200, 100, 100, 80])

CASES: dict[str, tuple[AttackCounts, CountModel]] = {
    "delta 0.05, N0 and N1 differ": (
        _counts(STRONG[0], 1000, np.array(STRONG[1]) * 4 // 10, 400),
        CountModel(delta=0.05),
    ),
    "delta 0": (_counts(STRONG[0], 1000, STRONG[1], 1000), CountModel(delta=0.0)),
    "few trials": (
        _counts([3, 1, 0, 2], [5, 4, 6, 9], [1, 2, 0, 5], [7, 4, 3, 9]),
        CountModel(delta=0.01, strength=Beta(a=2.0, b=2.0), epsilon=Exponential(mean=2.0)),
    ),
    "strength fixed": (
        _counts(STRONG[0][:3], 200, STRONG[1][:3], 300),
        CountModel(delta=0.01, strength=Fixed(value=0.5)),
    ),
    "strength 1": (
        _counts([10, 12, 9, 5], 100, [20, 18, 22, 25], 80),
        CountModel(delta=0.05, strength=Fixed(value=1.0)),
    ),
    "correlated, delta 0": (
        _counts([10, 12, 9], 100, [20, 18, 22], 80),
        CountModel(delta=0.0, likelihood=CorrelatedNormal()),
    ),
    "correlated, spike near 0": (
        _counts([2, 1, 3], 100, [98, 98, 97], 100),
        CountModel(delta=0.001, likelihood=CorrelatedNormal()),
    ),
    "correlated, strength fixed": (
        _counts([10, 20, 5], 100, [20, 23, 14], 80),
        CountModel(delta=0.05, likelihood=CorrelatedNormal(), strength=Fixed(value=0.2)),
    ),
    # Four uninformative attacks and one that alone determines epsilon.
    "outlier": (
        _counts([500, 480, 510, 505, 100], 1000, [500, 505, 490, 510, 100], 1000),
        CountModel(delta=0.01),
    ),
}


@cache
def _posterior(case: str) -> GridPosterior:
    return estimate_exact(*CASES[case])


@cache
def _expected(case: str) -> NDArray[np.float64]:
    return _twin(_posterior(case))


QUICK = ("delta 0", "strength fixed", "correlated, delta 0")


@pytest.mark.parametrize(
    "case",
    [
        case if case in QUICK else pytest.param(case, marks=pytest.mark.slow)
        for case in CASES
        if case != "outlier"
    ],
)
def test_division_is_estimation_without_the_base(case: str, runs: list[AttackCounts]) -> None:
    posterior = _posterior(case)
    found = leave_one_out(posterior)
    # Otherwise it would be the twin itself.  Panels resolve a spike near 0 for all bases together,
    # but not without one of them, so there the engine does run again.
    assert len(runs) < len(posterior.counts) / 2 or "spike" in case
    assert found.reliable.all()
    tolerance = CORRELATED if "correlated" in case else BINOMIAL
    if "spike" in case:
        # The two stop at different refinement steps, each within its own tolerance.
        tolerance *= 2
    assert np.all(_gaps(found, _expected(case)) < tolerance)


def test_against_the_oracle() -> None:
    """The twin uses nothing of the exact engine."""
    rows = [(30, 100, 20, 60), (20, 100, 20, 60), (25, 100, 30, 60)]
    x, n0, y, n1 = zip(*rows, strict=True)
    found = leave_one_out(estimate_exact(_counts(x, n0, y, n1), CountModel(delta=0.01)))
    for base in range(3):
        rest = rows[:base] + rows[base + 1 :]
        expected = truth(rest, 0.01, HalfNormal(), Beta(), PROBABILITIES).quantiles["epsilon"]
        np.testing.assert_allclose(_quantiles(found)[base], expected, rtol=BINOMIAL, atol=BINOMIAL)


# --- deliberate mistakes ------------------------------------------------------------------------

Each = Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]


def _distort(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[GridPosterior, NDArray[np.float64]], NDArray[np.float64]],
) -> None:
    """Divide out other likelihoods than those of the bases."""
    true = influence._Division.each

    def wrong(self: influence._Division) -> Each:
        for rows, logs in true(self):
            yield rows, change(self._posterior, logs)

    monkeypatch.setattr(influence._Division, "each", wrong)


def _multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    _distort(monkeypatch, lambda _, logs: -logs)


def _forget_the_area(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(posterior: GridPosterior, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        cells = posterior.cells
        area = log_ring_area(cells.epsilon[cells.row], posterior.model.delta, cells.strength)
        return logs + area[:, None]

    _distort(monkeypatch, change)


def _divide_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    _distort(monkeypatch, lambda _, logs: 2 * logs)


def _leave_out_another(monkeypatch: pytest.MonkeyPatch) -> None:
    true = influence._Division.each

    def wrong(self: influence._Division) -> Each:
        found = list(true(self))
        for (rows, _), (_, logs) in zip(found, found[1:] + found[:1], strict=True):
            yield rows, logs

    monkeypatch.setattr(influence._Division, "each", wrong)


@pytest.mark.parametrize(
    "mistake", [_multiply, _forget_the_area, _divide_twice, _leave_out_another]
)
def test_the_twin_rejects_known_mistakes(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative controls: all of these differ from the twin by far more than is let pass."""
    monkeypatch.setattr(influence, "MOST_AGAIN", 0)
    mistake(monkeypatch)
    assert _gaps(leave_one_out(_posterior("delta 0")), _expected("delta 0")).max() > 0.03


# --- where the grid is inadequate ---------------------------------------------------------------


def test_an_outlying_base_is_left_out_by_a_new_estimate(runs: list[AttackCounts]) -> None:
    found = leave_one_out(_posterior("outlier"))
    assert [counts.false_positives.tolist() for counts in runs] == [[500, 480, 510, 505]]
    assert found.reliable.all()
    assert np.all(_gaps(found, _expected("outlier")) < BINOMIAL)
    assert found.median[4] < 0.05 < found.median[:4].min()


def test_without_a_new_estimate_it_is_not_reliable(
    monkeypatch: pytest.MonkeyPatch, runs: list[AttackCounts]
) -> None:
    """The doubt is justified: divided out, the outlier is off by far."""
    monkeypatch.setattr(influence, "MOST_AGAIN", 0)
    found = leave_one_out(_posterior("outlier"))
    assert not runs
    assert found.reliable.tolist() == [True, True, True, True, False]
    gaps = _gaps(found, _expected("outlier"))
    assert np.all(gaps[:4] < BINOMIAL)
    assert gaps[4] > 1


def test_the_most_doubtful_come_first_and_many_bases_allow_few() -> None:
    def worst(doubt: NDArray[np.float64], *, groups: bool = False) -> list[int]:
        kinds = [(float(each), np.array([row])) for row, each in enumerate(doubt)]
        return [int(rows[0]) for rows in influence._worst(kinds, groups=groups)]

    doubt = np.array([0.5, 3.0, 1.0, 7.0])
    assert worst(doubt) == [3, 1, 2]
    assert not worst(doubt, groups=True)
    many = np.full(600, 2.0)
    many[17] = 9.0
    assert worst(many) == [17]
    assert len(worst(np.full(22, 2.0))) == 22 == influence.MOST_BASES_AGAIN // 22


def test_a_base_that_sets_the_prior_of_the_correlations(runs: list[AttackCounts]) -> None:
    """It alone has many trials; without it tau, rho and epsilon have other bounds."""
    counts = _counts([10, 12, 8], [60, 50, 50], [14, 12, 14], 50)
    posterior = estimate_exact(counts, CountModel(delta=0.01, likelihood=CorrelatedNormal()))
    gaps = _gaps(leave_one_out(posterior), _twin(posterior))
    assert [rest.trials_h0.tolist() for rest in runs] == [[50, 50]]
    # The twin does exactly the same.
    assert gaps[0] == 0
    assert gaps.max() < CORRELATED


def test_a_posterior_that_missed_its_tolerance_has_no_reliable_influence() -> None:
    counts, model = CASES["delta 0"]
    posterior = estimate_exact(counts, model, ExactSettings(tolerance=1e-14, most_levels=2))
    assert not posterior.trustworthy
    assert not leave_one_out(posterior).reliable.any()


# --- one base, symmetries, order ----------------------------------------------------------------


@pytest.mark.parametrize("prior", [HalfNormal(), Exponential(mean=2.0), Uniform(upper=7.0)])
def test_without_the_only_base_there_is_the_prior(prior: Prior) -> None:
    model = CountModel(delta=0.01, epsilon=prior)
    found = leave_one_out(estimate_exact(_counts([10], 40, [9], 40), model), level=0.8)
    assert found.level == 0.8
    assert found.reliable.tolist() == [True]
    np.testing.assert_array_equal(_quantiles(found)[0], prior.quantile([0.5 - 0.4, 0.5, 0.5 + 0.4]))


def test_mirror_images_have_one_influence_and_order_does_not_matter() -> None:
    # Bases 0, 1 and 3 are one case: exchanged, and reflected.
    counts = error_counts(
        [5, 20, 30, 45],
        [20, 5, 10, 40],
        [50, 60, 80, 50],
        [60, 50, 40, 60],
        names=["a", "b", "c", "d"],
    )
    model = CountModel(delta=0.02)
    found = leave_one_out(estimate_exact(counts, model))
    assert found.names == ("a", "b", "c", "d")
    values = _quantiles(found)
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[3])
    assert not np.array_equal(values[0], values[2])
    order = np.array([2, 3, 0, 1])
    turned = AttackCounts(
        **{name: getattr(counts, name)[order] for name in COLUMNS},
        names=[counts.names[index] for index in order],
    )
    again = leave_one_out(estimate_exact(turned, model))
    assert again.names == ("c", "d", "a", "b")
    # The same sums in the same order, since bases are sorted into kinds first.
    np.testing.assert_array_equal(_quantiles(again), values[order])


# --- refusals and progress ----------------------------------------------------------------------


def test_refusals() -> None:
    counts = _counts([10, 30], 100, [20, 30], 80)
    fixed = estimate_exact(counts, CountModel(delta=0.01, epsilon=Fixed(value=2.0)))
    with pytest.raises(InputError, match=r"Fixed\(value=2.0\): no base influences"):
        leave_one_out(fixed)
    with pytest.raises(InputError, match="0 < level < 1"):
        leave_one_out(estimate_exact(counts, CountModel(delta=0.01)), level=1.0)


def test_work_is_reported() -> None:
    lines: list[str] = []
    leave_one_out(_posterior("outlier"), on_message=lines.append)
    assert lines == [
        "likelihoods of the bases",
        "without base '4', new estimate (1 of 1)",
    ]
