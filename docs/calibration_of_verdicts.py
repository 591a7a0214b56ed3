"""Tables of the studies of proofs and verdicts for calibration.md; called by `make_calibration.py`.

Reads the output of ``epsilometer calibrate --study proofs`` and ``--study verdicts`` in
``docs/calibration/proofs/`` and ``docs/calibration/verdicts/``.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TypeVar

from epsilometer.calibration.proof_table import PowerRow, RefutationRow, VerdictRow
from epsilometer.calibration.proofs import (
    COUNTED,
    FIXED,
    ONE_RUN,
    PEEKING,
    PROOF,
    SCAN,
    SPLIT,
    STEINKE,
)
from epsilometer.calibration.table import CHANCE, SUSPECT, chance_of, from_csv

FOLDER = Path(__file__).resolve().parent / "calibration"

METHODS = (PROOF, COUNTED, FIXED, SCAN, SPLIT, ONE_RUN, STEINKE)
"""Columns of the tables of power."""

Row = TypeVar("Row", RefutationRow, PowerRow, VerdictRow)


def read(study: str, name: str, kind: type[Row]) -> list[Row]:
    """The rows of a table of a study."""
    text = (FOLDER / study / name).read_text(encoding="utf-8")
    found: list[Row] = from_csv(text, kind, name=name)  # type: ignore[type-var]
    return found


def significance_of(study: str) -> float:
    """The nominal error of the study."""
    return float(
        json.loads((FOLDER / study / "plan.json").read_text(encoding="utf-8"))["significance"]
    )


def mechanism(row: RefutationRow | PowerRow | VerdictRow) -> str:
    """A mechanism with its parameters."""
    return f"{row.mechanism} ({row.setting})" if row.setting else row.mechanism


def percent(count: int, runs: int, digits: int = 0) -> str:
    """A share of runs."""
    return f"{100 * count / runs:.{digits}f} %"


def paragraph(text: str) -> str:
    """Wrap to the page's width."""
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False))


# --- proofs -----------------------------------------------------------------------------------


def refuted_table(rows: list[RefutationRow], significance: float) -> str:
    """How often true claims were refuted, by the proof and by the negative control."""
    control = {
        (row.mechanism, row.setting, row.bases, row.models): row
        for row in rows
        if row.method == PEEKING
    }
    lines = [
        "| mechanism | claim = true ε | bases | models per hypothesis | runs | proof "
        "| *control: peeking* |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        if row.method != PROOF:
            continue
        peeked = control[row.mechanism, row.setting, row.bases, row.models]
        shares = []
        for each in (row, peeked):
            mark = "" if each.within_level(significance) else " **!**"
            shares.append(f"{percent(each.refuted, each.runs, 2)}{mark}")
        lines.append(
            f"| {mechanism(row)} | {row.true_epsilon:.2f} | {row.bases} | {row.models:,} "
            f"| {row.runs:,} | {shares[0]} | {shares[1]} |"
        )
    return "\n".join(lines)


def refuted_text(rows: list[RefutationRow], significance: float) -> str:
    """Summary of the table."""
    own = [row for row in rows if row.method == PROOF]
    worst = max(own, key=lambda row: row.refuted / row.runs)
    broken = [row for row in own if not row.within_level(significance)]
    peeked = [row for row in rows if row.method == PEEKING]
    most = max(peeked, key=lambda row: row.refuted / row.runs)
    caught = any(not row.within_level(significance) for row in peeked)
    said = (
        f"The proof refuted a true claim in at most {percent(worst.refuted, worst.runs, 2)} of "
        f"{worst.runs:,} runs ({mechanism(worst)}, {worst.bases} x {worst.models:,}); "
        f"{100 * significance:g} % are allowed. "
    )
    said += "" if not broken else f"**Exceeded** in {len(broken)} settings. "
    said += (
        f"The negative control, Clopper-Pearson's bound after every pair, was above the true ε at some "
        f"time in up to {percent(most.refuted, most.runs, 1)}, and "
        f"{'is detected' if caught else 'was NOT detected'}."
    )
    return paragraph(said)


def power_table(rows: list[PowerRow]) -> str:
    """Mean lower bound of each method on the same data."""
    sizes = [(1, 100), (1, 1600), (5, 100), (20, 100)]
    lines = [
        f"| mechanism | true ε | bases x models | {' | '.join(METHODS)} |",
        f"| --- | ---: | ---: |{' ---: |' * len(METHODS)}",
    ]
    names = dict.fromkeys((row.mechanism, row.setting) for row in rows)
    for name in names:
        for bases, models in sizes:
            own = {
                row.method: row
                for row in rows
                if (row.mechanism, row.setting, row.bases, row.models) == (*name, bases, models)
            }
            if not own:
                continue
            first = own[PROOF]
            best = max(row.mean_at_least for row in own.values())
            cells = []
            for method in METHODS:
                value = f"{own[method].mean_at_least:.2f}" if method in own else "-"
                bold = method in own and own[method].mean_at_least == best
                cells.append(f"**{value}**" if bold else value)
            lines.append(
                f"| {mechanism(first)} | {first.true_epsilon:.2f} | {bases} x {models:,} "
                f"| {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def need_table(rows: list[PowerRow]) -> str:
    """Models per hypothesis of one base that each method needs to refute half of the true epsilon."""
    single = [row for row in rows if row.bases == 1]
    most = max(row.models for row in single)
    lines = [
        f"| mechanism | true ε | false claim | {' | '.join(METHODS)} |",
        f"| --- | ---: | ---: |{' ---: |' * len(METHODS)}",
    ]
    for name in dict.fromkeys((row.mechanism, row.setting) for row in single):
        own = [row for row in single if (row.mechanism, row.setting) == name]
        cells = []
        for method in METHODS:
            enough = [r.models for r in own if r.method == method and 2 * r.refuted >= r.runs]
            cells.append(f"{min(enough):,}" if enough else f"over {most:,}")
        lines.append(
            f"| {mechanism(own[0])} | {own[0].true_epsilon:.2f} | {own[0].claim:.2f} "
            f"| {' | '.join(cells)} |"
        )
    return "\n".join(lines)


# --- verdicts ---------------------------------------------------------------------------------


def verdict_table(rows: list[VerdictRow], significance: float) -> str:
    """Rate of every outcome, one row per claim; settings with too many errors are marked."""
    lines = [
        "| mechanism | true ε | bases | claim | runs | FAIL (proven) | FAIL (judged) | PASS (judged) "
        "| INCONCLUSIVE |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        chance = row.chance(significance)
        mark = " **!!**" if chance <= CHANCE else " **!**" if chance <= SUSPECT else ""
        kinds = (row.fail_proven, row.fail_judged, row.pass_judged, row.inconclusive)
        shares = " | ".join(percent(number, row.runs) if number else "" for number in kinds)
        claim = f"{row.claim:.2f}" + (" (true)" if row.claim_holds else "")
        lines.append(
            f"| {mechanism(row)}{mark} | {row.true_epsilon:.2f} | {row.bases} | {claim} | {row.runs} "
            f"| {shares} |"
        )
    return "\n".join(lines)


def verdict_text(rows: list[VerdictRow], significance: float) -> str:
    """Whether the required error rates are met."""
    true = [row for row in rows if row.claim_holds]
    half = [row for row in rows if not row.claim_holds and row.power == 1]
    parts = []
    for own, what in (
        (true, "FAIL of a true claim"),
        (half, "PASS of half the true ε, best attacks"),
    ):
        worst = max(own, key=lambda row: (row.wrong or 0) / row.runs)
        wrong, runs = sum(row.wrong or 0 for row in own), sum(row.runs for row in own)
        where = f"{worst.data}, {mechanism(worst)}, {worst.bases} bases, claim {worst.claim:.2f}"
        chance = chance_of(worst.wrong or 0, worst.runs, significance)
        parts.append(
            f"**{what}**: {wrong} of {runs:,} audits ({percent(wrong, runs, 1)}); at most {worst.wrong} "
            f"of {worst.runs} in one setting ({where}; p-value {chance:.2g} for a rate of "
            f"{100 * significance:g} %)"
        )
    broken = [row for row in rows if row.chance(significance) <= SUSPECT]
    end = "Both rates are met in all settings."
    if broken:
        end = f"**Not met** in {len(broken)} settings."
    return paragraph(f"{'. '.join(parts)}. {end}")


def blocks() -> dict[str, str]:
    """Text and tables on proofs and verdicts, by mark."""
    true = read("proofs", "refutations.csv", RefutationRow)
    false = read("proofs", "power.csv", PowerRow)
    judged = read("verdicts", "verdicts.csv", VerdictRow)
    proven, verdicts = significance_of("proofs"), significance_of("verdicts")
    scores = [row for row in judged if row.data == "scores"]
    return {
        "proof-text": refuted_text(true, proven),
        "proof-refuted": refuted_table(true, proven),
        "proof-power": power_table(false),
        "proof-need": need_table(false),
        "verdict-text": verdict_text(judged, verdicts),
        "verdict-best": verdict_table([row for row in scores if row.power == 1], verdicts),
        "verdict-half": verdict_table([row for row in scores if row.power < 1], verdicts),
        "verdict-counts": verdict_table([row for row in judged if row.data == "counts"], verdicts),
    }
