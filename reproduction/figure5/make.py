"""More noise on the released weights, weaker attacks, smaller epsilon."""

from __future__ import annotations

from ..workshop import Workshop, curves_and_posteriors


def make(workshop: Workshop) -> None:
    """A4 with noise of standard deviation 0.01, 0.05 and 0.1."""
    curves_and_posteriors(workshop, "figure5", workshop.config(__file__)["algorithms"])
