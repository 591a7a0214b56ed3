"""Reasons to doubt a result that the engine itself cannot see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from epsilometer import _files
from epsilometer.inference.exact.engine import estimate_exact
from epsilometer.inference.posterior import Posterior
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import IndependentBinomial

MOST_LISTED = 3
"""Names that a sentence lists."""


@dataclass(frozen=True, kw_only=True)
class RepeatedBases:
    """Bases that occur in several rows outside of a common group."""

    names: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What to know, in one sentence."""
        listed = ", ".join(_files.printable(name)[:40] for name in self.names[:MOST_LISTED])
        rest = len(self.names) - MOST_LISTED
        if rest > 0:
            listed += f" and {rest:,} more"
        several = len(self.names) > 1
        return (
            f"The base{'s' if several else ''} {listed} occur{'' if several else 's'} in more than one "
            "row: the same base entered twice counts as independent evidence, and makes the interval "
            "too narrow, unless a `group` column says which rows belong together."
        )


def repeated_bases(counts: AttackCounts) -> RepeatedBases | None:
    """Find names that rows outside of a common group share."""
    names = counts.repeated_names
    return RepeatedBases(names=names) if names else None


@dataclass(frozen=True, kw_only=True)
class CountsAtTheirEnds:
    """A correlated answer that rests on counts of 0 or N, and the one for independent counts."""

    bases: int
    of: int
    level: float
    binomial_interval: tuple[float, float]

    @property
    def sentence(self) -> str:
        """What to know, in two sentences."""
        low, high = self.binomial_interval
        return (
            f"{self.bases} of {self.of} bases have an error count of 0 or of all challenges, "
            "where the correlated likelihood has no bound and can put epsilon too high. With "
            f"independent counts (likelihood binomial) epsilon is {low:.2f} to {high:.2f} with "
            f"probability {self.level:g}."
        )


def bases_at_ends(counts: AttackCounts) -> int:
    """Bases with a count of 0 or of all challenges, under either hypothesis."""
    ends = [
        (errors == 0) | (errors == trials)
        for errors, trials in (
            (counts.false_positives, counts.trials_h0),
            (counts.false_negatives, counts.trials_h1),
        )
    ]
    # Under either hypothesis: exchanging them leaves the posterior as it is.
    return int((ends[0] | ends[1]).sum())


def counts_at_their_ends(
    posterior: Posterior, *, level: float, report: Callable[[str], None] | None = None
) -> CountsAtTheirEnds | None:
    """Estimate with independent counts where a correlated answer rests on counts of 0 or N.

    The density of the normal approximation has no bound where a rate meets 0 or 1.  A few such counts
    do no harm; where most bases have one, they can pull epsilon up without limit.  Otherwise nothing
    is estimated and the answer is None.  ``report`` is told of the estimate.
    """
    counts, model = posterior.counts, posterior.model
    if model.likelihood.bounded or "epsilon" not in posterior.parameters:
        return None
    at_ends = bases_at_ends(counts)
    if 2 * at_ends <= len(counts):
        return None
    if report is not None:
        report("independent counts, as most are at an end")
    binomial = estimate_exact(counts, replace(model, likelihood=IndependentBinomial()))
    return CountsAtTheirEnds(
        bases=at_ends,
        of=len(counts),
        level=level,
        binomial_interval=binomial.credible_interval("epsilon", level),
    )
