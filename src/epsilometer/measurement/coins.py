"""Fair coins, which decide whether a canary is in the training data."""

from __future__ import annotations

import numpy as np

from epsilometer._arrays import BoolArray
from epsilometer.errors import InputError


def flip(count: int, rng: np.random.Generator) -> BoolArray:
    """Fair coin flips; raises unless both outcomes occur."""
    check_stream(rng)
    coins = rng.random(count) < 0.5
    check_coins(coins)
    coins.flags.writeable = False
    return coins


def check_stream(rng: object) -> None:
    """Raise :class:`InputError` unless ``rng`` is a NumPy generator."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"expected rng=numpy.random.default_rng(seed), got rng={rng!r}.")


def check_coins(coins: BoolArray) -> None:
    """Raise :class:`InputError` unless at least one canary is included and one excluded."""
    inside = int(coins.sum())
    if not 0 < inside < len(coins):
        side = "none" if inside == 0 else "all"
        raise InputError(
            f"expected both included and excluded canaries, got {side} of {len(coins)} included; "
            "draw more canaries, or draw again before training."
        )
