"""What the peers answer, and where the numbers come from.  Never edited to make a test pass.

Read from the tools' own files and run with them by the project (its note on peers): jax_privacy at
its head of August 2026, privacy-estimates 0.1.0.post1, TensorFlow Privacy, the reference code of
Steinke et al. (2023) and of Mahloujifar et al. (2024).  Each number is quoted to its last digit, so
it is good to half a unit of that digit unless a solver of the peer is coarser; `TOLERANCE` says which.

Scores are ``norm.ppf((i + .5) / n)`` for the canaries that were out and the same + shift for those
that were in.  Significance is .05 unless said.
"""

from __future__ import annotations

TOLERANCE = {
    "seven decimals": 6e-8,
    "six decimals": 6e-7,
    "eight digits": 6e-8,  # relative: 2.7358128e-5
    "solved to 1e-6": 2e-6,  # the peer bisects epsilon to 1e-6
    "eight decimals": 6e-9,
}

# n = 10,000, delta = 1e-6, the hull's vertices (`Bonferroni`); jax_privacy, which solves to 1e-6.
# shift: (epsilon_one_run, epsilon_one_run_fdp)
TEN_THOUSAND_SCORES = {
    0: (0.0, 0.0),
    1: (1.13346, 2.164749),
    2: (2.311945, 4.7218075),
    4: (4.395568, 9.133752),
}

# n = 1,000, shift 1; jax_privacy.  delta: (threshold .5, the hull's vertices)
THOUSAND_SCORES_CLOPPER_PEARSON = {
    0.0: (0.6692209, 1.0497220),
    1e-5: (0.6692057, 1.0496467),
    0.01: (0.6539843, 0.9849236),
}
THOUSAND_SCORES_GDP = 2.9960319  # delta 1e-5, hull
THOUSAND_SCORES_ONE_RUN = 0.8938430  # delta 1e-5, hull
THOUSAND_SCORES_FDP = 1.4937641  # delta 1e-5, hull
THOUSAND_SCORES_AUROC = 0.7610745
THOUSAND_SCORES_TPR_AT_FPR_01 = 0.095

# Steinke's p-value: (m, r, v, epsilon, delta): p
ONE_RUN_P_VALUES = {
    (1000, 100, 90, 1.0, 0.0): 2.7358128e-5,
    (1000, 100, 90, 1.0, 1e-5): 8.4128856e-4,
}
# (m, r, v), p = .05, delta = 1e-5: (Steinke's epsilon, Mahloujifar's with Gaussian curves)
ONE_RUN_EPSILONS = {
    (1000, 100, 100): (3.465376, 5.549028),
    (1000, 1000, 900): (2.020646, 3.779339),
}

# TensorFlow Privacy's limits of TPR / FPR.  (tp, fn, fp, tn): Katz, adjusted, Bailey, inverse sinh
RATIO_LIMITS = {
    (473, 511, 755, 950): (1.01166194, 1.01189079, 1.01148934, 1.01167669),
    (1000, 10, 10, 10000): (589.27335593, 568.32659563, 613.58766147, 592.63264572),
    (2, 697, 213, 313): (0.00220470, 0.00310880, 0.00162322, 0.00233503),
    (0, 511, 755, 950): (0.0, 0.00021568, 0.0, 0.0),
}
# TensorFlow Privacy, (tp, fn, fp, tn) = (500, 0, 0, 500) at significance .01.
CLOPPER_PEARSON_PERFECT = 4.5419158

# privacy-estimates.  (TP, TN, FP, FN, delta, level): (lower, upper)
JOINT_BETA = {
    (487, 1, 512, 0, 1e-5, 0.9): (0.143895, 6.415596),
    (300, 300, 200, 200, 0.01, 0.9): (0.288700, 0.509413),
    (90, 90, 10, 10, 0.001, 0.9): (1.911810, 2.832730),
}
# (500, 500, 0, 0), delta 0, level .98: the upper end is in circulation as 17.047319 too, beyond which
# the mass is .00999976 and not .01 by mpmath.
JOINT_BETA_PERFECT = (5.909910, 17.0472713)
JOINT_BETA_PERFECT_CIRCULATED = 17.047319
JOINT_BETA_PERFECT_CIRCULATED_MASS = 0.00999976

# privacy-estimates at level .9.  (TP, TN, FP, FN, delta): (beta, Jeffreys)
RATE_INTERVALS = {
    (300, 300, 200, 200, 0.01): ((0.2050459, 0.5737802), (0.2091786, 0.5695043)),
    (90, 90, 10, 10, 0.001): ((1.5409377, 2.9645411), (1.5835435, 2.8902568)),
}

# jax_privacy: members and others above four thresholds, of 8 each, and exp(epsilon) by delta with
# min_count = 1.
RAW_COUNTS_MEMBERS = (0, 2, 6, 8)
RAW_COUNTS_OTHERS = (0, 0, 4, 8)
RAW_COUNTS = {0.0: 3.0, 0.125: 2.0, 0.25: 1.0}

# dp-accounting 0.6.0: (noise, delta): epsilon of the Gaussian mechanism with sensitivity 1.
GAUSSIAN_MECHANISM = {(1.0, 1e-5): 4.3771781, (1.0, 0.01): 2.3177890, (2.0, 1e-5): 1.9930914}
