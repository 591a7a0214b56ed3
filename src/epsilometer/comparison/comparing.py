"""Data with the posteriors of their model beside every other estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from epsilometer._arrays import OnMessage
from epsilometer.comparison.estimators import Comparison, compare_counts, compare_scores
from epsilometer.engines.estimate import estimate
from epsilometer.model.count_model import CountModel
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.strengths import FixedStrength

Named = tuple[str, Any]
"""A posterior and its name."""


def compare(
    data: Any,
    model: CountModel | CurveModel,
    *,
    significance: float,
    posterior: Any = None,
    posteriors: Sequence[Named] | None = None,
    independent: bool = True,
    on_message: OnMessage | None = None,
) -> Comparison:
    """Every estimator from counts or from scores.

    The posteriors in the first rows are those of the model: of scores with its strength and with
    strength 1.  ``posterior`` is the first one, if it is known already; ``posteriors`` replace them.
    """
    delta, curves = model.delta, isinstance(model, CurveModel)
    if posteriors is None:
        named: dict[str, Any] = {}
        for name, version in _models(model).items():
            known = None if named else posterior
            named[name] = estimate(data, version, on_message=on_message) if known is None else known
        posteriors = list(named.items())
    run: Any = compare_scores if curves else compare_counts
    comparison: Comparison = run(
        data,
        delta=delta,
        significance=significance,
        posteriors=posteriors,
        independent=independent,
    )
    return comparison


def _models(model: CountModel | CurveModel) -> dict[str, Any]:
    """The models to estimate, by the name of their row."""
    fixed = model.strength.fixed_value
    strength = "" if fixed is None else f", strength {fixed:g}"
    if isinstance(model, CountModel):
        return {f"Epsilometer, {model.likelihood.name}{strength}": model}
    sure = replace(model, strength=FixedStrength())
    label = "Epsilometer, curve model"
    return {f"{label}{strength}": model, f"{label}, strength 1": sure}
