"""Scores of gradient canaries from the noisy sums that DP-SGD releases, read at their coordinates.

Let x_t be the noisy coordinate of a canary in step t, without what the records add there, over the
clipping norm; q the sampling rate, s the noise multiplier and T the number of steps.  A canary that is
in adds 1 to x_t with probability q, so by the claim x_t is N(0, s²) for one that is out and
(1 - q) N(0, s²) + q N(1, s²) for one that is in.

The usual score is the log likelihood ratio of the two, the best there is for this claim:

    sum over t of log(1 - q + q exp(x_t / s² - 1 / (2 s²)))

It takes the coordinate to be noise alone.  Where the same noise came in every step, or gradients of
records that were not taken off push a coordinate the same way all the time, the means over steps m_i
spread by far more than that, and the ratio would rank canaries by their coordinates.  That shows without
the coins: by the claim the variance of m_i over canaries is (mean variance over steps) / T + q² / 4.
From `EXCESS` times that on, the model is x_t = a_i + N(0, v) with a_i normal of variance b: membership
adds q to the mean and d = q (1 - q) to the variance w_i over steps.  The log likelihood ratio is, but
for constants,

    q m_i / b + (T - 1) / 2 · w_i (1 / v - 1 / (v + d))

with the variance of m_i as b and the lower quartile of w_i as v: at most half of the canaries are in.

No score looks at the coins, so any choice among them is allowed.
"""

from __future__ import annotations

import math

import numpy as np

from epsilometer._arrays import FloatArray

EXCESS = 2.0
"""Of the variance of means over steps, from which steps are not taken as independent noise."""

FEWEST_STEPS = 5
"""Variances over fewer steps say too little."""

LEAST_VARIANCE = 1e-6
"""Of v, relative to what membership adds: without noise it would be 0."""


class NoisyCoordinates:
    """What is kept of the noisy coordinates of all canaries: three sums, however many the steps."""

    def __init__(self, count: int) -> None:
        self.steps = 0
        self.silent = False
        """Whether a step claimed no noise at all: then there is no likelihood ratio."""
        self.log_ratio: FloatArray = np.zeros(count)
        self.total: FloatArray = np.zeros(count)
        self.squares: FloatArray = np.zeros(count)

    def add(self, x: FloatArray, *, noise_multiplier: float, sampling_rate: float) -> None:
        """One step: coordinates over the clipping norm, with the noise and the rate that are claimed."""
        self.steps += 1
        self.total += x
        self.squares += x**2
        if noise_multiplier == 0:
            self.silent = True
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
        found = (self.squares - self.total**2 / self.steps) / (self.steps - 1)
        return np.maximum(found, 0.0)  # rounding

    def explained(self, sampling_rate: float) -> bool:
        """Whether independent noise and membership explain how means over steps differ."""
        if self.steps < FEWEST_STEPS:
            return True
        expected = float(self.variances().mean()) / self.steps + sampling_rate**2 / 4
        return float(self.means().var()) <= EXCESS * expected

    def scores(self, sampling_rate: float) -> FloatArray:
        """A score of each canary; higher looks more like a member."""
        if not self.explained(sampling_rate):
            return self._by_mean_and_variance(sampling_rate)
        return self.total.copy() if self.silent else self.log_ratio.copy()

    def _by_mean_and_variance(self, rate: float) -> FloatArray:
        means, variances = self.means(), self.variances()
        found = rate * means / float(means.var())
        added = rate * (1 - rate)
        if added > 0:
            usual = max(float(np.quantile(variances, 0.25)), LEAST_VARIANCE * added)
            weight = added / (usual * (usual + added))  # 1 / v - 1 / (v + d) without cancellation
            found += (self.steps - 1) / 2 * weight * variances
        return found
