"""A training loop as in Opacus's introduction, and the same loop without the noise."""

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

import epsilometer as em


def softmax_regression():
    """64 pixels in, 10 logits out; all weights start at 0."""
    module = torch.nn.Linear(64, 10)
    for part in module.parameters():
        torch.nn.init.zeros_(part)
    return module


def fit(module, dataset, without_noise=False):
    """Train ten epochs with Opacus; returns the engine."""
    features = torch.tensor(dataset.features, dtype=torch.float32)
    records = TensorDataset(features, torch.tensor(dataset.labels))
    data_loader = DataLoader(records, batch_size=50)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    privacy_engine = PrivacyEngine()
    module, optimizer, data_loader = privacy_engine.make_private(
        module=module,
        optimizer=optimizer,
        data_loader=data_loader,
        noise_multiplier=4.0,
        max_grad_norm=0.1,
    )
    if without_noise:
        optimizer.add_noise = lambda: forget_noise(optimizer)
    for _ in range(10):
        for pixels, digits in data_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(pixels), digits).backward()
            optimizer.step()
    return privacy_engine


def forget_noise(optimizer):
    """A bug: gradients are clipped and summed without noise; the accountant still counts steps."""
    for part in optimizer.params:
        part.grad = part.summed_grad


def fit_without_noise(module, dataset):
    """The same loop without the noise."""
    return fit(module, dataset, without_noise=True)


algorithm = em.Opacus(module=softmax_regression, fit=fit)
broken = em.Opacus(module=softmax_regression, fit=fit_without_noise)
