"""Likelihood of labels under piecewise linear curves, such as randomised response: an exact finite sum.

If the likelihood ratio takes finitely many values, scores within one piece are in random order.  So only
the cuts between pieces matter: how many scores, without and with the point, are above each cut.  Where a
cut falls into a block of ties, all ways of splitting the block are averaged over.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from epsilometer._arrays import FloatArray, FloatPair, IntArray
from epsilometer.engines.curve.ranks import Blocks
from epsilometer.errors import InputError
from epsilometer.model.family import Family

#: Smallest log probability of a piece.
LEAST = -1e6

#: Most cuts of one base; in a large block of ties a regular subset of splits represents the rest.
MOST_CUTS = 40_000

#: Most terms of a sum computed at a time.
MOST_TERMS = 2_000_000

#: Most cuts for a family with more than two pieces, where pairs of cuts are summed.
MOST_PAIRS = 3_000


class Cuts(NamedTuple):
    """Positions of a cut: scores above it, scores above it within its block, and log weights."""

    zeros: FloatArray
    ones: FloatArray
    log_weight: FloatArray
    block: IntArray
    part_zeros: FloatArray
    part_ones: FloatArray


def cuts_of(base: Blocks) -> Cuts:
    """Every position of a cut, with the log weight of being the only one."""
    sizes = base.zeros + base.ones
    total = float(sizes.sum())
    ends = np.cumsum(base.zeros), np.cumsum(base.ones)
    # Above everything, and below every block; splits of blocks come after.
    parts = [
        tuple(np.append(0, end).astype(float) for end in ends)
        + (np.zeros(len(sizes) + 1), np.append(0, np.arange(len(sizes))))
        + tuple(np.append(0, tally).astype(float) for tally in (base.zeros, base.ones))
    ]
    tied = np.flatnonzero(sizes > 1)
    work = float(np.sum((base.zeros[tied] + 1.0) * (base.ones[tied] + 1.0)))
    # A sum over a smooth bell curve is as accurate with steps of a fraction of its width.
    coarse = work > MOST_CUTS
    for block in tied.tolist():
        a, b = int(base.zeros[block]), int(base.ones[block])
        i, weight_i = _splits(b, coarse)
        j, weight_j = _splits(a, coarse)
        ones, zeros = (grid.ravel() for grid in np.meshgrid(i, j, indexing="ij"))
        weight = np.log(np.outer(weight_i, weight_j).ravel())
        weight += _log_choose(b, ones) + _log_choose(a, zeros) - _log_choose(a + b, ones + zeros)
        inside = (ones + zeros > 0) & (ones + zeros < a + b)
        above = ends[0][block] - a + zeros, ends[1][block] - b + ones
        columns = (*above, weight, np.full(len(ones), block), zeros, ones)
        parts.append(tuple(column[inside] for column in columns))
    zeros, ones, weight, blocks, part_zeros, part_ones = map(
        np.concatenate, zip(*parts, strict=True)
    )
    weight = weight + _log_choose(total, zeros + ones)
    return Cuts(zeros, ones, weight, blocks.astype(np.int64), part_zeros, part_ones)


def _splits(count: int, coarse: bool) -> tuple[FloatArray, FloatArray]:
    """Representative numbers from 0 to ``count``, and how many numbers each represents."""
    step = max(1, int(np.sqrt(count) / 6)) if coarse else 1
    ends = np.append(np.arange(0, count, step), count)
    weight = np.ones(len(ends))
    if step > 1:
        gaps = np.diff(ends)
        weight[1:-1] = (gaps[:-1] + gaps[1:]) / 2
        weight[0], weight[-1] = (gaps[0] + 1) / 2, (gaps[-1] + 1) / 2
    return ends.astype(float), weight


def _log_choose(n: FloatArray | float, k: FloatArray) -> FloatArray:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def log_likelihood_ratios(
    bases: list[Blocks], family: Family, leaks: FloatArray, rate: float
) -> FloatArray:
    """Log Lambda of each base at each leak, relative to labels in random order: (bases, leaks)."""
    masses = [family.masses(leak) for leak in leaks.tolist()]
    without = np.array([mass[0] for mass in masses])
    with_point = (1 - rate) * without + rate * np.array([mass[1] for mass in masses])
    with np.errstate(divide="ignore"):
        logs = np.log(without), np.log(with_point)
    log_ratios = np.empty((len(bases), len(leaks)))
    several = without.shape[1] > 2
    plain: dict[int, list[int]] = {}
    for row, base in enumerate(bases):
        if several:
            cuts = cuts_of(base)
            log_ratios[row] = [
                _several_pieces(base, cuts, *pair) for pair in zip(*logs, strict=True)
            ]
        elif int((base.zeros + base.ones).max()) > 1:
            cuts = cuts_of(base)
            columns = (cuts.zeros[None], cuts.ones[None], cuts.log_weight)
            log_ratios[row] = _two_pieces(*columns, logs)[0]
        else:
            plain.setdefault(len(base.zeros), []).append(row)
    for size, rows in plain.items():
        # Bases without blocks have the same cuts: equal total numbers of scores above each.
        weight = _log_choose(float(size), np.arange(size + 1.0))
        part = max(1, MOST_TERMS // (len(leaks) * (size + 1)))
        for start in range(0, len(rows), part):
            some = rows[start : start + part]
            zeros, ones = (
                np.cumsum([np.append(0, getattr(bases[row], name)) for row in some], axis=1)
                for name in ("zeros", "ones")
            )
            log_ratios[some] = _two_pieces(zeros, ones, weight, logs)
    return log_ratios


def _times(count: FloatArray, log_mass: float) -> FloatArray:
    """Count times a log probability; 0 if the count is 0, even for probability 0."""
    if np.isinf(log_mass):
        return np.where(count > 0, -np.inf, 0.0)
    return np.asarray(count * log_mass)


def _two_pieces(
    zeros: FloatArray, ones: FloatArray, weight: FloatArray, log_masses: FloatPair
) -> FloatArray:
    """For several bases, scores above each cut (bases, cuts); both pieces are always possible."""
    # Of very large leaks a mass is 0 to rounding.
    log_zero, log_one = (np.maximum(each, LEAST) for each in log_masses)
    n0, n1 = zeros.max(axis=1)[:, None], ones.max(axis=1)[:, None]
    below = n0 * log_zero[:, 1] + n1 * log_one[:, 1]
    slope0, slope1 = log_zero[:, 0] - log_zero[:, 1], log_one[:, 0] - log_one[:, 1]
    logs = slope0[:, None] * zeros[:, None, :] + slope1[:, None] * ones[:, None, :]
    logs += weight
    top = logs.max(axis=2, keepdims=True)
    logs -= top
    return np.asarray(below + top[:, :, 0] + np.log(np.exp(logs, out=logs).sum(axis=2)))


def _several_pieces(base: Blocks, cuts: Cuts, log_zero: FloatArray, log_one: FloatArray) -> float:
    """Sum over cuts in order, from the top: each piece holds the scores between two cuts."""
    if len(cuts.zeros) > MOST_PAIRS:
        raise InputError(
            f"expected at most {MOST_PAIRS} positions between scores for a family with an atom, got "
            f"{len(cuts.zeros)}."
        )
    n0, n1 = float(base.zeros.sum()), float(base.ones.sum())
    size = cuts.zeros + cuts.ones
    head = _log_choose(cuts.part_zeros + cuts.part_ones, cuts.part_ones)
    left_zeros = base.zeros[cuts.block] - cuts.part_zeros
    left_ones = base.ones[cuts.block] - cuts.part_ones
    rest = _log_choose(left_zeros + left_ones, left_ones)
    # Blocks that a cut splits are divided by their unsplit weight, once each.
    zeros, ones = (tally.astype(float)[cuts.block] for tally in base)
    whole = _log_choose(zeros + ones, ones)
    same = cuts.block[:, None] == cuts.block[None, :]
    dz = cuts.zeros[None, :] - cuts.zeros[:, None]
    do = cuts.ones[None, :] - cuts.ones[:, None]
    possible = (dz >= 0) & (do >= 0)
    apart = rest[:, None] + head[None, :]
    both = np.where(possible, dz + do, 0)
    part = np.where(same, _log_choose(both, np.where(possible, do, 0)), apart)
    between = np.where(possible, part - gammaln(both + 1), -np.inf)
    first = head - gammaln(size + 1)
    logs = first + _times(cuts.zeros, log_zero[0]) + _times(cuts.ones, log_one[0]) - whole
    for piece in range(1, len(log_zero) - 1):
        step = between + _times(dz, log_zero[piece]) + _times(do, log_one[piece])
        step = step - np.where(same, 0.0, whole[None, :])
        logs = logsumexp(logs[:, None] + step, axis=0)
    logs = logs + rest - gammaln(n0 + n1 - size + 1)
    logs = logs + _times(n0 - cuts.zeros, log_zero[-1]) + _times(n1 - cuts.ones, log_one[-1])
    return float(logsumexp(logs) + gammaln(n0 + n1 + 1))
