"""The figure and the table of a curve over delta show the curve's own numbers."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from epsilometer.judgement.claimed_curve import JudgedCurve

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.text.delta_table import curve_csv, curve_data, curve_notes, curve_rows
from epsilometer.report.writing import write_report
from tests.report.posteriors import TWO, counts, exact, gather

FIVE_DIGITS = 5.1e-5
"""The page's numbers are rounded to five significant digits."""

MODEL = em.CountModel(delta=0.01)


@pytest.fixture(scope="module")
def curve() -> em.engines.DeltaCurve:
    return em.engines.estimate_curve(TWO, MODEL, [0.0, 1e-6, 1e-3, 0.1])


@pytest.fixture(scope="module")
def table(curve: em.engines.DeltaCurve) -> JudgedCurve:
    claim = em.judgement.ClaimedCurve(deltas=[1e-6, 1e-2], epsilons=[2.0, 0.1])
    return JudgedCurve.of(curve, level=0.8, claim=claim)


def test_figure_shows_the_curve(table: JudgedCurve) -> None:
    chart = delta_curve_chart(table)
    low, high = table.curve.credible_interval(0.8)
    assert "delta = 0" in chart.caption
    figure = chart.draw()
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    drawn = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.lines}
    np.testing.assert_allclose(drawn["median"], table.curve.median, rtol=1e-12)
    # Delta 0 has no place on a logarithmic axis.
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1e-7, 1e-6, 1e-3, 0.1]
    np.testing.assert_array_equal(drawn["claim"], [np.nan, 2.0, 2.0, 0.1])
    (band,) = axes.collections
    corners = np.asarray(band.get_paths()[0].vertices, dtype=float)
    assert {float(f"{y:.9g}") for y in low} <= {float(f"{y:.9g}") for y in corners[:, 1]}
    assert {float(f"{y:.9g}") for y in high} <= {float(f"{y:.9g}") for y in corners[:, 1]}
    (panel,) = chart.panels()
    traces = {trace.get("label"): trace for trace in panel["marks"]}
    np.testing.assert_allclose(traces["median"]["y"], table.curve.median, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(traces["80 % interval"]["high"], high, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(traces["80 % interval"]["low"], low, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(
        traces["median"]["rows"], np.stack([low, high], axis=1), rtol=FIVE_DIGITS
    )
    assert traces["claim"]["y"] == [None, 2.0, 2.0, 0.1]
    assert panel["x"]["logarithmic"]


def test_rises_are_marked_and_explained() -> None:
    weak = em.engines.estimate_curve(
        counts([20] * 5, [180] * 5, 200), MODEL, [1e-5, 3e-3, 0.1, 0.3]
    )
    table = JudgedCurve.of(weak)
    chart = delta_curve_chart(table)
    assert "higher than at some smaller delta" in chart.caption
    marked = {str(line.get_label()): line for line in chart.draw().axes[0].lines}
    assert np.asarray(marked["higher than at a smaller delta"].get_xdata()).tolist() == [0.1, 0.3]
    traces = {trace.get("label"): trace for trace in chart.panels()[0]["marks"]}
    assert traces["higher than at a smaller delta"]["x"] == [0.1, 0.3]
    assert any("Estimates rise with delta" in note for note in curve_notes(table))


def test_a_falling_curve_has_no_marks(table: JudgedCurve) -> None:
    assert not any("rise" in note for note in curve_notes(table))
    assert len(delta_curve_chart(table).panels()[0]["marks"]) == 3
    without = replace(table, verdict=None)
    assert len(delta_curve_chart(without).panels()[0]["marks"]) == 2
    assert "claim" not in delta_curve_chart(without).caption


def test_claims_far_above_do_not_flatten_the_band(curve: em.engines.DeltaCurve) -> None:
    chart = delta_curve_chart(JudgedCurve.of(curve, claim=1e6))
    assert "claim" not in {trace.get("label") for trace in chart.panels()[0]["marks"]}
    assert "4 claims are above the plot" in chart.caption


def test_table_and_csv_are_one(table: JudgedCurve) -> None:
    rows = list(csv.DictReader(io.StringIO(curve_csv(table))))
    low, high = table.curve.credible_interval(0.8)
    assert [float(row["low"]) for row in rows] == low.tolist()
    assert [float(row["high"]) for row in rows] == high.tolist()
    assert [row["claim"] for row in rows] == ["", "2.0", "2.0", "0.1"]
    shown = curve_rows(table)
    assert table.verdict is not None
    labels = ["" if each is None else each.label for each in table.verdict.verdicts]
    assert [row[-1] for row in shown[1:]] == ["no claim", *labels[1:]]
    assert [row["verdict"] for row in rows] == labels
    assert labels[-1] == "FAIL (proven)"
    assert [row[4] for row in shown[1:]] == ["-", "2.000", "2.000", "0.100"]
    data = curve_data(table)
    assert data["verdict"] == {
        "outcome": str(table.verdict.outcome),
        "grounds": str(table.verdict.grounds),
        "reasons": list(table.verdict.reasons),
    }
    assert data["verdict"]["grounds"] == "proven"
    assert [item["delta"] for item in data["curve"]] == table.curve.deltas.tolist()
    assert all(
        not isinstance(v, float) or math.isfinite(v) for i in data["curve"] for v in i.values()
    )


def test_write_report_with_a_curve(curve: em.engines.DeltaCurve, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    claims = em.judgement.ClaimedCurve(deltas=[1e-3], epsilons=[0.01])
    write_report(exact(), page, curve=curve, claimed_curve=claims)
    text = page.read_text(encoding="utf-8")
    assert "The rest of this page is about delta = 0.01" in text
    assert "no claim at 2 more" in text
    assert "FAIL at 2" in text


def test_a_curve_of_other_counts_is_refused(table: JudgedCurve) -> None:
    with pytest.raises(InputError, match="of the same counts"):
        gather(exact(counts([10], [20], 100)), over_delta=table)
