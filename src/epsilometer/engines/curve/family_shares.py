"""The probability of each family, mixing rate and interpretation."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.engines.curve.solve import Solution
from epsilometer.model.curve_model import Component, CurveModel


@dataclass(frozen=True)
class FamilyShare:
    """The probability of one family with a mixing rate and interpretation."""

    family: str
    mixing: float
    interpretation: str
    probability: float
    prior: float


def family_shares(model: CurveModel, solution: Solution) -> tuple[FamilyShare, ...]:
    """All of the model, the likeliest first; components that were dropped have probability 0."""
    found = {
        _identity(component): weight
        for component, weight in zip(solution.components, solution.weights.tolist(), strict=True)
    }
    nothing = float(model.no_leak or 0.0)
    rows = [
        FamilyShare(
            family=component.curves.family.name,
            mixing=component.curves.rate,
            interpretation=_identity(component)[-1] if component.curves.mixed else "none",
            probability=found.get(_identity(component), 0.0),
            prior=(1 - nothing) * component.probability,
        )
        for component in model.components
    ]
    if nothing:
        rows.append(FamilyShare("no leak", 1.0, "none", solution.no_leak, nothing))
    return tuple(sorted(rows, key=lambda row: -row.probability))


def _identity(component: Component) -> tuple[str, float, str]:
    """The family, the rate and the interpretation of a component."""
    curves = component.curves
    return curves.family.name, curves.rate, str(curves.interpretation)
