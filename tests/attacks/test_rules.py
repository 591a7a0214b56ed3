"""One contract for every attack, and the false-positive rate of each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm, t

from epsilometer.attacks.losses import Losses
from epsilometer.attacks.rules import (
    ATTACKS,
    Attack,
    CrossFedScores,
    LikelihoodRatio,
    Offline,
    PooledVariance,
    Shadows,
    Threshold,
)
from epsilometer.measurement.designs import CrossFed, cross_feed
from tests.attacks.test_result import losses_of

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
NAN = float("nan")

#: Closed forms and sums in another order: moments agree to 1e-8 at worst (see test_shadows), to
#: 1e-12 on the plain data here, and p-values change by less than their scores in standard units.
CLOSE = 1e-9

#: Standard errors allowed to a simulated rate: P(|Z| > 5) = 6e-7, times 20 rates here: 1.2e-5.
Z = 5.0

every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
alone = pytest.mark.parametrize(
    "attack", [a for a in ATTACKS.values() if a.name != "pooled-variance"], ids=lambda a: a.name
)
one_sided = pytest.mark.parametrize("attack", [Offline(), Threshold()], ids=lambda a: a.name)


def scores(*, holes: bool = False) -> tuple[FloatArray, FloatArray]:
    """Five bases of 12 models under H0 and 9 under H1; higher scores under H1."""
    rng = np.random.default_rng(11)
    scale = np.array([[1.0], [0.3], [4.0], [1.0], [2.0]])
    h0 = scale * rng.standard_normal((5, 12))
    h1 = scale * (1.0 + np.array([[1.0], [0.5], [2.0], [1.0], [1.5]]) * rng.standard_normal((5, 9)))
    h0[4] = h0[4].round()  # ties
    h1[4] = h1[4].round()
    if holes:
        h0[0, [0, 7]] = NAN
        h1[0, 3:] = NAN
        h0[1, 3:] = NAN
        h1[2, 2:] = NAN
        h0[3, 1:] = NAN
    return h0, h1


def cross_fed(attack: Attack, h0: FloatArray, h1: FloatArray) -> tuple[FloatArray, FloatArray]:
    return (
        attack.learn(CrossFedScores(h0), Shadows(h1))(h0),
        attack.learn(Shadows(h0), CrossFedScores(h1))(h1),
    )


def challenges(h0: FloatArray, h1: FloatArray) -> Iterator[tuple[int, int, int]]:
    """Hypothesis, base and model of each existing score."""
    for hypothesis, part in enumerate((h0, h1)):
        for base, model in np.argwhere(~np.isnan(part)).tolist():
            yield hypothesis, base, model


def enough_shadows(attack: Attack, h0: FloatArray, h1: FloatArray, hypothesis: int) -> BoolArray:
    """Which bases have the shadows that the attack needs, for challenges under this hypothesis."""
    sizes = [np.sum(~np.isnan(part), axis=1) for part in (h0, h1)]
    sizes[hypothesis] = sizes[hypothesis] - 1
    least_h0, least_h1 = attack.least_shadows
    return np.asarray((sizes[0] >= least_h0) & (sizes[1] >= least_h1))


@every_attack
class TestContract:
    """Run on every attack that ships."""

    def test_named(self, attack: Attack) -> None:
        assert ATTACKS[attack.name] is attack
        least_h0, least_h1 = attack.least_shadows
        assert least_h0 >= 1
        assert least_h1 >= 0

    @pytest.mark.parametrize("holes", [False, True])
    def test_p_values_are_probabilities(self, attack: Attack, holes: bool) -> None:
        """NaN only for want of a challenge or of shadows."""
        h0, h1 = scores(holes=holes)
        for hypothesis, (part, p) in enumerate(
            zip((h0, h1), cross_fed(attack, h0, h1), strict=True)
        ):
            assert p.shape == part.shape
            assert np.all(np.isnan(p) | ((p >= 0) & (p <= 1)))
            enough = enough_shadows(attack, h0, h1, hypothesis)[:, None] & ~np.isnan(part)
            assert not np.isnan(p[enough]).any()
            assert np.isnan(p[np.isnan(part)]).all()

    def test_through_a_design_nan_is_exactly_there(self, attack: Attack) -> None:
        h0, h1 = scores(holes=True)
        result = cross_feed(losses_of_scores(h0, h1), attack)
        answered = [
            np.sum(~np.isnan(part), axis=1) * enough_shadows(attack, h0, h1, hypothesis)
            for hypothesis, part in enumerate((h0, h1))
        ]
        kept = [base for base in range(5) if answered[0][base] and answered[1][base]]
        assert [int(name) for name in result.names] == kept
        for hypothesis, p in enumerate((result.p_values_h0, result.p_values_h1)):
            found = np.sum(~np.isnan(p), axis=1)
            assert found.tolist() == answered[hypothesis][kept].tolist()

    @pytest.mark.parametrize("holes", [False, True])
    def test_cross_feeding_is_the_slow_loop(self, attack: Attack, holes: bool) -> None:
        """Each challenge alone, with its own score removed from separate shadows."""
        h0, h1 = scores(holes=holes)
        found = cross_fed(attack, h0, h1)
        for hypothesis, base, model in challenges(h0, h1):
            parts = [h0.copy(), h1.copy()]
            challenge = parts[hypothesis][:, [model]].copy()
            parts[hypothesis][base, model] = NAN
            expected = attack.learn(Shadows(parts[0]), Shadows(parts[1]))(challenge)[base, 0]
            assert found[hypothesis][base, model] == pytest.approx(
                expected, rel=0, abs=CLOSE, nan_ok=True
            )

    def test_members_have_lower_p_values(self, attack: Attack) -> None:
        """Far apart, at a clear rate: all of H1 called members, few of H0."""
        rng = np.random.default_rng(14)
        h0, h1 = rng.standard_normal((3, 40)), 20 + rng.standard_normal((3, 40))
        p0, p1 = cross_fed(attack, h0, h1)
        assert (p1 <= 0.05).all()
        assert np.mean(p0 <= 0.05) < 0.2

    def test_shared_and_own_shadows_agree(self, attack: Attack) -> None:
        h0, h1 = scores()
        asked = h1[:, :4]
        shared = attack.learn(Shadows(h0), Shadows(h1))(asked)
        own = [np.repeat(part[:, None], 4, axis=1) for part in (h0, h1)]
        found = attack.learn(Shadows(own[0]), Shadows(own[1]))(asked)
        np.testing.assert_allclose(found, shared, rtol=0, atol=CLOSE)

    def test_a_rule_leaves_the_scores_alone(self, attack: Attack) -> None:
        h0, h1 = scores(holes=True)
        before = h0.copy(), h1.copy()
        cross_fed(attack, h0, h1)
        np.testing.assert_array_equal(h0, before[0])
        np.testing.assert_array_equal(h1, before[1])

    def test_all_scores_equal(self, attack: Attack) -> None:
        """Indistinguishable models: none is called a member at any rate below 1."""
        same = np.full((2, 5), 0.1)
        for p in cross_fed(attack, same, same):
            assert (p == 1).all()

    def test_no_spread_but_apart(self, attack: Attack) -> None:
        """An algorithm without randomness: H1 is recognised as well as the attack's steps allow."""
        h0, h1 = np.full((2, 5), 0.1), np.full((2, 5), 0.2)
        p0, p1 = cross_fed(attack, h0, h1)
        assert (p0 == 1).all()
        assert (p1 == (1 / 6 if attack.name == "threshold" else 0)).all()


def losses_of_scores(h0: FloatArray, h1: FloatArray) -> Losses:
    """Losses whose negatives are these scores."""
    return losses_of(-h0, -h1)


@every_attack
def test_a_base_without_models_under_h0(attack: Attack) -> None:
    """No p-value, and no warning."""
    h0, h1 = scores()
    h0[2] = NAN
    p0, _ = cross_fed(attack, h0, h1)
    assert np.isnan(p0[2]).all()
    assert not np.isnan(np.delete(p0, 2, axis=0)).any()


@every_attack
@pytest.mark.parametrize("exponent", [-900, -600, 3, 600, 900])
def test_units_do_not_matter(attack: Attack, exponent: int) -> None:
    """Losses of 1e-180 occur: log1p(exp(-414)) in double precision.  Powers of two are exact."""
    h0, h1 = scores()
    plain = cross_fed(attack, h0, h1)
    scaled = cross_fed(attack, np.ldexp(h0, exponent), np.ldexp(h1, exponent))
    np.testing.assert_array_equal(scaled[0], plain[0])
    np.testing.assert_array_equal(scaled[1], plain[1])


@every_attack
def test_scores_too_far_for_their_units(attack: Attack) -> None:
    """Distances that overflow in standard deviations are infinite, without a warning."""
    h0 = np.array([[0.0, 5e-324, 1e-323, 1e-322]])
    p = attack.learn(Shadows(h0), Shadows(1 + h0))(np.array([[1.0]]))
    assert p.tolist() == [[0.2 if attack.name == "threshold" else 0.0]]


@one_sided
@pytest.mark.parametrize("models", [1, 2])
def test_one_sided_attacks_need_no_shadows_under_h1(attack: Attack, models: int) -> None:
    """One model under H1 is a challenge without a shadow; models under H1 do not affect H0."""
    h0, h1 = scores()
    found = CrossFed(replicates=12).attack(losses_of_scores(h0, h1[:, :models]), attack)
    whole = cross_feed(losses_of_scores(h0, h1), attack)
    assert (found.names, found.left_out) == (whole.names, ())
    np.testing.assert_array_equal(found.p_values_h0, whole.p_values_h0)
    np.testing.assert_array_equal(found.p_values_h1, whole.p_values_h1[:, :models])
    assert found.counts(0.1).trials_h1.tolist() == [models] * 5


@pytest.mark.parametrize("attack", [LikelihoodRatio(), PooledVariance()], ids=lambda a: a.name)
def test_two_sided_attacks_do_need_shadows_under_h1(attack: Attack) -> None:
    h0, h1 = scores()
    h1[:2, 1:] = NAN
    assert cross_feed(losses_of_scores(h0, h1), attack).left_out == ("0", "1")


@pytest.mark.parametrize(
    ("attack", "models"), [(Offline(), 3), (Threshold(), 2)], ids=["offline", "threshold"]
)
def test_one_sided_attacks_need_shadows_under_h0(attack: Attack, models: int) -> None:
    h0, h1 = scores()
    h0[0, models:], h0[1, models - 1 :] = NAN, NAN
    assert cross_feed(losses_of_scores(h0, h1), attack).left_out == ("1",)


@alone
@pytest.mark.parametrize("holes", [False, True])
def test_bases_are_attacked_one_by_one(attack: Attack, holes: bool) -> None:
    h0, h1 = scores(holes=holes)
    found = cross_fed(attack, h0, h1)
    for base in range(5):
        one = cross_fed(attack, h0[[base]], h1[[base]])
        np.testing.assert_array_equal(one[0], found[0][[base]])
        np.testing.assert_array_equal(one[1], found[1][[base]])


def test_pooled_variance_shares_over_bases() -> None:
    """Compared with the formula: own means, one variance per hypothesis including the other bases."""
    rng = np.random.default_rng(15)
    h0, h1 = 10 + rng.standard_normal((3, 4)), 12 + 2 * rng.standard_normal((3, 4))
    found, _ = cross_fed(PooledVariance(), h0, h1)
    spread_h1 = np.var(h1, axis=1, ddof=1).mean()
    for base, model in np.ndindex(3, 4):
        own = np.delete(h0[base], model)
        squares = sum(np.var(h0[b]) * 4 for b in range(3) if b != base) + np.var(own) * 3
        spread_h0 = squares / (3 + 3 + 2)
        sd, shift = spread_h0**0.5, h1[base].mean() - own.mean()
        here = (h0[base, model] - own.mean()) / sd
        there = -here - 2 * (shift / sd) / (spread_h1 / spread_h0 - 1)
        ends = ndtr([min(here, there), max(here, there)])
        expected = 1 - (ends[1] - ends[0]) if spread_h1 > spread_h0 else ends[1] - ends[0]
        assert found[base, model] == pytest.approx(expected, abs=CLOSE)


def test_pooled_variance_needs_but_one_shadow_where_another_base_has_two() -> None:
    h0, h1 = np.array([[0.0, 1.0, NAN], [0.0, 1.0, 2.0]]), np.array([[5.0, 6.0], [5.0, 7.0]])
    p0, p1 = cross_fed(PooledVariance(), h0, h1)
    assert not np.isnan(p0[:, :2]).any()
    assert not np.isnan(p1).any()
    p0, _ = cross_fed(PooledVariance(), h0[:1, :2], h1[:1])
    assert np.isnan(p0).all()


# --- false-positive rates -------------------------------------------------------------------------


@one_sided
def test_higher_scores_never_have_higher_p_values(attack: Attack) -> None:
    rng = np.random.default_rng(16)
    shadows = np.concatenate([rng.standard_normal((1, 20)).round(1), np.full((1, 20), 0.5)])
    asked = np.sort(np.concatenate([np.linspace(-50, 50, 2001), shadows[0]]))
    p = attack.learn(Shadows(shadows), Shadows(shadows))(np.stack([asked, asked]))
    assert np.all(np.diff(p) <= 0)
    assert np.all(p[:, 0] == 1)
    assert np.all(p[:, -1] < 0.05)


@pytest.mark.parametrize("models", [2, 10, 100])
def test_threshold_holds_its_size_exactly(models: int) -> None:
    """Each of exchangeable scores has each rank once: p = 1/n, 2/n, ..., 1, for any distribution."""
    h0 = np.random.default_rng(17).standard_cauchy((3, models)) ** 3
    p, _ = cross_fed(Threshold(), h0, h0)
    expected = np.arange(1, models + 1) / models
    for row in p:
        assert np.sort(row).tolist() == expected.tolist()


@pytest.mark.parametrize("values", [2, 5])
def test_threshold_with_ties_errs_on_the_safe_side(values: int) -> None:
    h0 = np.random.default_rng(18).integers(0, values, (4, 60)).astype(float)
    p, _ = cross_fed(Threshold(), h0, h0)
    for level in np.arange(1, 61) / 60:
        assert np.all(np.mean(p <= level, axis=1) <= level)


def test_threshold_counts_shadows() -> None:
    rule = Threshold().learn(Shadows(np.array([[1.0, 2.0, 2.0, 3.0]])), Shadows(np.empty((1, 0))))
    p = rule(np.array([[0.0, 1.0, 1.5, 2.0, 3.0, 4.0]]))
    assert p.tolist() == [[1.0, 1.0, 0.8, 0.8, 0.4, 0.2]]


def realised(attack: Attack, h0: FloatArray, shadows: int, h1: FloatArray) -> FloatArray:
    """P-values of the first score of each row, with all others as its shadows."""
    rule = attack.learn(Shadows(h0[..., 1 : shadows + 1]), Shadows(h1))
    return rule(h0[..., 0])


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("shadows", [2, 5, 50])
def test_offline_rate_on_normal_scores(shadows: int, alpha: float) -> None:
    """(x - mean) / (sd sqrt(1 + 1/M)) has Student's t distribution, so the rate has a closed form.

    With few shadows the attack exceeds its target systematically, not by chance.
    """
    rng, draws = np.random.default_rng(19), 40_000
    h0 = 3 + 2 * rng.standard_normal((1, draws, shadows + 1))
    p = realised(Offline(), h0, shadows, h0[..., :2])
    rate = t.sf(norm.isf(alpha) / (1 + 1 / shadows) ** 0.5, shadows - 1)
    error = Z * (rate * (1 - rate) / draws) ** 0.5
    assert np.mean(p <= alpha) == pytest.approx(rate, abs=error)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
def test_likelihood_ratio_rate_with_equal_variances(alpha: float) -> None:
    """Means 5 apart: the far end is out of reach, so Student's t distribution holds here too."""
    rng, draws, shadows = np.random.default_rng(20), 20_000, 60
    h0 = rng.standard_normal((1, draws, shadows + 1))
    h1 = 5 + rng.standard_normal((1, draws, shadows))
    p = realised(LikelihoodRatio(), h0, shadows, h1)
    rate = t.sf(norm.isf(alpha) / (1 + 1 / shadows) ** 0.5, shadows - 1)
    # Estimated variances differ by less than a factor of 3: the far end is 5 away or more.
    error = Z * (rate * (1 - rate) / draws) ** 0.5 + 2 * float(norm.sf(5.0))
    assert np.mean(p <= alpha) == pytest.approx(rate, abs=error)


@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.0, 0.5), (0.0, 2.0), (-1.0, 0.5), (1.0, 1.5), (0.3, 1.0)]
)
def test_likelihood_ratio_rate_with_many_shadows(mean: float, deviation: float) -> None:
    rng, draws, shadows, alpha = np.random.default_rng(21), 10_000, 200, 0.1
    h0 = rng.standard_normal((1, draws, shadows + 1))
    h1 = mean + deviation * rng.standard_normal((1, draws, shadows))
    p = realised(LikelihoodRatio(), h0, shadows, h1)
    # Estimating the moments changes the rate by order 1 / shadows (Student's t: 0.27 / shadows).
    error = Z * (alpha * (1 - alpha) / draws) ** 0.5 + 1 / shadows
    assert np.mean(p <= alpha) == pytest.approx(alpha, abs=error)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
def test_pooled_variance_rate_with_few_shadows(alpha: float) -> None:
    """Student's t with the degrees of freedom of all bases; means 8 apart, so one end only."""
    rng, bases, draws, shadows = np.random.default_rng(22), 30, 2_000, 3
    centre = 10 * rng.standard_normal((bases, 1, 1))
    h0 = centre + rng.standard_normal((bases, draws, shadows + 1))
    h1 = centre + 8 + rng.standard_normal((bases, draws, shadows))
    p = realised(PooledVariance(), h0, shadows, h1)
    rate = t.sf(norm.isf(alpha) / (1 + 1 / shadows) ** 0.5, bases * (shadows - 1))
    # Bases of one draw share a variance; draws are independent.
    each = np.mean(p <= alpha, axis=0)
    error = Z * each.std(ddof=1) / draws**0.5
    assert each.mean() == pytest.approx(rate, abs=error)
