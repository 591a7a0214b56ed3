"""Losses of a pool together with the records of its points, for attacks that use records."""

from __future__ import annotations

from typing import Any

from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.pool import PoolBase


def records_of(plan: Plan, losses: Any) -> Any:
    """The losses of a plan; losses of a pool are extended with the features and labels of its points."""
    pool = plan.bases[0]
    if not isinstance(losses, PoolLosses) or not isinstance(pool, PoolBase):
        return losses
    records = plan.all_records.take(pool.everything)
    return losses.with_records(records.features, records.labels)
