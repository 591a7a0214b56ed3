"""Golden values and where they come from.  Never edited to make a test pass.

Binomial cases with a fixed strength: 5, 50 and 95 % of epsilon for N0 = N1 = N, X = Y, delta = 0.01,
epsilon ~ half-normal of variance 10, from the method notes of the project (two-dimensional
quadrature written independently of this package), quoted to four decimals.

Correlated cases: counts at target rate 0.1 of three of the paper's algorithms (its table 1), with the
quantiles and the mean strength from the same notes, good to 0.01 there.

`TEN_STRONG_*` is the second scenario of section 4.1.2 of the paper with the notes' quantiles, which
the engine meets to 0.002 only.  The tests compare with the oracle in
tests/engines/stated_error_oracle.py as well, which shares nothing with the engine and sides with it.
"""

from __future__ import annotations

FIXED_STRENGTH = {
    # (N, X = Y, strength): (5 %, 50 %, 95 %)
    (500, 200, 0.0): (0.4461, 1.5887, 5.7407),
    (500, 200, 0.2): (0.4093, 0.9326, 2.0092),
    (500, 200, 0.5): (0.3617, 0.5678, 0.8656),
    (500, 200, 0.8): (0.3196, 0.4470, 0.5861),
    (500, 200, 0.9): (0.3045, 0.4209, 0.5412),
    (500, 200, 0.99): (0.2908, 0.4007, 0.5124),
}
ENDS_AT_99 = {100: (0.1694, 0.6723), 500: (0.2908, 0.5124), 1000: (0.3204, 0.4761)}

TEN_STRONG_X = [40, 50, 60, 100, 100, 110, 120, 200, 200, 200]
TEN_STRONG_Y = [250, 200, 150, 100, 120, 100, 100, 80, 70, 60]
TEN_STRONG_NOTES = (2.693, 2.927, 3.527)
TEN_STRONG_STRENGTH_NOTES = (0.568, 0.710, 0.795)

CORRELATED = {
    "A1": (
        [10, 11, 8, 7, 12, 9, 9, 9, 10, 10, 11, 9, 11, 9, 10, 12, 12, 11, 8, 5],
        [3, 0, 0, 0, 47, 0, 1, 0, 0, 0, 0, 33, 15, 0, 0, 0, 0, 0, 52, 0],
        (5.59, 7.69, 10.45),
        0.321,
    ),
    "A3": (
        [9, 0, 65, 27, 3, 76, 2, 55, 59, 10, 9, 92, 1, 65, 4, 7, 22, 58, 89, 15],
        [95, 100, 49, 36, 94, 20, 100, 22, 43, 91, 48, 4, 100, 16, 100, 95, 27, 32, 8, 25],
        (1.16, 1.64, 2.45),
        0.058,
    ),
    "A4": (
        [8, 55, 36, 31, 6, 79, 4, 3, 47, 7, 8, 93, 7, 73, 9, 42, 14, 37, 5, 14],
        [88, 12, 8, 4, 97, 10, 98, 100, 13, 95, 6, 7, 83, 9, 95, 42, 9, 23, 99, 0],
        (2.72, 4.22, 7.48),
        0.065,
    ),
}
