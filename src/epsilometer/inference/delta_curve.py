"""The posterior of epsilon as a function of delta: each delta its own model, all of them in one pass."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, FloatPair, IndexArray, Say
from epsilometer.errors import InputError
from epsilometer.inference.delta_sweep import SweepPoint, sweep
from epsilometer.inference.exact.engine import ExactSettings
from epsilometer.inference.exact.panels import PanelDensity
from epsilometer.inference.marginals import check_probability
from epsilometer.inference.posterior import Engine
from epsilometer.inference.provenance import Provenance
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel

WATCHED = (0.05, 0.5, 0.95)
"""Quantiles of which :attr:`DeltaCurve.rises` says where they rise."""

POINTWISE = (
    "Each delta has a model and a posterior of its own. The band holds epsilon with its probability at "
    "each delta taken alone; nothing is said of the whole curve at once."
)

WHY_IT_RISES = (
    "The true epsilon cannot rise with delta, but its estimate may, as it is made anew at each "
    "delta; an upper bound from a smaller delta still holds at a larger one. It happens after "
    "weak attacks, for two reasons. Error rates that delta alone allows say little of epsilon: "
    "the larger delta is, the weaker the attacks seem, and the more epsilon goes back to its "
    "prior. And error rates are taken to lie anywhere in the region of (epsilon, delta), which is "
    "a band of even width where epsilon is below delta and narrows towards rates of 0 and 1 where "
    "it is above: attacks that tell next to nothing and all aim at one rate favour the one if "
    "that rate is low and the other if it is about one half, so that epsilon goes along with "
    "delta."
)


@dataclass(frozen=True, kw_only=True)
class Rise:
    """A quantile of epsilon that is higher at a delta than at a smaller one, beyond the tolerance.

    Attributes
    ----------
    probability
        Which quantile.
    lowest_at, lowest, highest_at, highest
        The delta up to which it fell, and the larger one at which it is farthest above that; its value
        at each.
    """

    probability: float
    lowest_at: float
    lowest: float
    highest_at: float
    highest: float


@dataclass(frozen=True, kw_only=True, eq=False)
class DeltaCurve:
    """The posterior of epsilon at each of several deltas.

    Each delta has a model and a posterior of its own: intervals hold at each delta taken alone, and
    there is no joint law of the whole curve.

    Attributes
    ----------
    counts, model
        What was observed and what is assumed; the model's own delta plays no part.
    points
        Delta, density and error estimate, deltas increasing.
    tolerance, provenance
        The accuracy asked for, of quantiles and mean, relative where above 1; how it was computed.
    """

    counts: AttackCounts
    model: AuditModel
    points: tuple[SweepPoint, ...]
    tolerance: float
    provenance: Provenance

    def __len__(self) -> int:
        """The number of deltas."""
        return len(self.points)

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
        """Whether a delta was solved itself; the others are interpolated between these."""
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
        """Quantiles of epsilon: the shape of ``probability``, and deltas along the last axis."""
        target = check_probability(probability)
        found = [point.density.quantile(target) for point in self.points]
        return np.stack(found, axis=-1)

    @property
    def median(self) -> FloatArray:
        """The 50 % quantile at each delta."""
        return self.quantile(0.5)

    @property
    def mean(self) -> FloatArray:
        """The posterior mean at each delta."""
        return np.array([point.density.mean() for point in self.points])

    def credible_interval(self, level: float = 0.9) -> FloatPair:
        """The ends of the central interval at each delta, each delta taken alone."""
        level = _validate.level(level)
        low, high = self.quantile([0.5 - level / 2, 0.5 + level / 2])
        return low, high

    def probability_above(self, values: ArrayLike) -> FloatArray:
        """P(epsilon > value) at each delta, for one value or one a delta."""
        array = np.asarray(values, dtype=float)
        if array.shape not in ((), (len(self),)) or np.isnan(array).any():
            raise InputError(
                f"expected one value or {len(self)}, one a delta, got {array.tolist()!r}."
            )
        wanted = np.broadcast_to(array, len(self))
        pairs = zip(self.points, wanted, strict=True)
        return np.array([point.density.probability_above(value) for point, value in pairs])

    @cached_property
    def rises(self) -> tuple[Rise, ...]:
        """Which of the 5 %, 50 % and 95 % quantiles rise with delta, and from where to where.

        A rise counts if it is beyond the tolerance.  The true epsilon cannot rise; :data:`WHY_IT_RISES`
        says why its estimate may.
        """
        found = []
        for probability, values in zip(WATCHED, self.quantile(WATCHED), strict=True):
            lowest = _lowest_before(values)
            farthest = int(np.argmax(values - values[lowest]))
            if self._risen(values)[farthest]:
                found.append(
                    Rise(
                        probability=probability,
                        lowest_at=self.points[lowest[farthest]].delta,
                        lowest=float(values[lowest[farthest]]),
                        highest_at=self.points[farthest].delta,
                        highest=float(values[farthest]),
                    )
                )
        return tuple(found)

    @property
    def rising(self) -> BoolArray:
        """The deltas at which a watched quantile is above what it was at some smaller delta."""
        return np.asarray(np.any([self._risen(v) for v in self.quantile(WATCHED)], axis=0))

    def monotone_interval(self, level: float = 0.9) -> FloatPair:
        """The intervals made to fall with delta, as the true epsilon does.

        An upper bound at a smaller delta is one at every larger delta, and a lower bound at a larger
        one is one at every smaller.  So the upper end is the lowest so far and the lower end the
        highest to come.  Each is the best of several looks, so no probability belongs to it, and where
        the posteriors of two deltas disagree the ends may cross.
        """
        low, high = self.credible_interval(level)
        return np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)

    def _risen(self, values: FloatArray) -> BoolArray:
        lowest = _lowest_before(values)
        error = np.maximum(self.tolerance, self.errors + self.errors[lowest])
        return np.asarray(values - values[lowest] > error * np.maximum(1.0, values))


def _lowest_before(values: FloatArray) -> IndexArray:
    """The index of the least value up to each index."""
    least = np.minimum.accumulate(values)
    new = np.append(True, values[1:] < least[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))


def estimate_curve(
    counts: AttackCounts,
    model: AuditModel,
    deltas: Sequence[float] | FloatArray,
    engine: Engine | None = None,
    *,
    report: Say | None = None,
) -> DeltaCurve:
    """Estimate epsilon at each of several deltas, far cheaper than by as many separate runs.

    Parameters
    ----------
    counts
        Error counts, one entry a challenge base.
    model
        What is assumed; each of ``deltas`` takes the place of its delta.
    deltas
        Distinct, each in [0, 1), in any order.
    engine
        Settings of the exact engine; the sampler does not make curves.
    report
        Called with a line of text now and then, for a progress display.

    Returns
    -------
    DeltaCurve
        At each delta the posterior of ``estimate(counts, replace(model, delta=delta))``, to the engine's
        tolerance.  Look at ``curve.trustworthy`` before you quote it.

    Raises
    ------
    InputError
        If epsilon is fixed, as there is then nothing to estimate, or the deltas are not as above.

    Notes
    -----
    Tables of masses for the largest delta serve the others (`delta_sweep.py`).  Most deltas are
    interpolated between solved ones, where solves that took no part in it agree; the error estimate is
    the larger of the change between levels of resolution and what those solves showed.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[100], trials_h0=1000, false_negatives=[300], trials_h1=1000
    ... )
    >>> curve = estimate_curve(counts, AuditModel(delta=0.0), [1e-6, 1e-4, 1e-2])
    >>> curve.median.round(2).tolist(), curve.trustworthy
    ([2.54, 2.54, 2.52], True)
    """
    if engine is not None and not isinstance(engine, ExactSettings):
        raise InputError(f"curves over delta need the exact engine, got engine={engine!r}.")
    if model.epsilon.fixed_value is not None:
        raise InputError(
            f"expected a prior of epsilon to estimate a curve, got epsilon={model.epsilon!r}."
        )
    chosen = checked_deltas(deltas)
    settings = engine or ExactSettings()
    model.likelihood.check(counts)
    started = time.perf_counter()
    found = sweep(counts, model, chosen, settings, report or (lambda _: None))
    return DeltaCurve(
        counts=counts,
        model=model,
        points=found.points,
        tolerance=found.tolerance,
        provenance=Provenance(
            engine="exact",
            settings={
                "tolerance": found.tolerance,
                "most_levels": settings.most_levels,
                "levels": found.levels,
                "method": "shared tables",
                "deltas_solved": sum(point.solved for point in found.points),
            },
            seconds=time.perf_counter() - started,
        ),
    )


def checked_deltas(deltas: Sequence[float] | FloatArray) -> FloatArray:
    """Deltas in increasing order, or an error: each in [0, 1), none twice, at least one."""
    values = sorted(_validate.delta(value) for value in np.asarray(deltas).ravel().tolist())
    if not values:
        raise InputError("expected at least one delta, got none.")
    for before, after in pairwise(values):
        if before == after:
            raise InputError(f"expected distinct deltas, got delta={after} twice.")
    return np.array(values)
