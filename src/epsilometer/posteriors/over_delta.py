"""The posterior of epsilon as a function of delta: a separate model and posterior for each delta."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair, IndexArray
from epsilometer._display import Plotted
from epsilometer._text import percent
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.posteriors.marginals import check_probability
from epsilometer.posteriors.panels import PanelDensity
from epsilometer.posteriors.provenance import Provenance

#: Quantiles checked by :attr:`DeltaCurve.rises`.
WATCHED = (0.05, 0.5, 0.95)

POINTWISE = (
    "Each delta has its own model and posterior. The band contains epsilon with its probability at "
    "each delta separately; it is not a joint band for the whole curve."
)

WHY_IT_RISES = (
    "The true epsilon cannot rise with delta, but its estimate may, because each delta is estimated "
    "separately; an upper bound from a smaller delta still holds at a larger one. It happens after "
    "weak attacks, for two reasons. First, error rates that delta alone allows say little about "
    "epsilon: the larger delta is, the weaker the attacks seem, and the more epsilon returns to its "
    "prior. Second, error rates are assumed to be anywhere in the region of (epsilon, delta), which is "
    "a band of even width where epsilon is below delta and narrows towards rates of 0 and 1 where it "
    "is above: nearly uninformative attacks that all aim at one rate favour the latter if that rate "
    "is about one half and the former if it is low, so epsilon follows delta."
)


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """The posterior of epsilon at one delta."""

    delta: float
    density: PanelDensity
    error: float
    #: Whether it was solved directly; otherwise it is interpolated.
    solved: bool


@dataclass(frozen=True, kw_only=True)
class Rise:
    """A quantile of epsilon that is higher at a delta than at a smaller one, beyond the tolerance.

    Attributes
    ----------
    probability
        Which quantile.
    lowest_at, lowest, highest_at, highest
        The delta up to which it fell, and the larger delta at which it is highest above that; its
        value at each.
    """

    probability: float
    lowest_at: float
    lowest: float
    highest_at: float
    highest: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeltaCurve(Plotted, view="results.OVER_DELTA"):
    """The posterior of epsilon at each of several deltas.

    Each delta has its own model and posterior: intervals hold at each delta separately, and there is no
    joint distribution of the whole curve.

    Attributes
    ----------
    counts, model
        The data and the model; the model's own delta is not used.
    points
        Delta, density and error estimate, in order of increasing delta.
    tolerance, provenance
        The requested accuracy of quantiles and mean, relative above 1; how it was computed.
    """

    counts: AttackCounts
    model: CountModel
    points: tuple[SweepPoint, ...]
    tolerance: float
    provenance: Provenance

    def __len__(self) -> int:
        """The number of deltas."""
        return len(self.points)

    @property
    def data(self) -> AttackCounts:
        """The counts."""
        return self.counts

    @property
    def deltas(self) -> FloatArray:
        """The deltas, increasing."""
        return np.array([point.delta for point in self.points])

    @property
    def errors(self) -> FloatArray:
        """Error estimate at each delta, in the units of the tolerance."""
        return np.array([point.error for point in self.points])

    @property
    def solved(self) -> BoolArray:
        """Whether each delta was solved directly; the others are interpolated between these."""
        return np.array([point.solved for point in self.points])

    @property
    def met(self) -> BoolArray:
        """Whether the tolerance was met, at each delta."""
        return np.asarray(self.errors <= self.tolerance)

    @property
    def trustworthy(self) -> bool:
        """Whether the tolerance was met at every delta."""
        return bool(self.met.all())

    def at(self, delta: float) -> PanelDensity:
        """The density of epsilon at one of the deltas."""
        for point in self.points:
            if point.delta == delta:
                return point.density
        raise InputError(f"expected one of the curve's deltas, got delta={delta!r}.")

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """Quantiles of epsilon: the shape of ``probability`` plus a last axis of deltas."""
        target = check_probability(probability)
        quantiles = [point.density.quantile(target) for point in self.points]
        return np.stack(quantiles, axis=-1)

    @property
    def median(self) -> FloatArray:
        """The 50 % quantile at each delta."""
        return self.quantile(0.5)

    @property
    def mean(self) -> FloatArray:
        """The posterior mean at each delta."""
        return np.array([point.density.mean() for point in self.points])

    def credible_interval(self, level: float = 0.9) -> FloatPair:
        """The ends of the central interval at each delta separately."""
        level = _validate.level(level)
        low, high = self.quantile([0.5 - level / 2, 0.5 + level / 2])
        return low, high

    def probability_above(self, values: ArrayLike) -> FloatArray:
        """P(epsilon > value) at each delta, for one value or one per delta."""
        array = np.asarray(values, dtype=float)
        if array.shape not in ((), (len(self),)) or np.isnan(array).any():
            raise InputError(
                f"expected one value or {len(self)}, one per delta, got {array.tolist()!r}."
            )
        wanted = np.broadcast_to(array, len(self))
        pairs = zip(self.points, wanted, strict=True)
        return np.array([point.density.probability_above(value) for point, value in pairs])

    @cached_property
    def rises(self) -> tuple[Rise, ...]:
        """Which of the 5 %, 50 % and 95 % quantiles rise with delta, and from where to where.

        Only rises beyond the tolerance count.  The true epsilon cannot rise; :data:`WHY_IT_RISES`
        explains why its estimate may.
        """
        rises = []
        for probability, values in zip(WATCHED, self.quantile(WATCHED), strict=True):
            lowest = _lowest_before(values)
            farthest = int(np.argmax(values - values[lowest]))
            if self._risen(values)[farthest]:
                rises.append(
                    Rise(
                        probability=probability,
                        lowest_at=self.points[lowest[farthest]].delta,
                        lowest=float(values[lowest[farthest]]),
                        highest_at=self.points[farthest].delta,
                        highest=float(values[farthest]),
                    )
                )
        return tuple(rises)

    @property
    def rising(self) -> BoolArray:
        """The deltas at which one of these quantiles exceeds its value at some smaller delta."""
        return np.asarray(np.any([self._risen(v) for v in self.quantile(WATCHED)], axis=0))

    def monotone_interval(self, level: float = 0.9) -> FloatPair:
        """The intervals, adjusted to fall with delta like the true epsilon.

        An upper bound at a smaller delta holds at every larger delta, and a lower bound at a larger
        delta holds at every smaller one.  So the upper end is the running minimum and the lower end the
        maximum over larger deltas.  Each is selected from several intervals, so it has no stated
        probability, and where the posteriors of two deltas disagree the ends may cross.
        """
        low, high = self.credible_interval(level)
        return np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)

    def notes(self, level: float = 0.9) -> list[str]:
        """Notes on the curve: its accuracy, what its intervals contain, rising quantiles."""
        del level  # only a joint band has one
        notes = [
            f"Exact quadrature; estimated error {self.errors.max():.1e}, tolerance "
            f"{self.tolerance:.0e} {'met' if self.trustworthy else 'NOT MET: do not quote this'}; "
            f"{int(self.solved.sum())} of {len(self)} deltas solved, the others interpolated.",
            POINTWISE,
        ]
        if self.rises:
            listed = "; ".join(
                f"the {percent(rise.probability)} quantile from {rise.lowest:.3g} at delta "
                f"{rise.lowest_at:.3g} to {rise.highest:.3g} at delta {rise.highest_at:.3g}"
                for rise in self.rises
            )
            notes.append(f"Estimates rise with delta: {listed}. {WHY_IT_RISES}")
        return notes

    def _risen(self, values: FloatArray) -> BoolArray:
        lowest = _lowest_before(values)
        error = np.maximum(self.tolerance, self.errors + self.errors[lowest])
        return np.asarray(values - values[lowest] > error * np.maximum(1.0, values))


def _lowest_before(values: FloatArray) -> IndexArray:
    """The index of the smallest value up to each index."""
    least = np.minimum.accumulate(values)
    new = np.append(True, values[1:] < least[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))
