"""Error curves of every base over target rates, and the false-positive rates that were realised."""

from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import percent
from epsilometer.attacks.result import ErrorCurves
from epsilometer.model.counts import AttackCounts
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Band, Line, Mark, Reference

#: Maximum number of curves drawn; for more bases the middle 90 % are shaded too.
MOST_LINES = 40

#: Probability of the band around the target rate, if decisions were independent.
BAND = 0.99


def curves_chart(curves: ErrorCurves, counts: AttackCounts, *, target_alpha: float | None) -> Chart:
    """False-positive and false-negative rates over target rates.

    ``counts`` are those the posterior was made of.
    """
    positives = curves.false_positives / curves.trials_h0
    negatives = curves.false_negatives / curves.trials_h1
    bases = positives.shape[1]
    # Evenly over the order of strength, so that weak and strong attacks are both drawn.
    order = np.argsort(negatives.mean(axis=0), kind="stable")
    chosen = np.sort(order[style.picked(bases, MOST_LINES)])
    caption = (
        "First: both error rates of each attack; the nearer to the lower left corner, the better. "
        "Second: the realised false-positive rate, which the estimate uses, against the target; within "
        f"the band ({percent(BAND)}) independent decisions would differ by chance."
    )
    targets = curves.target_alpha
    errors: list[Mark] = []
    rates: list[Mark] = []
    if len(chosen) < bases:
        low, high = np.quantile(positives, [0.05, 0.95], axis=1)
        rates.append(Band(targets, low, high, "blue", "middle 90 % of bases"))
    low, high = chance_band(targets, int(counts.trials_h0.min()))
    rates.append(Band(targets, low, high, "grey", f"{percent(BAND)} by chance alone"))
    opacity = 0.55 if len(chosen) > 5 else 0.9
    thin: dict[str, Any] = {"width": 0.9, "opacity": opacity, "listed": False}
    for base in chosen.tolist():
        name = counts.names[base]
        x, y = positives[:, base], negatives[:, base]
        hover = "{label}\nfalse-positive rate {x:.3f}\nfalse-negative rate {y:.3f}"
        errors.append(Line([0, *x, 1], [1, *y, 0], "blue", name, hover=hover, **thin))
        hover = "{label}\ntarget {x:.2f}, realised {y:.3f}"
        rates.append(Line(targets, x, "blue", name, hover=hover, **thin))
    rates.append(Line([0, 1], [0, 1], "grey", width=1, dash="dot"))
    if target_alpha is not None:
        caption += f" The counts are those at the target rate {target_alpha:g}."
        rates.append(Reference(x=target_alpha, colour="orange", width=1.2, dash="solid"))
    if len(chosen) < bases:
        caption += f" Only {len(chosen)} of {bases:,} bases are drawn, and the middle 90 % of all."
    plots = [
        style.error_rates(counts, "counts used", errors),
        style.unit_square("target false-positive rate", "realised false-positive rate", rates),
    ]
    title = "Error curves of the attacks, and their target rates"
    return Chart(title=title, caption=caption, plots=plots, size=(10.6, 5.0), columns=2)


def chance_band(targets: FloatArray, trials: int) -> tuple[FloatArray, FloatArray]:
    """Range of realised rates that chance allows at the target rates, for the number of challenges."""
    from scipy.stats import binom

    ends = np.array([[0.5 - BAND / 2], [0.5 + BAND / 2]])
    low, high = np.asarray(binom.ppf(ends, trials, targets)) / trials
    return low, high
