"""Run both audits of this folder for several seeds: the table of README.md.

Losses are stored next to this file, one store per seed, so that the script can be resumed.
"""

import argparse
from pathlib import Path

import epsilometer as em

HERE = Path(__file__).parent


def judged(name: str, seed: int, stores: Path) -> str:
    """Interval of epsilon, probability above the claim, and the count model's interval."""
    store = stores / f"{name}-{seed}.db"
    result = em.audit(HERE / f"{name}.toml", seed=seed, store=store, executor="processes")
    above = result.verdict.probability_above
    shown = "> 0.9999" if above > 0.9999 else f"{above:.2f}"
    return f"{interval(result.posterior)} | {shown} | {interval(result.beside.posterior)}"


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
