"""Bets against a claim of (epsilon, delta)-DP, placed on models in the order in which they were trained.

A pair consists of the n-th model of a base without the point and the n-th with it.  For a threshold
fixed in advance let G be 1 if the model with the point is above it, and L be 1 if the model without the
point is.  The claim implies

    E[G - e^epsilon L - delta] <= 0,

and the same for the other error: G for the model without the point below a threshold, L for the model
with it.  A bettor who stakes a share c of the capital multiplies it by 1 + c r, where

    r = (G - e^epsilon L - delta) / (e^epsilon + delta) >= -1.

Under the claim the capital does not grow on average, whatever was learnt from earlier pairs: it is a
supermartingale, an e-process.  The probability that it ever reaches 1 / error is at most error (Ville's
inequality), so it is valid at any time.

A bettor has a rate (of errors at a threshold that follows the scores seen so far), a direction (one
error, the other, or half of the stake on each) and a stake.  Bettors are mixed: an average of e-values
is an e-value, however they depend on each other.  Capitals on different bases are multiplied, which
requires that models of different bases are independent; `independent=False` averages over bases instead.
"""

from bisect import bisect_left, insort

import numpy as np

from epsilometer._arrays import FloatArray, IntArray

#: Error rates targeted by the thresholds.  A rate is used once a base has enough models for it.
TARGET_RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)

#: Shares of the capital that are staked; never all of it, so that no bettor is ruined.
STAKES = (0.03, 0.1, 0.3, 0.6, 0.9)

#: Share of a base's capital that is exposed at all, and the weight of that choice.  If few bases
#: leak, the others would consume what those win; with an exposed share w a base loses at most the
#: factor 1 - w.
SHARES = ((1.0, 0.5), (0.3, 0.25), (0.1, 0.15), (0.03, 0.1))

#: Number of pairs before the first bet: thresholds need data.
PAIRS_BEFORE_BETS = 4

#: False positives, false negatives, half of the stake on each.
DIRECTIONS = 3

#: Bits of a bet's outcome: G and L for false positives, G and L for false negatives.
OUTCOMES = 4


def outcomes(without: FloatArray, with_point: FloatArray) -> FloatArray:
    """The outcome of every pair for every rate: pairs x rates x OUTCOMES; NaN where no bet is placed.

    Scores are in the order in which models were trained.  Thresholds for a pair come from earlier pairs,
    so adding models does not change earlier outcomes; models without a partner are not used yet.
    """
    pairs = min(len(without), len(with_point))
    outcomes = np.full((pairs, len(TARGET_RATES), OUTCOMES), np.nan)
    sides = without[:pairs], with_point[:pairs]
    seen = np.arange(pairs)
    # The threshold is learnt from the side whose errors must be rare; higher is then worse for it.
    for direction, (rare, common) in enumerate((sides, (-sides[1], -sides[0]))):
        above = [_past_at_least(rare, common), _past_at_least(rare, rare)]
        for number, rate in enumerate(TARGET_RATES):
            rank = np.maximum(np.rint(rate * (seen + 1)) - 1, 0)
            bets = (seen >= PAIRS_BEFORE_BETS) & (rate * (seen + 1) >= 0.5)
            for place, ranks in enumerate(above):
                # Scores above the threshold are those that at most `rank` earlier ones reach.
                outcomes[bets, number, 2 * direction + place] = (ranks <= rank)[bets]
    return outcomes


def _past_at_least(past: FloatArray, now: FloatArray) -> IntArray:
    """How many earlier scores are at least as high as each score."""
    counts = np.empty(len(now), dtype=np.int64)
    ordered: list[float] = []
    for place, (earlier, value) in enumerate(zip(past.tolist(), now.tolist(), strict=True)):
        counts[place] = len(ordered) - bisect_left(ordered, value)
        insort(ordered, earlier)
    return counts


def returns(outcome: FloatArray, epsilon: float, delta: float) -> FloatArray:
    """The return r of each direction, on the last axis; 0 where no bet is placed."""
    shrink = np.exp(-epsilon)
    gains, losses = outcome[..., 0::2], outcome[..., 1::2]
    single = np.nan_to_num((shrink * (gains - delta) - losses) / (1 + shrink * delta))
    return np.concatenate([single, single.mean(axis=-1, keepdims=True)], axis=-1)


def log_growth(returned: FloatArray) -> FloatArray:
    """Log growth factor for every stake: adds one axis."""
    return np.asarray(np.log1p(returned[..., None] * np.array(STAKES)))


def mixed(log_capitals: FloatArray, *, independent: bool = True) -> FloatArray:
    """Log of the mixture of all bettors on all bases: bases x bettors (x anything) -> anything.

    With ``independent`` the capitals of a bettor on all bases are multiplied, for each of the shares,
    and averaged over shares and bettors; otherwise everything is averaged.

    Examples
    --------
    >>> bool(abs(mixed(np.zeros((3, 5)))) < 1e-12)  # no gains or losses
    True
    """
    if not independent:
        return _log_mean(log_capitals.reshape(-1, *log_capitals.shape[2:]))
    parts = []
    for share, weight in SHARES:
        kept = np.log1p(-share) if share < 1 else -np.inf
        total = np.logaddexp(kept, np.log(share) + log_capitals).sum(axis=0)
        parts.append(np.log(weight) + _log_mean(total))
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def _log_mean(logs: FloatArray) -> FloatArray:
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))
