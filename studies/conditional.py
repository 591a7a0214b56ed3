"""What is proven if the noise of canaries is independent and normal: where it is, and where it is not.

Scores of a run are drawn from a mechanism of `interference.py`.  The bound is made as `prove` makes it,
after the search for shared luck, and without the search.  Ten minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from epsilometer._arrays import FloatPair
from epsilometer.proofs.independent_noise import FALSE_ALARM, IndependentNoiseTest
from epsilometer.proofs.refuting import largest_refuted
from studies.interference import (
    BlurredLuck,
    Failures,
    Interference,
    Release,
    Separate,
    SeparateLaplace,
    SharedCapacity,
    SharedLuck,
    SharedNoise,
    SharedScale,
    SpillOver,
    Steps,
)
from studies.one_run import OneRunCell, scores_of
from studies.runner import Plan, Tallies, bound_tally
from studies.tables import Row, Tables, flagged, markdown, most, paragraph

TABLE = "conditional.csv"
SEARCHED, UNSEARCHED = "after the search", "without the search"


@dataclass(frozen=True, kw_only=True)
class ConditionalCell(OneRunCell):
    """Bounds if the noise is independent, with and without a search for shared luck."""

    chunk: ClassVar[int] = 20
    table: ClassVar[str] = TABLE

    def audit(self, drawn: list[FloatPair], significance: float) -> Tallies:
        truth, scores, tallies = self.mechanism.epsilon(self.delta), scores_of(drawn), {}
        for method in (SEARCHED, UNSEARCHED):
            test = IndependentNoiseTest(scores=scores, search=method == SEARCHED)
            bound = largest_refuted(test, self.delta, significance)
            withheld = {"withheld": int(test.withheld(self.delta) is not None)}
            tallies[method] = bound_tally(bound, truth) | withheld
        return tallies


# --- the plan ---------------------------------------------------------------------------------------

#: Independent noise, normal or below: the condition holds.
INDEPENDENT: tuple[Interference, ...] = (
    Separate(mu=0.0),
    Separate(mu=0.5),
    Separate(mu=1.0),
    Separate(mu=2.0),
    Steps(noise=3.0, rate=1 / 11, steps=2200),
    Steps(noise=0.7, rate=0.01, steps=3000),
    Steps(noise=2.0, rate=0.1, steps=30),
    Steps(noise=0.7, rate=0.1, steps=7),
    Steps(noise=1.0, rate=0.5, steps=1),
)

#: It does not.
OTHERS: tuple[Interference, ...] = (
    *(
        SharedNoise(mu=1.0, group=group, correlation=correlation)
        for group in (10, 100)
        for correlation in (0.5, 0.9)
    ),
    SpillOver(mu=1.0, group=10, spill=0.3),
    SpillOver(mu=1.0, group=100, spill=0.1),
    SharedCapacity(mu=2.0, group=10, room=2),
    SharedCapacity(mu=2.0, group=1000, room=250),
    SharedScale(strong=2.0, weak=0.5, share=0.5),
    SharedScale(strong=2.0, weak=0.5, share=0.1),
    SharedLuck(mu=1.0, group=1000),
    BlurredLuck(mu=1.0, group=10),
    BlurredLuck(mu=1.0, group=100),
    BlurredLuck(mu=1.0, group=1000),
    BlurredLuck(mu=2.0, group=1000),
    SeparateLaplace(pure_epsilon=1.0),
    SeparateLaplace(pure_epsilon=3.0),
)

#: The same at delta = 0.1, where runs that fail as a whole are not rare.
COMMON_FAILURES: tuple[Interference, ...] = (
    BlurredLuck(mu=1.0, group=1000),
    Failures(response=1.0, probability=0.1),
    Release(probability=0.1, share=1.0),
    Release(probability=1.0, share=0.1),
)


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, one where the condition holds and one where it does not."""
    if quick:
        few: dict[str, Any] = {"canaries": 400, "runs": 20}
        mechanisms = (Separate(mu=1.0), SharedNoise(mu=1.0, group=10, correlation=0.9))
        return Plan(cells=tuple(ConditionalCell(mechanism=each, **few) for each in mechanisms))
    cells = [ConditionalCell(mechanism=each, runs=300) for each in INDEPENDENT]
    white_box = INDEPENDENT[4]
    cells += [ConditionalCell(mechanism=white_box, canaries=5000, runs=100)]
    cells += [ConditionalCell(mechanism=each, runs=100) for each in OTHERS]
    cells += [ConditionalCell(mechanism=each, delta=0.1, runs=100) for each in COMMON_FAILURES]
    return Plan(cells=tuple(cells))


# --- the page ---------------------------------------------------------------------------------------


def holds(row: Row) -> bool:
    """Whether the noise is independent and normal."""
    return bool(row.independent == "yes" and row.gaussian == "yes")


def _pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Of each setting, with and without the search."""
    return list(zip(rows[::2], rows[1::2], strict=True))


def table(rows: Sequence[Row], error: float) -> str:
    """A line per setting."""
    lines = []
    for searched, unsearched in _pairs(rows):
        size = [f"{searched.delta:g}", f"{searched.canaries:,}", f"{searched.true_epsilon:.2f}"]
        cells = []
        for row in (unsearched, searched):
            shown = row.percent("above") if holds(row) else f"*{row.percent('above')}*"
            cells.append(f"{flagged(shown, row.fits('above', error))} ({row.mean_at_least:.2f})")
        lines.append([searched.name, *size, *cells, searched.percent("withheld"), searched.runs])
    header = ["mechanism", "δ", "canaries", "true ε", UNSEARCHED, SEARCHED, "withheld", "audits"]
    return markdown(header, lines)


def text(rows: Sequence[Row], error: float) -> str:
    """Summary of the table."""
    apart = [row for row in rows if holds(row)]
    worst, lost = most(apart, "above"), most(apart, "withheld")
    broken = sum(not row.fits("above", error) for row in apart)
    often = f"**too often** in {broken} rows" if broken else "never significantly too often"
    sharp = max((row for row in apart if row.method == SEARCHED), key=lambda row: row.canaries)
    said = [
        f"If the noise is independent and normal, or that of DP-SGD: above the true ε in at most "
        f"{worst.percent('above')} of audits, {often}; withheld in at most {lost.percent('withheld')} "
        f"(false-alarm rate of the search: {100 * FALSE_ALARM:g} %). In the white-box setting of the "
        f"literature with {sharp.canaries:,} canaries the mean bound is {sharp.mean_at_least:.2f} of "
        f"{sharp.true_epsilon:.2f}."
    ]
    pairs = [pair for pair in _pairs(rows) if not holds(pair[0])]
    wrong = [pair for pair in pairs if not pair[1].fits("above", error)]
    caught = [pair[0] for pair in wrong if pair[0].fits("above", error)]
    missed = [pair[0] for pair in wrong if not pair[0].fits("above", error)]
    said.append(
        f"If it is not, the bound without the search is above the true ε significantly too often in "
        f"{len(wrong)} of {len(pairs)} settings; the search withholds it in {len(caught)} of these"
    )
    names = "; ".join(f"{row.name}, δ = {row.delta:g}, {row.percent('above')}" for row in missed)
    said.append(f"and cannot see the others: {names}." if missed else "and misses none.")
    return paragraph(" ".join(said))


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Text and table of the page, by mark."""
    rows = tables[TABLE]
    return {"conditional-text": text(rows, significance), "conditional": table(rows, significance)}
