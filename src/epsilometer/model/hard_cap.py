"""Gaussian curves whose likelihood ratio is capped: compositions of a few pure mechanisms."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair
from epsilometer.model.family import Capped
from epsilometer.model.shifted import Gaussian, leak_with, solved


@dataclass(frozen=True, kw_only=True)
class HardCap(Capped):
    """The larger of the Gaussian trade-off function and that of (ratio leak, 0)-DP.

    k-fold compositions of pure mechanisms have a ratio of about sqrt(k).  The score is normal without
    the point; with it, its upper tail is the smallest of Phi(leak - x), e^c Phi(-x) and 1 - e^-c Phi(x),
    for c = ratio leak.  So the curve is Gaussian between two cuts, and straight beyond them.
    """

    @property
    def name(self) -> str:
        return f"hard cap {self.ratio:.4g}"

    def _cuts(self, leak: FloatArray) -> FloatPair:
        """The lower and the upper cut; equal if no part of the curve is Gaussian."""
        cap = self.ratio * leak
        # Where both straight parts meet.
        middle = -ndtri(1 / (1 + np.exp(np.minimum(cap, 700.0))))
        curved = (log_ndtr(leak / 2) - log_ndtr(-leak / 2) < cap) & (leak > 0)
        mu, c = leak[curved], cap[curved]

        def step(x: FloatArray) -> FloatPair:
            missing = c - (log_ndtr(mu - x) - log_ndtr(-x))
            slope = _hazard(x) - _hazard(x - mu)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                return missing, missing / slope

        low = mu / 2
        # The ratio at a cut is below the mean ratio beyond it.
        high = low + self.ratio
        upper, lower = middle.copy(), middle.copy()
        upper[curved] = solved(step, low, high, (low + high) / 2)
        lower[curved] = mu - upper[curved]
        return lower, upper

    def scores_at(self, share: FloatArray, leak: FloatArray, part: float) -> FloatArray:
        """In closed form beyond the cuts, as for the Gaussian between them."""
        cap = np.exp(np.minimum(self.ratio * leak, 700.0))
        low, high = self._cuts(leak)
        shares = share[:, None]
        top = -ndtri(shares / (1 - part + part * cap))
        bottom = ndtri(np.minimum((1 - shares) / (1 - part + part / cap), 1.0))
        scores = np.where(top >= high, top, np.where(bottom <= low, bottom, 0.0))
        between = (top < high) & (bottom > low)
        if between.any():
            columns = between.any(axis=0)
            rows = between.any(axis=1)
            inner = Gaussian().scores_at(share[rows], leak[columns], part)
            inner = np.clip(inner, low[columns], high[columns])
            place = np.ix_(rows, columns)
            scores[place] = np.where(between[place], inner, scores[place])
        return scores

    def log_ratio(self, score: FloatArray, leak: FloatArray) -> FloatArray:
        leaks = np.asarray(leak, dtype=float)
        low, high = (cut.reshape(leaks.shape) for cut in self._cuts(leaks.ravel()))
        inner = Gaussian().log_ratio(score, leaks)
        ends = np.where(score < low, -self.ratio * leaks, inner)
        return np.where(score >= high, self.ratio * leaks, ends)

    def jumps(self, leak: FloatArray) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        low, high = self._cuts(leak)
        cap = self.ratio * leak
        inner = (Gaussian().log_ratio(cut, leak) for cut in (high, low))
        return [(high, cap, next(inner)), (low, next(inner), -cap)]

    def above(self, score: FloatArray, leak: FloatArray) -> FloatPair:
        cap = np.minimum(self.ratio * leak, 700.0)
        straight = np.exp(cap + log_ndtr(-score)), 1 - np.exp(-cap) * ndtr(score)
        with_point = np.minimum(ndtr(leak - score), np.minimum(*straight))
        return ndtr(-score), with_point

    def delta(self, leak: ArrayLike, epsilon: ArrayLike) -> FloatPair:
        mu, eps = np.broadcast_arrays(np.asarray(leak, float), np.asarray(epsilon, float))
        cut = self._cuts(mu.ravel())[1].reshape(mu.shape)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            x = np.minimum(eps / mu + mu / 2, cut)
            without, with_point = self.above(x, mu)
            delta = np.maximum(with_point - np.exp(eps) * without, 0.0)
        delta = np.where((mu > 0) & (eps < self.ratio * mu), delta, 0.0)
        return delta, delta

    def epsilon(self, leak: ArrayLike, delta: float) -> FloatArray:
        """That of the Gaussian, or of the straight part that begins at the cut."""
        leaks = np.asarray(leak, dtype=float)
        delta = _validate.delta(delta)
        cap = self.ratio * leaks
        if delta == 0:
            return cap
        cut = self._cuts(leaks.ravel())[1].reshape(leaks.shape)
        normal = Gaussian().epsilon(leaks, delta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # log(e^c - delta / Phi(-cut)), without large numbers.
            straight = cap + np.log1p(-np.minimum(delta * np.exp(-cap - log_ndtr(-cut)), 1.0))
            touches = (normal / leaks + leaks / 2 <= cut) & (normal < cap)
        return np.where(leaks > 0, np.maximum(np.where(touches, normal, straight), 0.0), 0.0)

    def leak_of(self, epsilon: float, delta: float) -> float:
        return epsilon / self.ratio if delta == 0 else leak_with(self, epsilon, delta)

    def sample(self, leak: ArrayLike, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        leaks = np.broadcast_to(np.asarray(leak, dtype=float), member.shape)[member]
        cap = np.minimum(self.ratio * leaks, 700.0)
        low, high = self._cuts(leaks)
        share = rng.random(leaks.shape)
        top = -ndtri(share * np.exp(-cap))
        with np.errstate(over="ignore"):
            bottom = ndtri(np.minimum((1 - share) * np.exp(cap), 1.0))
        inner = np.clip(leaks - ndtri(share), low, high)
        scores = rng.standard_normal(member.shape)
        scores[member] = np.where(top >= high, top, np.where(bottom <= low, bottom, inner))
        return scores


@dataclass(frozen=True, kw_only=True)
class MixedCap(HardCap):
    """The same for mixtures only: attacks that miss the point now and then, on such mechanisms."""

    mixed_share: ClassVar[float] = 1.0
    #: Rarer ones look like any rare leak.
    least_rate: ClassVar[float] = 0.2

    @property
    def name(self) -> str:
        return f"mixed cap {self.ratio:.4g}"


def _hazard(x: FloatArray) -> FloatArray:
    """Density of N(0, 1) over its upper tail."""
    return np.asarray(np.exp(-x * x / 2 - log_ndtr(-x)) / math.sqrt(2 * math.pi))
