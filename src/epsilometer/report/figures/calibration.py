"""How often estimators err, how near to the truth they come, and how often intervals cover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from epsilometer.baselines.estimator import Kind
from epsilometer.calibration.table import DELIBERATE, KINDS, BoundRow, CurveRow, ModelRow, Section
from epsilometer.report.figures import style
from epsilometer.report.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST_RATE = 0.2
"""Failure rates beyond this are drawn at the edge."""

MARKERS = {"null": "o", "Laplace": "s", "Gaussian": "^", "randomised response": "D"}
LEVELS = (50, 80, 90, 95)
"""Intervals that a study counts, in per cent."""


def draw_calibration(
    bounds: Sequence[BoundRow], models: Sequence[ModelRow], *, significance: float
) -> Figure:
    """Failure rates and tightness of every bound, and the coverage of the posterior."""
    shown = [row for row in bounds if row.kind in (Kind.EXACT_BOUND, Kind.APPROXIMATE_BOUND)]
    names = sorted({row.estimator for row in shown}, key=list(KINDS).index)
    figure = style.new_figure(9.6, 1.9 + 0.27 * len(names) + (2.6 if models else 0))
    grid = figure.add_gridspec(
        2 if models else 1, 2, height_ratios=[0.27 * len(names) + 1, 2.6] if models else [1]
    )
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharey=left)
    _failures(left, shown, names, significance)
    _tightness(right, shown, names)
    if models:
        _coverage(figure.add_subplot(grid[1, :]), models)
    return figure


def _failures(axes: Axes, rows: Sequence[BoundRow], names: list[str], significance: float) -> None:
    for row in rows:
        place = 100 * min(row.failure_rate, LARGEST_RATE), names.index(row.estimator)
        marker = ">" if row.failure_rate > LARGEST_RATE else "o"
        colour = ORANGE if row.verdict(significance) == "too often" else BLUE
        axes.plot(*place, marker, color=colour, markersize=5, alpha=0.55, markeredgewidth=0)
    axes.axvline(100 * significance, color=GREY, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        if name in DELIBERATE:
            label.set_color(ORANGE)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.5, 100 * LARGEST_RATE + 0.8)
    axes.set(
        xlabel="bound above the truth, % of runs",
        title=f"How often bounds err (promised: {100 * significance:g} %)",
    )
    axes.grid(axis="y", alpha=0.25)
    style.tidy(axes)


def _tightness(axes: Axes, rows: Sequence[BoundRow], names: list[str]) -> None:
    for row in rows:
        if row.truth > 0 and row.power == 1:
            place = row.tightness, names.index(row.estimator)
            marker = MARKERS.get(row.mechanism, "v")
            axes.plot(*place, marker, color=GREEN, markersize=4.5, alpha=0.6, markeredgewidth=0)
    axes.axvline(1.0, color=GREY, linewidth=1, linestyle="--")
    axes.tick_params(labelleft=False)
    axes.set(
        xlabel="mean bound / true epsilon\n"
        "\u25a0 Laplace  \u25b2 Gaussian\n\u25c6 randomised response  \u25bc subsampled Gaussian",
        title="How near to the truth, best attack",
    )
    axes.grid(axis="y", alpha=0.25)
    style.tidy(axes)


def _coverage(axes: Axes, models: Sequence[ModelRow]) -> None:
    """Measured minus stated coverage, with where chance leaves 99 % of such measurements."""
    epsilon_rows = [row for row in models if row.parameter == "epsilon"]
    labels = []
    for place, row in enumerate(epsilon_rows):
        for offset, level in zip((-0.27, -0.09, 0.09, 0.27), LEVELS, strict=True):
            covered = getattr(row, f"covered_{level}") / row.runs
            low, high = (binom.ppf(p, row.runs, level / 100) / row.runs for p in (0.005, 0.995))
            axes.plot(
                [place + offset] * 2, [100 * low, 100 * high], color=GREY, linewidth=5, alpha=0.3
            )
            axes.plot(place + offset, 100 * covered, "o", color=BLUE, markersize=5)
        labels.append(f"{row.likelihood}\nn = {row.bases}, {row.runs:,} runs")
    for level in LEVELS:
        axes.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_xticks(np.arange(len(epsilon_rows)), labels, fontsize=8.5)
    axes.set_yticks(LEVELS)
    axes.set(
        ylabel="cover epsilon, %",
        xlabel="grey: where chance leaves 99 % of such measurements",
        title="The posterior under its own model: intervals of 50, 80, 90 and 95 %",
    )
    style.tidy(axes)


# --- the curve model ------------------------------------------------------------------------

SIZE_COLOURS = (PURPLE, GREEN, BLUE, ORANGE)
"""Few scores first; further sizes start again from the first."""


def draw_curve_calibration(rows: Sequence[CurveRow], *, significance: float) -> Figure:
    """Of intervals of the curve model: how many miss, which way, and where they lie on average.

    A line for each mechanism and way of attacking it, within it a mark for each size of the audit.
    """
    names = list(dict.fromkeys(map(_setting_name, rows)))
    sizes = sorted({(row.models, row.bases) for row in rows})
    figure = style.new_figure(10.5, 2.0 + 0.44 * len(names))
    grid = figure.add_gridspec(1, 3, width_ratios=[1, 1, 1.6])
    left = figure.add_subplot(grid[0, 0])
    axes = [left, *(figure.add_subplot(grid[0, place], sharey=left) for place in (1, 2))]
    step = 0.72 / len(sizes)
    for row in rows:
        number = sizes.index((row.models, row.bases))
        y = names.index(_setting_name(row)) + step * (number - (len(sizes) - 1) / 2)
        colour = SIZE_COLOURS[number % len(SIZE_COLOURS)]
        # Filled where what is promised was not kept, beyond chance.
        fill = colour if row.mark(significance) else "white"
        above, covers = row.above / row.runs, row.covers / row.runs
        look: dict[str, Any] = {"color": colour, "markersize": 5, "markerfacecolor": fill}
        marker = ">" if above > LARGEST_RATE else "o"
        axes[0].plot(100 * min(above, LARGEST_RATE), y, marker, **look)
        axes[1].plot(100 * covers, y, "o", **look)
        axes[2].plot([row.mean_low, row.mean_high], [y, y], color=colour, linewidth=2)
        axes[2].plot(row.mean_median, y, "o", color=colour, markersize=3.5)
        axes[2].plot([row.true_epsilon] * 2, [y - step, y + step], color=GREY, linewidth=1.4)
    for number, (models, bases) in enumerate(sizes):
        colour = SIZE_COLOURS[number % len(SIZE_COLOURS)]
        label = f"{bases} {'base' if bases == 1 else 'bases'} of {models:,} a side"
        axes[2].plot([], [], color=colour, linewidth=2, label=label)
    figure.legend(fontsize=8.5, frameon=False, loc="outside lower center", ncols=len(sizes))
    _label_curve(axes, names, significance)
    controls = {_setting_name(row) for row in rows if row.section is Section.CONTROL}
    for text, name in zip(left.get_yticklabels(), names, strict=True):
        text.set_color(ORANGE if name in controls else "black")
    return figure


def _label_curve(axes: Sequence[Axes], names: list[str], significance: float) -> None:
    level = 100 * (1 - 2 * significance)
    axes[0].axvline(100 * significance, color=GREY, linewidth=1, linestyle="--")
    axes[1].axvline(level, color=GREY, linewidth=1, linestyle="--")
    axes[0].set_yticks(range(len(names)), names, fontsize=8.5)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    axes[0].set(xlabel="wholly above the truth, % of runs", title="How often too high")
    axes[0].set_xlim(-0.8, 100 * LARGEST_RATE + 0.8)
    axes[1].set(
        xlabel="hold the truth, % of runs\nfilled: broken promises",
        title=f"{level:g} % intervals that cover",
        xlim=(-3, 103),
    )
    axes[2].set(
        xlabel="epsilon: mean ends and median\ngrey: the truth",
        title="Where intervals lie",
        xlim=(0, None),
    )
    for panel in axes[1:]:
        panel.tick_params(labelleft=False)
    for panel in axes:
        panel.grid(axis="y", alpha=0.2)
        style.tidy(panel)


def _setting_name(row: CurveRow) -> str:
    """Mechanism, power and what is told, in few words."""
    name = f"{row.mechanism} {row.short_setting}".strip()
    ending = {
        Section.BEST: "",
        Section.WEAKER: f", power {row.power:g}",
        Section.TOLD: ", rate told",
        Section.STRENGTHS: f", {row.strengths}",
        Section.CONTROL: f", read as {row.family}",
    }
    return name + ending[row.section]
