"""Colours, names and numbers that all figures share.

The colours are from Okabe and Ito's set, which colour-blind readers can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._arrays import IntArray
from epsilometer._text import percent, probability_text
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures.marks import Axis, Line, Mark, Plot, Points

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#555555"
#: Shades on a light and on a dark background.
PAGE_COLOURS = {
    "blue": (BLUE, "#56B4E9"),
    "orange": (ORANGE, "#E69F00"),
    "green": (GREEN, "#2BC79A"),
    "purple": ("#A8487F", PURPLE),
    "grey": (GREY, "#A0A7AE"),
    "sky": ("#3B9BD6", "#8ECDF2"),
    "amber": ("#B87E00", "#F5C04A"),
}

PRINT_COLOURS = {name: light for name, (light, _) in PAGE_COLOURS.items()}

#: Colours for several items of one kind, such as chains.
SEVERAL = ("blue", "orange", "green", "purple", "sky", "amber")

#: Smallest probability of no leak that captions mention.
WORTH_A_SENTENCE = 1e-3

#: Maximum number of characters in a label.
LONGEST_NAME = 40

#: Largest density shown, in units of one over the width of the 90 % interval; a normal one has 1.3.
TALLEST = 8.0


def end_of_densities(peak: float, width: float) -> float:
    """Upper end of a density axis; a narrow spike is cut off so that the rest stays visible."""
    return min(1.06 * peak, TALLEST / width) if width > 0 else 1.06 * peak


def no_leak_text(posterior: Any) -> str:
    """The probability of no leak at all, where epsilon is 0; empty if not worth a sentence."""
    nothing = posterior.solution.no_leak if isinstance(posterior, CurvePosterior) else 0.0
    return probability_text(nothing) if nothing >= WORTH_A_SENTENCE else ""


def rows_axis(names: Sequence[str]) -> Axis:
    """An axis of named rows, the first on top."""
    return Axis("", (len(names) - 0.4, -0.6), names=list(names))


def interval_plot(
    title: str, names: Sequence[str], marks: Sequence[Mark], ends: tuple[float, float]
) -> Plot:
    """A plot of named rows, the first on top."""
    rows = rows_axis(names)
    height = 140 + 20 * max(len(names), 4)
    return Plot(Axis(title, ends), rows, marks, legend=False, page_height=height)


# --- names and attacks ------------------------------------------------------------------------


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """A name of at most ``longest`` characters, with control characters escaped.

    The page shows all text literally.
    """
    text = _files.printable(name)
    return text if len(text) <= longest else text[: longest - 1] + "\u2026"


def printed_name(name: str) -> str:
    """A name for matplotlib, which would read ``$`` as the start of a formula."""
    return shortened(name).replace("$", r"\$")


def picked(size: int, most: int) -> IntArray:
    """Evenly spaced indices, at most ``most`` of them."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))


def dot_size(count: int) -> float:
    """Marker size for a number of points: smaller for many."""
    return float(np.clip(14 / count**0.25, 1.8, 7.5))


def error_rates(counts: AttackCounts, label: str, below: Sequence[Mark] = ()) -> Plot:
    """The error rates of the attack on each base, the line of guessing, and what is ``below`` them.

    Many points are drawn faint and without an outline.
    """
    rows, hover = hover_of_bases(counts)
    guessing = Line([0, 1], [1, 0], "grey", "guessing", width=1, dash="dot")
    attacks = Points(
        counts.false_positive_rates,
        counts.false_negative_rates,
        "orange",
        label,
        size=dot_size(len(counts)),
        opacity=float(np.clip(30 / len(counts) ** 0.5, 0.3, 1.0)),
        rim=0.6 if len(counts) <= 200 else 0.0,
        rows=rows,
        hover=hover,
    )
    marks = [*below, guessing, attacks]
    return unit_square("false-positive rate", "false-negative rate", marks)


def unit_square(x: str, y: str, marks: Sequence[Mark]) -> Plot:
    """A plot of two rates on the unit square, with a small margin."""
    ends = (-0.015, 1.015)
    return Plot(Axis(x, ends), Axis(y, ends), marks, square=True)


def hover_of_bases(counts: AttackCounts) -> tuple[list[list[str]], str]:
    """Rows with name, counts and rates of each base, and the hover template for them."""
    columns = (counts.false_positives, counts.trials_h0, counts.false_negatives, counts.trials_h1)
    bases = zip(counts.names, *(column.tolist() for column in columns), strict=True)
    rows = [
        [shortened(name), f"{x:,} of {n0:,} ({x / n0:.4g})", f"{y:,} of {n1:,} ({y / n1:.4g})"]
        for name, x, n0, y, n1 in bases
    ]
    return rows, ("{0}\nfalse positives {1}\nfalse negatives {2}")


def interval_row(
    row: int, posterior: Any, parameter: str, level: float, colour: str, label: str
) -> Points:
    """The median of a parameter with its interval, as one row of a plot."""
    median, (low, high) = posterior.median(parameter), posterior.credible_interval(parameter, level)
    said = f"median {median:.4g}, {percent(level)} interval {low:.4g} to {high:.4g}"
    look: Any = {"rows": [[shortened(label), said]], "hover": "{0}\n{1}"}
    return Points([median], [row], colour, x_ends=([low], [high]), bar=3, **look)
