"""Refinement steps: everything that determines how finely a posterior is integrated."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The settings of one refinement step.

    There are few rounds of refinement for plane quadrature: its masses have a ripple of about 1e-3,
    which averages out in the posterior but would be refined indefinitely.
    """

    edge_nodes: int  # Gauss nodes of the flux across an edge
    edge_reach: float  # their extent, in standard deviations
    flux_nodes: int  # of a panel of log fluxes
    flux_tolerance: float  # unresolved part of the log flux on such a panel
    depth: float  # nats below the largest flux of a path down to which that is so
    mass_points: int  # of a part of the masses
    plane_points: int  # grid points per side of plane quadrature
    plane_reach: float  # their extent, in standard deviations of a count
    plane_nodes: int  # of a panel of t
    nuisance: tuple[int, int]  # nodes of each nuisance parameter
    more_delta_nodes: int  # pairs of nodes in d beyond the minimum
    nodes: int  # of a panel of epsilon or of the strength
    tolerance: float  # the share of the posterior that panels may leave unresolved
    negligible: float  # the share of its peak below which the ends of a density are dropped
    rounds: int  # of refinement

    @classmethod
    def number(cls, index: int, *, planar: bool) -> Resolution:
        """Step 0 is the cheapest; each following one is finer in every respect.

        The first two steps with masses from fluxes share one table, which the first uses coarsely.
        """
        deeper = max(index - 1, 0)
        return cls(
            edge_nodes=16 + 6 * deeper,
            edge_reach=5.8 + 0.6 * deeper,
            flux_nodes=9 + 2 * deeper,
            flux_tolerance=3e-5 * 0.03**deeper,
            depth=30.0,
            mass_points=7 + deeper,
            plane_points=36 + 12 * index,
            plane_reach=6.3 + 0.5 * index,
            plane_nodes=7 + index,
            nuisance=(5 + index, 4 + index),
            more_delta_nodes=deeper,
            nodes=5 + index if planar else (6, 7, 10, 12, 14, 16)[index],
            tolerance=1.5e-2 * 0.3**index if planar else 1e-3 * 0.1**index,
            negligible=(1e-5 if planar else 1e-6) * 0.1**index,
            # The second step uses the panels of the first with more nodes.
            rounds=(4, 1, 2, 2, 2, 2)[index] if planar else (30, 1, 30, 30, 30, 30)[index],
        )

    def for_bases(self, number: int) -> Resolution:
        """The same step for this number of bases: errors of their log likelihoods add up like noise."""
        return replace(self, flux_tolerance=min(1.0, (10 / number) ** 0.5) * self.flux_tolerance)

    def group_points(self, share: float) -> int:
        """Points per side of a group, as a share of those of plane quadrature, about.

        The cost grows with the cube of the points per side, the accuracy with their square.
        """
        least = Resolution.number(0, planar=True).plane_points
        return int(share * ((self.plane_points + least) // 2))
