"""Counts in batches: files in the order given, the first of which may be a posterior to go on from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import epsilometer as em
from epsilometer.cli import results
from epsilometer.cli.delivery import CURVES, POSTERIOR
from epsilometer.cli.results import STDIN
from epsilometer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What the files held: a posterior to begin with, if any, and labelled counts."""

    start: em.Posterior | None
    name: str
    counts: tuple[tuple[str, em.AttackCounts], ...]

    @classmethod
    def read(cls, files: list[str]) -> Batches:
        """Read all files before any work is done."""
        start, name, rest = None, "", list(files)
        if _is_posterior(files[0]):
            path = Path(files[0])
            start = em.load(path / POSTERIOR if path.is_dir() else path)
            name, rest = files[0], files[1:]
            if not rest:
                raise InputError(
                    f"{name}: expected counts to update the posterior with, got none; "
                    "`epsilometer report` shows a posterior as it is."
                )
        later = next((file for file in rest if _is_posterior(file)), None)
        if later is not None:
            raise InputError(f"{later}: expected counts; only the first file may be a posterior.")
        if rest.count(STDIN) > 1:
            raise InputError("expected standard input (-) once, got it twice.")
        return cls(start=start, name=name, counts=tuple(map(_read, rest)))

    def model_of(self, options: dict[str, Any]) -> em.AuditModel:
        """The model of the posterior, after a look whether the options say otherwise."""
        from epsilometer.audit.assumptions import in_words

        assert self.start is not None
        own = in_words(self.start.model) | {"engine": self.start.provenance.engine, "preset": None}
        for name, value in options.items():
            if value is not None and value != own[name]:
                said = "something else" if own[name] is None else _shown(own[name])
                raise InputError(
                    f"--{name.replace('_', '-')} {_shown(value)} contradicts {self.name}, "
                    f"which has {said}: leave the option out, or estimate from all counts anew."
                )
        return self.start.model

    def check_output(self, folder: Path | None) -> None:
        """Refuse a folder whose other files would be of other counts than the new posterior."""
        if self.start is not None and folder is not None and (folder / CURVES).exists():
            raise InputError(
                f"{folder}: holds the error curves of an audit, which are of other counts than the "
                "updated posterior; choose another folder for --output."
            )

    def estimate(self, model: em.AuditModel, settings: em.McmcSettings | None) -> em.Posterior:
        """The posterior after all batches, which remembers each of them."""
        from epsilometer.inference.updating import only_batch

        found, rest = self.start, self.counts
        if found is None:
            (label, counts), rest = self.counts[0], self.counts[1:]
            first = results.run_engine(counts, model, settings)
            found = first.with_batches((only_batch(first, label=label),))
        for label, counts in rest:
            with results.progress(label) as (report, _):
                found = found.update(counts, label=label, engine=settings, report=report)
        return found


def _is_posterior(file: str) -> bool:
    if file == STDIN:
        return False
    path = Path(file)
    if path.is_dir():
        if (path / POSTERIOR).exists():
            return True
        raise InputError(f"{file}: cannot be read: expected a file, or a folder with {POSTERIOR}.")
    return path.suffix.lower() == ".nc"


def _read(file: str) -> tuple[str, em.AttackCounts]:
    """What a file is called, and its counts."""
    if file != STDIN:
        return Path(file).name, em.AttackCounts.read(file)
    name, text = results.text_of(file)
    return name, em.AttackCounts.parse(text, name=name)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value
