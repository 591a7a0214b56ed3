"""One-run audits whose canaries interfere: proofs, bounds and intervals compared with the truth.

Scores of a run are drawn from a mechanism of `interference.py`.  Every method is applied to the same
kind of data, whether or not its assumptions hold there.  Half an hour on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsilometer._arrays import FloatPair
from epsilometer.baselines.catalogue import ScoreEstimator, one_run_fdp_scan, one_run_scan, roc_scan
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates
from epsilometer.baselines.one_run import GaussianDP
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.errors import InputError
from epsilometer.model.families import families_of
from epsilometer.model.mixing import NoMixing
from epsilometer.model.models import CurveModel
from epsilometer.model.scores import Scores
from epsilometer.model.strengths import FixedStrength
from epsilometer.proofs.proof import prove
from studies.interference import (
    Interference,
    Release,
    Separate,
    SharedCapacity,
    SharedLuck,
    SharedNoise,
    SharedScale,
    SpillOver,
)
from studies.runner import Cell, Plan, Tallies, bound_tally, interval_tally
from studies.tables import Row, Tables, flagged, markdown, most, paragraph

BOUNDS, COVERAGE = "bounds.csv", "coverage.csv"
PROOF = "prove"
#: In addition to the proof, in table order; several runs are treated as one set of canaries.
ESTIMATORS: tuple[ScoreEstimator, ...] = (
    one_run_scan(),
    one_run_scan(one_sided=False),
    one_run_fdp_scan(),
    one_run_fdp_scan(GaussianDP()),
    roc_scan(ClopperPearson()),
    roc_scan(GaussianRates()),
)

WHOLE_CURVE, AS_GAUSSIAN = "whole curve", "Gaussian, strength 1"
#: Methods that only assume fair coins.
FAIR_COINS = (PROOF, *(e.label for e in ESTIMATORS if e.one_run and not e.gaussian))

GAUSSIAN_RUN = next(each.label for each in ESTIMATORS if each.one_run and each.gaussian)
INDEPENDENT = tuple(each.label for each in ESTIMATORS if not each.one_run)

#: Whether a method treats canaries as independent, and whether it treats the curve as Gaussian.
ASSUMED = {each.label: (not each.one_run, each.gaussian) for each in ESTIMATORS} | {
    PROOF: (False, False),
    WHOLE_CURVE: (True, False),
    AS_GAUSSIAN: (True, True),
}


@dataclass(frozen=True, kw_only=True)
class OneRunCell(Cell):
    """Canaries of ``training_runs`` runs, ``canaries`` in total, each included by a fair coin."""

    delta: float = 1e-5
    mechanism: Interference
    canaries: int = 1000
    training_runs: int = 1

    def __post_init__(self) -> None:
        per_run, rest = divmod(self.canaries, self.training_runs)
        if rest or per_run % self.mechanism.group:
            raise InputError(
                f"expected runs made of whole clusters of {self.mechanism.group}, got "
                f"canaries={self.canaries} in training_runs={self.training_runs}."
            )

    def draw(self, rng: np.random.Generator) -> list[FloatPair]:
        """Scores of excluded and of included canaries, for each run."""
        runs = []
        for _ in range(self.training_runs):
            member = rng.random(self.canaries // self.training_runs) < 0.5
            scores = self.mechanism.scores(member, rng)
            runs.append((scores[~member], scores[member]))
        return runs

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        return self.audit(self.draw(rng), significance)

    def audit(self, drawn: list[FloatPair], significance: float) -> Tallies:
        """Tallies of one audit, by method."""
        raise NotImplementedError

    def place(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism.name,
            "setting": self.setting(),
            "independent": "yes" if self.mechanism.independent else "no",
            "gaussian": "yes" if self.mechanism.gaussian else "no",
            "delta": self.delta,
            "canaries": self.canaries,
            "training_runs": self.training_runs,
            "true_epsilon": round(self.mechanism.epsilon(self.delta), 6),
        }


def scores_of(drawn: list[FloatPair]) -> Scores:
    """The scores as in an audit: one base per run."""
    without, with_point = zip(*drawn, strict=True)
    return Scores(without=without, with_point=with_point, one_run=True)


@dataclass(frozen=True, kw_only=True)
class OneRunBoundCell(OneRunCell):
    """Proven bounds, by method."""

    chunk: ClassVar[int] = 100
    table: ClassVar[str] = BOUNDS

    def audit(self, drawn: list[FloatPair], significance: float) -> Tallies:
        truth = self.mechanism.epsilon(self.delta)
        without, with_point = map(np.concatenate, zip(*drawn, strict=True))
        auditor = CanaryScoreAuditor(with_point, without)

        def bound_of(label: str, estimator: ScoreEstimator | None) -> float:
            try:
                if estimator is not None:
                    return estimator.lower(auditor, self.delta, significance)
                return prove(scores_of(drawn), delta=self.delta, error=significance).at_least
            except InputError:  # coins that look unfair are refused once in two hundred times
                return 0.0

        methods: dict[str, ScoreEstimator | None] = {PROOF: None}
        methods |= {estimator.label: estimator for estimator in ESTIMATORS}
        return {label: bound_tally(bound_of(label, e), truth) for label, e in methods.items()}


def analysis_models(delta: float) -> dict[str, CurveModel]:
    """The models applied to the scores: the default, and a Gaussian curve with the best attack given."""
    given = CurveModel(
        delta=delta,
        families=families_of("gaussian"),
        mixing=NoMixing(),
        strength=FixedStrength(value=1.0),
    )
    return {WHOLE_CURVE: CurveModel(delta=delta), AS_GAUSSIAN: given}


@dataclass(frozen=True, kw_only=True)
class OneRunIntervalCell(OneRunCell):
    """Intervals of the curve model, which treats canaries as independent."""

    table: ClassVar[str] = COVERAGE

    def audit(self, drawn: list[FloatPair], significance: float) -> Tallies:
        truth, scores = self.mechanism.epsilon(self.delta), scores_of(drawn)
        wanted = [significance, 0.5, 1 - significance]
        tallies = {}
        for label, model in analysis_models(self.delta).items():
            posterior = CurveSettings().estimate_quickly(scores, model)
            tallies[label] = interval_tally(posterior.quantile("epsilon", wanted), truth)
        return tallies


# --- the plan ---------------------------------------------------------------------------------------

#: Everything or nothing: (0, 0.1)-private, and one run in ten has no privacy at all.
CATASTROPHE = Release(probability=0.1, share=1.0)

INTERFERING: tuple[Interference, ...] = (
    Separate(mu=0.0),
    Separate(mu=1.0),
    Separate(mu=2.0),
    *(
        SharedNoise(mu=1.0, group=group, correlation=correlation)
        for group in (10, 100)
        for correlation in (0.5, 0.9)
    ),
    SpillOver(mu=1.0, group=10, spill=0.3),
    SharedCapacity(mu=2.0, group=10, room=2),
    SharedScale(strong=2.0, weak=0.5, share=0.5),
    SharedScale(strong=2.0, weak=0.5, share=0.1),
    SharedLuck(mu=1.0, group=100),
    SharedLuck(mu=1.0, group=1000),
    SharedLuck(mu=2.0, group=1000),
)

#: A false-alarm rate of 10 % must be distinguished from 5 %: it has more runs.
AT_A_TENTH: dict[str, Any] = {"delta": 0.1, "mechanism": CATASTROPHE}


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, independent canaries, shared luck and the catastrophic failure."""
    cells: list[Cell] = []
    if quick:
        for delta, mechanism in (
            (1e-5, Separate(mu=1.0)),
            (1e-5, SharedLuck(mu=1.0, group=400)),
            (0.1, CATASTROPHE),
        ):
            place: dict[str, Any] = {"delta": delta, "mechanism": mechanism, "canaries": 400}
            cells += [OneRunBoundCell(**place, runs=200), OneRunIntervalCell(**place, runs=40)]
        return Plan(cells=tuple(cells))
    noise = SharedNoise(mu=1.0, group=10, correlation=0.5)
    places: list[dict[str, Any]] = [{"mechanism": mechanism} for mechanism in INTERFERING]
    places += [{"delta": 0.1, "mechanism": SharedLuck(mu=1.0, group=1000)}, AT_A_TENTH]
    places += [{"mechanism": noise, "canaries": canaries} for canaries in (200, 5000)]
    places += [AT_A_TENTH | {"canaries": 200}]
    # The same number of canaries in four runs.
    several: tuple[Interference, ...] = (
        Separate(mu=1.0),
        SharedScale(strong=2.0, weak=0.5, share=0.5),
        SharedLuck(mu=1.0, group=250),
    )
    places += [{"mechanism": mechanism, "training_runs": 4} for mechanism in several]
    places += [AT_A_TENTH | {"training_runs": 4}]
    more: list[dict[str, Any]] = [
        {"mechanism": SpillOver(mu=1.0, group=100, spill=0.1)},
        {"mechanism": SharedCapacity(mu=2.0, group=1000, room=250)},
        # A burst (a fifth of the coins in every second run) and its independent counterpart.
        {"delta": 0.1, "mechanism": Release(probability=0.5, share=0.2)},
        {"delta": 0.1, "mechanism": Release(probability=1.0, share=0.1)},
        AT_A_TENTH | {"canaries": 5000},
    ]
    cells += [
        OneRunBoundCell(**place, runs=2000 if place == AT_A_TENTH else 400)
        for place in [*places, *more]
    ]
    cells += [OneRunIntervalCell(**place, runs=200) for place in places]
    return Plan(cells=tuple(cells))


# --- the page ---------------------------------------------------------------------------------------


def interferes(row: Row) -> bool:
    """Whether the method treats canaries as independent although they are not."""
    return ASSUMED[row.method][0] and row.independent != "yes"


def wrong_curve(row: Row) -> bool:
    """Whether the method treats the curve as Gaussian although it is not."""
    return ASSUMED[row.method][1] and row.gaussian != "yes"


def holds(row: Row) -> bool:
    """Whether the assumptions of the method hold."""
    return not (interferes(row) or wrong_curve(row))


def _size(row: Row) -> str:
    if row.training_runs == 1:
        return f"{row.canaries:,}"
    return f"{row.training_runs} x {row.canaries // row.training_runs:,}"


def _place(row: Row) -> str:
    return f"{row.name}, {_size(row)} canaries, δ = {row.delta:g}"


def _first_cells(row: Row) -> list[str]:
    return [row.name, f"{row.delta:g}", _size(row), f"{row.true_epsilon:.2f}"]


def _by_place(rows: list[Row]) -> list[dict[str, Row]]:
    """Rows by method, for each setting."""
    places: dict[str, dict[str, Row]] = {}
    for row in rows:
        places.setdefault(_place(row), {})[row.method] = row
    return list(places.values())


def interval_table(rows: list[Row], error: float) -> str:
    """Intervals of both models, one row per setting."""
    own = ("covers", "above", "below", "mean 5/50/95 %")
    lines = []
    for models in _by_place(rows):
        cells = _first_cells(models[WHOLE_CURVE])
        for row in (models[WHOLE_CURVE], models[AS_GAUSSIAN]):
            cells.append(flagged(row.percent("covers"), row.covers_as_stated(error)))
            cells += [row.percent("above"), row.percent("below"), row.middle]
        lines.append(cells)
    header = ["mechanism", "δ", "canaries", "true ε", *own, *(f"Gaussian: {x}" for x in own)]
    return markdown(header, lines)


def bound_table(rows: list[Row], error: float) -> str:
    """False refutations and mean bound of each method."""
    lines = []
    for methods in _by_place(rows):
        cells = _first_cells(methods[PROOF])
        for row in methods.values():
            shown = row.percent("above") if holds(row) else f"*{row.percent('above')}*"
            cells.append(f"{flagged(shown, row.fits('above', error))} ({row.mean_at_least:.2f})")
        lines.append(cells)
    return markdown(["mechanism", "δ", "canaries", "true ε", *methods], lines)


def bound_text(rows: list[Row], error: float) -> str:
    """Summary of the table of bounds."""
    said = []
    for names, what in (
        (FAIR_COINS, "Methods that only assume fair coins (the proof, Steinke's bound, f-DP)"),
        ((GAUSSIAN_RUN,), "The bound for Gaussian f-DP, if the curve is Gaussian"),
        (INDEPENDENT, "ROC scans, if canaries are independent and the curve is as assumed"),
    ):
        own = [row for row in rows if row.method in names and holds(row)]
        worst = most(own, "above")
        broken = sum(not row.fits("above", error) for row in own)
        end = f"**too often** in {broken} rows" if broken else "never significantly too often"
        at = f" ({worst.method}: {_place(worst)})" if worst.above else ""
        said.append(
            f"{what}: above the true ε in at most {worst.percent('above')} of {worst.runs} "
            f"audits{at}; {end}."
        )
    for method in INDEPENDENT:
        own = [r for r in rows if r.method == method and interferes(r) and not wrong_curve(r)]
        worst = most(own, "above")
        caught = ": the control was NOT detected" if worst.fits("above", error) else ""
        said.append(
            f"*{method}*, if canaries interfere: up to {worst.percent('above')} "
            f"({_place(worst)}){caught}."
        )
    worst = most([row for row in rows if row.method == GAUSSIAN_RUN and wrong_curve(row)], "above")
    said.append(
        f"*{GAUSSIAN_RUN}*, if the curve is not Gaussian: up to {worst.percent('above')} "
        f"({_place(worst)})."
    )
    return paragraph(" ".join(said))


def interval_text(rows: list[Row], error: float) -> str:
    """Summary of the table of intervals."""
    said = []
    for name, what in (
        (WHOLE_CURVE, "Curve model"),
        (AS_GAUSSIAN, "Gaussian family and strength 1 fixed, if true"),
    ):
        own = [row for row in rows if row.method == name]
        # A single family has no prior probability of no leak, so its intervals never contain 0.
        apart = [row for row in own if holds(row) and (row.true_epsilon or name == WHOLE_CURVE)]
        least = min(apart, key=lambda row: row.share("covers"))
        broken = sum(not row.covers_as_stated(error) for row in apart)
        together = [row for row in own if interferes(row) and not wrong_curve(row)]
        high, low = most(together, "above"), most(together, "below")
        said.append(
            f"**{what}.** Independent canaries: covers {least.percent('covers')} or more"
            f"{f', **not met** in {broken}' if broken else ''}. Interfering: above the true ε in up "
            f"to {high.percent('above')} ({_place(high)}), below in up to {low.percent('below')} "
            f"({_place(low)})."
        )
    return paragraph(" ".join(said))


def several_text(rows: list[Row]) -> str:
    """The same number of canaries in one run and in several."""

    def alike(row: Row) -> tuple[Any, ...]:
        # Clusters that are whole runs become smaller with them.
        whole = f"group={row.canaries // row.training_runs}"
        setting = " ".join("whole run" if part == whole else part for part in row.setting.split())
        return row.mechanism, setting, row.delta, row.canaries, row.method

    alone = {alike(row): row for row in rows if row.training_runs == 1}
    parts = []
    for row in rows:
        before = alone.get(alike(row))
        if row.training_runs > 1 and row.method == WHOLE_CURVE and before is not None:
            parts.append(
                f"{row.mechanism} ({alike(row)[1]}): covers {before.percent('covers')} in one run, "
                f"{row.percent('covers')} in {row.training_runs} (above {before.percent('above')} "
                f"and {row.percent('above')})"
            )
    return paragraph(f"Curve model, the same total number of canaries: {'; '.join(parts)}.")


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Text and tables of the page, by mark."""
    bounds, intervals = tables[BOUNDS], tables[COVERAGE]
    return {
        "one-run-bound-text": bound_text(bounds, significance),
        "one-run-bounds": bound_table(bounds, significance),
        "one-run-interval-text": interval_text(intervals, significance),
        "one-run-intervals": interval_table(intervals, significance),
        "one-run-several": several_text(intervals),
    }
