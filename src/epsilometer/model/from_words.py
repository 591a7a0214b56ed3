"""Models from the words of options and configurations: binomial, scattered, a scale, a fixed value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model import dependence as dependences
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.dependence import Dependence, ScatteredMembers
from epsilometer.model.families import AVERAGE, FAMILIES, families_of
from epsilometer.model.likelihoods import LIKELIHOODS, IndependentBinomial
from epsilometer.model.measured import DESIGNS
from epsilometer.model.mixtures import FreeMixing, mixing_of
from epsilometer.model.priors import DEFAULT_EPSILON_SCALE, Beta, Fixed, HalfNormal, Prior
from epsilometer.model.strengths import FixedStrength, FreeStrengths

LIKELIHOOD_KINDS: dict[str, Any] = {kind().name: kind for kind in LIKELIHOODS.values()}
DEPENDENCE_KINDS: dict[str, Any] = {kind().name: kind for kind in dependences.DEPENDENCES.values()}

INDEPENDENT, CORRELATED = IndependentBinomial().name, "correlated"
"""Names of the likelihoods for decisions without and with shared models."""

FIELDS = {
    "epsilon_prior_scale": "epsilon",
    "family": "families",
    "scatter": "dependence",
    "spread": "dependence",
    "spread_prior_scale": "dependence",
}
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
    dependence: Dependence | None = None,
) -> CountModel:
    """The count model with these settings; None is the default of the model."""
    kind = _validate.one_of("likelihood", likelihood or INDEPENDENT, LIKELIHOOD_KINDS)
    if strength is not None:
        _validate.unit_interval("strength", strength)
    scale = DEFAULT_EPSILON_SCALE if epsilon_prior_scale is None else epsilon_prior_scale
    return CountModel(
        delta=delta,
        epsilon=HalfNormal(scale=_validate.positive("epsilon_prior_scale", scale)),
        strength=Beta() if strength is None else Fixed(value=strength),
        likelihood=LIKELIHOOD_KINDS[kind](),
        dependence=dependence or ScatteredMembers(),
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


def curve_model_in_words(model: CurveModel) -> dict[str, str | float | None]:
    """The options that give a curve model; None for settings without an option."""
    names = {family.name for family in model.families}
    family = AVERAGE if names == set(FAMILIES) else next(iter(names))
    return {
        "delta": model.delta,
        "family": family if len(names) == 1 or family == AVERAGE else None,
        "mixing": getattr(model.mixing, "rate", model.mixing.name),
        "strength": model.strength.fixed_value,
        "epsilon_prior_scale": _half_normal_scale(model.epsilon),
    }


def dependence_of(
    *,
    dependence: str | None = None,
    scatter: str | None = None,
    spread: float | None = None,
    spread_prior_scale: float | None = None,
) -> Dependence:
    """The dependence with these settings; options that cannot be combined are refused."""
    chosen = _validate.one_of("dependence", dependence or ScatteredMembers().name, DEPENDENCE_KINDS)
    how = _validate.one_of("scatter", scatter or "normal", dependences.SCATTERS)
    kind = DEPENDENCE_KINDS[chosen]
    parts = {part.name for part in fields(kind)}
    for option, value, part in (
        ("scatter", scatter, "scatter"),
        ("spread", spread, "spread"),
        ("spread_prior_scale", spread_prior_scale, "spread"),
    ):
        if value is not None and part not in parts:
            raise InputError(f"`{option}=` cannot be combined with `dependence={chosen}`.")
    if spread is not None and spread_prior_scale is not None:
        raise InputError(
            "`spread=` fixes the spread; it cannot be combined with `spread_prior_scale=`."
        )
    scale = dependences.DEFAULT_SPREAD.scale if spread_prior_scale is None else spread_prior_scale
    made = {
        "scatter": dependences.SCATTERS[how](),
        "spread": HalfNormal(scale=_validate.positive("spread_prior_scale", scale))
        if spread is None
        else Fixed(value=_validate.non_negative("spread", spread)),
    }
    dependence_model: Dependence = kind(**{part: made[part] for part in parts})
    return dependence_model


def in_words(model: CountModel) -> dict[str, str | float | None]:
    """The options that give a model; None for settings without an option."""
    dependence, spread = model.dependence, model.dependence.spread
    return {
        "delta": model.delta,
        "likelihood": model.likelihood.name,
        "strength": model.strength.fixed_value,
        "epsilon_prior_scale": _half_normal_scale(model.epsilon),
        "dependence": dependence.name,
        "scatter": None if dependence.scatter is None else dependence.scatter.name,
        "spread": None if spread is None else spread.fixed_value,
        "spread_prior_scale": None if spread is None else _half_normal_scale(spread),
    }


def _half_normal_scale(prior: Prior) -> float | None:
    name, scale, _ = prior.compiled or ("", 0.0, 0.0)
    return scale if name == "half-normal" else None
