"""``epsilometer report``: a page on a result of `estimate` or `audit`, and its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import epsilometer as em
from epsilometer import _files
from epsilometer.cli import options
from epsilometer.cli.batches import PROFILE
from epsilometer.cli.delivery import (
    CURVES,
    POSTERIOR,
    PUBLISHED,
    SUMMARY,
    DeliveryOptions,
    VerdictOptions,
    deliver,
)
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.result import ErrorCurves

SAME = 1e-6
"""Relative difference of two medians of one posterior: JSON keeps every digit, versions may not."""

MOST_NAMED = 8
"""Variants of an audit that an error names."""


@options.flat
def report(
    result: Path = argument(
        "RESULT", "A folder that `estimate --output` or `audit --output` wrote, or a posterior.nc."
    ),
    *,
    output: Path | None = option("FILE", "Write the page, HTML, there.", "--output", "-o"),
    figures: Path | None = options.FIGURES,
    claim: float | None = options.CLAIM,
    level: float | None = options.LEVEL,
    verdict: VerdictOptions,
    as_json: bool = options.AS_JSON,
    check_model: bool = options.CHECK_MODEL,
) -> int:
    """Judge a result, and write a page that a reviewer can act on."""
    options.ClaimOptions(claim=claim, claim_curve=None, level=level).check(())
    delivery = DeliveryOptions(
        as_json=as_json, output=None, report=output, figures=figures, check_model=check_model
    )
    verdict.check()
    delivery.check()
    posterior: Any = em.load(_posterior_in(result))
    known = _summary(result, posterior)  # beside a posterior.nc alone there is none
    source = None
    if claim is None and "claim" in known:
        claim, source = known["claim"]["epsilon"], known["claim"].get("source")
    verdict.check_claim(claim)
    level = level or known.get("epsilon", {}).get("level", options.DEFAULT_LEVEL)
    asked = (level, claim, delivery)
    if posterior.provenance.engine != PROFILE:
        origin = _origin(known, _curves(result, posterior.counts))
        found: Any = verdict.result(posterior, *asked, source=source, origin=origin)
        return deliver(found, delivery, verdict)
    published = _published(result)
    curves = None if published is None else _curves(result, published.counts)
    origin = _origin(known, curves)
    beside = None
    if published is not None:
        beside = verdict.result(published, *asked, source=source, origin=origin)
    found = verdict.profile_result(
        posterior, *asked, source=source, origin=origin, published=beside
    )
    return deliver(found, delivery, verdict)


def _published(folder: Path) -> Any:
    """The published model's posterior that `audit` wrote beside the other; None without one."""
    path = folder / PUBLISHED
    return em.load(path) if folder.is_dir() and path.exists() else None


def _posterior_in(result: Path) -> Path:
    if not result.is_dir():
        return result
    path = result / POSTERIOR
    if path.exists():
        return path
    variants = sorted(found.parent.name for found in result.glob(f"*/{POSTERIOR}"))
    if variants:
        shown = ", ".join(_files.printable(name) for name in variants[:MOST_NAMED])
        raise InputError(f"{result}: expected one result, got several: choose one of {shown}.")
    raise InputError(
        f"{result}: expected a folder with {POSTERIOR}, as `estimate --output` and `audit --output` "
        "write it."
    )


def _origin(known: dict[str, Any], curves: ErrorCurves | None) -> em.Origin:
    """What the summary of a result says of where its counts came from."""
    if not known:
        return em.Origin(curves=curves)
    attack, failures = known.get("counts", {}), known["models_failed"]
    models = {"trained": known["models_trained"], "reused": known["models_reused"]}
    return em.Origin(
        plan=known.get("plan", {}),
        attack=attack,
        models=models | {"failed": len(failures)},
        failures=tuple(failures),
        warnings=tuple(attack.get("warnings", ())),
        curves=curves,
        variant=known.get("variant"),
    )


def _summary(folder: Path, posterior: Any) -> dict[str, Any]:
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
    if abs(known["epsilon"]["median"] - own) > SAME * max(1.0, own):
        raise InputError(
            f"{path}: is of another result than {POSTERIOR} (median {known['epsilon']['median']:g} "
            f"against {own:g}); write the result anew, or give the file {POSTERIOR} itself."
        )
    return known


def _model() -> Any:
    """What is read of a summary; everything else in it is left alone."""
    from pydantic import BaseModel, ConfigDict, Field

    # Longer than what is written here, and short enough for a page: these may be anybody's files.
    name, short, few = Field(max_length=500), Field(max_length=200), Field(max_length=100)

    class Part(BaseModel):
        model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    class Epsilon(Part):
        median: float
        level: float = Field(gt=0, lt=1)

    class Claim(Part):
        epsilon: float = Field(ge=0)
        source: Literal["option", "configuration", "algorithm"] | None = None

    class Plan(Part):
        hash: Annotated[str, short]
        population: Annotated[str, name]
        adjacency: Annotated[str, short]
        design: Annotated[str, short]
        dataset_size: int
        seed: int

    class Counts(Part):
        target_alpha: float = Field(gt=0, lt=1)
        statistic: Annotated[str, name]
        attack: Annotated[str, name]
        warnings: Annotated[list[str], few] = Field(default_factory=list)

    class Summary(Part):
        epsilon: Epsilon
        claim: Claim | None = None
        plan: Plan | None = None
        counts: Counts | None = None
        variant: Annotated[str, short] | None = None
        models_trained: int = 0
        models_reused: int = 0
        models_failed: list[Any] = Field(default_factory=list)

    return Summary


def _curves(folder: Path, counts: em.AttackCounts) -> ErrorCurves | None:
    path = folder / CURVES
    if not path.exists():
        return None
    from epsilometer.attacks.result import ErrorCurves

    found = ErrorCurves.read(path)
    same = (
        found.names == counts.names
        and found.trials_h0.tolist() == counts.trials_h0.tolist()
        and found.trials_h1.tolist() == counts.trials_h1.tolist()
    )
    if not same:
        raise InputError(f"{path}: is of other challenge bases than {POSTERIOR}.")
    return found
