"""Error curves of every base over target rates, and whether attacks kept the rate they aimed at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.attacks.result import ErrorCurves
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.style import BLUE, GREY, ORANGE, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

MOST_LINES = 40
"""Curves drawn one by one; of more bases so many are picked, and the middle 90 % are shaded."""

BAND = 0.99
"""Probability of the band around the target rate, if decisions were independent."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CurvesChart(Chart):
    """False-positive and false-negative rates over target rates: arrays (levels, bases)."""

    counts: AttackCounts
    target_alpha: float | None
    targets: FloatArray
    false_positive_rates: FloatArray
    false_negative_rates: FloatArray
    chosen: NDArray[np.int64]

    name = "curves"
    title = "Error curves of the attacks, and the rates they aimed at"

    @classmethod
    def of(
        cls, curves: ErrorCurves, counts: AttackCounts, *, target_alpha: float | None
    ) -> CurvesChart:
        """The chart of an attack's curves; ``counts`` are those the posterior was made of."""
        positives = curves.false_positives / curves.trials_h0
        negatives = curves.false_negatives / curves.trials_h1
        bases = positives.shape[1]
        # Evenly over the order of how much is missed, so that weak and strong ones are both seen.
        order = np.argsort(negatives.mean(axis=0), kind="stable")
        picked = np.unique(np.linspace(0, bases - 1, min(bases, MOST_LINES)).round().astype(int))
        return cls(
            counts=counts,
            target_alpha=target_alpha,
            targets=curves.target_alpha,
            false_positive_rates=positives,
            false_negative_rates=negatives,
            chosen=np.sort(order[picked]),
        )

    @property
    def caption(self) -> str:
        bases = self.false_positive_rates.shape[1]
        text = (
            "First: what each attack trades, one curve a base; the nearer to the lower left corner, "
            "the better the attack. Second: the false-positive rate that came out against the one "
            f"aimed at; within the band ({100 * BAND:g} %) the difference is what chance would do to "
            "independent decisions. An attack that missed its rate still counts: only what it did "
            "enters the estimate."
        )
        if self.target_alpha is not None:
            text += f" Counts were taken at the target rate {self.target_alpha:g}."
        if bases > len(self.chosen):
            text += (
                f" Drawn are {len(self.chosen)} of {bases:,} bases, from the strongest attack to the "
                "weakest, and the middle 90 % of all."
            )
        return text

    @property
    def crowded(self) -> bool:
        """Whether only some bases are drawn one by one."""
        return bool(len(self.chosen) < self.false_positive_rates.shape[1])

    def band(self) -> tuple[FloatArray, FloatArray]:
        """What chance would make of the target rates on the base with the fewest challenges."""
        from scipy.stats import binom

        trials = int(self.counts.trials_h0.min())
        low = binom.ppf(0.5 - BAND / 2, trials, self.targets) / trials
        high = binom.ppf(0.5 + BAND / 2, trials, self.targets) / trials
        return np.asarray(low), np.asarray(high)

    def middle(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The middle 90 % of all bases at each target rate."""
        low, high = np.quantile(rates, [0.05, 0.95], axis=1)
        return np.asarray(low), np.asarray(high)

    def _lines(self) -> list[tuple[int, FloatArray, FloatArray]]:
        return [
            (base, self.false_positive_rates[:, base], self.false_negative_rates[:, base])
            for base in self.chosen.tolist()
        ]

    def draw(self) -> Figure:
        figure = style.new_figure(10.6, 5.0)
        errors, rates = figure.subplots(1, 2)
        thin = {"linewidth": 0.9, "alpha": 0.55 if len(self.chosen) > 5 else 0.9}
        for _, x, y in self._lines():
            errors.plot([0, *x, 1], [1, *y, 0], color=BLUE, drawstyle="default", **thin)
            rates.plot(self.targets, x, color=BLUE, **thin)
        errors.plot([0, 1], [1, 0], ":", color=GREY, linewidth=1, label="guessing")
        errors.plot(
            self.counts.false_positive_rates,
            self.counts.false_negative_rates,
            label="the counts used",
            **style.dots(len(self.counts)),
        )
        errors.set(xlabel="false-positive rate", ylabel="false-negative rate")
        rates.fill_between(
            self.targets, *self.band(), color=GREY, alpha=0.2, linewidth=0,
            label=f"{100 * BAND:g} % by chance alone",
        )  # fmt: skip
        if self.crowded:
            rates.fill_between(
                self.targets, *self.middle(self.false_positive_rates), color=BLUE, alpha=0.2,
                linewidth=0, label="middle 90 % of bases",
            )  # fmt: skip
        rates.plot([0, 1], [0, 1], ":", color=GREY, linewidth=1)
        if self.target_alpha is not None:
            rates.axvline(self.target_alpha, color=ORANGE, linewidth=1.2, label="target used")
        rates.set(xlabel="target false-positive rate", ylabel="realised false-positive rate")
        for axes in (errors, rates):
            _square(axes)
        figure.suptitle(self.title)
        return figure

    def panels(self) -> list[Panel]:
        errors: list[dict[str, Any]] = []
        rates: list[dict[str, Any]] = []
        targets = style.numbers(self.targets)
        if self.crowded:
            low, high = self.middle(self.false_positive_rates)
            rates.append(_band(targets, low, high, style.SHADE.format(0.2), "middle 90 % of bases"))
        label = f"{100 * BAND:g} % by chance alone"
        rates.append(_band(targets, *self.band(), "rgba(128, 128, 128, 0.25)", label))
        look: dict[str, Any] = {
            "width": 1,
            "opacity": 0.55 if len(self.chosen) > 5 else 0.9,
            "showlegend": False,
        }
        for base, x, y in self._lines():
            name = style.page_name(self.counts.names[base])
            title = f"<b>{_literal(name)}</b>"
            across, up = style.numbers(x, 5), style.numbers(y, 5)
            errors.append(
                style.line(
                    [0, *across, 1],
                    [1, *up, 0],
                    "@blue",
                    name=name,
                    hover=f"{title}<br>false-positive rate %{{x:.3f}}"
                    "<br>false-negative rate %{y:.3f}",
                    **look,
                )
            )
            hover = f"{title}<br>target %{{x:.2f}}, realised %{{y:.3f}}"
            rates.append(style.line(targets, across, "@blue", name=name, hover=hover, **look))
        for data, ends in ((errors, [1, 0]), (rates, [0, 1])):
            dotted: dict[str, Any] = {"width": 1, "dash": "dot", "showlegend": False}
            data.append(style.line([0, 1], ends, "@grey", **dotted))
        errors.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": style.numbers(self.counts.false_positive_rates),
                "y": style.numbers(self.counts.false_negative_rates),
                "marker": {
                    "color": "@orange",
                    "size": float(np.clip(18 / len(self.counts) ** 0.2, 4, 9)),
                    "opacity": float(np.clip(30 / len(self.counts) ** 0.5, 0.35, 1.0)),
                },
                "name": "the counts used",
                "cliponaxis": False,
            }
            | style.hover_of_bases(self.counts)
        )
        unit = {"range": [-0.015, 1.015], "constrain": "domain"}
        equal = unit | {"scaleanchor": "x"}
        shapes = [] if self.target_alpha is None else [style.vertical(self.target_alpha, "@orange")]
        return [
            style.panel(
                errors,
                style.layout(
                    "false-positive rate",
                    "false-negative rate",
                    xaxis=unit,
                    yaxis=equal,
                    showlegend=True,
                ),
                square=True,
            ),
            style.panel(
                rates,
                style.layout(
                    "target false-positive rate",
                    "realised false-positive rate",
                    xaxis=unit,
                    yaxis=equal,
                    shapes=shapes,
                    showlegend=True,
                ),
                square=True,
            ),
        ]


def _square(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    axes.legend(fontsize=8.5, framealpha=0.9)
    style.tidy(axes)


def _literal(name: str) -> str:
    """A name inside a template of Plotly's, which would read ``%{x}`` as a place to fill."""
    return name.replace("%", "&#37;").replace("{", "&#123;")


def _band(
    x: list[Any], low: FloatArray, high: FloatArray, colour: str, name: str
) -> dict[str, Any]:
    return style.band(x, style.numbers(low, 5), style.numbers(high, 5), colour, name)
