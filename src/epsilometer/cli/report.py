"""``epsilometer report``: an HTML report on a result or on data, and its verdict."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from epsilometer.cli import options, results
from epsilometer.cli.delivery import DeliveryOptions, VerdictOptions, deliver
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PageOptions(DeliveryOptions):
    """The page is the output of `report`."""

    report_option: ClassVar[str] = "--output"

    output: ClassVar[None] = None  # type: ignore[misc]
    report: Path | None = option(
        "FILE", "Write the HTML report here.", "--output", "-o", "--report"
    )


@options.flat
def report(
    result: str = argument(
        "RESULT",
        "A folder written by --output of `audit` or `estimate`, or a posterior.nc. Or data, as "
        "`estimate` reads them, with --delta: they are estimated with the default model first.",
    ),
    *,
    delta: float | None = option("D", "Data: the delta of (epsilon, delta)-DP, in [0, 1)."),
    claim: float | None = options.CLAIM,
    level: float | None = options.LEVEL,
    verdict: VerdictOptions,
    delivery: PageOptions,
) -> int:
    """Judge a result and write an HTML report."""
    from epsilometer.auditing.answering import result_for

    options.ClaimOptions(claim=claim, claim_curve=None, level=level).check(())
    verdict.check()
    delivery.check()
    source = results.source_of(result)
    known = source.result
    if known is None:
        options.need_delta(delta)
    elif delta is not None and delta != known.delta:
        raise InputError(
            f"--delta {delta:g}: {result} is a result at delta = {known.delta:g}; estimate it at "
            f"another one with `epsilometer estimate {result} --delta {delta:g}`."
        )
    question = verdict.question(delivery, source.asked, claim=claim, level=level)
    verdict.check_claim(question.claim)
    with results.progress("estimate") as (report_line, _):
        judged = result_for(source, delta=delta, question=question, on_message=report_line)
    return deliver(judged, delivery, verdict, file=Path(result))
