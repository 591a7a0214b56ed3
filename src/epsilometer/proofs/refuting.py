"""The search for the largest refuted epsilon, shared by proofs and their best possible outcomes."""

from collections.abc import Callable

#: Step of epsilon in which e-values are followed upwards; they change little in between.
EPSILON_STEP = 0.05

#: Accuracy of the proven epsilon; it is rounded down.
ACCURACY = 1e-4

#: Rounding error of a log e-value.
LOG_E_VALUE_ROUNDING = 1e-9

#: Largest epsilon that is tried: no data refute more, and exp(-epsilon) is far above the rounding of 1.
LARGEST_CLAIM = 30.0


def refuted_up_to(
    refuted: Callable[[float], bool], *, start: float = 0.0, accuracy: float = ACCURACY
) -> float:
    """The epsilon up to which every value is refuted.

    ``start`` is an epsilon up to which every value is known to be refuted, as at a larger delta; the
    search begins there, or at 0 if ``start`` itself is not refuted.

    The true epsilon is refuted with probability at most the error, so the first value that is not
    refuted is at or below it except with that probability.  It is searched in steps: e-values nearly
    always fall with epsilon, and studies test the bounds themselves.
    """
    if not refuted(start):
        return refuted_up_to(refuted, accuracy=accuracy) if start > 0 else 0.0
    low, high = start, start + EPSILON_STEP
    while refuted(high):
        low, high = high, high + EPSILON_STEP
        if high > LARGEST_CLAIM:
            return low
    while high - low > accuracy:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
