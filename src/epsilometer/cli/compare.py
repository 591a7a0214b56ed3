"""``epsilometer compare``: every estimator on the same data, with its assumptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import epsilometer as em
from epsilometer import _files
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument, option


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
    from epsilometer.inputs.source import LossOptions
    from epsilometer.report.figures.chart import save_figure
    from epsilometer.report.text.comparison import comparison_data, comparison_text

    outputs.check_file(figure, outputs.FIGURE_ENDINGS, option="--figure", force=force)
    reading = LossOptions(**vars(losses))
    source = results.source_of(file, reading)
    if delta is None and source.result is not None:
        delta = source.result.delta
    options.need_delta(delta)
    if reading.given:
        source = replace(source, result=None)  # its losses are read in another way
    with results.progress("compare") as (report, _):
        comparison = em.compare(source, delta=delta, significance=significance, on_message=report)
    if figure is not None:
        drawn = comparison.plot()
        form = figure.suffix.lower().lstrip(".")
        _files.replace(figure, lambda path: save_figure(drawn, path, form=form))
    return results.answer(
        as_json, lambda: comparison_data(comparison), lambda: comparison_text(comparison)
    )
