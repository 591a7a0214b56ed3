"""The one reader of data: counts, losses, scores, canaries, a store, a result folder, a posterior.

`estimate`, `prove`, `compare`, `report`, `plan`, `em.estimate` and `assert_private` read their
input here, so they interpret a file in the same way.  Callers read standard input themselves and
pass its text.  Files are untrusted, and code that a file names is never run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files
from epsilometer.errors import InputError
from epsilometer.inputs.loss_files import design_for, read_losses, refuse_variant
from epsilometer.inputs.pool_inputs import POOL_COLUMNS, pool_design_for
from epsilometer.inputs.recorded import (
    LOSSES,
    POSTERIOR,
    PUBLISHED_MODEL,
    SUMMARY,
    WHOLE_CURVE,
    Recorded,
    is_result,
    losses_in,
    open_result,
    read_summary,
    refuse_several,
)

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.attacks.statistics import Statistic
    from epsilometer.measurement.designs import Design
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.scores import Scores

DEFAULT_STATISTIC, DEFAULT_RATE = "logit", 0.1
STATISTIC_OPTION = "--statistic"

COUNTS = frozenset({"false_positives", "trials_h0", "false_negatives", "trials_h1"})
"""Columns that identify a table of counts."""

NOT_DATA = {
    ".toml": "is the configuration of an audit; run it with `epsilometer audit {path}`, then give its "
    "result folder or store",
    ".html": "is a report; give the result folder or the file that it was made from",
    ".xlsx": "is a spreadsheet; save the table as CSV",
    ".xls": "is a spreadsheet; save the table as CSV",
    ".ods": "is a spreadsheet; save the table as CSV",
    ".py": "is a program; name its algorithm in an audit file (`epsilometer audit --show-config`)",
    ".pkl": "is a pickle, which is never read; save scores or losses as CSV or Parquet",
    ".pt": "is a saved model; save its scores or losses as CSV or Parquet",
    ".npy": "has no column names; save scores or losses as CSV or Parquet",
}
"""Files that hold something else, by their ending, and what to do instead."""


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """How losses become scores, and counts for the published model.

    ``default_statistic`` is used for losses if no statistic is given.
    """

    statistic: str | None = None
    target_alpha: float | None = None
    variant: str | None = None
    default_statistic: str | None = None

    @property
    def given(self) -> str | None:
        """The first of these options that was given, if any."""
        chosen = {name: value for name, value in vars(self).items() if value is not None}
        chosen.pop("default_statistic", None)
        return next(iter(chosen), None)


NO_OPTIONS = LossOptions()


@dataclass(frozen=True, kw_only=True)
class AttackedBy:
    """The attack that turns losses into counts; for a result, that of its audit."""

    statistic: Statistic
    target_alpha: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """The data of one file, folder or store.

    Attributes
    ----------
    label
        The name of a file, or the path of a folder.
    counts, scores
        The data: one of the two or both.
    losses, design, attacked
        The losses behind the scores, and how they are turned into counts; None for a file of scores.
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
        """Scores of every model, if known."""
        if self.scores is None and self.recorded is not None:
            return scores_of_result(self.recorded)
        return self.scores

    @property
    def one_run(self) -> bool:
        """Whether the scores are of canaries in one training run."""
        return self.scores is not None and self.scores.one_run

    @property
    def provable(self) -> Any:
        """The data that proofs are made from: scores of every model if known, otherwise counts."""
        return self.counts if self.models is None else self.models

    @property
    def kind(self) -> str:
        """The default model: that of the result, or the one that suits the data."""
        if self.recorded is not None:
            return self.recorded.kind
        return PUBLISHED_MODEL if self.scores is None else WHOLE_CURVE

    def data(self, kind: str) -> Any:
        """The data for a model of that kind."""
        if kind == PUBLISHED_MODEL:
            return counts_of(self)
        if self.scores is None and self.recorded is not None and self.recorded.losses is not None:
            return read_folder_losses(self.recorded.path).data(kind)
        return self.counts if self.scores is None else self.scores


# --- files and folders ------------------------------------------------------------------------


def read(path: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """Read a file, a store or a folder."""
    from epsilometer.measurement.sqlite_store import is_store
    from epsilometer.model.scores import Scores

    if is_result(path):
        return of_result(open_result(path), options)
    if path.is_dir():
        return read_folder_losses(path, options)
    kind = path.suffix.lower()
    if path.is_file():
        _refuse_other(path)
    losses = kind == ".parquet" and "loss" in _files.parquet_columns(path)
    if losses or kind == ".npz" or is_store(path):
        return _of_losses(path, path.name, options)
    if kind == ".parquet":
        return _of_scores(Scores.read(path), path.name, options)
    as_json = path.suffix.lower() == ".json"
    return read_text(_files.load(path), path.name, options, as_json=as_json)


def _refuse_other(path: Path) -> None:
    """Refuse a file that holds something else than data."""
    advice = NOT_DATA.get(path.suffix.lower())
    if path.name == SUMMARY:
        advice = "is a part of a result; give its folder"
    if advice is not None:
        raise InputError(f"{path.name}: {advice.format(path=path)}.")


def read_text(
    text: str, name: str, options: LossOptions = NO_OPTIONS, *, as_json: bool = False
) -> Source:
    """Read CSV or JSON text; ``name`` is the file in error messages."""
    try:
        return _parse(text, name, options, as_json=as_json)
    except InputError as error:
        hint = "" if as_json else _files.decimal_hint(text)
        if hint:
            raise InputError(f"{error} {hint}") from None
        raise


def _parse(text: str, name: str, options: LossOptions, *, as_json: bool) -> Source:
    from epsilometer.attacks.losses import COLUMNS, Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.model import count_tables
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.score_tables import header_of
    from epsilometer.model.scores import Scores

    plain = not as_json and text.lstrip("\ufeff \t\r\n")[:1] not in ("[", "{")
    columns = header_of(text) if plain else []
    if plain:
        _files.check_separator(text, name=name)
    if "loss" in columns:
        refuse_variant(options.variant)
        if set(columns) >= POOL_COLUMNS:
            pool = PoolLosses.parse_csv(text, name=name)
            return _of_pool(pool, name, options, pool_design_for(pool))
        losses = Losses.parse_csv(text, name=name)
        return _made(losses, name, options, design_for(losses))
    if "score" in columns:
        return _of_scores(Scores.parse_csv(text, name=name), name, options)
    if plain and not set(columns) & COUNTS:
        empty = not text.strip("\ufeff \t\r\n")
        got = "an empty file" if empty else _files.shown(", ".join(columns))
        raise InputError(
            f"{name}: expected the columns of scores (challenge_base, hypothesis, score; of canaries "
            f"score, member), of losses ({', '.join(COLUMNS)}) or of counts "
            f"({', '.join(count_tables.COLUMNS)}), got {got}."
        )
    _refuse_loss_options(options, name)
    parse = count_tables.parse_json if as_json else count_tables.parse
    return Source(label=name, counts=AttackCounts(**parse(text, name=name)))


def of_result(recorded: Recorded, options: LossOptions = NO_OPTIONS) -> Source:
    """The data of a result's posterior; its losses if options apply to those."""
    label = str(recorded.path)
    if options.given is not None:
        if recorded.losses is None:
            _refuse_loss_options(options, label)
        return replace(read_folder_losses(recorded.path, options), recorded=recorded)
    if recorded.kind == PUBLISHED_MODEL:
        return Source(label=label, counts=recorded.data, recorded=recorded)
    return Source(label=label, scores=recorded.data, recorded=recorded)


def read_folder_losses(folder: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """The losses in a result folder, attacked as its audit attacked them."""
    path = losses_in(folder)
    if path is None:
        refuse_several(folder)
        raise InputError(
            f"{folder}: cannot be read: expected a file, or a folder with {POSTERIOR} or {LOSSES}."
        )
    return _of_losses(path, str(folder), options, read_summary(folder).get("counts"))


def source_of(given: Any) -> Source:
    """Data given in Python: counts, scores, losses, or a path."""
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
    """Losses and their scores; ``known`` is the attack that a summary describes.

    ``unfinished`` losses are of a store that may still grow: bases without models of one kind are
    skipped.
    """
    from epsilometer.attacks.statistics import Loss

    # Of one run only the order of losses matters.
    default = Loss().name if losses.one_run else options.default_statistic or DEFAULT_STATISTIC
    attacked = _attacked(options, {"statistic": default} | (known or {}), label)
    try:
        # An audit leaves out losses that are not numbers; in a file of losses they are errors.
        skip = unfinished or known is not None
        scores = design.scores(losses, attacked.statistic, skip=skip)
        scores = _checked(scores, label)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(label) else f"{label}: {text}") from None
    return Source(label=label, scores=scores, losses=losses, design=design, attacked=attacked)


def _of_pool(losses: PoolLosses, label: str, options: LossOptions, design: Design) -> Source:
    """Losses of a pool, and the scores of its points by the attack of the design."""
    for name in ("statistic", "target_alpha"):
        if getattr(options, name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')} is for many models; {label} is a pool: choose its attack "
                "with `epsilometer attack --method`."
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
    from epsilometer.inputs.loading import statistic_of

    own = known["statistic"]
    if options.statistic is None and own not in STATISTICS:
        # Code that a file names is not run unless the user names it too.
        raise InputError(
            f"{label}: its losses were scored by {_files.shown(own)}, a custom function: "
            f"give it as {STATISTIC_OPTION} to run it."
        )
    statistic = statistic_of(options.statistic or own, folder=Path(), place=STATISTIC_OPTION)
    method = known.get("attack", LikelihoodRatio().name)
    return AttackedBy(
        statistic=statistic,
        target_alpha=options.target_alpha or known.get("target_alpha", DEFAULT_RATE),
        method=method if method in ATTACKS else LikelihoodRatio().name,
    )


def _checked(scores: Scores, name: str) -> Scores:
    """Refuse scores without information: only ties, or one model per side in every base."""
    if all(base.trials_h0 == 1 and base.trials_h1 == 1 for base in scores.bases):
        raise InputError(
            f"{name}: expected several models per side, got one without the point and one with it "
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


def counts_of(source: Source) -> AttackCounts:
    """Counts for the published model: as given, or those of the attack at one target rate."""
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


def scores_of_result(recorded: Recorded) -> Scores | None:
    """Scores of the models of a result; None if they are missing or cannot be read."""
    if recorded.kind == WHOLE_CURVE:
        found: Scores = recorded.data
        return found
    if recorded.losses is None:
        return None
    # A custom statistic is not run; the counts remain.
    with suppress(InputError):
        return read_folder_losses(recorded.path).scores
    return None
