"""The width that remains when every error rate is known: a limit for any number of challenges.

With known rates the likelihood of (epsilon, s) from n bases is |R_s(epsilon, delta)|^-n where every
point (alpha, beta) lies in the ring and 0 elsewhere.  So epsilon is at least the largest critical
level, and given epsilon the strength is below the level at which the core would swallow a point.
"""

from __future__ import annotations

import math

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.region import beta_limits, critical_epsilon, log_ring_area

EPSILON_NODES, STRENGTH_NODES = 400, 80
"""Quantiles are then accurate to 1e-3 of the width, which is tested."""

FAR_TAIL = 1e-10
"""The prior beyond this upper quantile is ignored."""


def check_free(model: CountModel) -> None:
    """Refuse a model with a fixed epsilon."""
    if model.epsilon.fixed_value is not None:
        raise InputError(
            "expected a prior of epsilon, got a fixed value: there is nothing to plan."
        )


def known_rates_interval(
    alpha: FloatArray, beta: FloatArray, model: CountModel, *, level: float = 0.9
) -> tuple[float, float]:
    """Return the central credible interval of epsilon if the error rates of all bases are known.

    Examples
    --------
    >>> rates = np.array([0.2, 0.3, 0.1]), np.array([0.3, 0.1, 0.5])
    >>> low, high = known_rates_interval(*rates, CountModel(delta=0.0))
    >>> bool(low > np.log(0.9 / 0.3)), bool(high > low)
    (True, True)
    """
    level = _validate.level(level)
    check_free(model)
    alpha, beta = np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float)
    least = float(critical_epsilon(alpha, beta, model.delta).max())
    top = model.epsilon.end
    if not math.isfinite(top):
        top = float(model.epsilon.upper_quantile(FAR_TAIL))
        if top < 1.1 * least:  # rates that are very unlikely a priori: start from them
            top = least + 5.0
    s = model.strength.fixed_value
    if s:
        top = min(top, float(critical_epsilon(alpha, beta, s * model.delta).min()) / s)
    if not top > least:  # the rates alone fix epsilon, as at strength 1
        return least, least
    # Cubes: the density is highest at the least epsilon, where it falls as e^(-n x).
    w = np.linspace(0.0, 1.0, EPSILON_NODES)
    epsilon = least + (top - least) * w**3
    logs = _log_marginal(epsilon, alpha, beta, model)
    density = np.exp(logs - logs.max()) * 3 * w**2
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    ends = np.interp([0.5 - level / 2, 0.5 + level / 2], cumulative / cumulative[-1], w)
    low, high = least + (top - least) * ends**3
    return float(low), float(high)


def _log_marginal(
    epsilon: FloatArray, alpha: FloatArray, beta: FloatArray, model: CountModel
) -> FloatArray:
    """Log of prior times likelihood, integrated over the strength, up to a constant."""
    bases = len(alpha)
    prior = model.epsilon.log_density(epsilon)
    known = model.strength.fixed_value
    if known is not None:
        return np.asarray(prior - bases * log_ring_area(epsilon, model.delta, known))
    largest = _largest_strength(epsilon, alpha, beta, model.delta)
    nodes, weights = np.polynomial.legendre.leggauss(STRENGTH_NODES)
    w = 0.5 * (nodes + 1)
    # Cubes again: the likelihood is highest at the largest strength.
    strength = largest[:, None] * (1 - w**3)
    logs = -bases * log_ring_area(epsilon[:, None], model.delta, strength)
    logs = logs + model.strength.log_density(strength)
    peak = logs.max(axis=1)
    inner = (np.exp(logs - peak[:, None]) * (weights * w**2)).sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(prior + peak + np.log(inner) + np.log(largest))


def _largest_strength(
    epsilon: FloatArray, alpha: FloatArray, beta: FloatArray, delta: float
) -> FloatArray:
    """The strength at which the core R(s epsilon, s delta) reaches the first point, by bisection."""
    # A point can only be the first if its level at delta is below some point's level at 0.
    first = critical_epsilon(alpha, beta, delta) <= critical_epsilon(alpha, beta, 0.0).min()
    alpha, beta = alpha[first], beta[first]
    low, high = np.zeros(len(epsilon)), np.ones(len(epsilon))
    for _ in range(50):
        middle = 0.5 * (low + high)
        least, largest = beta_limits(alpha, (middle * epsilon)[:, None], delta * middle[:, None])
        free = ((beta < least) | (beta > largest)).all(axis=1)
        low, high = np.where(free, middle, low), np.where(free, high, middle)
    return high
