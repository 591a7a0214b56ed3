"""The two models, each all assumptions of an estimate, and models from words.

The count model is the paper's: error counts of attacks at one operating point.  The curve model has the
whole trade-off curve.  Options and configurations name their parts by words: binomial, scattered, a
scale, a fixed value.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.count_tables import DESIGNS
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import DEPENDENCES, Dependence, ScatteredMembers
from epsilometer.model.families import AVERAGE, FAMILIES, check_families, families_of
from epsilometer.model.family import Curves, Family
from epsilometer.model.likelihoods import LIKELIHOODS, IndependentBinomial, Likelihood
from epsilometer.model.mixing import FreeMixing, Mixing, mixing_of
from epsilometer.model.priors import Beta, Fixed, HalfCauchy, HalfNormal, Prior, StrengthPrior
from epsilometer.model.shapes import Cells, Shape
from epsilometer.model.strengths import FixedStrength, FreeStrengths, Strengths


def _check_kinds(model: object, **kinds: Any) -> None:
    """Refuse parts of a model that are of other kinds than these, and classes themselves."""
    for name, kind in kinds.items():
        value = getattr(model, name)
        if isinstance(value, type) or not isinstance(value, kind):
            raise InputError(f"expected another kind of {name}, got {name}={value!r}.")


@dataclass(frozen=True, kw_only=True)
class CountModel:
    """All assumptions of the count model, as published; only the counts are observed.

    The log of the joint density, equation (4) of the paper, or (10) with correlations, is
    log p(epsilon) + log p(s) [+ log p(tau, rho)] + sum over bases of
    log Unif(alpha_i, beta_i; R_s(epsilon, delta)) + log g(X_i, Y_i | alpha_i, beta_i).

    Parameters
    ----------
    delta
        The delta of (epsilon, delta)-DP, in [0, 1).  Required: there is no sensible default.
    epsilon
        Prior of epsilon, or ``Fixed(value=...)`` above 0.
    strength
        Prior of the strength of the attacks, or ``Fixed(value=...)`` in [0, 1].  1 is the limit in
        which every attack is the best possible on the worst base.
    likelihood
        How counts arise from error rates.
    dependence
        How attacks of one group depend on each other.  It matters only for counts with groups.

    Examples
    --------
    >>> CountModel(delta=1e-3).strength
    Beta(a=1.0, b=1.0)
    """

    delta: float
    epsilon: Prior = field(default_factory=HalfNormal)
    strength: StrengthPrior = field(default_factory=Beta)
    likelihood: Likelihood = field(default_factory=IndependentBinomial)
    dependence: Dependence = field(default_factory=ScatteredMembers)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        _check_kinds(self, epsilon=Prior, strength=StrengthPrior)
        _check_kinds(self, likelihood=Likelihood, dependence=Dependence)
        if self.epsilon.fixed_value is not None:
            _validate.positive("epsilon", self.epsilon.fixed_value)
        if self.strength.fixed_value is not None:
            _validate.unit_interval("strength", self.strength.fixed_value)

    def scatters(self, counts: AttackCounts) -> bool:
        """Whether some rows belong to a group whose members scatter around its average."""
        return counts.dependent and self.dependence.spread is not None

    def priors_of(self, counts: AttackCounts) -> dict[str, Prior]:
        """The priors of epsilon, of the strength and, for groups that scatter, of the spread."""
        priors: dict[str, Prior] = {"epsilon": self.epsilon, "strength": self.strength}
        spread = self.dependence.spread if counts.dependent else None
        return priors if spread is None else priors | {"spread": spread}

    def fixed_values(self, counts: AttackCounts) -> dict[str, float]:
        """The parameters that are held fixed, with their values."""
        values = {name: prior.fixed_value for name, prior in self.priors_of(counts).items()}
        return {name: value for name, value in values.items() if value is not None}

    def parameters_of(self, counts: AttackCounts) -> tuple[str, ...]:
        """The names of the parameters estimated from these counts, in a fixed order."""
        free = [n for n, prior in self.priors_of(counts).items() if prior.fixed_value is None]
        place = len(free) - ("spread" in free)
        return (*free[:place], *self.likelihood.parameters, *free[place:])

    def check(self, counts: AttackCounts) -> None:
        """Refuse counts that are incompatible with the model."""
        self.likelihood.check(counts)
        if counts.dependent and self.dependence.sums_only and self.likelihood.parameters:
            raise InputError(
                "expected the binomial likelihood with PooledGroups, which has its own normal "
                "approximation; for correlated counts in groups use ScatteredMembers."
            )


# --- curves ----------------------------------------------------------------------------------------

#: Without it the interval of an algorithm that leaks nothing would never contain 0.
NO_LEAK = 0.1


class Component(NamedTuple):
    """Curves that the posterior averages over, with their prior probability."""

    curves: Curves
    probability: float
    #: The name of its family, or of its `Shape`.
    group: str = ""


#: Assumption for scores of models; reports state a different one for canaries.
INDEPENDENT_MODELS = "Models of a base are independent, and only the order of their scores is used."


#: Probability of full strength among unequal ones, where families are averaged: without it, strengths
#: below 1 and large caps together would put epsilon above what the best attack found.
FULL_AMONG_UNEQUAL = 0.3


@dataclass(frozen=True, kw_only=True)
class CurveModel:
    """The whole trade-off curve, estimated from all scores.

    The scores of a base follow a pair of distributions from one of the families; base i leaks s_i times
    as much as the algorithm.  Only the ranks of scores are used.

    Parameters
    ----------
    delta
        The delta of (epsilon, delta)-DP, in [0, 1); epsilon's prior is at this delta.
    epsilon
        Prior of the algorithm's epsilon.  Default: half-normal with scale sqrt(10) for a single family,
        half-Cauchy with scale 3 for several.
    families
        Families of curves, or shapes, weighted a priori by their ``prior_weight``, or by their
        ``sampled_weight`` if the sampling rate is given.  Default: all of ``FAMILIES``.
    mixing
        Whether the point may matter only some of the time: ``FreeMixing()``, ``NoMixing()`` or
        ``KnownMixing(rate=...)`` with the sampling rate of the algorithm.
    strength
        ``FreeStrengths()``, or ``FixedStrength(value=1.0)`` as other tools assume.
    no_leak
        Prior probability that the algorithm leaks nothing at all, in [0, 1); then epsilon is 0.
        Default: 0.1 when several families are averaged, 0 for a single chosen family.
    reads_low
        Whether the families are known to underestimate epsilon: then no PASS is judged.
    weights
        Prior weights of the families, in their order.  Default: their own.


    Examples
    --------
    >>> len(CurveModel(delta=1e-5).components)
    78
    """

    delta: float
    epsilon: Prior = None  # type: ignore[assignment]  # filled in, as is the strength
    families: tuple[Family | Shape, ...] = tuple(FAMILIES.values())
    mixing: Mixing = field(default_factory=FreeMixing)
    strength: Strengths = None  # type: ignore[assignment]
    no_leak: float | None = None
    reads_low: bool = False
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        object.__setattr__(self, "families", check_families(self.families))
        if self.strength is None:
            full = FULL_AMONG_UNEQUAL if len(self.families) > 1 else 0.0
            object.__setattr__(self, "strength", FreeStrengths(full=full))
        if self.epsilon is None:
            object.__setattr__(self, "epsilon", default_prior(self.families)())
        _check_kinds(self, mixing=Mixing, strength=Strengths, epsilon=Prior)
        if self.no_leak is None:
            object.__setattr__(self, "no_leak", NO_LEAK if len(self.families) > 1 else 0.0)
        elif _validate.unit_interval("no_leak", self.no_leak) == 1:
            raise InputError("expected no_leak < 1: with 1 there is nothing to estimate.")
        if self.epsilon.fixed_value is not None:
            raise InputError("expected a prior of epsilon, got a fixed value.")
        if self.weights is not None:
            weights = tuple(_validate.positive("weights", each) for each in self.weights)
            object.__setattr__(self, "weights", weights)
            if len(weights) != len(self.families):
                raise InputError(f"expected {len(self.families)} weights, got {len(weights)}.")
        if not self.components:
            raise InputError(
                f"expected a family that has an epsilon at delta={self.delta:g}: "
                f"{', '.join(family.name for family in self.families)} has none."
            )

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """All curves that have an epsilon, with prior probabilities that sum to one."""
        return self.components_of({})

    def components_of(self, cells: Cells) -> tuple[Component, ...]:
        """The same with these cells of shapes, where given."""
        kind = "sampled_weight" if self.mixing.sampled else "prior_weight"
        weights = self.weights or [getattr(group, kind) for group in self.families]
        components = [
            Component(curves, weight * share * part, group.name)
            for group, weight in zip(self.families, weights, strict=True)
            for family, share in group.members(cells.get(group.name))
            for curves, part in self.mixing.curves(family)
            if curves.largest_leak(1.0, self.delta) > 0
        ]
        total = sum(component.probability for component in components)
        return tuple(each._replace(probability=each.probability / total) for each in components)

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the families that have an epsilon at this delta."""
        return tuple(dict.fromkeys(component.group for component in self.components))

    @property
    def sentences(self) -> list[str]:
        """The assumptions in plain language."""
        named, several = ", ".join(self.used), len(self.used) > 1
        which = "one of the families" if several else "the family"
        return [
            INDEPENDENT_MODELS,
            f"The trade-off curve belongs to {which} {named}, "
            f"{'weighted by the data' if several else 'as stated'}.",
            self.mixing.description,
            self.strength.description,
            f"Before the data, epsilon at delta = {self.delta:g} is {self.epsilon.description}"
            + (f", or 0 with probability {self.no_leak:g}." if self.no_leak else "."),
        ]

    def prior_probability_above(self, epsilon: float) -> float:
        """P(epsilon > value) before any data."""
        return (1 - float(self.no_leak or 0.0)) * self.epsilon.probability_above(epsilon)


def default_prior(families: tuple[Family | Shape, ...]) -> type[HalfNormal] | type[HalfCauchy]:
    """The prior of epsilon: with a heavier tail if no family is told.

    Otherwise curves with the smallest epsilon would win wherever epsilon is large.
    """
    return HalfNormal if len(families) == 1 else HalfCauchy


# --- from words -------------------------------------------------------------------------------------

LIKELIHOOD_KINDS: dict[str, Any] = {kind().name: kind for kind in LIKELIHOODS.values()}
DEPENDENCE_KINDS: dict[str, Any] = {kind().name: kind for kind in DEPENDENCES.values()}

#: Names of the likelihoods for decisions without and with shared models.
INDEPENDENT, CORRELATED = IndependentBinomial().name, "correlated"

#: The field of a model that an option sets, where their names differ.
FIELDS = {"epsilon_prior_scale": "epsilon", "family": "families"}


def likelihood_for(*batches: AttackCounts) -> str:
    """The likelihood for counts, by the design that measured them.

    Correlated if some of them are of cross-fed models; binomial otherwise, and for groups, whose
    dependence is already part of the model.
    """
    designs = {batch.measured.design for batch in batches if batch.measured is not None}
    if len(designs) > 1:
        raise InputError(
            f"expected counts of one design, got {' and '.join(d for d in DESIGNS if d in designs)}: "
            "choose the likelihood for all of them with `likelihood=`."
        )
    if any(batch.dependent for batch in batches):
        return INDEPENDENT
    return CORRELATED if any(batch.cross_fed for batch in batches) else INDEPENDENT


def with_changes(own: Any, other: Any, changed: Iterable[str]) -> Any:
    """A model with the settings of the given options taken from another one."""
    parts = {FIELDS.get(name, name) for name in changed}
    return replace(own, **{part: getattr(other, part) for part in sorted(parts)})


def _epsilon_prior(scale: float | None, kind: type = HalfNormal) -> Any:
    if scale is None:
        return kind()
    return kind(scale=_validate.positive("epsilon_prior_scale", scale))


def model_of(
    delta: float,
    *,
    likelihood: str | None = None,
    strength: float | None = None,
    epsilon_prior_scale: float | None = None,
    dependence: str | None = None,
) -> CountModel:
    """The count model with these settings; None is the default of the model."""
    kind = _validate.one_of("likelihood", likelihood or INDEPENDENT, LIKELIHOOD_KINDS)
    grouped = dependence or ScatteredMembers().name
    _validate.one_of("dependence", grouped, DEPENDENCE_KINDS)
    if strength is not None:
        _validate.unit_interval("strength", strength)
    return CountModel(
        delta=delta,
        epsilon=_epsilon_prior(epsilon_prior_scale),
        strength=Beta() if strength is None else Fixed(value=strength),
        likelihood=LIKELIHOOD_KINDS[kind](),
        dependence=DEPENDENCE_KINDS[grouped](),
    )


def curve_model_of(
    delta: float,
    *,
    family: str | None = None,
    mixing: str | float | None = None,
    strength: float | None = None,
    epsilon_prior_scale: float | None = None,
) -> CurveModel:
    """The curve model with these settings; None is the default of the model."""
    families = families_of(family or AVERAGE)
    return CurveModel(
        delta=delta,
        epsilon=_epsilon_prior(epsilon_prior_scale, default_prior(families)),
        families=families,
        mixing=mixing_of(FreeMixing().name if mixing is None else mixing),
        strength=None if strength is None else FixedStrength(value=strength),  # type: ignore[arg-type]
    )
