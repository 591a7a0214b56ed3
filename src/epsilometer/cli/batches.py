"""Data in batches: files in the given order, the first of which may be a posterior to update."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer.cli import results
from epsilometer.cli.results import PREVIOUS, STDIN
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import (
    CURVE,
    POSTERIOR,
    is_result,
    losses_in,
    open_result,
    read_summary,
)

if TYPE_CHECKING:
    from epsilometer.inputs.recorded import Recorded
    from epsilometer.inputs.source import LossOptions, Source

    AnyModel = em.CountModel | em.CurveModel
    Data = em.AttackCounts | em.Scores


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The data of the files: a result to update, if any, and labelled counts or scores.

    A result alone is judged again; files after it update it.
    """

    recorded: Recorded | None
    name: str
    sources: tuple[Source, ...]

    @classmethod
    def read(cls, files: list[str], options: LossOptions) -> Batches:
        """Read all files before any work is done."""
        from epsilometer.inputs.sources import of_result, read_folder_losses

        recorded, name, rest = None, "", list(files)
        if files[0] != STDIN and is_result(Path(files[0])):
            recorded, name, rest = open_result(Path(files[0])), files[0], files[1:]
            if not rest:
                return cls(recorded=recorded, name=name, sources=(of_result(recorded, options),))
        if rest.count(STDIN) > 1:
            raise InputError("expected standard input (-) once, got it twice.")
        options = replace(options, default_statistic=_own_statistic(recorded))
        sources: list[Source] = []
        for file in rest:
            if file == STDIN or not is_result(Path(file)):
                sources.append(results.source_of(file, options))
            elif losses_in(Path(file)) is not None:
                sources.append(read_folder_losses(Path(file), options))
            else:
                raise InputError(
                    f"{file}: expected new data; only the first file may be a posterior."
                )
        if len({source.scores is None for source in sources}) > 1:
            raise InputError("expected counts or scores in all files, got both.")
        return cls(recorded=recorded, name=name, sources=tuple(sources))

    @property
    def alone(self) -> Recorded | None:
        """A result without new data."""
        return self.sources[0].recorded

    @property
    def start(self) -> Any:
        """The posterior to update."""
        return None if self.recorded is None or self.alone else self.recorded.posterior

    @property
    def scores(self) -> em.Scores | None:
        """Scores of all models, if every file has them and there is no posterior to update."""
        known = [source.models for source in self.sources if source.models is not None]
        if self.start is not None or len(known) < len(self.sources):
            return None
        return known[0].joined(*known[1:])

    @property
    def kind(self) -> str:
        """The default model of the files."""
        return self.sources[0].kind

    def data(self, kind: str) -> list[tuple[str, Data]]:
        """The data for a model, with the label of each batch."""
        return [(source.label, source.data(kind)) for source in self.sources]

    def model_of(self, options: dict[str, Any]) -> AnyModel:
        """The model of the posterior; options that contradict it are refused."""
        from epsilometer.model.from_words import curve_model_in_words, in_words

        assert self.start is not None
        curve = self.start.provenance.engine == CURVE
        words = curve_model_in_words if curve else in_words
        settings = words(self.start.model) | {
            "engine": self.start.provenance.engine,
            "preset": None,
        }
        for name, value in options.items():
            if value is not None and value != settings.get(name):
                known = settings.get(name)
                has = "another setting" if known is None else _shown(known)
                raise InputError(
                    f"--{name.replace('_', '-')} {_shown(value)} contradicts {self.name}, "
                    f"which has {has}: leave the option out, or estimate from all files again."
                )
        model: AnyModel = self.start.model
        return model

    def may_replace(self, folder: Path, data: list[Any]) -> bool:
        """Whether a folder holds the result that was given, or another one from the same data."""
        if self._is_own(folder):
            return True
        if not is_result(folder):
            return False
        with suppress(InputError):
            known, first = open_result(folder).data, data[0]
            return type(known) is type(first) and bool(known == first.joined(*data[1:]))
        return False

    def keep_previous(self, folder: Path | None) -> list[Path]:
        """Move the files of a result that is updated in place to its subfolder ``previous-N``.

        They are of the earlier data: posterior, summary, losses, figures.
        """
        if self.start is None or folder is None or not self._is_own(folder):
            return []
        number = 1 + sum(1 for path in folder.glob(f"{PREVIOUS}*") if path.is_dir())
        while (folder / f"{PREVIOUS}{number}").exists():
            number += 1
        kept = folder / f"{PREVIOUS}{number}"
        files = [path for path in folder.iterdir() if path.is_file()]
        kept.mkdir()
        for path in files:
            path.rename(kept / path.name)
        return [kept]

    def _is_own(self, folder: Path) -> bool:
        """Whether a folder is that of the result that was given."""
        if self.recorded is None:
            return False
        path = self.recorded.path
        return folder.resolve() == (path if path.is_dir() else path.parent).resolve()

    def estimate(
        self,
        data: list[tuple[str, Data]],
        model: AnyModel,
        settings: em.engines.McmcSettings | None,
    ) -> Any:
        """The posterior after all batches, with a record of each."""
        posterior, rest = self.start, data
        if posterior is None:
            (label, first), rest = data[0], data[1:]
            posterior = results.run_engine(first, model, settings)
            posterior = posterior.with_batches((_relabelled(posterior, label),))
        for label, more in rest:
            with results.progress(label) as (report, _):
                posterior = posterior.update(more, label=label, engine=settings, on_message=report)
        return posterior


def _own_statistic(recorded: Recorded | None) -> str | None:
    """The statistic of a result's audit, so that new losses are scored in the same way."""
    if recorded is None:
        return None
    known, path = recorded.known, recorded.path
    folder = path if path.is_dir() else path.parent
    if not path.is_dir() and path.name == POSTERIOR:  # the file of a result, given by itself
        known = read_summary(folder)
    # A result that was updated in place has its audit's summary in the folder of the first result.
    for summary in (known, read_summary(folder / f"{PREVIOUS}1")):
        statistic: str | None = summary.get("counts", {}).get("statistic")
        if statistic is not None:
            return statistic
    return None


def _relabelled(posterior: Any, label: str) -> em.engines.Batch:
    batch: em.engines.Batch = posterior.batches[0]
    return replace(batch, label=label)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value
