"""Scores of gradient canaries, and the model for them: formulas, simulations, exact composition."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.training.accounting import FEW_PARTICIPATIONS, accounted_epsilon, canary_model
from epsilometer.training.canary_scores import NoisyCoordinates
from tests.training.test_dp_sgd import usual

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]


def test_ratios_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(7, 4))
    q, s = 0.2, 1.3
    sums = NoisyCoordinates(4)
    for row in x:
        sums.add(row, noise_multiplier=s, sampling_rate=q)
    expected = np.log(1 - q + q * np.exp(x / s**2 - 1 / (2 * s**2))).sum(axis=0)
    np.testing.assert_allclose(sums.scores(q), expected, rtol=1e-12)


def test_rates_and_noise_at_their_ends() -> None:
    whole, silent = NoisyCoordinates(3), NoisyCoordinates(3)
    x = np.array([0.0, 1.0, 3.0])
    whole.add(x, noise_multiplier=2.0, sampling_rate=1.0)
    np.testing.assert_allclose(whole.scores(1.0), (x - 0.5) / 4)
    silent.add(1e6 * x, noise_multiplier=0.0, sampling_rate=0.5)
    np.testing.assert_allclose(silent.scores(0.5), 1e6 * x)
    # No overflow far out.
    whole.add(1e9 * x, noise_multiplier=0.1, sampling_rate=0.5)
    assert np.isfinite(whole.scores(0.5)).all()


def simulated(*, repeated: bool, steps: int = 60, rate: float = 0.2) -> tuple[Any, Any]:
    """Coins and sums of 2,000 canaries with noise 2, new in every step or always the same."""
    rng = np.random.default_rng(3)
    coins, sums = rng.random(2000) < 0.5, NoisyCoordinates(2000)
    noise = rng.normal(size=2000)
    for _ in range(steps):
        noise = noise if repeated else rng.normal(size=2000)
        # Gradients of records that are not subtracted add a little noise too.
        x = 2 * noise + 0.05 * rng.normal(size=2000) + (coins & (rng.random(2000) < rate))
        sums.add(x, noise_multiplier=2.0, sampling_rate=rate)
    return coins, sums


def sides(scores: Any, coins: Any) -> em.Scores:
    return em.Scores.of_canaries(scores[coins], scores[~coins])


def test_noise_that_repeats_is_seen_by_the_variance_over_steps() -> None:
    coins, sums = simulated(repeated=True)
    assert not sums.explained(0.2)
    assert sides(sums.scores(0.2), coins).bases[0].auc() > 0.99
    assert sides(sums.log_ratio, coins).bases[0].auc() < 0.6  # the default score detects little
    coins, sums = simulated(repeated=False)
    assert sums.explained(0.2)
    np.testing.assert_array_equal(sums.scores(0.2), sums.log_ratio)


# --- what is assumed ------------------------------------------------------------------------------


def ideal_scores(noise: float, rate: float, steps: int, count: int) -> em.Scores:
    """Canaries whose coordinates have the distribution of the claim."""
    rng = np.random.default_rng(7)
    member, sums = rng.random(count) < 0.5, NoisyCoordinates(count)
    for _ in range(steps):
        x = noise * rng.standard_normal(count) + (member & (rng.random(count) < rate))
        sums.add(x, noise_multiplier=noise, sampling_rate=rate)
    return sides(sums.scores(rate), member)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "least"),
    [
        (2.0, 0.1, 1, 0.4),  # one step: the mixture is exact, with little data
        pytest.param(0.7, 0.3, 1, 0.9, marks=pytest.mark.slow),
        pytest.param(0.7, 0.1, 7, 0.55, marks=pytest.mark.slow),
        pytest.param(2.0, 0.1, 30, 0.7, marks=pytest.mark.slow),
        pytest.param(2.0, 0.1, 300, 0.9, marks=pytest.mark.slow),
        (5.0, 0.2, 300, 0.9),
    ],
)
def test_estimates_are_near_the_exact_composition_and_not_above(
    noise: float, rate: float, steps: int, least: float
) -> None:
    done = [(noise, rate, steps)]
    model = canary_model(done, 1e-5)
    if rate * steps <= FEW_PARTICIPATIONS:
        assert getattr(model.mixing, "rate", None) == pytest.approx(1 - (1 - rate) ** steps)
    else:
        assert model.mixing == em.families.NoMixing()
    posterior = estimate(ideal_scores(noise, rate, steps, 10000), model)
    exact = accounted_epsilon(done, 1e-5)
    low, middle = posterior.quantile("epsilon", [0.01, 0.5])
    assert low < exact
    assert middle > least * exact


def test_every_record_in_every_step_is_no_mixture() -> None:
    assert canary_model([(2.0, 1.0, 2)], 1e-5).mixing == em.families.NoMixing()
    assert usual(gradient_canaries=5).canary_model(1e-3).delta == 1e-3
    assert accounted_epsilon([], 0.1) == 0.0


# --- examples -------------------------------------------------------------------------------------

FOLDER = Path(__file__).parents[2] / "examples" / "gradient-canaries"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """``audit.py`` of the example, next to its ``training.py``."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("audit", "training"):  # other examples have such modules, too
        sys.modules.pop(name, None)
    yield importlib.import_module("audit")
    for name in ("audit", "training"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("steps", "low"), [((3.0, 1 / 11, 2200), False), ((0.7, 0.01, 3000), True)]
)
def test_a_model_that_reads_low_never_passes(steps: tuple[float, float, int], low: bool) -> None:
    """Little noise: the curve is not Gaussian, and canaries show less than epsilon."""
    model = canary_model([steps], 1e-5)
    assert model.reads_low is low
    rng = np.random.default_rng(1)
    scores = em.Scores.of_canaries(rng.normal(1.0, size=2000), rng.normal(size=2000))
    verdict = em.judge(estimate(scores, model), claim=20.0)
    assert verdict.label == ("INCONCLUSIVE" if low else "PASS (judged)")
    assert any("known to underestimate epsilon" in reason for reason in verdict.reasons) is low


def labels(example: ModuleType, name: str, seeds: Iterator[int] | range) -> list[str]:
    algorithm = example.training.ALGORITHMS[name]
    dataset = em.datasets.load_population("digits").take(np.arange(500))
    rows = [example.row(name, algorithm, dataset, seed) for seed in seeds]
    return [row.split("|")[-2].strip() for row in rows]


@pytest.mark.parametrize(("name", "fails"), [("correct", False), ("batches clipped", True)])
def test_the_example(example: ModuleType, name: str, fails: bool) -> None:
    assert [label.startswith("FAIL") for label in labels(example, name, range(1, 2))] == [fails]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("own_loop", ["--epochs", "1", "--canaries", "400"], "claimed: epsilon = "),
        ("white_box", ["--seeds", "1", "--steps", "11", "--canaries", "400"], "| 1 | 0."),
    ],
)
def test_the_other_scripts(
    name: str,
    options: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    if name == "white_box":
        options = [*options, "--output", str(tmp_path / "found.json")]
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [name, *options])
    importlib.import_module(name).main()
    sys.modules.pop(name)
    assert words in capsys.readouterr().out


@pytest.mark.slow
def test_every_slip_is_exposed(example: ModuleType) -> None:
    for name in example.training.ALGORITHMS:
        found = labels(example, name, range(1, 6))
        assert [label.startswith("FAIL") for label in found] == 5 * [name != "correct"], name
