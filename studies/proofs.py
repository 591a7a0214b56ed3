"""Proofs on known mechanisms: how often a true claim is refuted, and the power against a false one.

A true claim is tested after every pair of models, and counts as refuted if any of these tests refutes
it. The control is the Clopper-Pearson bound, checked equally often.  Half an hour on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.baselines.estimator import best_base
from epsilometer.baselines.intervals import ClopperPearson
from epsilometer.baselines.scores import Bonferroni, CanaryScoreAuditor, Split
from epsilometer.model.counts import AttackCounts
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.model.scores import Scores
from epsilometer.proofs.canaries import OneRunTest
from epsilometer.proofs.claim_tests import FixedCounts
from epsilometer.proofs.pairs import PairTest
from epsilometer.proofs.refuting import largest_refuted
from studies import adversaries
from studies.adversaries import ADVERSARIES, DROPPED, HALF_DROPPED
from studies.draws import counts_of, draw_bases
from studies.mechanisms import (
    MECHANISMS,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)
from studies.runner import Cell, Plan, Tallies, columns_of
from studies.tables import Row, Tables, flagged, markdown, most, paragraph

REFUTATIONS, POWER, LIMIT = "refutations.csv", "power.csv", "limit.csv"
PROOF, PEEKING = "proof, any time", "control: Clopper-Pearson at every look"
ORDERED, ORACLE = "proof, planned order", "oracle"
COUNTED, SCAN, SPLIT = "proof from counts", "ROC scan, Clopper-Pearson", "ROC scan, split"
FIXED, ONE_RUN, STEINKE = "Clopper-Pearson, best base", "one run, f-DP", "one run, Steinke"
#: jax_privacy's scan of the vertices of the ROC hull: a smaller correction than the choice needs.
PEER = "*jax_privacy, ROC scan*"
#: Columns of the tables of power.
METHODS = (PROOF, ORDERED, COUNTED, FIXED, SCAN, SPLIT, PEER, ONE_RUN, STEINKE)

#: False-positive rate of the threshold that is fixed in advance for Clopper-Pearson.
CUT = 0.1

#: For each base, whether each model is called a member, without and with the point.
Calls = list[tuple[BoolArray, BoolArray]]


def path(scores: Scores, epsilon: float, delta: float) -> FloatArray:
    """Log e-value against a claim after each pair of models, base by base."""
    return PairTest.of(scores.bases).path(epsilon, delta)


def ordered(scores: Scores) -> PairTest:
    """The proof of bases whose order was planned."""
    sizes = [len(scores), int(scores.trials_h0.min())]
    return PairTest.of(scores.bases, order=PlannedOrder.of([sizes], np.arange(len(scores))))


@cache
def threshold(mechanism: Mechanism) -> float:
    """A threshold that is exceeded with probability CUT without the point, as closely as ties allow."""
    rng = np.random.default_rng(0)
    reference = mechanism.scores(np.zeros(100_000, dtype=bool), rng)
    cut = float(np.quantile(reference, 1 - CUT, method="lower"))
    if (reference > cut).mean() == 0:  # ties account for the whole rate
        return float(np.min(reference))
    return cut


def called(scores: Scores, mechanism: Mechanism) -> Calls:
    """The decisions of a threshold that was fixed in advance."""
    cut = threshold(mechanism)  # type: ignore[arg-type]  # mechanisms are frozen
    return [tuple(side > cut for side in base.in_training_order) for base in scores.bases]  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class _Claimed(Cell):
    """A claim about a known mechanism, tested with several bases."""

    delta: float = 1e-5
    mechanism: Mechanism
    bases: int

    def place(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism.name,
            "setting": self.setting(),
            "true_epsilon": round(self.mechanism.epsilon(self.delta), 6),
        }


@dataclass(frozen=True, kw_only=True)
class RefutationCell(_Claimed):
    """A true claim, tested after every pair of models, for all bases in parallel."""

    models: int

    chunk: ClassVar[int] = 100
    table: ClassVar[str] = REFUTATIONS

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        truth = self.mechanism.epsilon(self.delta)
        scores = draw_bases(self.mechanism, bases=self.bases, models=self.models, rng=rng)
        refuted = {
            PROOF: path(scores, truth, self.delta).max() >= -np.log(significance),
            ORDERED: ordered(scores).refutes(truth, self.delta, significance),
            PEEKING: self._peeked(scores, truth, significance),
        }
        return {method: {"runs": 1, "refuted": int(found)} for method, found in refuted.items()}

    def _peeked(self, scores: Scores, truth: float, significance: float) -> bool:
        """Whether any base's bound, with the error shared by bases, ever exceeds the truth."""
        looks = np.arange(1, self.models + 1)
        for without, with_point in called(scores, self.mechanism):
            counts = AttackCounts(
                false_positives=np.cumsum(without),
                trials_h0=looks,
                false_negatives=np.cumsum(~with_point),
                trials_h1=looks,
            )
            bound = ClopperPearson().lower(counts, self.delta, significance / self.bases)
            if (bound > truth).any():
                return True
        return False

    def place(self) -> dict[str, Any]:
        return super().place() | {"bases": self.bases, "models": self.models}


@dataclass(frozen=True, kw_only=True)
class PowerCell(_Claimed):
    """A false claim, ``factor`` times the truth, and the bound of each method with ``sizes`` models."""

    sizes: tuple[int, ...]
    factor: float = 0.5

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        """Tallies by method and size, as in ``proof, any time @ 100``."""
        claim = self.factor * self.mechanism.epsilon(self.delta)
        whole = draw_bases(self.mechanism, bases=self.bases, models=max(self.sizes), rng=rng)
        decided = called(whole, self.mechanism)
        tallies = {}
        for size in self.sizes:
            for label, bound in self._methods(whole, decided, size).items():
                least = bound(significance)
                tally = {"runs": 1, "refuted": int(claim < least), "sum_at_least": least}
                tallies[f"{label} @ {size}"] = tally
        return tallies

    def _methods(
        self, whole: Scores, decided: Calls, size: int
    ) -> dict[str, Callable[[float], float]]:
        """Every method, as a function of its error probability."""
        sides = [tuple(side[:size] for side in base.in_training_order) for base in whole.bases]
        scores = Scores(without=[s[0] for s in sides], with_point=[s[1] for s in sides])
        counts = counts_of(
            np.array([without[:size].sum() for without, _ in decided]),
            np.array([(~with_point[:size]).sum() for _, with_point in decided]),
            size,
        )
        auditors = [CanaryScoreAuditor(with_point, without) for without, with_point in sides]
        delta = self.delta

        def scanned(error: float, *, one_sided: bool = False, **how: Any) -> float:
            share, rule = error / len(auditors), ClopperPearson(one_sided=one_sided)
            return max(each.epsilon_lower(rule, share, delta, **how) for each in auditors)

        methods: dict[str, Callable[[float], float]] = {
            PROOF: lambda error: largest_refuted(PairTest.of(scores.bases), delta, error),
            ORDERED: lambda error: largest_refuted(ordered(scores), delta, error),
            COUNTED: lambda error: largest_refuted(FixedCounts(counts=counts), delta, error),
            FIXED: lambda error: best_base(ClopperPearson(), counts, delta, error),
            SCAN: scanned,
            SPLIT: lambda error: scanned(error, threshold_strategy=Split()),
            PEER: lambda error: scanned(error, one_sided=True, threshold_strategy=Bonferroni()),
        }
        if self.bases == 1:
            # As many scores as canaries of one run: exactly half of them included, as a fair coin may
            # do.
            run = Scores.of_canaries(sides[0][1], sides[0][0])
            methods[ONE_RUN] = lambda error: OneRunTest(scores=run).bound(delta, error)
            methods[STEINKE] = lambda error: auditors[0].epsilon_one_run(error, delta)
        return methods

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        place = self.place()
        place |= {"claim": round(self.factor * place["true_epsilon"], 6), "bases": self.bases}
        for name, tally in tallies.items():
            method, _, size = name.rpartition(" @ ")
            yield POWER, place | {"models": int(size), "method": method} | columns_of(tally)


@cache
def best_rate(mechanism: Mechanism, trials: int, delta: float, error: float) -> float:
    """The false-positive rate at which Clopper-Pearson proves most on average."""
    rng = np.random.default_rng(0)
    rates = np.concatenate([np.geomspace(1e-5, 0.1, 60), np.linspace(0.11, 0.9, 80)])
    if isinstance(mechanism, RandomisedResponse):
        rates = np.array([1 / (1 + np.exp(mechanism.pure_epsilon))])
    means = [_at_rate(mechanism, rate, trials, delta, error, rng, 400).mean() for rate in rates]
    return float(rates[int(np.argmax(means))])


def _at_rate(
    mechanism: Mechanism,
    rate: float,
    trials: int,
    delta: float,
    error: float,
    rng: np.random.Generator,
    runs: int,
) -> FloatArray:
    """Clopper-Pearson's bound at a threshold with this false-positive rate."""
    missed = np.clip(mechanism.least_beta(rate), 0.0, 1.0)
    counts = counts_of(rng.binomial(trials, rate, runs), rng.binomial(trials, missed, runs), trials)
    return ClopperPearson().lower(counts, delta, error)


@dataclass(frozen=True, kw_only=True)
class LimitCell(_Claimed):
    """Bases of which some leak; beside an oracle who knew the best threshold and these bases."""

    leaking: int
    models: int

    table: ClassVar[str] = LIMIT

    def judge_one(self, significance: float, rng: np.random.Generator) -> Tallies:
        sides = []
        for base in rng.permutation(self.bases):
            mechanism = self.mechanism if base < self.leaking else Null()
            drawn = draw_bases(mechanism, bases=1, models=self.models, rng=rng)
            sides.append(drawn.bases[0].in_training_order)
        scores = Scores(without=[a for a, _ in sides], with_point=[b for _, b in sides])
        trials, delta = self.leaking * self.models, self.delta
        rate = best_rate(self.mechanism, trials, delta, significance)  # type: ignore[arg-type]  # frozen
        known = _at_rate(self.mechanism, rate, trials, delta, significance, rng, 1)
        bounds = {
            PROOF: largest_refuted(PairTest.of(scores.bases), delta, significance),
            ORDERED: largest_refuted(ordered(scores), delta, significance),
            ORACLE: float(known[0]),
        }
        return {name: {"runs": 1, "sum_at_least": bound} for name, bound in bounds.items()}

    def place(self) -> dict[str, Any]:
        return super().place() | {
            "leaking": self.leaking,
            "bases": self.bases,
            "models": self.models,
        }


#: Models per side of one base at which methods are compared.
PAIRS = (100, 200, 400, 800, 1600)


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, the null and randomised response, whose tight claim is easily refuted."""
    cells: list[Cell]
    response = RandomisedResponse(1.0)
    if quick:
        # The control needs many looks to be caught.
        cells = [
            RefutationCell(mechanism=Null(), bases=1, models=100, runs=400),
            RefutationCell(mechanism=response, bases=1, models=1000, runs=500),
        ]
        cells.append(PowerCell(mechanism=response, bases=1, sizes=(100, 400), runs=10))
        cells.append(LimitCell(mechanism=response, leaking=2, bases=5, models=100, runs=5))
        cells += adversaries.cells(quick=True)
        return Plan(cells=tuple(cells))
    cells = [
        # Without a leak the rate is nearest to the error.
        RefutationCell(mechanism=mechanism, bases=bases, models=models, runs=runs)
        for mechanism, runs in ((each, 10_000 if each == Null() else 2_000) for each in MECHANISMS)
        for bases, models in ((1, 100), (5, 100), (1, 1000))
    ]
    leaking = [mechanism for mechanism in MECHANISMS if mechanism != Null()]
    cells += [PowerCell(mechanism=each, bases=1, sizes=PAIRS, runs=20) for each in leaking]
    cells += [
        PowerCell(mechanism=each, bases=bases, sizes=(100,), runs=40)
        for each in leaking
        for bases in (5, 20)
    ]
    cells += _limits() + adversaries.cells()
    return Plan(cells=tuple(cells))


def _limits() -> list[Cell]:
    """All bases alike, and bases of which few leak."""
    sizes = ((1, 1, 100), (5, 5, 100), (20, 20, 100), (1, 1, 1000))
    kinds: tuple[Mechanism, ...] = (
        *map(LaplaceMechanism, (1.0, 3.0)),
        *map(GaussianMechanism, (1.0, 2.0)),
        *map(RandomisedResponse, (1.0, 3.0)),
    )
    cases = [(kind, *size) for kind in kinds for size in sizes]
    few = (LaplaceMechanism(5.0), GaussianMechanism(3.0), GaussianMechanism(100.0))
    cases += [(kind, leaking, 20, 100) for kind in few for leaking in (1, 2, 5)]
    cases += [(SubsampledGaussian(3.0, 0.3), 10, 10, 200), (LaplaceMechanism(2.0), 8, 8, 60)]
    return [
        LimitCell(mechanism=kind, leaking=leaking, bases=bases, models=models, runs=40)
        for kind, leaking, bases, models in cases
    ]


# --- the page ---------------------------------------------------------------------------------------


def _refuted_table(rows: list[Row], significance: float) -> str:
    """How often true claims were refuted, by both forms of the proof and by the negative control."""
    lines = []
    for own in _side_by_side(rows, PROOF, ORDERED, PEEKING):
        shares = [flagged(r.percent("refuted", 2), r.fits("refuted", significance)) for r in own]
        first = [own[0].name, f"{own[0].true_epsilon:.2f}", own[0].bases, f"{own[0].models:,}"]
        lines.append([*first, f"{own[0].runs:,}", *shares])
    names = "mechanism|claim = true ε|bases|models per hypothesis|runs|proof|planned order"
    return markdown([*names.split("|"), "*control: peeking*"], lines)


def _side_by_side(rows: list[Row], *methods: str) -> Iterator[tuple[Row, ...]]:
    """For each setting the rows of these methods."""
    return zip(*([row for row in rows if row.method == each] for each in methods), strict=True)


def _adversary_table(rows: list[Row], significance: float) -> str:
    """How often auditors who do what suits them refute a true claim."""
    lines = []
    for row in rows:
        control = row.method in (DROPPED, HALF_DROPPED)
        share = flagged(row.percent("refuted", 2), row.fits("refuted", significance))
        first = [
            row.name,
            f"{row.true_epsilon:.2f}",
            f"{row.delta:g}",
            f"{row.bases} x {row.models}",
        ]
        lines.append([*first, f"*{row.method}*" if control else row.method, f"{row.runs:,}", share])
    names = "mechanism|claim = true ε|δ|bases x models|auditor|runs|refuted"
    return markdown(names.split("|"), lines)


def adversary_text(rows: list[Row], significance: float) -> str:
    """Summary of the table."""
    controls = [row for row in rows if row.method in (DROPPED, HALF_DROPPED)]
    own = [row for row in rows if row not in controls]
    worst, broken = most(own, "refuted"), sum(not row.fits("refuted", significance) for row in own)
    exceeded = f"**Exceeded** in {broken} settings. " if broken else ""
    return paragraph(
        f"At most {worst.percent('refuted', 2)} of {worst.runs:,} true claims were refuted "
        f"({worst.name}, {worst.method}); {100 * significance:g} % are allowed. {exceeded}The controls "
        f"refute {', '.join(row.percent('refuted', 0) for row in controls)}."
    )


def _limit_table(rows: list[Row]) -> str:
    """Mean bounds beside the oracle's."""
    lines = []
    for own in _side_by_side(rows, PROOF, ORDERED, ORACLE):
        row, means = own[0], [each.mean_at_least for each in own]
        where = f"{row.bases} x {row.models:,}"
        where += f", {row.leaking} leak" if row.leaking < row.bases else ""
        shares = [f"{mean / means[2]:.2f}" for mean in means[:2]]
        cells = [f"{mean:.2f}" for mean in means]
        lines.append([row.name, f"{row.true_epsilon:.2f}", where, *cells, *shares])
    names = (
        "mechanism|true ε|bases x models|proof|planned order|oracle|proof / oracle|planned / oracle"
    )
    return markdown(names.split("|"), lines)


def refuted_text(rows: list[Row], significance: float) -> str:
    """Summary of the table."""
    own = [row for row in rows if row.method in (PROOF, ORDERED)]
    worst = most(own, "refuted")
    broken = sum(not row.fits("refuted", significance) for row in own)
    peeked = [row for row in rows if row.method == PEEKING]
    caught = any(not row.fits("refuted", significance) for row in peeked)
    exceeded = f"**Exceeded** in {broken} settings. " if broken else ""
    return paragraph(
        f"The proof refuted a true claim in at most {worst.percent('refuted', 2)} of "
        f"{worst.runs:,} runs ({worst.name}, {worst.bases} x {worst.models:,}); "
        f"{100 * significance:g} % are allowed. {exceeded}The negative control, Clopper-Pearson's bound "
        f"after every pair, was above the true ε at some time in up to "
        f"{most(peeked, 'refuted').percent('refuted')}, and "
        f"{'is detected' if caught else 'was NOT detected'}."
    )


def _by_mechanism(rows: list[Row]) -> list[list[Row]]:
    names = dict.fromkeys(row.name for row in rows)
    return [[row for row in rows if row.name == name] for name in names]


def _power_table(rows: list[Row]) -> str:
    """Mean lower bound of each method on the same data."""
    lines = []
    for of_mechanism in _by_mechanism(rows):
        for bases, models in ((1, 100), (1, 1600), (5, 100), (20, 100)):
            own = {
                row.method: row.mean_at_least
                for row in of_mechanism
                if (row.bases, row.models) == (bases, models)
            }
            if own:
                best = max(bound for method, bound in own.items() if method != PEER)
                cells = [f"{own[method]:.2f}" if method in own else "-" for method in METHODS]
                cells = [
                    f"**{cell}**" if own.get(method) == best else cell
                    for cell, method in zip(cells, METHODS, strict=True)
                ]
                first = of_mechanism[0]
                size = f"{bases} x {models:,}"
                lines.append([first.name, f"{first.true_epsilon:.2f}", size, *cells])
    return markdown(["mechanism", "true ε", "bases x models", *METHODS], lines)


def _need_table(rows: list[Row]) -> str:
    """Models per hypothesis of one base that each method needs to refute half of the true epsilon."""
    single = [row for row in rows if row.bases == 1]
    largest = max(row.models for row in single)
    lines = []
    for own in _by_mechanism(single):
        cells = []
        for method in METHODS:
            enough = [r.models for r in own if r.method == method and 2 * r.refuted >= r.runs]
            cells.append(f"{min(enough):,}" if enough else f"over {largest:,}")
        lines.append([own[0].name, f"{own[0].true_epsilon:.2f}", f"{own[0].claim:.2f}", *cells])
    return markdown(["mechanism", "true ε", "false claim", *METHODS], lines)


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Text and tables of the page, by mark."""
    true, false = tables[REFUTATIONS], tables[POWER]
    return {
        "proof-text": refuted_text(true, significance),
        "proof-refuted": _refuted_table(true, significance),
        "proof-power": _power_table(false),
        "proof-need": _need_table(false),
        "proof-limit": _limit_table(tables[LIMIT]),
        "adversary-text": adversary_text(tables[ADVERSARIES], significance),
        "adversaries": _adversary_table(tables[ADVERSARIES], significance),
    }
