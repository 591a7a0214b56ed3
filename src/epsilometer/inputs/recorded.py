"""Results written by `estimate --output` and `audit --output`: a posterior and its summary.

Every command reads results here, so a folder has the same claim and verdict everywhere.  Files are
untrusted: the summary is validated, and compared with the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from epsilometer import _files
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.judgement.claims import NoPromise
    from epsilometer.judgement.result import Origin

POSTERIOR, COUNT_POSTERIOR = "posterior.nc", "count.nc"
OLD_COUNT_POSTERIOR = "published.nc"
"""Name of the count model's posterior in folders of earlier versions."""

SUMMARY, CURVES, LOSSES, LEAKS = "summary.json", "curves.csv", "losses.csv", "leaks.csv"
CANARIES, POINTS, COUNTS = "canaries.csv", "points.csv", "counts.csv"
"""Files of a result."""

CURVE, COUNT = "curve", "count"
"""The two models; the first is also the name of its engine."""

SAME = 1e-6
"""Tolerated relative difference of two medians of one posterior, computed by different versions."""

MOST_DELTAS = 1000
"""Most deltas of a question, as options allow them."""

MOST_NAMED = 8
"""Most variants of an audit that an error lists."""


class RecordedClaim(NamedTuple):
    """The claim that was judged, as a question takes it, and its source, if known."""

    stated: float | NoPromise
    source: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Recorded:
    """A written result: its posterior and its summary.

    Attributes
    ----------
    path
        The folder, or the file of the posterior alone.
    posterior
        The posterior of the result.
    known
        The validated summary; empty without one.
    """

    path: Path
    posterior: Any
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The model of the posterior."""
        whole = self.posterior.provenance.engine == CURVE
        return CURVE if whole else COUNT

    @property
    def data(self) -> Any:
        """The scores or counts that the posterior was estimated from."""
        return self.posterior.scores if self.kind == CURVE else self.posterior.counts

    @property
    def delta(self) -> float:
        """The delta of the posterior."""
        return float(self.posterior.model.delta)

    @property
    def claim(self) -> RecordedClaim | None:
        """The judged claim, if any."""
        claim = self.known.get("claim")
        if claim is None:
            return None
        from epsilometer.judgement.claims import NoPromise

        stated = claim.get("epsilon")
        if stated is None:
            stated = NoPromise(_files.printable(claim.get("no_promise", NoPromise().reason)))
        return RecordedClaim(stated, claim.get("source"))

    @property
    def asked(self) -> dict[str, Any]:
        """The question that it answered, as arguments of `Question`; what is unknown is left out."""
        from epsilometer.judgement.verdict import Thresholds

        question: dict[str, Any] = {}
        asked = self.known.get("asked", {})
        if asked:
            limits = {name: asked[name] for name in ("pass_at_most", "fail_at_least")}
            question = {
                "error": asked["error"],
                "thresholds": Thresholds(**limits),
                "independent": not asked["shared_models"],
            }
        if self.claim is not None:
            question |= {"claim": self.claim.stated, "claim_source": self.claim.source}
        question |= self._several(question.get("claim"))
        return question if self.level is None else question | {"level": self.level}

    def _several(self, stated: Any) -> dict[str, Any]:
        """The deltas of a question about several, and its claim, which may differ between them."""
        rows = self.known.get("over_delta", {}).get("curve", [])
        if len(rows) < 2:
            return {}
        claims = {row["delta"]: row["claim"] for row in rows if "claim" in row}
        several: dict[str, Any] = {"deltas": tuple(row["delta"] for row in rows)}
        if claims and (len(claims) < len(rows) or set(claims.values()) != {stated}):
            several["claim"] = lambda delta: claims.get(delta, math.inf)
        return several

    @property
    def level(self) -> float | None:
        """Probability of the credible intervals."""
        level: float | None = self.known.get("epsilon", {}).get("level")
        return level

    @property
    def losses(self) -> Path | None:
        """The file of losses that an audit wrote next to the posterior."""
        return losses_in(self.path)

    @property
    def count_reader(self) -> Callable[[], Any] | None:
        """Reads the posterior of the count model that `audit` wrote too; None without one."""
        for name in (COUNT_POSTERIOR, OLD_COUNT_POSTERIOR):
            if (self.path / name).exists():
                return partial(_load, self.path / name)
        return None

    @cached_property
    def counted(self) -> Any:
        """The posterior of the count model that `audit` wrote too; None without one."""
        return None if self.count_reader is None else self.count_reader()

    def of_kind(self, kind: str) -> Recorded | None:
        """The same result of one of the two models; None if it has no such posterior."""
        if kind == self.kind:
            return self
        if kind == CURVE or self.counted is None:
            return None
        return replace(self, posterior=self.counted)

    @cached_property
    def origin(self) -> Origin:
        """The origin of scores and counts, from the summary."""
        from epsilometer.judgement.result import Origin

        counted, known = self.of_kind(COUNT), self.known
        if not known:
            return Origin()
        attack, failures = known.get("counts", {}), known["models_failed"]
        if counted is not None and "target_alpha" in attack:
            said = {"warnings": attack.get("warnings", [])}
            rest = {name: value for name, value in attack.items() if name not in said}
            attack = rest | {"bases": counted.data.rows()} | said
        models = {"trained": known["models_trained"], "reused": known["models_reused"]}
        return Origin(
            plan=known.get("plan", {}),
            attack=attack,
            models=models | {"failed": len(failures)},
            failures=tuple(failures),
            warnings=tuple(attack.get("warnings", ())),
            variant=known.get("variant"),
            stopping=known.get("stopping", {}),
        )


def is_result(path: Path) -> bool:
    """Whether a file, or a folder, holds a posterior."""
    return (path / POSTERIOR).exists() if path.is_dir() else path.suffix.lower() == ".nc"


def losses_in(folder: Path) -> Path | None:
    """The losses in the folder of an audit, if any."""
    path = folder / LOSSES
    return path if folder.is_dir() and path.exists() else None


def open_result(path: Path) -> Recorded:
    """Read a folder that holds a posterior, or the file of one."""
    if not path.is_dir():
        return Recorded(path=path, posterior=_load(path))
    if not (path / POSTERIOR).exists():
        refuse_several(path)
        raise InputError(
            f"{path}: expected a folder with {POSTERIOR}, as `estimate --output` and `audit --output` "
            "write it."
        )
    recorded = Recorded(path=path, posterior=_load(path / POSTERIOR))
    known = read_summary(path)
    if known:
        median = recorded.posterior.median("epsilon")
        if abs(known["epsilon"]["median"] - median) > SAME * max(1.0, median):
            raise InputError(
                f"{path / SUMMARY}: is of another result than {POSTERIOR} (median "
                f"{known['epsilon']['median']:g} against {median:g}); write the result again, or give "
                f"the file {POSTERIOR} itself."
            )
    return replace(recorded, known=known)


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


def _load(path: Path) -> Any:
    from epsilometer.engines.storage import load

    return load(path)


def _model() -> Any:
    """The fields that are read from a summary; others are ignored."""
    from pydantic import BaseModel, ConfigDict, Field

    # Longer than what Epsilometer writes, but short enough for a page: files are untrusted.
    name, short, few = Field(max_length=500), Field(max_length=200), Field(max_length=100)

    class Part(BaseModel):
        model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    class Epsilon(Part):
        median: float
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
