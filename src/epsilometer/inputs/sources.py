"""The one reader of data: counts, losses, scores, canaries, a store, a result folder, a posterior.

Every command and every call reads its input here, so they interpret it in the same way; `held.py` has
what Python users hold in memory.  Callers read standard input themselves and pass its text.  Files are
untrusted, and code that a file names is never run.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from epsilometer import _files, _validate
from epsilometer.attacks.losses import COLUMNS, Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.rules import ATTACKS, LikelihoodRatio
from epsilometer.attacks.statistics import FAILURES, STATISTICS, Loss
from epsilometer.errors import InputError
from epsilometer.inputs import recorded
from epsilometer.inputs.loading import statistic_of
from epsilometer.inputs.recorded import COUNT, LOSSES, POSTERIOR, SUMMARY
from epsilometer.inputs.source import DEFAULT_RATE, NO_OPTIONS, LossOptions, Source
from epsilometer.judgement.result import Result
from epsilometer.measurement.designs import CrossFed, Design, ShadowModels
from epsilometer.measurement.engine import Measurement
from epsilometer.measurement.one_run import OneRun
from epsilometer.measurement.plan import design_of
from epsilometer.measurement.pool import LEAST_PILOT, Pool
from epsilometer.measurement.store import SqliteStore
from epsilometer.measurement.store_file import is_store
from epsilometer.model import count_tables
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.counts import AttackCounts, failure_flaws
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.model.score_tables import header_of
from epsilometer.model.scores import Scores

DEFAULT_STATISTIC = "logit"

#: Columns that identify a table of counts.
COUNTS = frozenset({"false_positives", "trials_h0", "false_negatives", "trials_h1"})

#: Files that hold something else, by their ending, and what to do instead.
NOT_DATA = {
    ".toml": "is the configuration of an audit; run it with `epsilometer audit {path}` or em.audit, "
    "then give its result folder or store",
    ".html": "is a report; give the result folder or the file that it was made from",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "is a spreadsheet; save the table as CSV"),
    ".py": "is a program; name its algorithm in an audit file (`epsilometer audit --show-config`)",
    ".pkl": "is a pickle, which is never read; save scores or losses as CSV or Parquet",
    ".pt": "is a saved model; save its scores or losses as CSV or Parquet",
    ".npy": "has no column names; save scores or losses as CSV or Parquet",
}

#: Columns that identify losses of a pool.
POOL_COLUMNS = frozenset({"point", "model"})

LONGEST_HEADER = 10_000


# --- files and folders ------------------------------------------------------------------------


def read(path: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """Read a file, a store or a folder."""
    if recorded.is_result(path):
        return of_result(recorded.open_result(path), path, options)
    if path.is_dir():
        return read_folder_losses(path, options)
    kind = path.suffix.lower()
    other = "is a part of a result; give its folder" if path.name == SUMMARY else NOT_DATA.get(kind)
    if other is not None and path.is_file():
        raise InputError(f"{path.name}: {other.format(path=path)}.")
    columns = _files.parquet_columns(path) if kind == ".parquet" else []
    if "loss" in columns or kind == ".npz" or is_store(path):
        return _read_losses(path, path.name, options)
    if columns:
        return of_scores(Scores.read(path), path.name, options)
    return read_text(_files.load(path), path.name, options)


def read_text(text: str, name: str, options: LossOptions = NO_OPTIONS) -> Source:
    """Read CSV or JSON text; ``name`` is the file in error messages."""
    plain = not count_tables.is_json(text, name=name)
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
    return Source(label=name, counts=AttackCounts.parse(text, name=name))


def of_result(
    result: Result, folder: Path | None = None, options: LossOptions = NO_OPTIONS
) -> Source:
    """A result and its data; the losses in its folder if options apply to those."""
    label, reread = "result" if folder is None else str(folder), None
    known: Any = result
    if folder is None or recorded.losses_in(folder) is None:
        _refuse_loss_options(options, label)
    elif options.given is not None:
        return replace(read_folder_losses(folder, options), result=result)
    else:
        reread = partial(read_folder_losses, folder)
    counts = known.data if known.kind == COUNT else None
    return Source(label=label, result=result, reread=reread, scores=known.scores, counts=counts)


def read_folder_losses(folder: Path, options: LossOptions = NO_OPTIONS) -> Source:
    """The losses in a result folder, attacked as its audit attacked them."""
    path = recorded.losses_in(folder)
    if path is None:
        recorded.refuse_several(folder)
        raise InputError(
            f"{folder}: cannot be read: expected a file, or a folder with {POSTERIOR} or {LOSSES}."
        )
    return _read_losses(path, str(folder), options, recorded.read_summary(folder).get("counts"))


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

    ``skip`` is for losses that may still grow, or of an audit: bases without models of one kind are left
    out.  The points of a pool are scored by its design's attack.
    """
    design, known = design or design_for(losses), known or {}
    counted: dict[str, Any] = {}
    usual = known.get("failures", options.default_failures or FAILURES[0])
    how: dict[str, Any] = {"failures": options.failures or usual}
    flaws = flaws or failure_flaws(losses.failed)
    if isinstance(losses, PoolLosses):
        for name in ("statistic", "target_alpha"):
            if getattr(options, name) is not None:
                raise InputError(
                    f"`{name}=` is for many models; {label} is a pool: choose its attack with "
                    "`epsilometer attack --method`, in Python with em.Pool(attack=...)."
                )
        score = partial(design.scores, losses, **how)
    else:
        if known.get("planned"):
            losses = losses.in_planned_order(_planned(known["planned"], losses, label))
        # Of one run only the order of losses matters.
        default = Loss().name if losses.one_run else options.default_statistic or DEFAULT_STATISTIC
        attacked = {"statistic": default} | known
        statistic = _statistic(options, attacked["statistic"], label)
        score = partial(design.scores, losses, statistic, skip=skip or bool(known), **how)
        rule = ATTACKS.get(attacked.get("attack", ""), LikelihoodRatio())
        counted["attack"] = partial(design.attack, losses, rule, statistic=statistic)
        rate = options.target_alpha or attacked.get("target_alpha", DEFAULT_RATE)
        counted["target_alpha"] = rate
    try:
        scores = _checked(score(), label).with_flaws(flaws)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(label) else f"{label}: {text}") from None
    return Source(label=label, scores=scores, flaws=flaws, **counted)


def _planned(sizes: Any, losses: Losses, label: str) -> PlannedOrder | None:
    try:
        return PlannedOrder.of(sizes, range(len(losses.names)))
    except ValueError:
        raise InputError(f"{label}: expected planned sizes of its bases, got {sizes}.") from None


def of_measurement(measured: Measurement, options: LossOptions = NO_OPTIONS) -> Source:
    """The losses of a measurement; failed models are a flaw."""
    variant = choose_variant(tuple(measured.losses), options.variant)
    losses, design = measured.plan.with_records(measured.losses[variant]), measured.plan.design
    flaws = failure_flaws(len(measured.failures))
    # As an audit looks at its losses.
    how = replace(options, variant=None, default_statistic=Loss().name)
    return of_losses(losses, "losses", how, design, skip=True, flaws=flaws)


def _read_losses(
    path: Path, label: str, options: LossOptions, known: dict[str, Any] | None = None
) -> Source:
    losses, design, failed = read_losses(path, options.variant)
    # Of a store, which alone counts failed models.
    how: dict[str, Any] = {"skip": failed is not None, "flaws": failure_flaws(failed or 0)}
    return of_losses(losses, label, options, design, known=known, **how)


def _statistic(options: LossOptions, recorded: str, label: str) -> Any:
    if options.statistic is None and recorded not in STATISTICS:
        # Code that a file names is not run unless the user names it too.
        raise InputError(
            f"{label}: its losses were scored by {_files.shown(recorded)}, a custom function: "
            "give it as `statistic=` to run it."
        )
    return statistic_of(options.statistic or recorded, folder=Path(), place="`statistic=`")


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
    with _validate.within(name):
        scores.check()
    return scores


def _are_coins(base: BaseScores) -> bool:
    """Whether scores equal membership."""
    without, with_point = base.by_hypothesis
    return not base.grouped and bool((without == 0).all() and (with_point == 1).all())


def _refuse_loss_options(options: LossOptions, label: str) -> None:
    if options.given is not None:
        raise InputError(f"`{options.given}=` is for losses; {label} has none.")


# --- losses and the design that measured them ------------------------------------------------


def read_losses(
    path: Path, variant: str | None = None, shadows: int | None = None
) -> tuple[Any, Design, int | None]:
    """Losses of a file or a store (`PoolLosses` of a pool), and the design that measured them.

    Last the number of models of a store that failed, None for a file.
    """
    if is_store(path):
        if shadows is not None:
            raise InputError("`shadows=` is for files of losses; a store knows its design.")
        with SqliteStore(path, read_only=True) as store:
            sizes = store.sizes()
            losses = store.measured(sizes, choose_variant(sizes.variants, variant))
            named = store.status().identity.get("design")
            design = design_of(named, sizes.models_h0, store.judging)
            return losses, design, len(store.failures(sizes))
    refuse_variant(variant)
    losses = PoolLosses.read(path) if _is_pool(path) else Losses.read(path)
    return losses, design_for(losses, shadows), None


def _is_pool(path: Path) -> bool:
    """Whether a file has losses of a pool."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        return set(_files.parquet_columns(path)) >= POOL_COLUMNS
    if kind != ".csv":
        return kind == ".npz"
    head = _files.read_bytes(path, LONGEST_HEADER).decode("utf-8-sig", "replace")
    return set(header_of(head)) >= POOL_COLUMNS


def design_for(losses: Losses | PoolLosses, shadows: int | None = None) -> Design:
    """The design of losses in a file: cross-feeding, or separate shadow models for every challenge.

    In a pool half of the models train the attack and select 100 points, and the rest judge.
    """
    if isinstance(losses, PoolLosses):
        if shadows is not None:
            raise InputError("`shadows=` is for losses of many models; these are of a pool.")
        enough = losses.models >= 2 * LEAST_PILOT
        return Pool(models=losses.models, references=losses.references, pilot=enough)
    most = int(losses.replicate.max()) + 1
    if losses.one_run:
        return OneRun(canaries=max(most, 2))
    if shadows is None:
        return CrossFed(replicates=max(most, 3))
    _validate.whole_number("shadows", shadows, least=2)
    blocks, rest = divmod(most, 1 + 2 * shadows)
    if rest:
        raise InputError(
            f"`shadows={shadows}`: expected replicates in blocks of {1 + 2 * shadows} (a challenge and "
            f"its shadow models), got {most}; without `shadows=`, models are cross-fed."
        )
    return ShadowModels(replicates=blocks, shadows_h0=shadows, shadows_h1=shadows)


def choose_variant(variants: tuple[str, ...], wanted: str | None) -> str:
    """The wanted variant, or the only one."""
    if wanted is None and len(variants) == 1:
        return variants[0]
    if wanted not in variants:
        shown = f"got {wanted!r}" if wanted is not None else "got none"
        raise InputError(f"expected `variant=` to be one of {', '.join(variants)}, {shown}.")
    return str(wanted)


def refuse_variant(variant: str | None) -> None:
    """Refuse a variant of anything but a store."""
    if variant is not None:
        raise InputError("`variant=` is for stores; a file of losses has one variant.")
