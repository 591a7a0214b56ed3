"""Options on how attacks of one group depend on each other, and the model that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer import _validate
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.model.dependence import Dependence

DEPENDENCES = ("scattered", "pooled", "independent")
SCATTERS = ("normal", "uniform")

DependenceName = Annotated[
    str | None,
    typer.Option(
        metavar="scattered|pooled|independent",
        help="Counts with groups: members scatter around their average (the default), their counts "
        "are added up (cheaper), or groups are ignored.",
    ),
]
ScatterName = Annotated[
    str | None,
    typer.Option(metavar="normal|uniform", help="How members of a group scatter; default normal."),
]
Spread = Annotated[
    float | None,
    typer.Option(metavar="V", help="Hold the spread of members at V; estimated unless given."),
]
SpreadPriorScale = Annotated[
    float | None,
    typer.Option(
        metavar="V", help="Standard deviation of the spread's half-normal prior; default 0.05."
    ),
]


def dependence_of(
    name: str | None, scatter: str | None, spread: float | None, spread_prior_scale: float | None
) -> Dependence:
    """The dependence that the options describe."""
    from epsilometer.model import dependence
    from epsilometer.model.priors import Fixed, HalfNormal

    chosen = _validate.one_of("dependence", name or DEPENDENCES[0], DEPENDENCES)
    how = _validate.one_of("scatter", scatter or SCATTERS[0], SCATTERS)
    given = {"--scatter": scatter, "--spread": spread, "--spread-prior-scale": spread_prior_scale}
    if chosen == "independent":
        _refuse([option for option, value in given.items() if value is not None], chosen)
        return dependence.IndependentRows()
    if spread is not None and spread_prior_scale is not None:
        raise InputError(
            "--spread holds the spread fixed; --spread-prior-scale does not go with it."
        )
    scale = dependence.DEFAULT_SPREAD_SCALE if spread_prior_scale is None else spread_prior_scale
    prior = (
        HalfNormal(scale=_validate.positive("spread_prior_scale", scale))
        if spread is None
        else Fixed(value=_validate.non_negative("spread", spread))
    )
    if chosen == "pooled":
        _refuse(["--scatter"] if scatter is not None else [], chosen)
        return dependence.PooledGroups(spread=prior)
    kind = dependence.NormalScatter() if how == "normal" else dependence.UniformScatter()
    return dependence.ScatteredMembers(scatter=kind, spread=prior)


def described(chosen: Dependence) -> dict[str, str | float | None]:
    """A dependence in the words of the options; what they cannot say is None."""
    from epsilometer.model import dependence
    from epsilometer.model.priors import Fixed, HalfNormal

    if isinstance(chosen, dependence.IndependentRows):
        return {
            "dependence": "independent",
            "scatter": None,
            "spread": None,
            "spread_prior_scale": None,
        }
    scattered, scatter = isinstance(chosen, dependence.ScatteredMembers), None
    if isinstance(chosen, dependence.ScatteredMembers):
        scatter = "normal" if isinstance(chosen.scatter, dependence.NormalScatter) else "uniform"
    prior = chosen.spread
    return {
        "dependence": "scattered" if scattered else "pooled",
        "scatter": scatter,
        "spread": prior.value if isinstance(prior, Fixed) else None,
        "spread_prior_scale": prior.scale if isinstance(prior, HalfNormal) else None,
    }


def _refuse(options: list[str], chosen: str) -> None:
    if options:
        raise InputError(f"{options[0]} does not go with --dependence {chosen}.")
