"""The probability that the region of error rates allowed by (epsilon, delta) contains a point."""

from __future__ import annotations

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.model.region import critical_epsilon
from epsilometer.posteriors.posterior import CountPosterior


def region_probability(
    posterior: CountPosterior, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Posterior probability that R(epsilon, delta) contains each point: P(epsilon >= critical)."""
    critical = critical_epsilon(alpha, beta, posterior.model.delta)
    probability = np.concatenate(
        [[0.0], np.geomspace(1e-6, 0.01, 60), np.linspace(0.01, 0.99, 981)[1:-1]]
    )
    probability = np.concatenate([probability, 1 - probability[60::-1]])
    quantiles = posterior.quantile("epsilon", probability)
    if quantiles[0] == quantiles[-1]:
        return np.asarray(quantiles[0] >= critical, dtype=float)
    return np.asarray(1 - np.interp(critical, np.maximum.accumulate(quantiles), probability))
