"""Write the numbers of the calibration studies into calibration.md.

    python docs/make_calibration.py

Reads the tables that ``epsilometer calibrate`` wrote to ``docs/calibration/``, and with
``--study curve``, ``proofs``, ``verdicts``, ``one-run`` and ``pool`` to its subfolders, and rewrites
the text between the marks of the page.  A test compares the page with these tables.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from epsilometer.calibration.plan import DELTA
from epsilometer.calibration.study import PEERS_RULE, POSTERIOR
from epsilometer.calibration.table import (
    CHANCE,
    DELIBERATE,
    LARGEST_PROMISED,
    NO_BOUND,
    SUSPECT,
    BoundRow,
    CurveRow,
    ModelRow,
    Section,
    chance_of,
    from_csv,
    summarise_bounds,
    within_level,
)
from epsilometer.model.curve_model import CurveModel

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import calibration_of_one_run  # noqa: E402 - next to this script
import calibration_of_pool  # noqa: E402
import calibration_of_verdicts  # noqa: E402

PAGE = HERE / "calibration.md"
FOLDER = HERE / "calibration"
CURVE = FOLDER / "curve"


def percent(count: int, runs: int) -> str:
    """A share in per cent."""
    return f"{100 * count / runs:.1f} %"


def where(row: BoundRow) -> str:
    """Short description of a cell."""
    if row.false_positive_rate == "scores":
        size = f"{row.trials:,} canaries"
    else:
        size = f"{row.bases} x {row.trials:,} trials"
    setting = f" ({row.setting})" if row.setting else ""
    return f"{row.mechanism}{setting}, {size}, power {row.power:g}"


def bounds_table(rows: list[BoundRow], significance: float) -> str:
    """Worst failure rate and tightness of each bound."""
    lines = [
        "| estimator | kind | settings | worst failure rate | where | too often in | tightness |",
        "| --- | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for found in summarise_bounds(rows, significance):
        worst = found.worst
        if worst.verdict(significance) == NO_BOUND:
            continue
        name = f"*{found.estimator}*" if found.estimator in DELIBERATE else found.estimator
        tight = "" if math.isnan(found.tightness) else f"{found.tightness:.2f}"
        lines.append(
            f"| {name} | {found.kind} | {found.cells} | {percent(worst.above, worst.runs)} "
            f"| {where(worst) if worst.above else '-'} | {found.too_often} | {tight} |"
        )
    return "\n".join(lines)


def required_table(rows: list[BoundRow], significance: float) -> str:
    """Failures on the null and on Laplace epsilon = 1, at the sizes with 10,000 runs."""
    chosen = [
        row
        for row in rows
        if row.runs >= 10_000
        and row.power == 1
        and (row.mechanism == "null" or row.setting == "pure_epsilon=1")
        and row.mechanism in ("null", "Laplace")
        and row.verdict(significance) != NO_BOUND
    ]
    names = list(dict.fromkeys(row.estimator for row in chosen))
    lines = [
        "| estimator | null, worst | Laplace ε = 1, worst | runs each |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in names:
        cells = []
        for mechanism in ("null", "Laplace"):
            own = [r for r in chosen if r.estimator == name and r.mechanism == mechanism]
            worst = max(own, key=lambda row: row.failure_rate)
            mark = "" if within_level(worst.above, worst.runs, significance) else " **!**"
            cells.append(f"{percent(worst.above, worst.runs)}{mark}")
        runs = min(row.runs for row in chosen if row.estimator == name)
        shown = f"*{name}*" if name in DELIBERATE else name
        lines.append(f"| {shown} | {cells[0]} | {cells[1]} | {runs:,} |")
    return "\n".join(lines)


def coverage_table(rows: list[ModelRow]) -> str:
    """Coverage of the posterior under its own model."""
    lines = [
        "| likelihood | bases | parameter | runs | 50 % | 80 % | 90 % | 95 % | p (ranks uniform) |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        shares = " | ".join(
            percent(getattr(row, f"covered_{level}"), row.runs) for level in (50, 80, 90, 95)
        )
        lines.append(
            f"| {row.likelihood} | {row.bases} | {row.parameter} | {row.runs:,} | {shares} "
            f"| {row.uniformity:.3f} |"
        )
    return "\n".join(lines)


def misfit_table(rows: list[BoundRow]) -> str:
    """The posterior where attacks are not uniform on the ring."""
    lines = [
        "| mechanism | power | bases | false-positive rate | true ε | runs | interval covers "
        "| above | below | mean lower end | mean width |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        if row.estimator != POSTERIOR:
            continue
        covered = row.runs - row.above - row.below
        setting = f" ({row.setting})" if row.setting else ""
        lines.append(
            f"| {row.mechanism}{setting} | {row.power:g} | {row.bases} | {row.false_positive_rate} "
            f"| {row.truth:.3g} | {row.runs} | {percent(covered, row.runs)} "
            f"| {percent(row.above, row.runs)} | {percent(row.below, row.runs)} "
            f"| {row.mean_low:.3g} | {row.mean_width:.3g} |"
        )
    return "\n".join(lines)


def peers_table(rows: list[BoundRow], significance: float) -> str:
    """jax_privacy's correction on null scores, compared with ours."""
    lines = [
        "| canaries | δ | runs | jax_privacy's correction | ranks fixed in advance |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    null = [row for row in rows if row.mechanism == "null" and row.false_positive_rate == "scores"]
    for row in sorted(null, key=lambda row: row.trials):
        if row.estimator != PEERS_RULE.label:
            continue
        ours = next(r for r in null if r.trials == row.trials and r.estimator == "one-run scan")
        mark = "" if within_level(row.above, row.runs, significance) else " **!**"
        lines.append(
            f"| {row.trials:,} | {row.delta:g} | {row.runs:,} | {percent(row.above, row.runs)}{mark} "
            f"| {percent(ours.above, ours.runs)} |"
        )
    return "\n".join(lines)


# --- the curve model ------------------------------------------------------------------------------


def name_of(row: BoundRow | CurveRow) -> str:
    """The mechanism with its parameters."""
    return f"{row.mechanism} ({row.setting})" if row.setting else row.mechanism


def size_of(row: CurveRow) -> str:
    """Number of bases and of models per hypothesis."""
    return f"{row.bases} {'base' if row.bases == 1 else 'bases'} of {row.models:,}"


def place_of(row: CurveRow) -> str:
    """Short description of a setting with the best attacks."""
    law = f", strengths {row.strengths}" if row.strengths else ""
    known = ", known rate" if row.section is Section.TOLD else ""
    return f"{name_of(row)}{law}{known}, {size_of(row)}"


def count_coverage(row: CurveRow, bounds: list[BoundRow]) -> str:
    """Coverage of the count model with the same mechanism, power and size, at a rate of 0.1."""
    for other in bounds if row.section is not Section.CONTROL else ():
        if other.estimator == POSTERIOR and other.false_positive_rate == "0.1":
            same = (name_of(other), other.power, other.bases, other.trials)
            if same == (name_of(row), row.power, row.bases, row.models):
                return percent(other.runs - other.above - other.below, other.runs)
    return "-"


def curve_table(
    rows: Sequence[CurveRow],
    significance: float,
    more: Mapping[str, Callable[[CurveRow], str]] | None = None,
) -> str:
    """Intervals of the curve model; ``more`` are further columns."""
    added = more or {}
    names = "mechanism|true ε|bases|models per hypothesis|runs|covers|above|below|mean 5 %"
    header = [*names.split("|"), "50 %", "95 %", *added]
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    for row in rows:
        mark = row.mark(significance)
        shares = (f"{percent(n, row.runs)}" for n in (row.covers, row.above, row.below))
        ends = (f"{x:.2f}" for x in (row.mean_low, row.mean_median, row.mean_high))
        label = name_of(row)
        if row.section is Section.CONTROL:
            label = f"*control: {label}, analysed as {row.family}*"
        cells = [
            f"{label} **{mark}**" if mark else label,
            f"{row.true_epsilon:.2f}",
            str(row.bases),
            f"{row.models:,}",
            f"{row.runs:,}",
            *shares,
            *ends,
            *(value(row) for value in added.values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def prior_table(rows: Sequence[CurveRow]) -> str:
    """Failures under the simple and the default prior, in the same runs, over all sizes."""
    header = [
        "mechanism",
        "attacks",
        "runs",
        "above: simple",
        "default",
        "below: simple",
        "default",
    ]
    lines = [f"| {' | '.join(header)} |", f"| --- | --- |{' ---: |' * (len(header) - 2)}"]
    groups: dict[tuple[str, str], list[CurveRow]] = {}
    for row in rows:
        if row.section is Section.CONTROL:
            continue
        known = ", known rate" if row.section is Section.TOLD else ""
        attacks = f"strengths {row.strengths}" if row.strengths else f"power {row.power:g}{known}"
        groups.setdefault((name_of(row), attacks), []).append(row)
    for (mechanism, attacks), own in groups.items():
        runs = sum(row.runs for row in own)
        counts = (
            sum(getattr(row, name) for row in own)
            for name in ("plain_above", "above", "plain_below", "below")
        )
        cells = [mechanism, attacks, f"{runs:,}", *(percent(count, runs) for count in counts)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def paragraph(text: str, first: str = "") -> str:
    """Wrap to the page's width; ``first`` is the indent of the first line."""
    rest = " " * len(first)
    return textwrap.fill(
        text, 120, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def in_words(rows: Sequence[CurveRow], count: Callable[[CurveRow], int]) -> str:
    """Share of runs for each mechanism and size."""
    parts = []
    for place in dict.fromkeys((name_of(row), row.strengths, row.true_epsilon) for row in rows):
        own = [row for row in rows if (name_of(row), row.strengths, row.true_epsilon) == place]
        shares = ", ".join(f"{percent(count(row), row.runs)} with {size_of(row)}" for row in own)
        law = f", strengths {place[1]}" if place[1] else ""
        parts.append(f"{place[0]}{law} (ε = {place[2]:.2f}): {shares}")
    return "; ".join(parts)


def verdict_text(rows: Sequence[CurveRow], significance: float) -> str:
    """Whether the stated rates are met, and where not."""
    honest = [row for row in rows if row.section is not Section.CONTROL and row.power == 1]
    covering = [row for row in honest if row.must_cover]
    high = max(honest, key=lambda row: row.above / row.runs)
    low = min(covering, key=lambda row: row.covers / row.runs)
    missed = [row for row in honest if row.mark(significance)]
    said = (
        f"The tables below have {len(honest)} settings of power 1, including known rates and different "
        f"strengths. Highest rate of intervals above the true ε: {percent(high.above, high.runs)} of "
        f"{high.runs} runs, {place_of(high)}. Lowest coverage in the {len(covering)} settings where "
        f"intervals must cover: {percent(low.covers, low.runs)} of {low.runs} runs, {place_of(low)}."
    )
    if not missed:
        said += " Both stated rates are met in all of them, within sampling error."
    else:
        which = "; ".join(
            f"{place_of(row)} (covers {percent(row.covers, row.runs)}, above "
            f"{percent(row.above, row.runs)}, below {percent(row.below, row.runs)})"
            for row in missed
        )
        said += f" **Not met** in {len(missed)}: {which}."
    controls = [row for row in rows if row.section is Section.CONTROL]
    for row in controls:
        seen = "is detected" if row.mark(significance) == "!!" else "was NOT detected: run longer"
        said += (
            f" The negative control, {name_of(row)} analysed as {row.family}, {seen}: above in "
            f"{percent(row.above, row.runs)} of {row.runs} runs."
        )
    return paragraph(said)


def shortfall_text(rows: Sequence[CurveRow], significance: float) -> str:
    """Settings in which intervals miss the true epsilon more often than stated."""

    def too_often(section: Section, end: str) -> list[CurveRow]:
        return [
            row
            for row in rows
            if row.section is section
            and chance_of(getattr(row, end), row.runs, significance) <= SUSPECT
        ]

    places = {
        Section.BEST: "Best attacks",
        Section.TOLD: "Best attacks, known sampling rate",
        Section.WEAKER: "Half power",
        Section.STRENGTHS: "Different strengths",
    }
    lines = [prior_text(rows), ""]
    for section, title in places.items():
        for end in ("below", "above"):
            own = too_often(section, end)
            if own:
                words = in_words(own, lambda row, end=end: int(getattr(row, end)))  # type: ignore[misc]
                lines.append(paragraph(f"**{title}: {end} the true ε.** {words}.", "- "))
    quiet = [
        title.lower()
        for section, title in places.items()
        if not too_often(section, "above") and any(row.section is section for row in rows)
    ]
    if quiet:
        lines.append(paragraph(f"**Never too often above:** {'; '.join(quiet)}.", "- "))
    return "\n".join(lines)


def prior_text(rows: Sequence[CurveRow]) -> str:
    """Prior probability beyond the largest true values."""
    model = CurveModel(delta=DELTA)
    truths = sorted({row.true_epsilon for row in rows if row.true_epsilon > 2}, reverse=True)
    shares = [f"{100 * model.prior_probability_above(x):.2g} % beyond {x:.2f}" for x in truths]
    return paragraph(
        f"The prior gives ε = 0 a probability of {100 * (model.no_leak or 0):g} %, and puts "
        f"{', '.join(shares)}. A large posterior ε needs strong data; few scores, or attacks that find "
        "half of the leak, are not enough."
    )


def promise_text(rows: Sequence[CurveRow], significance: float) -> str:
    """The stated rates, and how they are tested."""
    runs = sorted({row.runs for row in rows})
    many = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    level = 100 * (1 - 2 * significance)
    return paragraph(
        f"Stated and tested: with the best attacks at most {100 * significance:g} % of intervals are "
        f"entirely above the true ε, and at least {level:g} % cover it if it is at most "
        f"{LARGEST_PROMISED:g} or the sampling rate is known. {many} runs per setting. **!** marks a "
        f"setting whose number of failures has a p-value below {SUSPECT:g}, **!!** one below {CHANCE:g}."
    )


def curve_blocks(bounds: list[BoundRow]) -> dict[str, str]:
    """Text and tables on the curve model, by mark."""
    plan = json.loads((CURVE / "plan.json").read_text(encoding="utf-8"))
    significance = float(plan["significance"])
    text = (CURVE / "coverage.csv").read_text(encoding="utf-8")
    rows = from_csv(text, CurveRow, name="coverage.csv")

    def of(*sections: Section) -> list[CurveRow]:
        return [row for row in rows if row.section in sections]

    def beside(row: CurveRow) -> str:
        return count_coverage(row, bounds)

    others = {"count model covers": beside}
    return {
        "curve-promise": promise_text(rows, significance),
        "curve-verdict": verdict_text(rows, significance),
        "curve-best": curve_table(of(Section.BEST, Section.CONTROL), significance, others),
        "curve-half": curve_table(of(Section.WEAKER), significance, others),
        "curve-told": curve_table(of(Section.TOLD), significance),
        "curve-strengths": curve_table(
            of(Section.STRENGTHS), significance, {"strengths": lambda row: row.strengths}
        ),
        "curve-short": shortfall_text(rows, significance),
        "curve-prior": prior_table(rows),
    }


def render(text: str) -> str:
    """The page with regenerated tables."""
    plan = json.loads((FOLDER / "plan.json").read_text(encoding="utf-8"))
    significance = float(plan["significance"])
    bounds = from_csv(
        (FOLDER / "bounds.csv").read_text(encoding="utf-8"), BoundRow, name="bounds.csv"
    )
    models = from_csv(
        (FOLDER / "coverage.csv").read_text(encoding="utf-8"), ModelRow, name="coverage.csv"
    )
    tables = {
        "bounds": bounds_table(bounds, significance),
        "required": required_table(bounds, significance),
        "coverage": coverage_table(models),
        "misfit": misfit_table(bounds),
        "peers": peers_table(bounds, significance),
        **curve_blocks(bounds),
        **calibration_of_verdicts.blocks(),
        **calibration_of_one_run.blocks(),
        **calibration_of_pool.blocks(),
    }
    for name, table in tables.items():
        start = text.index(f"<!-- {name} -->\n") + len(f"<!-- {name} -->\n")
        text = f"{text[:start]}{table}\n{text[text.index('<!-- end -->', start) :]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
