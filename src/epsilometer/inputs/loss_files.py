"""Losses of a file or a store, and the design that measured them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _files, _validate
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.measurement.designs import Design

POOL_COLUMNS = frozenset({"point", "model"})
"""Columns that identify losses of a pool."""

LONGEST_HEADER = 10_000


def read_losses(
    path: Path, variant: str | None = None, shadows: int | None = None
) -> tuple[Any, Design]:
    """Losses of a file or a store (`PoolLosses` of a pool), and the design that measured them."""
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.measurement.plan import design_of
    from epsilometer.measurement.store import SqliteStore
    from epsilometer.measurement.store_file import is_store

    if is_store(path):
        if shadows is not None:
            raise InputError("`shadows=` is for files of losses; a store knows its design.")
        with SqliteStore(path, read_only=True) as store:
            sizes = store.sizes()
            losses = store.measured(sizes, choose_variant(sizes.variants, variant))
            design = store.status().identity.get("design")
            return losses, design_of(design, sizes.models_h0, store.judging)
    refuse_variant(variant)
    losses = PoolLosses.read(path) if _is_pool(path) else Losses.read(path)
    return losses, design_for(losses, shadows)


def _is_pool(path: Path) -> bool:
    """Whether a file has losses of a pool."""
    from epsilometer.model.score_tables import header_of

    kind = path.suffix.lower()
    if kind == ".parquet":
        return set(_files.parquet_columns(path)) >= POOL_COLUMNS
    if kind != ".csv":
        return kind == ".npz"
    head = _files.read_bytes(path, LONGEST_HEADER).decode("utf-8-sig", "replace")
    return set(header_of(head)) >= POOL_COLUMNS


def failures_in(path: Path) -> int:
    """The number of models of a store that failed; 0 for other files."""
    from epsilometer.measurement.store import SqliteStore
    from epsilometer.measurement.store_file import is_store

    if not is_store(path):
        return 0
    with SqliteStore(path, read_only=True) as store:
        return len(store.failures())


def design_for(losses: Losses | PoolLosses, shadows: int | None = None) -> Design:
    """The design of losses in a file: cross-feeding, or separate shadow models for every challenge.

    In a pool half of the models train the attack and select 100 points, and the rest judge.
    """
    from epsilometer.attacks.pool_losses import PoolLosses
    from epsilometer.measurement.designs import CrossFed, ShadowModels
    from epsilometer.measurement.one_run import OneRun
    from epsilometer.measurement.pool import LEAST_PILOT, Pool

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
