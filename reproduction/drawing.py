"""Plotting style.  The colours are Okabe and Ito's, which are safe for colour-blind readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import epsilometer as em

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9", "#E69F00")
SHADES = ("#FFFFFF", "#DCE9F5", "#9DC3E2", "#4A90C2", "#08519C")
DRAWS = 200_000
BINS = 90
SEED = 1


def new_figure(width: float, height: float) -> Figure:
    """An empty figure without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Axes) -> None:
    """Remove the box and use caption-sized type; call it after all labels are set."""
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def unit_square(axes: Axes) -> None:
    """Axes for two error rates, with the line of guessing."""
    axes.plot([0, 1], [1, 0], ":", color=GREY, linewidth=0.8, zorder=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    tidy(axes)


def error_curves(axes: Axes, result: em.attacks.AttackResult, target_alpha: float) -> None:
    """One line per challenge base over all target rates; a dot at the rate used for the estimate."""
    curves = result.sweep()
    false_positive = curves.false_positives / curves.trials_h0
    false_negative = curves.false_negatives / curves.trials_h1
    unit_square(axes)
    axes.plot(false_positive, false_negative, color=BLUE, linewidth=0.6, alpha=0.55, zorder=2)
    counts = result.counts(target_alpha)
    axes.plot(
        counts.false_positive_rates,
        counts.false_negative_rates,
        "o",
        color=ORANGE,
        markersize=3.2,
        markeredgecolor="white",
        markeredgewidth=0.4,
        zorder=3,
        clip_on=False,
    )


def joint_posterior(axes: Axes, posterior: em.engines.CountPosterior) -> None:
    """The posterior of epsilon and strength as shades, darker where it is denser."""
    from matplotlib.colors import LinearSegmentedColormap

    draws = posterior.draws(DRAWS, rng=np.random.default_rng(SEED))
    largest_epsilon = 1.05 * float(posterior.quantile("epsilon", 0.998))
    density, epsilon, strength = np.histogram2d(
        draws["epsilon"], draws["strength"], bins=BINS, range=((0, largest_epsilon), (0, 1))
    )
    shades = LinearSegmentedColormap.from_list("posterior", SHADES)
    # Keep flat parts of the posterior visible next to its peak: square roots, capped shades.
    shade = np.sqrt(density.T)
    darkest = float(np.quantile(shade[shade > 0], 0.985))
    axes.pcolormesh(epsilon, strength, shade, cmap=shades, vmax=darkest, rasterized=True)
    low, high = posterior.credible_interval("epsilon", 0.9)
    for end in (low, high):
        axes.axvline(end, color=ORANGE, linewidth=0.9, linestyle="--")
    axes.set(xlim=(0, largest_epsilon), ylim=(0, 1), yticks=[0, 0.5, 1])
    axes.set_title(f"90 % interval {low:.2f} to {high:.2f}", fontsize=8, color="#A23B00")
    tidy(axes)


def curves_above_posteriors(
    panels: Sequence[tuple[str, em.attacks.AttackResult, float, em.engines.CountPosterior]],
) -> Figure:
    """Error curves in the upper row, joint posteriors in the lower one, one column per algorithm."""
    figure = new_figure(2.5 * len(panels) + 0.2, 4.8)
    rows: Any = figure.subplots(2, len(panels), squeeze=False)
    for column, (title, result, target, posterior) in enumerate(panels):
        upper, lower = rows[:, column]
        error_curves(upper, result, target)
        upper.set_title(title, fontsize=9)
        upper.set_xlabel("false-positive rate", fontsize=8)
        joint_posterior(lower, posterior)
        lower.set_xlabel("epsilon", fontsize=8)
    rows[0, 0].set_ylabel("false-negative rate", fontsize=8)
    rows[1, 0].set_ylabel("strength of the attacks", fontsize=8)
    return figure


def chains_of(posterior: em.engines.CountPosterior, parameter: str) -> Floats:
    """Draws of one parameter, (chains, draws)."""
    tree = posterior.to_datatree()
    return np.asarray(tree["posterior"][parameter].values, dtype=np.float64)


def autocorrelations(chain: Floats, lags: int) -> Floats:
    """Sample autocorrelations of one chain from lag 0 up to ``lags``."""
    centred = chain - chain.mean()
    size = 2 ** int(np.ceil(np.log2(2 * len(centred))))
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    covariances = np.fft.irfft(power, size)[: lags + 1]
    return np.asarray(covariances / covariances[0])
