"""Attacks with known error rates: counts drawn from them, and whether rates are in a ring; losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import epsilometer as em
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.engines.mcmc.diagnostics import diagnose
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.models import CountModel
from epsilometer.model.region import contains
from epsilometer.posteriors.provenance import Provenance


def binomial_counts(
    alpha: FloatArray, beta: FloatArray, trials_h0: int, trials_h1: int, rng: np.random.Generator
) -> AttackCounts:
    """Independent counts of attacks with these error rates."""
    return counts_of(
        rng.binomial(trials_h0, alpha), trials_h0, rng.binomial(trials_h1, beta), trials_h1
    )


def ring_contains(
    alpha: FloatArray, beta: FloatArray, epsilon: ArrayLike, delta: float, strength: ArrayLike
) -> BoolArray:
    """Whether (alpha, beta) lies in R_s(epsilon, delta): in the region, not in its closed core.

    At s = 0 and delta = 0 the core is the line alpha + beta = 1.
    """
    strength, epsilon = np.asarray(strength, dtype=float), np.asarray(epsilon, dtype=float)
    worse = alpha + beta > 1
    a, b = np.where(worse, 1 - alpha, alpha), np.where(worse, 1 - beta, beta)
    factor = np.exp(-strength * epsilon)
    edge = factor * (1 - strength * delta)
    core = (b + factor * a >= edge) & (a + factor * b >= edge)
    return np.asarray(contains(alpha, beta, epsilon, delta) & ~core)


def error_counts(
    positives: ArrayLike,
    negatives: ArrayLike,
    trials: ArrayLike,
    trials_h1: ArrayLike | None = None,
    **more: Any,
) -> AttackCounts:
    """Counts of false positives and false negatives in so many trials of each hypothesis."""
    other = trials if trials_h1 is None else trials_h1
    return counts_of(positives, trials, negatives, other, **more)


def losses_of(names: Sequence[str], values: FloatArray) -> em.Losses:
    """Losses by base, hypothesis and model."""
    bases, hypotheses, models = np.indices(values.shape)
    return em.Losses(
        challenge_base=[names[int(base)] for base in bases.ravel()],
        hypothesis=hypotheses.ravel(),
        replicate=models.ravel(),
        loss=values.ravel(),
    )


def posterior_of_draws(
    counts: AttackCounts, model: CountModel, samples: Mapping[str, FloatArray]
) -> SamplePosterior:
    """Draws, (chain, draw), that no sampler made."""
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=Provenance(engine="mcmc", settings={}, seconds=1.0, seed=7),
        samples=dict(samples),
        diagnostics=diagnose(dict(samples), acceptance_rate=0.25),
    )
