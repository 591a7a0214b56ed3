"""Planned and realised interval widths of audits with known epsilon.

Each audit has a fresh pilot, a plan from it (more bases on top of the pilot), and the audit with the
recommended design.  Its width is compared with the planned median and the planned 10 to 90 % range.
Data come from the model itself, or from a known mechanism that does not follow it.  Twenty minutes
on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import epsilometer as em
from epsilometer.model.region import sample_rings
from epsilometer.planning.designs import ManyModels
from epsilometer.planning.goals import IntervalWidth, PilotScenario
from epsilometer.planning.plan import plan_audit
from studies.draws import counts_of, draw_counts
from studies.mechanisms import LaplaceMechanism
from studies.runner import Cell, Plan, Tallies
from studies.tables import Row, Tables, markdown

AUDITS = "audits.csv"
MODEL = em.CountModel(delta=0.001)
NEAR = 0.2


def _own_law(bases: int, challenges: int, rng: np.random.Generator) -> em.AttackCounts:
    """The model itself at epsilon 2 and strength 0.5."""
    alpha, beta = sample_rings(2.0, MODEL.delta, 0.5, size=(bases,), rng=rng)
    x, y = rng.binomial(challenges, alpha), rng.binomial(challenges, beta)
    return counts_of(x, y, challenges)


def _laplace(bases: int, challenges: int, rng: np.random.Generator) -> em.AttackCounts:
    """Laplace noise, epsilon 2, the best attack at false-positive rates drawn at random."""
    shape = 1, bases
    x, y = draw_counts(
        LaplaceMechanism(2.0), None, power=1.0, trials=challenges, shape=shape, rng=rng
    )
    return counts_of(x[0], y[0], challenges)


TRUTHS: dict[str, Callable[[int, int, np.random.Generator], em.AttackCounts]] = {
    "own law": _own_law,
    "Laplace": _laplace,
}


@dataclass(frozen=True, kw_only=True)
class PlannedCell(Cell):
    """Audits of one truth: the size of the pilot, and the wanted width."""

    truth: str
    pilot_bases: int = 20
    challenges: int = 200
    width: float = 0.55
    most_bases: int = 120
    simulations: int = 24

    chunk: ClassVar[int] = 1

    def judge(self, part: str, significance: float, runs: int, rng: np.random.Generator) -> Tallies:
        return {"audits": {"found": [self._audit(rng) for _ in range(runs)]}}

    def _audit(self, rng: np.random.Generator) -> dict[str, Any]:
        """A pilot, a plan and the audit; empty if the pilot was enough or nothing is."""
        draw = TRUTHS[self.truth]
        pilot = draw(self.pilot_bases, self.challenges, rng)
        posterior = em.estimate(pilot, MODEL)
        found = dict.fromkeys(("bases", "planned", "planned_low", "planned_high", "width"), "")
        low, high = posterior.credible_interval("epsilon")
        if high - low <= self.width:
            return {"pilot_width": high - low, "outcome": "pilot was enough"} | found
        planned = plan_audit(
            MODEL,
            PilotScenario(posterior=posterior, extend=True),
            IntervalWidth(at_most=self.width),
            design=ManyModels(most_bases=self.most_bases),
            simulations=self.simulations,
            seed=int(rng.integers(2**31)),
        ).recommended
        if planned is None:
            return {"pilot_width": high - low, "outcome": "not reachable"} | found
        bases = planned.sizes["bases"]
        new = draw(bases - self.pilot_bases, self.challenges, rng)
        both = counts_of(
            np.concatenate([pilot.false_positives, new.false_positives]),
            np.concatenate([pilot.false_negatives, new.false_negatives]),
            self.challenges,
        )
        ends = em.estimate(both, MODEL).credible_interval("epsilon")
        return {
            "pilot_width": high - low,
            "outcome": "carried out",
            "bases": bases,
            "planned": planned.width,
            "planned_low": planned.low_width,
            "planned_high": planned.high_width,
            "width": ends[1] - ends[0],
        }

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, audit in enumerate(tallies["audits"]["found"]):
            rounded = {
                name: round(value, 6) if isinstance(value, float) else value
                for name, value in audit.items()
            }
            yield AUDITS, {"truth": self.truth, "audit": number, "wanted": self.width} | rounded


def plan(*, quick: bool = False) -> Plan:
    """Twenty-five audits of each truth; quickly, one of a pilot that is nearly enough."""
    if quick:
        return Plan(cells=(PlannedCell(truth="own law", width=0.5, simulations=20, runs=2),))
    return Plan(cells=tuple(PlannedCell(truth=truth, runs=25) for truth in TRUTHS))


def summary(rows: list[Row]) -> Row:
    """How often audits of one truth matched their plan, as shares of those carried out."""
    done = [row for row in rows if row.outcome == "carried out"]
    ratio = np.array([row.width / row.planned for row in done])
    return Row(
        runs=len(done),
        near=int(np.sum(np.abs(ratio - 1) <= NEAR)),
        inside=sum(row.planned_low <= row.width <= row.planned_high for row in done),
        reached=sum(row.width <= row.wanted for row in done),
        ratios=np.quantile(ratio, [0.05, 0.5, 0.95]).tolist() if done else [],
    )


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """The table of the page, by mark."""
    lines = []
    for truth in dict.fromkeys(row.truth for row in tables[AUDITS]):
        rows = [row for row in tables[AUDITS] if row.truth == truth]
        found = summary(rows)
        shares = [
            f"{getattr(found, name)} ({found.percent(name, 0)})" if found.runs else "-"
            for name in ("near", "inside", "reached")
        ]
        ratios = ", ".join(f"{ratio:.2f}" for ratio in found.ratios)
        lines.append([truth, len(rows), found.runs, *shares, ratios])
    names = (
        "truth|pilots|more was needed|within 20 % of planned|in the planned 10 to 90 %|"
        "reached the width|found / planned, 5, 50, 95 %"
    )
    return {"planning": markdown(names.split("|"), lines)}
