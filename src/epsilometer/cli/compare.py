"""``epsilometer compare``: every estimator on the same counts or scores, with what each assumes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.cli import options, results
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.report.text import wrapped

if TYPE_CHECKING:
    from epsilometer.report.comparison import Comparison, Row

LABEL = 34
"""Columns for the names of estimators, if none is longer."""

FOR_SCORES = ("epsilon_prior_scale",)
"""Options of the model that the whole curve has too."""


@options.flat
def compare(
    file: str = argument(
        "FILE",
        "Counts, as `estimate` reads them, or scores: CSV with the columns score and member (0 or "
        "1), higher for members; - reads standard input.",
    ),
    *,
    delta: float | None = options.DELTA,
    significance: float = options.SIGNIFICANCE,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
    figure: Path | None = option("FILE", "Write a figure: .png, .svg or .pdf."),
    as_json: bool = options.AS_JSON,
) -> int:
    """Compare every estimator of epsilon that applies to the same data.

    Likelihood, priors and groups are those of the posterior that is shown first. Scores have posteriors
    of the whole trade-off curve: with any strength of the attack, and with strength 1.
    """
    from epsilometer.report.figures.chart import FORMATS, save_figure

    options.need_delta(delta)
    delta = _validate.delta(delta)
    model = priors.model(delta, groups.made())
    form = "" if figure is None else figure.suffix.lower().lstrip(".")
    if figure is not None:
        _validate.one_of("the figure's ending", form, FORMATS)
    found = _compared(file, significance, model, options.given(priors, groups))
    if figure is not None:
        from epsilometer.report.figures.comparison import draw_comparison

        drawn = draw_comparison(found)
        _files.replace(figure, lambda path: save_figure(drawn, path, form=form))
    return results.answer(as_json, lambda: _described(found), lambda: _text(found))


def _described(found: Comparison) -> dict[str, Any]:
    return {
        "delta": found.delta,
        "significance": found.significance,
        "source": found.source,
        "rows": [row.described() for row in found.rows],
    }


def _compared(
    file: str, significance: float, model: em.AuditModel, options: dict[str, Any]
) -> Comparison:
    from epsilometer.baselines import scores_files
    from epsilometer.model.count_tables import COLUMNS

    name, text = results.text_of(file)
    if scores_files.looks_like_scores(text):
        for option in options:
            if option not in FOR_SCORES:
                raise InputError(
                    f"--{option.replace('_', '-')} is for counts; scores are compared with free "
                    "strength and with strength 1, and have no likelihood or groups to choose."
                )
        scores = scores_files.parse(text, name=name)
        return em.compare_scores(
            scores,
            delta=model.delta,
            significance=significance,
            posteriors=_whole_curves(scores, model),
        )
    if text.lstrip("\ufeff \t\r\n")[:1] not in ("[", "{") and "false_positives" not in text:
        raise InputError(
            f"{name}: expected counts (columns {', '.join(COLUMNS)}) or scores (columns score, member)."
        )
    counts = em.AttackCounts.parse(text, name=name)
    posterior = results.run_engine(counts, model, None)
    label = f"Epsilometer, {model.likelihood.name}"
    if model.strength.fixed_value is not None:
        label += f", strength {model.strength.fixed_value:g}"
    return em.compare_counts(
        counts, delta=model.delta, significance=significance, posteriors=[(label, posterior)]
    )


def _whole_curves(
    scores: em.CanaryScoreAuditor, model: em.AuditModel
) -> list[tuple[str, em.ProfilePosterior]]:
    """Posteriors of the whole curve: everything free, and the attack taken to be the best."""
    ranked = em.Scores.of_canaries(*scores.in_order)
    free = em.ProfileModel(delta=model.delta, epsilon=model.epsilon)
    label = "Epsilometer, whole curve"
    models = {label: free, f"{label}, strength 1": replace(free, strength=em.FixedStrength())}
    with results.progress(label) as (report, _):
        return [(name, em.estimate(ranked, each, report=report)) for name, each in models.items()]


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
    lines = [*wrapped(title), ""]
    width = max(LABEL, *(len(row.label) + 1 for row in found.rows))
    head = f"{'':{width}}{'at least':>9}{'at most':>9}"
    pooled = any(row.pooled is not None for row in found.rows)
    if pooled:
        head += f"{'pooled: least':>15}{'most':>8}"
    lines.append(head)
    bounds = [row for row in found.rows if row.kind != Kind.POINT and row.about != ABOUT_GAUSSIAN]
    lines += [_line(row, width) for row in bounds]
    gaussian = [row for row in found.rows if row.about == ABOUT_GAUSSIAN]
    if gaussian:
        lines += ["", "if the algorithm were a Gaussian mechanism:"]
        lines += [_line(row, width) for row in gaussian]
    points = [row for row in found.rows if row.kind == Kind.POINT]
    if points:
        lines += ["", "estimates, which bound nothing:"]
        lines += [f"{row.label:{width}}{_number(row.low):>9}" for row in points]
    lines += ["", *_remarks(found, pooled=pooled)]
    lines += ["", "What each is, what it is about, and what it assumes:"]
    alike: dict[str, list[str]] = {}
    for row in found.rows:
        text = f"{row.kind} of {row.about}; assumes {row.assumes}."
        if row.reason:
            text += f" Does not apply: {row.reason}"
        alike.setdefault(text, []).append(row.label)
    for text, labels in alike.items():
        lines += wrapped(f"{'; '.join(labels)}: {text}", first="  ", rest="      ")
    return "\n".join(lines) + "\n"


def _line(row: Row, width: int) -> str:
    if not row.applies:
        return f"{row.label:{width}}  does not apply"
    high = _number(row.high, none="no limit") if row.bounded_above else "-"
    line = f"{row.label:{width}}{_number(row.low):>9}{high:>9}"
    if row.pooled is not None:
        most = _number(row.pooled[1], none="none") if row.bounded_above else "-"
        line += f"{_number(row.pooled[0]):>15}{most:>8}"
    return line.rstrip()


def _remarks(found: Comparison, *, pooled: bool) -> list[str]:
    """How to read the numbers, and what these data are suspected of."""
    remarks = ["0.000 at least: nothing could be said. A bound is no estimate: most lie far below."]
    if found.several:
        remarks.append(
            "At least and at most are of the strongest attack: the largest over the bases, the choice "
            "paid for."
        )
    if pooled:
        remarks.append("Pooled: all counts added up, so about the average attack.")
    remarks += found.notes
    return [line for remark in remarks for line in wrapped(remark)]


def _number(value: float, *, none: str = "-") -> str:
    return none if not math.isfinite(value) else f"{value:.3f}"
