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
    from epsilometer.inputs.source import LossOptions, Source
    from epsilometer.judgement.result import Result


@dataclass(frozen=True, kw_only=True)
class Batches:
    """A result, if the first file is one, and the counts or scores of the other files.

    A result alone is judged again; with other files it is updated.
    """

    before: Source | None
    sources: tuple[Source, ...]

    @classmethod
    def read(cls, files: list[str], options: LossOptions) -> Batches:
        """Read all files before any work is done."""
        from epsilometer.inputs.source import NO_OPTIONS
        from epsilometer.inputs.sources import of_result, read_folder_losses

        before, rest = None, list(files)
        if files[0] != STDIN and is_result(Path(files[0])):
            path, rest = Path(files[0]), files[1:]
            before = of_result(open_result(path), path, NO_OPTIONS if rest else options)
            if not rest:
                return cls(before=before, sources=(before,))
        if rest.count(STDIN) > 1:
            raise InputError("expected standard input (-) once, got it twice.")
        options = replace(options, default_statistic=_own_statistic(before))
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
        return cls(before=before, sources=tuple(sources))

    @property
    def updates(self) -> bool:
        """Whether there are new data for the result."""
        return self.before is not None and self.sources[0].result is None

    @property
    def kind(self) -> str:
        """The default model: that of the result to update, or of the files."""
        return (self.before or self.sources[0]).kind

    @property
    def result(self) -> Result | None:
        """The result that the first file is, if it is one."""
        return None if self.before is None else self.before.result

    def own(self, kind: str) -> Result | None:
        """The result of a model; one to update must have it."""
        if self.before is None:
            return None
        own = self.before.answer(kind)
        if self.updates and own is None:
            raise InputError(f"{self.before.label}: has no posterior of the {kind} model.")
        return own

    @property
    def scores(self) -> em.Scores | None:
        """Scores of all models, if every file has them and there is no posterior to update."""
        known = [source.models for source in self.sources if source.models is not None]
        if self.updates or len(known) < len(self.sources):
            return None
        return known[0].joined(*known[1:])

    def together(self, own: Result | None, parts: list[Any]) -> Any:
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
        if self.before is None:
            return False
        path = Path(self.before.label)
        return folder.resolve() == (path if path.is_dir() else path.parent).resolve()


def _own_statistic(before: Source | None) -> str | None:
    """The statistic of a result's audit, so that new losses are scored in the same way."""
    if before is None:
        return None
    path = Path(before.label)
    folder = path.parent if path.name == POSTERIOR else path  # the posterior of a result, by itself
    statistic: str | None = read_summary(folder).get("counts", {}).get("statistic")
    return statistic
