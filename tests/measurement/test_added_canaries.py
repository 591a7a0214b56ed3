"""Canaries are added only to records of the same shape and kind."""

from __future__ import annotations

import numpy as np
import pytest

import epsilometer as em

TOKENS = np.arange(60).reshape(20, 3)


def canaries(labels: list[int] | None = None) -> em.Canaries:
    return em.Canaries.of(features=TOKENS, labels=labels, rng=np.random.default_rng(1))


@pytest.mark.parametrize("labelled", [False, True])
def test_included_canaries_follow_the_records(labelled: bool) -> None:
    drawn = canaries([7] * 20 if labelled else None)
    own = em.rows.Dataset(features=np.zeros((4, 3)), labels=np.zeros(4) if labelled else None)
    found = drawn.added_to(own)
    assert (found.features[4:] == TOKENS[drawn.coins]).all()
    assert found.labels is None or found.labels.tolist() == [0] * 4 + [7] * int(drawn.coins.sum())
    assert (found.labels is not None) == labelled


def test_labels_are_not_dropped_in_silence() -> None:
    own = em.rows.Dataset(features=np.zeros((4, 3)), labels=np.zeros(4))
    with pytest.raises(em.InputError, match="got labels of records only"):
        canaries().added_to(own)
    with pytest.raises(em.InputError, match="got labels of canaries only"):
        canaries([0] * 20).added_to(em.rows.Dataset(features=np.zeros((4, 3))))


def test_another_shape_is_refused() -> None:
    with pytest.raises(em.InputError, match=r"shape of the records, \(4,\), got shape \(3,\)"):
        canaries().added_to(em.rows.Dataset(features=np.zeros((4, 4))))
