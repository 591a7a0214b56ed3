"""The capital of bettors on many bases, pair by pair.

A bettor's capital is multiplied over the pairs of a base, and over bases that share no models; only then
are bettors mixed: an average of e-values is an e-value, however they depend on each other.  A bettor's
rates are fixed, and whether it bets on a pair depends on the earlier pairs of the base alone, so neither
the order in which bases were trained nor bases that are added later change the capital on others.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.proofs.bettors import Bettors
from epsilometer.proofs.outcomes import CUT, NO_BET, Outcomes

#: Tolerance of a gate.
SLACK = 1e-12

#: Sums of weights outside of this are scaled back.
LARGEST_SUM = 1e60


@njit(cache=True)
def _gauge(
    outcomes: Outcomes, at: int, pair: int, paper: float, placement: int, table: FloatArray
) -> float:
    """What a bettor's gate looks at: what its bets on the past would have won.

    The cut moves, so that its bettors look at the growth at its present place.
    """
    if placement != CUT:
        return paper
    # Outcomes of the cut: high without the point 1, with it 2; low without it 4, with it 8.
    wrong0, wrong1 = outcomes.cut_errors[0, at], outcomes.cut_errors[1, at]
    right1 = (1 - wrong0) * table[6] + wrong0 * table[3]
    missed = (1 - wrong0) * table[12] + wrong0 * table[9]
    return float(pair * ((1 - wrong1) * right1 + wrong1 * missed))


@njit(cache=True)
def capitals(outcomes: Outcomes, bettors: Bettors, chosen: IntArray) -> FloatArray:
    """Log capital of the chosen bettors on each base: bases x bettors."""
    starts = outcomes.starts
    logs = np.zeros((len(starts) - 1, len(chosen)))
    for base in range(len(logs)):
        for n in range(len(chosen)):
            bettor = chosen[n]
            placement, table = bettors.placement[bettor], bettors.log_e[bettor]
            # Begun pairs that are not complete count as lost, even to a bettor who would have sat out.
            capital = outcomes.incomplete[base] * min(table.min(), 0.0)
            paper, bets = 0.0, 0
            for at in range(starts[base], starts[base + 1]):
                code = outcomes.codes[placement, at]
                if code == NO_BET:
                    continue
                seen = _gauge(outcomes, at, at - starts[base], paper, placement, table)
                if seen >= bettors.least[bettor] - SLACK and bets >= bettors.after[bettor]:
                    capital += table[code]
                paper += table[code]
                bets += 1
            logs[base, n] = capital
    return logs


@njit(cache=True)
def along(
    outcomes: Outcomes, order: IntArray, bettors: Bettors, power: float, enough: float
) -> FloatArray:
    """Log capital after each pair of a fixed order of all pairs: (base, pair) rows.

    Before every pair the capital is spread over bettors in proportion to their weight times their own
    capital to the ``power``: 1 is the mixture that does not depend on the order, 2 follows the leaders.
    Ends when the logarithm reaches ``enough``.
    """
    bases, shares = len(outcomes.starts) - 1, bettors.weight.copy()
    paper = np.zeros((bases, len(shares)))
    bets = np.zeros((bases, len(shares)), np.int64)
    path, capital = np.empty(len(order)), 0.0
    factor, grown = np.exp(bettors.log_e), np.exp(power * bettors.log_e)
    for step in range(len(order)):
        base, pair = order[step]
        at, gained, total = outcomes.starts[base] + pair, 0.0, 0.0
        for n in range(len(shares)):
            if shares[n] == 0:
                continue
            total += shares[n]
            placement, table = bettors.placement[n], bettors.log_e[n]
            code = outcomes.codes[placement, at]
            if code == NO_BET:
                continue
            seen = _gauge(outcomes, at, pair, paper[base, n], placement, table)
            if seen >= bettors.least[n] - SLACK and bets[base, n] >= bettors.after[n]:
                gained += shares[n] * (factor[n, code] - 1)
                shares[n] *= grown[n, code]
            paper[base, n] += table[code]
            bets[base, n] += 1
        capital += np.log(1 + gained / total)
        path[step] = capital
        if capital >= enough:
            return path[: step + 1]
        if total > LARGEST_SUM or total < 1 / LARGEST_SUM:
            shares /= shares.sum()
    return path
