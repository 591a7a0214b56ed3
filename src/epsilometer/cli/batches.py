"""Counts in batches: files in the order given, the first of which may be a posterior to go on from."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files
from epsilometer.cli import dependence, results
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.inference.mcmc import McmcSettings
    from epsilometer.inference.posterior import Posterior
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel

STDIN = "-"
POSTERIOR = "posterior.nc"
CURVES = "curves.csv"


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What the files held: a posterior to begin with, if any, and labelled counts."""

    start: Posterior | None
    name: str
    counts: tuple[tuple[str, AttackCounts], ...]

    @classmethod
    def read(cls, files: list[str]) -> Batches:
        """Read all files before any work is done."""
        start, name, rest = None, "", list(files)
        if _is_posterior(files[0]):
            from epsilometer.inference.storage import load

            path = Path(files[0])
            start, name, rest = (
                load(path / POSTERIOR if path.is_dir() else path),
                files[0],
                files[1:],
            )
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
        found = tuple((_label(file), _read(file)) for file in rest)
        return cls(start=start, name=name, counts=found)

    @property
    def engine(self) -> str:
        """The engine that made the posterior."""
        assert self.start is not None
        return self.start.provenance.engine

    def model_of(self, options: dict[str, Any]) -> AuditModel:
        """The model of the posterior, after a look whether the options say otherwise."""
        assert self.start is not None
        model = self.start.model
        own = _described(model) | {"engine": self.engine, "preset": None}
        for name, value in options.items():
            if value is not None and value != own[name]:
                said = "something else" if own[name] is None else _shown(own[name])
                raise InputError(
                    f"--{name.replace('_', '-')} {_shown(value)} contradicts {self.name}, "
                    f"which has {said}: leave the option out, or estimate from all counts anew."
                )
        return model

    def settings(self, given: dict[str, int]) -> McmcSettings:
        """The settings of the chains, some of them changed."""
        from epsilometer.inference.exact import ExactSettings
        from epsilometer.inference.updating import settings_of

        assert self.start is not None
        settings = settings_of(self.start)
        assert not isinstance(settings, ExactSettings)
        changed: dict[str, Any] = dict(given)
        return replace(settings, **changed)

    def check_output(self, folder: Path | None) -> None:
        """Refuse a folder whose other files would be of other counts than the new posterior."""
        if self.start is not None and folder is not None and (folder / CURVES).exists():
            raise InputError(
                f"{folder}: holds the error curves of an audit, which are of other counts than the "
                "updated posterior; choose another folder for --output."
            )

    def all_counts(self) -> AttackCounts:
        """The counts of all files as one."""
        from epsilometer.inference.updating import join_batches

        return join_batches(*(counts for _, counts in self.counts))

    def estimate(self, model: AuditModel, settings: McmcSettings | None) -> Posterior:
        """The posterior after all batches, which remembers each of them."""
        from epsilometer.inference.updating import only_batch

        found, rest = self.start, self.counts
        if found is None:
            (label, counts), rest = self.counts[0], self.counts[1:]
            model.check(counts)
            first = results.run_engine(counts, model, settings)
            if not rest:
                return first.with_batches((only_batch(first, label=label),))
            found = first.with_batches((only_batch(first, label=label),))
        for label, counts in rest:
            with results.progress(label) as (report, _):
                found = found.update(counts, label=label, engine=settings, report=report)
        return found


def starts_with_posterior(files: list[str]) -> bool:
    """Whether delta, priors and likelihood come from the first file."""
    return _is_posterior(files[0])


def _is_posterior(file: str) -> bool:
    if file == STDIN:
        return False
    path = Path(file)
    if path.is_dir():
        if (path / POSTERIOR).exists():
            return True
        raise InputError(f"{file}: cannot be read: expected a file, or a folder with {POSTERIOR}.")
    return path.suffix.lower() == ".nc"


def _label(file: str) -> str:
    return "standard input" if file == STDIN else Path(file).name


def _read(file: str) -> AttackCounts:
    from epsilometer.model import counts_files

    if file == STDIN:
        data = sys.stdin.buffer.read(_files.LARGEST_FILE + 1)
        text = _files.decode(data, name="standard input")
        return counts_files.parse(text, name="standard input")
    return counts_files.read(file)


def _shown(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else value


def _described(model: AuditModel) -> dict[str, Any]:
    """A model in the words of the options; what no option can say is None."""
    from epsilometer.model.likelihoods import CorrelatedNormal
    from epsilometer.model.priors import Fixed, HalfNormal

    correlated = isinstance(model.likelihood, CorrelatedNormal)
    return dependence.described(model.dependence) | {
        "delta": model.delta,
        "likelihood": "correlated" if correlated else "binomial",
        "strength": model.strength.value if isinstance(model.strength, Fixed) else None,
        "epsilon_prior_scale": model.epsilon.scale
        if isinstance(model.epsilon, HalfNormal)
        else None,
    }
