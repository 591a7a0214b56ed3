"""Claims that no audit of this size could refute: said of data, of results, and before any training."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.errors import EpsilometerWarning, InputError
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.next_step import FIX
from epsilometer.judgement.objections import beyond_reach
from epsilometer.judgement.question import Question
from epsilometer.judgement.units import more
from epsilometer.measurement.designs import Design
from epsilometer.model.counts import counts_of
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import prove, rounded_down
from tests.report.curve_results import gaussian, posterior

ASKED = Question()


def perfect(bases: int, pairs: int, **kind: Any) -> Scores:
    """Attacks without an error, on scores that differ."""
    rng = np.random.default_rng(1)
    sides = [[shift + rng.normal(size=pairs) for _ in range(bases)] for shift in (0.0, 100.0)]
    return Scores(without=sides[0], with_point=sides[1], **kind)


def advised(said: str) -> int:
    """The number of models of a base that a sentence advises."""
    found = re.search(r"\(([\d,]+) instead of", said)
    assert found is not None, said
    return int(found[1].replace(",", ""))


def test_a_claim_within_reach_is_not_mentioned_however_weak_the_attack() -> None:
    for data in (gaussian([0.0] * 3, 40), perfect(3, 40)):
        assert beyond_reach(data, {1e-5: 3.0}, ASKED) is None
        assert beyond_reach(data, {}, ASKED) is None


def test_the_advice_is_enough_and_little_more() -> None:
    weak = gaussian([0.0] * 3, 40)
    said = beyond_reach(weak, {1e-5: 6.0}, ASKED)
    assert said is not None
    most = prove(weak, delta=1e-5).most_provable
    start = "Not even perfect attacks could refute the claim of 6 (they would prove"
    assert said.startswith(
        f"{start} {rounded_down(most)} at most): for that, train more models per "
    )
    assert said.endswith(" instead of 80).")
    assert said.count(". ") == 0  # one sentence
    pairs = advised(said) // 2
    assert prove(perfect(3, pairs), delta=1e-5, claim=6.0).refuted
    assert not prove(perfect(3, round(0.8 * pairs)), delta=1e-5, claim=6.0).refuted


def test_what_is_said_depends_on_what_is_measured() -> None:
    run = beyond_reach(perfect(1, 100, one_run=True), {1e-5: 6.0}, ASKED)
    assert run is not None
    assert "use more canaries per run (" in run
    counts = counts_of([10], 50, [10], 50)
    counted = beyond_reach(counts, {1e-5: 6.0}, ASKED)
    assert counted is not None
    assert "train more models per base (" in counted
    # Bases that share models are averaged: more of them would not help.
    scores = perfect(20, 50)
    assert beyond_reach(scores, {1e-5: 4.5}, ASKED) is None
    together = beyond_reach(scores, {1e-5: 4.5}, replace(ASKED, independent=False))
    assert together is not None
    assert 200 < advised(together) < 1000


def test_the_error_and_the_delta_count() -> None:
    scores = perfect(1, 100)
    for delta, error, said in ((1e-5, 0.05, False), (1e-5, 1e-4, True), (0.5, 0.05, True)):
        asked = replace(ASKED, error=error)
        claims = {delta: 3.4 if delta < 0.1 else 3.6}
        assert (beyond_reach(scores, claims, asked) is not None) is said


def test_a_claim_at_several_deltas_is_within_reach_if_one_is() -> None:
    scores = perfect(1, 50)
    assert beyond_reach(scores, {1e-6: 9.0, 1e-2: 2.0}, ASKED) is None
    said = beyond_reach(scores, {1e-6: 9.0, 1e-2: 5.0}, ASKED)
    assert said is not None
    assert "the claim of 5 " in said  # which is nearer


def test_no_number_of_models_is_advised_where_a_million_is_too_few() -> None:
    said = beyond_reach(perfect(1, 20), {1e-5: 25.0}, ASKED)
    assert said is not None
    assert said.endswith("at most), nor with 1,000,000 models.")


def test_nothing_is_said_of_data_that_prove_nothing_anyway() -> None:
    assert beyond_reach(None, {1e-5: 9.0}, ASKED) is None
    assert beyond_reach(perfect(1, 20, dependent=True), {1e-5: 9.0}, ASKED) is None


def test_more_is_rounded_up_to_two_digits_unless_it_is_a_multiple() -> None:
    scores = gaussian([0.0], 33)
    assert more(scores, 4) == "train more models per base (264 instead of 66)"
    assert more(scores, 4.01) == "train more models per base (270 instead of 66)"
    assert more(scores, 100.5) == "train more models per base (6,700 instead of 66)"


# --- results ------------------------------------------------------------------------------------


#: One family without mixture, for verdicts in seconds.
QUICK = em.CurveModel(delta=1e-2, families=(em.families.Gaussian(),), mixing=em.families.NoMixing())


@cache
def found(shift: float) -> Any:
    return posterior(gaussian([shift, 0.5 * shift], 40), QUICK)


def test_results_warn_of_claims_that_could_not_be_refuted() -> None:
    near, far = (result_of(found(1.0), Question(claim=claim)) for claim in (3.0, 12.0))
    said = [text for text in far.warnings if "Not even perfect attacks" in text]
    assert said == [beyond_reach(gaussian([1.0, 0.5], 40), {1e-2: 12.0}, ASKED)]
    assert not any("perfect attacks" in text for text in near.warnings)
    assert not any("perfect attacks" in text for text in result_of(found(1.0)).warnings)
    assert far.verdict is not None
    assert far.verdict.label == "PASS (judged)"  # the posterior is no less useful
    with pytest.warns(EpsilometerWarning, match="Not even perfect attacks could refute"):
        em.judge(found(1.0), 12.0)


@pytest.mark.parametrize(
    ("at_least", "most", "attack"),
    [
        (0.5, 3.4, True),  # far below what so many models could prove
        (0.84, 1.2, True),
        (0.84, 1.0, False),  # near it
        (0.2, 0.8, False),  # no attack could refute the claim
        (0.0, 0.0, False),
    ],
)
def test_claims_that_failed_by_judgement_need_more_models_or_a_stronger_attack(
    at_least: float, most: float, attack: bool
) -> None:
    result = result_of(found(1.5), Question(claim=0.85))
    assert result.verdict is not None
    assert result.verdict.label == "FAIL (judged)"
    proof = result.proof
    assert proof is not None
    # A cached value of a frozen dataclass is put in as it would put it in itself.
    vars(result)["proof"] = replace(proof, at_least=at_least, most_provable=most)
    models = "more models of the worst base"
    what = f"a stronger attack, or {models}," if attack else models
    assert result.next_step == f"{FIX}; {what} may prove it."


# --- before anything is trained -------------------------------------------------------------------

DESIGNS: dict[str, tuple[Design, int]] = {
    "cross-fed": (em.CrossFed(replicates=15), 4),
    "shadows": (em.ShadowModels(replicates=3, shadows_h0=2, shadows_h1=3), 4),
    "one run": (em.OneRun(canaries=90), 2),
    "pool": (em.Pool(models=40, judged=7), 1),
    "pool of drawn records": (em.Pool(models=40, share=0.3, first_stage=5, judged=7), 1),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_perfect_scores_have_the_sizes_of_the_plan(name: str) -> None:
    design, bases = DESIGNS[name]
    scores = design.perfect_scores(bases, 30)
    assert all(base.auc() == 1 for base in scores.bases)
    sizes = {
        "cross-fed": [(15, 15)] * 4,
        "shadows": [(15, 15)] * 4,  # 5 of 7 models with the point: those without come first
        "one run": [(45, 45)] * 2,
        "pool": [(10, 10)] * 7,  # of the models that do not train the attack
        "pool of drawn records": [(17, 18)] * 7,
    }[name]
    assert [tuple(sorted((b.trials_h0, b.trials_h1))) for b in scores.bases] == sizes
    assert scores.one_run is (name == "one run")
    assert (scores.models is not None) is name.startswith("pool")
    assert scores.fair_coins is (name == "pool")


class Refusing:
    """Training that must not begin."""

    def train(self, dataset: Any, rng: np.random.Generator) -> float:
        raise AssertionError("a model was trained")

    def loss(self, model: float, point: Any) -> float:
        return model


class Noise:
    """Training that learns nothing."""

    def train(self, dataset: Any, rng: np.random.Generator) -> float:
        return float(rng.normal())

    def loss(self, model: float, point: Any) -> float:
        return model


SETTINGS: dict[str, Any] = {
    "delta": 1e-2,
    "bases": 2,
    "design": em.CrossFed(replicates=12),
    "dataset_size": 20,
    "model": QUICK,
}


def test_an_audit_says_so_before_it_trains_and_once() -> None:
    with pytest.warns(EpsilometerWarning) as heard, pytest.raises(em.errors.TrainingError):
        em.audit(Refusing(), "directions", claim=9.0, **SETTINGS)
    (said,) = [text for text in map(str, (w.message for w in heard)) if "perfect attacks" in text]
    assert "the claim of 9 " in said
    assert "train more models per base (" in said
    with pytest.warns(EpsilometerWarning) as heard:
        result = em.audit(Noise(), "directions", claim=9.0, **SETTINGS)
    again = [str(w.message) for w in heard if "perfect attacks" in str(w.message)]
    assert again == [said]
    assert said in result.warnings


def test_an_audit_that_could_refute_its_claim_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", EpsilometerWarning)
        with pytest.raises(em.errors.TrainingError):
            em.audit(Refusing(), "directions", claim=1.0, **SETTINGS)


def test_an_audit_until_proven_that_could_not_end_is_refused() -> None:
    until: dict[str, Any] = {"until_proven": True}
    with pytest.raises(
        InputError, match=r"never stop this audit\. Not even perfect attacks"
    ) as found:
        em.audit(Refusing(), "directions", claim=9.0, **SETTINGS, **until)
    bases = SETTINGS | {"bases": 2, "design": em.CrossFed(replicates=advised(str(found.value)))}
    with pytest.raises(em.errors.TrainingError):
        em.audit(Refusing(), "directions", claim=9.0, **bases, **until)
    # Averages over bases that share models could not reach what products can.
    with pytest.raises(InputError, match="never stop this audit"):
        em.audit(Refusing(), "directions", claim=2.0, shared_models=True, **SETTINGS, **until)


def test_proofs_of_scores_say_so() -> None:
    scores = gaussian([1.0], 30)
    with pytest.warns(
        EpsilometerWarning, match="Not even perfect attacks could refute the claim of 8"
    ):
        em.prove(scores, delta=1e-5, claim=8.0)
