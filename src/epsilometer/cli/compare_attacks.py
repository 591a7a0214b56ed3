"""``epsilometer compare-attacks``: every attack on the same models, and the gap to a claim."""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from epsilometer import _files, _validate
from epsilometer._text import counted, shortened, table_lines, wrapped
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument, flag, option

if TYPE_CHECKING:
    from epsilometer.auditing.attack_comparison import Attacked
    from epsilometer.comparison.attacks import AttackComparison, AttackRow, Gap, Judge

NAME = 24
"""Columns for the name of an attack; the longest one fits."""


@options.flat
def compare_attacks(
    file: Path = argument(
        "FILE",
        "A store of `audit`, the TOML file of an audit (with the records, which the quantile attack "
        "needs), or losses: .npz, .parquet or .csv of a pool, .csv or .parquet of many models.",
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
    from epsilometer.report.figures.chart import save_figure

    outputs.check_file(figure, outputs.FIGURE_ENDINGS, option="--figure", force=force)
    _validate.open_unit_interval("level", level)
    _validate.open_unit_interval("error", error)
    if claim is not None:
        _validate.non_negative("claim", claim)
    with redirect_stdout(sys.stderr):  # output of the user's code is not part of the answer
        given = read_attacked(file, variant=variant)
    results.warn_of_failures(given.store or file)
    delta = given.delta if delta is None else delta
    options.need_delta(delta)
    assert delta is not None
    claim = given.claim if claim is None else claim
    with results.progress("comparing attacks", unit="") as (report, _):
        judge = Judge(
            delta=_validate.delta(delta),
            error=error,
            level=level,
            independent=not shared_models,
            report=report,
        )
        comparison = _compared(given, judge, claim)
    if figure is not None:
        from epsilometer.report.figures.attack_curves import draw_attack_curves

        drawn = draw_attack_curves(comparison)
        form = figure.suffix.lower().lstrip(".")
        _files.replace(figure, lambda path: save_figure(drawn, path, form=form))
    written = "" if figure is None else results.written_to([figure])
    return results.answer(as_json, comparison.described, lambda: text_of(comparison) + written)


def _compared(given: Attacked, judge: Judge, claim: float | None) -> AttackComparison:
    from epsilometer.attacks.pool_attacks import POOL_ATTACKS
    from epsilometer.comparison.attacks import (
        compare_model_attacks,
        compare_pool_attacks,
    )

    label = _files.printable(given.label)
    if not given.pool:
        return compare_model_attacks(
            given.model_attacks(), own=given.own, judge=judge, source=label, claim=claim
        )
    losses, design = given.losses, given.design
    teachers = design.first_models(losses)
    judged = losses.models - len(teachers)
    points = given.point_sets()
    count = len(next(iter(points.values())))
    return compare_pool_attacks(
        losses,
        POOL_ATTACKS,
        teachers=teachers,
        own=design.attack_method.name,
        points=points,
        judge=judge,
        source=(
            f"{label}: {losses.models:,} models, {counted(losses.challenges, 'point')}; "
            f"{judged:,} models judge {counted(count, 'point')}"
        ),
        claim=claim,
    )


def text_of(found: AttackComparison) -> str:
    """The comparison as text for a terminal."""
    from epsilometer.comparison.attacks import RATES

    title = (
        f"{_files.printable(found.source)}. Epsilon at delta = {found.delta:g}. Proven: lower bound "
        f"with error probability {found.error:g} for an attack chosen in advance, not for the best of "
        f"all rows. Shown: the point that leaks most, {100 * found.level:g}\u00a0% interval."
    )
    head = ("attack", "AUC", *(f"TPR at {100 * rate:g} %" for rate in RATES), "proven", "shown")
    lines = [*wrapped(title), "", *table_lines([head, *map(_cells, found.rows)], least=NAME)]
    if len(found.point_sets) > 1:
        rows = [(f"points ({found.point_sets[0].attack})", "proven", "shown")]
        rows += [(row.points, *_ends(row)) for row in found.point_sets]
        lines += ["", *table_lines(rows, least=NAME)]
    for name, reason in found.skipped:
        lines += ["", *wrapped(f"{name} was left out: {_files.printable(reason)}", rest="  ")]
    if found.gap is not None:
        lines += ["", *_gap(found.gap)]
    lines += ["", *wrapped(" ".join(found.notes))] if found.notes else []
    return "\n".join(lines) + "\n"


def _cells(row: AttackRow) -> tuple[str, ...]:
    """A row of the table."""
    from epsilometer.comparison.attacks import RATES

    rates = (_share(row.roc.at(rate)) for rate in RATES)
    return (shortened(row.attack, NAME), f"{row.roc.auc:.3f}", *rates, *_ends(row))


def _ends(row: AttackRow) -> tuple[str, str]:
    """Epsilon that is proven, and the interval of the epsilon that is shown."""
    from epsilometer.proofs.proof import rounded_down

    low, _, high = (f"{end:.2f}" if end < 100 else f"{end:.0f}" for end in row.shown)
    return rounded_down(row.proven), f"{low} to {high}"


def _share(value: float) -> str:
    return "too few" if math.isnan(value) else f"{100 * value:.2f} %"


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
