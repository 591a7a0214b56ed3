"""Every bound on known mechanisms, and the count model: under its own assumptions and elsewhere.

Under the model itself the posterior probability below the true value is uniform on [0, 1] if and only if
model and engine agree (Cook, Gelman and Rubin 2006; Talts et al. 2018); intervals of any level then have
their stated coverage.  An hour and a half on two cores.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from scipy.stats import kstest

from epsilometer._arrays import FloatArray, IntArray
from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES, ScoreEstimator, one_run_scan
from epsilometer.baselines.estimator import Kind
from epsilometer.baselines.scores import Bonferroni, CanaryScoreAuditor
from epsilometer.checks.selftest import CONTROLS
from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
from epsilometer.errors import ContradictionError, InputError
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.models import CountModel
from epsilometer.model.priors import HalfNormal
from studies.draws import counts_of, draw_counts, draw_model, draw_scores
from studies.mechanisms import MECHANISMS, LaplaceMechanism, Mechanism, Null
from studies.runner import Cell, Plan, Tallies
from studies.tables import Row, Tables, flagged, markdown, most

BOUNDS, COVERAGE = "bounds.csv", "coverage.csv"
POSTERIOR = "Epsilometer, binomial"
#: jax_privacy's correction, for comparison.
PEERS_RULE = one_run_scan(Bonferroni())

SCORE_ESTIMATORS: tuple[ScoreEstimator, ...] = (*FROM_SCORES, PEERS_RULE, *CONTROLS)
#: By label: the kind, and whether the estimate concerns a covering Gaussian mechanism.
ESTIMATORS = {
    POSTERIOR: (Kind.CREDIBLE, False),
    **{estimator.label: (estimator.kind, estimator.gaussian) for estimator in FROM_COUNTS},
    **{estimator.label: (estimator.kind, estimator.gaussian) for estimator in SCORE_ESTIMATORS},
}

#: Labels of deliberately wrong estimators.
DELIBERATE = frozenset(estimator.label for estimator in CONTROLS)

#: Intervals that are counted under the model itself, in per cent.
LEVELS = (50, 80, 90, 95)

#: Scale of the within correlation; with 2,000 trials, rounding normal counts is negligible.
CORRELATED_SCALE = 2e-4

#: A bound at most this far above the truth does not count as above it.
ABOVE_THE_TRUTH = 1e-9

COARSE = ExactSettings(tolerance=0.02)


def _tally(low: FloatArray, high: FloatArray, truth: float) -> dict[str, Any]:
    """The ends of several runs; ``high`` is infinite if there is no upper end."""
    finite = np.isfinite(high)
    return {
        "runs": len(low),
        "above": int(np.sum(low > truth + ABOVE_THE_TRUTH)),
        "below": int(np.sum(high < truth - ABOVE_THE_TRUTH)),
        "sum_low": float(np.sum(low)),
        "bounded": int(finite.sum()),
        "sum_width": float(np.sum(high[finite] - low[finite])),
    }


@dataclass(frozen=True, kw_only=True)
class _Known(Cell):
    """Attacks on a known mechanism."""

    delta: float = 1e-5
    mechanism: Mechanism
    power: float

    def truth(self, gaussian: bool) -> float:
        """The quantity that an estimator estimates."""
        if gaussian:
            return float(epsilon_of_gaussian(self.mechanism.separation(), self.delta))
        return self.mechanism.epsilon(self.delta)

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        described = self.described()
        for name, (kind, gaussian) in ESTIMATORS.items():
            if name not in tallies:
                continue
            tally = tallies[name]
            width = tally["sum_width"] / tally["bounded"] if tally["bounded"] else math.inf
            yield (
                BOUNDS,
                {
                    "mechanism": self.mechanism.name,
                    "setting": self.setting(),
                    "delta": self.delta,
                    "power": self.power,
                    "bases": described.get("bases", 1),
                    "trials": described.get("trials") or described["canaries"],
                    "false_positive_rate": described.get("false_positive_rate", "scores"),
                    "estimator": name,
                    "kind": str(kind),
                    "truth": round(self.truth(gaussian), 6),
                    "runs": tally["runs"],
                    "above": tally["above"],
                    "below": tally["below"],
                    "mean_low": round(tally["sum_low"] / max(tally["runs"], 1), 6),
                    "mean_width": round(width, 6),
                },
            )


@dataclass(frozen=True, kw_only=True)
class CountsCell(_Known):
    """Counts of attacks, for estimators from counts and optionally the posterior.

    ``rate`` is the false-positive rate of :func:`draw_counts`.
    """

    rate: float | None
    trials: int
    bases: int
    posterior_runs: int = 0

    chunk: ClassVar[int] = 2500

    def parts(self) -> dict[str, tuple[int, int]]:
        return super().parts() | {"posterior": (self.posterior_runs, 10)}

    def judge(self, part: str, significance: float, runs: int, rng: np.random.Generator) -> Tallies:
        shape = runs, self.bases
        x, y = draw_counts(
            self.mechanism, self.rate, power=self.power, trials=self.trials, shape=shape, rng=rng
        )
        return (self._posterior if part == "posterior" else self._estimators)(x, y, significance)

    def _estimators(self, x: IntArray, y: IntArray, significance: float) -> Tallies:
        # Few distinct pairs of counts occur; each is evaluated once.
        drawn = np.stack([x.ravel(), y.ravel()], axis=1)
        pairs, where = np.unique(drawn, axis=0, return_inverse=True)
        counts = counts_of(pairs[:, 0], pairs[:, 1], self.trials)
        tallies = {}
        for estimator in FROM_COUNTS:
            # The largest over all bases has error probability ``significance`` at each end; see
            # `best_interval`.
            low, _ = estimator.interval(counts, self.delta, 2 * significance / self.bases)
            _, high = estimator.interval(counts, self.delta, 2 * significance)
            tallies[estimator.label] = _tally(
                low[where].reshape(x.shape).max(axis=1),
                high[where].reshape(x.shape).max(axis=1),
                self.truth(estimator.gaussian),
            )
        return tallies

    def _posterior(self, x: IntArray, y: IntArray, significance: float) -> Tallies:
        model, ends = CountModel(delta=self.delta), []
        for own_x, own_y in zip(x, y, strict=True):
            # Counts that contradict the model have no posterior and are skipped.
            with contextlib.suppress(ContradictionError):
                posterior = estimate_exact(counts_of(own_x, own_y, self.trials), model, COARSE)
                ends.append(posterior.quantile("epsilon", [significance, 1 - significance]))
        low, high = np.reshape(ends, (-1, 2)).T
        return {POSTERIOR: _tally(low, high, self.truth(gaussian=False))}


@dataclass(frozen=True, kw_only=True)
class ScoresCell(_Known):
    """Scores of canaries, for estimators from scores."""

    canaries: int

    chunk: ClassVar[int] = 100

    def judge(self, part: str, significance: float, runs: int, rng: np.random.Generator) -> Tallies:
        low = np.zeros((len(SCORE_ESTIMATORS), runs))
        for run in range(runs):
            drawn = draw_scores(self.mechanism, power=self.power, canaries=self.canaries, rng=rng)
            auditor = CanaryScoreAuditor(*drawn)
            for number, estimator in enumerate(SCORE_ESTIMATORS):
                # Coins that look unfair are refused: no bound.
                with contextlib.suppress(InputError):
                    low[number, run] = estimator.lower(auditor, self.delta, significance)
        no_end = np.full(runs, np.inf)
        return {
            estimator.label: _tally(row, no_end, self.truth(estimator.gaussian))
            for estimator, row in zip(SCORE_ESTIMATORS, low, strict=True)
        }


@dataclass(frozen=True, kw_only=True)
class ModelCell(Cell):
    """Parameters from the prior, counts from the model itself: coverage must be exact."""

    delta: float = 0.01
    likelihood: str
    bases: int
    trials: int

    def model(self) -> CountModel:
        """The model that generates and analyses the counts."""
        if self.likelihood == "binomial":
            return CountModel(delta=self.delta)
        likelihood = CorrelatedNormal(within_correlation_scale=CORRELATED_SCALE)
        return CountModel(delta=self.delta, epsilon=HalfNormal(scale=1.0), likelihood=likelihood)

    def judge(self, part: str, significance: float, runs: int, rng: np.random.Generator) -> Tallies:
        """Posterior probability below the truth for epsilon and the strength, run by run."""
        model, ranks = self.model(), {"epsilon": list[float](), "strength": list[float]()}
        for _ in range(runs):
            truth, counts = draw_model(model, self.bases, self.trials, rng)
            posterior = estimate_exact(counts, model, COARSE)
            for name, values in ranks.items():
                values.append(round(1 - posterior.probability_above(name, truth[name]), 6))
        return {"ranks": ranks}

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        for parameter, found in sorted(tallies["ranks"].items()):
            ranks = np.array(found)
            covered = {
                f"covered_{level}": int(np.sum(np.abs(ranks - 0.5) <= level / 200))
                for level in LEVELS
            }
            columns = {"likelihood": self.likelihood, "bases": self.bases, "trials": self.trials}
            columns |= {"parameter": parameter, "runs": len(ranks)} | covered
            uniformity = round(float(kstest(ranks, "uniform").pvalue), 6)
            yield COVERAGE, columns | {"uniformity": uniformity}


def _counted(mechanism: Mechanism, power: float, trials: int, bases: int) -> CountsCell:
    """Attacks at one false-positive rate; with many trials the posterior would take too long."""
    return CountsCell(
        mechanism=mechanism,
        rate=0.1,
        power=power,
        trials=trials,
        bases=bases,
        runs=10_000,
        posterior_runs=100 if trials == 100 else 0,
    )


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, every estimator and the control on the null and on Laplace epsilon = 1."""
    if quick:
        cells: list[Cell] = [ModelCell(likelihood="binomial", bases=5, trials=100, runs=60)]
        for mechanism in MECHANISMS[:2]:
            cells += [
                replace(_counted(mechanism, 1.0, 100, bases), runs=5000, posterior_runs=20)
                for bases in (1, 5)
            ]
            cells.append(ScoresCell(mechanism=mechanism, power=1.0, canaries=400, runs=400))
        return Plan(cells=tuple(cells))
    cells = [
        ModelCell(likelihood=likelihood, bases=bases, trials=trials, runs=runs)
        for likelihood, trials, many in (
            ("binomial", 100, (1000, 800, 300)),
            ("correlated", 2000, (400, 250, 120)),
        )
        for bases, runs in zip((1, 5, 20), many, strict=True)
    ]
    cells.append(ScoresCell(mechanism=Null(), power=1.0, canaries=20_000, runs=400, delta=1e-9))
    for mechanism in MECHANISMS:
        for power in (1.0,) if mechanism == Null() else (1.0, 0.5):
            for trials in (100, 1000):
                cells += [_counted(mechanism, power, trials, bases) for bases in (1, 5, 20)]
            cells.append(replace(_counted(mechanism, power, 100, 20), rate=None))
            # More runs where stated errors are checked closely, fewer where a run takes long.
            much = mechanism in (Null(), LaplaceMechanism(1.0)) and power == 1
            cells += [
                ScoresCell(mechanism=mechanism, power=power, canaries=canaries, runs=runs)
                for canaries, runs in ((400, 10_000 if much else 500), (4000, 200))
            ]
    return Plan(cells=tuple(cells))


# --- the page ---------------------------------------------------------------------------------------


def is_bound(row: Row) -> bool:
    """Whether the estimator states a bound, whose error rate is limited."""
    return row.kind in (Kind.EXACT_BOUND, Kind.APPROXIMATE_BOUND)


def _place(row: Row) -> str:
    if row.false_positive_rate == "scores":
        return f"{row.name}, {row.trials:,} canaries, power {row.power:g}"
    return f"{row.name}, {row.bases} x {row.trials:,} trials, power {row.power:g}"


def by_estimator(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows of bounds by estimator, in the order of the catalogue."""
    found = sorted(filter(is_bound, rows), key=lambda row: list(ESTIMATORS).index(row.estimator))
    return {name: list(own) for name, own in groupby(found, key=lambda row: row.estimator)}


def _shown(estimator: str) -> str:
    return f"*{estimator}*" if estimator in DELIBERATE else estimator


def _bounds_table(rows: list[Row], significance: float) -> str:
    """Worst failure rate and tightness of each bound."""
    lines = []
    for estimator, own in by_estimator(rows).items():
        worst = most(own, "above")
        near = [row.mean_low / row.truth for row in own if row.truth > 0 and row.power == 1]
        lines.append(
            [
                _shown(estimator),
                worst.kind,
                len(own),
                worst.percent("above"),
                _place(worst) if worst.above else "-",
                sum(not row.fits("above", significance) for row in own),
                f"{np.median(near):.2f}" if near else "",
            ]
        )
    header = ["estimator", "kind", "settings", "worst failure rate", "where", "too often in"]
    return markdown([*header, "tightness"], lines)


def _required_table(rows: list[Row], significance: float) -> str:
    """Failures on the null and on Laplace epsilon = 1, at the sizes with most runs."""
    lines = []
    largest = max(row.runs for row in rows)
    for estimator, own in by_estimator(rows).items():
        often = [row for row in own if row.runs == largest and row.power == 1]
        null = [row for row in often if row.mechanism == "null"]
        laplace = [r for r in often if (r.mechanism, r.setting) == ("Laplace", "pure_epsilon=1")]
        if null and laplace:
            worst = [most(null, "above"), most(laplace, "above")]
            cells = [flagged(r.percent("above"), r.fits("above", significance)) for r in worst]
            lines.append([_shown(estimator), *cells, f"{largest:,}"])
    return markdown(["estimator", "null, worst", "Laplace ε = 1, worst", "runs each"], lines)


def _coverage_table(rows: list[Row]) -> str:
    """Coverage of the posterior under its own model."""
    header = ["likelihood", "bases", "parameter", "runs", *(f"{level} %" for level in LEVELS)]
    return markdown(
        [*header, "p (ranks uniform)"],
        [
            [row.likelihood, row.bases, row.parameter, f"{row.runs:,}"]
            + [row.percent(f"covered_{level}") for level in LEVELS]
            + [f"{row.uniformity:.3f}"]
            for row in rows
        ],
    )


def _misfit_table(rows: list[Row]) -> str:
    """The posterior where attacks are not uniform on the ring."""
    lines = []
    for each in rows:
        if each.estimator == POSTERIOR:
            row = each.changed(covers=each.runs - each.above - each.below)
            lines.append(
                [
                    row.name,
                    f"{row.power:g}",
                    row.bases,
                    row.false_positive_rate,
                    f"{row.truth:.3g}",
                    row.runs,
                    *(row.percent(column) for column in ("covers", "above", "below")),
                    f"{row.mean_low:.3g}",
                    f"{row.mean_width:.3g}",
                ]
            )
    names = "mechanism|power|bases|false-positive rate|true ε|runs|interval covers|above|below"
    return markdown([*names.split("|"), "mean lower end", "mean width"], lines)


def _peers_table(rows: list[Row], significance: float) -> str:
    """jax_privacy's correction on null scores, compared with ours."""
    null = [row for row in rows if row.mechanism == "null" and row.false_positive_rate == "scores"]
    theirs = sorted(
        (row for row in null if row.estimator == PEERS_RULE.label), key=lambda row: row.trials
    )
    ours = {row.trials: row for row in null if row.estimator == "one-run scan"}
    return markdown(
        ["canaries", "δ", "runs", "jax_privacy's correction", "ranks fixed in advance"],
        [
            [f"{row.trials:,}", f"{row.delta:g}", f"{row.runs:,}"]
            + [flagged(row.percent("above"), row.fits("above", significance))]
            + [ours[row.trials].percent("above")]
            for row in theirs
        ],
    )


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Tables of the page, by mark."""
    bounds = tables[BOUNDS]
    return {
        "bounds": _bounds_table(bounds, significance),
        "required": _required_table(bounds, significance),
        "coverage": _coverage_table(tables[COVERAGE]),
        "misfit": _misfit_table(bounds),
        "peers": _peers_table(bounds, significance),
    }
