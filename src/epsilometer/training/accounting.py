"""Privacy accounting of DP-SGD steps with Opacus, and the model for scores of gradient canaries."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq as find_root

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.families import Gaussian
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from epsilometer.model.mixing import KnownMixing, NoMixing
from epsilometer.model.models import CurveModel
from epsilometer.model.strengths import FixedStrength
from epsilometer.training import pytorch

#: Error bound that the accountant adds to its estimate of epsilon to make it an upper bound.
EPSILON_ERROR = 0.01

#: Above this the coarser accountant is accurate enough.
LARGEST_FINE_EPSILON = 100.0

#: Noise multiplier, sampling rate, and number of steps with these.
Steps = tuple[float, float, int]


def accounted_epsilon(done: Sequence[Steps], delta: float) -> float:
    """Epsilon at a delta by Opacus's PRV accountant, when one record is added or removed.

    The accountant composes privacy losses numerically (Gopi et al. 2021): an upper bound, about
    `EPSILON_ERROR` above the truth.  Opacus's Rényi accountant is a fifth higher for one step of noise 1
    at delta = 0.01, and the higher a claim, the harder it is to refute.  Only if that one exceeds
    `LARGEST_FINE_EPSILON` is its result used: no audit reaches such values, and the PRV accountant
    would need gigabytes.

    Infinite without noise and at delta = 0; 0 without steps.
    """
    delta = _validate.delta(delta)
    if not done:
        return 0.0
    accountants = pytorch.loaded("opacus.accountants")
    epsilon = epsilon_by(accountants.RDPAccountant, done, delta)
    if epsilon <= LARGEST_FINE_EPSILON:
        epsilon = epsilon_by(accountants.PRVAccountant, done, delta, eps_error=EPSILON_ERROR)
    return epsilon


def epsilon_by(kind: Any, done: Sequence[Steps], delta: float, **options: Any) -> float:
    """Epsilon by a class of accountants; infinite without noise and at delta = 0."""
    if _validate.delta(delta) == 0 or any(noise == 0 for noise, _, _ in done):
        return math.inf
    accountant = kind()
    accountant.history = list(done)
    # Logarithms of 0 are taken and discarded.
    with np.errstate(all="ignore"), quiet():
        try:
            epsilon = float(accountant.get_epsilon(delta, **options))
        except (ArithmeticError, RuntimeError, ValueError) as error:
            raise InputError(f"the accountant gives no epsilon at delta={delta}: {error}") from None
    return max(0.0, epsilon)  # negative if delta alone covers the mechanism


#: Warnings that Opacus and PyTorch issue in every correct loop; caveats cover what matters.
EXPECTED_WARNINGS = (
    "Secure RNG turned off",
    "Full backward hook is firing",
    "GDP accounting is experimental",
    "Optimal order is the",
)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the expected warnings."""
    with warnings.catch_warnings():
        for start in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", start, UserWarning)
        yield


#: Expected participations up to which it matters that a canary may have taken part in no step.
FEW_PARTICIPATIONS = 6.0


#: Share of the exact epsilon below which a Gaussian curve is reported as too low.
LOW = 0.95

#: Deltas at which thousands of canaries determine the curve; the first with an epsilon is used.
BULK = (0.1, 0.03, 0.01)

#: Below this epsilon the accountant's own error would dominate.
LEAST = 5 * EPSILON_ERROR


@cache
def reads_low(done: tuple[Steps, ...], delta: float) -> bool:
    """Whether a Gaussian curve fitted where canaries determine it is too low at a small delta.

    The Gaussian curve with the exact epsilon at a delta of `BULK` is extrapolated to ``delta`` and
    compared with the exact epsilon there.
    """
    exact = accounted_epsilon(done, delta) - EPSILON_ERROR
    if not math.isfinite(exact):
        return False
    for place in (bulk_delta for bulk_delta in BULK if bulk_delta > delta):
        shown = accounted_epsilon(done, place) - EPSILON_ERROR
        if shown > LEAST:
            return _gaussian_through(shown, place, delta) < LOW * exact
    return exact > LEAST


def _gaussian_through(epsilon: float, place: float, delta: float) -> float:
    """Epsilon at ``delta`` of the Gaussian curve that has ``epsilon`` at ``place``."""
    separation = find_root(
        lambda mu: float(epsilon_of_gaussian(mu, place)) - epsilon, 0.0, LARGEST_FINE_EPSILON
    )
    return float(epsilon_of_gaussian(separation, delta))


def canary_model(done: Sequence[Steps], delta: float) -> CurveModel:
    """The model for scores of gradient canaries: Gaussian curves, and the best possible attack.

    Many small losses compose to a Gaussian curve.  If a canary is expected in at most
    `FEW_PARTICIPATIONS` steps, the curve is a mixture with the canaries that took part in none, at the
    rate 1 - (1 - q)^T.  Both are below the exact composition, the more so the lower the noise and the
    fewer the steps; if the shortfall exceeds a twentieth, the model is marked ``reads_low`` and
    nothing passes.  The mixture is higher than the curve alone, and from `FEW_PARTICIPATIONS` on the two
    agree to one percent.
    """
    expected = sum(rate * steps for _, rate, steps in done)
    always = any(rate == 1 for _, rate, _ in done)
    never = 0.0 if always else math.exp(sum(n * math.log1p(-rate) for _, rate, n in done))
    mixed = 0 < expected <= FEW_PARTICIPATIONS and never > 0
    return CurveModel(
        delta=delta,
        families=(Gaussian(),),
        mixing=KnownMixing(rate=1 - never) if mixed else NoMixing(),
        strength=FixedStrength(value=1.0),
        reads_low=reads_low(tuple(done), delta),
    )
