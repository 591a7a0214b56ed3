"""Error curves over target rates 0.01 to 0.99, and joint posteriors from the counts at 0.1."""

from __future__ import annotations

from ..workshop import Workshop, curves_and_posteriors


def make(workshop: Workshop) -> None:
    """A1 to A4, noise of standard deviation 0.1 in the last two."""
    curves_and_posteriors(workshop, "figure4", workshop.config(__file__)["algorithms"])
