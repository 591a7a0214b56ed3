"""Modules and training loops for tests, in a file that other processes can import."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import torch
from torch import nn

from epsilometer.measurement.population import Dataset, Point


def fixed_network() -> nn.Module:
    """Two layers that always start from the same weights, large enough to distinguish records."""
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for part in module.parameters():
            part.copy_(torch.randn(part.shape, generator=generator))
    return module


def dropping() -> nn.Module:
    """Draws its initial weights, and dropout in every step."""
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))


class Shaky(nn.Module):  # type: ignore[misc]
    """Draws random numbers even when predicting."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, features: Any) -> Any:
        return self.linear(features) + torch.rand(()) * torch.arange(3)


def with_batch_normalisation() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def frozen() -> nn.Module:
    return nn.Linear(4, 3).requires_grad_(False)


def one_score() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))


def fit(module: nn.Module, dataset: Dataset) -> None:
    """A few steps on shuffled batches, with noise from every generator."""
    features = torch.tensor(dataset.features, dtype=torch.float32)
    labels = torch.tensor(dataset.labels)
    descent = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5)
    for _ in range(3):
        chosen = torch.randperm(len(features))[:8]
        scale = 1 + 0.1 * np.random.random() + 0.1 * random.random()  # noqa: NPY002
        descent.zero_grad()
        loss: Any = nn.functional.cross_entropy(module(features[chosen]), labels[chosen])
        (scale * loss).backward()
        descent.step()


def unhurried_fit(module: nn.Module, dataset: Dataset) -> None:
    """Gives other threads time to draw in between."""
    for _ in range(3):
        time.sleep(0.01)
        fit(module, dataset)


def fit_and_return(module: nn.Module, dataset: Dataset) -> nn.Module:
    fit(module, dataset)
    return module


def fit_another(module: nn.Module, dataset: Dataset) -> nn.Module:
    del module, dataset
    return fixed_network()


def margin(module: nn.Module, point: Point) -> float:
    """A custom loss: how far the best wrong score is above the correct one."""
    with torch.no_grad():
        scores = module(torch.tensor(point.features, dtype=torch.float32)[None])[0]
    right = float(scores[int(point.label)])
    scores[int(point.label)] = -torch.inf
    return float(scores.max()) - right
