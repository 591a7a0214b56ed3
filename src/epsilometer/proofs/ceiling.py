"""How far a proof could reach at best: what perfect attacks would prove, and how many models that takes.

With n pairs of models, all of them separated, no test with this error refutes more than
log(2 n / log(1 / error)): a claim of (epsilon, 0)-DP allows such an outcome with probability
(1 + exp(-epsilon))^(-2 n).  The tests of this folder reach a little less.
"""

import math
from collections.abc import Callable

from epsilometer.proofs.refuting import ACCURACY, LARGEST_CLAIM

#: Audits of more models, or canaries, are not asked for.
MOST_MODELS = 1_000_000

#: Share of the missing epsilon that a larger audit is tried for, and the least step: what learning costs
#: is smaller in larger audits, so that the first one that is enough is not much too large.
SHARE_OF_STEP, LEAST_STEP = 0.8, 0.05


def ceiling(refuted: Callable[[float], bool]) -> float:
    """The epsilon up to which the best possible outcome refutes every claim.

    E-values of best outcomes fall with epsilon: no need to follow every step.
    """
    low, high = 0.0, 1.0
    while high < LARGEST_CLAIM and refuted(high):
        low, high = high, 2 * high
    while high - low > ACCURACY:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return min(low, LARGEST_CLAIM)


def times_enough(most_provable: Callable[[float], float], claim: float, size: int) -> float | None:
    """How many times as many models could refute a claim, to about 5 %; None if MOST_MODELS could not.

    ``most_provable`` is what audits could prove that are so many times as large as one of this ``size``.
    """
    times = 1.0
    while times * size <= MOST_MODELS:
        missing = claim - most_provable(times)
        if missing < 0:
            return times
        times *= math.exp(max(SHARE_OF_STEP * missing, LEAST_STEP))
    return None
