"""Audit your own loop with opacus.PrivacyEngine by one additional call.

python own_loop.py [--epochs 8] [--canaries 3000]
"""

import argparse

import numpy as np
import torch
from opacus import PrivacyEngine

import epsilometer as em

DELTA = 1e-5


def main() -> None:
    """Train as usual, with canaries, and score them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--canaries", type=int, default=3000)
    arguments = parser.parse_args()

    torch.manual_seed(1)
    digits = em.datasets.load_population("digits").take(np.arange(1500))
    records = torch.utils.data.TensorDataset(
        torch.tensor(digits.features, dtype=torch.float32), torch.tensor(digits.labels)
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.Tanh(), torch.nn.Linear(40, 10))
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(records, batch_size=150),
        noise_multiplier=1.5,
        max_grad_norm=4.0,
    )

    canaries = em.GradientCanaries.attach(
        optimizer,
        loader,
        count=arguments.canaries,
        rng=np.random.default_rng(1),
        accountant=engine.accountant,
    )

    for _ in range(arguments.epochs):
        for features, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features), labels).backward()
            optimizer.step()

    scores, claim = canaries.scores(), canaries.claimed_epsilon(DELTA)
    posterior = em.estimate(scores, canaries.model(DELTA))
    low, high = posterior.credible_interval("epsilon", 0.9)
    print(f"claimed: epsilon = {claim:.2f} at delta = {DELTA:g}, after {canaries.steps} steps")
    print(f"proven: at least {em.prove(scores, delta=DELTA).at_least:.2f}")
    print(f"estimated: {low:.2f} to {high:.2f} with probability 0.9")
    print(em.judge(posterior, claim=claim).label)


if __name__ == "__main__":
    main()
