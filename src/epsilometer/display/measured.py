"""Views of measuring: losses that were measured, first models, what training claims, attacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epsilometer._table import Cell, Table
from epsilometer._text import counted
from epsilometer.attacks.losses import Losses
from epsilometer.display import data, data_figures
from epsilometer.display.view import View
from epsilometer.measurement.first_models import TrainingCheck, duration
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curves import curves_chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points, Sheet

if TYPE_CHECKING:
    from epsilometer.attacks.result import AttackResult, ErrorCurves
    from epsilometer.measurement.engine import Measurement
    from epsilometer.measurement.training_claims import LargestClaim

SHOWN_RATE = 0.1
"""Target false-positive rate of the counts in a table of an attack."""

MOST_VARIANTS = 4

DELTAS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Where the claim of a training is shown."""


# --- losses -----------------------------------------------------------------------------------


def _measurement_line(found: Measurement) -> str:
    models = found.trained + found.reused
    text = f"{counted(models, 'model')}, {found.trained:,} trained now"
    if len(found.losses) > 1:
        text += f"; {len(found.losses)} variants"
    if found.failures:
        text += f"; {len(found.failures):,} FAILED"
    return text if not found.warnings else f"{text}; {counted(len(found.warnings), 'warning')}"


def _measurement_table(found: Measurement) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, losses in found.losses.items():
        if isinstance(losses, Losses):
            finite = np.isfinite(losses.loss)
            sides = [losses.loss[finite & (losses.hypothesis == side)] for side in (0, 1)]
            bases = len(losses.names)
        else:
            point_losses = losses.loss[:, : losses.challenges, 0]
            member = losses.member[:, : losses.challenges]
            sides, bases = [point_losses[~member], point_losses[member]], losses.challenges
        means = [float(side.mean()) if len(side) else None for side in sides]
        rows.append((name or "losses", bases, *(len(side) for side in sides), *means))
    columns = ("", "bases", data.WITHOUT, data.WITH, f"mean {data.WITHOUT}", f"mean {data.WITH}")
    notes = list(found.warnings)
    if found.failures:
        notes.append(f"{counted(len(found.failures), 'model')} failed: {found.failures[0].message}")
    return Table(columns=columns, rows=rows, notes=notes)


def _measurement_sheet(found: Measurement) -> Sheet:
    plots = []
    for name, losses in list(found.losses.items())[:MOST_VARIANTS]:
        title = {"title": f"variant {name}"} if name else {}
        draw = (
            data_figures.losses_plot
            if isinstance(losses, Losses)
            else data_figures.pool_losses_plot
        )
        plots.append(draw(losses, **title))
    columns = min(2, len(plots))
    size = (4.6 * columns + 0.8, 3.2 * -(-len(plots) // columns) + 0.2)
    return Sheet("Losses of the challenge points", plots, size, columns=columns)


MEASUREMENT = View(
    line=_measurement_line, table=_measurement_table, figures={"histogram": _measurement_sheet}
)


# --- first models -----------------------------------------------------------------------------


def _check_line(found: TrainingCheck) -> str:
    text = f"{found.models_done:,} of {counted(found.models, 'model')} done"
    if found.models_done < found.models:
        text += f"; about {duration(found.seconds_left)} for the others"
    if found.failures:
        text += f"; {len(found.failures):,} FAILED"
    return text if not found.warnings else f"{text}; {counted(len(found.warnings), 'warning')}"


def _check_table(found: TrainingCheck) -> Table:
    rows: list[tuple[str, Cell]] = [
        ("models", found.models),
        ("done", found.models_done),
        ("trained just now", found.models_trained),
        ("workers", found.workers),
        ("seconds per model", found.seconds_per_model),
        ("seconds left, about", found.seconds_left),
    ]
    for name, sides in found.losses.items():
        for side, label in zip(sides, (data.WITHOUT, data.WITH), strict=True):
            listed = ", ".join(f"{loss:.4g}" for loss in side[:5])
            rows.append((f"losses {label}" + (f", {name}" if name else ""), listed))
    return Table(columns=("", "value"), rows=rows, notes=found.warnings)


def _check_sheet(found: TrainingCheck) -> Sheet:
    names = list(found.losses)[:MOST_VARIANTS]
    marks: list[Mark] = []
    for place, name in enumerate(names):
        for shift, side, colour, label in zip(
            (-0.12, 0.12),
            found.losses[name],
            ("grey", "orange"),
            (data.WITHOUT, data.WITH),
            strict=True,
        ):
            shown = None if place else label
            marks.append(Points(side, np.full(len(side), place + shift), colour, shown, size=7))
    up = Axis("", (len(names) - 0.4, -0.6), names=[name or "losses" for name in names])
    plot = Plot(Axis("loss of the challenge point"), up, marks)
    return Sheet("The first models", [plot], (5.6, 1.4 + 0.4 * len(names)), legend="below")


TRAINING_CHECK = View(line=_check_line, table=_check_table, figures={"losses": _check_sheet})


# --- what training claims ---------------------------------------------------------------------


def _claim_line(found: LargestClaim) -> str:
    text = f"by the accountant, over {counted(len(found.claims), 'trained model')}"
    return f"{text}; {counted(len(found.caveats), 'caveat')}" if found.caveats else text


def _claim_table(found: LargestClaim) -> Table:
    rows = [(f"{delta:g}", found.claimed_epsilon(delta)) for delta in DELTAS]
    return Table(columns=("delta", "claimed epsilon"), rows=rows, notes=found.caveats)


def _claim_sheet(found: LargestClaim) -> Sheet:
    claimed = np.array([found.claimed_epsilon(delta) for delta in DELTAS])
    known = np.isfinite(claimed)
    line = Line(np.array(DELTAS)[known], claimed[known], "orange", "claim", marker="circle")
    across = Axis("delta", (DELTAS[0], DELTAS[-1]), logarithmic=True, powers=True)
    plot = Plot(across, Axis("claimed epsilon", from_zero=True), [line], legend=False)
    return Sheet("What the accountant claims", [plot], (5.4, 3.2))


def _claim_facts(found: LargestClaim) -> Table:
    rows: list[tuple[str, Cell]] = [("models asked", len(found.claims))]
    later = "`summary()` and `plot()` ask the accountant, which may take seconds."
    return Table(columns=("", "value"), rows=rows, notes=[*found.caveats, later])


TRAINING_CLAIM = View(
    line=_claim_line,
    table=_claim_table,
    figures={"delta-curve": _claim_sheet},
    small_table=_claim_facts,
    drawn=False,
)


# --- attacks ----------------------------------------------------------------------------------


def _attack_line(found: AttackResult) -> str:
    bases = counted(len(found.names), "challenge base")
    text = f"{found.attack} on {bases}, statistic {found.statistic}"
    return text if not found.left_out else f"{text}; {len(found.left_out)} left out"


def _attack_table(found: AttackResult) -> Table:
    counts = found.counts(SHOWN_RATE)
    whole = data.COUNTS.table(counts)
    notes = [f"Counts at the target false-positive rate {SHOWN_RATE:g}."]
    return Table(columns=whole.columns, rows=whole.rows, notes=notes + found.warnings(SHOWN_RATE))


def _attack_chart(found: AttackResult) -> Chart:
    return curves_chart(found.sweep(), found.counts(SHOWN_RATE), target_alpha=SHOWN_RATE)


ATTACK = View(line=_attack_line, table=_attack_table, figures={"curves": _attack_chart})


def _counts_at(found: ErrorCurves, place: int) -> AttackCounts:
    return AttackCounts(
        false_positives=found.false_positives[place],
        trials_h0=found.trials_h0,
        false_negatives=found.false_negatives[place],
        trials_h1=found.trials_h1,
        names=found.names,
    )


def _nearest(found: ErrorCurves) -> int:
    return int(np.argmin(np.abs(found.target_alpha - SHOWN_RATE)))


def _curves_line(found: ErrorCurves) -> str:
    rates = counted(len(found.target_alpha), "target rate")
    return f"{counted(len(found.names), 'challenge base')} at {rates}"


def _curves_table(found: ErrorCurves) -> Table:
    positives = (found.false_positives / found.trials_h0).mean(axis=1)
    negatives = (found.false_negatives / found.trials_h1).mean(axis=1)
    columns = ("target false-positive rate", "mean FPR", "mean FNR")
    rates = (found.target_alpha, positives, negatives)
    return Table(
        columns=columns, rows=list(zip(*(column.tolist() for column in rates), strict=True))
    )


def _curves_sheet(found: ErrorCurves) -> Chart:
    return curves_chart(found, _counts_at(found, _nearest(found)), target_alpha=None)


ERROR_CURVES = View(line=_curves_line, table=_curves_table, figures={"curves": _curves_sheet})
