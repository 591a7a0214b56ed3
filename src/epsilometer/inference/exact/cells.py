"""The joint posterior as weighted nodes."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer._arrays import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Nodes of (epsilon, strength) that carry the posterior, for drawing and for reweighting.

    ``row`` numbers the epsilons; within a row strengths increase.  ``log_nuisance`` is the log
    likelihood at the nuisance nodes, up to a constant per cell, empty without nuisance parameters.
    """

    epsilon: FloatArray
    row: IntArray
    strength: FloatArray
    mass: FloatArray
    log_nuisance: FloatArray
