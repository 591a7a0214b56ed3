"""Log likelihood of every base as a function of the leak, one table per family and mixing rate.

A table is a smooth curve through leaks at which the likelihood was computed.  Leaks are added where they
matter to some base and the curve is not accurate yet.  Families that resemble the Gaussian have a table
of the difference from it, which is smoother than either and needs few leaks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

from epsilometer._arrays import BoolArray, FloatArray, IntArray, OnMessage
from epsilometer.engines.curve.evaluation import Accuracy, evaluate, factors_of, thinned
from epsilometer.model.family import Curves, Family
from epsilometer.model.models import Component, CurveModel
from epsilometer.model.scores import Scores
from epsilometer.model.shifted import Gaussian

#: Initial leaks between 0 and the largest, and the power by which they are denser near 0 on short axes,
#: and on axes up to a large epsilon.
FIRST_LEAKS, SHORT, DENSER = 20, 1.5, 3.5

#: Initial leaks of a difference: where the reference matters, and beyond.
NEAR_LEAKS, BEYOND_LEAKS = 6, 3

#: Nats below a base's best leak beyond which a leak is ignored, unless all bases together are best
#: there; and those of impossible leaks.
FAR_BELOW, IMPOSSIBLE = 40.0, 1e6

#: Rounds of halving: from a range of 25 to steps of a thousandth.
MOST_CURVE_HALVINGS = 14
#: Rounds after which differences may be `LENIENT` times as wrong, and after which they are left: what
#: remains are errors of the chain.
HALVINGS_OF_DIFFERENCE, LENIENT, MOST_OF_DIFFERENCE = 4, 3.0, 7

#: Nats by which a curve may rise between two leaks, besides a multiple of the difference of its ends.
RISE, STEEPER = 8.0, 3.0

#: How much larger the error of a curve through half of the leaks may be, of about eight times.
WORSE = 6.0

#: Nats, plus a quarter per base, by which curves that are ignored fall short of the best.
REFUTED = 25.0

#: The family that others are compared with, and places between leaks at which they may be best.
REFERENCE = Gaussian()
REACHED = np.linspace(0.0, 1.0, 200) ** DENSER


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Log likelihood ratios of all bases at some leaks, shape (bases, leaks), interpolated between."""

    family: Family
    rate: float
    leaks: FloatArray
    logs: FloatArray
    reference: Table | None = None
    last: float = 0.0  # the largest leak that is compared with the reference
    #: Log prior density at leaks, where it may outweigh likelihoods.
    log_prior: Callable[[FloatArray], FloatArray] = np.zeros_like

    def _common(self, leaks: FloatArray) -> FloatArray:
        """The part that the reference explains."""
        aligned = None if self.reference is None else self.family.gaussian_leak(leaks)
        if self.reference is None or aligned is None:
            return np.zeros((len(self.logs), len(leaks)))
        return self.reference.at(aligned)

    @cached_property
    def _spline(self) -> CubicHermiteSpline:
        """Through the logs, or through the differences as far as these are compared."""
        leaks, logs = self.leaks, self.logs
        # Slopes from neighbours only: a cliff far below the maximum must not affect values near it.
        near = _filled(logs, 2 * FAR_BELOW)
        if self.reference is not None:
            leaks = leaks[leaks <= self.last]
            common = self._common(leaks)
            logs, near = logs[:, : len(leaks)] - common, near[:, : len(leaks)] - common
        slopes = np.gradient(near, leaks, axis=1, edge_order=2)
        # Two close leaks whose values err differently must not lead far away in the next interval.
        width = np.diff(leaks)
        limit = (RISE + STEEPER * np.abs(np.diff(near, axis=1))) / width
        ends = np.minimum(limit[:, [0, *range(len(width))]], limit[:, [*range(len(width)), -1]])
        slopes = np.clip(slopes, -ends, ends)
        deep = logs < near
        if deep.any():
            # Values there are rough: use a curve that never rises above its points.
            slopes = np.where(
                deep, PchipInterpolator(leaks, logs, axis=1).derivative()(leaks), slopes
            )
        return CubicHermiteSpline(leaks, logs, slopes, axis=1)

    @cached_property
    def _beyond(self) -> PchipInterpolator:
        return PchipInterpolator(self.leaks, self.logs, axis=1)

    def at(self, leaks: FloatArray) -> FloatArray:
        """Log likelihood ratios of all bases at any leaks up to the last."""
        inside = np.minimum(leaks, self.leaks[-1])
        if self.reference is None:
            return np.asarray(self._spline(inside))
        values = np.asarray(self._beyond(inside))
        compared = inside <= self.last
        cell = np.clip(np.searchsorted(self.leaks, inside[compared]) - 1, 0, len(self.leaks) - 2)
        exact = self._spline(inside[compared]) + self._common(inside[compared])
        values[:, compared] = np.where(self._near[:, cell], exact, values[:, compared])
        return values

    @cached_property
    def _near(self) -> BoolArray:
        """Intervals with likely ends: differences of what is far below its best are rough."""
        common = self._common(self.leaks)
        near = self.logs > self.logs.max(axis=1, keepdims=True) - 2 * FAR_BELOW
        near &= common > common.max(axis=1, keepdims=True) - 2 * FAR_BELOW
        return np.asarray(near[:, :-1] & near[:, 1:])

    def on(self, reference: Table | None) -> Table:
        """The same difference from another table of the reference."""
        if self.reference is None or reference is None:
            return self
        moved = replace(self, reference=reference)
        return replace(moved, logs=self.logs - self._common(self.leaks) + moved._common(self.leaks))


def make_tables(
    scores: Scores,
    components: Iterable[Component],
    model: CurveModel,
    farthest: float,
    accuracy: Accuracy,
    known: tuple[Table, ...] = (),
    on_message: OnMessage | None = None,
) -> tuple[Table, ...]:
    """Tables of the families and rates that matter, up to the leak with epsilon ``farthest``.

    Curves that are clearly ruled out by a first scan, at some leaks or on a sample of many scores, are
    left out.  ``known`` are tables of other curves.
    """
    groups: dict[tuple[Family, float], list[Curves]] = {}
    for curves, *_ in components:
        groups.setdefault((curves.family, curves.rate), []).append(curves)
    ends = {
        key: max(curves.largest_leak(farthest, model.delta) for curves in group)
        for key, group in groups.items()
    }
    factors = factors_of(scores)
    factor = int(factors.max())
    sample = scores if factor == 1 else thinned(scores, factors)
    best = max((_surely_reached(table) for table in known), default=0.0) / factor
    firsts: dict[float, Table] = {}
    references = {table.rate: table for table in known if table.family == REFERENCE}
    power = min(SHORT + 0.6 * max(0.0, np.log(farthest / 20)), DENSER)
    prior = model.epsilon.log_density([min(1.0, farthest / 2), farthest])
    outweighs = bool(prior[0] - prior[1] > FAR_BELOW)

    def scan(curves: Curves) -> Table:
        end = ends[curves.family, curves.rate]
        if (reference := (firsts or references).get(curves.rate)) is not None and follows(curves):
            return _difference(sample, curves, end, reference, accuracy)
        leaks = end * np.linspace(0.0, 1.0, FIRST_LEAKS + 1) ** power
        logs = evaluate(sample, curves, leaks, accuracy)
        first = Table(
            family=curves.family,
            rate=curves.rate,
            leaks=leaks,
            logs=_filled(logs),
            log_prior=partial(_log_prior, model, curves) if outweighs else np.zeros_like,
        )
        if factor == 1:
            return first
        # Errors grow with the number of scores, and so do differences: refine where leaks are needed.
        same = accuracy._replace(spline=accuracy.spline / factor)
        return _refined(sample, first, same, _depth(factor) / factor)

    def finish(first: Table) -> Table:
        if factor > 1 and first.reference is not None:
            curves, end = Curves(family=first.family, rate=first.rate), float(first.leaks[-1])
            first = _difference(scores, curves, end, references[first.rate], accuracy)
        elif factor > 1:
            first = _around_best(scores, first, factors, accuracy)
        return _refined(scores, first, accuracy)

    def follows(curves: Curves) -> bool:
        return curves.family.gaussian_leak(np.zeros(1)) is not None

    candidates = [Curves(family=family, rate=rate) for family, rate in groups]
    tables = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for stage in (False, True):
            some = [curves for curves in candidates if follows(curves) is stage]
            first = list(pool.map(scan, some))
            best = max([best, *map(_surely_reached, first)])
            left = [table for table in first if _reached(table) > best - REFUTED - len(scores) / 4]
            # Others are tables of the difference from it.
            left += [t for t in first if t.family == REFERENCE and t.rate == 1 and t not in left]
            jobs = [pool.submit(finish, table) for table in left]
            for number, job in enumerate(jobs, start=1):
                tables.append(job.result())
                if on_message is not None:
                    on_message(f"curves {number} of {len(jobs)}")
            firsts = {table.rate: table for table in left if table.family == REFERENCE}
            references |= {table.rate: table for table in tables if table.family == REFERENCE}
            if factor == 1:
                firsts = references
    return tuple(tables)


def _log_prior(model: CurveModel, curves: Curves, leaks: FloatArray) -> FloatArray:
    return model.epsilon.log_density(curves.epsilon(leaks, model.delta))


def _surely_reached(table: Table) -> float:
    """Log likelihood if every base has its own best leak, of those that were computed."""
    return float(table.logs.max(axis=1).sum())


def _reached(table: Table) -> float:
    """The same, perhaps between leaks; a rough table may exaggerate."""
    logs = table.logs
    if table.reference is not None:
        logs = np.append(logs, table.at(table.leaks[-1] * REACHED), axis=1)
    return float(logs.max(axis=1).sum())


def _difference(
    scores: Scores, curves: Curves, end: float, reference: Table, accuracy: Accuracy
) -> Table:
    """A first table of the difference, where the reference matters and at a few other leaks."""
    live = _live(reference.logs)
    near = np.append(live, False) | np.append(False, live)
    low, high = (float(x) for x in reference.leaks[near][[0, -1]])
    place = end * np.linspace(0.0, 1.0, 500) ** DENSER
    aligned = curves.family.gaussian_leak(place)
    assert aligned is not None  # of families that follow the reference
    wanted = np.append(low / 2, np.linspace(low, high, NEAR_LEAKS))
    inside = np.interp(wanted, aligned, place)
    beyond = np.geomspace(min(max(inside[-1], 1e-3), end / 2), end, BEYOND_LEAKS + 1)[1:]
    leaks = np.unique(np.concatenate([[0.0], inside, beyond]))
    logs = _filled(evaluate(scores, curves, leaks, accuracy))
    return Table(
        family=curves.family,
        rate=curves.rate,
        leaks=leaks,
        logs=logs,
        reference=reference,
        last=float(inside[-1]),
    )


def finer(
    scores: Scores, tables: tuple[Table, ...], accuracy: Accuracy, heavy: set[tuple[Family, float]]
) -> tuple[Table, ...]:
    """The same leaks with a finer chain, where they matter, for curves that matter."""

    def again(table: Table) -> Table:
        # Curves of pieces are exact already.
        if table.family.pieces or (table.family, table.rate) not in heavy:
            return table
        live = _live(table.logs, prior=table.log_prior(table.leaks))
        near = np.append(live, False) | np.append(False, live)
        logs = table.logs.copy()
        curves = Curves(family=table.family, rate=table.rate)
        logs[:, near] = evaluate(scores, curves, table.leaks[near], accuracy)
        return replace(table, logs=_filled(logs))

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        after = list(pool.map(again, tables))
    references = {table.rate: table for table in after if table.family == REFERENCE}
    return tuple(
        table.on(references.get(table.rate)) if table is old else _moved(table, references)
        for table, old in zip(after, tables, strict=True)
    )


def _moved(table: Table, references: dict[float, Table]) -> Table:
    """A table with new values, as a difference from the new reference."""
    return table if table.reference is None else replace(table, reference=references[table.rate])


def _depth(factor: int) -> float:
    """How far, in nats, the best leak of all scores may be below the best one of a sample.

    The two differ by about sqrt(factor) standard deviations of the sharper one.
    """
    return float((5 * np.sqrt(factor) + np.sqrt(2 * FAR_BELOW)) ** 2 / 2)


def _around_best(scores: Scores, rough: Table, factors: IntArray, accuracy: Accuracy) -> Table:
    """Compute the table of a sample's leaks for all scores, around their best leak.

    Each call goes through all ranks, so leaks are evaluated together: first some that may be the best,
    then all that are near it.  Leaks far below do not matter, and are taken from the sample, scaled up.
    """
    curves = Curves(family=rough.family, rate=rough.rate)
    scaled = factors[:, None] * rough.logs
    possible = _with_neighbours(_near(scaled, _depth(int(factors.max()))))
    possible[0] = False  # without a leak the ratio is 1
    first_leaks = np.flatnonzero(possible)[:: max(1, int(possible.sum()) // FIRST_LEAKS)]
    known = ~possible
    known[first_leaks] = True
    scaled[:, first_leaks] = evaluate(scores, curves, rough.leaks[first_leaks], accuracy)
    first = replace(rough, leaks=rough.leaks[known], logs=_filled(scaled[:, known]))
    near = _with_neighbours(_near(first.at(rough.leaks), FAR_BELOW)) & ~known
    scaled[:, near] = evaluate(scores, curves, rough.leaks[near], accuracy)
    # Leaks known only from the sample must not appear to be the best.
    top = scaled[:, [0, *first_leaks, *np.flatnonzero(near)]].max(axis=1, keepdims=True)
    guessed = known & ~np.isin(np.arange(len(known)), first_leaks)
    guessed[0] = False
    scaled[:, guessed] = np.minimum(scaled[:, guessed], top - 2 * FAR_BELOW)
    known |= near
    return replace(rough, leaks=rough.leaks[known], logs=_filled(scaled[:, known]))


def _refined(scores: Scores, table: Table, accuracy: Accuracy, depth: float = FAR_BELOW) -> Table:
    """Halve intervals, down to some depth, until the spline predicts the values in their middle."""
    curves = Curves(family=table.family, rate=table.rate)
    prior = table.log_prior(table.leaks)
    open_ones = _live(table.logs, depth, prior)
    if table.reference is None:  # differences have too few leaks to predict some from others
        open_ones &= _poorly_predicted(table, accuracy, depth, prior)
    for halving in range(MOST_CURVE_HALVINGS if table.reference is None else MOST_OF_DIFFERENCE):
        if not open_ones.any():
            break
        if table.reference is not None and halving == HALVINGS_OF_DIFFERENCE:
            accuracy = accuracy._replace(spline=LENIENT * accuracy.spline)
        where = np.flatnonzero(open_ones)
        new = (table.leaks[where] + table.leaks[where + 1]) / 2
        predicted = table.at(new)
        values = evaluate(scores, curves, new, accuracy)
        leaks = np.append(table.leaks, new)
        order = np.argsort(leaks, kind="stable")
        logs = _filled(np.append(table.logs, values, axis=1)[:, order])
        expected = np.append(table.logs, predicted, axis=1)[:, order]
        table = replace(table, leaks=leaks[order], logs=logs)
        prior = table.log_prior(table.leaks)
        bad = _mispredicted(logs, expected, accuracy, depth, prior)
        # Both halves of an interval whose middle was mispredicted.
        open_ones = (bad[:-1] | bad[1:]) & _live(logs, depth, prior)
    return table


def _near(logs: FloatArray, depth: float, prior: FloatArray | float = 0.0) -> BoolArray:
    """Leaks at which some base, or all bases together, are not far below their best."""
    return np.asarray(_near_by_base(logs, depth, prior).any(axis=0))


def _near_by_base(logs: FloatArray, depth: float, prior: FloatArray | float) -> BoolArray:
    together = logs.sum(axis=0) + prior
    near = logs > logs.max(axis=1, keepdims=True) - depth
    return np.asarray(near | (together > together.max() - depth))


def _mispredicted(
    logs: FloatArray, expected: FloatArray, accuracy: Accuracy, depth: float, prior: FloatArray
) -> BoolArray:
    """Leaks at which a likelihood that matters to its base differs from the interpolated one.

    Neighbours of leaks that matter count too, however low: the best may lie between the two.
    """
    matters = _with_neighbours(_near_by_base(np.maximum(logs, expected), depth, prior))
    return np.asarray((matters & (np.abs(logs - expected) > WORSE * accuracy.spline)).any(axis=0))


def _poorly_predicted(
    table: Table, accuracy: Accuracy, depth: float, prior: FloatArray
) -> BoolArray:
    """Intervals next to leaks whose likelihood is mispredicted from every other leak."""
    kept = np.arange(len(table.leaks)) % 2 == 0
    kept[-1] = True
    fewer = replace(table, leaks=table.leaks[kept], logs=table.logs[:, kept])
    bad = _mispredicted(table.logs, fewer.at(table.leaks), accuracy, depth, prior)
    return np.asarray(bad[:-1] | bad[1:])


def _live(logs: FloatArray, depth: float = FAR_BELOW, prior: FloatArray | float = 0.0) -> BoolArray:
    """Intervals that may matter."""
    # The best may lie next to the best one seen.
    wide = _with_neighbours(_near(logs, depth, prior))
    return np.asarray(wide[:-1] & wide[1:])


def _with_neighbours(near: BoolArray) -> BoolArray:
    """These leaks, along the last axis, and their neighbours."""
    wide = near.copy()
    wide[..., 1:] |= near[..., :-1]
    wide[..., :-1] |= near[..., 1:]
    return wide


def _filled(logs: FloatArray, depth: float = IMPOSSIBLE) -> FloatArray:
    """Limit the depth of log likelihoods below each base's best."""
    return np.asarray(np.maximum(logs, logs.max(axis=1, keepdims=True) - depth))
