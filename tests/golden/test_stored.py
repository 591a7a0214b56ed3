"""Files of an earlier version load and say the same; `stored/README.md` says how they were made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.auditing.config import read_audit
from epsilometer.inputs.held import source_of
from epsilometer.inputs.sources import read_losses

STORED = Path(__file__).with_name("stored")
NUMBERS: dict[str, dict[str, list[float]]] = json.loads((STORED / "numbers.json").read_text())
#: Tolerated relative difference of numbers from one file: quantiles are searched on stored tables.
SAME = 1e-9
#: The same for the curve model, which sums over another axis since: twice its own tolerance.
NEAR = 0.04
#: What is shown has had another meaning, and is not compared.
REDEFINED = "shown"

each_audit = pytest.mark.parametrize("name", ["many", "one-run", "pool"])


def summary_of(name: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((STORED / f"{name}-result" / "summary.json").read_text())
    return summary


@pytest.mark.parametrize("name", NUMBERS)
def test_posteriors_give_the_same_numbers(name: str) -> None:
    posterior = em.load(STORED / name)
    assert set(posterior.parameters) == set(NUMBERS[name])
    for parameter, expected in NUMBERS[name].items():
        quantiles = posterior.quantile(parameter, [0.05, 0.5, 0.95])
        if parameter != REDEFINED:
            allowed = NEAR if "curve" in name else SAME
            np.testing.assert_allclose(quantiles, expected, rtol=allowed)


def test_every_file_is_checked() -> None:
    assert set(NUMBERS) == {path.name for path in STORED.glob("*.nc")}


def test_families_of_a_stored_model_are_found_by_their_former_names() -> None:
    model = em.load(STORED / "curve-families.nc").model
    assert model.families == (em.families.TwoVariances(), em.families.Gaussian())
    assert model.mixing == em.families.KnownMixing(rate=0.5)


@each_audit
def test_result_folders_have_the_same_claim_verdict_and_numbers(name: str) -> None:
    known = summary_of(name)
    result = source_of(STORED / f"{name}-result").result
    assert result is not None
    assert result.question.claim == known["claim"]["epsilon"]
    assert result.question.claim_source == known["claim"]["source"]
    assert result.kind == "curve"
    epsilon = known["epsilon"]
    interval = result.posterior.credible_interval("epsilon", epsilon["level"])
    np.testing.assert_allclose(interval, epsilon["interval"], rtol=NEAR, atol=0.02)
    assert result.posterior.median("epsilon") == pytest.approx(epsilon["median"], rel=NEAR)
    verdict, expected = result.verdict, known["claim"]
    assert verdict is not None
    assert verdict.outcome.name == known["verdict"]["outcome"]
    assert verdict.grounds.value == known["verdict"]["grounds"]
    assert verdict.probability_above == pytest.approx(expected["probability_above"], abs=NEAR)
    assert result.proof is not None
    # Proofs are made anew; those of the store's scores are the same.
    losses, design, _ = read_losses(STORED / f"{name}.store")
    scores = design.scores(losses, em.attacks.Loss())
    again = em.prove(scores, claim=known["claim"]["epsilon"], delta=known["proof"]["delta"])
    assert (result.proof.at_least, result.proof.refuted) == (again.at_least, again.refuted)
    assert result.proof.e_value == pytest.approx(again.e_value, rel=SAME)
    assert result.proof.refuted == known["proof"]["refuted"]
    assert result.proof.at_least >= known["proof"]["at_least"]
    assert {leak.name for leak in result.leaks} == {
        base["challenge_base"] for base in known["bases"]
    }


def test_the_count_model_beside_the_result_is_read_too() -> None:
    recorded: Any = source_of(STORED / "many-result").result
    assert recorded is not None
    known = summary_of("many")["published"]["epsilon"]
    interval = recorded.beside.posterior.credible_interval("epsilon", known["level"])
    np.testing.assert_allclose(interval, known["interval"], rtol=SAME)


@each_audit
def test_stores_go_on_with_the_same_plan(name: str, tmp_path: Path) -> None:
    shutil.copy(STORED / f"{name}.toml", tmp_path)
    shutil.copy(STORED / f"{name}.store", tmp_path / f"{name}.db")
    settings = read_audit(tmp_path / f"{name}.toml")
    with em.stores.SqliteStore(tmp_path / f"{name}.db") as store:
        measured = em.measure(settings.plan, store=store)
    known = summary_of(name)
    assert settings.plan.content_hash == known["plan"]["hash"]
    assert (measured.trained, measured.reused) == (0, known["models_trained"])
    # The same scores, and so the same estimate if the same families are averaged.
    result = em.audit(tmp_path / f"{name}.toml")
    before = em.load(STORED / f"{name}-result" / "posterior.nc")
    assert result.posterior.data == before.data
    again = em.estimate(result.posterior.data, before.model)
    assert again.median("epsilon") == pytest.approx(known["epsilon"]["median"], rel=NEAR)
