"""What an audit of a given size would find: widths and probabilities over the number of challenges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.planning.plan import AuditPlan, PlannedDesign
from epsilometer.planning.surroundings import Curve, Floor
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import CHAIN_COLOURS, CHAIN_NAMES, GREY, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanChart(Chart):
    """For several numbers of bases, the width and how often the goals are reached.

    A pilot that is extended has one number of challenges: then the bases are on the axis.
    """

    curves: tuple[Curve, ...]
    floors: tuple[Floor, ...]
    designs: tuple[PlannedDesign, ...]
    recommended: PlannedDesign | None
    width: float | None
    probability: float
    level: float

    name = "plan"
    title = "What an audit of this size would find"

    @classmethod
    def of(cls, plan: AuditPlan) -> PlanChart:
        """The chart of a plan that has simulated something."""
        return cls(
            curves=plan.curves,
            floors=plan.floors,
            designs=plan.designs,
            recommended=plan.recommended,
            width=None if plan.width_goal is None else plan.width_goal.at_most,
            probability=plan.wanted_probability,
            level=plan.level,
        )

    @property
    def caption(self) -> str:
        lines = "lines: a surface fitted to all simulations; " if self.curves else ""
        floors = "dotted: the floor of as many bases, whose error rates are all known; "
        wanted = "" if self.width is None else "dashed: what is wanted; "
        star = "" if self.recommended is None else "; the star is the recommended design"
        return (
            f"Points: simulated designs, with the 10 to 90 % range of widths and one standard error of "
            f"probabilities; {lines}{floors if self.curves else ''}{wanted}"
            f"the more bases, the lower the floor{star}."
        )

    @property
    def along_bases(self) -> bool:
        """Whether only the number of bases varies."""
        return not self.curves

    def _place(self, design: PlannedDesign) -> int:
        return design.bases if self.along_bases else design.challenges

    def _number_of(self, bases: int) -> int | None:
        """Which colour so many bases have."""
        known = [curve.bases for curve in self.curves]
        if self.along_bases:
            return 0
        return known.index(bases) if bases in known else None

    def draw(self) -> Figure:
        figure = style.new_figure(9.6, 4.6)
        left, right = figure.subplots(1, 2)
        self._lines(left, right)
        for design in self.designs:
            number = self._number_of(design.bases)
            colour = GREY if number is None else CHAIN_COLOURS[number % len(CHAIN_COLOURS)]
            chosen = design == self.recommended
            shape = {"fmt": "*" if chosen else "o", "markersize": 15 if chosen else 5}
            middle, place = design.median_width, self._place(design)
            spread = [[middle - design.low_width], [design.high_width - middle]]
            left.errorbar(place, middle, spread, color=colour, elinewidth=1.2, zorder=5, **shape)
            right.errorbar(
                place,
                design.probability,
                design.standard_error,
                color=colour,
                elinewidth=1.2,
                zorder=5,
                **shape,
            )
        if self.width is not None:
            left.axhline(self.width, color=GREY, linestyle="--", linewidth=1)
            # At the end where curves of large audits have left it.
            left.annotate(
                f"wanted: {self.width:g}",
                (0.995, self.width),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize=8.5,
                color=GREY,
                ha="right",
            )
        right.axhline(self.probability, color=GREY, linestyle="--", linewidth=1)
        what = "challenge bases" if self.along_bases else "challenges a base"
        left.set(
            xlabel=what,
            ylabel=f"width of the {100 * self.level:g} % interval of epsilon",
            title="Width",
            yscale="log",
        )
        right.set(
            xlabel=what, ylabel="probability", title="The goal is reached", ylim=(-0.03, 1.06)
        )
        for axes in (left, right):
            axes.set_xscale("log")
            self._plain_ticks(axes)
            axes.grid(alpha=0.2)
            style.tidy(axes)
        if self.curves:
            handles, labels = right.get_legend_handles_labels()
            figure.legend(
                handles,
                labels,
                loc="outside lower center",
                ncols=len(labels),
                frameon=False,
                fontsize=9,
                title="challenge bases (dotted: floor, if every error rate were known)",
                title_fontsize=9,
            )
        return figure

    def _lines(self, left: Axes, right: Axes) -> None:
        floors = {floor.bases: floor.median_width for floor in self.floors}
        for number, curve in enumerate(self.curves):
            colour = CHAIN_COLOURS[number % len(CHAIN_COLOURS)]
            left.plot(curve.challenges, curve.width, color=colour, linewidth=1.6)
            right.plot(
                curve.challenges,
                curve.probability,
                color=colour,
                linewidth=1.6,
                label=f"{curve.bases:,}",
            )
            left.axhline(floors[curve.bases], color=colour, linestyle=":", linewidth=1.2)
        if self.along_bases and self.floors:
            ordered = sorted(floors)
            left.plot(ordered, [floors[n] for n in ordered], ":", color=GREY, linewidth=1.2)
            left.annotate(
                "floor",
                (ordered[-1], floors[ordered[-1]]),
                xytext=(0, -12),
                textcoords="offset points",
                fontsize=8.5,
                color=GREY,
                ha="right",
            )

    def _plain_ticks(self, axes: Axes) -> None:
        """1, 2, 5 times powers of ten, written out: few sizes are worth a 10 to the power."""
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        for axis in (axes.xaxis, axes.yaxis):
            if axis is axes.yaxis and axes.get_yscale() != "log":
                continue
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axis.set_minor_formatter(NullFormatter())

    def panels(self) -> list[Panel]:
        widths: list[dict[str, Any]] = []
        shares: list[dict[str, Any]] = []
        for number, curve in enumerate(self.curves):
            colour, label = CHAIN_NAMES[number % len(CHAIN_NAMES)], f"{curve.bases:,} bases"
            for data, values in ((widths, curve.width), (shares, curve.probability)):
                data.append(
                    style.line(
                        style.numbers(curve.challenges),
                        style.numbers(values),
                        colour,
                        name=label,
                        hover=f"{label}, fitted<br>%{{x:,}} challenges: %{{y:.3g}}",
                    )
                )
        for design in self.designs:
            number_of = self._number_of(design.bases)
            colour = "@grey" if number_of is None else CHAIN_NAMES[number_of % len(CHAIN_NAMES)]
            label = f"{design.bases:,} bases, {design.challenges:,} challenges"
            symbol = "star" if design == self.recommended else "circle"
            for data, value, up, down in (
                (
                    widths,
                    design.median_width,
                    design.high_width - design.median_width,
                    design.median_width - design.low_width,
                ),
                (shares, design.probability, design.standard_error, design.standard_error),
            ):
                data.append(
                    {
                        "type": "scatter",
                        "mode": "markers",
                        "x": [self._place(design)],
                        "y": [value],
                        "error_y": {
                            "type": "data",
                            "symmetric": False,
                            "array": [up],
                            "arrayminus": [down],
                            "color": colour,
                        },
                        "marker": {
                            "color": colour,
                            "symbol": symbol,
                            "size": 14 if symbol == "star" else 8,
                        },
                        "hovertemplate": f"{label}<br>%{{y:.3g}}<extra></extra>",
                    }
                )
        what = "challenge bases" if self.along_bases else "challenges a base"
        log = {"type": "log"}
        return [
            style.panel(widths, style.layout(what, "width", xaxis=log, yaxis=log)),
            style.panel(shares, style.layout(what, "probability", xaxis=log)),
        ]
