"""What an audit of a given size would find: widths and probabilities over the number of challenges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epsilometer.planning.plan import AuditPlan, PlannedDesign
from epsilometer.planning.search import Curve, Floor
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Mark, Note, Plot, Points, Rule, Sheet


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

    def _colour(self, bases: int) -> str:
        known = [curve.bases for curve in self.curves]
        if self.along_bases:
            return style.SEVERAL[0]
        return style.SEVERAL[known.index(bases) % len(style.SEVERAL)] if bases in known else "grey"

    def sheet(self, *, fine: bool) -> Sheet:
        widths, shares = self._limits()
        for curve in self.curves:
            label, colour = f"{curve.bases:,} bases", self._colour(curve.bases)
            hover = f"{label}, fitted<br>%{{x:,}} challenges: %{{y:.3g}}"
            widths.append(Line(curve.challenges, curve.width, colour, label, hover=hover))
            shares.append(Line(curve.challenges, curve.probability, colour, label, hover=hover))
        for design in self.designs:
            chosen = design == self.recommended
            look: dict[str, Any] = {
                "symbol": "star" if chosen else "circle",
                "size": 15 if chosen else 5,
                "hover": f"{design.bases:,} bases, {design.challenges:,} challenges<br>%{{y:.3g}}",
            }
            x, colour = [self._place(design)], self._colour(design.bases)
            ends = [design.low_width], [design.high_width]
            widths.append(Points(x, [design.median_width], colour, y_ends=ends, **look))
            share, error = design.probability, design.standard_error
            ends = [share - error], [share + error]
            shares.append(Points(x, [share], colour, y_ends=ends, **look))
        what = "challenge bases" if self.along_bases else "challenges a base"
        across = Axis(what, logarithmic=True, plain=True)
        width = f"width of the {100 * self.level:g} % interval of epsilon"
        plots = [
            Plot(across, Axis(width, logarithmic=True, plain=True), widths),
            Plot(across, Axis("probability that the goal is reached", (-0.03, 1.06)), shares),
        ]
        title = "dotted: the floor, if every error rate were known"
        return Sheet(self.title, plots, (9.6, 4.6), columns=2, legend="below", legend_title=title)

    def _limits(self) -> tuple[list[Mark], list[Mark]]:
        """What is wanted, and the floors of widths."""
        floors = {floor.bases: floor.median_width for floor in self.floors}
        widths: list[Mark] = []
        if self.along_bases and floors:
            widths.append(Line(list(floors), list(floors.values()), "grey", width=1.2, dash="dot"))
            most = max(floors)
            widths.append(Note("floor", floors[most], most))
        for curve in self.curves:
            widths.append(Rule(y=floors[curve.bases], colour=self._colour(curve.bases), width=1.2))
        if self.width is not None:
            # Words at the end where curves of large audits have left it.
            most = max(self._place(design) for design in self.designs)
            widths += [Rule(y=self.width, dash="dash", width=1)]
            widths += [Note(f"wanted: {self.width:g}", self.width, most)]
        return widths, [Rule(y=self.probability, dash="dash", width=1)]
