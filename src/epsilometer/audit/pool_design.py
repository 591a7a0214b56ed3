"""Design pool in the configuration of an audit: its keys, and the design that they make."""

from __future__ import annotations

from typing import Any

from epsilometer.attacks.pool_attacks import POOL_ATTACKS
from epsilometer.errors import InputError
from epsilometer.measurement.pool import DEFAULT_ATTACK, MeasurePool

POOL_KEYS = ("models", "pool_size", "share", "references", "points")
"""Keys of [audit] that belong to a pool; first_stage serves pilots of other designs too."""

NOT_OF_POOLS = ("statistic", "target_alpha")
"""Keys of [attack] that pools have no use for."""


def pool_design(table: Any, attack: Any, *, pilot: bool, judged: int | None) -> MeasurePool:
    """The design of the tables [audit] and [attack]; keys that are missing or too many are named."""
    for key in ("models", "pool_size"):
        if getattr(table, key) is None:
            raise InputError(f"[audit] {key} is missing: design pool needs it.")
    if "dataset_size" in table.model_fields_set:
        raise InputError(
            "[audit] dataset_size cannot be combined with pool: pool_size is the number of records, "
            "and share how many of them a model is trained on."
        )
    for key in NOT_OF_POOLS:
        if key in attack.model_fields_set:
            raise InputError(f"[attack] {key} is for many models; on a pool the method decides.")
    method = attack.method or DEFAULT_ATTACK
    if method not in POOL_ATTACKS:
        raise InputError(
            f"[attack] method: expected {', '.join(POOL_ATTACKS)} on a pool, got {method}."
        )
    return MeasurePool(
        models=table.models,
        share=table.share,
        references=table.references,
        attack=method,
        first_stage=table.first_stage,
        pilot=pilot,
        judged=judged or table.points,
    )
