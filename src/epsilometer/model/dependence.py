"""How attacks of one group depend on each other: appendix C of the paper.

A group is a set of attacks expected to perform about equally well: the same challenge point with
different datasets, or one challenge base under several decision rules.  Its average error rates (a, b)
are uniform on the ring R_s(epsilon, delta), like those of a single attack, and the rates of its
members scatter around the average.  Members satisfy theorem 1 as well, so the scatter is truncated to
R(epsilon, delta) and divided by its probability Z(a, b) of that region:

    p(alpha, beta | a, b) = k(alpha - a) k(beta - b) 1[(alpha, beta) in R(epsilon, delta)] / Z(a, b).

A group of one is its own average: it does not scatter, and the model is that of independent attacks.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.errors import InputError
from epsilometer.model import region
from epsilometer.model.priors import HalfNormal, Prior

DEFAULT_SPREAD = HalfNormal(scale=0.05)

#: Rates are in [0, 1]: a wider scatter would not be centred on anything.
LARGEST_SPREAD = 1.0


@dataclass(frozen=True, kw_only=True)
class NormalScatter:
    """Both rates scatter normally and independently; the spread is their standard deviation.

    Deviations z are of one rate, in spreads; beyond ``reach`` of them the density is negligible.
    """

    name = "normal"
    reach = 5.0

    def distribution(self, z: ArrayLike) -> FloatArray:
        return np.asarray(ndtr(np.asarray(z, dtype=float)))

    def sample(self, size: tuple[int, ...], *, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal(size)


@dataclass(frozen=True, kw_only=True)
class UniformScatter:
    """Both rates scatter uniformly and independently; the spread is again their standard deviation.

    Each member is in a square of half side sqrt(3) times the spread around the average.
    """

    name = "uniform"
    reach = math.sqrt(3.0)

    def distribution(self, z: ArrayLike) -> FloatArray:
        deviation = np.asarray(z, dtype=float)
        return np.clip(0.5 + deviation / (2 * self.reach), 0.0, 1.0)

    def sample(self, size: tuple[int, ...], *, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-self.reach, self.reach, size)


#: How the rates of a member scatter around its group's average; both rates scatter alike.
Scatter = NormalScatter | UniformScatter

#: Scatter classes by name.
SCATTERS: dict[str, type[Scatter]] = {"normal": NormalScatter, "uniform": UniformScatter}


@dataclass(frozen=True, kw_only=True)
class IndependentRows:
    """Every row is a separate attack, whatever group it names."""

    name = "independent"
    label = "rows alone"
    spread = None
    scatter = None
    sums_only = False
    description = ("Some attacks name a common group, which was ignored.",)


def _spread_description(prior: Prior) -> str:
    if prior.fixed_value is not None:
        return f"The spread of that scatter is {prior.description}."
    return (
        "The spread of that scatter, a standard deviation, is estimated; before the data it is "
        f"below {float(prior.quantile(0.95)):.2g} with probability 0.95."
    )


@dataclass(frozen=True, kw_only=True)
class ScatteredMembers:
    """Members scatter around the average of their group: the full model of appendix C.

    Parameters
    ----------
    scatter
        How they scatter.  Default: normally.
    spread
        Prior of the standard deviation of each rate, before the scatter is truncated to
        R(epsilon, delta).  Default: half-normal with scale 0.05.  Use ``Fixed(value=...)`` if it is
        known.  One spread applies to all groups.  At spread 0 a group is one attack with pooled counts.
    """

    scatter: Scatter = NormalScatter()
    spread: Prior = DEFAULT_SPREAD

    name = "scattered"
    sums_only = False

    def __post_init__(self) -> None:
        if not isinstance(self.scatter, Scatter):
            raise InputError(
                f"expected NormalScatter() or UniformScatter(), got scatter={self.scatter!r}."
            )
        _check_spread(self.spread)

    @property
    def label(self) -> str:
        return f"{self.scatter.name} scatter"

    @property
    def description(self) -> tuple[str, ...]:
        return (
            f"The error rates of a group's members scatter {self.scatter.name}ly around its average, "
            "truncated to what epsilon and delta allow; a group of one is its own average.",
            _spread_description(self.spread),
        )


@dataclass(frozen=True, kw_only=True)
class PooledGroups:
    """The cheaper form of appendix C: a group's counts are added up and taken to be normal.

    Given the average (a, b), X = sum of X_j has mean N a and variance N a (1 - a) + spread^2 S, where
    N = sum of N_j and S = sum of N_j (N_j - 1); Y is analogous, and independent of X.  These are the
    moments of the scattered members before the scatter is truncated to R(epsilon, delta).

    Parameters
    ----------
    spread
        As in :class:`ScatteredMembers`.
    """

    spread: Prior = DEFAULT_SPREAD

    name = "pooled"
    label = "pooled"
    scatter = None
    sums_only = True

    def __post_init__(self) -> None:
        _check_spread(self.spread)

    @property
    def description(self) -> tuple[str, ...]:
        return (
            "The counts of a group are added up and taken to be normal, with the variance that "
            "members scattering around the average would give them.",
            _spread_description(self.spread),
        )


#: How attacks of one group depend on each other.  ``label`` is for tables; ``spread`` is the prior
#: of the spread of members around their average, None if rows are independent; ``scatter`` is None
#: if only its moments matter; ``sums_only`` means that the evidence is of a group's sums, and so
#: not comparable with any other model's.
Dependence = IndependentRows | ScatteredMembers | PooledGroups

#: Dependence classes by the name used in files; register new ones here.
DEPENDENCES: dict[str, type[Dependence]] = {
    kind.__name__: kind for kind in (IndependentRows, ScatteredMembers, PooledGroups)
}


def _check_spread(prior: Prior) -> None:
    if not isinstance(prior, Prior):
        raise InputError(f"expected a prior for the spread, got spread={prior!r}.")
    if prior.fixed_value is not None:
        if not prior.fixed_value < LARGEST_SPREAD:
            raise InputError(f"expected 0 <= spread < 1, got spread={prior.fixed_value}.")
    elif float(prior.upper_quantile(1e-4)) > LARGEST_SPREAD:
        raise InputError(f"expected a prior of the spread that stays below 1, got {prior!r}.")


def sample_members(
    scatter: Scatter,
    alpha: FloatArray,
    beta: FloatArray,
    spread: ArrayLike,
    epsilon: ArrayLike,
    delta: float,
    *,
    rng: np.random.Generator,
) -> FloatPair:
    """Draw a member around each average (alpha, beta) by rejection until all are in R(epsilon, delta).

    Averages must be inside R(epsilon, delta), any shape; spread and epsilon broadcast against them.  A
    draw is kept with probability Z(alpha, beta).  Where R(epsilon, delta) is a strip much thinner than
    the spread, members still missing after 200 rounds are sought among a hundred times as many draws at
    once, and if that fails the average itself is used.

    Examples
    --------
    >>> centre = np.full(4, 0.3)
    >>> a, b = sample_members(
    ...     NormalScatter(), centre, centre, 0.05, 1.0, 0.0, rng=np.random.default_rng(1)
    ... )
    >>> bool(np.all(region.contains(a, b, 1.0, 0.0)))
    True
    """
    arrays = np.broadcast_arrays(alpha, beta, spread, epsilon)
    flat = [np.ravel(values) for values in arrays]
    found_alpha, found_beta = flat[0].astype(float), flat[1].astype(float)
    missing = np.flatnonzero(flat[2] > 0)
    for number in range(400):
        if not len(missing):
            break
        many = 1 if number < 200 else 100
        a, b, width, e = (np.repeat(values[missing], many) for values in flat)
        x = a + width * scatter.sample(a.shape, rng=rng)
        y = b + width * scatter.sample(b.shape, rng=rng)
        inside = (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
        inside[inside] = region.contains(x[inside], y[inside], e[inside], delta)
        kept = inside.reshape(-1, many)
        first = np.argmax(kept, axis=1) + many * np.arange(len(missing))
        ok = kept.any(axis=1)
        found_alpha[missing[ok]], found_beta[missing[ok]] = x[first[ok]], y[first[ok]]
        missing = missing[~ok]
    return found_alpha.reshape(arrays[0].shape), found_beta.reshape(arrays[0].shape)
