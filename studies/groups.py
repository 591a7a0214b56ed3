"""Groups of dependent attacks: calibration, and the cost of ignoring groups.

Each run draws (epsilon, strength, spread) from the prior and counts from the model, and computes the
rank of the true value in the posterior: with the groups and, on the same counts, with every row treated
as independent.  Half an hour on two cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import kstest

import epsilometer as em
from studies.draws import draw_groups
from studies.runner import Cell, Plan, Tallies
from studies.tables import Tables, markdown

GROUPS = "groups.csv"
SCATTERED = em.CountModel(delta=0.01, epsilon=em.priors.HalfNormal(scale=2.0))
MODELS = {
    "scattered": SCATTERED,
    "pooled": replace(SCATTERED, dependence=em.likelihoods.PooledGroups()),
}
COARSE = em.engines.ExactSettings(tolerance=0.02)
PARAMETERS = ("epsilon", "strength", "spread")


@dataclass(frozen=True, kw_only=True)
class GroupsCell(Cell):
    """Counts of groups from a model, analysed with an engine."""

    label: str
    model: str
    engine: str
    groups: int
    members: int
    trials: int

    chunk: ClassVar[int] = 1

    def rng(self, seed: int, part: str, first: int) -> np.random.Generator:
        return np.random.default_rng([PLACES[self.label], first, 20])

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        model = MODELS[self.model]
        truth, counts = draw_groups(model, self.groups, self.members, self.trials, rng)
        alone = replace(model, dependence=em.likelihoods.IndependentRows())
        tallies = {}
        for method, posterior in (
            ("groups", em.estimate(counts, model, COARSE)),
            ("independent", em.estimate(counts, alone, COARSE)),
        ):
            names = PARAMETERS if method == "groups" else ("epsilon",)
            tallies[method] = {
                "trustworthy": int(posterior.trustworthy),
                "widths": [float(np.diff(posterior.credible_interval("epsilon"))[0])],
            } | {name: [1 - posterior.probability_above(name, truth[name])] for name in names}
        return tallies

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        own, alone = tallies["groups"], tallies["independent"]
        columns: dict[str, Any] = {
            "label": self.label,
            "engine": self.engine,
            "groups": self.groups,
            "members": self.members,
            "trials": self.trials,
            "runs": len(own["epsilon"]),
            "trustworthy": own["trustworthy"],
        }
        columns |= {f"covered_{name}": _covered(own[name]) for name in PARAMETERS}
        columns |= {
            f"uniformity_{name}": round(float(kstest(own[name], "uniform").pvalue), 6)
            for name in PARAMETERS
        }
        columns |= {
            "median_width": round(float(np.median(own["widths"])), 6),
            "covered_if_independent": _covered(alone["epsilon"]),
            "median_width_if_independent": round(float(np.median(alone["widths"])), 6),
        }
        yield GROUPS, columns


def _covered(ranks: list[float]) -> int:
    """Central 90 % intervals that contain the truth."""
    return int(np.sum((np.array(ranks) > 0.05) & (np.array(ranks) < 0.95)))


CELLS = tuple(
    GroupsCell(
        label=label,
        model=model,
        engine="exact",
        groups=groups,
        members=members,
        trials=trials,
        runs=30,
    )
    for label, model, groups, members, trials in (
        ("scattered, exact", "scattered", 3, 3, 100),
        ("pooled, exact", "pooled", 5, 4, 2000),
    )
)

#: Their random numbers.
PLACES = {"scattered, exact": 1, "pooled, exact": 3}


def plan(*, quick: bool = False) -> Plan:
    """All models; quickly, the fastest."""
    if quick:
        return Plan(cells=(replace(CELLS[1], runs=10),))
    return Plan(cells=CELLS)


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """The table of the page, by mark."""
    names = "model, engine|runs|groups x members|covered|ranks|covered if independent"
    return {
        "groups": markdown(
            [*names.split("|"), "width, and if independent"],
            [
                [
                    row.label,
                    row.runs,
                    f"{row.groups} x {row.members}",
                    row.percent("covered_epsilon", 0),
                    f"{row.uniformity_epsilon:.2f}",
                    row.percent("covered_if_independent", 0),
                    f"{row.median_width:.2f}, {row.median_width_if_independent:.2f}",
                ]
                for row in tables[GROUPS]
            ],
        )
    }
