"""The engine of the curve model: sums are refined until two successive ones agree."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer.engines.curve.evaluation import Accuracy
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.curve.solve import (
    CurveAccuracy,
    Resolution,
    Solution,
    likely,
    region_of,
    solve,
)
from epsilometer.engines.curve.tables import REFERENCE, Table, finer, make_tables
from epsilometer.model.counts import AttackCounts
from epsilometer.model.family import LARGEST_CURVE_EPSILON, Family
from epsilometer.model.models import Component, CurveModel
from epsilometer.model.scores import Scores
from epsilometer.model.shapes import Cells
from epsilometer.model.strengths import EVERYWHERE, Region
from epsilometer.posteriors.provenance import Provenance

#: The name of the engine in provenances.
ENGINE = "curve"

#: Quantiles of epsilon compared between refinement steps.
PROBED = np.array([0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975])

#: Prior probability of epsilon beyond the initial axis, which is extended if the data require it.
PRIOR_TAIL = 1e-11

#: Posterior probability at the end of the axis above which it is extended.
AT_THE_END = 1e-6

LONGER = 1.7

#: The largest probability in a cell of a shape, in the first step; and the least error that is stated
#: with shapes, since cells with less are never divided.
MOST_IN_CELL, ERROR_OF_CELLS = 0.2, 0.002


#: Probability of curves that need no finer likelihood.
LIGHT = 1e-4


@dataclass(frozen=True, kw_only=True)
class CurveSettings:
    """Settings of the whole-curve engine.

    Parameters
    ----------
    tolerance
        Largest error of quantiles of epsilon, relative above 1, or twice the error of the probability
        below them.
    most_levels
        Largest number of refinement steps, at least 2.
    """

    tolerance: float = 0.02
    most_levels: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _validate.positive("tolerance", self.tolerance))
        _validate.whole_number("most_levels", self.most_levels, least=2)

    def resolution(
        self,
        refinement: int,
        bases: int,
        region: Region = EVERYWHERE,
        cells: Cells = {},  # noqa: B006 (never changed)
    ) -> Resolution:
        """Grid sizes of a refinement step (counted from 1), over a region of strength distributions."""
        means, concentrations = 10 + 4 * refinement, 3 + refinement
        if refinement > 2:
            # With more bases, fewer distributions fit: refine further where two steps did not suffice.
            means += int(2 * np.sqrt(bases))
            concentrations += int(np.sqrt(bases) / 2)
        return Resolution(0.6 / 1.4 ** (refinement - 1), means, concentrations, region, cells)

    def accuracy(self, refinement: int, bases: int) -> Accuracy:
        """Accuracy of likelihoods in a refinement step."""
        # A chain coarser than the first one is not faster: splines would follow its errors.
        step = 1.0 / 1.3 ** max(refinement - 1, 0)
        # A curve that does not fit moves shares far: refinement steps must not share a window.
        reach = 8.0 + 2.0 * max(refinement - 1, 0)
        # Errors of many bases add up, though not all with the same sign.
        return Accuracy(step, reach, 0.03 / np.sqrt(bases) / 1.5 ** (3 * (refinement - 1)))

    def estimate(
        self,
        scores: Scores | AttackCounts,
        model: CurveModel,
        *,
        on_message: OnMessage | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> CurvePosterior:
        """Estimate the posterior with these settings; counts are read as one threshold per base."""
        ranked = Scores.of_counts(scores) if isinstance(scores, AttackCounts) else scores
        ranked.check()
        start = time.perf_counter()
        posterior, farthest = self._first(ranked, model, on_message)
        likelihoods_error = np.inf
        for refinement in range(2, self.most_levels + 1):
            if on_message is not None:
                on_message(f"refinement step {refinement}")
            accuracy = self.accuracy(refinement, len(ranked))
            cells = posterior.accuracy.cells
            tables = likely(posterior.tables, posterior.solution)
            if refinement == 2:  # the same leaks: interpolation was checked when they were chosen
                tables += tuple(
                    table
                    for table in posterior.tables
                    if table.family == REFERENCE and table not in tables
                )
                tables = finer(ranked, tables, accuracy, _heavy(posterior.solution))
            elif likelihoods_error > self.tolerance / 2:
                left = {(table.family, table.rate) for table in posterior.tables}
                components = [c for c in model.components_of(cells) if key_of(c) in left]
                tables = make_tables(ranked, components, model, farthest, accuracy)
            else:
                tables = posterior.tables
            # Only strength distributions that the previous step left.
            region = region_of(posterior.solution, posterior.resolution)
            same = self._posterior(ranked, model, tables, refinement, region, cells)
            likelihoods_error = _difference(posterior, same)
            after = self._divided(same, farthest)
            least = ERROR_OF_CELLS if any(group.edges for group in model.families) else 0.0
            error = max(_difference(posterior, after), least)
            posterior = replace(after, accuracy=replace(after.accuracy, error=error))
            if error <= self.tolerance:
                break
        seconds = time.perf_counter() - start
        return replace(posterior, provenance=replace(posterior.provenance, seconds=seconds))

    def estimate_quickly(self, scores: Scores, model: CurveModel) -> CurvePosterior:
        """A coarse estimate without refinement or error estimate, for studies of thousands of audits."""
        posterior, farthest = self._first(scores, model, None, refinement=0)
        return self._divided(posterior, farthest)

    def _first(
        self, scores: Scores, model: CurveModel, on_message: OnMessage | None, refinement: int = 1
    ) -> tuple[CurvePosterior, float]:
        """The first refinement step, on a long enough axis, and the largest epsilon on it."""
        farthest = min(float(model.epsilon.upper_quantile(PRIOR_TAIL)), LARGEST_CURVE_EPSILON)
        while True:
            accuracy = self.accuracy(refinement, len(scores))
            components = model.components
            tables = make_tables(
                scores, components, model, farthest, accuracy, on_message=on_message
            )
            posterior = self._divided(self._posterior(scores, model, tables, refinement), farthest)
            if farthest >= LARGEST_CURVE_EPSILON or _at_the_end(posterior.solution) < AT_THE_END:
                return posterior, farthest
            farthest = min(LONGER * farthest, LARGEST_CURVE_EPSILON)

    def _divided(self, posterior: CurvePosterior, farthest: float) -> CurvePosterior:
        """The posterior after dividing the cells of shapes that hold much of its probability."""
        scores, model, accuracy = posterior.scores, posterior.model, posterior.accuracy
        most = MOST_IN_CELL / 2 ** max(accuracy.levels - 1, 0)
        cells = divided(posterior.solution, accuracy.cells, most)
        if cells == accuracy.cells:
            return posterior
        tried = {key_of(component) for component in model.components_of(accuracy.cells)}
        tables = posterior.tables + make_tables(
            scores,
            [c for c in model.components_of(cells) if key_of(c) not in tried],
            model,
            farthest,
            self.accuracy(accuracy.levels, len(scores)),
            known=posterior.tables,
        )
        return self._posterior(scores, model, tables, accuracy.levels, accuracy.region, cells)

    def _posterior(
        self,
        scores: Scores,
        model: CurveModel,
        tables: tuple[Table, ...],
        refinement: int,
        region: Region = EVERYWHERE,
        cells: Cells | None = None,
    ) -> CurvePosterior:
        """The posterior of one refinement step, with an unknown error."""
        cells = cells or {}
        resolution = self.resolution(refinement, len(scores), region, cells)
        return CurvePosterior(
            scores=scores,
            model=model,
            provenance=Provenance(engine=ENGINE, settings=asdict(self), seconds=0.0),
            engine=self,
            solution=solve(model, tables, resolution),
            tables=tables,
            accuracy=CurveAccuracy(
                error=np.inf,
                tolerance=self.tolerance,
                levels=refinement,
                region=region,
                cells=cells,
            ),
        )


def divided(solution: Solution, cells: Cells, most: float) -> Cells:
    """These cells of shapes, those with a larger share of the probability divided into three."""
    weight: dict[Family, float] = {}
    for component, mass in zip(solution.components, solution.weights.tolist(), strict=True):
        family = component.curves.family
        weight[family] = weight.get(family, 0.0) + mass
    result = dict(cells)
    for group in solution.model.families:
        edges = cells.get(group.name, group.edges)
        heavy = [weight.get(family, 0.0) > most for family, _ in group.members(edges)]
        if edges and any(heavy):
            parts = [
                np.geomspace(low, high, 4 if split else 2)[:-1].tolist()
                for low, high, split in zip(edges[:-1], edges[1:], heavy, strict=True)
            ]
            result[group.name] = (*(edge for part in parts for edge in part), edges[-1])
    return result


def key_of(component: Component) -> tuple[Family, float]:
    """What components with the same likelihoods share."""
    return component.curves.family, component.curves.rate


def _heavy(solution: Solution) -> set[tuple[Family, float]]:
    """The curves that are worth a finer likelihood."""
    return {
        key_of(component)
        for component, weight in zip(solution.components, solution.weights.tolist(), strict=True)
        if weight > LIGHT
    } | {(REFERENCE, component.curves.rate) for component in solution.components}


def _difference(before: CurvePosterior, after: CurvePosterior) -> float:
    """The difference between two refinement steps: of quantiles, or of their probabilities.

    In gaps with little probability, as between two families, a small error moves a quantile far;
    there an error of 0.005 in probability counts as 0.01.
    """
    old, new = (posterior.quantile("epsilon", PROBED) for posterior in (before, after))
    apart = np.abs(old - new) / np.maximum(1.0, new)
    reached = np.array([1 - after.probability_above("epsilon", value) for value in old.tolist()])
    # A quantile at 0 is reached at once.
    missed = np.where(old > 0, np.abs(reached - PROBED), np.inf)
    return float(np.max(np.minimum(apart, 2 * missed)))


def _at_the_end(solution: Solution) -> float:
    """Probability of the largest leaks of any component."""
    leaks = np.exp(solution.axis.rows)
    return float(
        sum(
            mass[:, leaks > 0.8 * solution.grid(number).table.leaks[-1]].sum()
            for number, mass in enumerate(solution.probability)
        )
    )
