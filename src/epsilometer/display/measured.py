"""Views of measuring: how large an audit should be, first models, measured losses, attacks."""

from collections.abc import Sequence

import numpy as np

from epsilometer._table import Cell, Table, facts
from epsilometer._text import counted
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.result import AttackResult, ErrorCurves
from epsilometer.display import data
from epsilometer.display.view import View
from epsilometer.measurement.engine import Measurement, TrainingCheck
from epsilometer.measurement.first_models import duration
from epsilometer.planning import wording
from epsilometer.planning.plan import AuditPlan
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.curves import curves_chart
from epsilometer.report.figures.marks import Sheet
from epsilometer.report.figures.plan import plan_sheet
from epsilometer.report.text.rows import counts_table

#: Target false-positive rate of the counts in a table of an attack.
SHOWN_RATE = 0.1

MOST_VARIANTS = 4


# --- losses -----------------------------------------------------------------------------------


def _with_doubts(text: str, failures: Sequence[object], warnings: Sequence[str]) -> str:
    parts = [text, *([f"{len(failures):,} FAILED"] if failures else [])]
    return "; ".join([*parts, *([counted(len(warnings), "warning")] if warnings else [])])


def _measurement_line(found: Measurement) -> str:
    text = f"{counted(found.trained + found.reused, 'model')}, {found.trained:,} trained now"
    if len(found.losses) > 1:
        text += f"; {len(found.losses)} variants"
    return _with_doubts(text, found.failures, found.warnings)


def _measurement_table(found: Measurement) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, losses in found.losses.items():
        sides = data.sides_of(losses)
        bases = len(losses.names) if isinstance(losses, Losses) else losses.challenges
        sizes = [int(np.isfinite(side).sum()) for side in sides]
        rows.append((name or "losses", bases, *sizes, *data.means_of(sides)))
    sides_names = data.WITHOUT, data.WITH
    notes = list(found.warnings)
    if found.failures:
        notes.append(f"{counted(len(found.failures), 'model')} failed: {found.failures[0].message}")
    columns = ("", "bases", *sides_names, *(f"mean {name}" for name in sides_names))
    return Table(columns=columns, rows=rows, notes=notes)


def _measurement_sheet(found: Measurement) -> Sheet:
    plots = [
        data.losses_plot(losses, **({"title": f"variant {name}"} if name else {}))
        for name, losses in list(found.losses.items())[:MOST_VARIANTS]
    ]
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
    return _with_doubts(text, found.failures, found.warnings)


def _check_table(found: TrainingCheck) -> Table:
    left = f"about {duration(found.seconds_left)}" if found.models_done < found.models else "none"
    rows: list[tuple[str, Cell]] = [
        ("models", found.models),
        ("done", found.models_done),
        ("trained just now", found.models_trained),
        ("workers", found.workers),
        ("seconds per model", found.seconds_per_model),
        ("time for the others", left),
    ]
    for name, sides in found.losses.items():
        for side, label in zip(sides, (data.WITHOUT, data.WITH), strict=True):
            listed = ", ".join(f"{loss:.4g}" for loss in side[:5])
            rows.append((f"losses {label}" + (f", {name}" if name else ""), listed))
    return facts(rows, found.warnings)


TRAINING_CHECK = View(line=_check_line, table=_check_table)


# --- attacks ----------------------------------------------------------------------------------


def _attack_line(found: AttackResult) -> str:
    bases = counted(len(found.names), "challenge base")
    text = f"{found.attack} on {bases}, statistic {found.statistic}"
    return text if not found.left_out else f"{text}; {len(found.left_out)} left out"


def _attack_table(found: AttackResult) -> Table:
    note = f"Counts at the target false-positive rate {SHOWN_RATE:g}."
    return counts_table(found.counts(SHOWN_RATE), [note, *found.warnings(SHOWN_RATE)])


def _attack_chart(found: AttackResult) -> Chart:
    return curves_chart(found.sweep(), found.counts(SHOWN_RATE), target_alpha=SHOWN_RATE)


ATTACK = View(line=_attack_line, table=_attack_table, figures={"curves": _attack_chart})


def _curves_line(found: ErrorCurves) -> str:
    rates = counted(len(found.target_alpha), "target rate")
    return f"{counted(len(found.names), 'challenge base')} at {rates}"


def _curves_table(found: ErrorCurves) -> Table:
    columns = {
        "target false-positive rate": found.target_alpha,
        "mean FPR": (found.false_positives / found.trials_h0).mean(axis=1),
        "mean FNR": (found.false_negatives / found.trials_h1).mean(axis=1),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return Table(columns=tuple(columns), rows=list(rows))


ERROR_CURVES = View(line=_curves_line, table=_curves_table)


# --- how large it should be, by simulation ----------------------------------------------------------


def _planned_line(plan: AuditPlan) -> str:
    best = plan.recommended
    if best is not None:
        least = "" if plan.complete else "at most "
        return f"{least}{best.words}; reach the goals in {wording.reached_words(best)} simulations"
    if plan.nothing_needed:
        return "nothing needed"
    sizes = "within the limits" if plan.complete else "found"
    return plan.impossible or f"no size {sizes} is enough"


def _planned_table(plan: AuditPlan) -> Table:
    known = ("probability", "standard_error", "width", "proven", "models", "hours")
    sizes = list(plan.designs[0].sizes) if plan.designs else []
    names = [name for name in known if name not in sizes]
    rows: list[tuple[Cell, ...]] = []
    for design in plan.designs:
        numbers = (getattr(design, name) for name in names)
        rows.append(("*" if design is plan.recommended else "", *design.sizes.values(), *numbers))
    columns = ["", *sizes, *(name.replace("_", " ") for name in names)]
    notes = [wording.recommendation(plan), *wording.help_sentences(plan)]
    return Table(columns=columns, rows=rows, notes=notes)


PLANNED = View(line=_planned_line, table=_planned_table, figures={"plan": plan_sheet})
