"""The one reader of data: counts, losses, scores, canaries, a store, a result folder, a posterior.

Every command and every call reads its input here, so they interpret it in the same way; `held.py` has
what Python users hold in memory.  Callers read standard input themselves and pass its text.  Files are
untrusted, and code that a file names is never run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files
from epsilometer.errors import InputError
from epsilometer.inputs.loss_files import (
    POOL_COLUMNS,
    choose_variant,
    design_for,
    failures_in,
    read_losses,
    refuse_variant,
)
from epsilometer.inputs.recorded import (
    COUNT,
    LOSSES,
    POSTERIOR,
    SUMMARY,
    is_result,
    losses_in,
    open_result,
    read_summary,
    refuse_several,
)
from epsilometer.inputs.source import NO_OPTIONS, AttackedBy, LossOptions, Source
from epsilometer.model.counts import AttackCounts
from epsilometer.model.flaws import failure_flaws

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.judgement.result import Result
    from epsilometer.measurement.designs import Design
    from epsilometer.measurement.engine import Measurement
    from epsilometer.model.base_scores import BaseScores
from epsilometer.model.scores import Scores

DEFAULT_STATISTIC, DEFAULT_RATE = "logit", 0.1

COUNTS = frozenset({"false_positives", "trials_h0", "false_negatives", "trials_h1"})
"""Columns that identify a table of counts."""

NOT_DATA = {
    ".toml": "is the configuration of an audit; run it with `epsilometer audit {path}` or em.audit, "
    "then give its result folder or store",
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


# --- files and folders ------------------------------------------------------------------------


def read(path: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """Read a file, a store or a folder."""
    from epsilometer.measurement.store_file import is_store
    from epsilometer.model.scores import Scores

    if is_result(path):
        return of_result(open_result(path), path, options)
    if path.is_dir():
        return read_folder_losses(path, options)
    kind = path.suffix.lower()
    if path.is_file():
        _refuse_other(path)
    columns = _files.parquet_columns(path) if kind == ".parquet" else []
    if "loss" in columns or kind == ".npz" or is_store(path):
        return _read_losses(path, path.name, options)
    if columns:
        return of_scores(Scores.read(path), path.name, options)
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
    from epsilometer.attacks.losses import COLUMNS, Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.model import count_tables
    from epsilometer.model.score_tables import header_of
    from epsilometer.model.scores import Scores

    plain = not as_json and text.lstrip("\ufeff \t\r\n")[:1] not in ("[", "{")
    columns = header_of(text) if plain else []
    if plain:
        _files.check_separator(text, name=name)
    if "loss" in columns:
        refuse_variant(options.variant)
        pool = set(columns) >= POOL_COLUMNS
        parse: Any = PoolLosses.parse_csv if pool else Losses.parse_csv
        return of_losses(parse(text, name=name), name, options)
    if "score" in columns:
        return of_scores(Scores.parse_csv(text, name=name), name, options)
    if plain and not set(columns) & COUNTS:
        empty = not text.strip("\ufeff \t\r\n")
        got = "an empty file" if empty else _files.shown(", ".join(columns))
        raise InputError(
            f"{name}: expected the columns of scores (challenge_base, hypothesis, score; of canaries "
            f"score, member), of losses ({', '.join(COLUMNS)}; of canaries loss, member) or of counts "
            f"({', '.join(count_tables.COLUMNS)}), got {got}."
        )
    _refuse_loss_options(options, name)
    read_counts = count_tables.parse_json if as_json else count_tables.parse
    return Source(label=name, counts=AttackCounts(**read_counts(text, name=name)))


def of_result(
    result: Result, folder: Path | None = None, options: LossOptions = NO_OPTIONS
) -> Source:
    """A result and its data; the losses in its folder if options apply to those."""
    label = "result" if folder is None else str(folder)
    known: Any = result
    reread = None
    if folder is None or losses_in(folder) is None:
        _refuse_loss_options(options, label)
    elif options.given is not None:
        return replace(read_folder_losses(folder, options), result=result)
    else:
        reread = partial(read_folder_losses, folder)
    data: dict[str, Any] = {"scores": known.scores}
    if result.kind == COUNT:
        data["counts"] = result.data
    return Source(label=label, result=result, reread=reread, **data)


def read_folder_losses(folder: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """The losses in a result folder, attacked as its audit attacked them."""
    path = losses_in(folder)
    if path is None:
        refuse_several(folder)
        raise InputError(
            f"{folder}: cannot be read: expected a file, or a folder with {POSTERIOR} or {LOSSES}."
        )
    return _read_losses(path, str(folder), options, read_summary(folder).get("counts"))


def of_scores(scores: Scores, label: str, options: LossOptions = NO_OPTIONS) -> Source:
    """Scores, unless they carry no information."""
    _refuse_loss_options(options, label)
    return Source(label=label, scores=_checked(scores, label))


def of_losses(
    losses: Losses | PoolLosses,
    label: str,
    options: LossOptions = NO_OPTIONS,
    design: Design | None = None,
    *,
    known: dict[str, Any] | None = None,
    skip: bool = False,
    flaws: tuple[str, ...] = (),
) -> Source:
    """Losses and their scores; ``known`` is the attack that a summary describes.

    ``skip`` is for losses that may still grow, or of an audit: bases without models of one kind, and
    losses that are not numbers, are left out.  The points of a pool are scored by its design's attack.
    """
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.attacks.statistics import Loss

    design = design or design_for(losses)
    attacked: AttackedBy | None = None
    how: dict[str, Any] = {}
    if isinstance(losses, PoolLosses):
        _refuse_in_pool(options, label)
    else:
        # Of one run only the order of losses matters.
        default = Loss().name if losses.one_run else options.default_statistic or DEFAULT_STATISTIC
        attacked = _attacked(options, {"statistic": default} | (known or {}), label)
        # An audit leaves out losses that are not numbers; in a file of losses they are errors.
        how = {"statistic": attacked.statistic, "skip": skip or known is not None}
    try:
        scores = _checked(design.scores(losses, **how), label).with_flaws(flaws)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(label) else f"{label}: {text}") from None
    return Source(
        label=label, scores=scores, losses=losses, design=design, attacked=attacked, flaws=flaws
    )


def _refuse_in_pool(options: LossOptions, label: str) -> None:
    for name in ("statistic", "target_alpha"):
        if getattr(options, name) is not None:
            raise InputError(
                f"`{name}=` is for many models; {label} is a pool: choose its attack with `epsilometer "
                "attack --method`, in Python with em.Pool(attack=...)."
            )


def of_measurement(measured: Measurement, options: LossOptions = NO_OPTIONS) -> Source:
    """The losses of a measurement; failed models are a flaw."""
    from epsilometer.attacks.statistics import Loss

    variant = choose_variant(tuple(measured.losses), options.variant)
    losses, design = measured.plan.with_records(measured.losses[variant]), measured.plan.design
    flaws = failure_flaws(len(measured.failures))
    # As an audit looks at its losses.
    how = replace(options, variant=None, default_statistic=Loss().name)
    return of_losses(losses, "losses", how, design, skip=True, flaws=flaws)


def _read_losses(
    path: Path, label: str, options: LossOptions, known: dict[str, Any] | None = None
) -> Source:
    from epsilometer.measurement.store_file import is_store

    losses, design = read_losses(path, options.variant)
    flaws = failure_flaws(failures_in(path))
    return of_losses(losses, label, options, design, known=known, skip=is_store(path), flaws=flaws)


def _attacked(options: LossOptions, known: dict[str, Any], label: str) -> AttackedBy:
    from epsilometer.attacks.rules import ATTACKS, LikelihoodRatio
    from epsilometer.attacks.statistics import STATISTICS
    from epsilometer.inputs.loading import statistic_of

    recorded = known["statistic"]
    if options.statistic is None and recorded not in STATISTICS:
        # Code that a file names is not run unless the user names it too.
        raise InputError(
            f"{label}: its losses were scored by {_files.shown(recorded)}, a custom function: "
            "give it as `statistic=` to run it."
        )
    statistic = statistic_of(options.statistic or recorded, folder=Path(), place="`statistic=`")
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
    if not scores.dependent and all(map(_are_coins, scores.bases)):
        raise InputError(
            f"{name}: the scores are 1 for members and 0 for others in every row, the answer itself: "
            "expected the attack's scores, such as negated losses."
        )
    try:
        scores.check()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return scores


def _are_coins(base: BaseScores) -> bool:
    """Whether scores equal membership."""
    without, with_point = base.by_hypothesis
    return not base.grouped and bool((without == 0).all() and (with_point == 1).all())


def _refuse_loss_options(options: LossOptions, label: str) -> None:
    if options.given is not None:
        raise InputError(f"`{options.given}=` is for losses; {label} has none.")
