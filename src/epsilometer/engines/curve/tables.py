"""Log likelihood of every base as a function of the leak, one table per family and mixing rate.

A table is a smooth curve through leaks at which the likelihood was computed.  Leaks are added where they
matter to some base and the curve is not accurate yet.
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

from epsilometer._arrays import BoolArray, FloatArray, IntArray, OnMessage
from epsilometer.engines.curve import pieces
from epsilometer.engines.curve.chain import GriddedCurves, log_likelihood_ratios
from epsilometer.engines.curve.ranks import Blocks, share_grid
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.family import Curves, Densities, Family
from epsilometer.model.models import CurveModel
from epsilometer.model.scores import Scores

#: Initial leaks between 0 and the largest, denser near 0.
FIRST_LEAKS = 20

#: Nats below a base's best leak beyond which a leak is ignored, unless all bases together are best
#: there.
FAR_BELOW = 40.0

#: Nats below a base's best leak assigned to impossible leaks.
IMPOSSIBLE = 1e6

#: Rounds of halving: from a range of 25 to steps of a thousandth.
MOST_CURVE_HALVINGS = 14

#: How much larger the error of a curve through half of the leaks may be: halving reduces the error
#: about eightfold.
WORSE = 6.0

#: Largest step of theta, for few scores: the families themselves must be resolved.
LARGEST_STEP = 0.05

#: Bases times curves processed at a time: fits the processor's cache.
COLUMNS_AT_ONCE = 600

#: Random orders of scores with ties, and the largest total number of ranks in them.
ORDERS, MOST_RANKS = 8, 40_000

#: Bases with more scores are first scanned with a sample of this size.
THINNED_FROM, THINNED_TO = 5_000, 2_500

#: Nats, plus one per base, by which curves that are ignored fall short of the best.
REFUTED = 40.0


class Accuracy(NamedTuple):
    """How finely a table is made.

    The step of the chain of ranks, its window in standard deviations of a share, and the error of a
    spline in nats, per base.
    """

    chain_step: float = 1.0
    reach: float = 10.0
    spline: float = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Log likelihood ratios of all bases at some leaks, shape (bases, leaks), interpolated between."""

    family: Family
    rate: float
    leaks: FloatArray
    logs: FloatArray

    @cached_property
    def _spline(self) -> CubicHermiteSpline:
        # Slopes from neighbours only: a cliff far below the maximum must not affect values near it.
        near = _filled(self.logs, 2 * FAR_BELOW)
        slopes = np.gradient(near, self.leaks, axis=1, edge_order=2)
        deep = self.logs < near
        if deep.any():
            # Values there are rough: use a curve that never rises above its points.
            safe = PchipInterpolator(self.leaks, self.logs, axis=1).derivative()(self.leaks)
            slopes = np.where(deep, safe, slopes)
        return CubicHermiteSpline(self.leaks, self.logs, slopes, axis=1)

    def at(self, leaks: FloatArray) -> FloatArray:
        """Log likelihood ratios of all bases at any leaks up to the last."""
        return np.asarray(self._spline(np.minimum(leaks, self.leaks[-1])))


def make_tables(
    scores: Scores,
    model: CurveModel,
    farthest: float,
    accuracy: Accuracy,
    on_message: OnMessage | None = None,
) -> tuple[Table, ...]:
    """Tables of the families and rates that matter, up to the leak with epsilon ``farthest``.

    Curves that are clearly ruled out by a first scan, at some leaks or on a sample of many scores, are
    left out.
    """
    groups: dict[tuple[str, float], list[Curves]] = {}
    for component in model.components:
        curves = component.curves
        groups.setdefault((curves.family.name, curves.rate), []).append(curves)
    candidates = [Curves(family=group[0].family, rate=group[0].rate) for group in groups.values()]
    ends = [
        max(curves.largest_leak(farthest, model.delta) for curves in group)
        for group in groups.values()
    ]
    factors = _factors(scores)
    factor = int(factors.max())
    sample = scores if factor == 1 else _thinned(scores, factors)

    def scan(curves: Curves, end: float) -> Table:
        leaks = end * np.linspace(0.0, 1.0, FIRST_LEAKS + 1) ** 1.5
        logs = evaluate(sample, curves, leaks, accuracy)
        first = Table(family=curves.family, rate=curves.rate, leaks=leaks, logs=_filled(logs))
        if factor == 1:
            return first
        # Errors grow with the number of scores, and so do differences: refine where leaks are needed.
        same = accuracy._replace(spline=accuracy.spline / factor)
        return _refined(sample, first, same, _depth(factor) / factor)

    def finish(first: Table) -> Table:
        rough = first if factor == 1 else _around_best(scores, first, factors, accuracy)
        return _refined(scores, rough, accuracy)

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        first = list(pool.map(scan, candidates, ends))
        reached = np.array([table.logs.max(axis=1).sum() for table in first])
        left = reached > reached.max() - REFUTED - len(scores)
        jobs = [pool.submit(finish, table) for table, kept in zip(first, left, strict=True) if kept]
        tables = []
        for number, job in enumerate(jobs, start=1):
            tables.append(job.result())
            if on_message is not None:
                on_message(f"curves {number} of {len(jobs)}")
    return tuple(tables)


def finer(scores: Scores, tables: tuple[Table, ...], accuracy: Accuracy) -> tuple[Table, ...]:
    """The same leaks with a finer chain, where they matter."""

    def again(table: Table) -> Table:
        live = _live(table.logs)
        near = np.append(live, False) | np.append(False, live)
        logs = table.logs.copy()
        curves = Curves(family=table.family, rate=table.rate)
        logs[:, near] = evaluate(scores, curves, table.leaks[near], accuracy)
        return replace(table, logs=_filled(logs))

    # Curves of pieces are exact already.
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return tuple(pool.map(lambda table: table if table.family.pieces else again(table), tables))


def _factors(scores: Scores) -> IntArray:
    """Thinning factor of each base for a first scan; counts are not thinned."""
    sizes = scores.trials_h0 + scores.trials_h1
    whole = np.array([base.grouped for base in scores.bases]) | (sizes <= THINNED_FROM)
    return np.where(whole, 1, -(-sizes // THINNED_TO))


def _thinned(scores: Scores, factors: IntArray) -> Scores:
    """Every n-th score of each hypothesis, in the order of scores."""
    return scores.with_bases(
        base if factor == 1 else BaseScores.of(*(values[::factor] for values in base.by_hypothesis))
        for base, factor in zip(scores.bases, factors.tolist(), strict=True)
    )


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
    open_ones = _live(table.logs, depth) & _poorly_predicted(table, accuracy, depth)
    for _ in range(MOST_CURVE_HALVINGS):
        if not open_ones.any():
            break
        where = np.flatnonzero(open_ones)
        new = (table.leaks[where] + table.leaks[where + 1]) / 2
        predicted = table.at(new)
        values = evaluate(scores, curves, new, accuracy)
        leaks = np.append(table.leaks, new)
        order = np.argsort(leaks, kind="stable")
        logs = _filled(np.append(table.logs, values, axis=1)[:, order])
        expected = np.append(table.logs, predicted, axis=1)[:, order]
        bad = _mispredicted(logs, expected, accuracy, depth)
        table = replace(table, leaks=leaks[order], logs=logs)
        # Both halves of an interval whose middle was mispredicted.
        open_ones = (bad[:-1] | bad[1:]) & _live(logs, depth)
    return table


def _near(logs: FloatArray, depth: float) -> BoolArray:
    """Leaks at which some base, or all bases together, are not far below their best."""
    return np.asarray(_near_by_base(logs, depth).any(axis=0))


def _near_by_base(logs: FloatArray, depth: float) -> BoolArray:
    together = logs.sum(axis=0)
    near = logs > logs.max(axis=1, keepdims=True) - depth
    return np.asarray(near | (together > together.max() - depth))


def _mispredicted(
    logs: FloatArray, expected: FloatArray, accuracy: Accuracy, depth: float
) -> BoolArray:
    """Leaks at which a likelihood that matters to its base differs from the interpolated one.

    Neighbours of leaks that matter count too, however low: the best may lie between the two.
    """
    matters = _with_neighbours(_near_by_base(np.maximum(logs, expected), depth))
    return np.asarray((matters & (np.abs(logs - expected) > WORSE * accuracy.spline)).any(axis=0))


def _poorly_predicted(table: Table, accuracy: Accuracy, depth: float) -> BoolArray:
    """Intervals next to leaks whose likelihood is mispredicted from every other leak."""
    kept = np.arange(len(table.leaks)) % 2 == 0
    kept[-1] = True
    fewer = replace(table, leaks=table.leaks[kept], logs=table.logs[:, kept])
    bad = _mispredicted(table.logs, fewer.at(table.leaks), accuracy, depth)
    return np.asarray(bad[:-1] | bad[1:])


def _live(logs: FloatArray, depth: float = FAR_BELOW) -> BoolArray:
    """Intervals that may matter."""
    # The best may lie next to the best one seen.
    wide = _with_neighbours(_near(logs, depth))
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


# --- one evaluation ---------------------------------------------------------------------------


def evaluate(scores: Scores, curves: Curves, leaks: FloatArray, accuracy: Accuracy) -> FloatArray:
    """Log likelihood ratios of all bases at some leaks, shape (bases, leaks).

    For scores with ties, the mean over several random orders.
    """
    if not len(leaks):
        return np.empty((len(scores), 0))
    ordered, owner = _in_orders(scores.bases)
    log_ratios = np.empty((len(ordered), len(leaks)))
    if curves.family.pieces:
        log_ratios = pieces.log_likelihood_ratios(ordered, curves.family, leaks, curves.rate)
    else:
        for rows in _group_by_size(ordered):
            largest = max((ordered[row] for row in rows), key=lambda base: len(base.zeros))
            curved = _gridded(largest, curves, leaks, accuracy)
            for same in _same_blocks(ordered, rows):
                part = max(1, COLUMNS_AT_ONCE // len(leaks))
                for start in range(0, len(same), part):
                    some = same[start : start + part]
                    zeros = np.stack([ordered[row].zeros for row in some])
                    ones = np.stack([ordered[row].ones for row in some])
                    log_ratios[some] = log_likelihood_ratios(zeros, ones, curved)
    log_ratios[:, leaks == 0] = 0.0
    if len(ordered) == len(scores):
        return log_ratios
    shares = np.bincount(owner)[:, None]
    return np.stack([np.bincount(owner, column) for column in log_ratios.T], axis=1) / shares


def _in_orders(bases: tuple[BaseScores, ...]) -> tuple[list[Blocks], IntArray]:
    """Bases as blocks of ranks, in several orders if there are ties; and the base of each order."""
    blocks, owner = [], []
    for number, base in enumerate(bases):
        if base.grouped:
            blocks.append(Blocks(base.zeros, base.ones))
            owner.append(number)
            continue
        count = min(ORDERS, max(1, MOST_RANKS // (base.trials_h0 + base.trials_h1)))
        for labels in base.orders(count):
            blocks.append(Blocks(1 - labels, labels))
            owner.append(number)
    return blocks, np.array(owner)


def _gridded(base: Blocks, curves: Curves, leaks: FloatArray, accuracy: Accuracy) -> GriddedCurves:
    total, blocks = int(base.zeros.sum() + base.ones.sum()), len(base.zeros)
    # Errors of single steps add up, so more steps need smaller ones; for many they nearly cancel.
    chain_step = accuracy.chain_step * min(max(1.0, total / 10_000), 2.0)
    step = chain_step * min(blocks**-0.25 * total**-0.5, LARGEST_STEP)
    nodes = 8 if total < 3000 else 16
    # The proportions of the scores: in other proportions every rank would have another share.
    members = int(base.ones.sum()) / total
    grid = share_grid(step, curves.rate * members, nodes)
    densities = Densities(*map(np.ascontiguousarray, curves.densities(grid.share, leaks, members)))
    return GriddedCurves(grid, densities, members, accuracy.reach)


def _group_by_size(bases: Iterable[Blocks]) -> list[list[int]]:
    """Group bases of similar size and share of members, which can share a grid."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for row, base in enumerate(bases):
        total, ones = int(base.zeros.sum() + base.ones.sum()), int(base.ones.sum())
        # To a standard deviation of a rank's share, a tenth of the chain's window.
        part = round(2 * np.arcsin(np.sqrt(ones / total)) * 2 ** (total.bit_length() / 2))
        groups.setdefault((total.bit_length(), len(base.zeros).bit_length(), part), []).append(row)
    return list(groups.values())


def _same_blocks(bases: list[Blocks], rows: list[int]) -> list[IntArray]:
    """Group bases whose blocks have the same sizes, which can be processed together."""
    groups: dict[bytes, list[int]] = {}
    for row in rows:
        groups.setdefault((bases[row].zeros + bases[row].ones).tobytes(), []).append(row)
    return [np.array(group, dtype=np.int64) for group in groups.values()]
