"""Scores of gradient canaries, from their coordinates of the noisy sums that DP-SGD releases.

Let x_t be the noisy coordinate of a canary in step t, minus the contribution of the records, divided by
the clipping norm; q the sampling rate, s the noise multiplier and T the number of steps.  An included
canary adds 1 to x_t with probability q, so according to the claim x_t is N(0, s²) for an excluded canary
and (1 - q) N(0, s²) + q N(1, s²) for an included one.

The default score is the log likelihood ratio of the two, which is optimal for this claim:

    sum over t of log(1 - q + q exp(x_t / s² - 1 / (2 s²)))

It assumes that the coordinate is pure noise.  If the same noise is reused in every step, or if gradients
of records that were not subtracted push a coordinate in the same direction all the time, the means over
steps m_i vary by far more, and the ratio would rank canaries by their coordinates.  This can be detected
without the coins: according to the claim, the variance of m_i over canaries is
(mean variance over steps) / T + q² / 4.  If it is at least `EXCESS` times that, the model is
x_t = a_i + N(0, v) with a_i normal of variance b: membership adds q to the mean and d = q (1 - q) to the
variance w_i over steps.  The log likelihood ratio is, up to constants,

    q m_i / b + (T - 1) / 2 · w_i (1 / v - 1 / (v + d))

with the variance of m_i as b and the lower quartile of w_i as v, since at most half of the canaries are
included.

No score uses the coins, so any choice among the scores is valid.
"""

import math

import numpy as np

from epsilometer._arrays import FloatArray

#: Excess of the variance of means over steps above which steps are not treated as independent
#: noise.
EXCESS = 2.0

#: Variances over fewer steps are too uncertain.
FEWEST_STEPS = 5

#: Lower limit of v, relative to what membership adds; without noise it would be 0.
LEAST_VARIANCE = 1e-6


class NoisyCoordinates:
    """Sufficient statistics of the noisy coordinates: three sums per canary, for any number of steps."""

    def __init__(self, count: int) -> None:
        self.steps = 0
        #: Whether a step claimed no noise at all, so that there is no likelihood ratio.
        self.noiseless = False
        self.log_ratio: FloatArray = np.zeros(count)
        self.total: FloatArray = np.zeros(count)
        self.squares: FloatArray = np.zeros(count)

    def add(self, x: FloatArray, *, noise_multiplier: float, sampling_rate: float) -> None:
        """Add one step: coordinates divided by the clipping norm, with the claimed noise and rate."""
        self.steps += 1
        self.total += x
        self.squares += x**2
        if noise_multiplier == 0:
            self.noiseless = True
            return
        ratio = (x - 0.5) / noise_multiplier**2
        if sampling_rate < 1:
            ratio = np.logaddexp(math.log1p(-sampling_rate), math.log(sampling_rate) + ratio)
        self.log_ratio += ratio

    def means(self) -> FloatArray:
        """Mean over steps of each canary."""
        return self.total / self.steps

    def variances(self) -> FloatArray:
        """Variance over steps of each canary; needs two steps."""
        variances = (self.squares - self.total**2 / self.steps) / (self.steps - 1)
        return np.maximum(variances, 0.0)  # rounding

    def explained(self, sampling_rate: float) -> bool:
        """Whether independent noise and membership explain the differences of means over steps."""
        if self.steps < FEWEST_STEPS:
            return True
        expected = float(self.variances().mean()) / self.steps + sampling_rate**2 / 4
        return float(self.means().var()) <= EXCESS * expected

    def scores(self, sampling_rate: float) -> FloatArray:
        """A score per canary; higher scores suggest membership."""
        if not self.explained(sampling_rate):
            return self._by_mean_and_variance(sampling_rate)
        return self.total.copy() if self.noiseless else self.log_ratio.copy()

    def _by_mean_and_variance(self, rate: float) -> FloatArray:
        means, variances = self.means(), self.variances()
        scores = rate * means / float(means.var())
        added = rate * (1 - rate)
        if added > 0:
            usual = max(float(np.quantile(variances, 0.25)), LEAST_VARIANCE * added)
            weight = added / (usual * (usual + added))  # 1 / v - 1 / (v + d) without cancellation
            scores += (self.steps - 1) / 2 * weight * variances
        return scores
