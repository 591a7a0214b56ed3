"""The figure and the table of epsilon over delta show the curve's own numbers, for either model."""

from __future__ import annotations

import csv
import io
import math
from functools import cache

import numpy as np
import pytest

import epsilometer as em
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.result import Result
from epsilometer.report.figures.charts import charts_of
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.page.sections import render
from epsilometer.report.text.over_delta import (
    OverDelta,
    csv_over_delta,
    over_delta_of,
    table_over_delta,
    values_over_delta,
)
from tests.report.count_results import counts, exact, gather
from tests.report.curve_results import full

#: The page's numbers are rounded to five significant digits.
FIVE_DIGITS = 5.1e-5

DELTAS = (0.0, 1e-6, 1e-3, 0.1)


@cache
def result() -> CountResult:
    claim = em.judgement.ClaimedCurve(deltas=[1e-6, 1e-2], epsilons=[2.0, 0.1])
    return gather(exact(), level=0.8, claim=claim, deltas=DELTAS, compare=False)


def over(of: Result) -> OverDelta:
    found = over_delta_of(of)
    assert found is not None
    return found


def test_figure_shows_the_curve() -> None:
    chart, curve = delta_curve_chart(over(result())), result().over_delta
    assert curve is not None
    low, high = curve.credible_interval(0.8)
    assert "delta = 0" in chart.caption
    figure = chart.draw()
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    drawn = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.lines}
    np.testing.assert_allclose(drawn["median"], curve.median, rtol=1e-12)
    # Delta 0 has no place on a logarithmic axis.
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1e-7, 1e-6, 1e-3, 0.1]
    np.testing.assert_array_equal(drawn["claim"], [np.nan, 2.0, 2.0, 0.1])
    (band,) = axes.collections
    corners = np.asarray(band.get_paths()[0].vertices, dtype=float)
    assert {float(f"{y:.9g}") for y in low} <= {float(f"{y:.9g}") for y in corners[:, 1]}
    assert {float(f"{y:.9g}") for y in high} <= {float(f"{y:.9g}") for y in corners[:, 1]}
    (panel,) = chart.panels()
    traces = {trace.get("label"): trace for trace in panel["marks"]}
    np.testing.assert_allclose(traces["median"]["y"], curve.median, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(traces["80 % interval"]["high"], high, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(traces["80 % interval"]["low"], low, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(
        traces["median"]["rows"], np.stack([low, high], axis=1), rtol=FIVE_DIGITS
    )
    assert traces["claim"]["y"] == [None, 2.0, 2.0, 0.1]
    assert panel["x"]["logarithmic"]


def test_rises_are_marked_and_explained() -> None:
    weak = exact(counts([20] * 5, [180] * 5, 200))
    shown = over(gather(weak, deltas=(1e-5, 3e-3, 0.1, 0.3), compare=False))
    chart = delta_curve_chart(shown)
    assert "higher than at some smaller delta" in chart.caption
    marked = {str(line.get_label()): line for line in chart.draw().axes[0].lines}
    assert np.asarray(marked["higher than at a smaller delta"].get_xdata()).tolist() == [0.1, 0.3]
    traces = {trace.get("label"): trace for trace in chart.panels()[0]["marks"]}
    assert traces["higher than at a smaller delta"]["x"] == [0.1, 0.3]
    assert any("Estimates rise with delta" in note for note in shown.curve.notes(shown.level))


def test_a_falling_curve_has_no_marks() -> None:
    shown = over(result())
    assert not any("rise" in note for note in shown.curve.notes(shown.level))
    assert len(delta_curve_chart(shown).panels()[0]["marks"]) == 3
    without = OverDelta(curve=shown.curve, level=0.8)
    assert len(delta_curve_chart(without).panels()[0]["marks"]) == 2
    assert "claim" not in delta_curve_chart(without).caption


def test_claims_far_above_do_not_flatten_the_band() -> None:
    chart = delta_curve_chart(over(gather(exact(), claim=1e6, deltas=DELTAS, compare=False)))
    assert "claim" not in {trace.get("label") for trace in chart.panels()[0]["marks"]}
    assert "4 claims are above the plot" in chart.caption


@pytest.mark.parametrize("make", [result, full], ids=["count", "curve"])
def test_table_csv_and_json_are_one(make: object) -> None:
    judged: Result = make()  # type: ignore[operator]
    shown = over(judged)
    assert judged.verdict is not None
    rows = list(csv.DictReader(io.StringIO(csv_over_delta(shown))))
    low, high = shown.curve.credible_interval(judged.level)
    assert [float(row["low"]) for row in rows] == low.tolist()
    assert [float(row["high"]) for row in rows] == high.tolist()
    claims = {row.delta: row for row in judged.verdict.by_delta}
    data = values_over_delta(shown)["curve"]
    table = table_over_delta(shown)
    for row, item, cell in zip(rows, data, table["claim"], strict=True):
        claim = claims.get(item["delta"])
        assert item["claim"] == (None if claim is None else claim.claim)
        assert item["probability_above"] == (None if claim is None else claim.probability_above)
        assert row["claim"] == ("" if claim is None else str(claim.claim))
        assert cell == item["claim"]
        assert all(not isinstance(v, float) or math.isfinite(v) for v in item.values())
    layout = ["delta", "low", "median", "high"]
    assert list(data[0])[:4] == layout
    assert list(data[0])[-2:] == ["claim", "probability_above"]
    assert ("joint_low" in data[0]) is (judged.kind == "curve")


def test_the_page_has_the_curve_and_one_verdict() -> None:
    text = render(result(), charts_of(result()))
    assert "The rest of this page is about delta = 0.01" in text
    assert 'id="figure-delta-curve"' in text
    assert text.count('<p class="badge">') == 1
