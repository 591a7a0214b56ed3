"""Update a posterior with new counts, and record how much each batch of counts moved it.

Nothing is approximated: a posterior keeps its counts, so an update estimates from all of them with the
same model and settings, and the order of the batches does not matter.  For each batch, the history
records how far it moved epsilon, its information, and how well it was predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors import panels
from epsilometer.posteriors.panels import PanelDensity

if TYPE_CHECKING:
    from epsilometer.engines.curve.posterior import CurvePosterior
    from epsilometer.posteriors.posterior import CountPosterior


LogDensity = Callable[[FloatArray], FloatArray]

LEVEL = 0.9
"""Probability of the intervals recorded for batches."""

LEAST_DENSITY = 1e-11
"""Smallest density, as a share of its peak, that is distinguished: grids end there."""

KERNEL_POINTS = 512
"""Quantiles of draws at which kernel densities are compared."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Batch(Plotted, view="posteriors.BATCH"):
    """The effect of one batch of counts on the posterior of epsilon.

    Attributes
    ----------
    rows
        Number of rows of the counts; batches follow each other in row order.
    label
        Its name: that of its file, or "batch 2".
    median, interval
        Epsilon after it: the median, and the central interval of probability 0.9.
    shift
        Change of the median; for the first batch, relative to the prior median.
    information
        Kullback-Leibler divergence, in nats, of epsilon's posterior after the batch from the one before
        it, or from the prior.  It concerns epsilon alone, not the strength.
    log_predictive
        log p(batch | earlier batches), the difference in log evidence.  None if there is no evidence,
        as for Markov chains.
    """

    rows: int
    label: str
    median: float
    interval: tuple[float, float]
    shift: float
    information: float
    log_predictive: float | None

    def __post_init__(self) -> None:
        _validate.whole_number("rows", self.rows, least=1)
        if not isinstance(self.label, str):
            raise InputError(f"expected text as a batch's label, got label={self.label!r}.")
        low, high = self.interval
        numbers = [self.median, low, high, self.shift, self.information]
        numbers += [] if self.log_predictive is None else [self.log_predictive]
        if not all(isinstance(value, float) and math.isfinite(value) for value in numbers):
            raise InputError(f"expected finite numbers in a batch, got {numbers}.")
        object.__setattr__(self, "interval", (low, high))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"interval": list(self.interval)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Batch:
        """The inverse of :meth:`to_dict`."""
        return cls(**{part.name: data[part.name] for part in fields(cls)})


def join_batches(first: AttackCounts, *others: AttackCounts) -> AttackCounts:
    """Concatenate counts; rows named only by their number are renumbered."""
    for batch in others:
        # A row's number names no base: the first rows of two files are not one base entered twice.
        numbered = batch.names == tuple(str(row) for row in range(len(batch)))
        counted_on = tuple(str(len(first) + row) for row in range(len(batch)))
        first = first.joined(replace(batch, names=counted_on if numbered else batch.names))
    return first


# --- the effect of a batch --------------------------------------------------------------------


def only_batch(posterior: CountPosterior, *, label: str = "batch 1") -> Batch:
    """All counts of a posterior as one batch."""
    return batch_between(None, posterior, rows=len(posterior.counts), label=label)


def batch_between(
    before: CountPosterior | None, after: CountPosterior, *, rows: int, label: str
) -> Batch:
    """The batch that led from one posterior, or from the prior, to the next."""
    median = after.median("epsilon")
    if before is None:
        # The prior median, given that epsilon is where the likelihood is used.
        share = prior_share(after.model, after.counts)
        started = float(after.model.epsilon.upper_quantile(0.5 * share))
    else:
        started = before.median("epsilon")
    return Batch(
        rows=rows,
        label=label,
        median=median,
        interval=after.credible_interval("epsilon", LEVEL),
        shift=median - started,
        information=_information(before, after),
        log_predictive=_log_predictive(before, after),
    )


def curve_batch(
    before: CurvePosterior | None, after: CurvePosterior, *, rows: int, label: str
) -> Batch:
    """The same for posteriors of the whole curve, whose distributions are tabulated."""
    median = after.median("epsilon")
    started = float(after.model.epsilon.quantile(0.5))
    if before is not None:
        started = before.median("epsilon")
    # Cells that are equally likely after the batch, and their probabilities before it.
    edges = np.unique(after.quantile("epsilon", np.linspace(0.0, 1.0, KERNEL_POINTS + 1)))
    gain = after.log_evidence - (0.0 if before is None else before.log_evidence)
    known: Callable[[float], float] = after.prior_probability_above
    if before is not None:
        known = partial(before.probability_above, "epsilon")
    above = [(after.probability_above("epsilon", edge), known(edge)) for edge in edges.tolist()]
    later, earlier = (-np.diff([1.0, *column, 0.0]) for column in zip(*above, strict=True))
    some = later > 0
    least = LEAST_DENSITY * float(earlier.max())
    information = float(
        np.sum(later[some] * np.log(later[some] / np.maximum(earlier[some], least)))
    )
    return Batch(
        rows=rows,
        label=label,
        median=median,
        interval=after.credible_interval("epsilon", LEVEL),
        shift=median - started,
        information=max(0.0, information),
        log_predictive=float(gain),
    )


def _log_predictive(before: CountPosterior | None, after: CountPosterior) -> float | None:
    if after.log_evidence is None or before is None:
        return after.log_evidence
    return None if before.log_evidence is None else after.log_evidence - before.log_evidence


def prior_share(model: CountModel, counts: AttackCounts) -> float:
    """The prior probability of the epsilons at which the likelihood is used; the evidence is over these.

    It is 1 except for the published density of correlated counts, which is not used below half a count.
    """
    if model.epsilon.fixed_value is not None:
        return 1.0
    return model.epsilon.probability_above(model.likelihood.smallest_epsilon(counts))


def _information(before: CountPosterior | None, after: CountPosterior) -> float:
    """The divergence of epsilon's posterior from the one before."""
    if after.model.epsilon.fixed_value is not None:
        return 0.0
    known = _known_before(before, after)
    density = after.marginal("epsilon")
    if isinstance(density, PanelDensity):
        return divergence(density, known)
    # Draws have no density: use kernel estimates at their quantiles.
    at = after.quantile("epsilon", (np.arange(KERNEL_POINTS) + 0.5) / KERNEL_POINTS)
    log_before = _log_of(known) if isinstance(known, PanelDensity) else known
    return max(0.0, float(np.mean(_floored(after.density("epsilon", at)) - log_before(at))))


def _known_before(
    before: CountPosterior | None, after: CountPosterior
) -> PanelDensity | LogDensity:
    """The density of epsilon before a batch: the earlier posterior, or the prior."""
    if before is None:
        prior, log_share = after.model.epsilon, math.log(prior_share(after.model, after.counts))
        return lambda epsilon: prior.log_density(epsilon) - log_share
    density = before.marginal("epsilon")
    return density if isinstance(density, PanelDensity) else lambda x: _floored(density.density(x))


def _floored(density: FloatArray) -> FloatArray:
    return np.asarray(
        np.log(np.maximum(density, LEAST_DENSITY * max(float(density.max()), 1e-280)))
    )


def _log_of(density: PanelDensity) -> LogDensity:
    """The log density, bounded below at the grid's cutoff."""
    least = LEAST_DENSITY * float(density.values.max())
    return lambda x: np.asarray(np.log(np.maximum(density.density(x), least)))


def divergence(after: PanelDensity, before: PanelDensity | LogDensity) -> float:
    """Kullback-Leibler divergence in nats: the integral of p log(p / q), p after and q before.

    By Gauss-Legendre quadrature between the breaks of both.  Where a q on panels is below 1e-11 of its
    peak, or has no panels, that value is used: densities are not known there.  A p with much
    probability there has a larger divergence than the one returned.

    Examples
    --------
    >>> flat = PanelDensity(breaks=np.array([0.0, 1.0]), values=np.ones((1, 4)))
    >>> half = PanelDensity(breaks=np.array([0.0, 0.5]), values=np.ones((1, 4)))
    >>> round(divergence(half, flat), 6)  # log 2
    0.693147
    """
    breaks = after.breaks
    if isinstance(before, PanelDensity):
        inside = (before.breaks > breaks[0]) & (before.breaks < breaks[-1])
        breaks = np.unique(np.concatenate([breaks, before.breaks[inside]]))
        before = _log_of(before)
    count = after.values.shape[1] + 8
    nodes = panels.panel_nodes(breaks, count)
    weights = 0.5 * np.diff(breaks)[:, None] * panels.gauss_legendre(count)[1]
    density = after.density(nodes)
    gain = np.log(np.maximum(density, 1e-300)) - before(nodes)
    # Rounding may leave a zero divergence slightly below 0.
    return max(0.0, float(np.sum(weights * density * gain)))
