"""How much more data would settle a verdict: against a plain loop over multiplied counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from epsilometer.engines.exact.engine import estimate_exact
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.engines.mcmc.diagnostics import diagnose
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.errors import ContradictionError
from epsilometer.judgement import outlook
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.outlook import (
    FACTORS,
    MOST_DISTINCT,
    MoreData,
    Outlook,
    look_ahead,
    with_more_bases,
    with_more_challenges,
)
from epsilometer.judgement.question import Question
from epsilometer.judgement.verdict import Grounds, Outcome, Thresholds, Verdict
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
from epsilometer.model.priors import HalfNormal
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.provenance import Provenance

COUNTS = AttackCounts(
    false_positives=[4, 9],
    trials_h0=[40, 50],
    false_negatives=[12, 20],
    trials_h1=[40, 60],
    names=["first", "second"],
)
MODEL = CountModel(delta=0.01, epsilon=HalfNormal(scale=3.0))
PROBABILITIES = (0.06, 0.2, 0.3, 0.5, 0.8, 0.9)
"""Positions of the claims in the posterior."""


@cache
def posterior() -> GridPosterior:
    return estimate_exact(COUNTS, MODEL)


def verdict_of(posterior: CountPosterior, **asked: Any) -> Verdict:
    verdict = result_of(posterior, Question(**asked)).verdict
    assert verdict is not None
    return verdict


def claim_at(probability: float) -> float:
    return float(posterior().quantile("epsilon", probability))


def draws(
    counts: AttackCounts, likelihood: IndependentBinomial | CorrelatedNormal | None = None
) -> SamplePosterior:
    """Any posterior of given counts: only its counts and its model are used."""
    model = CountModel(delta=0.01, likelihood=likelihood or IndependentBinomial())
    samples = {name: np.full((2, 10), 0.5) for name in model.parameters_of(counts)}
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=Provenance(engine="mcmc", settings={}, seconds=0.0, seed=1),
        samples=samples,
        diagnostics=diagnose(samples, acceptance_rate=0.3),
    )


UNSETTLED = Verdict(
    outcome=Outcome.INCONCLUSIVE,
    grounds=Grounds.OPEN,
    reasons=("the posterior lies on both sides of the claim",),
    claim=1.0,
    probability_above=0.5,
    prior_probability_above=0.7,
)


# --- counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", FACTORS)
def test_more_challenges_have_the_same_rates(factor: int) -> None:
    more = with_more_challenges(COUNTS, factor)
    assert more.false_positives.tolist() == [4 * factor, 9 * factor]
    assert more.trials_h0.tolist() == [40 * factor, 50 * factor]
    assert more.false_negatives.tolist() == [12 * factor, 20 * factor]
    assert more.trials_h1.tolist() == [40 * factor, 60 * factor]
    assert more.names == ("first", "second")
    assert more.false_positive_rates.tolist() == COUNTS.false_positive_rates.tolist()
    assert more.false_negative_rates.tolist() == COUNTS.false_negative_rates.tolist()


@pytest.mark.parametrize("factor", FACTORS)
def test_more_bases_are_the_same_again(factor: int) -> None:
    more = with_more_bases(COUNTS, factor)
    assert len(more) == 2 * factor
    rows = set(
        zip(more.false_positives, more.trials_h0, more.false_negatives, more.trials_h1, strict=True)
    )
    assert rows == {(4, 40, 12, 40), (9, 50, 20, 60)}
    kinds, times = more.distinct()
    assert (len(kinds), times.tolist()) == (2, [factor] * 2)


# --- against a plain loop ---------------------------------------------------------------------


def by_hand(counts: AttackCounts, factor: int, way: str) -> AttackCounts:
    """A slow obvious twin."""
    rows = [
        (int(x), int(n0), int(y), int(n1))
        for x, n0, y, n1 in zip(
            counts.false_positives,
            counts.trials_h0,
            counts.false_negatives,
            counts.trials_h1,
            strict=True,
        )
    ]
    if way == "challenges":
        rows = [(factor * x, factor * n0, factor * y, factor * n1) for x, n0, y, n1 in rows]
    else:
        rows = [row for row in rows for _ in range(factor)]
    x, n0, y, n1 = zip(*rows, strict=True)
    return AttackCounts(false_positives=x, trials_h0=n0, false_negatives=y, trials_h1=n1)


@cache
def ahead(factor: int, way: str) -> GridPosterior:
    return estimate_exact(by_hand(COUNTS, factor, way), MODEL)


def plain_loop(claim: float, thresholds: Thresholds, way: str) -> MoreData:
    """From the smallest factor up, until the verdict is settled."""
    for factor in (2, 4, 10):
        above = ahead(factor, way).probability_above("epsilon", claim)
        outcome = thresholds.outcome(above)
        if outcome is not Outcome.INCONCLUSIVE:
            return MoreData(
                factor=factor, outcome=outcome, probability_above=above, largest_factor=10
            )
    return MoreData(factor=None, outcome=outcome, probability_above=above, largest_factor=10)


def same(found: MoreData | None, expected: MoreData) -> bool:
    assert found is not None
    # The order of the bases changes sums by rounding, and so the error of 1e-16 in a table.
    close = abs(found.probability_above - expected.probability_above) < 1e-9
    return close and (found.factor, found.outcome, found.largest_factor) == (
        expected.factor,
        expected.outcome,
        expected.largest_factor,
    )


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize(
    "thresholds", [Thresholds(), Thresholds(pass_at_most=0.02, fail_at_least=0.8)]
)
def test_smallest_factor_is_what_a_plain_loop_finds(
    probability: float, thresholds: Thresholds
) -> None:
    claim = claim_at(probability)
    verdict = verdict_of(posterior(), claim=claim, thresholds=thresholds)
    found = look_ahead(posterior(), verdict)
    assert same(found.challenges, plain_loop(claim, thresholds, "challenges"))
    assert same(found.bases, plain_loop(claim, thresholds, "bases"))


def test_the_claims_above_cover_every_answer() -> None:
    """Controls: each factor and none is the answer somewhere, and the two kinds of data differ."""
    thresholds = Thresholds()
    answers = {
        way: [plain_loop(claim_at(p), thresholds, way).factor for p in PROBABILITIES]
        for way in ("challenges", "bases")
    }
    assert {*answers["challenges"], *answers["bases"]} == {2, 4, 10, None}
    assert answers["challenges"] != answers["bases"]


def test_claim_is_that_of_the_verdict() -> None:
    """Control: the answer for another claim fails the same comparison."""
    claim, other = claim_at(0.3), claim_at(0.8)
    found = look_ahead(posterior(), verdict_of(posterior(), claim=claim))
    assert same(found.challenges, plain_loop(claim, Thresholds(), "challenges"))
    assert not same(found.challenges, plain_loop(other, Thresholds(), "challenges"))


def test_draws_are_looked_ahead_of_by_the_exact_engine() -> None:
    sampled = draws(COUNTS)
    verdict = verdict_of(sampled, claim=claim_at(0.5), accept_untrusted=True)
    found = look_ahead(sampled, verdict).bases
    assert found is not None
    expected = estimate_exact(with_more_bases(COUNTS, found.factor or 10), sampled.model)
    # Exactly the same computation.
    assert found.probability_above == expected.probability_above("epsilon", verdict.claim)


# --- the search -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Foreseen:
    """The parts of an engine's result that are used."""

    above: float
    trustworthy: bool = True

    def probability_above(self, parameter: str, value: float) -> float:
        assert (parameter, value) == ("epsilon", UNSETTLED.claim)
        return self.above


def foresee(
    monkeypatch: pytest.MonkeyPatch, answers: dict[int, Foreseen | Exception], trials: int = 100
) -> list[int]:
    """Answer by the factor with which one base was multiplied; record the factors."""
    factors: list[int] = []

    def engine(counts: AttackCounts, _: CountModel) -> Any:
        factor = int(counts.trials_h1.sum()) // trials
        factors.append(factor)
        answer = answers[factor]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(outlook, "estimate_exact", engine)
    return factors


def one_base(trials_h0: int = 50, trials_h1: int = 100) -> AttackCounts:
    return AttackCounts(
        false_positives=[10], trials_h0=trials_h0, false_negatives=[10], trials_h1=trials_h1
    )


YES, NO, OPEN = Foreseen(0.01), Foreseen(0.99), Foreseen(0.5)


@pytest.mark.parametrize(
    ("at_2", "at_4", "at_10", "factors", "factor", "outcome"),
    [
        (YES, YES, YES, [10, 4, 2], 2, "PASS"),
        (NO, NO, NO, [10, 4, 2], 2, "FAIL"),
        (OPEN, YES, YES, [10, 4, 2], 4, "PASS"),
        (OPEN, OPEN, NO, [10, 4], 10, "FAIL"),
        (OPEN, OPEN, OPEN, [10], None, "INCONCLUSIVE"),
        # Not monotone: if the largest factor leaves it open, it counts as open.
        (YES, YES, OPEN, [10], None, "INCONCLUSIVE"),
        (YES, OPEN, YES, [10, 4], 10, "PASS"),
        # Any error ends the search; earlier findings are kept.
        (YES, Foreseen(0.0, trustworthy=False), YES, [10, 4], 10, "PASS"),
        (ContradictionError(), NO, NO, [10, 4, 2], 4, "FAIL"),
    ],
)
def test_search_from_the_largest_factor(
    monkeypatch: pytest.MonkeyPatch,
    at_2: Foreseen,
    at_4: Foreseen,
    at_10: Foreseen,
    factors: list[int],
    factor: int | None,
    outcome: str,
) -> None:
    answers: dict[int, Any] = {2: at_2, 4: at_4, 10: at_10}
    found = foresee(monkeypatch, answers)
    result = look_ahead(draws(one_base()), UNSETTLED)
    # Of one base, ten bases have as many trials in all as ten times the challenges.
    assert found == factors * 2
    assert result.challenges is not None
    assert result.challenges == result.bases
    assert (result.challenges.factor, str(result.challenges.outcome)) == (factor, outcome)
    assert result.challenges.largest_factor == 10
    assert result.challenges.probability_above == answers[factor or 10].above


@pytest.mark.parametrize(
    "wrong", [Foreseen(0.0, trustworthy=False), ContradictionError("no weight")]
)
def test_nothing_is_said_where_the_largest_factor_went_wrong(
    monkeypatch: pytest.MonkeyPatch, wrong: Foreseen | Exception
) -> None:
    factors = foresee(monkeypatch, {10: wrong})
    result = look_ahead(draws(one_base()), UNSETTLED)
    assert result == Outlook(challenges=None, bases=None)
    assert factors == [10, 10]


@pytest.mark.parametrize(
    "counts",
    [
        one_base(trials_h0=50, trials_h1=2 * 10**14),
        one_base(trials_h0=2 * 10**14, trials_h1=100),
    ],
    ids=["h1", "h0"],
)
def test_challenges_beyond_what_can_be_counted_are_not_tried(
    monkeypatch: pytest.MonkeyPatch, counts: AttackCounts
) -> None:
    """Ten times 2e14 trials exceeds 1e15, under either hypothesis; more bases are no problem."""
    trials = int(counts.trials_h1[0])
    factors = foresee(monkeypatch, {2: OPEN, 4: YES, 10: NO}, trials)
    found = look_ahead(draws(counts), UNSETTLED)
    assert factors == [4, 2, 10, 4, 2]
    assert found.challenges == MoreData(
        factor=4, outcome=Outcome.PASS, probability_above=0.01, largest_factor=4
    )
    assert found.bases is not None
    assert (found.bases.factor, found.bases.largest_factor) == (4, 10)


def test_no_factor_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = one_base(trials_h1=9 * 10**14)
    foresee(monkeypatch, {10: OPEN}, 9 * 10**14)
    found = look_ahead(draws(counts), UNSETTLED)
    assert found.challenges is None
    assert found.bases is not None


def distinct(number: int) -> AttackCounts:
    counts = AttackCounts(
        false_positives=np.arange(number),
        trials_h0=2000,
        false_negatives=np.full(number, 7),
        trials_h1=3000,
    )
    assert len(counts.distinct()[0]) == number
    return counts


@pytest.mark.parametrize(
    ("likelihood", "most"), [(IndependentBinomial(), 1000), (CorrelatedNormal(), 60)]
)
def test_too_many_distinct_counts_are_left(
    monkeypatch: pytest.MonkeyPatch, likelihood: IndependentBinomial | CorrelatedNormal, most: int
) -> None:
    assert MOST_DISTINCT == {True: 1000, False: 60}
    factors = foresee(monkeypatch, {10: OPEN}, trials=3000 * most)
    few = look_ahead(draws(distinct(most), likelihood), UNSETTLED)
    assert few.challenges == few.bases is not None
    assert factors == [10, 10]
    many = look_ahead(draws(distinct(most + 1), likelihood), UNSETTLED)
    assert many == Outlook(challenges=None, bases=None)
    assert factors == [10, 10]
    # Repeating the same counts keeps the number of distinct ones small.
    repeated = with_more_bases(distinct(most // 10), 10 * 10)
    foresee(monkeypatch, {10: OPEN}, trials=3000 * len(repeated))
    assert look_ahead(draws(repeated, likelihood), UNSETTLED).bases is not None


def test_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    foresee(monkeypatch, {4: OPEN, 10: YES})
    messages: list[str] = []
    report: Callable[[str], None] = messages.append
    look_ahead(draws(one_base()), UNSETTLED, on_message=report)
    assert messages == [f"outlook with {k} times as much data" for k in (10, 4, 10, 4)]


def test_the_model_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[CountModel] = []

    def engine(counts: AttackCounts, model: CountModel) -> Foreseen:
        models.append(model)
        return OPEN

    monkeypatch.setattr(outlook, "estimate_exact", engine)
    correlated = draws(one_base(), CorrelatedNormal(within_correlation_scale=0.02))
    look_ahead(correlated, UNSETTLED)
    assert models == [correlated.model] * 2
