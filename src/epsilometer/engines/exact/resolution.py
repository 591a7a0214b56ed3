"""Refinement steps: everything that determines how finely a posterior is integrated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from epsilometer.engines.exact.flux import EdgeAccuracy
from epsilometer.engines.exact.mass_tables import TableAccuracy
from epsilometer.engines.exact.planar import PlanarAccuracy


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The settings of one refinement step.

    There are few rounds of refinement for plane quadrature: its masses have a ripple of about 1e-3,
    which averages out in the posterior but would be refined indefinitely.
    """

    table: TableAccuracy  # tabulation of masses from fluxes
    planar: PlanarAccuracy  # the same by quadrature in the plane of both rates
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
            table=TableAccuracy(
                edge=EdgeAccuracy(nodes=16 + 6 * deeper, reach=5.8 + 0.6 * deeper),
                nodes=9 + 2 * deeper,
                points=7 + deeper,
                tolerance=3e-5 * 0.03**deeper,
                depth=30.0,
            ),
            planar=PlanarAccuracy(points=36 + 12 * index, reach=6.3 + 0.5 * index, nodes=7 + index),
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
        share = min(1.0, (10 / number) ** 0.5)
        return replace(self, table=replace(self.table, tolerance=share * self.table.tolerance))
