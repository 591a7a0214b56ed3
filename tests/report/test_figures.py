"""Figures must show the posterior's own numbers, and draw for every odd case."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.inference.diagnostics import diagnose
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.provenance import Provenance
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.model.region import critical_epsilon
from epsilometer.report import figures


def counts(positives: object, negatives: object, trials: int) -> em.AttackCounts:
    return em.AttackCounts(
        false_positives=positives,  # type: ignore[arg-type]
        trials_h0=trials,
        false_negatives=negatives,  # type: ignore[arg-type]
        trials_h1=trials,
    )


TWO = counts([10, 30], [20, 30], 100)


def exact(observed: em.AttackCounts = TWO, **model: object) -> Posterior:
    return em.estimate(observed, em.AuditModel(delta=0.01, **model))  # type: ignore[arg-type]


def sampled(
    observed: em.AttackCounts = TWO,
    *,
    chains: int = 3,
    scale: float = 1.0,
    centre: float = 0.5,
    **model: object,
) -> SamplePosterior:
    audit = em.AuditModel(delta=0.01, **model)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    samples = {
        name: np.clip(centre + scale * (rng.random((chains, 400)) - 0.5), 0, 1)
        for name in audit.parameters
    }
    return SamplePosterior(
        counts=observed,
        model=audit,
        provenance=Provenance.now(engine="mcmc", settings={}, seconds=1.0, seed=7),
        samples=samples,
        diagnostics=diagnose(samples, acceptance_rate=0.25),
    )


def test_shading_is_the_probability_of_holding_the_point() -> None:
    posterior = exact()
    points = np.linspace(0.01, 0.99, 23)
    shade = figures.region_probability(posterior, points[None, :], points[:, None])
    critical = critical_epsilon(points[None, :], points[:, None], 0.01)
    expected = np.vectorize(lambda e: posterior.probability_above("epsilon", e))(critical)
    # Linear interpolation between a thousand quantiles.
    np.testing.assert_allclose(shade, expected, atol=1e-3)


def test_boundary_points_have_the_stated_epsilon() -> None:
    for epsilon in (0.1, 1.0, 8.0):
        x, y = figures.region_boundary(epsilon, 0.05)
        assert critical_epsilon(x[1], y[1], 0.05) == pytest.approx(epsilon, rel=1e-12)
        middle = critical_epsilon((x[0] + x[1]) / 2, (y[0] + y[1]) / 2, 0.05)
        assert middle == pytest.approx(epsilon, rel=1e-9)


def test_region_figure_shows_attacks_and_quantiles() -> None:
    posterior = exact()
    axes = figures.region_figure(posterior, level=0.8).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    dots = lines["attacks (2)"]
    np.testing.assert_array_equal(dots.get_xdata(), TWO.false_positive_rates)
    np.testing.assert_array_equal(dots.get_ydata(), TWO.false_negative_rates)
    median = next(line for label, line in lines.items() if str(label).startswith("median"))
    corner = critical_epsilon(median.get_xdata()[1], median.get_ydata()[1], 0.01)  # type: ignore[index]
    assert float(corner) == pytest.approx(posterior.median("epsilon"), rel=1e-9)
    assert axes.get_xlabel() == "false-positive rate"
    assert axes.get_ylabel() == "false-negative rate"
    assert any("80 % interval" in str(label) for label in lines)


def test_marginals_figure_shows_density_interval_and_prior() -> None:
    posterior = exact()
    figure = figures.marginals_figure(posterior, level=0.9)
    for axes, name in zip(figure.axes, ("epsilon", "strength"), strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        x = np.asarray(lines["posterior"].get_xdata(), dtype=float)
        shown = np.asarray(lines["posterior"].get_ydata(), dtype=float)
        np.testing.assert_allclose(shown, posterior.density(name, x))
        prior = getattr(posterior.model, name)
        shown = np.asarray(lines["prior"].get_ydata(), dtype=float)
        np.testing.assert_allclose(shown, np.exp(prior.log_density(x)))
        low, high = posterior.credible_interval(name, 0.9)
        assert low in x
        assert high in x


def test_priors_of_the_correlations_integrate_to_one() -> None:
    posterior = sampled(likelihood=em.CorrelatedNormal())
    for name, low, high in (
        ("within_correlation", -0.02, 0.08),
        ("cross_correlation", -0.12, 0.12),
    ):
        x = np.linspace(low, high, 20_001)
        total = np.trapezoid(figures.prior_density(posterior, name, x), x)
        # The prior of tau jumps at its lower end, the average over tau has 2000 terms.
        assert total == pytest.approx(1.0, abs=2e-3)


def test_joint_density_has_the_posteriors_means() -> None:
    posterior = exact()
    epsilon, strength, density = figures.joint_density(posterior)
    area = np.diff(epsilon)[:, None] * np.diff(strength)
    assert float((density * area).sum()) == pytest.approx(1.0)
    middle = 0.5 * (strength[1:] + strength[:-1])
    mean = float((density * area * middle).sum())
    # The figure leaves out half a per cent in the tails.
    assert mean == pytest.approx(posterior.mean("strength"), abs=0.02)


def test_autocorrelation_against_its_definition() -> None:
    rng = np.random.default_rng(1)
    chain = np.cumsum(rng.standard_normal(300))
    centred = chain - chain.mean()
    slow = [
        float(centred[: len(chain) - lag] @ centred[lag:] / (centred @ centred)) for lag in range(6)
    ]
    np.testing.assert_allclose(figures.autocorrelation(chain, 5), slow, atol=1e-12)
    assert figures.autocorrelation(np.ones(50), 3).tolist() == [1, 0, 0, 0]


def test_traces_show_every_chain() -> None:
    posterior = sampled(chains=3)
    axes = figures.trace_figure(posterior).axes[0]
    assert len(axes.lines) == 3
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), posterior.samples["epsilon"][1])


BOTH = {"region.png", "joint.png", "marginals.png"}
CHAINS = {"traces.png", "autocorrelations.png"}
MANY = counts(np.arange(10_000) % 40, np.arange(10_000) % 37, 100)


@pytest.mark.parametrize(
    ("posterior", "expected"),
    [
        pytest.param(lambda: exact(counts([200], [200], 500)), BOTH, id="one base"),
        pytest.param(lambda: exact(counts([10, 0, 12], [0, 0, 1], 100)), BOTH, id="large epsilon"),
        pytest.param(
            lambda: sampled(chains=2, centre=2e-4, scale=1e-4), BOTH | CHAINS, id="tiny epsilon"
        ),
        pytest.param(
            lambda: exact(strength=em.Fixed(value=0.5)),
            {"region.png", "marginals.png"},
            id="fixed strength",
        ),
        pytest.param(
            lambda: exact(epsilon=em.Fixed(value=2.0)),
            {"region.png", "marginals.png"},
            id="fixed epsilon",
        ),
        pytest.param(lambda: sampled(MANY), BOTH | CHAINS, id="10,000 bases"),
        pytest.param(
            lambda: sampled(chains=1, likelihood=em.CorrelatedNormal()), BOTH | CHAINS, id="four"
        ),
        pytest.param(lambda: sampled(scale=1e-9, chains=8), BOTH | CHAINS, id="narrow"),
        pytest.param(lambda: sampled(scale=0.0), BOTH | CHAINS, id="chains that never moved"),
        pytest.param(lambda: sampled(centre=0.0, scale=1e-12), BOTH | CHAINS, id="at zero"),
    ],
)
def test_every_figure_draws(posterior: object, expected: set[str], tmp_path: Path) -> None:
    made = figures.figures(posterior())  # type: ignore[operator]
    assert set(made) == expected
    assert set(figures.FIGURE_NAMES) >= expected
    for name, figure in made.items():
        figures.save_figure(figure, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert figure.get_suptitle() or figure.axes[0].get_title()


def test_same_posterior_same_picture() -> None:
    posterior = exact()
    first, second = (io.BytesIO(), io.BytesIO())
    for target in (first, second):
        figures.joint_figure(posterior).savefig(target, format="png", metadata={"Software": None})
    assert first.getvalue() == second.getvalue()
