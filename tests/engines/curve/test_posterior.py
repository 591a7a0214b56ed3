"""Queries of the whole-curve posterior: consistent with each other, and unchanged after a file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import xarray
from arviz_stats import base as arviz_base

import epsilometer as em
from epsilometer.engines.curve.over_delta import JointDeltaCurve
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.estimate import estimate
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.verdict import Outcome, Verdict
from epsilometer.model.counts import counts_of
from tests.engines.curve.test_engine import gaussian_bases, pinned

CHANCES = np.linspace(0.0, 1.0, 41)
SCORES = gaussian_bases([0.5, 1.4, 1.8], 40, 30, seed=21)
NEW = em.Scores(
    without=[np.random.default_rng(1).standard_normal(10)],
    with_point=[1.0 + np.random.default_rng(2).standard_normal(12)],
    names=["new"],
)


@pytest.fixture(scope="module")
def posterior() -> Any:
    return estimate(SCORES, em.CurveModel(delta=1e-3))


# --- one parameter --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["epsilon", "shown", "strength"])
def test_answers_about_a_parameter_agree(posterior: CurvePosterior, name: str) -> None:
    values = posterior.quantile(name, CHANCES)
    assert np.all(np.diff(values) >= 0)
    assert np.all(np.isfinite(values))
    for chance in (0.2, 0.5, 0.9):
        value = float(posterior.quantile(name, chance))
        above = posterior.probability_above(name, value)
        # Equal, unless so much probability is at one point that the quantile stays there.
        assert above <= 1 - chance + 1e-9
        assert posterior.probability_above(name, value - 1e-6) >= 1 - chance - 1e-4
    low, high = posterior.credible_interval(name, 0.8)
    # 0.5 - 0.8 / 2 is 0.1 up to rounding.
    assert (low, high) == pytest.approx(posterior.quantile(name, [0.1, 0.9]).tolist(), rel=1e-12)
    assert low <= posterior.median(name) <= high
    # Mean and standard deviation by the quantile function: heavy tails need many chances.
    chances = (np.arange(200_001) + 0.5) / 200_001
    quantiles = posterior.quantile(name, chances)
    assert posterior.mean(name) == pytest.approx(quantiles.mean(), rel=2e-3)
    assert posterior.standard_deviation(name) == pytest.approx(quantiles.std(), rel=1e-2)


def test_shown_lies_between_single_bases_and_the_algorithm(posterior: CurvePosterior) -> None:
    shown = posterior.quantile("shown", CHANCES[1:-1])
    # Sums on a coarser axis for bases: a few hundredths.
    assert np.all(shown <= posterior.quantile("epsilon", CHANCES[1:-1]) * 1.02 + 0.02)
    for leak in posterior.leaks:
        assert np.all(leak.quantile(CHANCES[1:-1]) <= shown * 1.02 + 0.02)


def test_fixed_parameters(posterior: CurvePosterior) -> None:
    weak = estimate(SCORES, pinned(1e-3, strength=0.5))
    assert weak.parameters == ("epsilon", "shown")
    assert weak.quantile("strength", [0.1, 0.9]).tolist() == [0.5, 0.5]
    assert weak.full_strength_probability == 0.0
    assert posterior.parameters == ("epsilon", "shown", "strength")
    with pytest.raises(
        em.InputError, match="expected one of the parameters epsilon, shown, strength"
    ):
        posterior.median("tau")
    with pytest.raises(em.InputError, match="expected 0 <= probability <= 1"):
        posterior.quantile("epsilon", 1.5)
    # A weaker attack means a larger epsilon behind the same leak.
    assert weak.median("epsilon") > estimate(SCORES, pinned(1e-3)).median("epsilon")


# --- over delta -----------------------------------------------------------------------------------

DELTAS = np.array([1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.5])


def test_epsilon_falls_with_delta(posterior: CurvePosterior) -> None:
    curve = JointDeltaCurve(posterior=posterior, deltas=DELTAS[::-1])
    np.testing.assert_array_equal(curve.deltas, DELTAS)
    quantiles = curve.quantile([0.05, 0.5, 0.95])
    assert np.all(np.diff(quantiles, axis=1) <= 1e-9)
    assert np.all(np.diff(quantiles, axis=0) >= 0)
    expected = posterior.quantile("epsilon", [0.05, 0.5, 0.95])
    np.testing.assert_allclose(quantiles[:, 3], expected, rtol=1e-12)
    low, high = curve.credible_interval(0.9)
    np.testing.assert_allclose([low, high], quantiles[[0, 2]], rtol=1e-12)


def test_delta_is_the_other_way_to_read_the_curve(posterior: CurvePosterior) -> None:
    """P(delta at epsilon > d) is P(epsilon at d > epsilon): the same event."""
    for delta in (1e-4, 1e-3, 0.05):
        for chance in (0.2, 0.5, 0.8):
            epsilon = float(posterior.epsilon_at(delta).quantile(chance))
            if epsilon > 0:
                found = posterior.delta_at(epsilon).probability_above(delta)
                # Straight lines between the ends of cells, in epsilon and in delta.
                assert found == pytest.approx(1 - chance, abs=0.01)
    values = [float(posterior.delta_at(epsilon).quantile(0.9)) for epsilon in (0.0, 1.0, 4.0, 9.0)]
    assert np.all(np.diff(values) < 0)
    assert 0 <= values[-1] < values[0] <= 1
    with pytest.raises(em.InputError, match="expected epsilon >= 0"):
        posterior.delta_at(-1.0)


def test_the_joint_band_holds_whole_curves_with_its_probability(
    posterior: CurvePosterior,
) -> None:
    curve = JointDeltaCurve(posterior=posterior, deltas=DELTAS)
    low, high = curve.joint_band(0.8)
    single_low, single_high = curve.credible_interval(0.8)
    assert np.all(low <= single_low)
    assert np.all(high >= single_high)
    size = 4000
    drawn = posterior.draw_bases(size, rng=np.random.default_rng(3))
    held = 0
    for number in np.unique(drawn["family"]).astype(int).tolist():
        epsilon = drawn["epsilon"][drawn["family"] == number]
        values = np.zeros((len(epsilon), len(DELTAS)))
        if number >= 0:
            curves = posterior.solution.components[number].curves
            leaks = np.linspace(0.0, curves.largest_leak(float(epsilon.max()) + 0.1, 1e-3), 4001)
            leak = np.interp(epsilon, curves.epsilon(leaks, 1e-3), leaks)
            values = np.stack([curves.epsilon(leak, delta) for delta in DELTAS.tolist()], axis=1)
        # Up to half a cell of the axis, by which draws are shifted.
        inside = (values >= low * 0.97 - 1e-3) & (values <= high * 1.03 + 1e-3)
        held += int(inside.all(axis=1).sum())
    # At least the level, less 4.5 standard errors.
    assert held / size > 0.8 - 4.5 * np.sqrt(0.8 * 0.2 / size)
    assert held / size < 0.95


def verdict_on(posterior: CurvePosterior, claim: Any, **asked: Any) -> Verdict:
    """The verdict on a claim at all deltas."""
    question = Question(claim=claim, deltas=tuple(DELTAS.tolist()), **asked)
    verdict = result_of(posterior, question).verdict
    assert verdict is not None
    return verdict


def test_claims_about_the_whole_curve(posterior: CurvePosterior) -> None:
    median = {delta: float(posterior.epsilon_at(delta).quantile(0.5)) for delta in DELTAS.tolist()}
    curve = JointDeltaCurve(posterior=posterior, deltas=DELTAS)
    single = curve.probability_above(median)
    np.testing.assert_allclose(single, 0.5, atol=0.02)
    anywhere = curve.probability_anywhere(median)
    assert max(single) <= anywhere <= min(1.0, sum(single))
    middle = verdict_on(posterior, median.__getitem__)
    assert (middle.label, middle.leaning) == ("INCONCLUSIVE", Outcome.INCONCLUSIVE)
    assert middle.probability_above == anywhere
    assert verdict_on(posterior, 500.0).outcome is Outcome.PASS
    assert verdict_on(posterior, 0.01).outcome is Outcome.FAIL
    untrusted = replace(posterior, accuracy=replace(posterior.accuracy, error=1.0))
    assert not JointDeltaCurve(posterior=untrusted, deltas=DELTAS).trustworthy
    nothing = verdict_on(untrusted, 500.0)
    assert (nothing.label, nothing.leaning) == ("INCONCLUSIVE", Outcome.PASS)
    assert "did not reach its accuracy" in nothing.meaning
    assert verdict_on(untrusted, 500.0, accept_untrusted=True).label == "PASS (judged)"
    # Thresholds are those of the question.
    limits = em.judgement.Thresholds(pass_at_most=anywhere + 0.01, fail_at_least=1.0)
    moved = verdict_on(posterior, median.__getitem__, thresholds=limits)
    assert (moved.leaning, moved.thresholds) == (Outcome.PASS, limits)


def test_extrapolation_is_marked(posterior: CurvePosterior) -> None:
    """With 40 models rates below 1 / 40 cannot be seen; more models move the limit down."""
    below = posterior.extrapolated_below_delta
    assert posterior.finest_rate == 1 / 40
    assert 0 < below < 1
    many = estimate(gaussian_bases([1.0], 2000, 2000, seed=22), pinned(1e-3))
    few = estimate(gaussian_bases([1.0], 50, 50, seed=22), pinned(1e-3))
    assert many.extrapolated_below_delta < few.extrapolated_below_delta
    curve = JointDeltaCurve(posterior=few, deltas=[1e-9, 0.3])
    assert curve.extrapolated.tolist() == [True, False]
    assert any("no score is there" in note for note in curve.notes())
    # For a Gaussian with separation mu: where its curve has slope e^epsilon at 1 / 50.
    mu = float(np.interp(few.median("epsilon"), em.families.Gaussian().epsilon(
        np.linspace(0, 4, 4001), 1e-3), np.linspace(0, 4, 4001)))  # fmt: skip
    score = 2.0537489106318225  # the 98 % quantile of the normal distribution
    expected = float(em.families.Gaussian().delta(mu, mu * score - mu * mu / 2)[0])
    assert few.extrapolated_below_delta == pytest.approx(expected, rel=0.05)


# --- trade-off functions --------------------------------------------------------------------------


def test_bands_of_trade_off_functions(posterior: CurvePosterior) -> None:
    rates, chances = np.linspace(0.0, 1.0, 41), [0.05, 0.5, 0.95]
    for base in (None, 0, 2):
        found = posterior.trade_off(rates, chances, base=base)
        assert found.shape == (3, 41)
        assert np.all(np.diff(found, axis=0) >= -1e-9)  # quantiles in order
        assert np.all(np.diff(found, axis=1) <= 1e-9)  # fewer misses for more false alarms
        assert np.all((found >= -1e-9) & (found <= 1 - rates + 1e-9))
    # The base that leaks more has the lower curve, the algorithm's own is lower still.
    weak, strong, algorithm = (
        posterior.trade_off([0.2], [0.5], base=base)[0, 0] for base in (0, 2, None)
    )
    assert algorithm <= strong + 0.01
    assert strong < weak


def test_trade_off_of_one_family_is_that_of_its_leaks() -> None:
    only = estimate(SCORES, pinned(1e-3))
    chances, rates = np.array([0.1, 0.5, 0.9]), np.array([0.01, 0.1, 0.5])
    epsilon = only.quantile("epsilon", 1 - chances)
    leaks = np.linspace(0, 4, 8001)
    mu = np.interp(epsilon, em.families.Gaussian().epsilon(leaks, 1e-3), leaks)
    expected = (
        1 - em.families.Curves(family=em.families.Gaussian()).seen_true_positives(rates, mu).T
    )
    np.testing.assert_allclose(only.trade_off(rates, chances), expected, atol=2e-3)


def test_trade_off_of_randomised_response_is_straight_between_corners() -> None:
    rng = np.random.default_rng(5)
    member = np.arange(2000) >= 1000
    score = em.families.RandomizedResponse().sample(1.5, member, rng=rng)
    scores = em.Scores(without=[score[:1000]], with_point=[score[1000:]])
    model = replace(pinned(1e-5), families=(em.families.RandomizedResponse(),))
    only = estimate(scores, model)
    found = only.trade_off(np.linspace(0.0, 0.1, 11), [0.5])[0]
    np.testing.assert_allclose(np.diff(found, n=2), 0.0, atol=1e-9)
    # Slope -e^epsilon at 0, epsilon the median, which is the truth up to sampling error.
    slope = (found[0] - found[1]) / 0.01
    assert np.log(slope) == pytest.approx(only.median("epsilon"), abs=0.02)


# --- files ----------------------------------------------------------------------------------------

MODELS = {
    "whole": em.CurveModel(delta=1e-3),
    "pinned": pinned(1e-5),
    "other choices": em.CurveModel(
        delta=0.01,
        epsilon=em.priors.LogNormal(median=2.0, log_scale=0.5),
        families=(em.families.TwoVariances(spread=0.2), em.families.Laplace()),
        mixing=em.families.KnownMixing(rate=0.5),
        strength=em.families.FreeStrengths(best_possible=0.25),
        no_leak=0.2,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_restored_posterior_answers_identically(name: str, tmp_path: Path) -> None:
    posterior = estimate(SCORES, MODELS[name])
    path = tmp_path / "posterior.nc"
    posterior.save(path)
    restored = em.load(path)
    assert isinstance(restored, CurvePosterior)
    assert restored.scores == posterior.scores
    assert restored.model == posterior.model
    assert restored.provenance == posterior.provenance
    assert restored.accuracy == posterior.accuracy
    assert restored.engine == posterior.engine
    assert restored.log_evidence == posterior.log_evidence
    assert restored.families == posterior.families
    for parameter in ("epsilon", "shown", "strength"):
        np.testing.assert_array_equal(
            restored.quantile(parameter, CHANCES), posterior.quantile(parameter, CHANCES)
        )
    one, two = (each.draw_bases(50, rng=np.random.default_rng(1)) for each in (restored, posterior))
    for key, values in one.items():
        np.testing.assert_array_equal(values, two[key])
    restored.save(tmp_path / "again.nc")
    assert em.load(tmp_path / "again.nc").mean("epsilon") == posterior.mean("epsilon")
    # Numbers and text only: nothing in the file could be executed.
    assert b"pickle" not in path.read_bytes()
    with h5py.File(path) as file:
        kinds: set[str] = set()
        file.visititems(
            lambda _, item: kinds.add(item.dtype.kind) if hasattr(item, "dtype") else None
        )
    assert kinds <= {"f", "i", "u", "O", "S"}


def test_counts_and_names_come_back(tmp_path: Path) -> None:
    counts = counts_of([3, 4], 20, [5, 6], 20, names=["Größe 日本", 'a "b"'])
    posterior = estimate(counts, pinned(1e-3))
    posterior.save(tmp_path / "p.nc")
    restored = em.load(tmp_path / "p.nc")
    assert isinstance(restored, CurvePosterior)
    assert restored.scores == em.Scores.of_counts(counts)
    assert restored.median("epsilon") == posterior.median("epsilon")


def test_arviz_reads_the_tree(posterior: CurvePosterior, tmp_path: Path) -> None:
    posterior.save(tmp_path / "p.nc")
    with xarray.open_datatree(tmp_path / "p.nc", engine="h5netcdf") as tree:
        draws = tree["posterior"]
        assert draws["epsilon"].dims == ("chain", "draw")
        assert draws["leak"].dims == ("chain", "draw", "base")
        assert tree["observed_data/challenge_base"].to_numpy().tolist() == ["0", "1", "2"]
        assert json.loads(tree.attrs["model"])["mixing"]["name"] == "FreeMixing"
        stored = np.asarray(draws["epsilon"].values)
    array_stats: Any = arviz_base.array_stats  # type: ignore[attr-defined]
    # Stored draws are independent, as their effective number shows.
    assert array_stats.ess(stored, chain_axis=0, draw_axis=1) > 0.8 * stored.size
    low, high = array_stats.eti(stored.ravel(), prob=0.9, axis=-1)
    expected = posterior.credible_interval("epsilon", 0.9)
    for found, value, chance in ((low, expected[0], 0.05), (high, expected[1], 0.95)):
        error = array_stats.mcse(stored, chain_axis=0, draw_axis=1, method="quantile", prob=chance)
        # 4.5 standard errors, and the engine's own tolerance.
        assert abs(float(found) - value) < 4.5 * float(error) + 0.01 * max(1.0, value)


def other_model(old: str, new: str) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file.attrs["model"] = str(file.attrs["model"]).replace(old, new)

    return change


DAMAGES: dict[str, Callable[[Any], Any]] = {
    "log likelihood": lambda file: file["grid/logs_0"].write_direct(file["grid/logs_0"][()] + 1e-3),
    "label": lambda file: file["observed_data/ones"].write_direct(
        file["observed_data/ones"][()] + 1
    ),
    "missing": lambda file: file["grid"].pop("leaks_0"),
    "model": other_model("HalfNormal", "Fixed"),
    "kind": other_model('"Gaussian"', '"os.system"'),
}


def test_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    estimate(SCORES, pinned(1e-3)).save(tmp_path / "whole.nc")
    for damage in DAMAGES.values():
        path = Path(shutil.copy(tmp_path / "whole.nc", tmp_path / "p.nc"))
        with h5py.File(path, "r+") as file:
            damage(file)
        with pytest.raises(em.InputError, match=r"p\.nc: "):
            em.load(path)


# --- updating -------------------------------------------------------------------------------------


def test_updating_is_estimating_from_all(posterior: CurvePosterior) -> None:
    after = posterior.update(NEW)
    whole = estimate(SCORES.joined(NEW), posterior.model)
    np.testing.assert_array_equal(
        after.quantile("epsilon", CHANCES), whole.quantile("epsilon", CHANCES)
    )
    assert after.log_evidence == whole.log_evidence
    # More models of an existing base.
    more = em.Scores(without=[[0.1, 0.3]], with_point=[[1.1]], names=["0"])
    joined = posterior.update(more).scores
    assert joined.names == SCORES.names
    assert joined.trials_h0.tolist() == [42, 40, 40]
    with pytest.raises(em.InputError, match="expected Scores to update with, got AttackCounts"):
        posterior.update(
            em.AttackCounts(false_positives=[1], trials_h0=2, false_negatives=[1], trials_h1=2)
        )


def test_another_prior_is_estimating_with_it(posterior: CurvePosterior) -> None:
    prior = em.priors.HalfNormal(scale=2.0)
    found = posterior.with_prior(prior)
    expected = estimate(SCORES, replace(posterior.model, epsilon=prior))
    # Tables of another length: twice the engine's tolerance.
    np.testing.assert_allclose(
        found.quantile("epsilon", [0.05, 0.5, 0.95]),
        expected.quantile("epsilon", [0.05, 0.5, 0.95]),
        rtol=0.02,
    )


def test_a_prior_too_narrow_for_the_axis_is_solved_anew(posterior: CurvePosterior) -> None:
    prior, chances = em.priors.LogNormal(median=3.0, log_scale=0.01), [0.05, 0.5, 0.95]
    expected = prior.quantile(chances)  # so narrow that the scores change nothing
    found = posterior.with_prior(prior)
    np.testing.assert_allclose(found.quantile("epsilon", chances), expected, rtol=1e-3)
    # Control: on the axis of the first prior it would be twice as wide.
    same = replace(found, solution=posterior.solution.under(found.model))
    assert np.ptp(same.quantile("epsilon", chances)) > 1.5 * np.ptp(expected)
