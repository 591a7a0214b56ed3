"""Data whose truth is known: attacks of chosen power on mechanisms, and draws from the count model.

``power`` 1 is the best possible attack.  Below 1, each trial with the point is treated, with probability
1 - power, as if the point were absent: the error rates move from the trade-off curve towards guessing,
(alpha, power beta + (1 - power)(1 - alpha)), while the mechanism's epsilon does not change.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize.elementwise import find_root

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import sample_members
from epsilometer.model.models import CountModel
from epsilometer.model.scores import Scores
from studies.mechanisms import Mechanism, weaker


def sample_ring(
    size: int, epsilon: float, delta: float, strength: float, *, rng: np.random.Generator
) -> FloatPair:
    """Draw ``size`` points (alpha, beta) uniformly from one ring R_s(epsilon, delta).

    By inversion, independent of the triangles of `region.sample_rings`: the scale u of the curve on
    which a point lies has density proportional to d/du |R(u epsilon, u delta)|, and along that curve
    the point follows the flux of the moving edge.  At s = 1 the points lie on the boundary curve.

    Examples
    --------
    >>> alpha, beta = sample_ring(5, 1.0, 0.01, 0.5, rng=np.random.default_rng(1))
    >>> inside = region.contains(alpha, beta, 1.0, 0.01)
    >>> bool(np.all(inside & ~region.contains(alpha, beta, 0.5, 0.005)))
    True
    """
    if epsilon == 0 and delta == 0:
        raise InputError("expected epsilon > 0 or delta > 0: R(0, 0) is a line without area.")
    scale = _sample_scale(rng.random(size), epsilon, delta, strength)
    t, d = scale * epsilon, scale * delta
    # Edge alpha in [c, 1 - d], beta = e^-t (1 - d - alpha); it sweeps epsilon beta + delta e^-t.
    # In terms of y = 1 - d - alpha in [0, y_max]: density proportional to epsilon y + delta.
    y_max = (1 - d) / (1 + np.exp(-t))
    y = y_max * _sample_linear(rng.random(size), delta, epsilon * y_max)
    alpha = 1 - d - y
    beta = np.exp(-t) * y
    swap = rng.random(size) < 0.5
    alpha, beta = np.where(swap, beta, alpha), np.where(swap, alpha, beta)
    reflect = rng.random(size) < 0.5
    return np.where(reflect, 1 - alpha, alpha), np.where(reflect, 1 - beta, beta)


def _sample_linear(uniform: FloatArray, constant: float, slope: FloatArray) -> FloatArray:
    """Invert the distribution function of the density (constant + slope x) on [0, 1]."""
    total = constant + slope / 2
    discriminant = np.sqrt(constant**2 + 2 * slope * uniform * total)
    return np.asarray(2 * uniform * total / (constant + discriminant))


def _sample_scale(uniform: FloatArray, epsilon: float, delta: float, strength: float) -> FloatArray:
    """Solve |R_u minus core| = uniform * |ring| for the scale u."""

    def outside(scale: FloatArray) -> FloatArray:
        """Area between the curve of this scale and the outer edge."""
        return np.exp(region.log_ring_area(epsilon, delta, scale))

    ends = np.full_like(uniform, strength), np.ones_like(uniform)
    if strength == 1 or not uniform.size:
        return ends[1]
    total = outside(ends[0][0])

    def excess(scale: FloatArray, share: FloatArray) -> FloatArray:
        return outside(scale) / total - (1 - share)

    return np.asarray(find_root(excess, ends, args=(uniform,)).x)


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
    fixed_strengths: tuple[float, ...] | None = None,
) -> Scores:
    """Scores of challenge bases, each with ``models`` trained without the point and as many with it.

    With ``strengths`` (a, b), base i is attacked as if the (Gaussian) mechanism had mu s_i instead of
    mu, with s_i ~ Beta(a, b), or with the given strengths; the mechanism's epsilon does not change.
    """
    mechanisms: list[Mechanism] = [mechanism] * bases
    if strengths is not None:
        fixed_strengths = tuple(rng.beta(*strengths, bases).tolist())
    if fixed_strengths is not None:
        mechanisms = [weaker(mechanism, strength) for strength in fixed_strengths]
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
    alpha, beta = sample_ring(
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
    alpha, beta = sample_ring(groups, truth["epsilon"], model.delta, truth["strength"], rng=rng)
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
