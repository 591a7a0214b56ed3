"""Counts and models, one or more for every way through the exact engine.

What they should come to is in `paths.json`, which `make_paths.py` writes from these.  Left out are
priors of epsilon that are narrow or end where the counts push against them: the engine that made the
numbers was wrong there, so `tests/engines/test_stated_error.py` asks an oracle instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import epsilometer as em
from tests.golden import reference


@dataclass(frozen=True, kw_only=True)
class Case:
    """One problem; ``path`` decides how accurate it is, ``slow`` when it is checked."""

    path: str
    counts: em.AttackCounts
    model: em.CountModel
    slow: bool = False


def counts(
    x: list[int], n0: int | list[int], y: list[int], n1: int | list[int], groups: str = ""
) -> em.AttackCounts:
    """Error counts; ``groups`` has a letter a row."""
    return em.AttackCounts(
        false_positives=x,
        trials_h0=n0,
        false_negatives=y,
        trials_h1=n1,
        groups=list(groups) or None,
    )


#: The counts of examples/counts.csv.
TEN_STRONG = counts(reference.TEN_STRONG_X, 1000, reference.TEN_STRONG_Y, 1000)

ONE = counts([200], 500, [200], 500)

TWO = counts([100, 30], 300, [50, 120], 300)

#: Attacks that hardly tell members from others.
WEAK = counts([9, 12, 10, 11, 8, 14], 100, [88, 91, 85, 89, 93, 87], 100)

UNEQUAL = counts([4, 10, 20], [60, 80, 100], [20, 5, 9], [90, 90, 40])

ZEROS = counts([0, 5, 0, 30], 30, [6, 0, 0, 20], 30)

TWENTY_THOUSAND = counts([2000, 1500], 20_000, [3000, 4200], 20_000)

SEVENTY_THOUSAND = counts([7000, 4000], 70_000, [9000, 16_000], 70_000)

HUNDRED_THOUSAND = counts(
    [8000, 9000, 15_000], [100_000, 60_000, 80_000], [20_000, 12_000, 9000], 100_000
)

FEW = counts([12, 20, 9, 31], 100, [30, 22, 41, 17], 100)

STRONG_GROUPS = counts([3, 5, 4, 9, 12, 10], 60, [10, 13, 9, 5, 4, 7], 60, "aaabbb")

GROUPS = counts([20, 25, 23, 60, 55, 58], 80, [48, 40, 45, 20, 18, 25], 80, "aaabbb")

#: A group of four, one of two, and a row in a group of its own.
UNEQUAL_GROUPS = counts(
    [3, 5, 2, 4, 14, 11, 16],
    [30, 30, 30, 40, 50, 50, 50],
    [12, 10, 9, 12, 6, 7, 4],
    [30, 30, 30, 40, 40, 50, 50],
    "aaaabbc",
)


def paper(name: str) -> em.AttackCounts:
    """Counts of one of the paper's algorithms: METHOD, section 7."""
    x, y, *_ = reference.CORRELATED[name]
    return counts(x, 100, y, 100)


FLAT = em.priors.Beta()


def fixed(value: float) -> em.priors.Fixed:
    return em.priors.Fixed(value=value)


def case(path: str, data: em.AttackCounts, *, slow: bool = False, **model: Any) -> Case:
    """A case with delta .01 and the usual priors unless given; numbers are fixed values."""
    for name in ("epsilon", "strength"):
        if isinstance(model.get(name), float):
            model[name] = fixed(model[name])
    return Case(path=path, counts=data, model=em.CountModel(**({"delta": 0.01} | model)), slow=slow)


binomial = partial(case, "binomial")
sharp = partial(case, "sharp")
correlated = partial(case, "correlated", likelihood=em.likelihoods.CorrelatedNormal())


def scattered(
    data: em.AttackCounts, *, slow: bool = False, strength: Any = FLAT, **options: Any
) -> Case:
    """A case of groups; the spread and the strength are estimated unless given."""
    how = em.likelihoods.ScatteredMembers(**options)
    return case("groups", data, slow=slow, dependence=how, strength=strength)


def pooled(data: em.AttackCounts, *, slow: bool = False, **options: Any) -> Case:
    return case("groups", data, slow=slow, dependence=em.likelihoods.PooledGroups(**options))


FIXED_STRENGTHS = (0.0, 0.5, 0.9, 0.99, 1.0)
NARROW_BETA, WIDE_BETA = em.priors.Beta(a=2.0, b=3.0), em.priors.Beta(a=0.5, b=0.5)
UNIFORM = em.likelihoods.UniformScatter()

CASES: dict[str, Case] = {
    # --- binomial, both parameters free -----------------------------------------------------------
    "ten strong": binomial(TEN_STRONG),
    "one base": binomial(ONE),
    "weak": binomial(WEAK, delta=0.001),
    "weak, delta 0": binomial(WEAK, delta=0.0),
    "few bases": binomial(FEW),
    "unequal trials": binomial(UNEQUAL, delta=0.05),
    "delta 0": binomial(UNEQUAL, delta=0.0),
    "zeros and all": binomial(ZEROS, delta=1e-5),
    "exponential": binomial(UNEQUAL, epsilon=em.priors.Exponential(mean=3.0)),
    "log-normal": binomial(UNEQUAL, epsilon=em.priors.LogNormal(median=2.0, log_scale=0.7)),
    "uniform": binomial(UNEQUAL, epsilon=em.priors.Uniform(upper=12.0)),
    "beta strength": binomial(UNEQUAL, strength=NARROW_BETA),
    "beta strength, exponential": binomial(
        TWO, delta=0.05, epsilon=em.priors.Exponential(mean=2.0), strength=WIDE_BETA
    ),
    # --- counts so sharp that masses cannot be interpolated in delta --------------------------------
    "delta .3": sharp(TWO, delta=0.3),
    "twenty thousand trials": sharp(TWENTY_THOUSAND, delta=0.05),
    "twenty thousand trials, delta .15": sharp(TWENTY_THOUSAND, delta=0.15, slow=True),
    "seventy thousand trials": sharp(SEVENTY_THOUSAND, delta=0.05, slow=True),
    "hundred thousand trials": sharp(HUNDRED_THOUSAND, delta=0.05, slow=True),
    # --- fixed parameters ---------------------------------------------------------------------------
    **{f"one base, strength {s:g}": binomial(ONE, strength=s) for s in FIXED_STRENGTHS},
    **{
        f"unequal trials, strength {s:g}": binomial(UNEQUAL, delta=0.05, strength=s)
        for s in FIXED_STRENGTHS
    },
    "epsilon 3": binomial(TEN_STRONG, epsilon=3.0),
    "epsilon 2, beta strength": binomial(UNEQUAL, delta=0.05, epsilon=2.0, strength=NARROW_BETA),
    **{
        f"epsilon 3, strength {s:g}": binomial(TEN_STRONG, epsilon=3.0, strength=s)
        for s in (0.0, 0.6, 1.0)
    },
    # --- correlated counts --------------------------------------------------------------------------
    **{
        f"paper {name}": correlated(paper(name), delta=0.001, slow=True)
        for name in ("A1", "A3", "A4")
    },
    "correlated, unequal trials": correlated(
        UNEQUAL, likelihood=em.likelihoods.CorrelatedNormal(within_correlation_scale=0.02)
    ),
    **{
        f"correlated, strength {s:g}": correlated(FEW, strength=s, slow=s not in (0.5, 1.0))
        for s in FIXED_STRENGTHS
    },
    "correlated, epsilon 2": correlated(FEW, epsilon=2.0),
    "correlated, epsilon 2, strength .5": correlated(FEW, epsilon=2.0, strength=0.5),
    # --- groups -------------------------------------------------------------------------------------
    "normal scatter": scattered(GROUPS),
    # With the usual prior, which reaches to 0, the engine that made the numbers failed, and said so.
    "uniform scatter": scattered(
        STRONG_GROUPS,
        scatter=UNIFORM,
        spread=em.priors.LogNormal(median=0.05, log_scale=0.3),
        slow=True,
    ),
    "unequal groups": scattered(UNEQUAL_GROUPS, slow=True),
    "normal scatter, strength .5": scattered(GROUPS, strength=0.5, slow=True),
    "spread .04": scattered(GROUPS, spread=fixed(0.04)),
    "uniform scatter, spread .04": scattered(
        GROUPS, scatter=UNIFORM, spread=fixed(0.04), slow=True
    ),
    "spread 0": scattered(GROUPS, spread=fixed(0.0)),
    "pooled groups": pooled(GROUPS),
    "pooled groups, spread .04": pooled(GROUPS, spread=fixed(0.04), slow=True),
}

# --- what is made of posteriors: a smaller selection, by the names above --------------------------

#: Leave one out, 90 % intervals.
LEFT_OUT = ("ten strong", "unequal trials", "correlated, unequal trials", "spread .04")

#: The prior's scale halved and doubled, 90 % intervals.
RESCALED = ("ten strong", "one base", "correlated, unequal trials")

CURVES = ("unequal trials", "one base", "correlated, unequal trials")
DELTAS = (0.0, 1e-3, 0.01, 0.05, 0.2)

COMPARED = ("few bases",)
UPDATED = ("unequal trials", "ten strong", "correlated, unequal trials")
