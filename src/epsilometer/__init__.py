"""Epsilometer: the privacy of a training algorithm, judged by attacks on it.

From counts of false positives and false negatives of membership-inference attacks, the full Bayesian
posterior of epsilon together with the strength of the attacks.  And before that: training the models
that attacks need, and counting the errors of attacks on their losses.

>>> import epsilometer as em
>>> counts = em.AttackCounts(
...     false_positives=[40], trials_h0=100, false_negatives=[40], trials_h1=100
... )
>>> posterior = em.estimate(counts, em.AuditModel(delta=0.01))
>>> low, high = posterior.credible_interval("epsilon", 0.9)

Names are looked up on first use, so that importing the package stays quick.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path


def _homes() -> dict[str, str]:
    """The module of every public name, read from ``__init__.pyi`` so that it is said only there."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    return {each.name: str(line.module) for line in lines for each in line.names}


_HOMES = _homes()
_RENAMED = {
    "Assumed": "AssumedScenario",
    "Assumption": "AlternativeModel",
    "FromPilot": "PilotScenario",
    "OtherPrior": "AlternativePrior",
    "OwnCanaries": "CustomCanaries",
    "OwnPoints": "CustomPoints",
    "Rule": "OperatingPoint",
    "Settled": "DecidedClaim",
    "Trial": "TrainingCheck",
    "Width": "IntervalWidth",
    "deal_counts": "split_counts",
    "fresh_scores": "held_out_scores",
    "promise_of": "claim_from_training",
}
"""Names of version 0.1 and what they are called now; the old names are removed in 0.3."""

__all__ = sorted(_HOMES)  # noqa: PLE0605 (a list, if not a literal one)


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        from warnings import warn

        new = _RENAMED[name]
        message = (
            f"epsilometer.{name} is deprecated and will be removed in 0.3: use epsilometer.{new}."
        )
        warn(message, DeprecationWarning, stacklevel=2)
        name = new
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'epsilometer' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
