"""``epsilometer compare``: every estimator on the same counts or scores, with what each assumes."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer import _files, _validate
from epsilometer.cli import results
from epsilometer.cli.batches import STDIN
from epsilometer.cli.estimate import LIKELIHOODS, audit_model
from epsilometer.cli.options import AsJson
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.report.comparison import Comparison, Row

WIDTH = 80


def compare(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Counts, as `estimate` reads them, or scores: CSV with the columns score and "
            "member (0 or 1), higher for members; - reads standard input.",
        ),
    ],
    delta: Annotated[
        float | None,
        typer.Option(metavar="D", help="The delta of (epsilon, delta)-DP, in [0, 1). Required."),
    ] = None,
    significance: Annotated[
        float, typer.Option(metavar="A", help="Probability with which each end may err.")
    ] = 0.05,
    likelihood: Annotated[
        str, typer.Option(metavar="binomial|correlated", help="Of the posterior shown first.")
    ] = "binomial",
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a figure: .png, .svg or .pdf."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Compare every estimator of epsilon that applies to the same data."""
    if delta is None:
        raise InputError(
            "expected --delta D with 0 <= D < 1: a privacy parameter is never guessed."
        )
    delta = _validate.delta(delta)
    _validate.one_of("likelihood", likelihood, LIKELIHOODS)
    form = _form(figure)
    found = _compared(file, delta, significance, likelihood)
    if figure is not None:
        from epsilometer.report.figures.chart import save_figure
        from epsilometer.report.figures.comparison import draw_comparison

        drawn = draw_comparison(found)
        _files.replace(figure, lambda path: save_figure(drawn, path, form=form))
    if as_json:
        data = {
            "delta": found.delta,
            "significance": found.significance,
            "source": found.source,
            "rows": [row.described() for row in found.rows],
        }
        results.say(json.dumps(data, allow_nan=False) + "\n")
    else:
        results.say(_text(found))
    return 0


def _form(figure: Path | None) -> str:
    from epsilometer.report.figures.chart import FORMATS

    if figure is None:
        return ""
    form = figure.suffix.lower().lstrip(".")
    return _validate.one_of("the figure's ending", form, FORMATS)


def _compared(file: str, delta: float, significance: float, likelihood: str) -> Comparison:
    from epsilometer.baselines import scores_files
    from epsilometer.model import counts_files
    from epsilometer.model.counts import COLUMNS
    from epsilometer.report.comparison import compare_counts, compare_scores

    if file == STDIN:
        name = "standard input"
        text = _files.decode(sys.stdin.buffer.read(_files.LARGEST_FILE + 1), name=name)
    else:
        name, text = Path(file).name, _files.load(file)
    if scores_files.looks_like_scores(text):
        if likelihood != LIKELIHOODS[0]:
            raise InputError("--likelihood is for counts; scores have no posterior.")
        return compare_scores(
            scores_files.parse(text, name=name), delta=delta, significance=significance
        )
    if text.lstrip("\ufeff \t\r\n")[:1] not in ("[", "{") and "false_positives" not in text:
        raise InputError(
            f"{name}: expected counts (columns {', '.join(COLUMNS)}) or scores (columns score, member)."
        )
    counts = counts_files.parse(text, name=name)
    model = audit_model(delta, likelihood, None, None)
    model.check(counts)
    posterior = results.run_engine(counts, model, None)
    return compare_counts(
        counts,
        delta=delta,
        significance=significance,
        posteriors=[(f"Epsilometer, {likelihood}", posterior)],
    )


def _text(found: Comparison) -> str:
    from epsilometer.baselines.estimator import Kind
    from epsilometer.report.comparison import ABOUT_GAUSSIAN

    title = (
        f"epsilon at delta = {found.delta:g} from {found.source}. Bounds err with probability "
        f"{found.significance:g} at each end"
    )
    if any(row.kind == Kind.CREDIBLE for row in found.rows):
        title += f"; credible intervals hold {100 * (1 - 2 * found.significance):g}\u00a0%"
    title += "."
    lines = [*textwrap.wrap(title, WIDTH), ""]
    head = f"{'':34}{'at least':>9}{'at most':>9}"
    pooled = any(row.pooled is not None for row in found.rows)
    if pooled:
        head += f"{'pooled: least':>15}{'most':>8}"
    lines.append(head)
    groups = (
        ("", [row for row in found.rows if row.kind != Kind.POINT and row.about != ABOUT_GAUSSIAN]),
        ("if the algorithm were a Gaussian mechanism:", _about(found, ABOUT_GAUSSIAN)),
    )
    for heading, rows in groups:
        if heading and rows:
            lines += ["", heading]
        lines += [_line(row) for row in rows]
    points = [row for row in found.rows if row.kind == Kind.POINT]
    if points:
        lines += ["", "estimates, which bound nothing:"]
        lines += [f"{row.label:34}{_number(row.low):>9}" for row in points]
    lines += ["", *_remarks(found, pooled=pooled)]
    lines += ["", "What each is, what it is about, and what it assumes:"]
    alike: dict[str, list[str]] = {}
    for row in found.rows:
        text = f"{row.kind} of {row.about}; assumes {row.assumes}."
        if row.reason:
            text += f" Does not apply: {row.reason}"
        alike.setdefault(text, []).append(row.label)
    for text, labels in alike.items():
        lines += textwrap.wrap(
            f"{'; '.join(labels)}: {text}", WIDTH, initial_indent="  ", subsequent_indent="      "
        )
    return "\n".join(lines) + "\n"


def _about(found: Comparison, about: str) -> list[Row]:
    return [row for row in found.rows if row.about == about]


def _line(row: Row) -> str:
    if not row.applies:
        return f"{row.label:34}  does not apply"
    high = _number(row.high, none="no limit") if row.bounded_above else "-"
    line = f"{row.label:34}{_number(row.low):>9}{high:>9}"
    if row.pooled is not None:
        most = _number(row.pooled[1], none="none") if row.bounded_above else "-"
        line += f"{_number(row.pooled[0]):>15}{most:>8}"
    return line.rstrip()


def _remarks(found: Comparison, *, pooled: bool) -> list[str]:
    """How to read the numbers, and what these data are suspected of."""
    from epsilometer.baselines.estimator import Kind

    remarks = ["0.000 at least: nothing could be said. A bound is no estimate: most lie far below."]
    if found.several:
        remarks.append(
            "At least and at most are of the strongest attack: the largest over the bases, the choice "
            "paid for."
        )
    if pooled:
        remarks.append("Pooled: all counts added up, so about the average attack.")
    if any(row.kind == Kind.CREDIBLE for row in found.rows):
        remarks.append("Credible intervals never reach down to 0, whatever the data.")
    remarks += found.notes
    return [line for remark in remarks for line in textwrap.wrap(remark, WIDTH)]


def _number(value: float, *, none: str = "-") -> str:
    return none if not math.isfinite(value) else f"{value:.3f}"
