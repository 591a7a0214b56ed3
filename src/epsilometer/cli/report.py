"""``epsilometer report``: an HTML report on a result or on data, and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from epsilometer import _validate
from epsilometer.cli import options, outputs, results
from epsilometer.cli.delivery import DeliveryOptions, VerdictOptions, deliver
from epsilometer.cli.gate_options import GateOptions
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import WHOLE_CURVE, is_result, open_result

if TYPE_CHECKING:
    from epsilometer.report.views import AnyResult


@dataclass(frozen=True, kw_only=True)
class ReportDelivery(DeliveryOptions):
    """The page is the output of `report`."""

    report_option: ClassVar[str] = "--output"


@dataclass(frozen=True, kw_only=True)
class PageOptions(GateOptions):
    """What is written next to the page, and printed."""

    figures: Path | None = options.FIGURES
    force: bool = outputs.FORCE
    as_json: bool = options.AS_JSON
    check_model: bool = options.CHECK_MODEL


@options.flat
def report(
    result: str = argument(
        "RESULT",
        "A folder written by --output of `audit` or `estimate`, or a posterior.nc. Or data, as "
        "`estimate` reads them, with --delta: they are estimated with the default model first.",
    ),
    *,
    output: Path | None = option(
        "FILE", "Write the HTML report here.", "--output", "-o", "--report"
    ),
    delta: float | None = option("D", "Data: the delta of (epsilon, delta)-DP, in [0, 1)."),
    claim: float | None = options.CLAIM,
    level: float | None = options.LEVEL,
    verdict: VerdictOptions,
    page: PageOptions,
) -> int:
    """Judge a result and write an HTML report."""
    options.ClaimOptions(claim=claim, claim_curve=None, level=level).check(())
    delivery = ReportDelivery(output=None, report=output, **vars(page))
    verdict.check()
    delivery.check()
    if result == results.STDIN or not is_result(Path(result)):
        verdict.check_claim(claim)
        found = _estimated(result, delta, level or options.DEFAULT_LEVEL, claim, verdict, delivery)
        return deliver(found, delivery, verdict, file=Path(result))
    recorded, source = open_result(Path(result)), None
    if delta is not None and delta != recorded.delta:
        raise InputError(
            f"--delta {delta:g}: {result} is a result at delta = {recorded.delta:g}; estimate it at "
            f"another one with `epsilometer estimate {result} --delta {delta:g}`."
        )
    if claim is None and recorded.claim is not None:
        claim, source = recorded.claim
    verdict.check_claim(claim)
    level = level or recorded.level or options.DEFAULT_LEVEL
    judged = verdict.recorded_result(recorded, level, claim, delivery, source=source)
    return deliver(judged, delivery, verdict, file=Path(result))


def _estimated(
    file: str,
    delta: float | None,
    level: float,
    claim: float | None,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> AnyResult:
    """The result of data that are not estimated yet."""
    from epsilometer.estimating import default_model
    from epsilometer.inputs.sources import LossOptions

    source = results.source_of(file, LossOptions())
    options.need_delta(delta)
    assert delta is not None
    data = source.data(source.kind)
    model = default_model(data, _validate.delta(delta))
    posterior = results.run_engine(data, model, None)
    if source.kind == WHOLE_CURVE:
        return verdict.profile_result(posterior, level, claim, delivery)
    return verdict.result(posterior, level, claim, delivery, scores=source.models)
