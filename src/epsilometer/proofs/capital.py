"""The capital of bettors on many bases, and the mixture of all bettors.

A bettor's capital is multiplied over the pairs of a base, and over bases that share no models; only then
are bettors mixed: an average of e-values is an e-value, however they depend on each other.  A bettor's
rates are fixed, and whether it bets on a pair depends on the earlier pairs of the base alone, so neither
the order in which bases were trained nor bases that are added later change the capital on others.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.proofs.outcomes import CUT, NO_BET

#: Tolerance of a gate.
SLACK = 1e-12

#: Sums of weights outside of this are scaled back.
LARGEST_SUM = 1e60


@njit(cache=True)
def gauge(
    paper: float, pair: int, placement: int, table: FloatArray, wrong0: float, wrong1: float
) -> float:
    """What a bettor's gate looks at: what its bets on the past would have won.

    The cut moves, so that its bettors look at the growth at its present place.
    """
    if placement != CUT:
        return paper
    # Outcomes of the cut: high without the point 1, with it 2; low without it 4, with it 8.
    right1 = (1 - wrong0) * table[6] + wrong0 * table[3]
    missed = (1 - wrong0) * table[12] + wrong0 * table[9]
    return float(pair * ((1 - wrong1) * right1 + wrong1 * missed))


@njit(cache=True)
def add_base(
    codes: np.ndarray,
    errors: FloatArray,
    incomplete: int,
    placement: IntArray,
    log_e: FloatArray,
    gates: FloatArray,
    chosen: IntArray,
    capitals: FloatArray,
) -> None:
    """Add the log capitals of the chosen bettors on one base: bettors x gates."""
    pairs, ways = codes.shape[1], len(gates)
    for n in range(len(chosen)):
        bettor = chosen[n]
        place, table = placement[bettor], log_e[bettor]
        row, paper, bets = codes[place], 0.0, 0
        # Begun pairs that are not complete count as lost, even to a bettor who would have sat out.
        lost = incomplete * min(table.min(), 0.0)
        for way in range(ways):
            capitals[n, way] += lost
        for pair in range(pairs):
            code = row[pair]
            if code == NO_BET:
                continue
            seen = gauge(paper, pair, place, table, errors[0, pair], errors[1, pair])
            for way in range(ways):
                if seen >= gates[way, 0] - SLACK and bets >= gates[way, 1]:
                    capitals[n, way] += table[code]
            paper += table[code]
            bets += 1


@njit(cache=True)
def multiplied(
    codes: np.ndarray,
    errors: FloatArray,
    starts: IntArray,
    incomplete: IntArray,
    placement: IntArray,
    log_e: FloatArray,
    gates: FloatArray,
    chosen: IntArray,
) -> FloatArray:
    """Log capitals of the chosen bettors, multiplied over bases: bettors x gates."""
    capitals = np.zeros((len(chosen), len(gates)))
    for base in range(len(starts) - 1):
        own = slice(starts[base], starts[base + 1])
        add_base(
            codes[:, own],
            errors[:, own],
            incomplete[base],
            placement,
            log_e,
            gates,
            chosen,
            capitals,
        )
    return capitals


@njit(cache=True)
def by_base(
    codes: np.ndarray,
    errors: FloatArray,
    starts: IntArray,
    incomplete: IntArray,
    placement: IntArray,
    log_e: FloatArray,
    gates: FloatArray,
    chosen: IntArray,
    log_weight: FloatArray,
) -> FloatArray:
    """Log of the mixture of the chosen bettors on each base alone."""
    mixtures = np.empty(len(starts) - 1)
    for base in range(len(mixtures)):
        own = slice(starts[base], starts[base + 1])
        capitals = np.zeros((len(chosen), len(gates)))
        add_base(
            codes[:, own],
            errors[:, own],
            incomplete[base],
            placement,
            log_e,
            gates,
            chosen,
            capitals,
        )
        for n in range(len(chosen)):
            capitals[n] += log_weight[n]
        most = capitals.max()
        mixtures[base] = most + np.log(np.exp(capitals - most).sum())
    return mixtures


@njit(cache=True)
def along(
    codes: np.ndarray,
    errors: FloatArray,
    starts: IntArray,
    order: IntArray,
    placement: IntArray,
    log_e: FloatArray,
    gates: FloatArray,
    weight: FloatArray,
    power: float,
) -> FloatArray:
    """Log capital after each pair of a fixed order of all pairs: (base, pair) rows.

    Before every pair the capital is spread over bettors in proportion to ``weight`` times their own
    capital to the ``power``: 1 is the mixture that does not depend on the order, 2 follows the leaders.
    """
    bettors, ways, bases = len(placement), len(gates), len(starts) - 1
    shares = np.empty((bettors, ways))
    for bettor in range(bettors):
        shares[bettor] = weight[bettor] / ways
    paper, bets = np.zeros((bases, bettors)), np.zeros((bases, bettors), np.int64)
    path, capital = np.empty(len(order)), 0.0
    factor, grown = np.exp(log_e), np.exp(power * log_e)
    for step in range(len(order)):
        base, pair = order[step]
        at, won, total = starts[base] + pair, 0.0, 0.0
        for bettor in range(bettors):
            place = placement[bettor]
            code = codes[place, at]
            for way in range(ways):
                total += shares[bettor, way]
            if code == NO_BET:
                for way in range(ways):
                    won += shares[bettor, way]
                continue
            seen = gauge(
                paper[base, bettor], pair, place, log_e[bettor], errors[0, at], errors[1, at]
            )
            for way in range(ways):
                if seen >= gates[way, 0] - SLACK and bets[base, bettor] >= gates[way, 1]:
                    won += shares[bettor, way] * factor[bettor, code]
                    shares[bettor, way] *= grown[bettor, code]
                else:
                    won += shares[bettor, way]
            paper[base, bettor] += log_e[bettor, code]
            bets[base, bettor] += 1
        capital += np.log(won / total)
        path[step] = capital
        if total > LARGEST_SUM or total < 1 / LARGEST_SUM:
            shares /= shares.sum()
    return path
