"""Counts and models, one or more for every way through the exact engine.

What they should come to is in `paths.json`, which `make_paths.py` writes from these.  Left out are
priors of epsilon that are narrow or end where the counts push against them: the engine that made the
numbers was wrong there, so `tests/inference/test_stated_error.py` asks an oracle instead.
"""

from __future__ import annotations

from dataclasses import dataclass

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


TEN_STRONG = counts(reference.TEN_STRONG_X, 1000, reference.TEN_STRONG_Y, 1000)
"""The counts of examples/counts.csv."""

ONE = counts([200], 500, [200], 500)

TWO = counts([100, 30], 300, [50, 120], 300)

WEAK = counts([9, 12, 10, 11, 8, 14], 100, [88, 91, 85, 89, 93, 87], 100)
"""Attacks that hardly tell members from others."""

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

UNEQUAL_GROUPS = counts(
    [3, 5, 2, 4, 14, 11, 16],
    [30, 30, 30, 40, 50, 50, 50],
    [12, 10, 9, 12, 6, 7, 4],
    [30, 30, 30, 40, 40, 50, 50],
    "aaaabbc",
)
"""A group of four, one of two, and a row in a group of its own."""

CORRELATED = em.likelihoods.CorrelatedNormal()


def paper(name: str) -> em.AttackCounts:
    """Counts of one of the paper's algorithms: METHOD, section 7."""
    x, y, *_ = reference.CORRELATED[name]
    return counts(x, 100, y, 100)


def scattered(
    *, spread: float | None = None, uniform: bool = False, strength: float | None = None
) -> em.CountModel:
    """A model of groups; the spread and the strength are estimated unless given."""
    options = {} if spread is None else {"spread": em.priors.Fixed(value=spread)}
    scatter = em.likelihoods.UniformScatter() if uniform else em.likelihoods.NormalScatter()
    return em.CountModel(
        delta=0.01,
        strength=em.priors.Beta() if strength is None else em.priors.Fixed(value=strength),
        dependence=em.likelihoods.ScatteredMembers(scatter=scatter, **options),
    )


FIXED_STRENGTHS = (0.0, 0.5, 0.9, 0.99, 1.0)

CASES: dict[str, Case] = {
    # --- binomial, both parameters free -----------------------------------------------------------
    "ten strong": Case(path="binomial", counts=TEN_STRONG, model=em.CountModel(delta=0.01)),
    "one base": Case(path="binomial", counts=ONE, model=em.CountModel(delta=0.01)),
    "weak": Case(path="binomial", counts=WEAK, model=em.CountModel(delta=0.001)),
    "weak, delta 0": Case(path="binomial", counts=WEAK, model=em.CountModel(delta=0.0)),
    "few bases": Case(path="binomial", counts=FEW, model=em.CountModel(delta=0.01)),
    "unequal trials": Case(path="binomial", counts=UNEQUAL, model=em.CountModel(delta=0.05)),
    "delta 0": Case(path="binomial", counts=UNEQUAL, model=em.CountModel(delta=0.0)),
    "zeros and all": Case(path="binomial", counts=ZEROS, model=em.CountModel(delta=1e-5)),
    "exponential": Case(
        path="binomial",
        counts=UNEQUAL,
        model=em.CountModel(delta=0.01, epsilon=em.priors.Exponential(mean=3.0)),
    ),
    "log-normal": Case(
        path="binomial",
        counts=UNEQUAL,
        model=em.CountModel(delta=0.01, epsilon=em.priors.LogNormal(median=2.0, log_scale=0.7)),
    ),
    "uniform": Case(
        path="binomial",
        counts=UNEQUAL,
        model=em.CountModel(delta=0.01, epsilon=em.priors.Uniform(upper=12.0)),
    ),
    "beta strength": Case(
        path="binomial",
        counts=UNEQUAL,
        model=em.CountModel(delta=0.01, strength=em.priors.Beta(a=2.0, b=3.0)),
    ),
    "beta strength, exponential": Case(
        path="binomial",
        counts=TWO,
        model=em.CountModel(
            delta=0.05,
            epsilon=em.priors.Exponential(mean=2.0),
            strength=em.priors.Beta(a=0.5, b=0.5),
        ),
    ),
    # --- counts so sharp that masses cannot be interpolated in delta --------------------------------
    "delta .3": Case(path="sharp", counts=TWO, model=em.CountModel(delta=0.3)),
    "twenty thousand trials": Case(
        path="sharp", counts=TWENTY_THOUSAND, model=em.CountModel(delta=0.05)
    ),
    "twenty thousand trials, delta .15": Case(
        path="sharp", counts=TWENTY_THOUSAND, model=em.CountModel(delta=0.15), slow=True
    ),
    "seventy thousand trials": Case(
        path="sharp", counts=SEVENTY_THOUSAND, model=em.CountModel(delta=0.05), slow=True
    ),
    "hundred thousand trials": Case(
        path="sharp", counts=HUNDRED_THOUSAND, model=em.CountModel(delta=0.05), slow=True
    ),
    # --- fixed parameters ---------------------------------------------------------------------------
    **{
        f"one base, strength {s:g}": Case(
            path="binomial",
            counts=ONE,
            model=em.CountModel(delta=0.01, strength=em.priors.Fixed(value=s)),
        )
        for s in FIXED_STRENGTHS
    },
    **{
        f"unequal trials, strength {s:g}": Case(
            path="binomial",
            counts=UNEQUAL,
            model=em.CountModel(delta=0.05, strength=em.priors.Fixed(value=s)),
        )
        for s in FIXED_STRENGTHS
    },
    "epsilon 3": Case(
        path="binomial",
        counts=TEN_STRONG,
        model=em.CountModel(delta=0.01, epsilon=em.priors.Fixed(value=3.0)),
    ),
    "epsilon 2, beta strength": Case(
        path="binomial",
        counts=UNEQUAL,
        model=em.CountModel(
            delta=0.05, epsilon=em.priors.Fixed(value=2.0), strength=em.priors.Beta(a=2.0, b=3.0)
        ),
    ),
    **{
        f"epsilon 3, strength {s:g}": Case(
            path="binomial",
            counts=TEN_STRONG,
            model=em.CountModel(
                delta=0.01, epsilon=em.priors.Fixed(value=3.0), strength=em.priors.Fixed(value=s)
            ),
        )
        for s in (0.0, 0.6, 1.0)
    },
    # --- correlated counts --------------------------------------------------------------------------
    **{
        f"paper {name}": Case(
            path="correlated",
            counts=paper(name),
            model=em.CountModel(delta=0.001, likelihood=CORRELATED),
            slow=True,
        )
        for name in ("A1", "A3", "A4")
    },
    "correlated, unequal trials": Case(
        path="correlated",
        counts=UNEQUAL,
        model=em.CountModel(
            delta=0.01, likelihood=em.likelihoods.CorrelatedNormal(within_correlation_scale=0.02)
        ),
    ),
    **{
        f"correlated, strength {s:g}": Case(
            path="correlated",
            counts=FEW,
            model=em.CountModel(
                delta=0.01, strength=em.priors.Fixed(value=s), likelihood=CORRELATED
            ),
            slow=s not in (0.5, 1.0),
        )
        for s in FIXED_STRENGTHS
    },
    "correlated, epsilon 2": Case(
        path="correlated",
        counts=FEW,
        model=em.CountModel(delta=0.01, epsilon=em.priors.Fixed(value=2.0), likelihood=CORRELATED),
    ),
    "correlated, epsilon 2, strength .5": Case(
        path="correlated",
        counts=FEW,
        model=em.CountModel(
            delta=0.01,
            epsilon=em.priors.Fixed(value=2.0),
            strength=em.priors.Fixed(value=0.5),
            likelihood=CORRELATED,
        ),
    ),
    # --- groups -------------------------------------------------------------------------------------
    "normal scatter": Case(path="groups", counts=GROUPS, model=scattered()),
    "uniform scatter": Case(
        path="groups",
        counts=STRONG_GROUPS,
        # With the usual prior, which reaches to 0, the engine that made the numbers failed, and said so.
        model=em.CountModel(
            delta=0.01,
            dependence=em.likelihoods.ScatteredMembers(
                scatter=em.likelihoods.UniformScatter(),
                spread=em.priors.LogNormal(median=0.05, log_scale=0.3),
            ),
        ),
        slow=True,
    ),
    "unequal groups": Case(path="groups", counts=UNEQUAL_GROUPS, model=scattered(), slow=True),
    "normal scatter, strength .5": Case(
        path="groups", counts=GROUPS, model=scattered(strength=0.5), slow=True
    ),
    "spread .04": Case(path="groups", counts=GROUPS, model=scattered(spread=0.04)),
    "uniform scatter, spread .04": Case(
        path="groups", counts=GROUPS, model=scattered(spread=0.04, uniform=True), slow=True
    ),
    "spread 0": Case(path="groups", counts=GROUPS, model=scattered(spread=0.0)),
    "pooled groups": Case(
        path="groups",
        counts=GROUPS,
        model=em.CountModel(delta=0.01, dependence=em.likelihoods.PooledGroups()),
    ),
    "pooled groups, spread .04": Case(
        path="groups",
        counts=GROUPS,
        model=em.CountModel(
            delta=0.01, dependence=em.likelihoods.PooledGroups(spread=em.priors.Fixed(value=0.04))
        ),
        slow=True,
    ),
}

# --- what is made of posteriors: a smaller selection, by the names above --------------------------

LEFT_OUT = ("ten strong", "unequal trials", "correlated, unequal trials", "spread .04")
"""Leave one out, 90 % intervals."""

RESCALED = ("ten strong", "one base", "correlated, unequal trials")
"""The prior's scale halved and doubled, 90 % intervals."""

CURVES = ("unequal trials", "one base", "correlated, unequal trials")
DELTAS = (0.0, 1e-3, 0.01, 0.05, 0.2)

COMPARED = ("few bases",)
UPDATED = ("unequal trials", "ten strong", "correlated, unequal trials")
