"""Designs: cross-feeding and independent shadows compared with simple loops, and the paper's counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.attacks.losses import Losses
from epsilometer.attacks.result import AttackResult
from epsilometer.attacks.rules import ATTACKS, Attack, LikelihoodRatio, Offline, Shadows, Threshold
from epsilometer.attacks.statistics import STATISTICS, CustomStatistic, Logit, Loss, Statistic
from epsilometer.errors import InputError
from epsilometer.measurement.designs import CrossFed, ShadowModels, cross_feed
from tests.golden.reference import CORRELATED

FloatArray = NDArray[np.float64]
Key = tuple[str, int, int]

ROOT = Path(__file__).resolve().parent.parent.parent
PAPER_LOSSES = ROOT.parent / "shared" / "paper" / "losses"

#: Two ways to sum the same few scores: rounding of 1e-16, times 1e6 where a variance cancels.
CLOSE = 1e-9

every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
every_statistic = pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)


def drawn(sizes: dict[int, int], *, bases: int = 3, seed: int = 1) -> dict[Key, float]:
    """Positive losses for replicates below the size of each hypothesis; one stream per model."""
    return {
        (f"base {base}", hypothesis, replicate): float(
            np.random.default_rng([seed, base, hypothesis, replicate]).gamma(2.0)
            * (0.3 if hypothesis else 1.0)
        )
        for base in range(bases)
        for hypothesis, size in sizes.items()
        for replicate in range(size)
    }


def losses_of(table: dict[Key, float]) -> Losses:
    base, hypothesis, replicate = zip(*table, strict=True)
    return Losses(
        challenge_base=base, hypothesis=hypothesis, replicate=replicate, loss=list(table.values())
    )


def design_and_table(
    replicates: int = 4, shadows_h0: int = 5, shadows_h1: int = 3
) -> tuple[ShadowModels, dict[Key, float]]:
    design = ShadowModels(replicates=replicates, shadows_h0=shadows_h0, shadows_h1=shadows_h1)
    return design, drawn({h: design.models(h) for h in (0, 1)})


def same_decisions(one: AttackResult, other: AttackResult) -> None:
    np.testing.assert_array_equal(one.p_values_h0, other.p_values_h0)
    np.testing.assert_array_equal(one.p_values_h1, other.p_values_h1)


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m0", "m1"), [(1, 2, 2), (7, 5, 3), (100, 99, 100)])
def test_models_of_independent_shadows(n: int, m0: int, m1: int) -> None:
    """A challenge under each hypothesis, each with shadows under both."""
    design = ShadowModels(replicates=n, shadows_h0=m0, shadows_h1=m1)
    assert design.models(0) == n * (1 + 2 * m0)
    assert design.models(1) == n * (1 + 2 * m1)
    assert design.models(0) + design.models(1) == 2 * n * (1 + m0 + m1)


def test_identity_leaves_the_replicates_out() -> None:
    assert CrossFed(replicates=3).identity() == CrossFed(replicates=9).identity()
    few, many = (ShadowModels(replicates=n, shadows_h0=2, shadows_h1=3) for n in (1, 9))
    assert few.identity() == many.identity()
    assert few.identity() != ShadowModels(replicates=1, shadows_h0=3, shadows_h1=2).identity()
    assert few.identity() != CrossFed(replicates=3).identity()


@pytest.mark.parametrize(
    ("kind", "sizes", "words"),
    [
        *((CrossFed, (value,), "replicates") for value in (2, -1, 3.0, True, "3", None)),
        (ShadowModels, (0, 2, 2), "expected replicates >= 1, got replicates=0"),
        (ShadowModels, (1, 1, 2), "expected shadows_h0 >= 2, got shadows_h0=1"),
        (ShadowModels, (1, 2, 1), "expected shadows_h1 >= 2, got shadows_h1=1"),
    ],
)
def test_sizes_out_of_range(kind: Any, sizes: tuple[Any, ...], words: str) -> None:
    names = ("replicates", "shadows_h0", "shadows_h1")
    with pytest.raises(InputError, match=words):
        kind(**dict(zip(names, sizes, strict=False)))


# --- cross-feeding --------------------------------------------------------------------------------


def test_cross_feeding_defaults() -> None:
    losses = losses_of(drawn({0: 8, 1: 6}))
    plain = cross_feed(losses)
    assert (plain.attack, plain.statistic) == ("likelihood-ratio", "loss")
    for other in (
        cross_feed(losses, LikelihoodRatio(), statistic=Loss()),
        CrossFed(replicates=3).attack(losses),
    ):
        same_decisions(other, plain)


@every_statistic
@every_attack
def test_cross_feeding_is_the_loop(attack: Attack, statistic: Statistic) -> None:
    """Each model with all others of its hypothesis and all of the other one, as in the paper."""
    table = drawn({0: 8, 1: 6})
    found = cross_feed(losses_of(table), attack, statistic=statistic)
    assert (found.attack, found.statistic) == (attack.name, statistic.name)
    rows = np.array([[table[f"base {b}", 0, r] for r in range(8)] for b in range(3)])
    more = np.array([[table[f"base {b}", 1, r] for r in range(6)] for b in range(3)])
    parts = statistic(rows), statistic(more)
    for hypothesis, p in enumerate((found.p_values_h0, found.p_values_h1)):
        assert p.shape == parts[hypothesis].shape
        for base, model in np.ndindex(*p.shape):
            others = [part.copy() for part in parts]
            # The attack that pools sees all bases, but not the challenge itself.
            others[hypothesis][base, model] = np.nan
            rule = attack.learn(Shadows(others[0]), Shadows(others[1]))
            expected = rule(parts[hypothesis][:, [model]])[base, 0]
            assert p[base, model] == pytest.approx(expected, rel=0, abs=CLOSE)


@every_attack
def test_cross_feeding_in_any_order_of_rows(attack: Attack) -> None:
    table = drawn({0: 8, 1: 6})
    keys = list(table)
    order = np.random.default_rng(2).permutation(len(keys))
    plain = cross_feed(losses_of(table), attack)
    turned = cross_feed(losses_of({keys[n]: table[keys[n]] for n in order}), attack)
    place = [turned.names.index(name) for name in plain.names]
    # Bases are in another order, and so are pooled sums.
    np.testing.assert_allclose(turned.p_values_h0[place], plain.p_values_h0, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(turned.p_values_h1[place], plain.p_values_h1, rtol=0, atol=CLOSE)


def test_cross_feeding_ignores_gaps_in_replicates() -> None:
    table = drawn({0: 8, 1: 6})
    apart = {(base, h, 10 * r + 7): loss for (base, h, r), loss in table.items()}
    one, other = cross_feed(losses_of(table)), cross_feed(losses_of(apart))
    np.testing.assert_array_equal(one.p_values_h0, other.p_values_h0)


def test_a_statistic_sees_both_hypotheses_of_a_base_at_once() -> None:
    """The rule for a loss of zero uses the smallest loss of the base, wherever it is."""
    table = drawn({0: 5, 1: 5}, bases=1)
    table["base 0", 0, 2] = 0.0
    table["base 0", 1, 3] = 1e-9
    found = cross_feed(losses_of(table), statistic=Logit())
    whole = np.array([[table["base 0", h, r] for h in (0, 1) for r in range(5)]])
    np.testing.assert_array_equal(np.hstack([found.scores_h0, found.scores_h1]), Logit()(whole))
    assert found.scores_h0[0, 2] > found.scores_h1[0, 3]


# --- independent shadows --------------------------------------------------------------------------


@every_statistic
@every_attack
def test_block_layout(attack: Attack, statistic: Statistic) -> None:
    """Block j: the challenge, then shadows for the challenge under H0, then for the one under H1."""
    design, table = design_and_table()
    found = design.attack(losses_of(table), attack, statistic=statistic)
    sizes = (design.shadows_h0, design.shadows_h1)

    def score(base: int, hypothesis: int, replicate: int) -> float:
        loss = table[f"base {base}", hypothesis, replicate]
        return float(statistic(np.array([[loss]]))[0, 0])

    for target, p in enumerate((found.p_values_h0, found.p_values_h1)):
        assert p.shape == (3, 4)
        for j in range(4):
            shadows: list[list[list[float]]] = [[], []]
            for hypothesis, size in enumerate(sizes):
                start = j * (1 + 2 * size) + 1 + target * size
                for base in range(3):
                    numbers = range(start, start + size)
                    shadows[hypothesis].append([score(base, hypothesis, n) for n in numbers])
            place = j * (1 + 2 * sizes[target])
            asked = np.array([[score(base, target, place)] for base in range(3)])
            rule = attack.learn(Shadows(np.array(shadows[0])), Shadows(np.array(shadows[1])))
            np.testing.assert_allclose(p[:, [j]], rule(asked), rtol=0, atol=CLOSE)


def test_every_model_has_one_use() -> None:
    """Changing a model changes the decision of its block that uses it, and no other."""
    design, table = design_and_table(replicates=2, shadows_h0=2, shadows_h1=3)
    plain = design.attack(losses_of(table))
    for key in [key for key in table if key[0] == "base 1"]:
        changed = design.attack(losses_of(table | {key: table[key] + 0.5}))
        _, hypothesis, replicate = key
        size = (2, 3)[hypothesis]
        block, place = divmod(replicate, 1 + 2 * size)
        user = hypothesis if place == 0 else int(place > size)
        for h, (before, after) in enumerate(
            ((plain.p_values_h0, changed.p_values_h0), (plain.p_values_h1, changed.p_values_h1))
        ):
            expected = [(1, block)] if h == user else []
            assert [tuple(place) for place in np.argwhere(before != after).tolist()] == expected


@every_statistic
@every_attack
def test_more_replicates_do_not_change_earlier_decisions(
    attack: Attack, statistic: Statistic
) -> None:
    few, table = design_and_table(replicates=3)
    many, longer = design_and_table(replicates=5)
    assert table.items() <= longer.items()
    before = few.attack(losses_of(table), attack, statistic=statistic)
    after = many.attack(losses_of(longer), attack, statistic=statistic)
    np.testing.assert_array_equal(after.p_values_h0[:, :3], before.p_values_h0)
    np.testing.assert_array_equal(after.p_values_h1[:, :3], before.p_values_h1)


def test_missing_challenge_and_missing_shadows() -> None:
    design, table = design_and_table(replicates=3, shadows_h0=4, shadows_h1=3)
    whole = design.attack(losses_of(table))
    gone: set[Key] = {
        ("base 0", 0, 9),  # the challenge of block 1 under H0
        *(("base 1", 0, n) for n in (1, 2, 3)),  # block 0: one shadow left for H0's challenge
        ("base 2", 1, 7 + 4),  # block 1: two of three shadows left for H1's challenge
    }
    found = design.attack(losses_of({k: v for k, v in table.items() if k not in gone}))
    assert np.argwhere(np.isnan(found.p_values_h0)).tolist() == [[0, 1], [1, 0]]
    assert not np.isnan(found.p_values_h1).any()
    kept = ~np.isnan(found.p_values_h0)
    np.testing.assert_array_equal(found.p_values_h0[kept], whole.p_values_h0[kept])
    assert np.argwhere(found.p_values_h1 != whole.p_values_h1).tolist() == [[2, 1]]
    assert found.counts(0.1).trials_h0.tolist() == [2, 2, 3]


def test_models_that_are_not_used_are_not_reported() -> None:
    """Replicates beyond those of the design are used by no challenge, whatever their losses are."""
    few, table = design_and_table(replicates=3)
    _, longer = design_and_table(replicates=5)
    beyond = {key: np.nan for key in longer if key not in table}
    assert {key[1] for key in beyond} == {0, 1}
    whole, before = few.attack(losses_of(table | beyond)), few.attack(losses_of(table))
    np.testing.assert_array_equal(whole.p_values_h0, before.p_values_h0)
    assert whole.dropped == ()
    used: dict[Key, float] = {("base 1", 0, few.models(0) - 1): np.inf}
    found = few.attack(losses_of(table | beyond | used))
    assert found.dropped == (("base 1", 1),)


@pytest.mark.parametrize("spoilt", [(np.inf, np.nan, np.nan), (77.0,) * 3], ids=["loss", "score"])
def test_what_is_not_finite_is_missing_and_reported(spoilt: tuple[float, ...]) -> None:
    design, table = design_and_table(replicates=3)
    keys: list[Key] = [("base 0", 0, 0), ("base 2", 1, 3), ("base 2", 1, 4)]
    statistic = CustomStatistic(function=lambda x: np.where(x == 77.0, np.nan, -x))
    changed = table | dict(zip(keys, spoilt, strict=True))
    found = design.attack(losses_of(changed), statistic=statistic)
    without = design.attack(losses_of({k: v for k, v in table.items() if k not in keys}))
    same_decisions(found, without)
    assert found.dropped == (("base 0", 1), ("base 2", 2))
    assert without.dropped == ()


@pytest.mark.parametrize("attack", [Offline(), Threshold()], ids=lambda a: a.name)
def test_one_sided_attacks_need_no_shadows_under_h1(attack: Attack) -> None:
    design, table = design_and_table(replicates=3)
    challenges = {design.models(1) // 3 * j for j in range(3)}
    bare = {k: v for k, v in table.items() if k[1] == 0 or k[2] in challenges}
    assert len(bare) == 3 * (design.models(0) + 3)
    found, whole = (design.attack(losses_of(t), attack) for t in (bare, table))
    same_decisions(found, whole)
    with pytest.raises(InputError, match="too few in each of 3 challenge bases"):
        design.attack(losses_of(bare))


def test_a_base_without_p_values_is_left_out() -> None:
    design, table = design_and_table(replicates=1)
    found = design.attack(losses_of({k: v for k, v in table.items() if k != ("base 1", 1, 0)}))
    assert (found.names, found.left_out) == (("base 0", "base 2"), ("base 1",))
    with pytest.raises(InputError, match="too few in each of 3 challenge bases"):
        design.attack(losses_of({k: v for k, v in table.items() if k[2] > 0}))


# --- the paper's losses ---------------------------------------------------------------------------


def paper_result(name: str) -> AttackResult:
    path = PAPER_LOSSES / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"the paper's losses are not next to this checkout ({path})")
    return cross_feed(Losses.read(path), statistic=Loss())


@pytest.mark.parametrize(
    ("name", "golden"), [("A1", "A1"), ("A3_sigma0p1", "A3"), ("A4_sigma0p05", "A4")]
)
def test_counts_of_the_paper(name: str, golden: str) -> None:
    counts = paper_result(name).counts(0.1)
    false_positives, false_negatives, _, _ = CORRELATED[golden]
    assert counts.false_positives.tolist() == false_positives
    assert counts.false_negatives.tolist() == false_negatives
    assert counts.trials_h0.tolist() == counts.trials_h1.tolist() == [100] * 20


@pytest.mark.parametrize(("name", "warned"), [("A1", False), ("A3_sigma0p1", True)])
def test_warnings_about_the_paper(name: str, warned: bool) -> None:
    """Perturbed models have losses far from normal; at .1 rates range from 0 to .92."""
    texts = paper_result(name).warnings(0.1)
    assert any("missed the target" in text and "logit" in text for text in texts) == warned
    assert len(texts) == warned
