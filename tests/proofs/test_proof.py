"""Proofs: what they state, for which data, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.errors import InputError
from epsilometer.model.count_tables import MeasuredBy
from epsilometer.model.counts import counts_of
from epsilometer.proofs.outcomes import PAIRS_BEFORE_BETS, outcomes_of
from epsilometer.proofs.pairs import PairTest
from epsilometer.proofs.proof import prove, refuted_together
from epsilometer.proofs.refuting import ACCURACY, refuted_up_to
from studies.mechanisms import LaplaceMechanism, Mechanism, Null, RandomisedResponse
from studies.proofs import PEEKING, PROOF, RefutationCell, path
from tests.baselines.oracles import most_failures
from tests.proofs.test_ceiling import KINDS, both_kinds

FloatArray = NDArray[np.float64]


def normal_scores(bases: int, models: int, shift: float, seed: int = 1) -> em.Scores:
    rng = np.random.default_rng(seed)
    return em.Scores(
        without=[rng.normal(size=models) for _ in range(bases)],
        with_point=[rng.normal(size=models) + shift for _ in range(bases)],
    )


# --- what is proven ---------------------------------------------------------------------------


def test_the_bound_is_below_the_truth_and_close() -> None:
    """Normal scores 2 apart have epsilon 10 at delta 1e-5, but 100 models per side show little."""
    small, large = (prove(normal_scores(b, n, 2.0), delta=1e-5) for b, n in ((1, 100), (20, 500)))
    assert 1.0 < small.at_least < large.at_least < 10.0
    assert large.at_least > 3.0


def test_refuted_claims_are_below_the_bound_with_their_e_value() -> None:
    scores = normal_scores(3, 200, 2.0)
    least = prove(scores, delta=1e-5).at_least
    for claim, refuted in ((0.0, True), (least - 1e-3, True), (least + 1e-3, False), (9.0, False)):
        proof = prove(scores, delta=1e-5, claim=claim)
        assert proof.refuted is refuted
        assert proof.e_value is not None
        assert (proof.e_value >= 20) is refuted
    assert not prove(scores, delta=1e-5).refuted


def test_everything_below_is_refuted_too() -> None:
    """The bound is the first epsilon that is not refuted, whatever is beyond it."""
    bound = refuted_up_to(lambda epsilon: not 0.4 < epsilon < 0.6)
    assert bound == pytest.approx(0.4, abs=2 * ACCURACY)


@pytest.mark.parametrize("error", [0.2, 0.05, 1e-3])
def test_less_error_proves_less(error: float) -> None:
    scores = normal_scores(3, 200, 1.5)
    least = prove(scores, delta=1e-5, error=error).at_least
    assert least <= prove(scores, delta=1e-5, error=2 * error).at_least
    assert least >= prove(scores, delta=1e-2, error=error).at_least


def test_the_unit_of_scores_does_not_matter() -> None:
    """Thresholds at ranks need the order alone, but those at fits are means and deviations."""
    scores = normal_scores(2, 100, 1.5)

    def changed(change: Callable[[FloatArray], FloatArray]) -> em.Scores:
        sides = [[change(base.in_training_order[n]) for base in scores.bases] for n in (0, 1)]
        return em.Scores(without=sides[0], with_point=sides[1])

    expected = prove(scores, delta=1e-5)
    assert prove(changed(lambda side: 8 * side), delta=1e-5) == expected
    # Scores of one sign and a long tail are fitted by their logarithms.
    grown = [changed(lambda side, by=by: by * np.exp(3 * side)) for by in (1, 1e9)]  # type: ignore[misc]
    least = [prove(each, delta=1e-5).at_least for each in grown]
    assert least[0] == pytest.approx(least[1], abs=2e-4)
    assert least[0] == pytest.approx(expected.at_least, rel=0.15)


def test_exchanging_the_hypotheses_and_the_sign_changes_nothing() -> None:
    scores = normal_scores(2, 100, 1.5)
    mirrored = em.Scores(
        without=[-base.in_training_order[1] for base in scores.bases],
        with_point=[-base.in_training_order[0] for base in scores.bases],
    )
    ours, theirs = (prove(each, delta=1e-5, claim=0.3).e_value for each in (scores, mirrored))
    assert ours == pytest.approx(theirs)


def test_models_that_serve_several_bases_prove_less() -> None:
    scores = normal_scores(10, 100, 1.5)
    shared = prove(scores, delta=1e-5, independent=False)
    assert shared.at_least < prove(scores, delta=1e-5).at_least
    assert "share models" in shared.assumes
    # The same base ten times, treated as ten bases, would prove what one does not.
    base = normal_scores(1, 100, 0.7).bases[0]
    copies = em.Scores.of_bases([base] * 10, range(10))
    one = prove(em.Scores.of_bases([base], ["a"]), delta=1e-5, claim=0.3)
    wrong = prove(copies, delta=1e-5, claim=0.3)
    right = prove(copies, delta=1e-5, claim=0.3, independent=False)
    assert wrong.e_value is not None
    assert right.e_value is not None
    assert wrong.e_value > 20 > right.e_value
    assert right.e_value == pytest.approx(one.e_value)


def test_claims_beyond_everything_are_taken() -> None:
    with np.errstate(over="raise", invalid="raise"):
        for data in (normal_scores(1, 50, 1.0), COUNTS):
            assert not prove(data, delta=0.0, claim=1e6).refuted


# --- false refutations: every look counts -----------------------------------------------------


@pytest.mark.parametrize("mechanism", [Null(), RandomisedResponse(1.0), LaplaceMechanism(1.0)])
def test_a_true_claim_is_rarely_refuted_at_any_time(mechanism: Mechanism) -> None:
    runs = 120
    cell = RefutationCell(mechanism=mechanism, bases=2, models=60, runs=runs)
    found = cell.judge("runs", 0.05, runs, np.random.default_rng(5))
    assert found[PROOF]["refuted"] <= most_failures(runs)


def test_the_control_is_caught_and_the_proof_is_not() -> None:
    """The Clopper-Pearson bound, valid once, is not a proof if it is checked after every model."""
    runs = 300
    cell = RefutationCell(mechanism=RandomisedResponse(1.0), bases=1, models=200, runs=runs)
    found = cell.judge("runs", 0.2, runs, np.random.default_rng(6))
    assert found[PEEKING]["refuted"] > most_failures(runs, 0.2)
    assert found[PROOF]["refuted"] <= most_failures(runs, 0.2)


def test_a_path_ends_at_the_e_value() -> None:
    scores = normal_scores(3, 80, 1.0)
    proof = prove(scores, delta=1e-5, claim=0.4)
    along = path(scores, 0.4, 1e-5)
    assert len(along) == 3 * 80
    assert np.exp(along[-1]) == pytest.approx(proof.e_value)
    np.testing.assert_allclose(along[:PAIRS_BEFORE_BETS], 0.0, atol=1e-12)


@pytest.mark.slow
def test_ten_thousand_true_claims() -> None:
    for mechanism in (Null(), RandomisedResponse(1.0)):
        cell = RefutationCell(mechanism=mechanism, bases=1, models=100, runs=10_000)
        found = cell.judge("runs", 0.05, 10_000, np.random.default_rng(8))
        assert found[PROOF]["refuted"] <= most_failures(10_000)


# --- the order of models ----------------------------------------------------------------------


def test_order_survives_files(tmp_path: Path) -> None:
    scores = normal_scores(2, 40, 1.0)
    scores.write(tmp_path / "scores.csv")
    again = em.Scores.read(tmp_path / "scores.csv")
    for mine, theirs in zip(scores.bases, again.bases, strict=True):
        np.testing.assert_array_equal(mine.in_training_order, theirs.in_training_order)
    model = em.CurveModel(
        delta=1e-3, families=(em.families.Gaussian(),), mixing=em.families.NoMixing()
    )
    estimate(scores, model).save(tmp_path / "posterior.nc")
    loaded = em.load(tmp_path / "posterior.nc").scores
    assert prove(loaded, delta=1e-3) == prove(scores, delta=1e-3)
    assert prove(loaded, delta=1e-3).any_time


def test_replicates_order_the_models(tmp_path: Path) -> None:
    rows = ["challenge_base,hypothesis,replicate,score"]
    rows += [f"a,{h},{9 - n},{n + 10 * h}" for n in range(10) for h in (0, 1)]
    (tmp_path / "s.csv").write_text("\n".join(rows) + "\n")
    base = em.Scores.read(tmp_path / "s.csv").bases[0]
    assert base.in_training_order[0].tolist() == list(range(9, -1, -1))


@pytest.mark.parametrize("rising", [True, False])
def test_a_sorted_file_is_no_order_of_models(rising: bool) -> None:
    """Thresholds on sorted scores would use the later ones: such scores are shuffled."""
    rng = np.random.default_rng(2)
    sides = [np.sort(rng.normal(size=100))[:: 1 if rising else -1] for _ in range(2)]
    proof = prove(em.Scores(without=[sides[0]], with_point=[sides[1]]), delta=1e-5)
    assert not proof.any_time
    assert "drawn at random" in proof.assumes
    assert proof.at_least == 0.0


def test_sorted_scores_without_shuffling_would_prove_too_much() -> None:
    """The control of the check above: both sides decreasing, a shift of half a deviation."""
    rng = np.random.default_rng(2)
    without = np.sort(rng.normal(size=400))[::-1]
    with_point = np.sort(rng.normal(size=400) + 0.5)[::-1]
    truth = 1.99  # of that shift at delta = 1e-5
    as_they_stand = PairTest(outcomes=outcomes_of([(without, with_point)]))
    assert as_they_stand.log_e_value(truth, 1e-5, 0.05) > np.log(20)
    proof = prove(em.Scores(without=[without], with_point=[with_point]), delta=1e-5)
    assert not proof.any_time
    assert proof.at_least < truth


@pytest.mark.parametrize("how", ["opposite", "middle"])
def test_other_orders_that_follow_the_scores_are_seen(how: str) -> None:
    """Sides sorted in opposite directions, and sorted by the distance from the median."""
    rng = np.random.default_rng(3)
    without, with_point = [], []
    for _ in range(10):
        zeros, ones = np.sort(rng.normal(size=20)), np.sort(rng.normal(size=20))
        if how == "middle":
            zeros, ones = (side[np.argsort(np.abs(side))] for side in (zeros, ones))
            zeros = zeros[::-1]
        else:
            zeros = zeros[::-1]
        without.append(zeros)
        with_point.append(ones)
    scores = em.Scores(without=without, with_point=with_point)
    as_they_stand = PairTest(
        outcomes=outcomes_of([base.in_training_order for base in scores.bases])
    )
    if how == "opposite":  # the control: in the given order, noise would refute
        assert as_they_stand.log_e_value(0.0, 0.0, 0.05) > np.log(20)
    assert not prove(scores, delta=0.0).any_time
    assert prove(scores, delta=0.0).at_least == 0.0


def test_models_in_their_order_are_not_shuffled() -> None:
    seen = [prove(normal_scores(20, 30, 1.0, seed), delta=1e-3).any_time for seed in range(15)]
    assert all(seen)


# --- data of every shape ----------------------------------------------------------------------

#: What is assumed of data of each kind of `test_ceiling.py`; a * where they may be looked at any time.
ASSUMED = {
    "one base": "*models trained independently",
    "bases in a planned order": "*models trained independently",
    "unequal sizes": "*models trained independently",
    "incomplete pairs": "numbers of models fixed in advance",
    "bases that share models": "bases are averaged",
    "counts": "independent decisions, decision rules and numbers of challenges fixed in advance",
    "dependent counts": "independent decisions within a row",
    "scores and counts": "models trained independently; independent decisions",
    "a run": "each canary included by its own fair coin",
    "runs": "flipped separately for every run",
    "runs with equal coins": "possibly equal in all runs",
    "a pool": "each point in each model by its own fair coin",
    "a pool of drawn records": "a point's coin is independent of the others",
}


@pytest.mark.parametrize("kind", ASSUMED)
def test_every_shape_of_data_says_what_it_assumes(kind: str) -> None:
    make, independent, _ = KINDS[kind]
    proof = em.prove(make(2.0, 1.0), delta=1e-5, independent=independent)
    assert 0.2 < proof.at_least < proof.most_provable < 10.0  # the truth
    assumed = ASSUMED[kind]
    assert assumed.removeprefix("*") in proof.assumes
    assert proof.any_time == assumed.startswith("*") == ("one planned" not in proof.assumes)


def test_ties_and_an_unknown_order_prove_a_little_less() -> None:
    known = normal_scores(2, 100, 2.0)
    sides = [[np.rint(base.in_training_order[n]) for base in known.bases] for n in (0, 1)]
    tied = em.Scores(without=sides[0], with_point=sides[1])
    bare = em.Scores.of_bases([replace(base, arrival=None) for base in known.bases], range(2))
    least, rounded, unordered = (prove(each, delta=1e-5) for each in (known, tied, bare))
    assert rounded.any_time
    assert not unordered.any_time
    assert "drawn at random" in unordered.assumes
    for each in (rounded, unordered):
        assert each.at_least == pytest.approx(least.at_least, rel=0.3)


def test_models_without_a_partner_are_not_used() -> None:
    given = KINDS["incomplete pairs"][0](2.0, 1.0)
    pairs = [base.complete_pairs for base in given.bases]  # type: ignore[union-attr]
    alone = em.Scores(without=[a for a, _ in pairs], with_point=[b for _, b in pairs])
    assert alone.trials_h1.tolist() == [50, 40]
    assert prove(given, delta=1e-5).at_least == prove(alone, delta=1e-5).at_least


def test_scores_and_counts_are_multiplied_or_averaged() -> None:
    data = both_kinds(2.0, 1.0)
    for independent in (True, False):
        given: Any = {"delta": 1e-5, "claim": 0.2, "independent": independent}
        alone = [prove(data.take([part]), **given).e_value or 0.0 for part in (0, 1)]
        expected = np.prod(alone) if independent else np.mean(alone)
        assert prove(data, **given).e_value == pytest.approx(expected)
        assert max(alone) > 3 * min(alone)


# --- counts and canaries ----------------------------------------------------------------------

COUNTS = counts_of([3, 5], 100, [40, 45], [100, 90])


def test_counts_are_for_one_analysis_and_near_the_classical_bound() -> None:
    proof = prove(COUNTS, delta=1e-3, claim=0.5)
    assert not proof.any_time
    assert proof.refuted
    half = em.baselines.best_base(em.baselines.ClopperPearson(), COUNTS, 1e-3, 0.025)
    assert proof.at_least >= half - 1e-4


def test_counts_as_scores_prove_the_same() -> None:
    assert prove(em.Scores.of_counts(COUNTS), delta=1e-3) == prove(COUNTS, delta=1e-3)


def test_rows_that_depend_are_averaged() -> None:
    many = {
        "false_positives": [3] * 8,
        "trials_h0": 60,
        "false_negatives": [30] * 8,
        "trials_h1": 60,
    }
    alone = prove(em.AttackCounts(**many), delta=1e-3)  # type: ignore[arg-type]
    grouped = prove(em.AttackCounts(**many, groups=["a"] * 8), delta=1e-3)  # type: ignore[arg-type]
    assert grouped.at_least < alone.at_least
    assert "within a row" in grouped.assumes


def test_cross_fed_counts_prove_nothing() -> None:
    counts = counts_of([0], 100, [0], 100, measured=MeasuredBy(design="cross-fed"))
    with pytest.raises(InputError, match="pass the losses, the store"):
        prove(counts, delta=1e-3)
    told = counts_of([0], 100, [0], 100, measured=MeasuredBy(design="independent"))
    assert prove(told, delta=1e-3).at_least > 2


def test_dependent_scores_prove_nothing_in_any_form(tmp_path: Path) -> None:
    crossed = counts_of([2] * 5, 50, [9] * 5, 50, measured=MeasuredBy(design="cross-fed"))
    scores = em.Scores.of_counts(crossed)
    with pytest.raises(InputError, match="prove nothing"):
        prove(scores, delta=1e-3)
    with pytest.raises(InputError, match="prove nothing"):
        prove(scores.take([0]), delta=1e-3)
    model = em.CurveModel(
        delta=1e-3, families=(em.families.Gaussian(),), mixing=em.families.NoMixing()
    )
    posterior = estimate(scores, model)
    posterior.save(tmp_path / "p.nc")
    loaded = em.load(tmp_path / "p.nc")
    assert em.judge(loaded, claim=0.1).grounds != em.judgement.Grounds.PROVEN
    assert em.judge(estimate(em.Scores.of_counts(replace(crossed, measured=None)), model), claim=0.1
    ).grounds == em.judgement.Grounds.PROVEN  # fmt: skip


def test_a_statistic_of_several_models_proves_nothing() -> None:
    rng = np.random.default_rng(1)
    losses = em.Losses(
        challenge_base=["a"] * 40,
        hypothesis=[0] * 20 + [1] * 20,
        replicate=[*range(20)] * 2,
        loss=rng.random(40),
    )

    def by_place(values: FloatArray) -> FloatArray:
        """Knows which half of the models is which."""
        return values + np.arange(values.shape[-1]) // 20

    def one_by_one(values: FloatArray) -> FloatArray:
        return -np.sqrt(values)

    wrong = em.attacks.scores_of(
        losses, em.attacks.CustomStatistic(name="by place", function=by_place)
    )
    right = em.attacks.scores_of(
        losses, em.attacks.CustomStatistic(name="root", function=one_by_one)
    )
    assert (wrong.dependent, right.dependent) == (True, False)
    with pytest.raises(InputError, match="prove nothing"):
        prove(wrong, delta=1e-3)
    assert prove(right, delta=1e-3).any_time


def test_canaries_and_models_do_not_mix() -> None:
    canaries = em.Scores.of_canaries(np.arange(20.0), np.arange(20.0) + 0.5)
    with pytest.raises(InputError, match="prove nothing"):
        prove(canaries.joined(normal_scores(1, 20, 0.0)), delta=1e-3)
    # Runs under one name are one run of all their canaries, with equally fair coins.
    more = canaries.joined(em.Scores.of_canaries(np.arange(30.0) + 0.2, np.arange(30.0) + 0.7))
    assert more.one_run
    assert not prove(more, delta=1e-3).any_time


def test_infinite_canary_scores_are_the_highest() -> None:
    rng = np.random.default_rng(4)
    members, others = rng.normal(size=200) + 2, rng.normal(size=200)
    finite = prove(em.Scores.of_canaries(members, others), delta=1e-5)
    members[np.argmax(members)] = np.inf
    assert prove(em.Scores.of_canaries(members, others), delta=1e-5) == finite


def test_e_value_and_refutation_agree_where_delta_is_large() -> None:
    """E-values need not decrease in epsilon there; a claim is decided by its own e-value."""
    for seed in range(5):
        scores = normal_scores(3, 60, 1.0 + seed / 4, seed)
        for claim in (0.0, 0.3, 1.0, 2.0):
            proof = prove(scores, delta=0.3, claim=claim)
            assert proof.e_value is not None
            assert proof.refuted == (proof.e_value >= 20)


def test_canaries_of_one_run_have_the_one_run_bound() -> None:
    rng = np.random.default_rng(4)
    members, others = rng.normal(size=510) + 2, rng.normal(size=490)
    proof = prove(em.Scores.of_canaries(members, others), delta=1e-5, claim=0.5)
    auditor = em.baselines.CanaryScoreAuditor(members, others)
    ends = [auditor.epsilon_one_run_fdp(0.025, 1e-5, one_sided=one) for one in (True, False)]
    # Fewer ranks share the error than in the published bound.
    assert max(ends) < proof.at_least < max(ends) + 0.2
    assert proof.refuted
    assert not proof.any_time


def test_coins_that_are_not_fair_are_refused() -> None:
    with pytest.raises(InputError, match="by a fair coin"):
        prove(em.Scores.of_canaries(np.arange(90.0), np.arange(10.0)), delta=1e-5)


def test_several_deltas_are_refuted_as_one() -> None:
    scores = normal_scores(5, 200, 2.0)
    strong, weak = (prove(scores, delta=1e-5, claim=claim) for claim in (0.5, 9.0))
    assert refuted_together([strong, weak])
    assert not refuted_together([weak])
    assert not refuted_together([])
    near = prove(scores, delta=1e-5, claim=strong.at_least - 1e-3)
    assert near.refuted
    assert not refuted_together([near, weak])  # the mean of 20 and a small value is not enough


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delta": 1.0}, "delta"),
        ({"delta": 0.1, "error": 0.0}, "error"),
        ({"delta": 0.1, "claim": -1.0}, "claim"),
    ],
)
def test_bad_arguments(given: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prove(COUNTS, **given)  # type: ignore[arg-type]


def test_other_things_prove_nothing() -> None:
    with pytest.raises(InputError, match="expected scores or error counts"):
        prove([1, 2, 3], delta=0.1)  # type: ignore[arg-type]
