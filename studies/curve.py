"""The curve model on scores of known mechanisms: its intervals compared with the truth.

An hour on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar

import numpy as np

from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.model.families import AVERAGE, FAMILIES, families_of
from epsilometer.model.mixing import mixing_of
from epsilometer.model.models import CurveModel
from epsilometer.model.priors import HalfNormal
from epsilometer.model.strengths import FreeStrengths
from studies import count, results
from studies.draws import draw_bases
from studies.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)
from studies.outside import CHOSEN_ON, JUDGED_ON, RareRelease, ShiftedNoise
from studies.runner import Cell, Plan, Tallies, columns_of, interval_tally
from studies.tables import (
    CHANCE,
    SUSPECT,
    Row,
    Tables,
    chance_of,
    mark_of,
    markdown,
    most,
    paragraph,
)

COVERAGE = "coverage.csv"
WHOLE_CURVE = "Epsilometer, whole curve"

#: Only the families that were averaged before there were caps, with the prior of that time.
TEXTBOOK = "textbook"

#: Strengths that differ, from attacks that find everything to such that find a fifth.
UNEQUAL, UNEQUAL_WORDS = (1.0, 0.8, 0.6, 0.4, 0.2), "1 to 0.2"

#: Largest epsilon at which the curve model must cover; 11 % of its prior is beyond.
LARGEST_PROMISED = 5.0


@dataclass(frozen=True, kw_only=True)
class CurveCell(Cell):
    """Scores of challenge bases on a known mechanism, analysed with the curve model.

    ``models`` are trained without the point in each base, and as many with it.  ``strengths`` are those
    of :func:`draw_bases`, and ``unequal`` ones 1, 0.8, 0.6, 0.4, 0.2, repeated.  ``mixing`` is the
    model's setting: "free", or the sampling rate.  ``family`` is "average" except where only three
    textbook families are averaged, and in controls, which deliberately use a wrong one.
    """

    delta: float = 1e-5
    mechanism: Mechanism
    power: float = 1.0
    strengths: tuple[float, float] | None = None
    unequal: bool = False
    bases: int
    models: int
    mixing: str | float = "free"
    family: str = AVERAGE

    kind: ClassVar[str] = "ProfileCell"

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        """One audit; ``no_limit`` counts intervals without an upper end."""
        model = CurveModel(delta=self.delta, mixing=mixing_of(self.mixing), **self._families())
        scores = draw_bases(
            self.mechanism,
            power=self.power,
            strengths=self.strengths,
            fixed_strengths=UNEQUAL * (self.bases // len(UNEQUAL)) if self.unequal else None,
            bases=self.bases,
            models=self.models,
            rng=rng,
        )
        posterior = CurveSettings().estimate_quickly(scores, model)
        truth = self.mechanism.epsilon(self.delta)
        quantiles = posterior.quantile("epsilon", [significance, 0.5, 1 - significance])
        if posterior.saturated:
            quantiles[0] = min(quantiles[0], posterior.most_shown)
        tally = interval_tally(quantiles, truth)
        if posterior.saturated:
            tally["below"] = 0
        return {WHOLE_CURVE: tally | {"no_limit": int(posterior.saturated)}}

    def _families(self) -> dict[str, Any]:
        """The families that are averaged, with the prior and the strengths that go with them."""
        if self.family != TEXTBOOK:
            return {"families": families_of(self.family)}
        three = tuple(FAMILIES[name] for name in ("gaussian", "laplace", "response"))
        return {"families": three, "epsilon": HalfNormal(), "strength": FreeStrengths()}

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        law = UNEQUAL_WORDS if self.unequal else ""
        if self.strengths is not None:
            law = "Beta({:g}, {:g})".format(*self.strengths)
        place = {
            "mechanism": self.mechanism.name,
            "setting": self.setting(),
            "power": self.power,
            "strengths": law,
            "bases": self.bases,
            "models": self.models,
            "mixing": self.mixing,
            "family": self.family,
            "true_epsilon": round(self.mechanism.epsilon(self.delta), 6),
        }
        columns = columns_of(tallies[WHOLE_CURVE])
        means = {name: columns.pop(name) for name in ("mean_low", "mean_median", "mean_high")}
        yield COVERAGE, place | columns | means


# --- the plan ---------------------------------------------------------------------------------------

SUBSAMPLED = (SubsampledGaussian(2.0, 0.2), SubsampledGaussian(1.0, 0.1))
RELEASES = (RareRelease(0.0, 0.05), RareRelease(1.0, 0.01))
STUDIED: tuple[Mechanism, ...] = (
    Null(),
    LaplaceMechanism(1.0),
    LaplaceMechanism(3.0),
    GaussianMechanism(0.5),
    GaussianMechanism(1.0),
    GaussianMechanism(2.0),
    RandomisedResponse(1.0),
    *SUBSAMPLED,
)
#: Beta distributions of strengths: uniform, weak or full, mostly strong, mostly weak.
STRENGTHS = ((1.0, 1.0), (0.5, 0.5), (5.0, 2.0), (1.0, 3.0))

#: Assuming Gaussian noise for Laplace noise triples the estimated epsilon: this must be detected.
CONTROL = CurveCell(
    mechanism=LaplaceMechanism(1.0), bases=20, models=100, family="gaussian", runs=200
)


#: Runs of each size, and of settings beside the table that is promised.
RUNS, FEWER, FEWEST = {(5, 100): 200, (20, 100): 120, (1, 1000): 50}, 30, 10


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, three mechanisms and the control."""
    if quick:
        three = (Null(), LaplaceMechanism(1.0), GaussianMechanism(1.0))
        cells = [CurveCell(mechanism=each, bases=5, models=100, runs=20) for each in three]
        return Plan(cells=(*cells, replace(CONTROL, runs=20)))
    table = (*STUDIED[:-1], *CHOSEN_ON)
    unequal: tuple[Any, ...] = (
        LaplaceMechanism(2.0),
        ShiftedNoise("logistic", 2.0),
        GaussianMechanism(1.5),
    )
    before: tuple[Mechanism, ...] = LaplaceMechanism(1.0), GaussianMechanism(1.0), *CHOSEN_ON
    cells = [
        CurveCell(mechanism=each, bases=bases, models=models, runs=runs)
        for (bases, models), runs in RUNS.items()
        for each in table
    ]
    few = partial(CurveCell, runs=FEWER)
    for bases, models in RUNS:
        runs = FEWER if models == 100 else FEWEST
        weak = partial(CurveCell, power=0.5, bases=bases, models=models, runs=runs)
        cells += [weak(mechanism=each) for each in table[1:]]
    for bases in (5, 20):
        cells += [few(mechanism=each, bases=bases, models=100) for each in (*JUDGED_ON, *RELEASES)]
        cells += [few(mechanism=each, unequal=True, bases=bases, models=100) for each in unequal]
    cells += [few(mechanism=each, bases=1, models=100) for each in (*STUDIED[:7], CHOSEN_ON[0])]
    cells += [few(mechanism=each, bases=5, models=100, family=TEXTBOOK) for each in before]
    cells += [few(mechanism=SUBSAMPLED[0], bases=5, models=100, mixing=SUBSAMPLED[0].rate)]
    return Plan(cells=(*cells, replace(CONTROL, runs=FEWER)))


# --- what is promised -------------------------------------------------------------------------------


class Section(StrEnum):
    """The purpose of a cell, as in the heading of its table."""

    BEST = "best attacks"
    WEAKER = "half power"
    TOLD = "known sampling rate"
    STRENGTHS = "different strengths"
    BEFORE = "three textbook families only"
    CONTROL = "control, deliberately wrong"


#: Not what the tool does.
DELIBERATE = (Section.BEFORE, Section.CONTROL)


def section_of(row: Row) -> Section:
    """The purpose of the cell."""
    if row.family != AVERAGE:
        return Section.BEFORE if row.family == TEXTBOOK else Section.CONTROL
    if row.strengths:
        return Section.STRENGTHS
    if row.mixing != "free":
        return Section.TOLD
    return Section.BEST if row.power == 1 else Section.WEAKER


def must_cover(row: Row) -> bool:
    """Whether nine in ten intervals must contain the truth: best attacks, moderate epsilon."""
    expected = row.true_epsilon <= LARGEST_PROMISED or section_of(row) is Section.TOLD
    return bool(row.power == 1 and expected)


def broken(row: Row, significance: float) -> str:
    """A mark if there are more failures that matter than chance explains.

    At most ``significance`` of intervals may be entirely above the truth, and twice as many may miss it
    if :func:`must_cover`.
    """
    chance = chance_of(row.above, row.runs, significance)
    if must_cover(row):
        chance = min(chance, chance_of(row.runs - row.covers, row.runs, 2 * significance))
    return mark_of(chance)


# --- the page ---------------------------------------------------------------------------------------


def _size(row: Row) -> str:
    return f"{row.bases} {'base' if row.bases == 1 else 'bases'} of {row.models:,}"


def place_of(row: Row) -> str:
    """Short description of a setting."""
    law = f", strengths {row.strengths}" if row.strengths else ""
    known = ", known rate" if section_of(row) is Section.TOLD else ""
    half = "" if row.power == 1 else f", power {row.power:g}"
    return f"{row.name}{law}{known}{half}, {_size(row)}"


def curve_table(rows: Sequence[Row], significance: float, **more: Callable[[Row], str]) -> str:
    """Intervals of the curve model; ``more`` are further columns."""
    lines = []
    for row in rows:
        label, mark = row.name, broken(row, significance)
        if section_of(row) is Section.CONTROL:
            label = f"*control: {label}, analysed as {row.family}*"
        lines.append(
            [
                f"{label} **{mark}**" if mark else label,
                f"{row.true_epsilon:.2f}",
                row.bases,
                f"{row.models:,}",
                f"{row.runs:,}",
                *(row.percent(column) for column in ("covers", "above", "below")),
                row.percent("no_limit"),
                *(f"{end:.2f}" for end in (row.mean_low, row.mean_median, row.mean_high)),
                *(value(row) for value in more.values()),
            ]
        )
    names = (
        "mechanism|true ε|bases|models per hypothesis|runs|covers|above|below|no limit|"
        "mean 5 %|50 %|95 %"
    )
    return markdown([*names.split("|"), *(name.replace("_", " ") for name in more)], lines)


def _count_coverage(row: Row) -> str:
    """Coverage of the count model with the same mechanism, power and size, at a rate of 0.1."""
    for other in results.read("count")[0][count.BOUNDS] if row.family == AVERAGE else ():
        if other.estimator == count.POSTERIOR and other.false_positive_rate == 0.1:
            same = (other.name, other.power, other.bases, other.trials)
            if same == (row.name, row.power, row.bases, row.models):
                return f"{100 - 100 * (other.above + other.below) / other.runs:.1f} %"
    return "-"


def verdict_text(rows: Sequence[Row], significance: float) -> str:
    """Whether the stated rates are met, and where not."""
    honest = [row for row in rows if section_of(row) not in DELIBERATE]
    covering = [row for row in honest if must_cover(row)]
    high, low = most(honest, "above"), min(covering, key=lambda row: row.share("covers"))
    missed = [row for row in honest if broken(row, significance)]
    said = (
        f"The tables below have {len(honest)} settings, including half power, known rates and different "
        f"strengths. Highest rate of intervals above the true ε: {high.percent('above')} of "
        f"{high.runs} runs, {place_of(high)}. Lowest coverage in the {len(covering)} settings where "
        f"intervals must cover: {low.percent('covers')} of {low.runs} runs, {place_of(low)}."
    )
    if missed:
        which = "; ".join(
            f"{place_of(row)} (covers {row.percent('covers')}, above {row.percent('above')}, below "
            f"{row.percent('below')})"
            for row in missed
        )
        said += f" **Not met** in {len(missed)}: {which}."
    else:
        said += " Both stated rates are met in all of them, within sampling error."
    for row in rows:
        if section_of(row) is Section.CONTROL:
            seen = broken(row, significance) == "!!"
            said += (
                f" The negative control, {row.name} analysed as {row.family}, "
                f"{'is detected' if seen else 'was NOT detected: run longer'}: above in "
                f"{row.percent('above')} of {row.runs} runs."
            )
    return paragraph(said)


def shortfall_table(rows: Sequence[Row], significance: float) -> str:
    """Settings in which intervals miss the true epsilon on one side more often than stated."""
    lines = []
    for row in rows:
        chances = {end: chance_of(getattr(row, end), row.runs, significance) for end in ENDS}
        if section_of(row) not in DELIBERATE and min(chances.values()) <= SUSPECT:
            shown = [
                f"**{row.percent(end)}**" if chances[end] <= SUSPECT else row.percent(end)
                for end in ENDS
            ]
            place = f"{row.name} {row.strengths}".strip()
            lines.append([section_of(row), place, f"{row.true_epsilon:.2f}", _size(row), *shown])
    return markdown(["attacks", "mechanism", "true ε", "size", *ENDS], lines)


ENDS = ("below", "above")


def _prior_text(rows: Sequence[Row]) -> str:
    """Prior probability beyond the largest true values."""
    model = CurveModel(delta=1e-5)
    truths = sorted({row.true_epsilon for row in rows if row.true_epsilon > 2}, reverse=True)
    shares = [f"{100 * model.prior_probability_above(x):.2g} % beyond {x:.2f}" for x in truths]
    return paragraph(
        f"The prior gives ε = 0 a probability of {100 * (model.no_leak or 0):g} %, and puts "
        f"{', '.join(shares)}. A large posterior ε needs strong data; few scores, or attacks that find "
        "half of the leak, are not enough."
    )


def _promise_text(rows: Sequence[Row], significance: float) -> str:
    """The stated rates, and how they are tested."""
    runs = sorted({row.runs for row in rows})
    many = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    return paragraph(
        f"Stated and tested: at most {100 * significance:g} % of intervals are entirely above the true "
        f"ε, and with the best attacks at least {100 * (1 - 2 * significance):g} % cover it if it is "
        f"at most {LARGEST_PROMISED:g} or the sampling rate is known. {many} runs per setting. **!** "
        f"marks a setting whose number of failures has a p-value below {SUSPECT:g}, **!!** one below "
        f"{CHANCE:g}."
    )


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Text and tables of the page, by mark."""
    rows = tables[COVERAGE]

    def table(*sections: Section, **more: Callable[[Row], str]) -> str:
        return curve_table([r for r in rows if section_of(r) in sections], significance, **more)

    return {
        "curve-promise": _promise_text(rows, significance),
        "curve-verdict": verdict_text(rows, significance),
        "curve-best": table(Section.BEST, Section.CONTROL, count_model_covers=_count_coverage),
        "curve-half": table(Section.WEAKER, count_model_covers=_count_coverage),
        "curve-told": table(Section.TOLD),
        "curve-strengths": table(Section.STRENGTHS, strengths=lambda row: str(row.strengths)),
        "curve-before": table(Section.BEFORE),
        "curve-short": f"{_prior_text(rows)}\n\n{shortfall_table(rows, significance)}",
    }
