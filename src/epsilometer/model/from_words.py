"""Models from the words of options and configurations: binomial, scattered, a scale, a fixed value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model import dependence as dependences
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.dependence import ScatteredMembers
from epsilometer.model.families import AVERAGE, families_of
from epsilometer.model.likelihoods import LIKELIHOODS, IndependentBinomial
from epsilometer.model.measured import DESIGNS
from epsilometer.model.mixtures import FreeMixing, mixing_of
from epsilometer.model.priors import DEFAULT_EPSILON_SCALE, Beta, Fixed, HalfNormal
from epsilometer.model.strengths import FixedStrength, FreeStrengths

LIKELIHOOD_KINDS: dict[str, Any] = {kind().name: kind for kind in LIKELIHOODS.values()}
DEPENDENCE_KINDS: dict[str, Any] = {kind().name: kind for kind in dependences.DEPENDENCES.values()}

INDEPENDENT, CORRELATED = IndependentBinomial().name, "correlated"
"""Names of the likelihoods for decisions without and with shared models."""

FIELDS = {"epsilon_prior_scale": "epsilon", "family": "families"}
"""The field of a model that an option sets, where their names differ."""


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
    shared = any(batch.measured is not None and batch.measured.cross_fed for batch in batches)
    return CORRELATED if shared else INDEPENDENT


def with_changes(own: Any, other: Any, changed: Iterable[str]) -> Any:
    """A model with the settings of the given options taken from another one."""
    parts = {FIELDS.get(name, name) for name in changed}
    return replace(own, **{part: getattr(other, part) for part in sorted(parts)})


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
    scale = DEFAULT_EPSILON_SCALE if epsilon_prior_scale is None else epsilon_prior_scale
    return CountModel(
        delta=delta,
        epsilon=HalfNormal(scale=_validate.positive("epsilon_prior_scale", scale)),
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
    scale = DEFAULT_EPSILON_SCALE if epsilon_prior_scale is None else epsilon_prior_scale
    return CurveModel(
        delta=delta,
        epsilon=HalfNormal(scale=_validate.positive("epsilon_prior_scale", scale)),
        families=families_of(family or AVERAGE),
        mixing=mixing_of(FreeMixing().name if mixing is None else mixing),
        strength=FreeStrengths() if strength is None else FixedStrength(value=strength),
    )
