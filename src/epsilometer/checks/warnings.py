"""Problems of a result that the engine itself cannot detect."""

from dataclasses import dataclass, replace

import numpy as np

from epsilometer import _files
from epsilometer._arrays import OnMessage
from epsilometer.engines.exact.engine import estimate_exact
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import IndependentBinomial
from epsilometer.posteriors.posterior import CountPosterior

#: Most names or statistics to list in a sentence; tables list them all.
MOST_COUNTS_LISTED = 3


def repeated_bases(counts: AttackCounts) -> str | None:
    """A warning about bases that occur in several rows outside a common group; None without any."""
    names = counts.repeated_names
    if not names:
        return None
    listed = ", ".join(_files.printable(name)[:40] for name in names[:MOST_COUNTS_LISTED])
    rest = len(names) - MOST_COUNTS_LISTED
    if rest > 0:
        listed += f" and {rest:,} more"
    several = len(names) > 1
    return (
        f"The base{'s' if several else ''} {listed} occur{'' if several else 's'} in more than one "
        "row: a base entered twice is treated as independent data, which makes the interval too "
        "narrow, unless a `group` column marks the rows that belong together."
    )


@dataclass(frozen=True, kw_only=True)
class ExtremeCounts:
    """A result from the published density that depends on counts of 0 or N, and one without it.

    ``interval`` is that of epsilon with independent counts.
    """

    bases: int
    of: int
    level: float
    interval: tuple[float, float]

    @property
    def sentence(self) -> str:
        """The warning, in two sentences."""
        low, high = self.interval
        return (
            f"{self.bases} of {self.of} bases have an error count of 0 or of all challenges, "
            "where the published density of correlated counts is unbounded and can overestimate "
            "epsilon; likelihood correlated is bounded. With independent counts (likelihood binomial) "
            f"epsilon is {low:.2f} to {high:.2f} with probability {self.level:g}."
        )


def bases_with_extreme_counts(counts: AttackCounts) -> int:
    """Bases with a count of 0 or of all challenges, under either hypothesis."""
    # Either hypothesis: exchanging them does not change the posterior.
    at_ends = [(errors == 0) | (errors == trials) for errors, trials in counts.by_hypothesis]
    return int(np.any(at_ends, axis=0).sum())


def check_extreme_counts(
    posterior: CountPosterior, *, level: float, on_message: OnMessage | None = None
) -> ExtremeCounts | None:
    """Estimate with independent counts if an unbounded likelihood depends on counts of 0 or N.

    The published density of correlated counts is unbounded as a rate approaches 0 or 1.  A few such
    counts do no harm; if most bases have one, they can raise epsilon without limit.  Otherwise nothing
    is estimated and the result is None.  ``on_message`` is called before the estimate.
    """
    counts, model = posterior.counts, posterior.model
    if model.likelihood.bounded or "epsilon" not in posterior.parameters:
        return None
    at_ends = bases_with_extreme_counts(counts)
    if 2 * at_ends <= len(counts):
        return None
    if on_message is not None:
        on_message("independent counts, because most are extreme")
    binomial = estimate_exact(counts, replace(model, likelihood=IndependentBinomial()))
    interval = binomial.credible_interval("epsilon", level)
    return ExtremeCounts(bases=at_ends, of=len(counts), level=level, interval=interval)
