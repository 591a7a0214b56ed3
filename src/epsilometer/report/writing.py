"""Write a result to files: the folder of a result, the HTML page, and figures for print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from epsilometer import _files
from epsilometer.inputs.recorded import (
    COUNT_POSTERIOR,
    LEAKS,
    OLD_COUNT_POSTERIOR,
    POSTERIOR,
    SUMMARY,
)
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.result import Result
from epsilometer.report.figures.chart import FORMATS, Chart, save_figure
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.text.over_delta import OverDelta, csv_over_delta, values_over_delta
from epsilometer.report.text.values import leaks_csv, verdict_values
from epsilometer.report.views import VIEWS, views_of

CURVE_FILES = ("curve.csv", "curve.json", "curve.png")
"""Epsilon over several deltas."""


def suffix_of(variant: str) -> str:
    """What tells the folder and the page of a variant apart."""
    return f"variant-{variant}"


def write_result(result: Result, folder: Path) -> None:
    """Write posterior, summary, figures and tables; several variants into a folder each."""
    if result.variants:
        for name, variant in result.variants.items():
            write_result(variant, folder / suffix_of(name))
        return
    views = views_of(result)
    folder.mkdir(parents=True, exist_ok=True)
    earlier = (folder / POSTERIOR).exists()
    result.posterior.save(folder / POSTERIOR)
    charts = views.folder_charts(result)
    if earlier:
        _remove_earlier(folder, charts)
    write_files(folder, figures={f"{chart.name}.png": chart for chart in charts})
    texts = {SUMMARY: json_text(views.data(result))}
    if isinstance(result, CurveResult):
        texts[LEAKS] = leaks_csv(result)
        if result.beside is not None:
            result.beside.posterior.save(folder / COUNT_POSTERIOR)
    write_files(folder, texts)
    if result.over_delta is not None:
        _write_over_delta(result, folder)
    for name, table in result.origin.tables.items():
        table.write(folder / name)


def _remove_earlier(folder: Path, charts: Sequence[Chart]) -> None:
    """Remove files of an earlier estimate, which would contradict this one."""
    names = {f"{name}.png" for views in VIEWS.values() for name in views.figures}
    names -= {f"{chart.name}.png" for chart in charts}
    for name in (*names, *CURVE_FILES, LEAKS, COUNT_POSTERIOR, OLD_COUNT_POSTERIOR):
        (folder / name).unlink(missing_ok=True)


def _write_over_delta(result: Result, folder: Path) -> None:
    over = OverDelta(curve=result.over_delta, level=result.level, verdict=result.verdict)
    values = values_over_delta(over)
    if result.verdict is not None:
        values["verdict"] = verdict_values(result.verdict)
    rows, data, image = CURVE_FILES
    texts = {rows: csv_over_delta(over), data: json_text(values)}
    write_files(folder, texts, {image: delta_curve_chart(over)})


def write_files(
    folder: Path, texts: Mapping[str, str] | None = None, figures: Mapping[str, Chart] | None = None
) -> None:
    """Write texts and figures into a folder, each file whole or not at all."""
    for name, text in (texts or {}).items():
        _files.write_text(folder / name, text)
    for name, chart in (figures or {}).items():
        _files.replace(folder / name, partial(save_figure, chart.draw()))


def json_text(values: dict[str, Any]) -> str:
    """Values as indented JSON."""
    return json.dumps(values, indent=2, allow_nan=False) + "\n"


def write_page(result: Result, path: Path, charts: Sequence[Chart] | None = None) -> None:
    """Write the page, of several variants one each; ``charts`` are its figures, if already made."""
    if result.variants:
        for name, variant in result.variants.items():
            write_page(variant, path.with_stem(f"{path.stem}-{suffix_of(name)}"))
        return
    views = views_of(result)
    _files.write_text(path, views.page(result, views.charts(result) if charts is None else charts))


def write_figures(charts: Sequence[Chart], folder: Path) -> None:
    """Write figures for print, as PNG, SVG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        figure = chart.draw()
        for form in FORMATS:
            path = folder / f"{chart.name}.{form}"
            _files.replace(path, partial(save_figure, figure, form=form))
