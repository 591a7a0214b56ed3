"""Verdicts on claims about known mechanisms: how often each outcome occurs, and on which grounds.

An hour on two cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
from epsilometer.errors import ContradictionError
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.model.models import CountModel, CurveModel
from studies.draws import counts_of, draw_bases, draw_counts
from studies.mechanisms import MECHANISMS, GaussianMechanism, Mechanism, Null, RandomisedResponse
from studies.outside import CHOSEN_ON, JUDGED_ON
from studies.runner import Cell, Plan, Tallies
from studies.tables import SUSPECT, Row, Tables, chance_of, mark_of, markdown, most, paragraph

VERDICTS = "verdicts.csv"
#: Claims as multiples of the truth; for a mechanism that leaks nothing, epsilons themselves.
CLAIM_FACTORS = (0.5, 1.0, 2.0)

SCORES, COUNTS = "scores", "counts"
#: False-positive rate of the attacks whose errors are counted.
RATE = 0.1

#: By the label of a verdict; the rest are INCONCLUSIVE.
COLUMNS = {
    "FAIL (proven)": "fail_proven",
    "FAIL (judged)": "fail_judged",
    "PASS (judged)": "pass_judged",
}


@dataclass(frozen=True, kw_only=True)
class VerdictCell(Cell):
    """Audits of a known mechanism, with claims below, at and above the truth.

    From ``scores`` of models with the curve model, or from ``counts`` at one rate with the
    count model.  ``models`` are trained without the point in each base, and as many with it.
    """

    delta: float = 1e-5
    mechanism: Mechanism
    power: float = 1.0
    data: str = SCORES
    bases: int
    models: int = 100

    def claims(self) -> dict[float, float]:
        """The claimed epsilon for each factor."""
        truth = self.mechanism.epsilon(self.delta)
        return {factor: factor * (truth or 1.0) for factor in CLAIM_FACTORS}

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        """Tallies by factor; proofs have error probability ``significance``."""
        posterior, tallies = self._posterior(rng), {}
        for factor, claim in self.claims().items():
            label = "" if posterior is None else _label(posterior, claim, significance)
            counts = {column: int(name == label) for name, column in COLUMNS.items()}
            tallies[f"{factor:g}"] = {"runs": 1} | counts
        return tallies

    def _posterior(self, rng: np.random.Generator) -> Any:
        if self.data == SCORES:
            scores = draw_bases(
                self.mechanism, power=self.power, bases=self.bases, models=self.models, rng=rng
            )
            return CurveSettings().estimate_quickly(scores, CurveModel(delta=self.delta))
        shape = 1, self.bases
        x, y = draw_counts(
            self.mechanism, RATE, power=self.power, trials=self.models, shape=shape, rng=rng
        )
        counts, model = counts_of(x[0], y[0], self.models), CountModel(delta=self.delta)
        try:
            return estimate_exact(counts, model, ExactSettings(tolerance=0.02))
        except ContradictionError:  # no posterior, no verdict
            return None

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        place = {
            "data": self.data,
            "mechanism": self.mechanism.name,
            "setting": self.setting(),
            "power": self.power,
            "true_epsilon": round(self.mechanism.epsilon(self.delta), 6),
            "bases": self.bases,
            "models": self.models,
        }
        for factor, claim in self.claims().items():
            yield (
                VERDICTS,
                place | {"factor": factor, "claim": round(claim, 6)} | tallies[f"{factor:g}"],
            )


def _label(posterior: Any, claim: float, significance: float) -> str:
    # A single coarse resolution, as in the study of intervals, does not verify its accuracy.
    question = Question(claim=claim, accept_untrusted=True, error=significance)
    verdict = result_of(posterior, question).verdict
    assert verdict is not None
    return verdict.label


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, two mechanisms from scores and from counts."""
    if quick:
        cells: list[Cell] = [
            VerdictCell(mechanism=mechanism, data=data, bases=5, runs=10)
            for data in (SCORES, COUNTS)
            for mechanism in (RandomisedResponse(1.0), GaussianMechanism(1.0))
        ]
        return Plan(cells=tuple(cells))
    cells = [
        VerdictCell(mechanism=mechanism, power=power, data=data, bases=bases, runs=runs)
        for data, power, runs in ((SCORES, 1.0, 40), (SCORES, 0.5, 15), (COUNTS, 1.0, 100))
        for mechanism in MECHANISMS
        for bases in (5, 20)
        if power == 1 or mechanism != Null()
    ]
    cells += [
        VerdictCell(mechanism=mechanism, bases=5, runs=30) for mechanism in (*CHOSEN_ON, *JUDGED_ON)
    ]
    return Plan(cells=tuple(cells))


# --- the page ---------------------------------------------------------------------------------------


def _holds(row: Row) -> bool:
    return bool(row.claim >= row.true_epsilon)


def wrong(row: Row) -> int | None:
    """Number of wrong verdicts: FAIL on a true claim, PASS on half the truth; None if undefined."""
    if _holds(row):
        return int(row.fail_proven + row.fail_judged)
    return int(row.pass_judged) if row.power == 1 else None


def chance(row: Row, significance: float) -> float:
    """Probability of at least this many wrong verdicts; 1 if undefined."""
    number = wrong(row)
    return 1.0 if number is None else chance_of(number, row.runs, significance)


def verdict_table(rows: list[Row], significance: float) -> str:
    """Rate of every outcome, one row per claim; settings with too many errors are marked."""
    lines = []
    for row in rows:
        mark = mark_of(chance(row, significance))
        named = [getattr(row, column) for column in COLUMNS.values()]
        counts = [*named, row.runs - sum(named)]
        lines.append(
            [
                f"{row.name} **{mark}**" if mark else row.name,
                f"{row.true_epsilon:.2f}",
                row.bases,
                f"{row.claim:.2f}" + (" (true)" if _holds(row) else ""),
                row.runs,
                *(f"{100 * number / row.runs:.0f} %" if number else "" for number in counts),
            ]
        )
    header = ["mechanism", "true ε", "bases", "claim", "runs", *COLUMNS, "INCONCLUSIVE"]
    return markdown(header, lines)


def verdict_text(rows: list[Row], significance: float) -> str:
    """Whether the required error rates are met."""
    judged = [row.changed(wrong=wrong(row)) for row in rows if wrong(row) is not None]
    parts = []
    for true, what in (
        (True, "FAIL of a true claim"),
        (False, "PASS of half the true ε, best attacks"),
    ):
        own = [row for row in judged if _holds(row) is true]
        worst = most(own, "wrong")
        whole = Row(wrong=sum(row.wrong for row in own), runs=sum(row.runs for row in own))
        where = f"{worst.data}, {worst.name}, {worst.bases} bases, claim {worst.claim:.2f}"
        parts.append(
            f"**{what}**: {whole.wrong} of {whole.runs:,} audits ({whole.percent('wrong')}); at most "
            f"{worst.wrong} of {worst.runs} in one setting ({where}; p-value "
            f"{chance(worst, significance):.2g} for a rate of {100 * significance:g} %)"
        )
    broken = sum(chance(row, significance) <= SUSPECT for row in rows)
    end = f"**Not met** in {broken} settings." if broken else "Both rates are met in all settings."
    return paragraph(f"{'. '.join(parts)}. {end}")


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Text and tables of the page, by mark."""
    rows = tables[VERDICTS]

    def table(data: str, power: float) -> str:
        own = [row for row in rows if (row.data, row.power) == (data, power)]
        return verdict_table(own, significance) if own else ""

    return {
        "verdict-text": verdict_text(rows, significance),
        "verdict-best": table(SCORES, 1.0),
        "verdict-half": table(SCORES, 0.5),
        "verdict-counts": table(COUNTS, 1.0),
    }
