"""Data whose truth is known: attacks of chosen power on mechanisms, and draws from the count model.

``power`` 1 is the best possible attack.  Below 1, each trial with the point is treated, with probability
1 - power, as if the point were absent: the error rates move from the trade-off curve towards guessing,
(alpha, power beta + (1 - power)(1 - alpha)), while the mechanism's epsilon does not change.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import sample_members
from epsilometer.model.models import CountModel
from epsilometer.model.scores import Scores
from studies.mechanisms import GaussianMechanism, Mechanism


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
    alpha = rng.random(shape) if rate is None else np.full(shape, rate)
    beta = power * mechanism.least_beta(alpha) + (1 - power) * (1 - alpha)
    return rng.binomial(trials, alpha), rng.binomial(trials, np.clip(beta, 0.0, 1.0))


def counts_of(false_positives: IntArray, false_negatives: IntArray, trials: int) -> AttackCounts:
    """The counts of some bases, all with the same number of trials."""
    return AttackCounts(
        false_positives=false_positives,
        trials_h0=trials,
        false_negatives=false_negatives,
        trials_h1=trials,
    )


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
    bases: int,
    models: int,
    rng: np.random.Generator,
    power: float = 1.0,
    strengths: tuple[float, float] | None = None,
) -> Scores:
    """Scores of challenge bases, each with ``models`` trained without the point and as many with it.

    With ``strengths`` (a, b), base i is attacked as if the (Gaussian) mechanism had mu s_i instead of
    mu, with s_i ~ Beta(a, b); the mechanism's epsilon does not change.
    """
    mechanisms: list[Mechanism] = [mechanism] * bases
    if strengths is not None:
        if not isinstance(mechanism, GaussianMechanism):
            raise InputError(f"expected a Gaussian mechanism with strengths, got {mechanism}.")
        drawn = rng.beta(*strengths, bases).tolist()
        mechanisms = [GaussianMechanism(mechanism.mu * strength) for strength in drawn]
    without, with_point = [], []
    for base_mechanism in mechanisms:
        seen = rng.random(models) < power
        without.append(base_mechanism.scores(np.zeros(models, dtype=bool), rng))
        with_point.append(base_mechanism.scores(seen, rng))
    return Scores(without=without, with_point=with_point)


# --- the count model itself: parameters from the prior, counts from the model ----------------------


def _blank(trials: int, groups: list[str]) -> AttackCounts:
    """One row per label, with no errors counted yet."""
    return AttackCounts(
        false_positives=[0] * len(groups),
        trials_h0=trials,
        false_negatives=0,
        trials_h1=trials,
        groups=groups,
    )


def _truth(model: CountModel, counts: AttackCounts, rng: np.random.Generator) -> dict[str, float]:
    """Epsilon, strength and, for groups, spread, drawn from their priors."""
    priors = model.priors_of(counts).items()
    return {name: float(prior.sample(1, rng=rng)[0]) for name, prior in priors}


def draw_model(
    model: CountModel, bases: int, trials: int, rng: np.random.Generator, *, slip: float = 1.0
) -> tuple[dict[str, float], AttackCounts]:
    """Parameters from the prior, counts from the model.

    ``slip`` is for controls: counts come from attacks at this multiple of the returned epsilon.
    """
    blank = _blank(trials, [""] * bases)
    truth = _truth(model, blank, rng)
    alpha, beta = region.sample_ring(
        bases, slip * truth["epsilon"], model.delta, truth["strength"], rng=rng
    )
    nuisance = model.likelihood.sample_nuisance(blank, rng=rng)
    x, y = model.likelihood.sample_counts(blank, (alpha, beta), nuisance, rng=rng)
    return truth, replace(blank, false_positives=x, false_negatives=y)


def draw_groups(
    model: CountModel,
    groups: int,
    members: int,
    trials: int,
    rng: np.random.Generator,
    *,
    slip: float = 1.0,
) -> tuple[dict[str, float], AttackCounts]:
    """Parameters from the prior, counts of groups of dependent attacks from the model.

    Pooled groups are drawn from the scatter with the same moments, but without the truncation to
    R(epsilon, delta), and their counts are normal.  ``slip`` is as in :func:`draw_model`, for the
    spread.
    """
    labels = [f"group {number + 1}" for number in range(groups) for _ in range(members)]
    blank = _blank(trials, labels)
    truth = _truth(model, blank, rng)
    alpha, beta = region.sample_ring(
        groups, truth["epsilon"], model.delta, truth["strength"], rng=rng
    )
    spread, scatter = slip * truth["spread"], model.dependence.scatter
    if scatter is not None:
        averages = np.repeat(alpha, members), np.repeat(beta, members)
        alpha, beta = sample_members(
            scatter, *averages, spread, truth["epsilon"], model.delta, rng=rng
        )
        x, y = rng.binomial(trials, alpha), rng.binomial(trials, beta)
    else:
        x, y = (_normal_members(rate, spread, members, trials, rng) for rate in (alpha, beta))
    return truth, replace(blank, false_positives=x, false_negatives=y)


def _normal_members(
    rate: FloatArray, spread: float, members: int, trials: int, rng: np.random.Generator
) -> IntArray:
    """Counts whose sums are normal with the moments of :class:`PooledGroups`, split evenly."""
    number = members * trials
    variance = number * rate * (1 - rate) + spread**2 * members * trials * (trials - 1)
    total = np.rint(number * rate + np.sqrt(variance) * rng.standard_normal(len(rate)))
    total = np.clip(total, 0, number).astype(np.int64)
    return np.concatenate([(t + np.arange(members)) // members for t in total])
