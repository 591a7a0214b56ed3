"""Attacks of chosen power on known mechanisms: counts and scores whose truth is known.

``power`` 1 is the best possible attack.  Below 1, each trial with the point is treated, with probability
1 - power, as if the point were absent: the error rates move from the trade-off curve towards guessing,
(alpha, power beta + (1 - power)(1 - alpha)), while the mechanism's epsilon does not change.
"""

from __future__ import annotations

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.calibration.mechanisms import GaussianMechanism, Mechanism
from epsilometer.errors import InputError
from epsilometer.model.scores import Scores


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

    Every attack is tuned to the false-positive rate ``rate``, as in most audits; if it is None, each has
    its own, uniform on (0, 1).
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
    """Scores of included and of excluded canaries, each included by a fair coin.

    Coins that leave either group empty are flipped again.
    """
    while True:
        member = rng.random(canaries) < 0.5
        if 0 < member.sum() < canaries:
            break
    seen = member & (rng.random(canaries) < power)
    scores = mechanism.scores(seen, rng)
    return scores[member], scores[~member]


def draw_bases(
    mechanism: Mechanism,
    *,
    power: float,
    strengths: tuple[float, float] | None,
    bases: int,
    models: int,
    rng: np.random.Generator,
) -> Scores:
    """Scores of challenge bases, each with ``models`` trained without the point and as many with it.

    With ``strengths`` (a, b), base i is attacked as if the (Gaussian) mechanism had mu s_i instead of
    mu, with s_i ~ Beta(a, b); the mechanism's epsilon does not change.
    """
    mechanisms: list[Mechanism] = [mechanism] * bases
    if strengths is not None:
        if not isinstance(mechanism, GaussianMechanism):
            raise InputError(f"expected a Gaussian mechanism with strengths, got {mechanism}.")
        mechanisms = [
            GaussianMechanism(mechanism.mu * s) for s in rng.beta(*strengths, bases).tolist()
        ]
    without, with_point = [], []
    for base_mechanism in mechanisms:
        seen = rng.random(models) < power
        without.append(base_mechanism.scores(np.zeros(models, dtype=bool), rng))
        with_point.append(base_mechanism.scores(seen, rng))
    return Scores(without=without, with_point=with_point)
