"""Losses of a pool with the records of their points, for attacks that use them."""

from __future__ import annotations

import numpy as np

from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.measurement.engine import measure
from tests.measurement.algorithms import plan, pool_plan


def test_every_point_gets_its_own_record() -> None:
    pool = pool_plan(models=4)
    losses = pool.with_records(measure(pool).only)
    assert isinstance(losses, PoolLosses)
    assert losses.features is not None
    for number, name in enumerate(losses.names):
        record = pool.all_records.point(int(name))
        assert np.array_equal(losses.features[number], record.features)
    assert len(losses.features) == losses.points


def test_losses_of_other_designs_are_unchanged() -> None:
    other = plan(bases=1, replicates=3)
    losses = measure(other).only
    assert other.with_records(losses) is losses
