"""A small network on digits, trained without any privacy and with DP-SGD."""

from functools import partial

import torch

import epsilometer as em


def network():
    """64 pixels in, 10 logits out."""
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def fit(module, dataset, epochs):
    """An ordinary training loop."""
    features = torch.tensor(dataset.features, dtype=torch.float32)
    labels = torch.tensor(dataset.labels)
    descent = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(64):
            descent.zero_grad()
            torch.nn.functional.cross_entropy(module(features[batch]), labels[batch]).backward()
            descent.step()


plain = em.PyTorch(module=network, fit=partial(fit, epochs=150))

dp_sgd = em.DpSgd(
    module=network,
    noise_multiplier=1.0,
    max_grad_norm=1.0,
    batch_size=110,
    steps=300,
    learning_rate=0.5,
    records=1100,
)
