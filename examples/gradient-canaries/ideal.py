"""Compare Gaussian curves with the exact composition: the table of docs/how-to/gradient-canaries.md.

Scores are drawn from the law of the claim, so that only the assumption of the estimate is off.
"""

from functools import partial

import numpy as np
import torch

import epsilometer as em

DELTA, CANARIES = 1e-5, 20_000

#: Noise multiplier, sampling rate, steps.
SETTINGS = [(0.7, 0.1, 7), (0.7, 0.01, 3000), (2.0, 0.1, 30), (2.0, 0.1, 300), (2.0, 0.1, 1000)]


def ideal_scores(noise: float, rate: float, steps: int, rng: np.random.Generator) -> em.Scores:
    """Log likelihood ratios of canaries whose coordinates follow the claim."""
    member, score = rng.random(CANARIES) < 0.5, np.zeros(CANARIES)
    for _ in range(steps):
        x = noise * rng.standard_normal(CANARIES) + (member & (rng.random(CANARIES) < rate))
        score += np.logaddexp(np.log1p(-rate), np.log(rate) + (x - 0.5) / noise**2)
    return em.Scores.of_canaries(score[member], score[~member])


def main() -> None:
    """Print one row per setting."""
    print("| noise multiplier | sampling rate | steps | exact ε | estimated, 90 % interval |")
    print("| --- | --- | --- | --- | --- |")
    for noise, rate, steps in SETTINGS:
        algorithm = em.DpSgd(
            module=partial(torch.nn.Linear, 1, 1),
            noise_multiplier=noise,
            max_grad_norm=1.0,
            batch_size=round(1000 * rate),
            steps=steps,
            learning_rate=1.0,
            records=1000,
        )
        scores = ideal_scores(noise, rate, steps, np.random.default_rng(7))
        posterior = em.estimate(scores, algorithm.canary_model(DELTA))
        low, high = posterior.credible_interval("epsilon", 0.9)
        exact = algorithm.claimed_epsilon(DELTA)
        print(f"| {noise} | {rate} | {steps} | {exact:.2f} | {low:.2f} to {high:.2f} |", flush=True)


if __name__ == "__main__":
    main()
