"""Error curves of every base over target rates, and whether attacks kept the rate they aimed at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.attacks.result import ErrorCurves
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Band, Line, Mark, Rule, Sheet

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
    chosen: IntArray

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

    def sheet(self, *, fine: bool) -> Sheet:
        rates: list[Mark] = []
        if self.crowded:
            middle = self.middle(self.false_positive_rates)
            rates.append(Band(self.targets, *middle, "blue", "middle 90 % of bases", digits=5))
        label = f"{100 * BAND:g} % by chance alone"
        rates.append(Band(self.targets, *self.band(), "grey", label, digits=5))
        errors: list[Mark] = []
        opacity = 0.55 if len(self.chosen) > 5 else 0.9
        thin: dict[str, Any] = {"width": 0.9, "opacity": opacity, "listed": False, "digits": 5}
        for base in self.chosen.tolist():
            name = self.counts.names[base]
            title = f"<b>{_literal(style.page_name(name))}</b><br>"
            x, y = self.false_positive_rates[:, base], self.false_negative_rates[:, base]
            hover = f"{title}false-positive rate %{{x:.3f}}<br>false-negative rate %{{y:.3f}}"
            errors.append(Line([0, *x, 1], [1, *y, 0], "blue", name, hover=hover, **thin))
            hover = f"{title}target %{{x:.2f}}, realised %{{y:.3f}}"
            rates.append(Line(self.targets, x, "blue", name, hover=hover, **thin))
        errors.append(Line([0, 1], [1, 0], "grey", "guessing", width=1, dash="dot"))
        rates.append(Line([0, 1], [0, 1], "grey", width=1, dash="dot"))
        where = self.counts.false_positive_rates, self.counts.false_negative_rates
        errors.append(style.attack_points(self.counts, *where, label="the counts used"))
        if self.target_alpha is not None:
            rates.append(Rule(x=self.target_alpha, colour="orange", width=1.2, dash="solid"))
        plots = [
            style.unit_square("false-positive rate", "false-negative rate", errors),
            style.unit_square("target false-positive rate", "realised false-positive rate", rates),
        ]
        return Sheet(self.title, plots, (10.6, 5.0), columns=2)


def _literal(name: str) -> str:
    """A name inside a template of Plotly's, which would read ``%{x}`` as a place to fill."""
    return name.replace("%", "&#37;").replace("{", "&#123;")
