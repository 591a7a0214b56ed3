"""Training loops with Opacus for tests, in a file that other processes can import."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from epsilometer.measurement.population import Dataset

NOISE, EPOCHS, BATCH = 1.5, 2, 4


def loader_of(dataset: Dataset, *, batch: int = BATCH) -> Any:
    features = torch.tensor(dataset.features, dtype=torch.float32)
    return DataLoader(TensorDataset(features, torch.tensor(dataset.labels)), batch_size=batch)


def descend(module: nn.Module, optimizer: Any, loader: Any, epochs: int = EPOCHS) -> None:
    for _ in range(epochs):
        for features, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(features), labels).backward()
            optimizer.step()


def private(
    module: nn.Module,
    dataset: Dataset,
    *,
    accountant: str = "prv",
    batch: int = BATCH,
    **others: Any,
) -> Any:
    engine = PrivacyEngine(accountant=accountant)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
    settings = {"noise_multiplier": NOISE, "max_grad_norm": 1.0} | others
    made = engine.make_private(
        module=module, optimizer=optimizer, data_loader=loader_of(dataset, batch=batch), **settings
    )
    return (*made, engine)


def fit(module: nn.Module, dataset: Dataset, accountant: str = "prv", **others: Any) -> Any:
    wrapped, optimizer, loader, engine = private(module, dataset, accountant=accountant, **others)
    descend(wrapped, optimizer, loader)
    return engine


def fit_to_target(module: nn.Module, dataset: Dataset) -> Any:
    engine = PrivacyEngine(accountant="rdp")
    wrapped, optimizer, loader = engine.make_private_with_epsilon(
        module=module,
        optimizer=torch.optim.Adam(module.parameters(), lr=0.01),
        data_loader=loader_of(dataset),
        target_epsilon=3.0,
        target_delta=0.01,
        epochs=EPOCHS,
        max_grad_norm=1.0,
    )
    descend(wrapped, optimizer, loader)
    return engine


def fit_and_return_wrapped(module: nn.Module, dataset: Dataset) -> Any:
    wrapped, optimizer, loader, engine = private(module, dataset)
    descend(wrapped, optimizer, loader)
    return wrapped, engine


def fit_and_return_given(module: nn.Module, dataset: Dataset) -> Any:
    return module, fit(module, dataset)


def fit_unwrapped(module: nn.Module, dataset: Dataset) -> Any:
    """Opacus's hooks on the module itself."""
    _, optimizer, loader, engine = private(module, dataset, wrap_model=False)
    descend(module, optimizer, loader)
    return engine


def fit_as_trainer(module: nn.Module, dataset: Dataset) -> Any:
    return SimpleNamespace(trainer=SimpleNamespace(privacy_engine=fit(module, dataset)))


def fit_ghost(module: nn.Module, dataset: Dataset) -> Any:
    """Clips without per-record gradients."""
    wrapped, optimizer, criterion, loader, engine = private(
        module, dataset, grad_sample_mode="ghost"
    )
    for features, labels in loader:
        optimizer.zero_grad()
        criterion(wrapped(features), labels).backward()
        optimizer.step()
    return engine


def fit_mended(module: nn.Module, dataset: Dataset) -> Any:
    """Another module, without batch normalisation."""
    return fit_and_return_wrapped(ModuleValidator.fix(module), dataset)


def fit_in_parts(module: nn.Module, dataset: Dataset) -> Any:
    wrapped, optimizer, loader, engine = private(module, dataset, batch=6)
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=1, optimizer=optimizer
    ) as parts:
        descend(wrapped, optimizer, parts, epochs=10)
    return engine


# --- with something wrong --------------------------------------------------------------------------


def fit_mended_but_forgotten(module: nn.Module, dataset: Dataset) -> Any:
    return fit_mended(module, dataset)[1]


def fit_and_grow(module: Any, dataset: Dataset) -> Any:
    engine = fit(module, dataset)
    module.append(nn.Linear(3, 3))
    return engine


def fit_and_return_another_engine(module: nn.Module, dataset: Dataset) -> Any:
    fit(module, dataset)
    return PrivacyEngine()


def fit_on_quietly(module: nn.Module, dataset: Dataset) -> Any:
    """Three more steps, which the accountant does not know about."""
    wrapped, optimizer, loader, engine = private(module, dataset)
    descend(wrapped, optimizer, loader)
    wrapped.to_standard_module()
    descend(module, torch.optim.SGD(module.parameters(), lr=0.3), loader_of(dataset), epochs=1)
    return engine


def fit_on_the_old_loader(module: nn.Module, dataset: Dataset) -> Any:
    wrapped, optimizer, _, engine = private(module, dataset, batch=6)
    descend(wrapped, optimizer, loader_of(dataset, batch=6), epochs=10)
    return engine


def fit_in_fixed_batches(module: nn.Module, dataset: Dataset) -> Any:
    """The last batch of an epoch is smaller: sizes differ, their sums do not."""
    wrapped, optimizer, loader, engine = private(module, dataset, batch=8, poisson_sampling=False)
    descend(wrapped, optimizer, loader, epochs=15)
    return engine


def fit_long(module: nn.Module, dataset: Dataset) -> Any:
    """The same length as those, but correct."""
    wrapped, optimizer, loader, engine = private(module, dataset, batch=6)
    descend(wrapped, optimizer, loader, epochs=15)
    return engine


def fit_on_all(module: nn.Module, dataset: Dataset) -> Any:
    """All records in every step, as the rate 1 implies."""
    wrapped, optimizer, loader, engine = private(module, dataset, batch=100)
    descend(wrapped, optimizer, loader, epochs=20)
    return engine


def fit_securely(module: nn.Module, dataset: Dataset) -> Any:
    """Stands in for secure_mode=True, whose library is rarely installed."""
    engine = fit(module, dataset)
    engine.secure_mode = True
    return engine


def fit_without_noise(module: nn.Module, dataset: Dataset) -> Any:
    return fit(module, dataset, noise_multiplier=0.0)


def never(module: nn.Module, dataset: Dataset) -> Any:
    raise AssertionError("trained although nobody asked")
