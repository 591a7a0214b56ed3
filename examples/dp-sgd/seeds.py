"""Run both audits of this folder for several seeds: the table of README.md.

Losses are stored next to this file, one store per seed, so that the script can be resumed.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import epsilometer as em

HERE = Path(__file__).parent


def judged(name: str, seed: int, stores: Path) -> str:
    """Interval of epsilon, probability above the claim, and the count model's interval."""
    config = em.rows.read_audit(HERE / f"{name}.toml")
    plan = replace(config.plan, seed=seed)
    losses = em.measure(plan, stores / f"{name}-{seed}.db", executor="processes").only
    posterior = em.estimate(em.attacks.scores_of(losses, config.statistic), config.profile)
    attacked = plan.design.attack(losses, config.attack, statistic=config.statistic)
    published = em.estimate(attacked.counts(config.file.attack.target_alpha), config.model)
    claim = plan.algorithm.claimed_epsilon(config.model.delta)
    above = posterior.probability_above("epsilon", claim)
    shown = "> 0.9999" if above > 0.9999 else f"{above:.2f}"
    return f"{interval(posterior)} | {shown} | {interval(published)}"


def interval(posterior: em.engines.CurvePosterior | em.engines.CountPosterior) -> str:
    """The 90 % interval of epsilon."""
    low, high = posterior.credible_interval("epsilon", 0.9)
    return f"{low:.2f} to {high:.2f}{'' if posterior.trustworthy else ' (!)'}"


def main() -> None:
    """Print one row per seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--stores", type=Path, default=HERE)
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        both = " | ".join(judged(name, seed, arguments.stores) for name in ("correct", "broken"))
        print(f"| {seed} | {both} |", flush=True)


if __name__ == "__main__":
    main()
