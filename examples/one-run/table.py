"""Proven, shown and estimated epsilon of one training run: the table of README.md.

Without privacy and with DP-SGD, with random records and with mislabelled ones as canaries.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import epsilometer as em

HERE = Path(__file__).parent
KINDS = ("population", "mislabelled")


def row(name: str, kind: str, compare_with: str, arguments: argparse.Namespace) -> str:
    """One audit: proven, other valid bound, shown, estimated, and the claim with the verdict."""
    config = em.rows.read_audit(HERE / "one-run.toml")
    algorithm = getattr(__import__("training"), name)
    design = em.OneRun(canaries=arguments.canaries, kind=kind, compare_with=compare_with)
    plan = replace(config.plan, algorithm=algorithm, design=design, challenge_bases=arguments.runs)
    store = None
    if arguments.stores is not None:
        store = arguments.stores / f"{name}-{kind}-{compare_with}-{arguments.runs}.db"
    scores = design.scores(em.measure(plan, store).only)
    posterior = em.estimate(scores, config.profile)
    claim = algorithm.claimed_epsilon(config.delta) if name == "dp_sgd" else None
    said = "none"
    if claim is not None:
        verdict = em.judge(posterior, claim=claim)
        said = f"{claim:.2f}: {verdict.label}"
    proof = em.prove(scores, delta=config.delta)
    auc = sum(base.auc() for base in scores.bases) / len(scores)
    shown, estimated = (
        "{:.2f} to {:.2f}".format(*posterior.credible_interval(each, 0.9))
        for each in ("shown", "epsilon")
    )
    return (
        f"| {name.replace('_', '-')} | {kind} | {compare_with} | {auc:.3f} | {proof.at_least:.2f} | "
        f"{shown} | {estimated} | {said} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="Only two lines of it.")
    parser.add_argument("--stores", type=Path, help="A folder to keep coins and losses in.")
    arguments = parser.parse_args()
    print("| training | canaries | compared with | AUC | proven | shown | estimated | claim |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in ("plain",) if arguments.quick else ("plain", "dp_sgd"):
        for kind in KINDS:
            for compare_with in ("nothing",) if arguments.quick else ("nothing", "initial"):
                print(row(name, kind, compare_with, arguments), flush=True)


if __name__ == "__main__":
    main()
