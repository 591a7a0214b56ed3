"""Epsilometer: the privacy of a training algorithm, judged by attacks on it.

From counts of false positives and false negatives of membership-inference attacks, the full Bayesian
posterior of epsilon together with the strength of the attacks.

>>> import epsilometer as em
>>> counts = em.AttackCounts(
...     false_positives=[40], trials_h0=100, false_negatives=[40], trials_h1=100
... )
>>> posterior = em.estimate(counts, em.AuditModel(delta=0.01))
>>> low, high = posterior.credible_interval("epsilon", 0.9)

Names are looked up on first use, so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilometer.errors import (
        ContradictionError,
        EpsilometerError,
        InputError,
        NotConvergedError,
    )
    from epsilometer.inference.estimate import estimate
    from epsilometer.inference.exact import ExactSettings
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.posterior import Posterior
    from epsilometer.inference.storage import load
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel, log_joint
    from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
    from epsilometer.model.priors import (
        Beta,
        Exponential,
        Fixed,
        HalfNormal,
        LogNormal,
        Uniform,
    )

_HOMES = {
    "AttackCounts": "model.counts",
    "AuditModel": "model.joint",
    "Beta": "model.priors",
    "ContradictionError": "errors",
    "CorrelatedNormal": "model.likelihoods",
    "EpsilometerError": "errors",
    "ExactSettings": "inference.exact",
    "Exponential": "model.priors",
    "Fixed": "model.priors",
    "HalfNormal": "model.priors",
    "IndependentBinomial": "model.likelihoods",
    "InputError": "errors",
    "LogNormal": "model.priors",
    "McmcSettings": "inference.mcmc",
    "NotConvergedError": "errors",
    "Posterior": "inference.posterior",
    "Uniform": "model.priors",
    "estimate": "inference.estimate",
    "load": "inference.storage",
    "log_joint": "model.joint",
}

__all__ = [
    "AttackCounts",
    "AuditModel",
    "Beta",
    "ContradictionError",
    "CorrelatedNormal",
    "EpsilometerError",
    "ExactSettings",
    "Exponential",
    "Fixed",
    "HalfNormal",
    "IndependentBinomial",
    "InputError",
    "LogNormal",
    "McmcSettings",
    "NotConvergedError",
    "Posterior",
    "Uniform",
    "estimate",
    "load",
    "log_joint",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'epsilometer' has no attribute {name!r}")
    return getattr(import_module(f"epsilometer.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
