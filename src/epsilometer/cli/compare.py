"""``epsilometer compare``: every estimator on the same data, with its assumptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import COUNT, CURVE

FOR_SCORES = ("epsilon_prior_scale",)
"""Options that the curve model has too."""


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
    the curve model: with a free attack strength, and with strength 1.
    """
    from epsilometer.report.figures.chart import save_figure
    from epsilometer.report.text.comparison import comparison_data, comparison_text

    outputs.check_file(figure, outputs.FIGURE_ENDINGS, option="--figure", force=force)
    made = _read(file, delta, losses, priors, groups)
    with results.progress("compare") as (report, _):
        comparison = em.compare(
            made.data, model=made.model, significance=significance, on_message=report
        )
    if figure is not None:
        from epsilometer.report.figures.comparison import draw_comparison

        drawn = draw_comparison(comparison)
        form = figure.suffix.lower().lstrip(".")
        _files.replace(figure, lambda path: save_figure(drawn, path, form=form))
    return results.answer(
        as_json, lambda: comparison_data(comparison), lambda: comparison_text(comparison)
    )


class _Data(NamedTuple):
    """The data, or the result if its posterior is kept; and the model."""

    data: Any
    model: Any


def _read(
    file: str,
    delta: float | None,
    losses: options.ScoreOptions,
    priors: options.PriorOptions,
    groups: options.GroupOptions,
) -> _Data:
    """The data of the file, with the model of the result or of the options."""
    from epsilometer.inputs.source import LossOptions
    from epsilometer.model.from_words import curve_model_of, with_changes

    if delta is not None:
        delta = _validate.delta(delta)
    source = results.source_of(file, LossOptions(**vars(losses)))
    chosen = options.given(priors, groups)
    recorded = source.recorded
    if recorded is None:
        options.need_delta(delta)
    elif (recorded.kind == CURVE) != (source.scores is not None):
        recorded = None  # its losses are read in another way than the result was estimated
    at = source.recorded.delta if delta is None and source.recorded is not None else delta
    assert at is not None  # given, or that of the result
    if source.scores is None:
        model: Any = priors.model(at, groups.made(), source.data(COUNT))
    else:
        for name in chosen:
            if name not in FOR_SCORES:
                raise InputError(
                    f"--{name.replace('_', '-')} is for counts; scores are compared with a "
                    "free strength and with strength 1, without a likelihood or groups."
                )
        model = curve_model_of(at, epsilon_prior_scale=priors.epsilon_prior_scale)
    if recorded is not None:
        model = with_changes(
            recorded.posterior.model, model, [*chosen, *([] if delta is None else ["delta"])]
        )
        same = losses == options.ScoreOptions(statistic=None, variant=None)
        if same and model == recorded.posterior.model:
            return _Data(source, model)
    return _Data(replace(source, recorded=None), model)
