"""The joint posterior of epsilon and the strength of the attacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Plot, Points, Regions

DRAWS = 250_000
"""Some hundreds in a bin where the density is high: contours without noise."""

BINS = 200
"""Along each axis; finer than the kernel that smooths."""

LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Probabilities of the highest-density regions."""


def joint_density(
    posterior: Posterior, *, draws: int = DRAWS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Density of (epsilon, strength) on a grid: edges in epsilon, edges in strength, values.

    A histogram of draws, smoothed just enough to draw contours.
    """
    from scipy.ndimage import gaussian_filter

    if isinstance(posterior, SamplePosterior):
        pair = [np.ravel(posterior.samples[name]) for name in ("epsilon", "strength")]
    else:
        drawn = posterior.draws(draws, rng=np.random.default_rng(style.FIGURE_SEED))
        pair = [drawn["epsilon"], drawn["strength"]]
    edges = []
    # epsilon may have a long tail, which would leave little room for the rest.
    for values, most, shown in zip(pair, (np.inf, 1.0), (0.996, 0.9999), strict=True):
        low, high = np.quantile(values, [0.0005, shown])
        room = max(0.06 * (high - low), 1e-9 * abs(high), 1e-12)
        edges.append(np.linspace(max(low - room, 0.0), min(high + room, most), BINS + 1))
    counts = np.histogram2d(pair[0], pair[1], bins=edges)[0]
    # Fewer draws need a wider kernel: Scott's rule, in bins.
    width = [
        float(np.clip(_spread(values) / (edge[1] - edge[0]) * len(values) ** (-1 / 6), 1.2, 12))
        for values, edge in zip(pair, edges, strict=True)
    ]
    smooth = gaussian_filter(counts, width, mode="reflect")
    area = np.diff(edges[0])[0] * np.diff(edges[1])[0]
    return edges[0], edges[1], smooth / (smooth.sum() * area)


def _spread(values: FloatArray) -> float:
    """A standard deviation that heavy tails do not move."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 1.35


def joint_chart(posterior: Posterior) -> Chart:
    """Highest-density regions of epsilon and the strength together; both must be estimated."""
    *edges, density = joint_density(posterior)
    x, y = (0.5 * (each[1:] + each[:-1]) for each in edges)
    hover = "epsilon %{x:.3f}, strength %{y:.3f}<br>reached by the smallest region holding %{z:.0%}"
    regions = Regions(x, y, density, _held(density), LEVELS, hover)
    look: dict[str, Any] = {
        "size": 8.0,
        "rim": 0.8,
        "symbol": "cross",
        "hover": "medians: epsilon %{x:.3f}, strength %{y:.3f}",
    }
    where = [posterior.median("epsilon")], [posterior.median("strength")]
    medians = Points(*where, "orange", "medians", **look)
    across, up = Axis("epsilon", (x[0], x[-1])), Axis("attack strength", (y[0], y[-1]))
    return Chart(
        name="joint",
        title="Joint posterior of epsilon and the attack strength",
        caption="How the answer trades off: strong attacks that err this often leave epsilon small, "
        "weak attacks would leave room for a large one. Strength 1 would mean that every attack was "
        "the best possible on the worst base; it is estimated, never assumed.",
        plots=[Plot(across, up, [regions, medians])],
        size=(6.4, 4.8),
        legend_title="smallest region holding",
    )


def _held(density: FloatArray) -> FloatArray:
    """For each cell, the probability of the smallest region that reaches it."""
    flat = density.ravel()
    order = np.argsort(flat)[::-1]
    content = np.empty(len(flat))
    content[order] = np.cumsum(flat[order]) / flat.sum()
    return content.reshape(density.shape)
