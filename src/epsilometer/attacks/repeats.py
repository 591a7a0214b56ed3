"""Repeated losses where training should be random: a sign of a fixed seed in the training code."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses

#: The hypotheses in words: without and with the challenge point.
SIDES = ("without", "with")

#: This many equal losses are not a coincidence; two can occur with a coarse loss.
FEWEST_EQUAL_LOSSES = 3

#: Fewest models in a group to search for a repeated sequence.
FEWEST_REPEATED = 8

#: Relative differences of losses that rounding explains: in double and in single precision.
SAME_LOSS, SAME_LOSS_SINGLE = 1e-9, 1e-6

REMEDY = (
    "does your training fix its own seed (random_state=0, manual_seed(0))? Then all models are "
    "identical, the attack sees only the challenge point, and the estimate is void: draw all "
    "randomness from rng"
)


def equal_losses(losses: Sequence[float] | FloatArray) -> bool:
    """Whether losses are equal up to rounding, as sums in another order differ.

    Examples
    --------
    >>> equal_losses([0.3, 0.1 + 0.2])
    True
    """
    numbers = np.asarray(losses, dtype=float)
    with np.errstate(over="ignore"):
        single = bool((numbers.astype(np.float32) == numbers).all())
    allowed = SAME_LOSS_SINGLE if single else SAME_LOSS
    return bool(np.ptp(numbers) <= allowed * np.abs(numbers).max())


class _Group(NamedTuple):
    """Models of one base and hypothesis."""

    base: str
    hypothesis: int
    losses: FloatArray

    @property
    def constant(self) -> bool:
        return equal_losses(self.losses)

    @property
    def tied(self) -> bool:
        """Whether some losses are equal, but not all."""
        return not self.constant and len(np.unique(self.losses)) < len(self.losses)

    @property
    def repeated(self) -> bool:
        """Whether a sequence of three or more distinct losses repeats."""
        size = len(self.losses)
        distinct = len(np.unique(self.losses))
        # The sequence has each of its losses once, so its length is the number of distinct losses.
        if size < max(FEWEST_REPEATED, 2 * distinct) or distinct < FEWEST_EQUAL_LOSSES:
            return False
        return bool((self.losses[distinct:] == self.losses[:-distinct]).all())

    def __str__(self) -> str:
        point = f"{SIDES[self.hypothesis]} the challenge point"
        return f"{len(self.losses):,} models of base {self.base} {point}"


def repeats(losses: Losses | PoolLosses) -> list[str]:
    """A sentence describing losses that repeat; empty if they do not.

    Losses with few distinct values, such as 0 and 1, naturally have ties and constant bases: these are
    not reported.

    Examples
    --------
    >>> losses = Losses(
    ...     challenge_base=["0"] * 6, hypothesis=[0, 0, 0, 1, 1, 1], replicate=[0, 1, 2] * 2,
    ...     loss=[0.7, 0.7, 0.7, 0.2, 0.2, 0.2],
    ... )
    >>> repeats(losses)[0].partition(":")[0]
    'All 3 models of base 0 without the challenge point have the same loss, and so do those of 1 other'
    """
    if isinstance(losses, PoolLosses) or losses.one_run:
        return []  # models of a pool differ in their data, canaries are different points
    groups = list(_groups(losses))
    constant = [group for group in groups if group.constant]
    others = len(constant) - 1
    if constant and not any(group.tied for group in groups):
        more = f", and so do those of {others:,} other{'s' * (others > 1)}" if others else ""
        if len({group.losses[0] for group in constant}) == 1 and others:
            value = constant[0].losses[0]
            cause = f"all losses are {value:g}: does loss(model, point) use the model, or {REMEDY}"
            return [f"All {constant[0]} have the same loss{more}; {cause}."]
        return [f"All {constant[0]} have the same loss{more}: {REMEDY}."]
    if groups and all(group.repeated for group in groups):
        return [f"The {groups[0]} repeat the same sequence of losses, as do all others: {REMEDY}."]
    return []


def _groups(losses: Losses) -> Iterator[_Group]:
    for hypothesis in (0, 1):
        for name, row in zip(losses.names, losses.padded(hypothesis), strict=True):
            present = row[~np.isnan(row)]
            if len(present) >= FEWEST_EQUAL_LOSSES:
                yield _Group(name, hypothesis, present)


def first_repeats(losses: Sequence[float], base: str) -> str | None:
    """The same for the first few models without the challenge point, as soon as there are enough."""
    if len(losses) < FEWEST_EQUAL_LOSSES or not equal_losses(losses) or losses[0] == int(losses[0]):
        return None  # an integer-valued loss, such as 0 or 1
    return (
        f"the first {len(losses)} models of base {base} without the challenge point have the same loss, "
        f"{losses[0]:g}: {REMEDY}."
    )
