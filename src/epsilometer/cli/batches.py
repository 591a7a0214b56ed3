"""The data of several files: estimated together, also with those of a result that they update."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em
from epsilometer.cli import results
from epsilometer.cli.results import STDIN
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


@dataclass(frozen=True, kw_only=True)
class Batches:
    """A result to update, if any, and the counts or scores of the files.

    A result alone is judged again.
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

    def parts(self, kind: str) -> list[Any]:
        """The data of each file for a model."""
        return [source.data(kind) for source in self.sources]

    def together(self, parts: list[Any]) -> Any:
        """All data, those of the posterior to update first."""
        first, *rest = parts if self.start is None else [self.start.data, *parts]
        for part in rest:
            if type(part) is not type(first):
                raise InputError(
                    f"expected {type(first).__name__} to update with, got {type(part).__name__}."
                )
        return first.joined(*rest) if rest else first

    def model_of(self, options: dict[str, Any]) -> Any:
        """The model of the posterior; options that contradict it are refused."""
        from epsilometer.model.from_words import curve_model_in_words, in_words

        engine = self.start.provenance.engine
        words = curve_model_in_words if engine == CURVE else in_words
        settings = words(self.start.model) | {"engine": engine, "preset": None}
        for name, value in options.items():
            known = settings.get(name)
            if value is not None and value != known:
                has = "another setting" if known is None else _shown(known)
                raise InputError(
                    f"--{name.replace('_', '-')} {_shown(value)} contradicts {self.name}, "
                    f"which has {has}: leave the option out, or estimate from all files again."
                )
        return self.start.model

    def may_replace(self, folder: Path, data: Any) -> bool:
        """Whether a folder holds the result that is judged again, or another one from the same data."""
        if self._is_own(folder):
            return True
        if not is_result(folder):
            return False
        with suppress(InputError):
            known = open_result(folder).data
            return type(known) is type(data) and bool(known == data)
        return False

    def check_output(self, folder: Path | None) -> None:
        """Refuse the folder of a result to update: its other files are of the earlier data."""
        if self.start is not None and folder is not None and self._is_own(folder):
            raise InputError(f"{folder}: holds the result to update; name another folder.")

    def _is_own(self, folder: Path) -> bool:
        """Whether a folder is that of the result that was given."""
        if self.recorded is None:
            return False
        path = self.recorded.path
        return folder.resolve() == (path if path.is_dir() else path.parent).resolve()


def _own_statistic(recorded: Recorded | None) -> str | None:
    """The statistic of a result's audit, so that new losses are scored in the same way."""
    if recorded is None:
        return None
    known, path = recorded.known, recorded.path
    if not path.is_dir() and path.name == POSTERIOR:  # the file of a result, given by itself
        known = read_summary(path.parent)
    statistic: str | None = known.get("counts", {}).get("statistic")
    return statistic


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value
