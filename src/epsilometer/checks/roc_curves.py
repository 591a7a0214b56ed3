"""Checks of the curve model: does it fit the ROC curves, and how much does the prior matter."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer._display import Plotted
from epsilometer.checks.predictive import SURPRISING
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.curve.solve import solve
from epsilometer.engines.curve.summaries import NOTHING, draw_leaks
from epsilometer.errors import ContradictionError
from epsilometer.model.base_scores import BaseScores

#: False-positive rates at which true-positive rates are compared.
COMPARED_RATES = (0.01, 0.1)

STATISTICS = ("AUC", *(f"true-positive rate at {rate:g}" for rate in COMPARED_RATES))

#: Largest total number of simulated models and ROC curves; limits replications for large audits.
MOST_SIMULATED_MODELS, MOST_SIMULATED_CURVES = 4_000_000, 40_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RocCheck(Plotted, view="checks.ROC"):
    """Statistics of the ROC curve of each base, with posterior predictive intervals.

    Attributes
    ----------
    names
        The bases.
    observed, low, high, p_value
        Shape (bases, statistics): the observed value, the ends of the predictive interval, and the
        two-sided p-value.
    overall
        For each statistic, the two-sided p-values of its mean over bases and of its spread between
        them, shape (statistics, 2).
    level, replications
        Level of the intervals; number of simulated audits.
    family
        The family that the predictions are from; empty for the average over all.
    """

    names: tuple[str, ...]
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    overall: FloatArray
    level: float
    replications: int
    family: str = ""

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the columns."""
        return STATISTICS

    @property
    def odd(self) -> BoolArray:
        """Which statistics of which bases do not fit: each gets a share of the error."""
        return np.asarray(self.p_value < SURPRISING / self.p_value.size)

    @property
    def surprising(self) -> list[str]:
        """The statistics that do not fit, as short texts."""
        texts = []
        # Each statistic is tested twice.
        limit = SURPRISING / self.overall.size
        for row, name in enumerate(STATISTICS):
            for column, what in enumerate(("mean", "spread")):
                if self.overall[row, column] < limit:
                    texts.append(f"{what} of the bases' {name}")
        for base, statistic in zip(*np.nonzero(self.odd), strict=True):
            texts.append(f"{STATISTICS[statistic]} of base {self.names[base]}")
        return texts

    @property
    def fits(self) -> bool:
        """Whether nothing is surprising."""
        return not self.surprising


def check_rocs(
    posterior: CurvePosterior,
    *,
    rng: np.random.Generator,
    replications: int = 1000,
    level: float = 0.9,
    family: str = "",
) -> RocCheck:
    """Simulate audits from the posterior and compare their ROC curves with the observed ones.

    Parameters
    ----------
    replications
        Number of simulated audits; fewer for large audits.
    family
        Predict from one family alone, by its name, whatever its probability.
    """
    level = _validate.level(level)
    scores = posterior.scores
    bases = scores.bases
    models = int((scores.trials_h0 + scores.trials_h1).sum())
    most = min(MOST_SIMULATED_MODELS // models, MOST_SIMULATED_CURVES // len(bases))
    count = max(100, min(replications, most))
    observed = np.array([_statistics(base) for base in bases])
    simulated = np.empty((count, *observed.shape))
    solution = _only(posterior, family).solution
    drawn, components = draw_leaks(solution, count, rng=rng), solution.components
    for run, component in enumerate(drawn.component.tolist()):
        curves = None if component == NOTHING else components[component].curves
        for number, base in enumerate(bases):
            leak = float(drawn.base_leak[run, number])
            size = base.trials_h0 + base.trials_h1
            member = np.arange(size) >= base.trials_h0
            values = rng.random(size) if curves is None else curves.sample(leak, member, rng=rng)
            if base.grouped:
                # Counts show their curve at one threshold only, and so do their replications.
                order = np.argsort(-values, kind="stable")
                values[order] = np.repeat(base.value, base.zeros + base.ones)
            simulated[run, number] = _statistics(BaseScores.of(values[~member], values[member]))
    tails = [0.5 - level / 2, 0.5 + level / 2]
    low, high = np.quantile(simulated, tails, axis=0)
    means = _two_sided(observed.mean(axis=0), simulated.mean(axis=1))
    spreads = _two_sided(observed.std(axis=0), simulated.std(axis=1))
    return RocCheck(
        names=scores.names,
        observed=observed,
        low=low,
        high=high,
        p_value=_two_sided(observed, simulated),
        overall=np.stack([means, spreads], axis=1),
        level=level,
        replications=count,
        family=family,
    )


def _only(posterior: CurvePosterior, family: str) -> CurvePosterior:
    if not family:
        return posterior
    kept = tuple(candidate for candidate in posterior.model.families if candidate.name == family)
    model = replace(posterior.model, families=kept, no_leak=0.0)
    members = {part.curves.family for part in posterior.solution.components if part.group == family}
    tables = tuple(table for table in posterior.tables if table.family in members)
    if not tables:
        raise ContradictionError(f"the family {family} is ruled out by the scores.")
    solution = solve(model, tables, posterior.resolution)
    return replace(posterior, model=model, tables=tables, solution=solution)


def _statistics(base: BaseScores) -> FloatArray:
    return np.append(base.auc(), base.true_positive_rate(COMPARED_RATES))


def _two_sided(seen: FloatArray, simulated: FloatArray) -> FloatArray:
    """Two-sided p-value, ties counted half.

    Beyond all simulated values it is a normal tail, but no larger than simulations could show: a p-value
    bounded below by the number of simulations could never be surprising with many bases.
    """
    above = np.mean(simulated > seen, axis=0) + np.mean(simulated == seen, axis=0) / 2
    counted = 2 * np.minimum(above, 1 - above)
    spread = np.maximum(simulated.std(axis=0), 1e-12)
    far = 2 * ndtr(-np.abs(seen - simulated.mean(axis=0)) / spread)
    least = 0.5 / len(simulated)
    return np.asarray(np.where(counted < least, np.clip(far, 1e-300, least), counted))
