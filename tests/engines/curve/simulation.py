"""Audits drawn from the whole-curve model itself, following its definition step by step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

import epsilometer as em
from epsilometer.model.family import Curves


class Truth(NamedTuple):
    """The truth behind a simulated audit: no curves if nothing leaks."""

    curves: Curves | None
    epsilon: float
    leak: float
    strengths: NDArray[np.float64]
    shown: float


def leak_of(curves: Curves, epsilon: float, delta: float) -> float:
    """The leak with the given epsilon, by bisection of epsilon alone."""
    high = 1.0
    while float(curves.epsilon(np.array(high), delta)) < epsilon:
        high *= 2
    return float(
        brentq(lambda leak: float(curves.epsilon(np.array(leak), delta)) - epsilon, 0.0, high)
    )


def seen_of(curves: Curves, leaks: NDArray[np.float64], delta: float, rate: float) -> float:
    """The most that these leaks show at rates of at least ``rate``, over many thresholds."""
    false = np.unique(
        np.concatenate([np.geomspace(rate, 1, 2000), 1 - np.geomspace(1e-9, 1, 2000)])
    )
    false = false[(false >= rate) & (false < 1)]
    true = curves.seen_true_positives(false, leaks)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.log(np.maximum(true - delta, 0) / false[:, None])
        below = np.log(np.maximum(1 - false - delta, 0)[:, None] / (1 - true))
    below[1 - true < rate] = -np.inf
    return float(max(above.max(), below.max(), 0.0))


def draw_truth(
    model: em.CurveModel, bases: int, rng: np.random.Generator, rate: float = 0.01
) -> Truth:
    """From the prior: whether anything leaks, the curves, epsilon at delta, the strengths.

    ``rate`` is the smallest that a base can show.
    """
    strengths = model.strength.sample(bases, rng=rng)
    if rng.random() < float(model.no_leak or 0.0):
        return Truth(None, 0.0, 0.0, strengths, 0.0)
    chances = np.array([each.probability for each in model.components])
    curves = model.components[int(rng.choice(len(chances), p=chances))].curves
    epsilon = float(model.epsilon.sample(1, rng=rng)[0])
    leak = leak_of(curves, epsilon, model.delta)
    shown = seen_of(curves, strengths * leak, model.delta, rate)
    return Truth(curves, epsilon, leak, strengths, shown)


def draw_scores(
    truth: Truth, zeros: int, ones: int, rng: np.random.Generator, *, slip: float = 1.0
) -> em.Scores:
    """Scores of every base; ``slip`` is a factor unknown to the model."""
    member = np.arange(zeros + ones) >= zeros
    without, with_point = [], []
    for strength in truth.strengths.tolist():
        if truth.curves is None:
            score = rng.random(len(member))
        else:
            score = truth.curves.sample(slip * strength * truth.leak, member, rng=rng)
        without.append(score[:zeros])
        with_point.append(score[zeros:])
    return em.Scores(without=without, with_point=with_point)
