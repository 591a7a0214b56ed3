"""Families with a shape, another unknown number, over which the posterior averages.

The shape is represented by cells, even in its logarithm; the engine divides those that hold much of the
probability.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.model.family import Family
from epsilometer.model.hard_cap import HardCap, MixedCap
from epsilometer.model.shifted import SmoothCap
from epsilometer.model.two_variances import TwoVariances

#: Edges of the cells of every shape, by the name of its families.
Cells = dict[str, tuple[float, ...]]


class Shape(ABC):
    """Families that differ in one number, with the prior density shape^-power d log shape."""

    name: ClassVar[str]
    #: Ends of the shape, the power of its prior, and the number of cells to begin with.
    first: ClassVar[float]
    last: ClassVar[float]
    power: ClassVar[float]
    cells: ClassVar[int]
    #: The range of a shape in words, for users.
    words: ClassVar[str]
    prior_weight: float
    sampled_weight: ClassVar[float] = 0.5

    @abstractmethod
    def family(self, shape: float) -> Family:
        """The family with this shape."""

    @property
    def edges(self) -> tuple[float, ...]:
        """The edges of the first cells."""
        return tuple(np.geomspace(self.first, self.last, self.cells + 1).tolist())

    def members(self, edges: tuple[float, ...] | None = None) -> list[tuple[Family, float]]:
        """The family in the middle of each cell, and the cell's share of the prior."""
        ends = np.array(edges or self.edges)
        reached: FloatArray = ends**-self.power
        share = (reached[:-1] - reached[1:]) / (reached[0] - reached[-1])
        # Rounded, so that a divided cell and its middle part have the same family.
        middle = [float(f"{value:.6g}") for value in np.sqrt(ends[1:] * ends[:-1]).tolist()]
        return [
            (self.family(value), part) for value, part in zip(middle, share.tolist(), strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class HardCaps(Shape):
    """Gaussian curves with any cap: :class:`HardCap`."""

    name: ClassVar[str] = "hard-caps"
    words = "Gaussian with a largest ratio of {:.2g} to {:.2g} times the shift"
    first, last, power, cells = 1.15, 5.3, 3.5, 9
    prior_weight = 6.8

    def family(self, shape: float) -> Family:
        return HardCap(ratio=shape)


@dataclass(frozen=True, kw_only=True)
class MixedCaps(Shape):
    """Mixtures of capped curves: :class:`MixedCap`."""

    name: ClassVar[str] = "mixed-caps"
    words = "mixed, Gaussian with a largest ratio of {:.2g} to {:.2g} times the shift"
    # Few cells: mixtures tell ratios apart even less.
    first, last, power, cells = 1.3, 4.4, 1.0, 2
    prior_weight = 2.6

    def family(self, shape: float) -> Family:
        return MixedCap(ratio=shape)


@dataclass(frozen=True, kw_only=True)
class SmoothCaps(Shape):
    """Curves between Laplace and Gaussian: :class:`SmoothCap`."""

    name: ClassVar[str] = "smooth-caps"
    words = "between Laplace and Gaussian, largest ratio {:.2g} to {:.2g} times the shift"
    first, last, power, cells = 1.08, 4.4, 3.0, 5
    prior_weight = 2.4

    def family(self, shape: float) -> Family:
        return SmoothCap(ratio=shape)


@dataclass(frozen=True, kw_only=True)
class VarianceRatios(Shape):
    """Normal scores whose variances differ: :class:`TwoVariances`."""

    exchanged: bool = False
    words = "spread growing by {:.2g} to {:.2g} per unit of shift"
    first, last, power, cells = 0.08, 0.63, 0.55, 4

    @property
    def name(self) -> str:  # type: ignore[override]
        return "two-variances-reversed" if self.exchanged else "two-variances"

    @property
    def prior_weight(self) -> float:  # type: ignore[override]
        return 0.55 if self.exchanged else 1.37

    def family(self, shape: float) -> Family:
        return TwoVariances(spread=shape, exchanged=self.exchanged)
