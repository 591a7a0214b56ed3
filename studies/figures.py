"""How often estimators err, how near to the truth they come, and how often intervals cover."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binom

from studies.count import BOUNDS, COVERAGE, DELIBERATE, LEVELS, by_estimator
from studies.curve import Section, broken, section_of
from studies.tables import Row, Tables

#: Colours that can be told apart by readers with any kind of colour vision.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#555555"

#: Failure rates beyond this are drawn at the edge.
LARGEST_RATE = 0.2

MARKERS = {"null": "o", "Laplace": "s", "Gaussian": "^", "randomised response": "D"}


def write(study: str, folder: Path, tables: Tables, significance: float) -> None:
    """The figure of a study that has one."""
    draw = {"count": draw_bounds, "curve": draw_curves}.get(study)
    if draw is not None:
        figure = draw(tables, significance)
        # The bytes depend on the figure alone.
        figure.savefig(folder / "calibration.png", dpi=160, metadata={"Software": None})


def draw_bounds(tables: Tables, significance: float) -> Figure:
    """Failure rates and tightness of every bound, and the coverage of the posterior."""
    found = by_estimator(tables[BOUNDS])
    names, shown = list(found), [row for rows in found.values() for row in rows]
    figure = Figure(figsize=(9.6, 4.5 + 0.27 * len(names)), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[0.27 * len(names) + 1, 2.6])
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharey=left)
    _failures(left, shown, names, significance)
    _tightness(right, shown, names)
    _coverage(figure.add_subplot(grid[1, :]), tables[COVERAGE])
    return figure


def _failures(axes: Axes, rows: Sequence[Row], names: list[str], significance: float) -> None:
    for row in rows:
        rate = row.share("above")
        place = 100 * min(rate, LARGEST_RATE), names.index(row.estimator)
        marker = ">" if rate > LARGEST_RATE else "o"
        colour = BLUE if row.fits("above", significance) else ORANGE
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
    axes.spines[["top", "right"]].set_visible(False)


def _tightness(axes: Axes, rows: Sequence[Row], names: list[str]) -> None:
    for row in rows:
        if row.truth > 0 and row.power == 1:
            place = row.mean_low / row.truth, names.index(row.estimator)
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
    axes.spines[["top", "right"]].set_visible(False)


def _coverage(axes: Axes, models: Sequence[Row]) -> None:
    """Measured minus stated coverage, with where chance leaves 99 % of such measurements."""
    epsilon_rows = [row for row in models if row.parameter == "epsilon"]
    labels = []
    for place, row in enumerate(epsilon_rows):
        for offset, level in zip((-0.27, -0.09, 0.09, 0.27), LEVELS, strict=True):
            covered = row.share(f"covered_{level}")
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
    axes.spines[["top", "right"]].set_visible(False)


# --- the curve model ------------------------------------------------------------------------

#: Few scores first; further sizes start again from the first.
SIZE_COLOURS = (PURPLE, GREEN, BLUE, ORANGE)


def draw_curves(tables: Tables, significance: float) -> Figure:
    """Of intervals of the curve model: how many miss, which way, and where they lie on average.

    A line for each mechanism and way of attacking it, within it a mark for each size of the audit.
    """
    rows = tables[COVERAGE]
    names = list(dict.fromkeys(map(_setting_name, rows)))
    sizes = sorted({(row.models, row.bases) for row in rows})
    figure = Figure(figsize=(10.5, 2.0 + 0.44 * len(names)), layout="constrained")
    grid = figure.add_gridspec(1, 3, width_ratios=[1, 1, 1.6])
    left = figure.add_subplot(grid[0, 0])
    axes = [left, *(figure.add_subplot(grid[0, place], sharey=left) for place in (1, 2))]
    step = 0.72 / len(sizes)
    for row in rows:
        number = sizes.index((row.models, row.bases))
        y = names.index(_setting_name(row)) + step * (number - (len(sizes) - 1) / 2)
        colour = SIZE_COLOURS[number % len(SIZE_COLOURS)]
        # Filled where what is promised was not kept, beyond chance.
        fill = colour if broken(row, significance) else "white"
        above, covers = row.share("above"), row.share("covers")
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
    controls = {_setting_name(row) for row in rows if section_of(row) is Section.CONTROL}
    for text, name in zip(left.get_yticklabels(), names, strict=True):
        text.set_color(ORANGE if name in controls else "black")
    return figure


def _label_curve(axes: Sequence[Axes], names: list[str], significance: float) -> None:
    level = 100 * (1 - 2 * significance)
    axes[0].axvline(100 * significance, color=GREY, linewidth=1, linestyle="--")
    axes[1].axvline(level, color=GREY, linewidth=1, linestyle="--")
    axes[0].set_yticks(range(len(names)), names, fontsize=8.5)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    axes[0].set(xlabel="entirely above, % of runs", title="Too high")
    axes[0].set_xlim(-0.8, 100 * LARGEST_RATE + 0.8)
    axes[1].set(
        xlabel="cover, % of runs\nfilled: not as stated",
        title=f"{level:g} % intervals",
        xlim=(-3, 103),
    )
    axes[2].set(
        xlabel="mean ends and median of epsilon\ngrey: the truth",
        title="Where intervals lie",
        xlim=(0, None),
    )
    for panel in axes[1:]:
        panel.tick_params(labelleft=False)
    for panel in axes:
        panel.grid(axis="y", alpha=0.2)
        panel.spines[["top", "right"]].set_visible(False)


def _setting_name(row: Row) -> str:
    """Mechanism, power and what is told, in few words."""
    # The name of a noise is that of its mechanism too.
    values = re.findall(r"=(.*?)(?= \w+=|$)", row.setting)
    told = ", ".join(value for value in values if value not in row.mechanism)
    name = f"{row.mechanism} {told}".strip()
    ending = {
        Section.BEST: "",
        Section.WEAKER: f", power {row.power:g}",
        Section.TOLD: ", rate told",
        Section.STRENGTHS: f", {row.strengths}",
        Section.BEFORE: ", three families",
        Section.CONTROL: f", read as {row.family}",
    }
    return name + ending[section_of(row)]
