"""Data in batches: files in the order given, the first of which may be a posterior to go on from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer.cli import results
from epsilometer.cli.delivery import CURVES, POSTERIOR
from epsilometer.cli.inputs import LossOptions, Source, counts_of, is_posterior, read_source
from epsilometer.cli.results import STDIN
from epsilometer.errors import InputError

if TYPE_CHECKING:
    AnyModel = em.AuditModel | em.ProfileModel
    Data = em.AttackCounts | em.Scores

PROFILE = "profile"
"""The engine of posteriors of the whole curve."""


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What the files held: a posterior to begin with, if any, and labelled counts or scores."""

    start: Any
    name: str
    sources: tuple[Source, ...]

    @classmethod
    def read(cls, files: list[str], options: LossOptions) -> Batches:
        """Read all files before any work is done."""
        start: Any = None
        name, rest = "", list(files)
        if is_posterior(files[0]) and not (len(files) == 1 and _has_losses(files[0])):
            path = Path(files[0])
            start = em.load(path / POSTERIOR if path.is_dir() else path)
            name, rest = files[0], files[1:]
            if not rest and start.provenance.engine == PROFILE:
                # Its scores are in it: they can be estimated from under other assumptions.
                return cls(
                    start=None, name=name, sources=(Source(label=name, scores=start.scores),)
                )
            if not rest:
                raise InputError(
                    f"{name}: expected counts to update the posterior with, got none; "
                    "`epsilometer report` shows a posterior as it is."
                )
        later = next((file for file in rest if is_posterior(file)), None)
        if later is not None and not _has_losses(later):
            raise InputError(f"{later}: expected counts; only the first file may be a posterior.")
        if rest.count(STDIN) > 1:
            raise InputError("expected standard input (-) once, got it twice.")
        sources = tuple(read_source(file, options) for file in rest)
        kinds = {source.scores is None for source in sources}
        if len(kinds) > 1:
            raise InputError("expected counts or scores in all files, got both.")
        if options.given is not None and sources[0].losses is None:
            shown = options.given.replace("_", "-")
            raise InputError(f"--{shown} is for losses; {sources[0].label} has none.")
        return cls(start=start, name=name, sources=sources)

    @property
    def has_scores(self) -> bool:
        """Whether the files have scores, of their own or of losses."""
        return self.sources[0].scores is not None

    def data(self, model: str, options: LossOptions) -> list[tuple[str, Data]]:
        """What a model reads, with the label of each batch."""
        if model == PROFILE:
            return [(source.label, source.data) for source in self.sources]
        return [(source.label, counts_of(source, options)) for source in self.sources]

    def model_of(self, options: dict[str, Any]) -> AnyModel:
        """The model of the posterior, after a look whether the options say otherwise."""
        from epsilometer.audit.assumptions import in_words, profile_in_words

        assert self.start is not None
        profile = self.start.provenance.engine == PROFILE
        words = profile_in_words if profile else in_words
        own = words(self.start.model) | {"engine": self.start.provenance.engine, "preset": None}
        for name, value in options.items():
            if value is not None and value != own.get(name):
                known = own.get(name)
                said = "something else" if known is None else _shown(known)
                raise InputError(
                    f"--{name.replace('_', '-')} {_shown(value)} contradicts {self.name}, "
                    f"which has {said}: leave the option out, or estimate from all files anew."
                )
        found: AnyModel = self.start.model
        return found

    def check_output(self, folder: Path | None) -> None:
        """Refuse a folder whose other files would be of other counts than the new posterior."""
        if self.start is not None and folder is not None and (folder / CURVES).exists():
            raise InputError(
                f"{folder}: holds the error curves of an audit, which are of other counts than the "
                "updated posterior; choose another folder for --output."
            )

    def estimate(
        self, data: list[tuple[str, Data]], model: AnyModel, settings: em.McmcSettings | None
    ) -> Any:
        """The posterior after all batches, which remembers each of them."""
        found, rest = self.start, data
        if found is None:
            (label, first), rest = data[0], data[1:]
            found = results.run_engine(first, model, settings)
            found = found.with_batches((_relabelled(found, label),))
        for label, more in rest:
            with results.progress(label) as (report, _):
                found = found.update(more, label=label, engine=settings, report=report)
        return found


def _relabelled(posterior: Any, label: str) -> em.Batch:
    own: em.Batch = posterior.batches[0]
    return replace(own, label=label)


def _has_losses(file: str) -> bool:
    from epsilometer.cli.delivery import LOSSES

    return (Path(file) / LOSSES).exists()


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value
