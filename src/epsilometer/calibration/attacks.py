"""Attacks of chosen strength on known mechanisms: counts and scores whose truth is known.

``power`` 1 is the best attack there is.  Below 1 each trial with the point is, with probability
1 - power, answered as if the point were absent: the error rates move from the trade-off curve towards
guessing, (alpha, power beta + (1 - power)(1 - alpha)), and the mechanism's epsilon stays what it is.
"""

from __future__ import annotations

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.calibration.mechanisms import Mechanism


def draw_counts(
    mechanism: Mechanism,
    rate: float | None,
    *,
    power: float,
    trials: int,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """False positives and false negatives, of ``trials`` each, for (runs, bases).

    Every attack is tuned to the false-positive rate ``rate``, as most audits do; if that is None, each
    has its own, uniform on (0, 1).
    """
    if rate is None:
        alpha = rng.random(shape)
    else:
        alpha = np.full(shape, _validate.open_unit_interval("rate", rate))
    beta = power * mechanism.least_beta(alpha) + (1 - power) * (1 - alpha)
    return rng.binomial(trials, alpha), rng.binomial(trials, np.clip(beta, 0.0, 1.0))


def draw_scores(
    mechanism: Mechanism, *, power: float, canaries: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Scores of canaries put in by a fair coin each: those that were in, and those that were not.

    Coins that leave either group empty are thrown again.
    """
    while True:
        member = rng.random(canaries) < 0.5
        if 0 < member.sum() < canaries:
            break
    seen = member & (rng.random(canaries) < power)
    scores = mechanism.scores(seen, rng)
    return scores[member], scores[~member]
