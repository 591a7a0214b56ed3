"""``epsilometer report``: a page on a result of `estimate` or `audit`, and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from epsilometer.audit.recorded import open_result
from epsilometer.cli import options, outputs
from epsilometer.cli.delivery import DeliveryOptions, VerdictOptions, deliver
from epsilometer.cli.gate_options import GateOptions
from epsilometer.cli.options import argument, option


@dataclass(frozen=True, kw_only=True)
class ReportDelivery(DeliveryOptions):
    """The page is the output of `report`."""

    report_option: ClassVar[str] = "--output"


@options.flat
def report(
    result: Path = argument(
        "RESULT", "A folder that `estimate --output` or `audit --output` wrote, or a posterior.nc."
    ),
    *,
    output: Path | None = option("FILE", "Write the HTML report here.", "--output", "-o"),
    figures: Path | None = options.FIGURES,
    force: bool = outputs.FORCE,
    claim: float | None = options.CLAIM,
    level: float | None = options.LEVEL,
    verdict: VerdictOptions,
    as_json: bool = options.AS_JSON,
    check_model: bool = options.CHECK_MODEL,
    gates: GateOptions,
) -> int:
    """Judge a result, and write a page that a reviewer can act on."""
    options.ClaimOptions(claim=claim, claim_curve=None, level=level).check(())
    delivery = ReportDelivery(
        as_json=as_json,
        output=None,
        report=output,
        figures=figures,
        force=force,
        check_model=check_model,
        **vars(gates),
    )
    verdict.check()
    delivery.check()
    found = open_result(result)
    source = None
    if claim is None and found.claim is not None:
        claim, source = found.claim
    verdict.check_claim(claim)
    level = level or found.level or options.DEFAULT_LEVEL
    judged = verdict.recorded_result(found, level, claim, delivery, source=source)
    return deliver(judged, delivery, verdict, file=result)
