"""Calibration of groups of dependent attacks, and the cost of ignoring groups.

Each run draws (epsilon, strength, spread) from the prior and counts from the model, and computes the
rank of the true value in the posterior: with the exact engine or MCMC and, on the same counts, with
every row treated as independent.  Finished runs are stored in ``runs.jsonl`` in the given folder, so
that an interrupted study can be resumed; the summary is written next to this file and into the page.

    python docs/groups/group_study.py /tmp/groups          # an hour on two cores
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import epsilometer as em
from epsilometer._workers import begin_worker
from epsilometer.calibration.own_model import draw_groups

HERE = Path(__file__).parent
PAGE = HERE.parent / "how-to" / "groups.md"

SCATTERED = em.CountModel(delta=0.01, epsilon=em.priors.HalfNormal(scale=2.0))
UNIFORM = replace(
    SCATTERED, dependence=em.likelihoods.ScatteredMembers(scatter=em.likelihoods.UniformScatter())
)
POOLED = replace(SCATTERED, dependence=em.likelihoods.PooledGroups())


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One kind of run, and the number of runs."""

    model: em.CountModel
    engine: str
    groups: int
    members: int
    trials: int
    runs: int


CELLS = {
    "scattered, MCMC": Cell(
        model=SCATTERED, engine="mcmc", groups=5, members=6, trials=200, runs=60
    ),
    "scattered, exact": Cell(
        model=SCATTERED, engine="exact", groups=3, members=3, trials=100, runs=30
    ),
    "uniform scatter, MCMC": Cell(
        model=UNIFORM, engine="mcmc", groups=5, members=4, trials=100, runs=60
    ),
    "pooled, exact": Cell(model=POOLED, engine="exact", groups=5, members=4, trials=2000, runs=30),
    "a crowd on two points, MCMC": Cell(
        model=SCATTERED, engine="mcmc", groups=2, members=15, trials=500, runs=40
    ),
}


def posterior_of(cell: Cell, counts: em.AttackCounts, seed: int) -> em.engines.CountPosterior:
    """Estimate with the cell's engine."""
    settings: em.engines.ExactSettings | em.engines.McmcSettings
    settings = em.engines.ExactSettings(tolerance=0.02)
    if cell.engine != "exact":
        settings = em.engines.McmcSettings(
            num_iterations=1500, num_warmup=600, num_sweeps=12, num_chains=2, seed=seed
        )
    posterior: em.engines.CountPosterior = em.estimate(counts, cell.model, settings)
    return posterior


def run_one(name: str, number: int) -> dict[str, Any]:
    """One run; its random numbers depend only on the cell and the run's number."""
    cell = CELLS[name]
    rng = np.random.default_rng([list(CELLS).index(name), number, 20])
    truth, counts = draw_groups(cell.model, cell.groups, cell.members, cell.trials, rng)
    posterior = posterior_of(cell, counts, seed=number)
    ranks = {key: 1 - posterior.probability_above(key, value) for key, value in truth.items()}
    alone = em.estimate(
        counts,
        replace(cell.model, dependence=em.likelihoods.IndependentRows()),
        em.engines.ExactSettings(tolerance=0.02),
    )
    return {
        "cell": name,
        "run": number,
        "ranks": ranks,
        "rank_if_independent": 1 - alone.probability_above("epsilon", truth["epsilon"]),
        "width": float(np.diff(posterior.credible_interval("epsilon"))[0]),
        "width_if_independent": float(np.diff(alone.credible_interval("epsilon"))[0]),
        "trustworthy": posterior.trustworthy,
    }


def main(folder: Path) -> None:
    """Run the missing simulations, then summarise."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = folder / "runs.jsonl"
    done = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    known = {(one["cell"], one["run"]) for one in done}
    # Cells alternate, so that an interrupted study has runs of each.
    most = max(cell.runs for cell in CELLS.values())
    jobs = [
        (name, number)
        for number in range(most)
        for name, cell in CELLS.items()
        if number < cell.runs and (name, number) not in known
    ]
    with (
        ProcessPoolExecutor(
            max_workers=os.cpu_count(), mp_context=get_context("spawn"), initializer=begin_worker
        ) as pool,
        lines.open("a") as file,
    ):
        for found in pool.map(run_one, *zip(*jobs, strict=True)) if jobs else ():
            done.append(found)
            file.write(json.dumps(found) + "\n")
            file.flush()
    text = json.dumps(summary(done), indent=2) + "\n"
    (HERE / "study.json").write_text(text, encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def with_table(page: str) -> str:
    """The page with the table of the committed results between its marks."""
    found = json.loads((HERE / "study.json").read_text(encoding="utf-8"))
    lines = [
        "| model, engine | runs | groups x members | covered | ranks | covered if independent | "
        "width, and if independent |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, cell in found.items():
        apart = cell["if_independent"]
        lines.append(
            f"| {name} | {cell['runs']} | {cell['groups']} x {cell['members']} "
            f"| {100 * cell['coverage']['epsilon']:.0f} % "
            f"| {cell['uniformity_p_value']['epsilon']:.2f} "
            f"| {100 * apart['coverage']:.0f} % "
            f"| {cell['median_width']:.2f}, {apart['median_width']:.2f} |"
        )
    begin = page.index("<!-- table -->\n") + len("<!-- table -->\n")
    table = "\n".join(lines) + "\n"
    return page[:begin] + table + page[page.index("<!-- end -->", begin) :]


def summary(done: list[dict[str, Any]]) -> dict[str, object]:
    """Coverage of 90 % intervals and uniformity of ranks, by cell."""
    from scipy.stats import kstest

    found: dict[str, object] = {}
    for name, cell in CELLS.items():
        runs = [one for one in done if one["cell"] == name]
        if not runs:
            continue
        ranks = {
            key: np.array([one["ranks"][key] for one in runs])
            for key in ("epsilon", "strength", "spread")
        }
        apart = np.array([one["rank_if_independent"] for one in runs])
        found[name] = {
            "engine": cell.engine,
            "groups": cell.groups,
            "members": cell.members,
            "trials": cell.trials,
            "runs": len(runs),
            "trustworthy": sum(one["trustworthy"] for one in runs),
            "coverage": {key: _covered(values) for key, values in ranks.items()},
            "uniformity_p_value": {
                key: float(kstest(values, "uniform").pvalue) for key, values in ranks.items()
            },
            "median_width": float(np.median([one["width"] for one in runs])),
            "if_independent": {
                "coverage": _covered(apart),
                "above_the_truth": float(np.mean(apart <= 0.05)),
                "below_the_truth": float(np.mean(apart >= 0.95)),
                "median_width": float(np.median([one["width_if_independent"] for one in runs])),
            },
        }
    return found


def _covered(ranks: NDArray[np.float64]) -> float:
    """Coverage of central 90 % intervals."""
    return float(np.mean((ranks > 0.05) & (ranks < 0.95)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
