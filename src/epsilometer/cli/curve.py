"""``epsilometer estimate`` with several deltas: the curve of epsilon over delta."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from epsilometer import _files
from epsilometer.cli import reporting, results
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.inference.claimed_curve import Claim
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel
    from epsilometer.report.delta_table import CurveTable

FILES = ("curve.csv", "curve.json", "curve.png")


@dataclass(frozen=True, kw_only=True)
class CurveWishes:
    """What was asked for beside the deltas."""

    level: float
    claim: float | None
    claim_curve: Path | None
    as_json: bool
    output: Path | None
    wishes: reporting.Wishes

    def claimed(self) -> Claim | None:
        """The claim at each delta, read before any work is done."""
        if self.claim_curve is None:
            return self.claim
        from epsilometer.inference.claimed_curve import ClaimedCurve

        if self.claim is not None:
            raise InputError("expected --claim or --claim-curve, got both.")
        return ClaimedCurve.read_csv(self.claim_curve)


def check_fits(*, deltas: int, curve_options: list[str], single_options: list[str]) -> None:
    """Refuse options that only make sense with one delta, or only with several."""
    wrong = single_options if deltas > 1 else curve_options
    if wrong:
        number = "one delta" if deltas > 1 else "several deltas"
        raise InputError(f"{wrong[0]} needs {number}, got {deltas} in --delta.")


def run(
    counts: AttackCounts, model: AuditModel, deltas: tuple[float, ...], asked: CurveWishes
) -> int:
    """Estimate, write and print; the page, if wanted, is about the delta that was given first."""
    from epsilometer.inference.claimed_curve import claimed_at
    from epsilometer.inference.delta_curve import checked_deltas, estimate_curve
    from epsilometer.report.delta_table import CurveTable

    claim, wishes = asked.claimed(), asked.wishes
    if claim is not None:
        import numpy as np

        if not np.isfinite(claimed_at(claim, checked_deltas(deltas))).any():
            raise InputError(f"{asked.claim_curve}: nothing is claimed at any of the deltas.")
    model.check(counts)
    with results.progress("exact quadrature") as (report, _):
        curve = estimate_curve(counts, model, deltas, report=report)
    table = CurveTable.of(
        curve,
        level=asked.level,
        claim=claim,
        thresholds=wishes.thresholds,
        accept_untrusted=wishes.allow_unconverged,
    )
    summary = table.data()
    written: list[Path] = []
    failure: OSError | None = None
    try:
        if asked.output is not None:
            _write(table, asked.output)
            written.append(asked.output)
        if wishes.wanted:
            written += _page(counts, replace(model, delta=deltas[0]), table, asked)
    except OSError as error:
        failure = error
    text = json.dumps(summary, allow_nan=False) + "\n" if asked.as_json else table.text()
    results.say(text if asked.as_json else text + reporting.written_to(written))
    if not curve.trustworthy:
        results.warn(table.notes()[0])
    if failure is not None:
        raise failure
    return wishes.exit_code(curve.trustworthy, [summary])


def _write(table: CurveTable, folder: Path) -> None:
    from epsilometer.report.figures.chart import save_figure
    from epsilometer.report.figures.delta_curve import DeltaCurveChart

    folder.mkdir(parents=True, exist_ok=True)
    texts = {"curve.csv": table.csv(), "curve.json": json.dumps(table.data(), indent=2) + "\n"}
    for name, text in texts.items():
        _files.replace(folder / name, partial(Path.write_text, data=text, encoding="utf-8"))
    figure = DeltaCurveChart.of(table).draw()
    _files.replace(folder / "curve.png", partial(save_figure, figure))


def _page(
    counts: AttackCounts, model: AuditModel, table: CurveTable, asked: CurveWishes
) -> list[Path]:
    """The page of the posterior at the first delta, with the curve as one of its sections."""
    from epsilometer.report.summary import summarise

    posterior = results.run_engine(counts, model, None)
    claim = None
    if table.verdict is not None:
        found = table.verdict.verdicts[table.curve.deltas.tolist().index(model.delta)]
        claim = None if found is None else found.claim
    summary = summarise(
        posterior,
        level=asked.level,
        claim=claim,
        thresholds=asked.wishes.thresholds,
        accept_untrusted=asked.wishes.allow_unconverged,
    )
    origin = reporting.origin_of(summary, None)
    return asked.wishes.write(posterior, summary, origin, table=table)
