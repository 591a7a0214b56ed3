"""Results written by `estimate --output` and `audit --output`: a posterior and its summary.

Every command reads results here, so a folder has the same claim and verdict everywhere.  Files are
untrusted: the summary is validated, and compared with the posterior.
"""

from __future__ import annotations

import math
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from epsilometer import _files
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.judgement.origin import Origin
    from epsilometer.judgement.question import Question
    from epsilometer.judgement.result import Result
    from epsilometer.model.counts import AttackCounts

POSTERIOR, COUNT_POSTERIOR = "posterior.nc", "count.nc"
#: Name of the count model's posterior in folders of earlier versions.
OLD_COUNT_POSTERIOR = "published.nc"

#: Files of a result.
SUMMARY, CURVES, LOSSES, LEAKS = "summary.json", "curves.csv", "losses.csv", "leaks.csv"
CANARIES, POINTS, COUNTS = "canaries.csv", "points.csv", "counts.csv"

#: The two models; the first is also the name of its engine.
CURVE, COUNT = "curve", "count"

#: Tolerated relative difference of two medians of one posterior, computed by different versions: twice
#: the tolerance of the curve engine.
SAME = 0.04

#: Most deltas of a question, as options allow them.
MOST_DELTAS = 1000

#: Most variants of an audit that an error lists.
MOST_NAMED = 8


def is_result(path: Path) -> bool:
    """Whether a file, or a folder, holds a posterior."""
    return (path / POSTERIOR).exists() if path.is_dir() else path.suffix.lower() == ".nc"


def losses_in(folder: Path) -> Path | None:
    """The losses in the folder of an audit, if any."""
    path = folder / LOSSES
    return path if folder.is_dir() and path.exists() else None


def open_result(path: Path) -> Result:
    """Read a folder that holds a posterior, or the file of one, with the question it answered."""
    from epsilometer.engines.storage import load
    from epsilometer.judgement.judging import result_of

    if not path.is_dir():
        return result_of(load(path))
    if not (path / POSTERIOR).exists():
        refuse_several(path)
        raise InputError(
            f"{path}: expected a folder with {POSTERIOR}, as `estimate --output` and `audit --output` "
            "write it."
        )
    posterior, known = load(path / POSTERIOR), read_summary(path)
    counted = [path / name for name in (COUNT_POSTERIOR, OLD_COUNT_POSTERIOR)]
    readers = [cache(partial(load, file)) for file in counted if file.exists()]
    beside = readers[0] if readers else None
    if not known:
        return result_of(posterior, beside=beside)
    open_ended = getattr(posterior, "saturated", False)
    median = 0.0 if open_ended else posterior.median("epsilon")
    written = known["epsilon"].get("median", 0.0)  # none without an upper limit
    if abs(written - median) > SAME * max(1.0, median):
        raise InputError(
            f"{path / SUMMARY}: is of another result than {POSTERIOR} (median "
            f"{written:g} against {median:g}); write the result again, or give "
            f"the file {POSTERIOR} itself."
        )
    if posterior.provenance.engine != CURVE:
        counts = posterior.data
    else:
        counts = None if beside is None else beside().data
    return result_of(posterior, _question(known), beside=beside, origin=_origin(known, counts))


def _question(known: dict[str, Any]) -> Question:
    """The question that a result answered."""
    from epsilometer.judgement.claims import NoPromise
    from epsilometer.judgement.question import Question
    from epsilometer.judgement.verdict import Thresholds

    question: dict[str, Any] = {"level": known["epsilon"]["level"]}
    asked, claim = known.get("asked"), known.get("claim")
    if asked:
        limits = {name: asked[name] for name in ("pass_at_most", "fail_at_least")}
        question |= {"error": asked["error"], "thresholds": Thresholds(**limits)}
        question["independent"] = not asked["shared_models"]
    if claim is not None:
        nothing = NoPromise(_files.printable(claim.get("no_promise", NoPromise().reason)))
        question |= {"claim": claim.get("epsilon", nothing), "claim_source": claim.get("source")}
    rows = known.get("over_delta", {}).get("curve", [])
    if len(rows) > 1:
        question["deltas"] = tuple(row["delta"] for row in rows)
        # The claim may differ between deltas.
        claims = {row["delta"]: row["claim"] for row in rows if "claim" in row}
        if claims and (len(claims) < len(rows) or {*claims.values()} != {question.get("claim")}):
            question["claim"] = lambda delta: claims.get(delta, math.inf)
    return Question(**question)


def _origin(known: dict[str, Any], counts: AttackCounts | None) -> Origin:
    """The origin of scores and counts."""
    from epsilometer.judgement.origin import Origin

    attack, failures = known.get("counts", {}), known["models_failed"]
    warnings = attack.get("warnings", [])
    if counts is not None and "target_alpha" in attack:
        rest = {name: value for name, value in attack.items() if name != "warnings"}
        attack = rest | {"bases": counts.rows(), "warnings": warnings}
    models = {"trained": known["models_trained"], "reused": known["models_reused"]}
    return Origin(
        plan=known.get("plan", {}),
        attack=attack,
        models=models | {"failed": len(failures)},
        failures=tuple(failures),
        warnings=tuple(warnings),
        variant=known.get("variant"),
        stopping=known.get("stopping", {}),
    )


def refuse_several(folder: Path) -> None:
    """Refuse the folder of an audit of several variants, which has a folder for each."""
    variants = sorted(file.parent.name for file in folder.glob(f"*/{POSTERIOR}"))
    if variants:
        shown = ", ".join(_files.printable(name) for name in variants[:MOST_NAMED])
        raise InputError(f"{folder}: expected one result, got several: choose one of {shown}.")


def read_summary(folder: Path) -> dict[str, Any]:
    """The validated summary of a result; empty without one."""
    path = folder / SUMMARY
    if not path.exists():
        return {}
    from pydantic import ValidationError

    try:
        summary = _model().model_validate_json(_files.load(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}: {first['msg']}.") from None
    known: dict[str, Any] = summary.model_dump(exclude_none=True)
    return known


def _model() -> Any:
    """The fields that are read from a summary; others are ignored."""
    from pydantic import BaseModel, ConfigDict, Field

    # Longer than what Epsilometer writes, but short enough for a page: files are untrusted.
    name, short, few = Field(max_length=500), Field(max_length=200), Field(max_length=100)

    class Part(BaseModel):
        model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    class Epsilon(Part):
        median: float | None = None
        level: float = Field(gt=0, lt=1)

    class Claim(Part):
        epsilon: float | None = Field(ge=0, default=None)
        no_promise: Annotated[str, name] | None = None
        source: Literal["option", "configuration", "algorithm"] | None = None

    class Plan(Part):
        hash: Annotated[str, short]
        population: Annotated[str, name]
        adjacency: Annotated[str, short]
        design: Annotated[str, short]
        dataset_size: int
        seed: int
        canaries: int | None = None
        canary_kind: Annotated[str, name] | None = None
        compare_with: Annotated[str, short] | None = None

    class Counts(Part):
        target_alpha: float | None = Field(gt=0, lt=1, default=None)
        statistic: Annotated[str, name]
        attack: Annotated[str, name]
        failures: Literal["lowest", "worst", "dropped"] | None = None
        planned: Annotated[list[tuple[int, int]], few] | None = None
        warnings: Annotated[list[str], few] = Field(default_factory=list)

    class Asked(Part):
        error: float = Field(gt=0, lt=1)
        pass_at_most: float = Field(ge=0, le=1)
        fail_at_least: float = Field(ge=0, le=1)
        shared_models: bool = False

    class Row(Part):
        delta: float = Field(ge=0, lt=1)
        claim: float | None = Field(ge=0, default=None)

    class OverDelta(Part):
        curve: Annotated[list[Row], Field(max_length=MOST_DELTAS)]

    class Stopping(Part):
        sentence: Annotated[str, Field(max_length=2000)]

    class Summary(Part):
        epsilon: Epsilon
        claim: Claim | None = None
        plan: Plan | None = None
        counts: Counts | None = None
        variant: Annotated[str, short] | None = None
        stopping: Stopping | None = None
        asked: Asked | None = None
        over_delta: OverDelta | None = None
        models_trained: int = 0
        models_reused: int = 0
        models_failed: list[Any] = Field(default_factory=list)

    return Summary
