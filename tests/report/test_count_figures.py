"""Figures must show the posterior's own numbers, on paper and in the page, for every odd case."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer._text import pair_text
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.origin import Origin
from epsilometer.model.region import critical_epsilon
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.answer import exceedance_chart, prior_chart
from epsilometer.report.figures.chart import FORMATS, Chart, save_figure
from epsilometer.report.figures.charts import CHARTS, COUNT_CHARTS, charts_of
from epsilometer.report.figures.count_model import (
    joint_chart,
    marginals_chart,
    prior_density,
    rank_counts,
    region_boundary,
    region_chart,
    region_probability,
)
from epsilometer.report.figures.curves import MOST_LINES, chance_band, curves_chart
from epsilometer.report.figures.marks import Reference
from epsilometer.report.figures.predictions import predictive_chart
from tests.report.count_results import TWO, counts, curves, exact, gather, sampled

#: The page's numbers are rounded to five significant digits.
FIVE_DIGITS = 5.1e-5


def traces(chart: Chart, panel: int = 0) -> dict[str, dict[str, Any]]:
    """The marks of one plot of the page by their labels."""
    return {str(mark.get("label")): mark for mark in chart.panels()[panel]["marks"]}


def of(posterior: CountPosterior, **question: Any) -> CountResult:
    return gather(posterior, compare=False, **question)


def drawn_marginals(posterior: CountPosterior) -> Chart:
    chart = marginals_chart(of(posterior))
    assert chart is not None
    return chart


def chains_of(posterior: CountPosterior, name: str) -> Chart:
    chart = COUNT_CHARTS[name](of(posterior))
    assert chart is not None
    return chart


def lines(chart: Chart, axes: int = 0) -> dict[str, Any]:
    return {str(line.get_label()): line for line in chart.draw().axes[axes].lines}


# --- region -----------------------------------------------------------------------------------


def test_shading_is_the_probability_of_holding_the_point() -> None:
    posterior = exact()
    points = np.linspace(0.01, 0.99, 23)
    shade = region_probability(posterior, points[None, :], points[:, None])
    critical = critical_epsilon(points[None, :], points[:, None], 0.01)
    expected = np.vectorize(lambda e: posterior.probability_above("epsilon", e))(critical)
    # Linear interpolation between a thousand quantiles.
    np.testing.assert_allclose(shade, expected, atol=1e-3)


def test_boundary_points_have_the_stated_epsilon() -> None:
    for epsilon in (0.1, 1.0, 8.0):
        x, y = region_boundary(epsilon, 0.05)
        assert critical_epsilon(x[1], y[1], 0.05) == pytest.approx(epsilon, rel=1e-12)
        middle = critical_epsilon((x[0] + x[1]) / 2, (y[0] + y[1]) / 2, 0.05)
        assert middle == pytest.approx(epsilon, rel=1e-9)


def test_region_in_the_page_shows_attacks_shade_and_quantiles() -> None:
    posterior = exact()
    chart = region_chart(of(posterior, level=0.8))
    shown = traces(chart)
    dots = shown["attacks (2)"]
    np.testing.assert_allclose(dots["x"], TWO.false_positive_rates, rtol=FIVE_DIGITS)
    np.testing.assert_allclose(dots["y"], TWO.false_negative_rates, rtol=FIVE_DIGITS)
    assert dots["rows"][1] == ["1", "30 of 100 (0.3)", "30 of 100 (0.3)"]
    heat = chart.panels()[0]["marks"][0]
    x, y = np.array(heat["x"]), np.array(heat["y"])
    expected = region_probability(posterior, x[None, :], y[:, None])
    np.testing.assert_allclose(np.array(heat["z"]), expected, atol=1e-3)  # rounded to 4 digits
    median = next(trace for name, trace in shown.items() if name.startswith("epsilon = "))
    corner = float(critical_epsilon(median["x"][1], median["y"][1], 0.01))
    # The corner's own coordinates are small differences of rounded numbers.
    assert corner == pytest.approx(posterior.median("epsilon"), rel=1e-5)


# --- marginals and joint ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "sampled"])
def test_marginals_show_density_interval_and_prior(kind: str) -> None:
    posterior = exact() if kind == "exact" else sampled()
    chart = drawn_marginals(posterior)
    for number, name in enumerate(("epsilon", "strength")):
        shown, page = lines(chart, number), traces(chart, number)
        x = np.asarray(shown["posterior"].get_xdata(), dtype=float)
        np.testing.assert_allclose(shown["posterior"].get_ydata(), posterior.density(name, x))
        prior = getattr(posterior.model, name)
        np.testing.assert_allclose(shown["prior"].get_ydata(), np.exp(prior.log_density(x)))
        low, high = posterior.credible_interval(name, 0.9)
        assert low in x
        assert high in x
        np.testing.assert_allclose(page["posterior"]["x"], x, rtol=FIVE_DIGITS)
        np.testing.assert_allclose(
            page["posterior"]["y"], posterior.density(name, x), rtol=FIVE_DIGITS
        )
        inside = page["90 % interval"]["x"]
        np.testing.assert_allclose([inside[0], inside[-1]], [low, high], rtol=FIVE_DIGITS)
        assert page["median"]["x"][0] == posterior.median(name)


def test_a_spike_is_cut_and_the_caption_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = exact(strength=em.priors.Fixed(value=0.5))
    ordinary = drawn_marginals(posterior)
    peak = max(traces(ordinary)["posterior"]["y"])
    assert ordinary.panels()[0]["y"]["ends"][1] > peak
    assert "cut off" not in ordinary.caption
    # No density is flatter than 1 over the width of its range, which is 1.2 of the interval's.
    monkeypatch.setattr(style, "TALLEST", 0.5)
    spiked = drawn_marginals(posterior)
    assert "The peak of epsilon is cut off" in spiked.caption
    assert spiked.panels()[0]["y"]["ends"][1] < peak
    assert spiked.draw().axes[0].get_ylim()[1] < peak


def test_priors_of_the_correlations_integrate_to_one() -> None:
    posterior = sampled(likelihood=em.likelihoods.CorrelatedNormal())
    for name, low, high in (
        ("within_correlation", -0.02, 0.08),
        ("cross_correlation", -0.12, 0.12),
    ):
        x = np.linspace(low, high, 20_001)
        total = np.trapezoid(prior_density(posterior, name, x), x)
        # The prior of tau jumps at its lower end, the average over tau has 2000 terms.
        assert total == pytest.approx(1.0, abs=2e-3)


def test_joint_draws_are_the_posteriors() -> None:
    posterior = exact()
    chart = joint_chart(of(posterior))
    shown = traces(chart)
    for name, axis in (("epsilon", "x"), ("strength", "y")):
        quarter, half = np.quantile(shown["draws"][axis], [0.25, 0.5])
        # 800 draws: a standard error of 0.018 in the probability.
        assert posterior.probability_above(name, half) == pytest.approx(0.5, abs=0.07)
        assert posterior.probability_above(name, quarter) == pytest.approx(0.75, abs=0.06)
        assert shown["medians"][axis] == [posterior.median(name)]
    both = np.corrcoef(shown["draws"]["x"], shown["draws"]["y"])[0, 1]
    assert both < -0.2  # strong attacks mean a small epsilon


# --- claims, priors, curves -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "sampled"])
def test_exceedance_is_the_posteriors_own_probability(kind: str) -> None:
    posterior = exact() if kind == "exact" else sampled()
    verdict = em.judge(posterior, claim=0.7)
    chart = exceedance_chart(of(posterior, claim=0.7))
    for x, y in (
        (lines(chart)["posterior"].get_xdata(), lines(chart)["posterior"].get_ydata()),
        (traces(chart)["posterior"]["x"], traces(chart)["posterior"]["y"]),
    ):
        expected = [posterior.probability_above("epsilon", float(value)) for value in x]
        # A step of the draws' distribution may fall on either side of a rounded value.
        # On the page x is rounded to a hundred-thousandth of its range, which moves y by as much.
        tolerance = 1e-4 if kind == "exact" else 1.1 / 1200
        np.testing.assert_allclose(y, expected, atol=tolerance)
    prior = traces(chart)["prior"]
    expected = [posterior.model.epsilon.probability_above(value) for value in prior["x"]]
    np.testing.assert_allclose(prior["y"], expected, atol=5e-5)
    claim = traces(chart)["claim 0.7"]
    assert (claim["x"], claim["y"]) == ([0.7], [verdict.probability_above])
    thresholds = [mark for mark in chart.panels()[0]["marks"] if mark["kind"] == "reference"][:2]
    assert [mark["y"] for mark in thresholds] == [0.05, 0.95]


def test_priors_chart_shows_every_prior_and_its_interval() -> None:
    result = of(exact(), level=0.8)
    posterior, others = result.posterior, result.other_priors
    chart = prior_chart(result)
    assert chart is not None
    (panel,) = chart.panels()
    shown = [np.array(mark["y"]) for mark in panel["marks"]]
    x = np.array(panel["marks"][2]["x"])
    close: Any = {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(shown[2], posterior.density("epsilon", x), **close)
    np.testing.assert_allclose(shown[4], others[1].epsilon.density(x), **close)
    wide = em.priors.HalfNormal(scale=2 * 10**0.5)
    np.testing.assert_allclose(shown[5], np.exp(wide.log_density(x)), rtol=1e-4)
    names = [mark["label"].partition(":")[0] for mark in panel["marks"][::2]]
    assert names == ["prior scale x 0.5", "as reported", "prior scale x 2"]
    for version in others:
        assert pair_text(*version.credible_interval(0.8)) in chart.caption
    reported = pair_text(*posterior.credible_interval("epsilon", 0.8))
    assert f"The 80 % interval is {reported};" in chart.caption


def test_curves_are_the_attacks_own() -> None:
    swept, used = curves()
    chart = curves_chart(swept, used, target_alpha=0.1)
    errors, rates = chart.panels()
    second = errors["marks"][1]
    assert second["label"] == swept.names[1]
    np.testing.assert_allclose(
        second["x"][1:-1], swept.false_positives[:, 1] / swept.trials_h0[1], rtol=1e-4
    )  # five digits
    np.testing.assert_allclose(
        second["y"][1:-1], swept.false_negatives[:, 1] / swept.trials_h1[1], rtol=1e-4
    )
    np.testing.assert_allclose(errors["marks"][-1]["x"], used.false_positive_rates)
    realised = next(trace for trace in rates["marks"] if trace.get("label") == swept.names[1])
    np.testing.assert_allclose(realised["x"], swept.target_alpha)
    np.testing.assert_allclose(realised["y"], second["x"][1:-1])
    assert [mark["x"] for mark in rates["marks"] if mark["kind"] == "reference"] == [0.1]
    from scipy.stats import binom

    trials = int(used.trials_h0.min())
    low, high = chance_band(swept.target_alpha, trials)
    band = next(trace for trace in rates["marks"] if "by chance" in trace["label"])
    np.testing.assert_allclose(band["high"], high, rtol=1e-4)
    np.testing.assert_allclose(band["low"], low, rtol=1e-4)
    outside = binom.cdf(low * trials - 1, trials, swept.target_alpha) + binom.sf(
        high * trials, trials, swept.target_alpha
    )
    assert float(np.max(outside)) <= 0.01 + 1e-12


def test_of_many_bases_some_curves_are_drawn() -> None:
    swept, used = curves()
    bases, columns = 200, ("false_positives", "trials_h0", "false_negatives", "trials_h1")
    many = replace(
        swept,
        names=tuple(map(str, range(bases))),
        **{name: np.tile(getattr(swept, name), bases // 4) for name in columns},
    )
    repeated: dict[str, Any] = {n: np.tile(getattr(used, n), bases // 4) for n in columns}
    tiled = em.AttackCounts(**repeated)
    chart = curves_chart(many, tiled, target_alpha=None)
    assert sum(trace["label"].isdigit() for trace in chart.panels()[0]["marks"]) == MOST_LINES
    assert f"Only {MOST_LINES} of 200 bases are drawn" in chart.caption
    band = next(
        trace for trace in chart.panels()[1]["marks"] if "middle" in str(trace.get("label"))
    )
    rates = many.false_positives / many.trials_h0
    np.testing.assert_allclose(band["high"], np.quantile(rates, 0.95, axis=1), rtol=1e-4)


# --- influence and prediction -----------------------------------------------------------------


def test_predictions_show_the_check() -> None:
    posterior = exact(counts([10, 30, 5], [20, 30, 10], 100))
    check = em.checks.check_predictions(posterior, rng=np.random.default_rng(2), replicates=300)
    chart = predictive_chart(posterior.counts, check)
    for panel, quantity in zip(chart.panels(), check.quantities, strict=True):
        bars, seen = panel["marks"]
        np.testing.assert_allclose(seen["y"], quantity.observed, rtol=FIVE_DIGITS)
        np.testing.assert_allclose(bars["y"][1::3], quantity.high, rtol=FIVE_DIGITS)
        np.testing.assert_allclose(bars["y"][::3], quantity.low, rtol=FIVE_DIGITS)
        named = [row[0] for row in seen["rows"]]
        assert named == [posterior.counts.names[base] for base in quantity.order]


# --- chains -----------------------------------------------------------------------------------


def test_traces_show_every_chain() -> None:
    posterior = sampled(chains=3)
    chart = chains_of(posterior, "traces")
    axes = chart.draw().axes[0]
    assert len(axes.lines) == 3
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), posterior.samples["epsilon"][1])
    trace = chart.panels()[0]["marks"][1]
    np.testing.assert_allclose(trace["y"], posterior.samples["epsilon"][1], rtol=FIVE_DIGITS)


def test_ranks_against_their_definition_and_a_chain_that_leans() -> None:
    draws = np.array([[0.1, 0.4, 0.5, 0.8], [0.2, 0.3, 0.6, 0.7]])
    assert rank_counts(draws, bins=2).tolist() == [[2, 2], [2, 2]]
    assert rank_counts(np.array([[1.0, 2.0], [3.0, 4.0]]), bins=2).tolist() == [[2, 0], [0, 2]]
    posterior = sampled(chains=2)
    panel = chains_of(posterior, "ranks").panels()[0]
    shares = np.array([mark["y"] for mark in panel["marks"] if mark["kind"] == "line"])
    np.testing.assert_allclose(shares.mean(), 1.0)


# --- every figure, every case -----------------------------------------------------------------

ALWAYS = {"exceedance", "region", "marginals", "joint"}
CHAINS = {"traces", "ranks"}
MANY = counts(np.arange(10_000) % 40, np.arange(10_000) % 37, 100)

STRENGTH, EPSILON = em.priors.Fixed(value=0.5), em.priors.Fixed(value=2.0)
NORMAL = em.likelihoods.CorrelatedNormal()
CASES: dict[str, tuple[Callable[[], CountPosterior], set[str]]] = {
    "one base": (lambda: exact(counts([200], [200], 500)), ALWAYS),
    "large epsilon": (lambda: exact(counts([10, 0, 12], [0, 0, 1], 100)), ALWAYS),
    "tiny epsilon": (lambda: sampled(chains=2, centre=2e-4, scale=1e-4), ALWAYS | CHAINS),
    "fixed strength": (lambda: exact(strength=STRENGTH), ALWAYS - {"joint"}),
    "fixed epsilon": (lambda: exact(epsilon=EPSILON), {"region", "marginals"}),
    "four": (lambda: sampled(chains=1, likelihood=NORMAL), ALWAYS | CHAINS),
    "chains that never moved": (lambda: sampled(scale=0.0), ALWAYS | CHAINS),
    "10,000 bases": (lambda: sampled(MANY), ALWAYS | CHAINS),
    "narrow": (lambda: sampled(scale=1e-9, chains=8), ALWAYS | CHAINS),
    "at zero": (lambda: sampled(centre=0.0, scale=1e-12), ALWAYS | CHAINS),
}
SLOW = ("10,000 bases", "narrow", "at zero")


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES]
)
def test_every_figure_draws(case: str, tmp_path: Path) -> None:
    make, expected = CASES[case]
    result = of(make())
    charts = [chart for chart in charts_of(result, folder=True) if chart.name != "answer"]
    assert {chart.name for chart in charts} == expected
    assert set(CHARTS[result.kind]) >= expected
    for chart in charts:
        figure = chart.draw()
        save_figure(figure, tmp_path / chart.name)
        assert (tmp_path / chart.name).read_bytes().startswith(b"\x89PNG")
        assert figure.get_suptitle() or figure.axes[0].get_title()
        check_panels(chart)


def check_panels(chart: Chart) -> None:
    """Every panel is JSON that the page's script knows how to draw."""
    known = {"line", "band", "points", "heat", "reference", "note"}
    colours = {*style.PAGE_COLOURS}
    panels = chart.panels()
    assert panels
    for panel in panels:
        assert json.loads(json.dumps(panel, allow_nan=False)) == panel
        for mark in panel["marks"]:
            assert mark["kind"] in known
            assert mark.get("colour", "blue") in colours
            sizes = {len(mark[name]) for name in ("x", "y") if isinstance(mark.get(name), list)}
            if mark["kind"] in ("line", "points", "band"):
                assert (
                    len(sizes | {len(mark[name]) for name in ("high", "rows") if name in mark}) == 1
                )
            if mark["kind"] == "heat":
                assert (len(mark["y"]), len(mark["x"])) == np.shape(mark["z"])


@pytest.mark.slow
def test_every_figure_of_a_whole_report_draws_in_every_format(tmp_path: Path) -> None:
    swept, used = curves()
    posterior = em.estimate(
        used, em.CountModel(delta=0.1, likelihood=em.likelihoods.CorrelatedNormal())
    )
    evidence = gather(posterior, claim=1.0, origin=Origin(curves=swept))
    names = set()
    for chart in charts_of(evidence):
        check_panels(chart)
        assert chart.caption.endswith(".")
        figure = chart.draw()
        for form in FORMATS:
            path = tmp_path / f"{chart.name}.{form}"
            save_figure(figure, path, form=form)
            names.add(path.name)
    assert len(names) == 3 * 8
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
    assert b"<svg" in (tmp_path / "prior.svg").read_bytes()[:600]


@pytest.mark.parametrize("form", FORMATS)
def test_same_posterior_same_bytes(form: str) -> None:
    posterior = exact()
    first, second = (io.BytesIO(), io.BytesIO())
    for target in (first, second):
        save_figure(region_chart(of(posterior)).draw(), target, form=form)
    assert first.getvalue() == second.getvalue()


ODD = ("$x^2$", "$\\frac{", "<script>", "\u202eabc", "日本", "🙂", "%{x}", "x" * 200, "a\nb")


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_drawn_literally(name: str) -> None:
    plot = style.interval_plot("epsilon", [name, "other"], [Reference(x=0.5)], (0, 1))
    chart = Chart(name="names", title="names", caption="", plots=[plot], size=(6, 3))
    save_figure(chart.draw(), io.BytesIO())
    check_panels(chart)
    shown = chart.panels()[0]["y"]["names"]
    assert shown == [style.shortened(name, 40), "other"]
    assert not any("\u202e" in text or "\n" in text for text in shown)
