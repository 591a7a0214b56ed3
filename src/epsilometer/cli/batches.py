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
from epsilometer.inputs.recorded import POSTERIOR, is_result, losses_in, open_result, read_summary

if TYPE_CHECKING:
    from epsilometer.inputs.recorded import Recorded
    from epsilometer.inputs.source import LossOptions, Source


@dataclass(frozen=True, kw_only=True)
class Batches:
    """A result, if the first file is one, and the counts or scores of the other files.

    A result alone is judged again; with other files it is updated.
    """

    recorded: Recorded | None
    sources: tuple[Source, ...]

    @classmethod
    def read(cls, files: list[str], options: LossOptions) -> Batches:
        """Read all files before any work is done."""
        from epsilometer.inputs.sources import of_result, read_folder_losses

        recorded, rest = None, list(files)
        if files[0] != STDIN and is_result(Path(files[0])):
            recorded, rest = open_result(Path(files[0])), files[1:]
            if not rest:
                return cls(recorded=recorded, sources=(of_result(recorded, options),))
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
        return cls(recorded=recorded, sources=tuple(sources))

    @property
    def updates(self) -> bool:
        """Whether there are new data for the result."""
        return self.recorded is not None and self.sources[0].recorded is None

    @property
    def kind(self) -> str:
        """The default model: that of the result to update, or of the files."""
        if self.recorded is not None and self.updates:
            return self.recorded.kind
        return self.sources[0].kind

    def own(self, kind: str) -> Recorded | None:
        """The result of a model; one to update must have it."""
        own = None if self.recorded is None else self.recorded.of_kind(kind)
        if self.updates and own is None and self.recorded is not None:
            raise InputError(f"{self.recorded.path}: has no posterior of the {kind} model.")
        return own

    @property
    def scores(self) -> em.Scores | None:
        """Scores of all models, if every file has them and there is no posterior to update."""
        known = [source.models for source in self.sources if source.models is not None]
        if self.updates or len(known) < len(self.sources):
            return None
        return known[0].joined(*known[1:])

    def together(self, own: Recorded | None, parts: list[Any]) -> Any:
        """All data, those of the result to update first."""
        first, *rest = [own.data, *parts] if self.updates and own is not None else parts
        for part in rest:
            if type(part) is not type(first):
                raise InputError(
                    f"expected {type(first).__name__} to update with, got {type(part).__name__}."
                )
        return first.joined(*rest) if rest else first

    def check_output(self, folder: Path | None) -> None:
        """Refuse the folder of a result to update: its other files are of the earlier data."""
        if self.updates and folder is not None and self._is_own(folder):
            raise InputError(f"{folder}: holds the result to update; name another folder.")

    def may_replace(self, folder: Path, data: Any) -> bool:
        """Whether a folder holds the result that is judged again, or another one from the same data."""
        if self._is_own(folder):
            return True
        with suppress(InputError):
            known = open_result(folder).data if is_result(folder) else None
            return type(known) is type(data) and bool(known == data)
        return False

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
