"""Results of the studies of proofs and verdicts, as table rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from epsilometer.calibration.plan import StudyPlan, describe
from epsilometer.calibration.proofs import PowerCell, RefutationCell, RefutationTally
from epsilometer.calibration.table import by_cell, chance_of, within_level
from epsilometer.calibration.tally import summed
from epsilometer.calibration.verdicts import CLAIM_FACTORS, VerdictCell, VerdictTally


@dataclass(frozen=True, kw_only=True)
class RefutationRow:
    """How often a method refuted a true claim, checked after every pair of models."""

    mechanism: str
    setting: str
    true_epsilon: float
    bases: int
    models: int
    method: str
    runs: int
    refuted: int

    def within_level(self, significance: float) -> bool:
        """Whether the refutations are consistent with an error rate of ``significance``."""
        return within_level(self.refuted, self.runs, significance)


@dataclass(frozen=True, kw_only=True)
class PowerRow:
    """How often a method refuted a false claim, and its mean proven epsilon."""

    mechanism: str
    setting: str
    true_epsilon: float
    claim: float
    bases: int
    models: int
    method: str
    runs: int
    refuted: int
    mean_at_least: float


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    """How often each verdict was given on a claim of ``factor`` times the truth."""

    data: str
    mechanism: str
    setting: str
    power: float
    true_epsilon: float
    bases: int
    models: int
    factor: float
    claim: float
    runs: int
    fail_proven: int
    fail_judged: int
    pass_judged: int

    @property
    def inconclusive(self) -> int:
        """Number of runs with an INCONCLUSIVE verdict."""
        return self.runs - self.fail_proven - self.fail_judged - self.pass_judged

    @property
    def claim_holds(self) -> bool:
        """Whether the claim is true."""
        return self.claim >= self.true_epsilon

    @property
    def wrong(self) -> int | None:
        """Number of wrong verdicts: FAIL on a true claim, PASS on half the truth; None if undefined."""
        if self.claim_holds:
            return self.fail_proven + self.fail_judged
        return self.pass_judged if self.power == 1 else None

    def chance(self, significance: float) -> float:
        """Probability of at least this many wrong verdicts; 1 if undefined."""
        return 1.0 if self.wrong is None else chance_of(self.wrong, self.runs, significance)


def _place(cell: Any) -> dict[str, Any]:
    options = describe(cell)["options"]
    return {
        "mechanism": cell.mechanism.name,
        "setting": " ".join(f"{key}={value:g}" for key, value in options.items()),
        "true_epsilon": round(cell.mechanism.epsilon(cell.delta), 6),
        "bases": cell.bases,
    }


def refutation_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[RefutationRow]:
    """Rows of true claims, in the plan's order."""
    return [
        RefutationRow(
            **_place(cell),
            models=cell.models,
            method=name,
            runs=tally.runs,
            refuted=tally.refuted,
        )
        for cell, job_results in by_cell(plan, results)
        if isinstance(cell, RefutationCell)
        for name, tally in summed(job_results, RefutationTally).items()
    ]


def power_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[PowerRow]:
    """Rows of false claims, in the plan's order."""
    return list(_power_rows(plan, results))


def _power_rows(plan: StudyPlan, results: Mapping[str, Any]) -> Iterator[PowerRow]:
    for cell, job_results in by_cell(plan, results):
        if not isinstance(cell, PowerCell):
            continue
        for name, tally in summed(job_results, RefutationTally).items():
            method, _, size = name.rpartition(" @ ")
            place = _place(cell)
            yield PowerRow(
                **place,
                claim=round(cell.factor * place["true_epsilon"], 6),
                models=int(size),
                method=method,
                runs=tally.runs,
                refuted=tally.refuted,
                mean_at_least=round(tally.sum_at_least / tally.runs, 6),
            )


def verdict_rows(plan: StudyPlan, results: Mapping[str, Any]) -> list[VerdictRow]:
    """Rows of verdicts, in the plan's order."""
    rows = []
    for cell, job_results in by_cell(plan, results):
        if not isinstance(cell, VerdictCell) or not job_results:
            continue
        sums, claims = summed(job_results, VerdictTally), cell.claims()
        for factor in CLAIM_FACTORS:
            tally = sums[f"{factor:g}"]
            rows.append(
                VerdictRow(
                    **_place(cell),
                    data=cell.data,
                    power=cell.power,
                    models=cell.models,
                    factor=factor,
                    claim=round(claims[factor], 6),
                    runs=tally.runs,
                    fail_proven=tally.fail_proven,
                    fail_judged=tally.fail_judged,
                    pass_judged=tally.pass_judged,
                )
            )
    return rows
