"""One door: Python's calls do what the commands do, take what a user holds, and say what they say."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import epsilometer as em
from epsilometer._text import in_shell_words
from epsilometer.cli.main import run
from epsilometer.errors import EpsilometerWarning, InputError, StoreError
from epsilometer.inputs.held import source_of
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.verdict import FAIL_ON
from epsilometer.model.counts import failure_flaws
from epsilometer.model.scores import REVERSED
from epsilometer.training.network import network
from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT
from tests.report.count_results import small_plan

RNG = np.random.default_rng(5)
WITHOUT, WITH = RNG.normal(size=(2, 40)), RNG.normal(1.2, size=(2, 40))
MEMBER = np.repeat([0, 1], 40)
SCORES = em.Scores(without=list(WITHOUT), with_point=list(WITH))
CANARIES = em.Scores.of_canaries(WITH[0], WITHOUT[0])
QUICK = em.CurveModel(delta=1e-2, families=(em.families.Gaussian(),), mixing=em.families.NoMixing())


def table(value: str) -> dict[str, Any]:
    """One row per model; losses are such that their log odds are the negated scores."""
    both = np.concatenate([WITHOUT, WITH], axis=1).ravel()
    return {
        "challenge_base": np.repeat(["0", "1"], 80),
        "hypothesis": np.tile(MEMBER, 2),
        "replicate": np.tile(np.arange(40), 4),
        value: np.log1p(np.exp(-both)) if value == "loss" else both,
    }


def canary_table(value: str) -> dict[str, Any]:
    both = np.concatenate([WITHOUT[0], WITH[0]])
    return {value: -both if value == "loss" else both, "member": MEMBER}


def median(data: Any) -> float:
    return float(em.estimate(data, QUICK).median("epsilon"))


class Column:
    """A column with the methods of polars: no ``tolist``, but it can be iterated."""

    def __init__(self, values: Any) -> None:
        self._values = list(values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)


class Frame:
    """A data frame with the interface of polars."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> Column:
        return Column(self._columns[name])


# --- everything a user may hold ---------------------------------------------------------------

HELD = {
    "scores": SCORES,
    "pair of arrays": (WITHOUT, WITH),
    "pair of lists": [WITHOUT.tolist(), WITH.tolist()],
    "bases one by one": ([WITHOUT[0], WITHOUT[1]], [list(WITH[0]), list(WITH[1])]),
    "dict of sides": {"without": WITHOUT, "with_point": WITH},
    "dict of scores": table("score"),
    "dict of losses": table("loss"),
    "pandas": pandas.DataFrame(table("score")),
    "pandas, floating hypothesis": pandas.DataFrame(table("score")).astype({"hypothesis": float}),
    "pandas, losses": pandas.DataFrame(table("loss")),
    "as of polars": Frame(table("score")),
    "losses": em.Losses(**table("loss")),
    "posterior": em.estimate(SCORES, QUICK),
    "result": result_of(em.estimate(SCORES, QUICK)),
}


@pytest.mark.parametrize("kind", HELD)
def test_the_same_posterior_from_every_kind_of_data(kind: str) -> None:
    assert median(HELD[kind]) == median(SCORES)
    assert em.prove(HELD[kind], delta=1e-2).at_least == em.prove(SCORES, delta=1e-2).at_least


CANARIES_HELD = {
    "dict of sides": {"members": WITH[0], "others": WITHOUT[0]},
    "score, member": pandas.DataFrame(canary_table("score")),
    "loss, member": pandas.DataFrame(canary_table("loss")),
    "truth values": pandas.DataFrame(canary_table("loss")).astype({"member": bool}),
    "auditor": em.baselines.CanaryScoreAuditor(WITH[0], WITHOUT[0]),
}


@pytest.mark.parametrize("kind", CANARIES_HELD)
def test_the_same_posterior_from_every_kind_of_canaries(kind: str) -> None:
    assert source_of(CANARIES_HELD[kind]).provable.one_run
    assert median(CANARIES_HELD[kind]) == median(CANARIES)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_loss_and_member_in_files(ending: str, tmp_path: Path) -> None:
    frame, path = pandas.DataFrame(canary_table("loss")), tmp_path / f"canaries{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    assert source_of(path).provable.one_run
    assert median(path) == median(CANARIES)
    assert run(["prove", str(path), "--delta", "0.01"]) == 0


def test_canaries_with_their_losses() -> None:
    canaries = em.Canaries.of(features=np.ones((80, 1)), rng=np.random.default_rng(1))
    losses = np.random.default_rng(2).normal(size=80) - canaries.coins
    assert median((canaries, losses)) == median(canaries.scores(losses))


def test_counts_pools_measurements_stores_and_folders(tmp_path: Path) -> None:
    counts: dict[str, Any] = {
        "false_positives": [4],
        "trials_h0": [50],
        "false_negatives": [20],
        "trials_h1": [50],
    }
    expected = em.estimate(em.AttackCounts(**counts), delta=0.01).median("epsilon")
    for data in (counts, pandas.DataFrame(counts)):
        assert em.estimate(data, delta=0.01).median("epsilon") == expected
    measured = em.measure(small_plan(), tmp_path / "audit.db")
    scores = em.attacks.scores_of(measured.only, em.attacks.Loss())
    assert median(measured) == median(scores)
    assert source_of(measured).data("count") == em.rows.cross_feed(measured.only).counts(0.1)
    with pytest.raises(InputError, match=r"for the statistic logit"):
        median(tmp_path / "audit.db")  # a store does not know that its losses are no cross-entropy
    member = RNG.random((24, 3)) < 0.5
    pool = em.rows.PoolScores(value=RNG.normal(size=(24, 3)) + member, member=member)
    assert median(pool) == median(pool.by_point())
    losses = em.PoolLosses(
        loss=np.exp(RNG.normal(size=(24, 12))), member=RNG.random((24, 12)) < 0.5
    )
    losses.write(tmp_path / "pool.npz")
    assert median(losses) == median(tmp_path / "pool.npz")
    result_of(em.estimate(SCORES, QUICK)).write(tmp_path / "result")
    assert median(tmp_path / "result") == median(SCORES)
    assert em.judge(tmp_path / "result", 0.1) == em.judge(em.estimate(SCORES, QUICK), 0.1)


REFUSED = {
    "one array": (WITHOUT[0], "One array does not say which scores are of members: give two"),
    "a number": (3, "expected the path of a file, a store or a result folder; a data frame"),
    "canaries without scores": (
        em.Canaries.of(features=np.ones((9, 1)), rng=np.random.default_rng(1)),
        r"Score the canaries first: canaries\.scores\(losses\)",
    ),
    "a population": (em.datasets.load_population("directions"), r"em\.audit\(algorithm, popul"),
    "truth values": ((WITHOUT > 0, WITH > 0), "expected numbers as scores, got truth values"),
    "a column of truth values": (
        canary_table("score") | {"score": MEMBER.astype(bool)},
        "expected numbers as score, got truth values",
    ),
    "the coins": ({"score": MEMBER, "member": MEMBER}, "the answer itself"),
    "the coins as scores": (em.Scores.of_canaries(np.ones(9), np.zeros(9)), "the answer itself"),
    "uneven columns": ({"score": [1, 2], "member": [1]}, "equally many rows in every column"),
    "other columns": (pandas.DataFrame({"a": [1]}), "data frame: expected the columns of scores"),
    "too many sides": ({"without": [1], "with_point": [2], "x": [3]}, "got also x"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(kind: str) -> None:
    data, words = REFUSED[kind]
    for call in (em.estimate, em.prove, em.compare):
        with pytest.raises(InputError, match=words):
            call(data, delta=0.01)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="`delta=` with 0 <= delta < 1, or a model"):
        em.estimate(SCORES)
    with pytest.raises(InputError, match="got both"):
        em.estimate(SCORES, QUICK, delta=0.5)  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"estimate them first, em\.estimate\(data, delta="):
        em.judge(SCORES, 1.0)
    with pytest.raises(InputError, match="expected a population too"):
        em.audit(em.training.ClippedMean(noise=0.02, records=20), delta=0.1)
    with pytest.raises(InputError, match="`delta=` with 0 <= delta < 1"):
        em.audit(em.training.ClippedMean(noise=0.02, records=20), "directions")


# --- Python hears what the shell says ---------------------------------------------------------


def test_reversed_scores_are_said_and_not_judged(tmp_path: Path, shell: Shell) -> None:
    with pytest.warns(EpsilometerWarning) as heard:
        posterior = em.estimate((WITH, WITHOUT), QUICK)
    assert [str(warning.message) for warning in heard] == [REVERSED]
    assert heard[0].filename == __file__
    assert (posterior.accurate, posterior.trustworthy) == (True, False)
    with pytest.warns(EpsilometerWarning, match="is their sign reversed"):
        verdict = em.judge(posterior, 5.0)
    assert (verdict.outcome, verdict.trustworthy) == (em.judgement.Outcome.INCONCLUSIVE, False)
    with pytest.warns(EpsilometerWarning, match="is their sign reversed"):
        em.prove((WITH, WITHOUT), delta=0.01)
    em.Scores(without=list(WITH), with_point=list(WITHOUT)).write(tmp_path / "scores.csv")
    err = shell("estimate", tmp_path / "scores.csv", "--delta", "0.01")[1]
    assert err.count(f"warning: {REVERSED}") == 1
    with warnings.catch_warnings():  # control
        warnings.simplefilter("error")
        em.judge(em.estimate(SCORES, QUICK), 3.0)


class Seeded:
    """Training that fixes its own seed."""

    def train(self, dataset: em.rows.Dataset, rng: np.random.Generator) -> float:
        del rng
        return float(np.random.default_rng(0).normal() + dataset.features.sum())

    def loss(self, model: float, point: em.rows.Point) -> float:
        return abs(model) + float(abs(point.features).sum())


class Failing(Seeded):
    """Training that fails now and then."""

    def train(self, dataset: em.rows.Dataset, rng: np.random.Generator) -> float:
        if rng.random() < 0.1:
            raise ValueError("no luck")
        return float(rng.normal())


SMALL: dict[str, Any] = {
    "delta": 1e-3,
    "bases": 2,
    "design": em.CrossFed(replicates=12),
    "dataset_size": 20,
    "model": em.CountModel(delta=1e-3),
}


def test_training_that_seeds_itself_is_heard() -> None:
    with pytest.warns(EpsilometerWarning) as heard:
        result = em.audit(Seeded(), "directions", claim=3.0, **SMALL)
    said = [str(warning.message) for warning in heard]
    assert len(said) == len(set(said))
    assert any("does your training fix its own seed" in text for text in said)
    assert set(result.warnings) <= set(said)
    assert not result.trustworthy
    assert result.verdict is not None
    assert result.verdict.outcome is em.judgement.Outcome.INCONCLUSIVE
    with pytest.warns(EpsilometerWarning, match="fix its own seed"):
        em.measure(replace(small_plan(), algorithm=Seeded()))


def test_failed_models_are_a_flaw_of_the_data(tmp_path: Path) -> None:
    store = tmp_path / "audit.db"
    with pytest.warns(EpsilometerWarning) as heard:
        result = em.audit(Failing(), "directions", claim=3.0, store=store, retries=0, **SMALL)
    failed = result.origin.models["failed"]
    (flaw,) = failure_flaws(failed)
    said = " ".join(str(warning.message) for warning in heard)
    assert flaw in said
    assert "no luck" in said
    assert (result.posterior.trustworthy, result.trustworthy) == (False, False)
    with pytest.warns(EpsilometerWarning, match="of the models failed"):
        assert not em.estimate(store, QUICK).trustworthy


# --- claims -----------------------------------------------------------------------------------


class Accountant:
    """States what it is given."""

    def __init__(self, stated: Any) -> None:
        self._stated = stated

    def get_epsilon(self, delta: float) -> Any:
        if isinstance(self._stated, Exception):
            raise self._stated
        return self._stated


@pytest.mark.parametrize("stated", [math.inf, math.nan, None, ValueError("lost")])
def test_an_accountant_without_an_epsilon_promises_nothing(stated: Any) -> None:
    posterior = em.estimate(SCORES, QUICK)
    for deltas in ((), (1e-3, 1e-2)):
        verdict = em.judge(posterior, Accountant(stated), deltas=deltas)
        assert verdict.label == "NO PROMISE"
        assert all(verdict.stops(gate) for gate in FAIL_ON)
        assert verdict.reasons[0].startswith("the training promises nothing: its accountant ")
    assert em.judge(posterior, math.inf).label == "NO PROMISE"
    # Controls: a finite epsilon is a claim, and a negative one a mistake.
    assert em.judge(posterior, Accountant(2.0)) == em.judge(posterior, 2.0)
    with pytest.raises(InputError, match="expected a number >= 0, got -1"):
        em.judge(posterior, Accountant(-1))


def test_training_without_noise_and_training_without_accounting() -> None:
    noise = em.training.ClippedMean(noise=0.02, records=21)
    promised = em.audit(noise, "directions", **SMALL)
    assert (promised.claim, promised.question.claim_source) == (noise.epsilon(1e-3), "algorithm")
    none = em.training.ClippedMean(noise=0.0, records=21)
    with pytest.warns(EpsilometerWarning, match="same loss"):
        result = em.audit(none, "directions", **SMALL)
    assert result.verdict is not None
    assert result.verdict.label == "NO PROMISE"
    wrapped = em.training.OutputPerturbation(algorithm=network(hidden=2), scale=0.1)
    silent = em.audit(wrapped, "digits", **SMALL)
    assert silent.verdict is None


# --- one audit --------------------------------------------------------------------------------


def test_python_and_the_shell_say_the_same(tmp_path: Path, shell: Shell) -> None:
    path, folder = tmp_path / "audit.toml", tmp_path / "result"
    path.write_text(AUDIT.replace("delta = 0.1", "delta = 0.01"))
    result = em.audit(path, claim=0.5)
    printed, python = shell.json("audit", path, "--claim", "0.5"), result.to_dict()
    assert python["claim"] == printed["claim"] | {"source": "option"}
    for key in [
        "epsilon",
        "strength",
        "verdict",
        "proof",
        "counts",
        "plan",
        "warnings",
        "next_step",
    ]:
        assert python[key] == printed[key], key
    objects = em.audit(
        em.training.ClippedMean(noise=0.02, records=50),
        em.datasets.load_population("directions"),
        delta=0.01,
        claim=0.5,
        design=em.CrossFed(replicates=20),
        bases=3,
        dataset_size=49,
        model=em.CountModel(delta=0.01),
    )
    assert objects.to_dict()["epsilon"] == printed["epsilon"]
    result.write(folder)
    names = {"summary.json", "posterior.nc", "losses.csv", "counts.csv", "curves.csv"}
    assert names <= {file.name for file in folder.iterdir()}
    assert shell.json("report", folder)["verdict"] == printed["verdict"]
    assert em.write_report(folder, tmp_path / "page.html") == result.verdict
    assert (tmp_path / "page.html").is_file()


def test_settings_go_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(AUDIT)
    said: list[str] = []
    result = em.audit(
        path,
        delta=[0.01, 0.02],
        bases=2,
        seed=7,
        store="none",
        error=0.01,
        shared_models=True,
        level=0.8,
        claim=lambda delta: 1.0 - delta,
        on_message=said.append,
    )
    assert len(result.data) == 2
    assert result.origin.plan["seed"] == 7
    assert (result.level, result.question.error, result.question.independent) == (0.8, 0.01, False)
    assert list(result.claims.items()) == [(0.01, 0.99), (0.02, 0.98)]
    assert result.proof is not None
    assert result.proof.error == 0.01
    assert not (tmp_path / "audit.db").exists()
    assert said
    with pytest.raises(InputError, match="`design=` is for an algorithm and a population"):
        em.audit(path, design=em.CrossFed(replicates=3))


def test_several_variants_are_one_result_the_most_severe_first(tmp_path: Path) -> None:
    noise = em.training.ClippedMean(noise=0.001, records=21)
    levels = em.training.NoiseLevels(algorithm=noise, scales=(0.001, 5.0))
    result = em.audit(levels, "directions", claim=0.05, **SMALL)
    assert len(result.variants) == 2
    labels = [variant.verdict.label for variant in result.variants.values() if variant.verdict]
    assert result.verdict is not None
    assert result.verdict.label == labels[0] == "FAIL (proven)"
    assert labels[1] != "FAIL (proven)"
    result.write(tmp_path / "result")
    assert len(list((tmp_path / "result").glob("variant-*/posterior.nc"))) == 2


def test_records_as_arrays_and_other_designs() -> None:
    rng = np.random.default_rng(1)
    records = (rng.normal(size=(60, 3)), rng.integers(2, size=60))
    training = network(hidden=2, epochs=1)
    for design in (em.Pool(models=8), em.OneRun(canaries=20), em.CrossFed(replicates=3)):
        result = em.audit(training, records, model=QUICK, design=design, seed=3)
        assert result.kind == "curve"
        assert bool(result.origin.tables)
    with pytest.raises(InputError, match="expected a population"):
        em.audit(training, 5, delta=1e-3)


def test_early_stopping_knows_of_shared_models() -> None:
    algorithm = em.training.ClippedMean(noise=0.001, records=21)
    settings = SMALL | {"bases": 6, "claim": 0.8, "until_proven": True}
    alone = em.audit(algorithm, "directions", **settings)
    shared = em.audit(algorithm, "directions", shared_models=True, **settings)
    used = [result.origin.stopping["bases_used"] for result in (alone, shared)]
    assert used[0] <= used[1]
    e_values = [result.origin.stopping["looks"][-1]["e_value"] for result in (alone, shared)]
    assert shared.proof is not None
    assert e_values[1] == pytest.approx(shared.proof.e_value)


# --- whose words ------------------------------------------------------------------------------


def test_python_is_told_its_argument_and_the_shell_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    code = "class Training:\n    def train(self, d, rng):\n        return {}\n"
    code += "    def loss(self, model, point):\n        return abs(model + point.features.sum())\n"
    config = AUDIT.replace('"clipped-mean"', '"changing_training:Training"')
    (tmp_path / "audit.toml").write_text(config.replace("noise = 0.02, records = 50", ""))
    source = tmp_path / "changing_training.py"
    source.write_text(code.format("rng.normal()"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        em.audit(tmp_path / "audit.toml")
    source.write_text(code.format("2 * rng.normal()"))
    sys.modules.pop("changing_training")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StoreError, match="`accept_changed_code=True`"):
        em.audit(tmp_path / "audit.toml")
    error = shell("audit", tmp_path / "audit.toml", code=2)[1]
    assert "code has changed since it was created (changing_training.py)" in error
    assert "continue with --accept-changed-code" in error
    assert "`accept" not in error
    accepted = shell.json("audit", tmp_path / "audit.toml", "--accept-changed-code")
    assert (accepted["models_trained"], accepted["models_reused"]) == (0, 120)


def test_words_of_the_shell() -> None:
    said = in_shell_words('`target_alpha=` is for losses; `statistic="loss"` reads any, `a b`')
    assert said == "--target-alpha is for losses; --statistic loss reads any, `a b`"


def test_a_plan_is_one_call() -> None:
    goal = em.goals.IntervalWidth(at_most=50.0)
    truth = em.goals.AssumedCurve(epsilon=1.0, family=em.families.Gaussian())
    plan = em.plan(QUICK, truth, goal, simulations=4, design=em.goals.OneRunCanaries(most=100))
    assert isinstance(plan, em.goals.AuditPlan)
    assert plan.nothing_needed
