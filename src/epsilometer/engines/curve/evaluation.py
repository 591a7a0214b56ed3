"""Log likelihood of every base at some leaks, by the chain of ranks or as a finite sum."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.engines.curve import pieces
from epsilometer.engines.curve.chain import GriddedCurves, log_likelihood_ratios
from epsilometer.engines.curve.ranks import Blocks, share_grid
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.family import Curves, Densities
from epsilometer.model.scores import Scores

#: Largest step of theta, for few scores: the families themselves must be resolved.
LARGEST_STEP = 0.05

#: Bases times curves processed at a time: fits the processor's cache.
COLUMNS_AT_ONCE = 600

#: Random orders of scores with ties, and the largest total number of ranks in them.
ORDERS, MOST_RANKS = 8, 40_000


#: Bases with more scores are first scanned with a sample of this size.
THINNED_FROM, THINNED_TO = 5_000, 2_500


class Accuracy(NamedTuple):
    """How finely a table is made.

    The step of the chain of ranks, its window in standard deviations of a share, and the error of a
    spline in nats, per base.
    """

    chain_step: float = 1.0
    reach: float = 10.0
    spline: float = 0.01


def evaluate(scores: Scores, curves: Curves, leaks: FloatArray, accuracy: Accuracy) -> FloatArray:
    """Log likelihood ratios of all bases at some leaks, shape (bases, leaks).

    For scores with ties, the mean over several random orders.
    """
    if not len(leaks):
        return np.empty((len(scores), 0))
    ordered, owner, groups = _in_orders(scores.bases)
    log_ratios = np.empty((len(ordered), len(leaks)))
    if curves.family.pieces:
        log_ratios = pieces.log_likelihood_ratios(ordered, curves.family, leaks, curves.rate)
    else:
        for largest, alike in groups:
            curved = _gridded(largest, curves, leaks, accuracy)
            for same, zeros, ones in alike:
                part = max(1, COLUMNS_AT_ONCE // len(leaks))
                for start in range(0, len(same), part):
                    some = slice(start, start + part)
                    log_ratios[same[some]] = log_likelihood_ratios(zeros[some], ones[some], curved)
    log_ratios[:, leaks == 0] = 0.0
    if len(ordered) == len(scores):
        return log_ratios
    shares = np.bincount(owner)[:, None]
    return np.stack([np.bincount(owner, column) for column in log_ratios.T], axis=1) / shares


#: Orders with equal block sizes: their numbers, and their blocks without and with the point.
Alike = tuple[IntArray, IntArray, IntArray]


@lru_cache(maxsize=4)  # every curve asks again
def _in_orders(
    bases: tuple[BaseScores, ...],
) -> tuple[list[Blocks], IntArray, list[tuple[Blocks, list[Alike]]]]:
    """Bases as blocks of ranks, in several orders if there are ties.

    Also the base of each order, and those that can share a grid, each group with its largest base.
    """
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
    groups = []
    for rows in _group_by_size(blocks):
        largest = max((blocks[row] for row in rows), key=lambda base: len(base.zeros))
        alike = [
            (
                same,
                np.stack([blocks[n].zeros for n in same]),
                np.stack([blocks[n].ones for n in same]),
            )
            for same in _same_blocks(blocks, rows)
        ]
        groups.append((largest, alike))
    return blocks, np.array(owner), groups


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


# --- a sample of many scores ---


def factors_of(scores: Scores) -> IntArray:
    """Thinning factor of each base for a first scan; counts are not thinned."""
    sizes = scores.trials_h0 + scores.trials_h1
    whole = np.array([base.grouped for base in scores.bases]) | (sizes <= THINNED_FROM)
    return np.where(whole, 1, -(-sizes // THINNED_TO))


def thinned(scores: Scores, factors: IntArray) -> Scores:
    """Every n-th score of each hypothesis, in the order of scores."""
    return scores.with_bases(
        base if factor == 1 else BaseScores.of(*(values[::factor] for values in base.by_hypothesis))
        for base, factor in zip(scores.bases, factors.tolist(), strict=True)
    )
