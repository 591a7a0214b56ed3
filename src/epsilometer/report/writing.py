"""Write a result to files: the folder of a result, the HTML page, and figures for print.

Variants of one audit are written into a folder, or a page, each.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from epsilometer import _files
from epsilometer.inputs import recorded
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.result import Result
from epsilometer.report.figures.chart import FORMATS, Chart, save_figure
from epsilometer.report.figures.charts import CHARTS, charts_of
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.page.sections import render
from epsilometer.report.text.over_delta import csv_over_delta, over_delta_of, values_over_delta
from epsilometer.report.text.values import leaks_csv, result_values, verdict_values

#: Epsilon over several deltas.
CURVE_FILES = ("curve.csv", "curve.json", "curve.png")


def write_result(result: Result, folder: Path) -> None:
    """Write posterior, summary, figures and tables."""
    for path, each in _each(result, folder):
        path.mkdir(parents=True, exist_ok=True)
        _write_folder(each, path)


def _write_folder(result: Result, folder: Path) -> None:
    earlier = (folder / recorded.POSTERIOR).exists()
    result.posterior.save(folder / recorded.POSTERIOR)
    charts = charts_of(result, folder=True)
    if earlier:
        _remove_earlier(folder, charts)
    for chart in charts:
        _save(chart, folder / f"{chart.name}.png")
    _files.write_text(folder / recorded.SUMMARY, json_text(result_values(result)))
    if isinstance(result, CurveResult):
        _files.write_text(folder / recorded.LEAKS, leaks_csv(result))
        if result.beside is not None:
            result.beside.posterior.save(folder / recorded.COUNT_POSTERIOR)
    over = over_delta_of(result, asked=True)
    if over is not None:
        values = values_over_delta(over)
        if result.verdict is not None:
            values["verdict"] = verdict_values(result.verdict)
        rows, data, image = (folder / name for name in CURVE_FILES)
        _files.write_text(rows, csv_over_delta(over))
        _files.write_text(data, json_text(values))
        _save(delta_curve_chart(over), image)
    for name, table in result.origin.tables.items():
        table.write(folder / name)


def _remove_earlier(folder: Path, charts: Sequence[Chart]) -> None:
    """Remove files of an earlier estimate, which would contradict this one."""
    names = {f"{name}.png" for known in CHARTS.values() for name in known}
    names -= {f"{chart.name}.png" for chart in charts}
    older = recorded.LEAKS, recorded.COUNT_POSTERIOR, recorded.OLD_COUNT_POSTERIOR
    for name in (*names, *CURVE_FILES, *older):
        (folder / name).unlink(missing_ok=True)


def write_page(result: Result, path: Path) -> None:
    """Write the page."""
    for page, (_, each) in zip(page_paths(result, path), _each(result, path), strict=True):
        _files.write_text(page, render(each, charts_of(each)))


def page_paths(result: Result, path: Path) -> list[Path]:
    """Where the page of each variant is."""
    return [path.with_stem(f"{path.stem}-variant-{name}") for name in result.variants] or [path]


def write_figures(result: Result, folder: Path) -> list[Path]:
    """Write figures for print, as PNG, SVG and PDF; returns their folders."""
    folders = []
    for path, each in _each(result, folder):
        path.mkdir(parents=True, exist_ok=True)
        folders.append(path)
        for chart in charts_of(each):
            for form in FORMATS:
                _save(chart, path / f"{chart.name}.{form}", form)
    return folders


def _each(result: Result, folder: Path) -> list[tuple[Path, Result]]:
    """The result, or each of its variants, and where in a folder it is."""
    variants = result.variants.items()
    placed = [(folder / f"variant-{name}", variant) for name, variant in variants]
    return placed or [(folder, result)]


def _save(chart: Chart, path: Path, form: str = "png") -> None:
    _files.replace(path, partial(save_figure, chart.draw(), form=form))


def json_text(values: dict[str, Any]) -> str:
    """Values as indented JSON."""
    return json.dumps(values, indent=2, allow_nan=False) + "\n"
