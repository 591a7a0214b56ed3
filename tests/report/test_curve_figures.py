"""Figures of the curve model must show the posterior's own numbers, on paper and in the page."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epsilometer._text import pair_text
from epsilometer.checks.predictive import SURPRISING
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.question import Question
from epsilometer.model.families import Gaussian, RandomizedResponse
from epsilometer.model.models import CurveModel
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.figures import curve_model, predictions
from epsilometer.report.figures.answer import answer_chart, exceedance_chart, prior_chart
from epsilometer.report.figures.chart import Chart, save_figure
from epsilometer.report.figures.charts import CURVE_CHARTS, charts_of
from epsilometer.report.figures.delta_curve import delta_curve_chart
from epsilometer.report.figures.marks import Note
from epsilometer.report.text.over_delta import OverDelta, over_delta_of
from tests.report.curve_results import SETTINGS, bare, counted, full, gaussian, judged, many, null
from tests.report.test_count_figures import traces

#: Bands and curves of the page are rounded to five significant digits.
FIVE_DIGITS = 5.1e-5


def over_delta_chart(result: CurveResult) -> Chart:
    chart = CURVE_CHARTS["delta-curve"](result)
    assert chart is not None
    return chart


def drawn(chart: Chart) -> bytes:
    target = io.BytesIO()
    save_figure(chart.draw(), target)
    return target.getvalue()


@pytest.mark.parametrize("make", [bare, full, null, counted], ids=lambda make: make.__name__)
def test_every_figure_is_drawn_both_ways(make: Any) -> None:
    found = charts_of(make())
    names = [name for name in CURVE_CHARTS if name != "proof" or make is not counted]
    assert [chart.name for chart in found] == names  # counts have no order of pairs
    for chart in found:
        assert chart.caption.endswith(".")
        assert drawn(chart)[:4] == b"\x89PNG"
        for panel in chart.panels():
            assert panel["marks"]


def test_the_folder_has_the_figures_that_need_no_checks() -> None:
    result = replace(bare())  # nothing is worked out yet
    names = [chart.name for chart in charts_of(result, folder=True)]
    assert names == ["answer", "exceedance", "proof", "roc", "leaks", "families", "delta-curve"]
    assert not {"predictive", "poorly_fitting_families", "other_priors"} & set(vars(result))


# --- epsilon ----------------------------------------------------------------------------------


def test_what_is_proven_is_drawn_with_what_could_have_been() -> None:
    for result, something in ((bare(), True), (null(), False)):
        proof = result.proof
        assert proof is not None
        assert (proof.at_least > 0) is something
        (plot,) = answer_chart(result).plots
        at_the_proof = [mark for mark in plot.marks if isinstance(mark, Note) and mark.y == 0]
        least = f"at least {rounded_down(proof.at_least)}" if proof.at_least else "nothing proven"
        said = f"{least}, of at most {rounded_down(proof.most_provable)}"
        assert [(note.text, note.x) for note in at_the_proof] == [(said, proof.at_least)]


def test_exceeding_begins_below_one_where_nothing_may_leak() -> None:
    result = null()
    chart = exceedance_chart(result)
    shown = traces(chart)
    nothing = result.posterior.solution.no_leak
    assert nothing > 0.3
    assert shown["posterior"]["y"][0] == pytest.approx(
        result.posterior.probability_above("epsilon", 0.0), rel=FIVE_DIGITS
    )
    assert shown["posterior"]["y"][0] <= 1 - nothing + 1e-6
    # The prior has its own probability of no leak.
    assert shown["prior"]["y"][0] == pytest.approx(0.5, rel=FIVE_DIGITS)
    assert f"with probability {nothing:.4f} nothing leaks" in chart.caption
    assert "nothing leaks" not in exceedance_chart(bare()).caption


def test_a_posterior_that_is_all_at_zero_is_drawn() -> None:
    model = CurveModel(delta=1e-3, no_leak=0.9999)
    result = judged(SETTINGS.estimate(gaussian([-1.0] * 3, 60), model))
    assert result.posterior.credible_interval("epsilon") == (0.0, 0.0)
    for chart in charts_of(result):
        assert drawn(chart)
        for panel in chart.panels():
            for axis in ("x", "y"):
                low, high = panel[axis].get("ends", (0, 1))
                assert low != high


def test_priors_are_those_of_the_result() -> None:
    result = null()
    chart = prior_chart(result)
    assert chart is not None
    for prior in result.other_priors:
        assert pair_text(*prior.credible_interval(0.9)) in chart.caption
    dashed = [trace for trace in chart.panels()[0]["marks"] if trace.get("dash") == "dash"]
    x = np.array(dashed[1]["x"])
    # Half of the prior lies at 0, of which a density shows nothing.
    density = 0.5 * np.exp(result.model.epsilon.log_density(x))
    np.testing.assert_allclose(dashed[1]["y"], density, rtol=FIVE_DIGITS)
    assert "of no leak, where epsilon is 0" in chart.caption


# --- families ---------------------------------------------------------------------------------


def test_bars_are_the_probabilities_of_families() -> None:
    result = bare()
    chart = curve_model.families_chart(result, {"laplace": "too sharp"})
    (totals,) = chart.panels()
    names = totals["y"]["names"]
    shown: dict[str, float] = {}
    for trace in totals["marks"][:-1]:
        for place, value in zip(trace["y"], trace["x"], strict=True):
            shown[names[round(place)]] = value
    for name in ("gaussian", "laplace", "response"):
        assert shown[name] == pytest.approx(result.posterior.family_probability(name), abs=1e-6)
    assert sum(shown.values()) == pytest.approx(1.0, abs=1e-5)
    wrong = {trace.get("label"): trace for trace in totals["marks"]}["does not fit"]
    assert wrong["colour"] == "purple"
    assert names[round(wrong["y"][0])] == "laplace"
    assert "Purple: laplace" in chart.caption
    before = totals["marks"][-1]
    assert sum(before["x"]) == pytest.approx(1.0, abs=1e-5)


def test_families_that_fit_are_not_marked() -> None:
    chart = curve_model.families_chart(bare(), {})
    assert "Purple" not in chart.caption
    assert "does not fit" not in traces(chart)


# --- bases ------------------------------------------------------------------------------------


def test_roc_curves_show_the_band_and_what_was_seen() -> None:
    result = bare()
    chart = curve_model.roc_chart(result)
    order = [leak.name for leak in result.leaks]
    assert order[0] == "0"
    for panel, name in zip(chart.panels(), order, strict=True):
        number = int(name)
        assert panel["title"].startswith(f"{name}: ")
        shown = {trace.get("label"): trace for trace in panel["marks"]}
        rates = np.array(shown["median"]["x"])
        assert rates[0] == pytest.approx(0.5 / 40)
        f = result.posterior.trade_off(rates, [0.95, 0.5, 0.05], base=number)
        # Rates are rounded in the chart; a distribution keeps 6,000 of its points, others for others.
        near: dict[str, Any] = {"rtol": 2e-3, "atol": 1e-5}
        np.testing.assert_allclose(shown["median"]["y"], 1 - f[1], **near)
        band = shown["90 % band"]
        np.testing.assert_allclose(band["high"], 1 - f[2], **near)
        np.testing.assert_allclose(band["low"], 1 - f[0], **near)
        false, true = result.scores.bases[number].roc()
        seen = np.array(shown["observed"]["x"]), np.array(shown["observed"]["y"])
        for x, y in zip(np.maximum(false, rates[0]), true, strict=True):
            assert np.min(np.abs(seen[0] - x) + np.abs(seen[1] - y)) < 1e-4


def test_many_models_are_drawn_at_few_points() -> None:
    base = gaussian([1.0], 2000).bases[0]
    x, y = curve_model.drawn_roc(base, 1e-4)
    assert len(x) == curve_model.MOST_STEPS
    assert np.all(np.diff(y) >= 0)
    np.testing.assert_allclose(y, base.true_positive_rate(x))


def test_counts_are_dots() -> None:
    result = counted()
    chart = curve_model.roc_chart(result)
    dots = [{t.get("label"): t for t in panel["marks"]}["counted"] for panel in chart.panels()]
    assert {(dot["x"][0], dot["y"][0]) for dot in dots} == {(0.1, 0.6), (0.3, 0.7)}
    assert "Dots: counts" in chart.caption
    assert "Dots: counts" not in curve_model.roc_chart(bare()).caption


def test_leaks_are_the_quantiles_of_bases_below_both_answers() -> None:
    result = bare()
    chart = curve_model.leaks_chart(result)
    panel = chart.panels()[0]
    estimated, shown, _, dots = panel["marks"]
    for trace, name in ((estimated, "epsilon"), (shown, "shown")):
        low, high = result.posterior.credible_interval(name, 0.9)
        middle = result.posterior.median(name)
        assert trace["x"] == [pytest.approx(middle)]
        assert trace["x_ends"] == [[pytest.approx(low)], [pytest.approx(high)]]
    names = panel["y"]["names"]
    assert names[2:] == ["0", "2", "1"]
    medians = [float(result.posterior.leaks[int(name)].quantile(0.5)) for name in names[2:]]
    np.testing.assert_allclose(dots["x"], medians, rtol=FIVE_DIGITS)
    assert sorted(medians, reverse=True) == medians


def test_of_many_bases_the_worst_are_drawn() -> None:
    result = many(60)
    rocs, leaks = curve_model.roc_chart(result), curve_model.leaks_chart(result)
    assert len(rocs.plots) == 12
    assert "the 12 with the largest epsilon of 60 bases" in rocs.caption
    assert len(leaks.panels()[0]["y"]["names"]) == 2 + 50
    assert "the 50 with the largest epsilon of 60 bases" in leaks.caption
    assert drawn(rocs)
    assert drawn(leaks)


def test_predictions_are_those_of_the_check() -> None:
    result = bare()
    check = result.predictive
    chart = predictions.roc_check_chart(result)
    order = [int(leak.name) for leak in result.leaks]
    for column, panel in enumerate(chart.panels()):
        bars, seen = panel["marks"]
        assert panel["y"]["title"] == check.statistics[column]
        np.testing.assert_allclose(seen["y"], check.observed[order, column], rtol=FIVE_DIGITS)
        np.testing.assert_allclose(bars["y"][0::3], check.low[order, column], rtol=FIVE_DIGITS)
        np.testing.assert_allclose(bars["y"][1::3], check.high[order, column], rtol=FIVE_DIGITS)
        assert bars["y"][2::3] == [None] * len(order)
    assert "The model explains everything checked here" in chart.caption


def test_bases_that_do_not_fit_are_purple() -> None:
    result = replace(bare())
    check = bare().predictive
    p_value = check.p_value.copy()
    p_value[1, 0] = 0.5 * SURPRISING / p_value.size
    # A cached value of a frozen dataclass is put in as it would put it in itself.
    vars(result)["predictive"] = replace(check, p_value=p_value)
    chart = predictions.roc_check_chart(result)
    odd = traces(chart)["observed, does not fit"]
    assert odd["y"] == [pytest.approx(check.observed[1, 0])]
    assert odd["colour"] == "purple"
    assert "The model does not explain: AUC of base 1." in chart.caption


# --- epsilon over delta -----------------------------------------------------------------------


def test_the_curve_is_the_posteriors_and_hatched_where_no_data_speak() -> None:
    result = bare()
    over = over_delta_of(result)
    assert over is not None
    assert result.model.delta in over.deltas
    assert result.posterior.extrapolated_below_delta in over.deltas
    chart = over_delta_chart(result)
    shown = traces(chart)
    np.testing.assert_allclose(shown["median"]["x"], over.deltas, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(shown["median"]["y"], over.quantiles[1], rtol=FIVE_DIGITS)
    below = result.posterior.extrapolated_below_delta
    assert 1e-8 < below < 0.1
    hatched, plain = shown["extrapolated"], shown["90 % interval"]
    assert hatched["hatched"]
    assert "hatched" not in plain
    assert max(hatched["x"]) == pytest.approx(below, rel=FIVE_DIGITS)
    assert min(plain["x"]) == pytest.approx(below, rel=FIVE_DIGITS)
    assert f"below delta = {below:.2g}: extrapolated" in chart.caption
    hatches = [each.get_hatch() for each in chart.draw().axes[0].collections]
    assert "////" in hatches


def test_the_claim_is_drawn_at_its_delta_or_along_the_curve() -> None:
    result = replace(bare(), question=Question(claim=2.5))
    point = traces(over_delta_chart(result))["claim"]
    assert (point["x"], point["y"]) == ([1e-3], [2.5])
    line = traces(over_delta_chart(full()))["claim"]
    assert line["y"] == [0.5, 0.5, 0.5]
    far = over_delta_chart(replace(bare(), question=Question(claim=500.0)))
    assert "The claim is above the plot." in far.caption
    assert "claim" not in traces(far)
    assert "claim" not in traces(over_delta_chart(bare()))


def test_where_no_epsilon_is_finite_the_curve_leaves_the_plot() -> None:
    model = CurveModel(delta=1e-2, families=(RandomizedResponse(atom=1e-3), Gaussian()))
    posterior = SETTINGS.estimate(gaussian([1.0], 40), model)
    result = judged(posterior, question=Question(deltas=(0.0, 1e-4, 1e-2)))
    over = over_delta_of(result)
    assert over is not None
    assert np.isinf(over.quantiles).any()
    chart = over_delta_chart(result)
    panel = chart.panels()[0]
    top = panel["y"]["ends"][1]
    assert np.isfinite(top)
    assert max(traces(chart)["median"]["y"]) > top
    assert "there is no finite epsilon" in chart.caption
    assert "The leftmost point is delta = 0" in chart.caption
    assert drawn(chart)


def test_a_model_without_delta_and_a_curve_of_one_delta() -> None:
    model = CurveModel(delta=0.0)
    posterior = SETTINGS.estimate(gaussian([1.0], 40), model)
    result = judged(posterior)
    over = over_delta_of(result)
    assert over is not None
    assert over.deltas[0] == pytest.approx(1e-8)
    assert "Green" not in over_delta_chart(result).caption
    # The Gaussian has no epsilon there and is no family that could fail to fit.
    assert "gaussian" not in result.poorly_fitting_families
    one = JointDeltaCurve(posterior=bare().posterior, deltas=[1e-3])
    chart = delta_curve_chart(OverDelta(curve=one, level=0.9))
    assert drawn(chart)
    assert len(traces(chart)["median"]["x"]) == 1
