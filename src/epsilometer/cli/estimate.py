"""``epsilometer estimate``: the posterior of epsilon from scores, losses or counts.

Several files are estimated together, also with the data of a result that they update.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import epsilometer as em
from epsilometer.cli import options, results
from epsilometer.cli.delivery import DeliveryOptions, VerdictOptions, deliver
from epsilometer.cli.options import argument
from epsilometer.cli.results import STDIN
from epsilometer.errors import InputError
from epsilometer.inputs.recorded import CURVE, is_result, losses_in, open_result, read_summary
from epsilometer.inputs.source import NO_OPTIONS, LossOptions, Source


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
        from epsilometer.inputs.sources import of_result, read_folder_losses

        before, rest = None, list(files)
        if files[0] != STDIN and is_result(Path(files[0])):
            path, rest = Path(files[0]), files[1:]
            before = of_result(open_result(path), path, NO_OPTIONS if rest else options)
            if not rest:
                return cls(before=before, sources=(before,))
        if rest.count(STDIN) > 1:
            raise InputError("expected standard input (-) once, got it twice.")
        if before is not None:  # new losses are scored as those of its audit
            counts = read_summary(_home(before)).get("counts", {})
            audit = {f"default_{name}": counts.get(name) for name in ("statistic", "failures")}
            options = replace(options, **audit)
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
    def result(self) -> em.Result | None:
        """The result that the first file is, if it is one."""
        return None if self.before is None else self.before.result

    def own(self, kind: str) -> em.Result | None:
        """The result of a model; one to update must have it."""
        if self.before is None:
            return None
        own: em.Result | None = self.before.answer(kind)
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

    def together(self, own: em.Result | None, parts: list[Any]) -> Any:
        """All data, those of the result to update first."""
        if own is None or self.before is None or not self.updates:
            return parts[0].joined(*parts[1:]) if parts[1:] else parts[0]
        data: Any = own.data
        known, name = own.posterior.model, self.before.label
        independent = isinstance(known, em.CountModel) and not known.likelihood.parameters
        for source, part in zip(self.sources, parts, strict=True):
            if type(part) is not type(data):
                raise InputError(
                    f"expected {type(data).__name__} to update with, got {type(part).__name__}."
                )
            if independent and part.cross_fed:
                results.warn(
                    f"warning: {source.label}: counts of cross-fed models, but {name} assumes "
                    "independent decisions, so the interval is too narrow."
                )
        return data.joined(*parts)

    def may_replace(self, folder: Path, data: Any) -> bool:
        """Whether a folder holds the result that is judged again, or another one from the same data."""
        if self.is_own(folder):
            return True
        with suppress(InputError):
            known = open_result(folder).data if is_result(folder) else None
            return type(known) is type(data) and bool(known == data)
        return False

    def is_own(self, folder: Path) -> bool:
        """Whether a folder is that of the result that was given."""
        return self.before is not None and folder.resolve() == _home(self.before).resolve()


def _home(before: Source) -> Path:
    """The folder of a result, also of one that is given as its posterior."""
    path = Path(before.label)
    return path if path.is_dir() else path.parent


@options.flat
def estimate(
    files: list[str] = argument(
        "FILE...",
        "Losses (challenge_base, hypothesis, replicate, loss) or scores (score instead of loss, or "
        "score, member) as CSV or Parquet; losses of a pool; a store of `audit`; a result folder; or "
        "counts (false_positives, trials_h0, false_negatives, trials_h1, optionally challenge_base and "
        "group) as CSV or JSON. - reads standard input. Several files are estimated together. If "
        "the first one is a result folder or a posterior.nc, the others update it, with its delta, "
        "assumptions and claim. A result alone is judged again, with the given options.",
    ),
    *,
    delta: str | None = options.DELTAS,
    losses: options.FileLossOptions,
    assumed: options.ModelOptions,
    claims: options.ClaimOptions,
    assume_independent_noise: bool = options.INDEPENDENT_NOISE,
    verdict: VerdictOptions,
    delivery: DeliveryOptions,
) -> int:
    """Estimate epsilon from scores, losses or counts.

    `estimate result/posterior.nc new.csv --output result-2` is the estimate from old and new data.
    """
    from epsilometer.auditing.answering import judged
    from epsilometer.engines import estimate as engines
    from epsilometer.judgement.judging import result_of

    deltas = () if delta is None else options.parse_deltas(delta)
    reading = LossOptions(**vars(losses))
    data = Batches.read(files, reading)
    kind = assumed.kind((data.before or data.sources[0]).kind)
    if kind == CURVE and delivery.check_model:
        raise InputError("--check-model is for --model count; the curve model is always checked.")
    first = options.need_delta(deltas[0] if deltas else None, data.result)
    parts = [source.data(kind) for source in data.sources]
    own = data.own(kind)
    given = [*assumed.words, *(["delta"] if deltas else [])]
    model = _model(data, own, assumed.made(kind, first, *parts), given, assumed)
    together = data.together(own, parts)
    if assume_independent_noise:
        together = results.assuming_independent_noise(together)
    claims.check(deltas)
    verdict.check()
    asked: dict[str, Any] = {"claim": claims.stated(deltas), "level": claims.level}
    asked["deltas"] = deltas if len(deltas) > 1 else None
    question = verdict.question(delivery, _asked_before(data, model, deltas), **asked)
    verdict.check_claim(question.claim)
    settings = None
    if kind != CURVE:
        settings = assumed.settings(None if own is None or assumed.engine else own.posterior)
    if settings is not None and len(deltas) > 1:
        options.refuse_deltas("--engine mcmc", "one delta", deltas)
    # The other files of a result to update are of the earlier data.
    if data.updates and delivery.output is not None and data.is_own(delivery.output):
        raise InputError(f"{delivery.output}: holds the result to update; name another folder.")
    delivery.check(lambda folder: data.may_replace(folder, together))
    again = reading.given or assumed.engine or data.updates or assume_independent_noise
    if own is not None and not again and model == own.posterior.model:
        source = replace(data.sources[0], result=own)
        result = judged(source, question, on_message=results.tell)
    else:
        if data.updates and own is not None:
            settings = own.posterior.engine
        posterior = engines.estimate(together, model, settings)
        result = result_of(posterior, question, scores=data.scores, on_message=results.tell)
    return deliver(result, delivery, verdict, file=Path(files[-1]))


def _asked_before(data: Batches, model: Any, deltas: tuple[float, ...]) -> dict[str, Any]:
    """The question of the given result, as far as it is that of these deltas too.

    The claim of a result holds at its own delta only.
    """
    known = {} if data.before is None else data.before.asked
    other = data.result is None or model.delta != data.result.delta
    if deltas or other:
        known.pop("deltas", None)
    if len(deltas) > 1 or other:
        known = {name: value for name, value in known.items() if not name.startswith("claim")}
    return known


def _model(
    data: Batches, own: em.Result | None, made: Any, given: list[str], assumed: options.ModelOptions
) -> Any:
    """The model of the options, or of the result with these options; one to update keeps its own."""
    from epsilometer.model.models import with_changes

    if own is None or data.before is None:
        return made
    name, known = data.before.label, own.posterior.model
    if not data.updates:
        return with_changes(known, made, given)
    other = [word for word in given if with_changes(known, made, [word]) != known]
    if assumed.engine_name not in (None, own.posterior.provenance.engine):
        other.append("engine")
    if other:
        listed = ", ".join(f"--{word.replace('_', '-')}" for word in other)
        raise InputError(
            f"{listed} contradicts {name}: leave the option out, or estimate from all files again."
        )
    return known
