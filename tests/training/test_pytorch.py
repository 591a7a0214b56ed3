"""PyTorch modules: all randomness from the stream, losses against mpmath, identities."""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as protocols
from epsilometer.training import pytorch
from tests.training import modules
from tests.training.samples import POPULATION, data, losses, stream


def test_a_custom_loss_is_reproducible_even_if_random() -> None:
    algorithm = em.PyTorch(module=modules.Shaky, fit=modules.fit_and_return, loss=modules.margin)
    model = algorithm.train(data(), stream())
    assert losses(algorithm, model) == losses(algorithm, model)
    usual = em.PyTorch(module=modules.Shaky, fit=modules.fit)
    assert losses(usual, model) == losses(usual, model) != losses(algorithm, model)
    # Without seeding, it does not.
    assert modules.margin(model, POPULATION.point(0)) != modules.margin(model, POPULATION.point(0))


# --- randomness -----------------------------------------------------------------------------------


def trained_by_threads(algorithm: em.PyTorch) -> list[list[float]]:
    """Losses of four models, two threads at a time."""
    with ThreadPoolExecutor(2) as pool:
        models = list(pool.map(lambda n: algorithm.train(data(), stream(n)), range(4)))
    return [losses(algorithm, model) for model in models]


def test_threads_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = em.PyTorch(module=modules.dropping, fit=modules.unhurried_fit)
    alone = [losses(algorithm, algorithm.train(data(), stream(number))) for number in range(4)]
    assert trained_by_threads(algorithm) == alone
    # Without taking turns, they draw from each other's streams.
    monkeypatch.setattr(pytorch, "_lock", contextlib.nullcontext())
    assert trained_by_threads(algorithm) != alone


def test_everything_is_put_back_also_after_a_failure() -> None:
    def fails(module: Any, dataset: Any) -> None:
        torch.rand(1)
        torch.set_num_threads(3)
        raise KeyError("no such thing")

    threads = torch.get_num_threads()
    torch.manual_seed(7)
    expected = torch.rand(3).tolist()
    torch.manual_seed(7)
    with pytest.raises(KeyError, match="no such thing"):
        em.PyTorch(module=modules.dropping, fit=fails).train(data(), stream())
    algorithm = em.PyTorch(module=modules.dropping, fit=modules.fit)
    model = algorithm.train(data(), stream())
    assert not any(part.training for part in model.modules())
    assert all(part.grad is None for part in model.parameters())
    algorithm.loss(model, POPULATION.point(0))
    assert torch.rand(3).tolist() == expected
    assert torch.get_num_threads() == threads
    # And the lock was released: another thread gets it.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(algorithm.train, data(), stream()).result(timeout=60)


# --- what is kept, and the loss -------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 30.0, 2000.0])
def test_the_loss_is_that_of_mpmath(scale: float) -> None:
    scores = scale * np.array([0.5, -1.0, 0.25])
    module = nn.Linear(1, 3)
    with torch.no_grad():
        module.weight.copy_(torch.tensor(scores)[:, None])
        module.bias.zero_()
    algorithm = em.PyTorch(module=partial(nn.Linear, 1, 3), fit=modules.fit)
    single = scores.astype(np.float32).astype(np.float64)
    for label in range(3):
        with mpmath.workdps(1000):
            total = sum(mpmath.exp(mpmath.mpf(float(score)) - single[label]) for score in single)
            expected = float(mpmath.log(total))
        found = algorithm.loss(module, em.rows.Point(features=np.ones(1), label=np.int64(label)))
        assert found == pytest.approx(expected, rel=1e-13)  # a few roundings of doubles
        assert found > 0 or expected == 0


@pytest.mark.parametrize(
    ("module", "label", "words"),
    [
        (nn.Linear(4, 3), 3, "expected labels from 0 to 2, got 3"),
        (nn.Linear(4, 3), -1, "expected labels from 0, got -1"),
        (nn.Linear(4, 3), 1.5, "needs integer labels"),
        (nn.Linear(4, 3), None, "needs integer labels"),
        (modules.one_score(), 0, r"got shape \(1,\) for 1 records; pass your own loss"),
    ],
)
def test_losses_that_cannot_be(module: Any, label: Any, words: str) -> None:
    algorithm = em.PyTorch(module=modules.fixed_network, fit=modules.fit)
    with pytest.raises(InputError, match=words):
        algorithm.loss(module, em.rows.Point(features=np.ones(4), label=label))


def test_frozen_parameters_are_not_perturbed() -> None:
    def half_frozen() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 5).requires_grad_(False), nn.Linear(5, 3))

    algorithm = em.PyTorch(module=half_frozen, fit=modules.fit)
    model = algorithm.train(data(), stream())
    assert algorithm.parameters(model).size == 5 * 3 + 3
    moved = algorithm.with_parameters(model, np.zeros(18))
    assert torch.equal(moved[0].weight, model[0].weight)
    with pytest.raises(InputError, match="Linear has no trainable parameters"):
        algorithm.parameters(modules.frozen())


# --- identity -------------------------------------------------------------------------------------


def fit_for(steps: int, rate: float = 0.1) -> Any:
    def closure(module: Any, dataset: Any) -> None:
        for _ in range(steps):
            modules.fit(module, dataset)

    def by_default(module: Any, dataset: Any, rate: float = rate) -> None: ...

    return by_default if steps == 0 else closure


FIT: Any = modules.fit
WEIGHTS = torch.tensor([1.0, 2.0, 3.0])

PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "factories": ({"module": modules.dropping}, {"module": modules.fixed_network}),
    "arguments": ({"module": partial(nn.Linear, 4, 3)}, {"module": partial(nn.Linear, 4, 4)}),
    "classes": ({"module": modules.Shaky}, {"module": partial(modules.Shaky)}),
    "loops": ({"fit": modules.fit}, {"fit": modules.unhurried_fit}),
    "closures": ({"fit": fit_for(1)}, {"fit": fit_for(2)}),
    "defaults": ({"fit": fit_for(0, 0.1)}, {"fit": fit_for(0, 0.2)}),
    "tensors": ({"fit": partial(FIT, weights=WEIGHTS)}, {"fit": partial(FIT, weights=WEIGHTS + 1)}),
    "types": (
        {"fit": partial(FIT, dtype=torch.float32)},
        {"fit": partial(FIT, dtype=torch.float64)},
    ),
    "losses": ({"loss": None}, {"loss": modules.margin}),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_change_is_seen(kind: str) -> None:
    usual: dict[str, Any] = {"module": modules.dropping, "fit": modules.fit}
    one, other = (protocols.identity(em.PyTorch(**(usual | given))) for given in PAIRS[kind])
    again = protocols.identity(em.PyTorch(**(usual | PAIRS[kind][0])))
    assert one == again
    assert one != other


def test_the_source_of_factory_and_loop_counts() -> None:
    described = protocols.identity(em.PyTorch(module=modules.Shaky, fit=modules.fit))["settings"]
    for part in ("module", "fit"):
        assert "tests/training/modules.py" in described[part][protocols.SOURCE]


def test_streams_inside_are_refused() -> None:
    algorithm = em.PyTorch(module=modules.dropping, fit=partial(FIT, by=torch.Generator()))
    with pytest.raises(InputError, match=r"algorithm\.fit\[2\]\.by: cannot detect whether a Gen"):
        protocols.identity(algorithm)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"module": nn.Linear(4, 3)}, "expected module to be a class or function .* got Linear"),
        ({"module": 3}, "expected module to be a class or function .* got int"),
        ({"fit": None}, "expected fit to be a function, got fit=None"),
        ({"loss": 0.5}, "expected loss to be a function, got loss=0.5"),
        ({"module": dict}, r"expected module\(\) to return a torch\.nn\.Module, got {}"),
        ({"fit": modules.fit_another}, "train the given module .* got a Sequential back"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        em.PyTorch(**({"module": modules.dropping, "fit": modules.fit} | settings)).train(
            data(), stream()
        )


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = em.PyTorch(module=modules.dropping, fit=modules.fit)
    monkeypatch.setitem(sys.modules, "torch", None)
    words = r"needs torch: pip install 'opacus.*' 'torch"
    with pytest.raises(InputError, match=words):
        em.PyTorch(module=modules.dropping, fit=modules.fit)
    with pytest.raises(InputError, match=words):
        algorithm.train(data(), stream())
