"""``epsilometer compare``: every estimator on the same data, with its assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer._text import table_lines, wrapped
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import PUBLISHED_MODEL, WHOLE_CURVE

if TYPE_CHECKING:
    from epsilometer.inputs.sources import Source
    from epsilometer.report.text.comparison import Comparison, Row

LABEL = 32
"""Columns for the names of estimators, if none is longer and the terminal is wide enough."""

NOT_APPLICABLE = "n/a"
"""Shown for an estimator that does not apply; its reason follows below the table."""

FOR_SCORES = ("epsilon_prior_scale",)
"""Options that the whole-curve model has too."""


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
    priors: options.PriorOptions,
    groups: options.GroupOptions,
    figure: Path | None = option("FILE", "Write a figure: .png, .svg or .pdf."),
    force: bool = outputs.FORCE,
    as_json: bool = options.AS_JSON,
) -> int:
    """Compare every estimator of epsilon on the same data.

    Likelihood, priors and groups are those of the posterior in the first row. Scores have posteriors of
    the whole trade-off curve: with a free attack strength, and with strength 1.
    """
    from epsilometer.report.figures.chart import save_figure

    outputs.check_file(figure, outputs.FIGURE_ENDINGS, option="--figure", force=force)
    made = _read(file, delta, losses, priors, groups)
    found = (_compared_counts if made.source.scores is None else _compared_scores)(
        made, significance
    )
    if figure is not None:
        from epsilometer.report.figures.comparison import draw_comparison

        drawn = draw_comparison(found)
        form = figure.suffix.lower().lstrip(".")
        _files.replace(figure, lambda path: save_figure(drawn, path, form=form))
    return results.answer(as_json, lambda: _described(found), lambda: _text(found))


def _described(found: Comparison) -> dict[str, Any]:
    return {
        "delta": found.delta,
        "significance": found.significance,
        "source": found.source,
        "rows": [row.described() for row in found.rows],
    }


@dataclass(frozen=True, kw_only=True)
class _Data:
    """The data, the model, and the posterior if a result has it already."""

    source: Source
    model: Any
    posterior: Any = None


def _read(
    file: str,
    delta: float | None,
    losses: options.ScoreOptions,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
) -> _Data:
    """The data of the file, with the model of the result or of the options."""
    from epsilometer.inputs.sources import LossOptions
    from epsilometer.model.from_words import profile_of, with_changes

    if delta is not None:
        delta = _validate.delta(delta)
    source = results.source_of(file, LossOptions(**vars(losses)))
    chosen = options.given(priors, groups)
    own = source.recorded
    if own is None:
        options.need_delta(delta)
    elif (own.kind == WHOLE_CURVE) != (source.scores is not None):
        own = None  # its losses are read in another way than the result was estimated
    at = source.recorded.delta if delta is None and source.recorded is not None else delta
    assert at is not None  # given, or that of the result
    if source.scores is None:
        model: Any = priors.model(at, groups.made(), source.data(PUBLISHED_MODEL))
    else:
        for name in chosen:
            if name not in FOR_SCORES:
                raise InputError(
                    f"--{name.replace('_', '-')} is for counts; scores are compared with a "
                    "free strength and with strength 1, without a likelihood or groups."
                )
        model = profile_of(at, epsilon_prior_scale=priors.epsilon_prior_scale)
    if own is None:
        return _Data(source=source, model=model)
    model = with_changes(
        own.posterior.model, model, [*chosen, *([] if delta is None else ["delta"])]
    )
    same = losses == options.ScoreOptions(statistic=None, variant=None)
    kept = own.posterior if same and model == own.posterior.model else None
    return _Data(source=source, model=model, posterior=kept)


def _compared_counts(given: _Data, significance: float) -> Comparison:
    counts, model = given.source.data(PUBLISHED_MODEL), given.model
    posterior = given.posterior
    if posterior is None:
        posterior = results.run_engine(counts, model, None)
    label = f"Epsilometer, {model.likelihood.name}"
    if model.strength.fixed_value is not None:
        label += f", strength {model.strength.fixed_value:g}"
    return em.compare(
        counts, delta=model.delta, significance=significance, posteriors=[(label, posterior)]
    )


def _compared_scores(given: _Data, significance: float) -> Comparison:
    """Posteriors of the whole curve: with the model as given, and with attacks of strength 1."""
    scores, model = given.source.data(WHOLE_CURVE), given.model
    label, held = "Epsilometer, whole curve", model.strength.fixed_value
    first = label if held is None else f"{label}, strength {held:g}"
    models = {
        first: model,
        f"{label}, strength 1": replace(model, strength=em.families.FixedStrength()),
    }
    found = {} if given.posterior is None else {first: given.posterior}
    with results.progress(label) as (report, _):
        for name, each in models.items():
            if name not in found:
                found[name] = em.estimate(scores, each, on_message=report)
    return em.compare(
        scores,
        delta=model.delta,
        significance=significance,
        posteriors=list(found.items()),
        one_run=given.source.one_run,
    )


def _text(found: Comparison) -> str:
    from epsilometer.baselines.estimator import Kind
    from epsilometer.report.text.comparison import ABOUT_GAUSSIAN

    title = (
        f"epsilon at delta = {found.delta:g} from {found.source}. Bounds err with probability "
        f"{found.significance:g} at each end"
    )
    if any(row.kind == Kind.CREDIBLE for row in found.rows):
        title += f"; credible intervals hold {100 * (1 - 2 * found.significance):g}\u00a0%"
    title += "."
    lines = [*wrapped(title), ""]
    pooled = any(row.pooled is not None for row in found.rows)
    head = ("", "at least", "at most", *(("pooled: least", "most") if pooled else ()))
    bounds = [row for row in found.rows if row.kind != Kind.POINT and row.about != ABOUT_GAUSSIAN]
    least = max(LABEL, *(len(row.label) for row in found.rows))
    lines += table_lines([head, *(_cells(row, pooled) for row in bounds)], least=least)
    gaussian = [row for row in found.rows if row.about == ABOUT_GAUSSIAN]
    if gaussian:
        lines += ["", "assuming a Gaussian mechanism:"]
        lines += table_lines([head, *(_cells(row, pooled) for row in gaussian)], least=least)[1:]
    points = [row for row in found.rows if row.kind == Kind.POINT]
    if points:
        lines += ["", "point estimates, not bounds:"]
        rows = [(row.label, _number(row.low), *head[2:]) for row in points]
        blank = [(*row[:2], *("" for _ in row[2:])) for row in rows]
        lines += table_lines([head, *blank], least=least)[1:]
    lines += ["", *_remarks(found, pooled=pooled)]
    lines += ["", "Kind, quantity and assumptions of each estimator:"]
    alike: dict[str, list[str]] = {}
    for row in found.rows:
        text = f"{row.kind} of {row.about}; assumes {row.assumes}."
        if row.reason:
            text += f" Does not apply: {row.reason}"
        alike.setdefault(text, []).append(row.label)
    for text, labels in alike.items():
        lines += wrapped(f"{'; '.join(labels)}: {text}", first="  ", rest="      ")
    return "\n".join(lines) + "\n"


def _cells(row: Row, pooled: bool) -> tuple[str, ...]:
    """A row of the table."""
    rest = ("", "") if pooled else ()
    if not row.applies:
        return (row.label, NOT_APPLICABLE, "", *rest)
    high = _number(row.high, none="no limit") if row.bounded_above else "-"
    if row.pooled is not None:
        most = _number(row.pooled[1], none="none") if row.bounded_above else "-"
        rest = (_number(row.pooled[0]), most)
    return (row.label, _number(row.low), high, *rest)


def _remarks(found: Comparison, *, pooled: bool) -> list[str]:
    """Notes on the numbers and the data."""
    remarks = ["At least 0.000: no bound. A bound is not an estimate: most are far below epsilon."]
    if found.several:
        remarks.append(
            "At least and at most refer to the strongest attack: the largest over the bases, with a "
            "correction for the choice."
        )
    if pooled:
        remarks.append("Pooled: the counts of all bases added, so for the average attack.")
    remarks += found.notes
    return [line for remark in remarks for line in wrapped(remark)]


def _number(value: float, *, none: str = "-") -> str:
    return none if not math.isfinite(value) else f"{value:.3f}"
