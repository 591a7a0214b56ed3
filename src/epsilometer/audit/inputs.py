"""Whatever a user has: counts, losses, scores, canaries, a store, a result folder, a posterior.

`estimate`, `compare` and `assert_private` read it here, and so they agree on what a file says.  Standard
input is read by who asks: text comes in as text.  Files are untrusted, and none of them names code that
is run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files, _validate
from epsilometer.audit.pool_inputs import POOL_COLUMNS, is_pool, pool_design_for
from epsilometer.audit.recorded import (
    LOSSES,
    POSTERIOR,
    PUBLISHED_MODEL,
    WHOLE_CURVE,
    Recorded,
    is_result,
    losses_in,
    open_result,
    read_summary,
    refuse_several,
)
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.attacks.statistics import Statistic
    from epsilometer.inference.profile.result import ProfileResult
    from epsilometer.inference.result import Result
    from epsilometer.inference.verdict import Thresholds
    from epsilometer.measurement.designs import Design
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.joint import AuditModel
    from epsilometer.model.profile import ProfileModel
    from epsilometer.model.scores import Scores

DEFAULT_STATISTIC, DEFAULT_RATE = "logit", 0.1
STATISTIC_OPTION = "--statistic"

COUNTS = frozenset({"false_positives", "trials_h0", "false_negatives", "trials_h1"})
"""Columns by which counts are known."""


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """How losses become scores, and counts for the published model."""

    statistic: str | None = None
    target_alpha: float | None = None
    variant: str | None = None

    @property
    def given(self) -> str | None:
        """The first of these options that was given, if any."""
        return next((name for name, value in vars(self).items() if value is not None), None)


NO_OPTIONS = LossOptions()


@dataclass(frozen=True, kw_only=True)
class AttackedBy:
    """How losses are attacked where only counts will do; of a result as its audit did it."""

    statistic: Statistic
    target_alpha: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """One thing that was read.

    Attributes
    ----------
    label
        What it is called: a file by its name, a folder by its path.
    counts, scores
        What it holds, one of the two or both.
    losses, design, attacked
        What scores came from, and how counts are made of it; None for scores that somebody brought.
    recorded
        The result that was read, if it was one.
    """

    label: str
    counts: AttackCounts | None = None
    scores: Scores | None = None
    losses: Losses | PoolLosses | None = None
    design: Design | None = None
    attacked: AttackedBy | None = None
    recorded: Recorded | None = None

    @property
    def models(self) -> Scores | None:
        """Scores of every model, if these are known."""
        if self.scores is None and self.recorded is not None:
            return scores_of_result(self.recorded)
        return self.scores

    @property
    def one_run(self) -> bool:
        """Whether the scores are of canaries in one training run."""
        return self.scores is not None and self.scores.one_run

    @property
    def kind(self) -> str:
        """The model that reads it, unless somebody chooses: that of the result, or by the data."""
        if self.recorded is not None:
            return self.recorded.kind
        return PUBLISHED_MODEL if self.scores is None else WHOLE_CURVE

    def data(self, kind: str) -> Any:
        """What a model of that kind reads."""
        if kind == PUBLISHED_MODEL:
            return counts_of(self)
        if self.scores is None and self.recorded is not None and self.recorded.losses is not None:
            return read_folder_losses(self.recorded.path).data(kind)
        return self.counts if self.scores is None else self.scores


# --- files and folders ------------------------------------------------------------------------


def read(path: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """Read a file or a folder, whatever is in it."""
    from epsilometer.measurement.sqlite_store import is_store
    from epsilometer.model.scores import Scores

    if is_result(path):
        return of_result(open_result(path), options)
    if path.is_dir():
        return read_folder_losses(path, options)
    kind = path.suffix.lower()
    if kind == ".toml":
        raise InputError(
            f"{path.name}: expected data, got a configuration; give the store of the audit, or the "
            "folder that it wrote."
        )
    losses = kind == ".parquet" and "loss" in _files.parquet_columns(path)
    if losses or kind == ".npz" or is_store(path):
        return _of_losses(path, path.name, options)
    if kind == ".parquet":
        return _of_scores(Scores.read(path), path.name, options)
    as_json = path.suffix.lower() == ".json"
    return read_text(_files.load(path), path.name, options, as_json=as_json)


def read_text(
    text: str, name: str, options: LossOptions = NO_OPTIONS, *, as_json: bool = False
) -> Source:
    """Read CSV or JSON text; ``name`` stands for the file in error messages."""
    from epsilometer.attacks.losses import COLUMNS, Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.model import count_tables
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.score_tables import header_of
    from epsilometer.model.scores import Scores

    plain = not as_json and text.lstrip("\ufeff \t\r\n")[:1] not in ("[", "{")
    columns = header_of(text) if plain else []
    if "loss" in columns:
        _refuse_variant(options)
        if set(columns) >= POOL_COLUMNS:
            pool = PoolLosses.parse_csv(text, name=name)
            return _of_pool(pool, name, options, pool_design_for(pool))
        losses = Losses.parse_csv(text, name=name)
        return _made(losses, name, options, design_for(losses))
    if "score" in columns:
        return _of_scores(Scores.parse_csv(text, name=name), name, options)
    if len(columns) > 1 and not set(columns) & COUNTS:
        raise InputError(
            f"{name}: expected the columns of losses ({', '.join(COLUMNS)}), of scores "
            "(challenge_base, hypothesis, score; of canaries score, member) or of counts "
            f"(false_positives, trials_h0, ...), got {_files.shown(', '.join(columns))}."
        )
    _refuse_loss_options(options, name)
    parse = count_tables.parse_json if as_json else count_tables.parse
    return Source(label=name, counts=AttackCounts(**parse(text, name=name)))


def of_result(recorded: Recorded, options: LossOptions = NO_OPTIONS) -> Source:
    """A result by the data in its posterior; by its losses if options are about these."""
    label = str(recorded.path)
    if options.given is not None:
        if recorded.losses is None:
            _refuse_loss_options(options, label)
        return replace(read_folder_losses(recorded.path, options), recorded=recorded)
    if recorded.kind == PUBLISHED_MODEL:
        return Source(label=label, counts=recorded.data, recorded=recorded)
    return Source(label=label, scores=recorded.data, recorded=recorded)


def read_folder_losses(folder: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """The losses in a result folder, read as the audit that measured them did."""
    path = losses_in(folder)
    if path is None:
        refuse_several(folder)
        raise InputError(
            f"{folder}: cannot be read: expected a file, or a folder with {POSTERIOR} or {LOSSES}."
        )
    return _of_losses(path, str(folder), options, read_summary(folder).get("counts"))


def source_of(given: Any) -> Source:
    """What somebody hands over in Python: counts, scores, losses, or the path of anything."""
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.scores import Scores

    if isinstance(given, AttackCounts):
        return Source(label="counts", counts=given)
    if isinstance(given, Scores):
        return Source(label="scores", scores=given)
    if isinstance(given, Losses):
        return _made(given, "losses", NO_OPTIONS, design_for(given))
    if isinstance(given, PoolLosses):
        return _of_pool(given, "losses", NO_OPTIONS, pool_design_for(given))
    if isinstance(given, str | PathLike):
        return read(Path(given))
    raise InputError(
        "expected AttackCounts, Scores, Losses or the path of a file or folder, got "
        f"{type(given).__name__}."
    )


def _of_scores(scores: Scores, label: str, options: LossOptions) -> Source:
    _refuse_loss_options(options, label)
    return Source(label=label, scores=_checked(scores, label))


def _of_losses(
    path: Path, label: str, options: LossOptions, known: dict[str, Any] | None = None
) -> Source:
    from epsilometer.measurement.sqlite_store import is_store

    losses, design = read_losses(path, options.variant)
    if not design.models(1):  # of a pool
        return _of_pool(losses, label, options, design)
    return _made(losses, label, options, design, known, unfinished=is_store(path))


def _made(
    losses: Losses,
    label: str,
    options: LossOptions,
    design: Design,
    known: dict[str, Any] | None = None,
    unfinished: bool = False,
) -> Source:
    """Losses and their scores; ``known`` is what a summary says of the attack on them.

    ``unfinished`` losses are of a store that may still be filled: bases that lack a side wait.
    """
    from epsilometer.attacks.statistics import Loss

    # Of one run only the order of losses matters.
    default = Loss().name if losses.one_run else DEFAULT_STATISTIC
    attacked = _attacked(options, {"statistic": default} | (known or {}), label)
    try:
        # An audit left out what is no number; losses that somebody brings must be numbers.
        skip = unfinished or known is not None
        scores = design.scores(losses, attacked.statistic, skip=skip)
        scores = _checked(scores, label)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(label) else f"{label}: {text}") from None
    return Source(label=label, scores=scores, losses=losses, design=design, attacked=attacked)


def _of_pool(losses: PoolLosses, label: str, options: LossOptions, design: Design) -> Source:
    """Losses of a pool and the scores of its points, by the attack that the design names."""
    for name in ("statistic", "target_alpha"):
        if getattr(options, name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')} is for many models; {label} is a pool, which `attack "
                "--method` attacks otherwise."
            )
    try:
        scores = _checked(design.scores(losses), label)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(label) else f"{label}: {text}") from None
    return Source(label=label, scores=scores, losses=losses, design=design)


def _attacked(options: LossOptions, known: dict[str, Any], label: str) -> AttackedBy:
    from epsilometer.attacks.rules import ATTACKS, LikelihoodRatio
    from epsilometer.attacks.statistics import STATISTICS
    from epsilometer.audit.loading import statistic_of

    own = known["statistic"]
    if options.statistic is None and own not in STATISTICS:
        # A name in a file is never run: who trusts it says so.
        raise InputError(
            f"{label}: its losses were looked at by {_files.shown(own)}, which is code of somebody's: "
            f"name it by {STATISTIC_OPTION} to run it."
        )
    statistic = statistic_of(options.statistic or own, folder=Path(), place=STATISTIC_OPTION)
    method = known.get("attack", LikelihoodRatio().name)
    return AttackedBy(
        statistic=statistic,
        target_alpha=options.target_alpha or known.get("target_alpha", DEFAULT_RATE),
        method=method if method in ATTACKS else LikelihoodRatio().name,
    )


def _checked(scores: Scores, name: str) -> Scores:
    """Refuse what says nothing: only ties, or a single model a side in every base."""
    if all(base.trials_h0 == 1 and base.trials_h1 == 1 for base in scores.bases):
        raise InputError(
            f"{name}: expected several models a side, got one without the point and one with it "
            "in every base."
        )
    try:
        scores.check()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return scores


def _refuse_loss_options(options: LossOptions, label: str) -> None:
    if options.given is not None:
        raise InputError(f"--{options.given.replace('_', '-')} is for losses; {label} has none.")


def _refuse_variant(options: LossOptions) -> None:
    if options.variant is not None:
        raise InputError("--variant is for stores; a file of losses has one variant.")


# --- losses -----------------------------------------------------------------------------------


def read_losses(
    path: Path, variant: str | None = None, shadows: int | None = None
) -> tuple[Any, Design]:
    """Losses of a file or a store, `PoolLosses` of a pool, and how they are put to use."""
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.measurement.designs import design_of
    from epsilometer.measurement.sqlite_store import SqliteStore, is_store

    if is_store(path):
        if shadows is not None:
            raise InputError("--shadows is for files of losses; a store knows its design.")
        with SqliteStore(path, read_only=True) as store:
            sizes = store.sizes()
            losses = store.measured(sizes, choose_variant(sizes.variants, variant))
            design = store.status().identity.get("design")
            return losses, design_of(design, sizes.models_h0, store.judging)
    _refuse_variant(LossOptions(variant=variant))
    if is_pool(path):
        if shadows is not None:
            raise InputError("--shadows is for losses of many models; these are of a pool.")
        pool = PoolLosses.read(path)
        return pool, pool_design_for(pool)
    losses = Losses.read(path)
    return losses, design_for(losses, shadows)


def design_for(losses: Losses, shadows: int | None = None) -> Design:
    """Cross-feeding, or ``shadows`` models of its own for every challenge."""
    from epsilometer.measurement.designs import MeasureMIA, MeasureMIAFast
    from epsilometer.measurement.one_run import MeasureOneRun

    most = int(losses.replicate.max()) + 1
    if losses.one_run:
        return MeasureOneRun(canaries=max(most, 2))
    if shadows is None:
        return MeasureMIAFast(replicates=max(most, 3))
    _validate.whole_number("shadows", shadows, least=2)
    blocks, rest = divmod(most, 1 + 2 * shadows)
    if rest:
        raise InputError(
            f"--shadows {shadows}: expected replicates in blocks of {1 + 2 * shadows} (a challenge and "
            f"its shadow models), got {most}; without --shadows models are cross-fed."
        )
    return MeasureMIA(replicates=blocks, shadows_h0=shadows, shadows_h1=shadows)


def choose_variant(variants: tuple[str, ...], wanted: str | None) -> str:
    """The wanted variant, or the only one."""
    if wanted is None and len(variants) == 1:
        return variants[0]
    if wanted not in variants:
        shown = f"got {wanted!r}" if wanted is not None else "got none"
        raise InputError(f"expected --variant to be one of {', '.join(variants)}, {shown}.")
    return str(wanted)


def counts_of(source: Source) -> AttackCounts:
    """Counts for the published model: those that are there, or of the attack at one target rate."""
    from epsilometer.attacks.rules import ATTACKS

    if source.counts is not None:
        return source.counts
    if source.losses is None and source.recorded is not None:
        beside = source.recorded.of_kind(PUBLISHED_MODEL)
        if beside is not None:
            counts: AttackCounts = beside.data
            return counts
        if source.recorded.losses is not None:
            return counts_of(read_folder_losses(source.recorded.path))
    if source.losses is None or source.design is None or source.attacked is None:
        raise InputError(
            f"{source.label}: the published model needs counts or losses, got scores; "
            "`--model profile` reads scores."
        )
    how = source.attacked
    found = source.design.attack(source.losses, ATTACKS[how.method], statistic=how.statistic)
    return found.counts(how.target_alpha)


# --- what is assumed --------------------------------------------------------------------------


def default_model(data: Any, delta: float) -> AuditModel | ProfileModel:
    """The model of data that nobody chose one for: by what they are, and how they were measured."""
    from epsilometer.audit.assumptions import likelihood_for, model_of
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.profile import ProfileModel

    if isinstance(data, AttackCounts):
        return model_of(delta, likelihood=likelihood_for(data))
    return ProfileModel(delta=delta)


def result_for(
    given: Any,
    *,
    claim: float,
    delta: float | None = None,
    model: Any = None,
    thresholds: Thresholds | None = None,
    error: float | None = None,
    independent: bool | None = None,
) -> Result | ProfileResult:
    """A claim held against anything that :func:`source_of` takes.

    The posterior is that of a result as it was written, unless another delta or a model is said; else
    estimated with the model, or with the default one at ``delta``.
    """
    from epsilometer.inference.estimate import ENGINES, estimate
    from epsilometer.inference.judging import result_of
    from epsilometer.inference.result import Question
    from epsilometer.inference.verdict import Thresholds
    from epsilometer.proofs.proof import ERROR

    if delta is not None and model is not None:
        raise InputError("expected either delta or a model, which has one, got both.")
    if delta is not None:
        delta = _validate.delta(delta)
    source = source_of(given)
    recorded, posterior = source.recorded, None
    if model is not None:
        published = not hasattr(model, "families")
        if type(model) not in ENGINES:
            raise InputError(f"expected AuditModel or ProfileModel, got model={model!r}.")
        posterior = estimate(source.data(PUBLISHED_MODEL if published else WHOLE_CURVE), model)
    elif recorded is not None:
        posterior = recorded.posterior
        if delta is not None and delta != recorded.delta:
            other = replace(posterior.model, delta=delta)
            posterior = estimate(recorded.data, other, posterior.engine)
    elif delta is None:
        raise InputError("expected either delta or a model, which has one.")
    else:
        data = source.data(source.kind)
        chosen: Any = default_model(data, delta)
        posterior = estimate(data, chosen)
    known = {} if recorded is None else recorded.asked
    if thresholds is None and known:
        limits = {name: known[name] for name in ("pass_at_most", "fail_at_least")}
        thresholds = Thresholds(**limits)
    if independent is None:
        independent = not known.get("shared_models", False)
    asked = Question(
        claim=claim,
        thresholds=thresholds or Thresholds(),
        error=known.get("error", ERROR) if error is None else error,
        independent=independent,
    )
    return result_of(posterior, asked, source.models)


def scores_of_result(recorded: Recorded) -> Scores | None:
    """Scores of the models behind a result; None where they are not there or not readable."""
    if recorded.kind == WHOLE_CURVE:
        found: Scores = recorded.data
        return found
    if recorded.losses is None:
        return None
    # A statistic of somebody's own is not run; the counts are there all the same.
    with suppress(InputError):
        return read_folder_losses(recorded.path).scores
    return None
