"""Opacus loops: the claim is the accountant's, the model is plain, and problems are reported."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from opacus.accountants import create_accountant
from torch import nn

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as protocols
from epsilometer.measurement.engine import LargestClaim
from epsilometer.measurement.plan import Task, training_stream
from epsilometer.training import pytorch
from epsilometer.training.accounting import EPSILON_ERROR, EXPECTED_WARNINGS, accounted_epsilon
from epsilometer.training.canary_sampling import fixed_batches
from tests.training import modules
from tests.training import opacus_loops as loops
from tests.training.samples import POPULATION, RECORDS, data, losses, stream

STEPS = loops.EPOCHS * RECORDS // loops.BATCH
RATE = loops.BATCH / RECORDS


def usual(**settings: Any) -> em.Opacus:
    return em.Opacus(**({"module": modules.fixed_network, "fit": loops.fit} | settings))


# --- the claim ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:GDP accounting", "ignore:Optimal order")
@pytest.mark.parametrize("mechanism", ["prv", "rdp", "gdp"])
def test_the_claim_is_that_of_the_accountant(mechanism: str) -> None:
    algorithm = usual(fit=partial(loops.fit, accountant=mechanism))
    promise = algorithm.claim_by_training(data(), stream())
    assert promise.steps == ((loops.NOISE, RATE, STEPS),)
    obvious = create_accountant(mechanism)
    for _ in range(loops.EPOCHS):
        for _ in range(RECORDS // loops.BATCH):
            obvious.step(noise_multiplier=loops.NOISE, sample_rate=RATE)
    ours = accounted_epsilon([(loops.NOISE, RATE, STEPS)], 1e-2)
    claim = promise.claimed_epsilon(1e-2)
    assert claim == obvious.get_epsilon(1e-2)
    if mechanism == "rdp":  # a looser bound
        assert ours < claim < 1.5 * ours
    else:  # gdp is approximate: within a fifth here
        assert claim == pytest.approx(ours, abs=EPSILON_ERROR if mechanism == "prv" else 0.2 * ours)
    obvious.step(noise_multiplier=loops.NOISE, sample_rate=RATE)
    assert claim < obvious.get_epsilon(1e-2)


def test_a_target_epsilon_is_met() -> None:
    """The noise is chosen for a target epsilon; the resulting training claims the target."""
    promise = usual(fit=loops.fit_to_target).claim_by_training(data(), stream())
    assert promise.claimed_epsilon(0.01) == pytest.approx(3.0, abs=0.02)  # its search's tolerance
    assert promise.mechanism == "rdp"


def test_infinite_claims() -> None:
    promise = usual().claim_by_training(data(), stream())
    assert promise.claimed_epsilon(0.0) == math.inf
    silent = usual(fit=loops.fit_without_noise).claim_by_training(data(), stream())
    assert silent.claimed_epsilon(0.01) == math.inf
    with pytest.raises(InputError, match="expected 0 <= delta < 1, got delta=1"):
        promise.claimed_epsilon(1.0)


# --- the model ------------------------------------------------------------------------------------


def by_hand(fit: Any) -> nn.Module:
    """What the loop trains without the wrapper, with only the seeds set."""
    with pytorch.seeded(stream()):
        module = modules.fixed_network().train()
        fit(module, data())
    return module


def assert_plain(model: nn.Module) -> None:
    for part in model.modules():
        assert not part._forward_hooks
        assert not part._backward_hooks
    assert not hasattr(model, "autograd_grad_sample_hooks")
    for parameter in model.parameters():
        assert not vars(parameter)
        assert parameter.grad is None


@pytest.mark.filterwarnings(*(f"ignore:{begins}" for begins in EXPECTED_WARNINGS))
@pytest.mark.parametrize(
    ("fit", "engine"),
    [
        (loops.fit, None),
        (loops.fit_and_return_wrapped, None),
        (loops.fit_and_return_given, None),
        (loops.fit_unwrapped, None),
        (loops.fit_as_trainer, "trainer.privacy_engine"),
        (loops.fit_ghost, None),
    ],
)
def test_the_model_is_the_plain_module_that_the_loop_trained(fit: Any, engine: str | None) -> None:
    algorithm = usual(fit=fit, engine=engine)
    model, promise = algorithm._trained(data(), stream())
    assert promise.caveats == ()
    assert type(model) is nn.Sequential
    assert_plain(model)
    expected = by_hand(fit).state_dict()
    assert all(torch.equal(part, expected[name]) for name, part in model.state_dict().items())


def test_a_returned_module_is_the_model() -> None:
    algorithm = usual(module=modules.with_batch_normalisation, fit=loops.fit_mended)
    model = algorithm.train(data(), stream())
    assert isinstance(model[1], nn.GroupNorm)
    assert_plain(model)
    assert np.isfinite(losses(algorithm, model)).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fit": modules.fit}, "return the PrivacyEngine .* got NoneType without one"),
        ({"fit": modules.fit_and_return}, "got Sequential without one"),
        ({"fit": loops.fit_as_trainer}, "got SimpleNamespace without one"),
        ({"fit": loops.fit_as_trainer, "engine": "engine"}, "object with engine, got SimpleName"),
        ({"fit": loops.fit_and_return_another_engine}, "whose accountant has no steps"),
        (
            {"fit": loops.fit_mended_but_forgotten, "module": modules.with_batch_normalisation},
            "got 6 optimizer steps, none of them on it",
        ),
        (
            {"fit": loops.fit_and_grow},
            "keep the structure of the module.* got a Sequential with other parts",
        ),
        (
            {"module": modules.with_batch_normalisation},
            "Opacus cannot train Sequential: BatchNorm .* Apply ModuleValidator.fix",
        ),
    ],
)
def test_errors_that_show_in_training(settings: dict[str, Any], words: str) -> None:
    algorithm = usual(**settings)
    with pytest.raises(InputError, match=words):
        algorithm.train(data(), stream())


@pytest.mark.parametrize("engine", ["", "a b", "trainer.", 3])
def test_names_that_are_none(engine: Any) -> None:
    with pytest.raises(InputError, match="expected engine to be the name of an attribute"):
        usual(engine=engine)
    assert protocols.identity(usual()) != protocols.identity(usual(engine="it"))


# --- what speaks against a promise ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (loops.fit_on_quietly, "the accountant counted 6 steps, but fit took 9 on the module"),
        (loops.fit_on_the_old_loader, "assumes Poisson sampling, but batches have fixed sizes"),
        (loops.fit_in_fixed_batches, "assumes Poisson sampling, but batches have fixed sizes"),
        (loops.fit_securely, "secure_mode uses the system's random numbers"),
        (partial(loops.fit, accountant="gdp"), "gdp is approximate"),
        (loops.fit_long, None),
        (loops.fit_on_all, None),
        (loops.fit_in_parts, None),
    ],
)
def test_caveats(fit: Any, words: str | None) -> None:
    caveats = usual(fit=fit).claim_by_training(data(), stream()).caveats
    assert len(caveats) == (words is not None)
    assert words is None or words in caveats[0]


def test_poisson_batches_are_hardly_ever_called_fixed() -> None:
    rng = np.random.default_rng(1)
    for records, rate, steps in ((100, 0.5, 20), (12, 0.5, 20), (1000, 0.01, 300), (5, 0.1, 50)):
        sizes = rng.binomial(records, rate, size=(500, steps)).tolist()
        assert not any(fixed_batches(each, records, rate) for each in sizes)
    assert fixed_batches([50] * 10, 100, 0.5)
    assert fixed_batches([64, 36] * 6, 100, 0.5)
    assert not fixed_batches([50, 50], 100, 0.5)  # too few to decide
    assert not fixed_batches([1] * 30, 100, 0.5)  # parts of batches
    assert not fixed_batches([100] * 30, 100, 1.0)
    assert not fixed_batches([], 100, 0.5)


# --- of a plan ------------------------------------------------------------------------------------


def plan_of(algorithm: Any, **settings: Any) -> em.Plan:
    usual: dict[str, Any] = {
        "population": POPULATION,
        "algorithm": algorithm,
        "design": em.CrossFed(replicates=3),
        "challenge_bases": 1,
        "dataset_size": 10,
        "seed": 1,
    }
    return em.Plan(**(usual | settings))


def test_a_plan_has_the_claim_of_its_first_models() -> None:
    plan = plan_of(usual())
    promise = em.rows.claim_from_training(plan)
    base = plan.bases[0]
    own = [
        usual().claim_by_training(
            base.train_on(POPULATION, hypothesis), training_stream(1, Task(0, hypothesis, 0))
        )
        for hypothesis in (0, 1)
    ]
    assert promise == LargestClaim(claims=tuple(own))
    assert promise.claimed_epsilon(0.01) == own[0].claimed_epsilon(0.01)
    assert promise.caveats == ()


def test_one_record_more_may_make_one_batch_more() -> None:
    """8 records make 2 batches and 9 make 3: the larger epsilon is the claim, with a caveat."""
    algorithm = usual(fit=partial(loops.fit, accountant="rdp"))
    promise = em.rows.claim_from_training(plan_of(algorithm, dataset_size=8))
    assert isinstance(promise, LargestClaim)
    smaller, larger = promise.claims
    assert getattr(smaller, "steps", None) == ((loops.NOISE, 1 / 2, 4),)
    assert getattr(larger, "steps", None) == ((loops.NOISE, 1 / 3, 6),)
    each = [part.claimed_epsilon(0.01) for part in promise.claims]
    assert promise.claimed_epsilon(0.01) == max(each) > min(each) + 0.1
    (caveat,) = promise.caveats
    assert "different steps or sampling rates with more records" in caveat


def test_canaries_have_the_claim_of_their_run() -> None:
    plan = plan_of(usual(), design=em.OneRun(canaries=6))
    promise = em.rows.claim_from_training(plan)
    assert isinstance(promise, LargestClaim)
    (only,) = promise.claims
    records = 10 + int(plan.bases[0].coins.sum())  # type: ignore[attr-defined]
    batches = math.ceil(records / loops.BATCH)
    assert getattr(only, "steps", None) == ((loops.NOISE, 1 / batches, loops.EPOCHS * batches),)


def test_output_perturbation_keeps_the_claim() -> None:
    inside = em.rows.claim_from_training(plan_of(usual()))
    levels = em.training.NoiseLevels(algorithm=usual(), scales=(0.1, 0.2))
    assert em.rows.claim_from_training(plan_of(levels)) == inside
    other = em.PyTorch(module=modules.dropping, fit=loops.never)
    for silent in (other, em.training.OutputPerturbation(algorithm=other, scale=1.0)):
        assert em.rows.claim_from_training(plan_of(silent)) is None
