"""Our trainer compared with the authors': mean losses on their challenge bases.

Their bases and losses are not part of this project.  With a folder that holds ``sample_info.json`` (for
each base 1,000 indices into MNIST and the place of the challenge point among them) and ``A1.csv``,
``A3_sigma0p1.csv``, ``A4_sigma0p05.csv`` (challenge_base, hypothesis, replicate, loss), this trains some
models on each base and compares.  Resumable: losses are kept in the folder given by ``--work``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import epsilometer as em

HERE = Path(__file__).parent
PAIRS = (
    ("A1", "fixed", "0.0"),
    ("A3_sigma0p1", "fixed", "0.1"),
    ("A4_sigma0p05", "random", "0.05"),
)


def authors_bases(path: Path) -> list[em.rows.ChallengeBase]:
    """The challenge bases of ``sample_info.json``."""
    bases = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        records = np.array(entry["dataset_indices"])
        place = entry["challenge_position"]
        bases.append(
            em.rows.ChallengeBase(dataset=np.delete(records, place), challenge=int(records[place]))
        )
    return bases


def measure(
    config: str, bases: Sequence[em.rows.ChallengeBase], models: int, work: Path
) -> dict[str, em.Losses]:
    """Losses of our models on the given bases, by noise scale."""
    ours = em.rows.read_audit(HERE / f"{config}.toml").plan
    plan = em.Plan(
        population=ours.population,
        algorithm=ours.algorithm,
        design=em.CrossFed(replicates=models),
        challenge_bases=bases,
        seed=2,
    )
    return dict(em.measure(plan, work / f"check-{config}.db", executor="threads").losses)


def compare(theirs: em.Losses, ours: em.Losses) -> dict[str, Any]:
    """How the logarithms of the median losses of the bases agree, for each hypothesis.

    Losses run over six decades and have heavy tails, so logarithms of medians are compared.
    """
    found: dict[str, Any] = {}
    for hypothesis, (a, b) in enumerate(
        zip(theirs.by_hypothesis(), ours.by_hypothesis(), strict=True)
    ):
        logs = [np.log(np.nanmedian(losses, axis=1)) for losses in (a, b)]
        ratio = logs[1] - logs[0]
        found[f"h{hypothesis}"] = {
            "correlation": float(np.corrcoef(logs[0], logs[1])[0, 1]),
            "typical_ratio": float(np.exp(np.median(ratio))),
            "middle_half": [float(q) for q in np.exp(np.quantile(ratio, [0.25, 0.75]))],
        }
    return found


def interval(losses: em.Losses) -> list[float]:
    """5, 50 and 95 % of epsilon from their losses, as table 1 does it from ours."""
    counts = em.rows.cross_feed(losses).counts(0.1)
    model = em.CountModel(delta=1e-3, likelihood=em.likelihoods.CorrelatedNormal())
    posterior = em.estimate(counts, model)
    return [float(value) for value in posterior.quantile("epsilon", [0.05, 0.5, 0.95])]


def main() -> None:
    """Train, compare, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("authors", type=Path, help="folder with their bases and losses")
    parser.add_argument("--models", type=int, default=10, help="models per base and hypothesis")
    parser.add_argument("--work", type=Path, default=Path("check-trainer"))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    bases = authors_bases(arguments.authors / "sample_info.json")
    measured = {
        config: measure(config, bases, arguments.models, arguments.work)
        for config in ("fixed", "random")
    }
    answer = {}
    for name, config, noise in PAIRS:
        theirs = em.Losses.read(arguments.authors / f"{name}.csv")
        answer[name] = compare(theirs, measured[config][noise]) | {"epsilon": interval(theirs)}
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
