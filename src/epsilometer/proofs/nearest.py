"""The error rates that a claim allows nearest to assumed ones: what bets are measured against."""

from math import log

from numba import njit

#: Bisections: full double precision.
BISECTIONS = 60


@njit(cache=True)
def nearest(
    rare: float, common: float, odds: float, delta: float, n0: float = 1.0, n1: float = 1.0
) -> tuple[float, float]:
    """The rates beyond a threshold that (log odds, delta)-DP allows, with the least divergence.

    That is n0 KL(rare, .) + n1 KL(common, .), for n0 models without the point, of which the share
    ``rare`` is beyond the threshold, and n1 with it.  Rates that the claim allows are their own nearest.
    """
    if common <= odds * rare + delta and 1 - rare <= odds * (1 - common) + delta:
        return rare, common
    one = _on_edge(rare, common, odds, delta, n0, n1)
    other = _on_edge(1 - common, 1 - rare, odds, delta, n1, n0)
    edge, mirrored = (one, odds * one + delta), (1 - odds * other - delta, 1 - other)
    far = n0 * _divergence(rare, edge[0]) + n1 * _divergence(common, edge[1])
    # The smaller rates of the mirror image, which are not rounded.
    least = n1 * _divergence(1 - common, other)
    least += n0 * _divergence(1 - rare, odds * other + delta)
    return edge if far <= least else mirrored


@njit(cache=True)
def _on_edge(rare: float, common: float, odds: float, delta: float, n0: float, n1: float) -> float:
    """The nearest rare rate on the edge common = odds rare + delta."""
    low, high = 0.0, (1 - delta) / (1 + odds)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        other = odds * middle + delta
        slope = n0 * (middle - rare) / max(middle * (1 - middle), 1e-300)
        slope += n1 * odds * (other - common) / max(other * (1 - other), 1e-300)
        if slope < 0:
            low = middle
        else:
            high = middle
    return high


@njit(cache=True)
def _divergence(rate: float, other: float) -> float:
    """Kullback-Leibler divergence of Bernoulli distributions."""
    total = 0.0
    if rate > 0:
        total += rate * log(rate / other)
    if rate < 1:
        total += (1 - rate) * log((1 - rate) / (1 - other))
    return total
