"""Losses that repeat although training should be random: the sign of a seed in the training code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.measurement.failures import SIDES

FEWEST = 3
"""Equal losses that are no coincidence: two may be of a coarse loss."""

FEWEST_REPEATED = 8
"""Models of a group in which a repeated sequence is looked for."""

REMEDY = (
    "does your training seed itself (random_state=0, manual_seed(0))? Then every model is the same, the "
    "attack sees the challenge point only, and the estimate is void: draw all chance from rng"
)


class _Group(NamedTuple):
    """Models of one base and hypothesis."""

    base: str
    hypothesis: int
    losses: FloatArray

    @property
    def constant(self) -> bool:
        return bool((self.losses == self.losses[0]).all())

    @property
    def tied(self) -> bool:
        """Whether some losses are equal, but not all."""
        return not self.constant and len(np.unique(self.losses)) < len(self.losses)

    @property
    def repeated(self) -> bool:
        """Whether a sequence of three or more different losses comes again and again."""
        size = len(self.losses)
        distinct = len(np.unique(self.losses))
        # The sequence has each of its losses once, so its length is known.
        if size < max(FEWEST_REPEATED, 2 * distinct) or distinct < FEWEST:
            return False
        return bool((self.losses[distinct:] == self.losses[:-distinct]).all())

    def __str__(self) -> str:
        point = f"{SIDES[self.hypothesis]} the challenge point"
        return f"{len(self.losses):,} models of base {self.base} {point}"


def repeats(losses: Losses | PoolLosses) -> list[str]:
    """What is wrong with losses that repeat, in a sentence; none if nothing is.

    Losses that take few values, such as 0 and 1, have ties and bases where all are equal: these are not
    meant.

    Examples
    --------
    >>> losses = Losses(
    ...     challenge_base=["0"] * 6, hypothesis=[0, 0, 0, 1, 1, 1], replicate=[0, 1, 2] * 2,
    ...     loss=[0.7, 0.7, 0.7, 0.2, 0.2, 0.2],
    ... )
    >>> repeats(losses)[0].partition(":")[0]
    'all 3 models of base 0 without the challenge point have the same loss, and so do those of 1 other'
    """
    if isinstance(losses, PoolLosses) or losses.one_run:
        return []  # models of a pool have different data, canaries are different points
    groups = list(_groups(losses))
    constant = [group for group in groups if group.constant]
    others = len(constant) - 1
    if constant and not any(group.tied for group in groups):
        more = f", and so do those of {others:,} other{'s' * (others > 1)}" if others else ""
        if len({group.losses[0] for group in constant}) == 1 and others:
            value = constant[0].losses[0]
            cause = (
                f"all losses are {value:g}: does loss(model, point) look at the model, or {REMEDY}"
            )
            return [f"all {constant[0]} have the same loss{more}; {cause}."]
        return [f"all {constant[0]} have the same loss{more}: {REMEDY}."]
    if groups and all(group.repeated for group in groups):
        return [f"the {groups[0]} repeat one sequence of losses, as all others do: {REMEDY}."]
    return []


def _groups(losses: Losses) -> Iterator[_Group]:
    for hypothesis in (0, 1):
        for name, row in zip(losses.names, losses.padded(hypothesis), strict=True):
            present = row[~np.isnan(row)]
            if len(present) >= FEWEST:
                yield _Group(name, hypothesis, present)


def first_repeats(losses: Sequence[float], base: str) -> str | None:
    """The same of the first few models without the challenge point, as soon as there are enough."""
    if len(losses) < FEWEST or len(set(losses)) > 1 or losses[0] == int(losses[0]):
        return None  # whole numbers: a loss that counts, such as 0 or 1
    return (
        f"the first {len(losses)} models of base {base} without the challenge point have the same loss, "
        f"{losses[0]:g}: {REMEDY}."
    )
