"""Make the figures of the explanation pages with the public API.

    python docs/make_figures.py

Writes SVG to ``docs/explanation/figures/``; the same numbers give the same files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

import epsilometer as em

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "explanation" / "figures"

# Distinguishable with colour-vision deficiency, and readable on white.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#8E4585", "#6B6B6B"
PALE = "#BFD9EA"

STYLE: Any = {
    "figure.facecolor": "white",  # also on a dark page
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "epsilometer",
    "svg.fonttype": "path",
}

FloatArray = NDArray[np.float64]


def new(width: float, height: float, columns: int, **more: Any) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, columns, figsize=(width, height), layout="constrained", squeeze=False, **more
    )
    return figure, list(axes[0])


def edge(epsilon: float, delta: float) -> tuple[FloatArray, FloatArray]:
    """The lower edge of R(epsilon, delta), from (0, 1 - delta) over its corner to (1 - delta, 0)."""
    corner = (1 - delta) * np.exp(-epsilon) / (1 + np.exp(-epsilon))
    return np.array([0.0, corner, 1 - delta]), np.array([1 - delta, corner, 0.0])


def outline(epsilon: float, delta: float) -> tuple[FloatArray, FloatArray]:
    """All of the region as a polygon."""
    x, y = edge(epsilon, delta)
    return np.concatenate([[0.0], x, [1.0], (1 - x)]), np.concatenate([[1.0], y, [0.0], (1 - y)])


def square(axes: Axes, title: str) -> None:
    """The unit square of error rates."""
    axes.plot([0, 1], [1, 0], ":", color=GREY, linewidth=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate α")  # noqa: RUF001
    axes.set_title(title, fontsize=10.5)
    axes.set_aspect("equal")


def capital() -> Figure:
    """The capital of someone who bets against a true claim and a false one, twenty times each."""
    figure, (left, right) = new(8.4, 3.4, 2)
    rng, pairs, bases, shift = np.random.default_rng(1), 100, 5, 1.0
    for axes, claim, title in ((left, shift, "true claim"), (right, 0.5, "false claim")):
        for _ in range(20):
            scores = em.Scores(
                without=[rng.laplace(size=pairs) for _ in range(bases)],
                with_point=[rng.laplace(size=pairs) + shift for _ in range(bases)],
            )
            evidence = em.prove(scores, delta=1e-5, claim=claim).evidence
            assert evidence is not None
            powers = np.append(0.0, evidence.path / np.log(10))
            colour = ORANGE if powers[-1] >= np.log10(20) else BLUE
            steps = np.arange(0, len(powers), 10)
            axes.plot(steps, powers[steps], color=colour, linewidth=0.7, alpha=0.6)
        axes.axhline(np.log10(20), color=GREY, linestyle=":", linewidth=1.2)
        axes.annotate(
            "20: refuted",
            (bases * pairs, np.log10(20)),
            (0, 3),
            ha="right",
            fontsize=9,
            textcoords="offset points",
        )
        axes.set(xlabel="pairs of models", xlim=(0, bases * pairs))
        axes.set_title(f"epsilon at most {claim:g}: a {title}", fontsize=10.5)
    left.set_ylabel("capital, as a power of 10")
    return figure


def regions() -> Figure:
    """The region that epsilon and delta allow."""
    figure, (left, right) = new(8.4, 4.2, 2, sharey=True)
    for epsilon, colour in ((0.5, GREEN), (1, BLUE), (2, ORANGE), (4, PURPLE)):
        for axes, delta in ((left, 0.0), (right, 0.1)):
            x, y = edge(epsilon, delta)
            axes.plot(x, y, color=colour, label=f"ε = {epsilon:g}")
            axes.plot(1 - x, 1 - y, color=colour)
    square(left, "δ = 0")
    square(right, "δ = 0.1")
    left.set_ylabel("false-negative rate β")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def rings() -> Figure:
    """The ring that a strength leaves of the region."""
    epsilon, delta = 2.0, 0.05
    figure, panels = new(9.6, 3.7, 3, sharey=True)
    for axes, strength in zip(panels, (0.0, 0.5, 0.9), strict=True):
        axes.fill(*outline(epsilon, delta), color=PALE)
        if strength > 0:
            axes.fill(*outline(strength * epsilon, strength * delta), color="white")
            axes.plot(*outline(strength * epsilon, strength * delta), color=BLUE, linewidth=0.8)
        axes.plot(*outline(epsilon, delta), color=BLUE, linewidth=1.5, clip_on=False)
        square(axes, f"s = {strength:g}")
    panels[0].set_ylabel("false-negative rate β")
    return figure


def strengths() -> Figure:
    """Posterior from one attack under several assumptions about its strength."""
    counts = em.AttackCounts(
        false_positives=[200], trials_h0=500, false_negatives=[200], trials_h1=500
    )
    figure, (axes,) = new(7.2, 3.6, 1)
    grid = np.linspace(1e-3, 3, 800)
    for strength, colour in ((0.99, PURPLE), (0.8, GREEN), (0.5, ORANGE), (0.0, GREY)):
        model = em.CountModel(delta=0.01, strength=em.priors.Fixed(value=strength))
        density = em.estimate(counts, model).density("epsilon", grid)
        axes.plot(grid, density, color=colour, label=f"s = {strength:g}")
    whole = em.estimate(counts, em.CountModel(delta=0.01))
    axes.plot(grid, whole.density("epsilon", grid), color=BLUE, linewidth=2.2, label="s estimated")
    axes.set(xlabel="ε", ylabel="posterior density", xlim=(0, 3), ylim=(0, None))
    axes.legend()
    return figure


def likelihoods() -> Figure:
    """Independent and dependent decisions with the same error rate."""
    figure, (left, right) = new(9.2, 3.6, 2)
    trials, rate = 100, 0.1
    numbers = np.arange(31.0)
    for correlation, colour, style in ((0.0, GREY, "-"), (0.02, BLUE, "-"), (0.05, ORANGE, "--")):
        spread = np.sqrt(trials * rate * (1 - rate) * (1 + (trials - 1) * correlation))
        chance = norm.pdf(numbers, trials * rate, spread)
        left.plot(numbers, chance, style, color=colour, label=f"τ = {correlation:g}")
    left.set(xlabel="false positives of 100", ylabel="probability", xlim=(0, 30), ylim=(0, None))
    left.legend()
    counts = em.AttackCounts(
        false_positives=[10, 14, 4, 9, 17, 6], trials_h0=trials,
        false_negatives=[48, 71, 30, 62, 80, 41], trials_h1=trials,
    )  # fmt: skip
    grid = np.linspace(0.8, 6, 600)
    for likelihood, label, colour, style in (
        (em.likelihoods.IndependentBinomial(), "binomial", GREY, "-"),
        (em.likelihoods.CorrelatedCells(), "correlated, scale of τ 0.01", BLUE, "-"),
        (
            em.likelihoods.CorrelatedCells(within_correlation_scale=0.05),
            "correlated, 0.05",
            ORANGE,
            "--",
        ),
    ):
        posterior = em.estimate(counts, em.CountModel(delta=1e-3, likelihood=likelihood))
        density = posterior.density("epsilon", grid)
        right.plot(grid, density, style, color=colour, label=label)
    right.set(xlabel="ε", ylabel="posterior density", xlim=(0.8, 6), ylim=(0, 0.68))
    right.legend(fontsize=9.5)
    return figure


def priors() -> Figure:
    """The same counts under three priors."""
    few = em.AttackCounts(false_positives=[10], trials_h0=100, false_negatives=[60], trials_h1=100)
    many = em.AttackCounts.read(HERE.parent / "examples" / "counts.csv")
    figure, (left, right) = new(9.2, 3.6, 2, sharey=False)
    for axes, counts, title in (
        (left, few, "1 base, 100 models each"),
        (right, many, "10 bases, 1,000 models each"),
    ):
        grid = np.linspace(1e-3, 10, 900) if counts is few else np.linspace(2, 5, 900)
        for factor, colour in ((0.5, GREEN), (1.0, BLUE), (2.0, ORANGE)):
            prior = em.priors.HalfNormal(scale=factor * 10**0.5)
            posterior = em.estimate(counts, em.CountModel(delta=0.01, epsilon=prior))
            label = f"prior scale {prior.scale:.2f}"
            axes.plot(grid, posterior.density("epsilon", grid), color=colour, label=label)
            axes.plot(grid, np.exp(prior.log_density(grid)), ":", color=colour, linewidth=1.2)
        axes.set(xlabel="ε", xlim=(grid[0], grid[-1]), ylim=(0, None))
        axes.set_title(title, fontsize=10.5)
    left.set_ylabel("density; dotted: prior")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def misfit() -> Figure:
    """The best attack at one false-positive rate on a Gaussian mechanism, on more and more bases."""
    delta, rate, trials = 1e-5, 0.1, 100
    truth = em.training.ClippedMean(noise=0.01, records=100).epsilon(delta)
    misses = float(norm.cdf(norm.isf(rate) - 1))  # one standard deviation apart
    rng = np.random.default_rng(1)
    false_positives = rng.binomial(trials, rate, 20)
    false_negatives = rng.binomial(trials, misses, 20)
    figure, (axes,) = new(7.2, 3.6, 1)
    grid = np.linspace(1e-3, 6, 900)
    for bases, colour in ((1, GREY), (5, BLUE), (20, ORANGE)):
        counts = em.AttackCounts(
            false_positives=false_positives[:bases],
            trials_h0=trials,
            false_negatives=false_negatives[:bases],
            trials_h1=trials,
        )
        density = em.estimate(counts, em.CountModel(delta=delta)).density("epsilon", grid)
        bases_text = "1 base" if bases == 1 else f"{bases} bases"
        axes.plot(grid, density / density.max(), color=colour, label=bases_text)
    axes.axvline(truth, color=PURPLE, linestyle="--")
    axes.text(truth + 0.06, 0.9, f"true ε = {truth:.2f}", color=PURPLE)
    axes.set(xlabel="ε", ylabel="posterior density (peak 1)", xlim=(0, 6), ylim=(0, 1.05))
    axes.legend(loc="upper left")
    return figure


def through(
    family: em.families.Gaussian | em.families.Laplace | em.families.RandomizedResponse,
) -> float:
    """The leak of a family whose curve goes through the point that a shift of 1 has at a rate of 0.1."""
    wanted = float(norm.sf(norm.isf(0.1) - 1))
    curves = em.families.Curves(family=family)

    def excess(leak: float) -> float:
        seen = curves.seen_true_positives(np.array([0.1]), np.array([leak]))
        return float(seen[0, 0]) - wanted

    return float(brentq(excess, 1e-3, 10))


def families() -> Figure:
    """One operating point, three curves through it, and their epsilon over delta."""
    figure, (left, right) = new(9.2, 3.9, 2)
    rates, deltas = np.linspace(1e-4, 1, 400), np.geomspace(1e-7, 0.2, 120)
    shown = (
        (em.families.Gaussian(), "Gaussian", BLUE, "-"),
        (em.families.Laplace(), "Laplace", ORANGE, "--"),
        (em.families.RandomizedResponse(), "response", GREEN, ":"),
    )
    for family, label, colour, style in shown:
        leak, curves = through(family), em.families.Curves(family=family)
        misses = 1 - curves.seen_true_positives(rates, np.array([leak]))[:, 0]
        left.plot(rates, misses, style, color=colour, label=label, linewidth=1.8)
        epsilon = [float(curves.epsilon(leak, delta)) for delta in deltas]
        right.plot(deltas, epsilon, style, color=colour, linewidth=1.8)
    left.plot(0.1, norm.cdf(norm.isf(0.1) - 1), "o", color=GREY, zorder=3)
    left.annotate("one operating point", (0.1, 0.62), (0.22, 0.8), arrowprops={"arrowstyle": "-"})
    square(left, "trade-off functions")
    left.set_ylabel("false-negative rate β")
    left.legend(loc="upper right", bbox_to_anchor=(1.0, 0.78))
    right.set(xscale="log", xlabel="δ", ylabel="ε", ylim=(0, 6))
    right.set_title("ε over δ of the same three", fontsize=10.5)
    return figure


def whole_roc() -> Figure:
    """Every score of one base, and the posterior of the curve behind them."""
    without = norm.ppf((np.arange(100) + 0.5) / 100)
    scores = em.Scores(without=[without], with_point=[without + 1])
    posterior = em.estimate(scores, em.CurveModel(delta=1e-5))
    figure, (left, right) = new(9.2, 4.2, 2)
    false, true = scores.bases[0].roc()
    for axes, rates in ((left, np.linspace(1e-3, 1, 120)), (right, np.geomspace(1e-4, 1, 120))):
        low, middle, high = 1 - posterior.trade_off(rates, [0.95, 0.5, 0.05], base=0)
        axes.fill_between(rates, low, high, color=PALE, label="1 - f, 90 %")
        axes.plot(rates, middle, color=BLUE, label="median")
        axes.step(false, true, color=ORANGE, linewidth=1, where="post", label="scores")
        axes.set(xlabel="false-positive rate α", xlim=(rates[0], 1))  # noqa: RUF001
    left.plot([0, 1], [0, 1], ":", color=GREY, linewidth=1)
    left.set(ylabel="true-positive rate 1 - β", ylim=(0, 1), xlim=(0, 1))
    left.legend(loc="lower right")
    right.axvspan(1e-4, 0.01, color="#EEEEEE", zorder=0)
    right.text(1.4e-4, 0.6, "below 1 / N:\nextrapolated", fontsize=9.5)
    right.set(xscale="log", yscale="log", ylim=(1e-4, 1))
    return figure


def alike() -> Figure:
    """Bases that leak alike and bases that differ, with the strength fixed at 1 and estimated."""
    quantiles = norm.ppf((np.arange(100) + 0.5) / 100)
    figure, (left, right) = new(9.2, 3.6, 2, sharey=True)
    grid = np.linspace(1e-3, 12, 500)
    for axes, shares, title in (
        (left, np.full(10, 0.7), "ten bases alike"),
        (right, np.linspace(0.1, 1.0, 10), "ten bases that differ"),
    ):
        scores = em.Scores(
            without=[quantiles] * 10, with_point=[quantiles + 1.5 * share for share in shares]
        )
        for strength, label, colour in (
            (em.families.FixedStrength(), "strength fixed at 1", GREY),
            (em.families.FreeStrengths(), "any strength", BLUE),
        ):
            model = em.CurveModel(
                delta=1e-5,
                families=(em.families.Gaussian(),),
                mixing=em.families.NoMixing(),
                strength=strength,
            )
            density = em.estimate(scores, model).density("epsilon", grid)
            axes.plot(grid, density, color=colour, label=label)
        worst = float(em.families.Gaussian().epsilon(1.5 * shares.max(), 1e-5))
        axes.axvline(worst, color=PURPLE, linestyle="--", linewidth=1, label="worst base")
        axes.set(xlabel="ε", xlim=(0, 12), ylim=(0, 2))
        axes.set_title(title, fontsize=10.5)
    left.set_ylabel("posterior density")
    right.legend()
    return figure


FIGURES = {
    "regions": regions,
    "capital": capital,
    "rings": rings,
    "strengths": strengths,
    "likelihoods": likelihoods,
    "priors": priors,
    "misfit": misfit,
    "families": families,
    "whole_roc": whole_roc,
    "alike": alike,
}


def main() -> None:
    """Write all figures."""
    mpl.use("svg")
    FOLDER.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, make in FIGURES.items():
            make().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
