"""``epsilometer compare`` and ``compare-attacks``: all estimators, or all attacks, on the same data."""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer._text import shortened, table_lines, wrapped
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument, flag, option
from epsilometer.inputs.source import LossOptions

if TYPE_CHECKING:
    from epsilometer.comparison.attacks import AttackComparison, AttackRow, Gap

#: Columns for the name of an attack; the longest one fits.
NAME = 24


@options.flat
def compare(
    file: str = argument(
        "FILE",
        "Counts, scores, canaries (score, member), losses, a store, a posterior.nc or a result folder, "
        "as `estimate` reads them; - reads standard input. A result has defaults for delta and "
        "assumptions.",
    ),
    *,
    delta: float | None = options.DELTA,
    significance: float = options.SIGNIFICANCE,
    losses: options.ScoreOptions,
    figure: Path | None = option("FILE", "Write a figure: .png, .svg or .pdf."),
    force: bool = outputs.FORCE,
    as_json: bool = options.AS_JSON,
) -> int:
    """Compare every estimator of epsilon on the same data.

    The posterior in the first row is that of the result, or has the default assumptions; for others,
    compare the result of `estimate`. Scores also have one with attacks of strength 1.
    """
    from epsilometer.report.text.rows import comparison_data, comparison_text

    outputs.check_file(figure, outputs.FIGURE_ENDINGS, option="--figure", force=force)
    reading = LossOptions(**vars(losses))
    source = results.source_of(file, reading)
    delta = options.need_delta(delta, source.result)
    if reading.given:
        source = replace(source, result=None)  # its losses are read in another way
    with results.progress("compare") as (report, _):
        comparison = em.compare(source, delta=delta, significance=significance, on_message=report)
    if figure is not None:
        outputs.write_figure(comparison.plot(), figure)
    return results.answer(
        as_json, lambda: comparison_data(comparison), lambda: comparison_text(comparison)
    )


@options.flat
def compare_attacks(
    file: Path = argument(
        "FILE",
        "A store of `audit`, the TOML file of an audit (with the labels of its records), "
        "or losses: .npz, .parquet or .csv of a pool, .csv or .parquet of many models.",
    ),
    *,
    delta: float | None = options.DELTA,
    claim: float | None = option("E", "Claimed epsilon: explains its gap to the proven one."),
    error: float = option("P", "Error probability of proofs.", default=0.05),
    level: float = option("P", "Probability of the credible intervals.", default=0.9),
    shared_models: bool = flag("Bases share models: proofs average over bases.", "--shared-models"),
    variant: str | None = options.STORE_VARIANT,
    figure: Path | None = option("FILE", "Draw the ROC curves as .png, .svg or .pdf."),
    force: bool = outputs.FORCE,
    as_json: bool = options.AS_JSON,
) -> int:
    """Compare attacks on the same models.

    The table has the AUC, true-positive rates at small false-positive rates, the proven epsilon and the
    epsilon of the point that leaks most.
    """
    from epsilometer.auditing.attack_comparison import read_attacked
    from epsilometer.comparison.attacks import Judge
    from epsilometer.model.counts import failure_flaws
    from epsilometer.report.figures.comparison import draw_attack_curves

    outputs.check_file(figure, outputs.FIGURE_ENDINGS, option="--figure", force=force)
    _validate.open_unit_interval("level", level)
    _validate.open_unit_interval("error", error)
    if claim is not None:
        _validate.non_negative("claim", claim)
    with redirect_stdout(sys.stderr):  # output of the user's code is not part of the answer
        given = read_attacked(file, variant=variant)
    results.warn_all(failure_flaws(given.failed))
    delta = options.need_delta(given.delta if delta is None else delta)
    with results.progress("comparing attacks", unit="") as (report, _):
        judge = Judge(
            delta=_validate.delta(delta),
            error=error,
            level=level,
            independent=not shared_models,
            report=report,
        )
        comparison = given.compared(judge, claim)
    if figure is not None:
        outputs.write_figure(draw_attack_curves(comparison), figure)
    written = "" if figure is None else results.written_to([figure])
    return results.answer(as_json, comparison.described, lambda: text_of(comparison) + written)


def text_of(found: AttackComparison) -> str:
    """The comparison as text for a terminal."""
    from epsilometer.comparison.attacks import RATES

    judge = found.judge
    title = (
        f"{_files.printable(judge.source)}. Epsilon at delta = {judge.delta:g}. Proven: lower bound "
        f"with error probability {judge.error:g} for an attack chosen in advance, not for the best of "
        f"all rows. Shown: the point that leaks most, {100 * judge.level:g}\u00a0% interval."
    )
    rows = [("attack", "AUC", *(f"TPR at {100 * rate:g} %" for rate in RATES), "proven", "shown")]
    for row in found.rows:
        rates = (row.roc.at(rate) for rate in RATES)
        shares = ("too few" if math.isnan(rate) else f"{100 * rate:.2f} %" for rate in rates)
        rows.append((shortened(row.attack, NAME), f"{row.roc.auc:.3f}", *shares, *_ends(row)))
    lines = [*wrapped(title), "", *table_lines(rows, least=NAME)]
    if len(found.point_sets) > 1:
        head = (f"points ({found.point_sets[0].attack})", "proven", "shown")
        sets = [(row.points, *_ends(row)) for row in found.point_sets]
        lines += ["", *table_lines([head, *sets], least=NAME)]
    for name, reason in found.skipped:
        lines += ["", *wrapped(f"{name} was left out: {_files.printable(reason)}", rest="  ")]
    if found.gap is not None:
        lines += ["", *_gap(found.gap)]
    lines += ["", *wrapped(" ".join(found.notes))] if found.notes else []
    return "\n".join(lines) + "\n"


def _ends(row: AttackRow) -> tuple[str, str]:
    """Epsilon that is proven, and the interval of the epsilon that is shown."""
    from epsilometer.proofs.proof import rounded_down

    low, _, high = (f"{end:.2f}" if end < 100 else f"{end:.0f}" for end in row.shown)
    return rounded_down(row.proven), f"{low} to {high}"


def _gap(gap: Gap) -> list[str]:
    """The steps from the proven epsilon to the claim."""
    from epsilometer.proofs.proof import rounded_down

    proven = rounded_down(gap.proven)
    if gap.proven > gap.claim:
        return wrapped(f"The claim of {gap.claim:g} is refuted: {proven} is proven.")
    steps = (
        ("proven by the audit's attack on its points", proven),
        ("shown but not proven: more models would prove more", f"{gap.estimator:.2f}"),
        ("the best of the attacks above", f"{gap.attack:.2f}"),
        ("points that leak more", f"{gap.points:.2f}"),
        ("not reached by any attack here", f"{gap.unexplained:.2f}"),
    )
    lines = [f"from 0 to the claim of {gap.claim:g}:"]
    return lines + table_lines([(f"  {words}", value) for words, value in steps], least=54)
