"""``epsilometer report``: a page on a result of `estimate` or `audit`, and its verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epsilometer import _files, _validate
from epsilometer.cli import reporting, results
from epsilometer.cli.options import (
    AllowUnconverged,
    AsJson,
    FailAtLeast,
    FailOn,
    FiguresFolder,
    PassAtMost,
)
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.result import ErrorCurves
    from epsilometer.inference.posterior import Posterior

POSTERIOR, SUMMARY, CURVES = "posterior.nc", "summary.json", "curves.csv"


def report(
    result: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT",
            help="A folder that `estimate --output` or `audit --output` wrote, or a posterior.nc.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the page, HTML, there."),
    ] = None,
    figures: FiguresFolder = None,
    claim: Annotated[
        float | None,
        typer.Option(metavar="E", help="The claimed epsilon; the one in the result unless given."),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="L", help="Probability of the intervals; as in the result, or 0.9."),
    ] = None,
    pass_at_most: PassAtMost = 0.05,
    fail_at_least: FailAtLeast = 0.95,
    fail_on: FailOn = "never",
    allow_unconverged: AllowUnconverged = False,
    as_json: AsJson = False,
) -> int:
    """Judge a result, and write a page that a reviewer can act on."""
    from epsilometer.inference.storage import load
    from epsilometer.report.summary import summarise, summary_text

    if level is not None:
        _validate.level(level)
    if claim is not None:
        _validate.non_negative("claim", claim)
    wishes = reporting.Wishes.checked(
        page=output,
        figures=figures,
        pass_at_most=pass_at_most,
        fail_at_least=fail_at_least,
        fail_on=fail_on,
        allow_unconverged=allow_unconverged,
    )
    folder = result if result.is_dir() else None
    posterior = load(_posterior_in(result))
    known = _summary(folder, posterior) if folder is not None else {}
    source = None
    if claim is None and "claim" in known:
        claim, source = known["claim"]["epsilon"], known["claim"].get("source")
    wishes.check_claim(claim)
    summary = summarise(
        posterior,
        level=level or known.get("level") or 0.9,
        claim=claim,
        thresholds=wishes.thresholds,
        accept_untrusted=allow_unconverged,
    )
    kept = ("plan", "counts", "variant", "models_trained", "models_reused", "models_failed")
    summary |= {key: known[key] for key in kept if key in known}
    if source is not None:
        summary["claim"]["source"] = source
    curves = _curves(folder, posterior) if folder is not None else None
    written = wishes.write(posterior, summary, reporting.origin_of(summary, curves))
    if as_json:
        results.say(json.dumps(summary, allow_nan=False) + "\n")
    else:
        results.say(summary_text(summary) + reporting.written_to(written))
    results.distrust(posterior, summary)
    return wishes.exit_code(posterior.trustworthy, [summary])


def _posterior_in(result: Path) -> Path:
    if not result.is_dir():
        return result
    path = result / POSTERIOR
    if path.exists():
        return path
    variants = sorted(found.parent.name for found in result.glob(f"*/{POSTERIOR}"))
    if variants:
        shown = ", ".join(_files.printable(name) for name in variants[:8])
        raise InputError(f"{result}: expected one result, got several: choose one of {shown}.")
    raise InputError(
        f"{result}: expected a folder with {POSTERIOR}, as `estimate --output` and `audit --output` "
        "write it."
    )


def _summary(folder: Path, posterior: Posterior) -> dict[str, Any]:
    """What a result's summary says beside its posterior; it is a file like any other, and checked."""
    path = folder / SUMMARY
    if not path.exists():
        return {}
    from pydantic import ValidationError

    try:
        found = _model().model_validate_json(_files.load(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}: {first['msg']}.") from None
    known: dict[str, Any] = found.model_dump(exclude_none=True)
    own = posterior.median("epsilon")
    if abs(known["epsilon"]["median"] - own) > 1e-6 * max(1.0, own):
        raise InputError(
            f"{path}: is of another result than {POSTERIOR} (median {known['epsilon']['median']:g} "
            f"against {own:g}); write the result anew, or give the file {POSTERIOR} itself."
        )
    known["level"] = known["epsilon"]["level"]
    return known


def _model() -> Any:
    """What is read of a summary; everything else in it is left alone."""
    from pydantic import BaseModel, ConfigDict, Field

    class Part(BaseModel):
        model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    class Epsilon(Part):
        median: float
        level: float = Field(gt=0, lt=1)

    class Claim(Part):
        epsilon: float = Field(ge=0)
        source: Literal["configuration", "algorithm"] | None = None

    class Plan(Part):
        hash: str = Field(max_length=200)
        population: str = Field(max_length=500)
        adjacency: str = Field(max_length=200)
        design: str = Field(max_length=200)
        dataset_size: int
        seed: int

    class Counts(Part):
        target_alpha: float = Field(gt=0, lt=1)
        statistic: str = Field(max_length=500)
        attack: str = Field(max_length=500)
        warnings: list[str] = Field(default_factory=list, max_length=100)

    class Summary(Part):
        epsilon: Epsilon
        claim: Claim | None = None
        plan: Plan | None = None
        counts: Counts | None = None
        variant: str | None = Field(default=None, max_length=200)
        models_trained: int = 0
        models_reused: int = 0
        models_failed: list[Any] = Field(default_factory=list)

    return Summary


def _curves(folder: Path, posterior: Posterior) -> ErrorCurves | None:
    path = folder / CURVES
    if not path.exists():
        return None
    from epsilometer.attacks import curves_files

    found = curves_files.read(path)
    counts = posterior.counts
    same = (
        found.names == counts.names
        and found.trials_h0.tolist() == counts.trials_h0.tolist()
        and found.trials_h1.tolist() == counts.trials_h1.tolist()
    )
    if not same:
        raise InputError(f"{path}: is of other challenge bases than {POSTERIOR}.")
    return found
