"""Families of trade-off functions: pairs of distributions of a score, without and with the point.

The members of a family are indexed by their leak, a number >= 0; 0 is no leak at all (apart from an
atom).  A pair determines the trade-off function, that is, how well anyone can tell the two hypotheses
apart, and with it epsilon at every delta.  Higher scores look more like a member.

Any pair can be the component of a mixture in which the point matters only with probability ``rate``:
P0 and (1 - rate) P0 + rate P1.  `family.py` computes its epsilon; the pairs here are for rate = 1.

Prior weights favour families with the smaller epsilon for the same ROC curve: where few scores cannot
tell families apart, the interval then lies entirely above the truth about as often as it should
(docs/calibration.md).  An algorithm that samples its records is most often DP-SGD, whose noise is
normal: so mixtures are likely for Gaussian curves and rare for others, and when a sampling rate is
given the Gaussian family has most of the prior.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer.errors import InputError
from epsilometer.model.family import Family
from epsilometer.model.hard_cap import HardCap, MixedCap
from epsilometer.model.shapes import HardCaps, MixedCaps, Shape, SmoothCaps, VarianceRatios
from epsilometer.model.shifted import Gaussian, SmoothCap, ThinTail
from epsilometer.model.two_variances import TwoVariances

__all__ = [
    "AVERAGE",
    "FAMILIES",
    "FAMILY_KINDS",
    "OLDER_FAMILY_NAMES",
    "Gaussian",
    "HardCap",
    "HardCaps",
    "Laplace",
    "MixedCap",
    "MixedCaps",
    "RandomizedResponse",
    "SmoothCap",
    "SmoothCaps",
    "ThinTail",
    "TwoVariances",
    "VarianceRatios",
    "check_families",
    "families_of",
]


@dataclass(frozen=True, kw_only=True)
class Laplace(Family):
    """Laplace(0, 1) and Laplace(leak, 1): the Laplace mechanism.

    Examples
    --------
    >>> round(float(Laplace().epsilon(1.0, 1e-5)), 5)
    0.99998
    """

    name: ClassVar[str] = "laplace"
    prior_weight: ClassVar[float] = 3.9
    mixed_share: ClassVar[float] = 0.1

    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        """1 - exp((epsilon - leak) / 2), 0 where that is negative."""
        delta = np.maximum(-np.expm1((np.asarray(epsilon, float) - np.asarray(leak, float)) / 2), 0)
        return delta, delta

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        shift = 2 * math.log1p(-_validate.delta(delta))
        return np.maximum(np.asarray(leak, dtype=float) + shift, 0.0)

    def leak_of(self, epsilon: float, delta: float) -> float:
        return epsilon - 2 * math.log1p(-delta)

    def scores_at(self, share: FloatArray, leak: FloatArray, part: float) -> FloatArray:
        """In closed form: above the leak, below 0, and between them a quadratic in e^score."""
        t, w1 = share[:, None], part
        w0 = 1 - w1
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            top = leak + np.log((w0 * np.exp(-leak) + w1) / (2 * t))
            bottom = np.log(2 * (1 - t) / (w0 + w1 * np.exp(-leak)))
            half = w1 - t
            root = np.sqrt(half * half + w0 * w1 * np.exp(-leak))
            # Use the form of the root that does not cancel.
            middle = np.where(
                half > 0, leak + np.log((half + root) / w1), np.log(w0 / (root - half))
            )
        return np.where(top >= leak, top, np.where(bottom <= 0, bottom, np.clip(middle, 0, leak)))

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        return np.clip(2 * score - leak, -leak, leak)

    def above(self, score: FloatArray, leak: FloatArray) -> FloatPair:
        return _laplace_tail(score), _laplace_tail(score - leak)

    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        return rng.laplace(size=member.shape) + np.where(member, leak, 0.0)


def _laplace_tail(x: FloatArray) -> FloatArray:
    half = np.exp(-np.abs(x)) / 2
    return np.where(x >= 0, half, 1 - half)


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Family):
    """Randomised response: the boundary of R(leak, atom), straight between its corners.

    Parameters
    ----------
    atom
        The delta of the region: the probability that the point is revealed outright.  With the delta
        of the model this is the boundary of the paper's region.

    Examples
    --------
    >>> round(float(RandomizedResponse().epsilon(1.0, 0.1)), 4)
    0.8529
    """

    atom: float = 0.0
    pieces: ClassVar[bool] = True
    prior_weight: ClassVar[float] = 2.9
    mixed_share: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "atom", _validate.delta(self.atom))

    @property
    def name(self) -> str:
        return "response" if self.atom == 0 else f"response, atom {self.atom:g}"

    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        """The atom plus the rest: (e^leak - e^epsilon) / (1 + e^leak)."""
        pure, eps = np.asarray(leak, dtype=float), np.asarray(epsilon, dtype=float)
        rest = np.maximum(-np.expm1(eps - pure), 0.0) / (1 + np.exp(-pure))
        delta = self.atom + (1 - self.atom) * rest
        return delta, delta

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        pure = np.asarray(leak, dtype=float)
        left = (_validate.delta(delta) - self.atom) / (1 - self.atom)
        if left < 0:
            return np.full(pure.shape, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            # log(e^leak - left (1 + e^leak)), without large numbers.
            epsilon = pure + np.log(np.maximum(1 - left * (1 + np.exp(-pure)), 0.0))
        return np.asarray(np.maximum(epsilon, 0.0))

    def leak_of(self, epsilon: float, delta: float) -> float:
        left = (delta - self.atom) / (1 - self.atom)
        more = math.log((1 + left * math.exp(-epsilon)) / (1 - left)) if left >= 0 else -epsilon
        return epsilon + more

    def masses(self, leak: float) -> FloatPair:
        # A lie stays possible, however rare: 1 minus the truth would be 0 for leaks above 37.
        small = math.exp(-leak)
        rest = (1 - self.atom) * np.array([small, 1.0]) / (1 + small)
        if self.atom == 0:
            return rest, rest[::-1].copy()
        return np.array([0.0, *rest, self.atom]), np.array([self.atom, *rest[::-1], 0.0])

    def _values(self) -> FloatArray:
        """Scores of the pieces, highest first."""
        return np.array([1.0, 0.0] if self.atom == 0 else [2.0, 1.0, 0.0, -1.0])

    def scores_at(self, share: FloatArray, leak: FloatArray, part: float) -> FloatArray:
        scores = np.empty((len(share), len(leak)))
        for column, value in enumerate(leak.tolist()):
            without, with_point = self.masses(value)
            ends = np.cumsum((1 - part) * without + part * with_point)
            scores[:, column] = self._values()[np.searchsorted(ends[:-1], share)]
        return scores

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        ratio = (2 * score - 1) * leak
        with np.errstate(invalid="ignore"):
            return np.where(score == 2, np.inf, np.where(score == -1, -np.inf, ratio))

    def above(self, score: FloatArray, leak: FloatArray) -> FloatPair:
        """Ties are broken at random: half of a piece is above its own score."""
        truth, rest = 1 / (1 + np.exp(-np.asarray(leak))), 1 - self.atom
        lie, tell = rest * (1 - truth), rest * truth
        # Scores of the pieces from the highest, and their probabilities without and with the point.
        pieces = ((2, 0.0, self.atom), (1, lie, tell), (0, tell, lie), (-1, self.atom, 0.0))
        shares = [np.where(score < value, 1.0, 0.5 * (score == value)) for value, *_ in pieces]
        without = sum(share * piece[1] for share, piece in zip(shares, pieces, strict=True))
        with_point = sum(share * piece[2] for share, piece in zip(shares, pieces, strict=True))
        return np.asarray(without), np.asarray(with_point)

    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        lie = rng.random(member.shape) * (1 + np.exp(np.asarray(leak, dtype=float))) < 1
        scores = (member ^ lie).astype(float)
        seen = rng.random(member.shape) < self.atom
        return np.where(seen, np.where(member, 2.0, -1.0), scores)


#: Families averaged over by default, by the names used in options.
FAMILIES: dict[str, Family | Shape] = {
    family.name: family
    for family in (
        Gaussian(),
        Laplace(),
        RandomizedResponse(),
        HardCaps(),
        MixedCaps(),
        SmoothCaps(),
        VarianceRatios(),
        VarianceRatios(exchanged=True),
        ThinTail(),
    )
}

AVERAGE = "average"


def families_of(name: str) -> tuple[Family | Shape, ...]:
    """One family by its name, or all of :data:`FAMILIES`."""
    _validate.one_of("family", name, (AVERAGE, *FAMILIES))
    return tuple(FAMILIES.values()) if name == AVERAGE else (FAMILIES[name],)


#: Family classes by the name used in files; register new ones here.
FAMILY_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Gaussian,
        Laplace,
        RandomizedResponse,
        HardCap,
        MixedCap,
        SmoothCap,
        TwoVariances,
        ThinTail,
        HardCaps,
        MixedCaps,
        SmoothCaps,
        VarianceRatios,
    )
}

#: Names in files of version 0.2 and earlier.
OLDER_FAMILY_NAMES: dict[str, type] = {
    "GaussianCurves": Gaussian,
    "TwoVarianceCurves": TwoVariances,
    "LaplaceCurves": Laplace,
    "ResponseCurves": RandomizedResponse,
}


def check_families(families: object) -> tuple[Family | Shape, ...]:
    """One family or several, without duplicates."""
    candidates = tuple(families if isinstance(families, tuple | list) else (families,))
    if not candidates or not all(hasattr(family, "members") for family in candidates):
        raise InputError(f"expected one or more families of curves, got {families!r}.")
    if len({family.name for family in candidates}) < len(candidates):
        raise InputError("expected distinct families, got one twice.")
    return candidates
