"""The numbers that the browser draws are the posterior's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import epsilometer as em
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.model.region import critical_epsilon
from tests.report.browser import (
    POSTERIORS,
    Make,
    Open,
    Shelf,
    chains,
    correlated,
    exact,
    fixed_strength,
    marks,
    one_base,
    references,
    spec,
)

FloatArray = NDArray[np.float64]

ROUNDED = 5.1e-5
"""Relative: half a unit in the last of five digits, where the first one is 1, and a little rounding."""


# --- the numbers -------------------------------------------------------------------------------------


def array(values: Any) -> FloatArray:
    return np.array(values, dtype=float)


@pytest.mark.parametrize(
    "make", [exact, chains, correlated, one_base, fixed_strength], ids=lambda make: make.__name__
)
def test_curve_of_exceedance_is_the_posteriors(make: Make, opened: Open, shelf: Shelf) -> None:
    posterior = shelf.evidence(make).posterior
    curve, prior, *claim = marks(opened(make).page, "exceedance-1")
    epsilon, shown = array(curve["x"]), array(curve["y"])
    expected = array([posterior.probability_above("epsilon", value) for value in epsilon])
    # Both coordinates are rounded; a rounded epsilon moves the probability along the density (in the
    # far tail, that of a cell), or past a draw or two.
    slope = posterior.density("epsilon", epsilon)
    step = 1e-12
    if isinstance(posterior, SamplePosterior):
        step = 2 / posterior.samples["epsilon"].size
    assert np.all(np.abs(shown - expected) <= ROUNDED * (expected + 1.1 * epsilon * slope) + step)
    assert shown[0] > 0.999
    assert shown[-1] < 0.01
    model = posterior.model.epsilon
    before = array([model.probability_above(value) for value in epsilon])
    # The density of the prior is below 1.
    np.testing.assert_allclose(prior["y"], before, rtol=ROUNDED, atol=ROUNDED * epsilon[-1])
    # A claim far beyond the posterior is left out, and the caption says so.
    claimed = shelf.evidence(make).claims.get(posterior.model.delta)
    if claimed is None or claimed > epsilon[-1]:
        assert claim == []
        caption = opened(make).page.locator("#figure-exceedance figcaption").inner_text()
        assert ("to the right of the plot" in caption) == (claimed is not None)
    else:
        assert claim[0]["x"] == [claimed]
        assert claim[0]["y"] == [posterior.probability_above("epsilon", claimed)]


@POSTERIORS
def test_attacks_and_edges_of_the_region_are_the_posteriors(
    make: Make, opened: Open, shelf: Shelf
) -> None:
    posterior, level = shelf.evidence(make).posterior, shelf.evidence(make).level
    heat, *lines, _, dots = marks(opened(make).page, "region-1")
    counts, delta = posterior.counts, posterior.model.delta
    np.testing.assert_allclose(dots["x"], counts.false_positive_rates, rtol=ROUNDED)
    np.testing.assert_allclose(dots["y"], counts.false_negative_rates, rtol=ROUNDED)
    ends = posterior.credible_interval("epsilon", level)
    expected = [posterior.median("epsilon"), *ends][: len(lines)]
    corners = [critical_epsilon(line["x"][1], line["y"][1], delta) for line in lines]
    # epsilon is the logarithm of a ratio of rounded rates.
    np.testing.assert_allclose(corners, expected, atol=4 * ROUNDED)
    assert len(lines) == (3 if "epsilon" in posterior.parameters else 1)
    cells = np.ix_(range(5, 101, 15), range(5, 101, 15))
    rates = array(heat["x"])[5::15]
    wanted = critical_epsilon(rates[None, :], rates[:, None], delta)
    shades = np.vectorize(lambda value: posterior.probability_above("epsilon", value))(wanted)
    if "epsilon" in posterior.parameters:
        # Interpolated between quantiles a thousandth apart, and four digits are kept.
        np.testing.assert_allclose(array(heat["z"])[cells], shades, atol=1.5e-3)


def test_enlarged_corner_shows_no_errors_as_a_third_of_one(opened: Open, shelf: Shelf) -> None:
    counts = shelf.evidence(correlated).posterior.counts
    assert counts.false_positives[-1] == 0
    dots = marks(opened(correlated).page, "region-2")[-1]
    np.testing.assert_allclose(dots["x"][:-1], counts.false_positive_rates[:-1], rtol=ROUNDED)
    assert dots["x"][-1] == pytest.approx(1 / 300, rel=ROUNDED)
    np.testing.assert_allclose(dots["y"], counts.false_negative_rates, rtol=ROUNDED)
    drawn = spec(opened(correlated).page, "region-2")
    for axis in (drawn["x"], drawn["y"]):
        assert axis["logarithmic"]
        assert axis["ends"][0] < 1 / 300


@POSTERIORS
def test_medians_intervals_and_densities_are_the_posteriors(
    make: Make, opened: Open, shelf: Shelf
) -> None:
    page, posterior = opened(make).page, shelf.evidence(make).posterior
    level = shelf.evidence(make).level
    for number, name in enumerate(posterior.parameters):
        shaded, density, _, median = marks(page, f"marginals-{number + 1}")
        assert median["x"] == [posterior.median(name)] * 2
        low, high = posterior.credible_interval(name, level)
        ends = shaded["x"][0], shaded["x"][-1]
        np.testing.assert_allclose(ends, (low, high), rtol=ROUNDED)
        if name not in ("epsilon", "strength"):
            continue  # whose density is in pieces with jumps between them
        x, shown = array(density["x"]), array(density["y"])
        # x is rounded too: the density shown is one of those between its neighbours, or a little more
        # where it meets a break between two pieces.
        around = np.stack(
            [posterior.density(name, x * (1 + move)) for move in (-ROUNDED, 0, ROUNDED)]
        )
        # Both are rounded to five digits of the range at least; a spike is steep.
        room = 1e-3 * shown.max()
        assert np.all(shown <= around.max(axis=0) + room), name
        assert np.all(shown >= around.min(axis=0) - room), name


@POSTERIORS
def test_table_of_numbers_is_the_posteriors(make: Make, opened: Open, shelf: Shelf) -> None:
    evidence = shelf.evidence(make)
    posterior = evidence.posterior
    rows = opened(make).page.locator("#numbers tbody tr")
    estimated = [name for name in ("epsilon", "strength") if name in posterior.parameters]
    texts = [row.locator("td").all_inner_texts() for row in rows.all()]
    shown = {cells[0]: cells[1:] for cells in texts}
    for name in estimated:
        median, interval, mean = shown[{"strength": "attack strength"}.get(name, name)]
        low, high = interval.split(" to ")
        expected = (
            posterior.median(name),
            *posterior.credible_interval(name, evidence.level),
            posterior.mean(name),
        )
        for text, value in zip((median, low, high, mean), expected, strict=True):
            decimals = len(text.partition(".")[2])
            assert abs(float(text) - value) <= 0.5001 * 10**-decimals


@pytest.mark.parametrize(
    "make", [exact, chains, correlated, one_base, fixed_strength], ids=lambda make: make.__name__
)
def test_influence_of_each_base_is_the_posteriors(make: Make, opened: Open, shelf: Shelf) -> None:
    page, evidence = opened(make).page, shelf.evidence(make)
    found = evidence.influence
    assert found is not None
    (dots,) = marks(page, "influence-1")
    bases = [found.names.index(row[0]) for row in dots["rows"]]
    assert sorted(bases) == list(range(len(found.names)))
    np.testing.assert_allclose(dots["x"], found.median[bases], rtol=ROUNDED)
    low, high = dots["x_ends"]
    np.testing.assert_allclose(low, found.low[bases], rtol=ROUNDED)
    np.testing.assert_allclose(high, found.high[bases], rtol=ROUNDED)
    band, line = references(page, "influence-1")
    # By the exact engine, as the bases left out: Monte Carlo noise would pass for influence.
    twin = em.estimate(evidence.posterior.counts, evidence.posterior.model)
    ends = twin.credible_interval("epsilon", evidence.level)
    assert (band["low"], band["high"]) == pytest.approx(ends, rel=1e-9)
    assert line["x"] == pytest.approx(twin.median("epsilon"), rel=1e-9)


def test_error_curves_are_the_attacks(opened: Open, shelf: Shelf) -> None:
    page, curves = opened(exact).page, shelf.evidence(exact).origin.curves
    assert curves is not None
    errors, rates = marks(page, "curves-1"), marks(page, "curves-2")
    for base, name in enumerate(curves.names):
        positives = curves.false_positives[:, base] / curves.trials_h0[base]
        negatives = curves.false_negatives[:, base] / curves.trials_h1[base]
        (line,) = (trace for trace in errors if trace.get("label") == name)
        # Five digits are kept of each rate.
        np.testing.assert_allclose(line["x"], [0, *positives, 1], rtol=5.1e-5)
        np.testing.assert_allclose(line["y"], [1, *negatives, 0], rtol=5.1e-5)
        (line,) = (trace for trace in rates if trace.get("label") == name)
        np.testing.assert_allclose(line["x"], curves.target_alpha, rtol=ROUNDED)
        np.testing.assert_allclose(line["y"], positives, rtol=5.1e-5)
    (target,) = references(page, "curves-2")
    assert target["x"] == 0.1


def test_figures_of_chains_are_of_these_chains(opened: Open, shelf: Shelf) -> None:
    page, posterior = opened(chains).page, shelf.evidence(chains).posterior
    assert isinstance(posterior, SamplePosterior)
    for number, name in enumerate(("epsilon", "strength")):
        draws = posterior.samples[name]
        traces = marks(page, f"traces-{number + 1}")
        assert len(traces) == len(draws) == 3
        for trace, chain in zip(traces, draws, strict=True):
            # Five digits are kept.
            np.testing.assert_allclose(
                trace["y"], chain[array(trace["x"]).astype(int)], rtol=ROUNDED
            )
        for trace, chain in zip(marks(page, f"autocorrelations-{number + 1}"), draws, strict=True):
            centred = chain - chain.mean()
            lag = float(centred[:-7] @ centred[7:] / (centred @ centred))
            assert trace["y"][0] == 1
            assert trace["y"][7] == pytest.approx(lag, rel=ROUNDED, abs=1e-9)
        # Twice the rank; draws that repeat share one.
        everything = draws.ravel()
        rank = (everything < draws[..., None]).sum(-1) + (everything <= draws[..., None]).sum(-1)
        twentieth = np.minimum(10 * rank // draws.size, 19)
        for trace, row in zip(marks(page, f"ranks-{number + 1}"), twentieth, strict=True):
            share = array([(row == part).mean() for part in range(20)]) * 20
            np.testing.assert_allclose(trace["y"], share, rtol=ROUNDED)
        bulk, tail = marks(page, f"effective-draws-{number + 1}")
        known = posterior.diagnostics.parameters[name]
        assert bulk["y"][-1] == pytest.approx(known.bulk_effective_size, rel=ROUNDED)
        assert tail["y"][-1] == pytest.approx(known.tail_effective_size, rel=ROUNDED)
        assert bulk["x"][-1] == draws.size


def test_table_of_bases_has_their_counts(opened: Open, shelf: Shelf) -> None:
    evidence = shelf.evidence(chains)
    counts = evidence.posterior.counts
    rows = opened(chains).page.locator("#bases tbody tr").all()
    assert len(rows) == len(counts) == 6
    for index, row in enumerate(rows):
        name, positives, rate, negatives, other_rate, without = row.locator("td").all_inner_texts()
        assert name == counts.names[index]
        assert positives == f"{counts.false_positives[index]} of 100"
        assert float(rate) == counts.false_positive_rates[index]
        assert negatives == f"{counts.false_negatives[index]} of 100"
        assert float(other_rate) == counts.false_negative_rates[index]
        assert evidence.influence is not None
        low, high = (float(end) for end in without.removeprefix("about ").split(" to "))
        assert low == pytest.approx(evidence.influence.low[index], abs=0.00501)  # two decimals
        assert high == pytest.approx(evidence.influence.high[index], abs=0.00501)
