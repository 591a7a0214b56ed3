"""Audit every algorithm of `training.py` with gradient canaries: the table of README.md.

python audit.py [--seeds 1 2 3 4 5] [--only NAME ...]
"""

import argparse

import numpy as np

import epsilometer as em
import training

DELTA = 1e-5


def row(name: str, algorithm: em.DpSgd, dataset: em.rows.Dataset, seed: int) -> str:
    """One training run with canaries, judged against the claim."""
    claim = algorithm.claimed_epsilon(DELTA)
    scores = algorithm.audit_gradients(dataset, np.random.default_rng(seed))
    posterior = em.estimate(scores, algorithm.canary_model(DELTA))
    verdict = em.judge(posterior, claim=claim)
    proof = em.prove(scores, delta=DELTA, claim=claim)
    low, high = posterior.credible_interval("epsilon", 0.9)
    auc = scores.bases[0].auc()
    return (
        f"| {name} | {seed} | {claim:.2f} | {auc:.3f} | {proof.at_least:.2f} | "
        f"{low:.2f} to {high:.2f} | {verdict.label} |"
    )


def main() -> None:
    """Print one row per algorithm and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--only", nargs="*", default=list(training.ALGORITHMS))
    arguments = parser.parse_args()
    population = em.datasets.load_population("digits")
    dataset = population.take(np.arange(training.SETTINGS["records"]))
    print("| algorithm | seed | claim | AUC | proven | 90 % interval of ε | verdict |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.only:
        for seed in arguments.seeds:
            print(row(name, training.ALGORITHMS[name], dataset, seed), flush=True)


if __name__ == "__main__":
    main()
