"""Assumptions of the curve model: delta, families of curves, mixtures, strengths, the prior."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.families import FAMILIES, check_families
from epsilometer.model.family import Family
from epsilometer.model.mixtures import Curves, FreeMixing, Mixing
from epsilometer.model.priors import HalfNormal, Prior
from epsilometer.model.strengths import FreeStrengths, Strengths

NO_LEAK = 0.1
"""Without it the interval of an algorithm that leaks nothing would never contain 0."""


class Component(NamedTuple):
    """Curves that the posterior averages over, with their prior probability."""

    curves: Curves
    probability: float


INDEPENDENT_MODELS = "Models of a base are independent, and only the order of their scores is used."
"""Assumption for scores of models; reports state a different one for canaries."""


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
        Prior of the algorithm's epsilon.  Default: half-normal with scale sqrt(10).
    families
        Families of curves, weighted a priori by their ``prior_weight``, or by their ``sampled_weight``
        if the sampling rate is given.  Default: Gaussian, Laplace and randomised response.
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


    Examples
    --------
    >>> len(CurveModel(delta=1e-5).components)
    33
    """

    delta: float
    epsilon: Prior = field(default_factory=HalfNormal)
    families: tuple[Family, ...] = tuple(FAMILIES.values())
    mixing: Mixing = field(default_factory=FreeMixing)
    strength: Strengths = field(default_factory=FreeStrengths)
    no_leak: float | None = None
    reads_low: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        object.__setattr__(self, "families", check_families(self.families))
        for name, kind in (
            ("mixing", "curves"),
            ("strength", "distributions"),
            ("epsilon", "log_density"),
        ):
            if not hasattr(getattr(self, name), kind):
                raise InputError(f"expected another kind of {name}, got {getattr(self, name)!r}.")
        if self.no_leak is None:
            object.__setattr__(self, "no_leak", NO_LEAK if len(self.families) > 1 else 0.0)
        elif _validate.unit_interval("no_leak", self.no_leak) == 1:
            raise InputError("expected no_leak < 1: with 1 there is nothing to estimate.")
        if self.epsilon.fixed_value is not None:
            raise InputError("expected a prior of epsilon, got a fixed value.")
        if not self.components:
            raise InputError(
                f"expected a family that has an epsilon at delta={self.delta:g}: "
                f"{', '.join(family.name for family in self.families)} has none."
            )

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """All curves that have an epsilon, with prior probabilities that sum to one."""
        components = [
            Component(curves, share)
            for family in self.families
            for curves, share in self.mixing.curves(family)
            if curves.largest_leak(1.0, self.delta) > 0
        ]
        total = sum(component.probability for component in components)
        return tuple(
            Component(component.curves, component.probability / total) for component in components
        )

    @property
    def sentences(self) -> list[str]:
        """The assumptions in plain language."""
        # Without families that have no epsilon at this delta.
        used = dict.fromkeys(component.curves.family.name for component in self.components)
        named, several = ", ".join(used), len(used) > 1
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
