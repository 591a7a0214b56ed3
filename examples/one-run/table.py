"""Proven, shown and estimated epsilon of one training run: the table of README.md.

Without privacy and with DP-SGD, with random records and with mislabelled ones as canaries.
"""

import argparse
from pathlib import Path

import epsilometer as em

DELTA, RECORDS = 1e-5, 600
KINDS = ("population", "mislabelled")


def row(name: str, kind: str, compare_with: str, arguments: argparse.Namespace) -> str:
    """One audit: AUC, proven, shown, estimated, and the claim with the verdict."""
    store = None
    if arguments.stores is not None:
        store = arguments.stores / f"{name}-{kind}-{compare_with}-{arguments.runs}.db"
    result = em.audit(
        getattr(__import__("training"), name),
        "digits",
        delta=DELTA,
        design=em.OneRun(canaries=arguments.canaries, kind=kind, compare_with=compare_with),
        bases=arguments.runs,
        dataset_size=RECORDS,
        store=store,
    )
    said = "none" if result.verdict is None else f"{result.claim:.2f}: {result.verdict.label}"
    auc = sum(base.auc() for base in result.scores.bases) / len(result.scores)
    shown, estimated = (
        "{:.2f} to {:.2f}".format(*result.posterior.credible_interval(each, 0.9))
        for each in ("shown", "epsilon")
    )
    return (
        f"| {name.replace('_', '-')} | {kind} | {compare_with} | {auc:.3f} | "
        f"{result.proof.at_least:.2f} | {shown} | {estimated} | {said} |"
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
