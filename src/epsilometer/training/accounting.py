"""What Opacus's accountants promise for steps of DP-SGD, and the model that canaries of it want."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.optimize import brentq as find_root

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.families import GaussianCurves
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from epsilometer.model.mixtures import KnownMixing, NoMixing
from epsilometer.model.profile import ProfileModel
from epsilometer.model.strengths import FixedStrength
from epsilometer.training import torch_modules

EPSILON_ERROR = 0.01
"""What the accountant adds to its estimate of epsilon, so that it is a bound."""

LARGEST_EPSILON = 100.0
"""Beyond this the coarser accountant is fine enough."""

Steps = tuple[float, float, int]
"""Noise multiplier, sampling rate and number of steps that had these."""


def accounted_epsilon(done: Sequence[Steps], delta: float) -> float:
    """Epsilon at a delta by Opacus's PRV accountant, for one record more or less.

    The accountant composes privacy losses numerically (Gopi et al. 2021): an upper bound, about
    `EPSILON_ERROR` above the truth.  Opacus's other accountant, by Rényi divergences, is a fifth
    above it for one step of noise 1 at delta = 0.01, and the higher a claim, the harder it is to
    expose.  Only where that one says more than `LARGEST_EPSILON` is its answer taken: no audit comes
    near, and the finer one would need gigabytes.

    Infinite without noise and at delta = 0; 0 without steps.
    """
    delta = _validate.delta(delta)
    if not done:
        return 0.0
    if delta == 0 or any(noise == 0 for noise, _, _ in done):
        return math.inf
    accountants = torch_modules.loaded("opacus.accountants")
    by_divergences, by_losses = accountants.RDPAccountant(), accountants.PRVAccountant()
    by_divergences.history, by_losses.history = list(done), list(done)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # It takes logarithms of 0 and then leaves them out, and says that its orders could be finer.
        warnings.filterwarnings("ignore", "Optimal order is the", UserWarning)
        found = by_divergences.get_epsilon(delta)
        if found <= LARGEST_EPSILON:
            try:
                found = by_losses.get_epsilon(delta, eps_error=EPSILON_ERROR)
            except (RuntimeError, ValueError) as error:
                raise InputError(f"no epsilon is known at delta={delta}: {error}") from None
    return max(0.0, float(found))  # below 0 where delta alone is promise enough


FEW = 6.0
"""Expected participations up to which it matters that a canary may have taken part in no step."""


LOW = 0.95
"""Of the exact epsilon: below this share a Gaussian curve is said to read low."""

BULK = (0.1, 0.03, 0.01)
"""Deltas at which thousands of canaries show the curve; the first that has an epsilon is used."""

LEAST = 5 * EPSILON_ERROR
"""Epsilon below which the accountant's own error would decide."""


@cache
def reads_low(done: tuple[Steps, ...], delta: float) -> bool:
    """Whether a Gaussian curve that fits where canaries show it falls short at a small delta.

    The curve with the exact epsilon at a delta of `BULK` is followed to ``delta`` and compared with the
    exact epsilon there.
    """
    exact = accounted_epsilon(done, delta) - EPSILON_ERROR
    if not math.isfinite(exact):
        return False
    for place in (each for each in BULK if each > delta):
        shown = accounted_epsilon(done, place) - EPSILON_ERROR
        if shown > LEAST:
            return _gaussian_through(shown, place, delta) < LOW * exact
    return exact > LEAST


def _gaussian_through(epsilon: float, place: float, delta: float) -> float:
    """Epsilon at ``delta`` of the Gaussian curve that has ``epsilon`` at ``place``."""
    separation = find_root(
        lambda mu: float(epsilon_of_gaussian(mu, place)) - epsilon, 0.0, LARGEST_EPSILON
    )
    return float(epsilon_of_gaussian(separation, delta))


def canary_model(done: Sequence[Steps], delta: float) -> ProfileModel:
    """What to assume of scores of gradient canaries: Gaussian curves, and the best possible attack.

    Many small losses compose to a Gaussian curve.  Where a canary is expected in `FEW` steps or fewer,
    the curve is a mixture with the canaries that took part in none, at the rate 1 - (1 - q)^T.  Both
    read below the exact composition, by the more the lower the noise and the fewer the steps (where it
    is more than a twentieth, the model says that it reads low, and nothing passes); the mixture reads
    higher than the curve alone, and from `FEW` on the two agree to one in a hundred.
    """
    expected = sum(rate * steps for _, rate, steps in done)
    always = any(rate == 1 for _, rate, _ in done)
    never = 0.0 if always else math.exp(sum(n * math.log1p(-rate) for _, rate, n in done))
    mixed = 0 < expected <= FEW and never > 0
    return ProfileModel(
        delta=delta,
        families=(GaussianCurves(),),
        mixing=KnownMixing(rate=1 - never) if mixed else NoMixing(),
        strength=FixedStrength(value=1.0),
        reads_low=reads_low(tuple(done), delta),
    )
