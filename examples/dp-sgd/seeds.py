"""Both audits of this folder for several seeds: the table of README.md.

Losses are kept beside this file, a store for each seed, so that it can be stopped and goes on.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import epsilometer as em

HERE = Path(__file__).parent


def judged(name: str, seed: int, stores: Path) -> str:
    """Interval of epsilon and the probability that it exceeds the accountant's claim."""
    config = em.read_audit(HERE / f"{name}.toml")
    plan = replace(config.plan, seed=seed)
    measured = em.measure(plan, stores / f"{name}-{seed}.db", executor="processes")
    attacked = plan.design.attack(measured.only, config.attack, statistic=config.statistic)
    posterior = em.estimate(attacked.counts(config.file.attack.target_alpha), config.model)
    low, high = posterior.credible_interval("epsilon", 0.9)
    claim = plan.algorithm.claimed_epsilon(config.model.delta)
    above = posterior.probability_above("epsilon", claim)
    doubt = "" if posterior.trustworthy else " (!)"
    shown = "> 0.9999" if above > 0.9999 else f"{above:.2f}"
    return f"{low:.2f} to {high:.2f}{doubt} | {shown}"


def main() -> None:
    """Print a line of the table for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--stores", type=Path, default=HERE)
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        both = " | ".join(judged(name, seed, arguments.stores) for name in ("correct", "broken"))
        print(f"| {seed} | {both} |", flush=True)


if __name__ == "__main__":
    main()
