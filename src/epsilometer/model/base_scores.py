"""Scores of one challenge base: distinct scores, with the number of models at each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _files
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.errors import InputError

Models = Sequence[tuple[ArrayLike, ArrayLike]] | None

#: Number of distinct scores above which two equal batches cannot be a coincidence.
DISTINCT = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseScores:
    """One challenge base: distinct scores, highest first, and the number of models with each.

    ``zeros`` counts models without the point, ``ones`` those with it.  ``grouped`` means that models in
    one entry need not have the same score: only their side of a threshold is known.  ``arrival`` is the
    index of each model's score, in the order in which models were trained, without and with the point;
    None if unknown.  Posteriors do not depend on it, proofs do.

    Model n without the point and model n with it are a pair.  ``pairs`` has the number of pairs that are
    complete, counted up to the first that is not, and the number of pairs begun; None if the models came
    without numbers.  Failed models have a score, so they leave no pair incomplete.
    """

    value: FloatArray
    zeros: IntArray
    ones: IntArray
    grouped: bool = False
    arrival: tuple[IntArray, IntArray] | None = None
    pairs: tuple[int, int] | None = None

    @classmethod
    def of(
        cls, without: FloatArray, with_point: FloatArray, *, pairs: tuple[int, int] | None = None
    ) -> BaseScores:
        """Build from the scores themselves."""
        value, which = np.unique(-np.concatenate([without, with_point]), return_inverse=True)
        value = 0.0 - value  # minus zero is zero
        arrival = which[: len(without)], which[len(without) :]
        zeros, ones = (np.bincount(side, minlength=len(value)).astype(np.int64) for side in arrival)
        for column in (value, zeros, ones, which):
            column.flags.writeable = False
        return cls(value=value, zeros=zeros, ones=ones, arrival=arrival, pairs=pairs)

    @classmethod
    def of_batches(cls, batches: Iterable[BaseScores]) -> BaseScores:
        """The scores of several batches together, one after the other.

        Pairs behind an incomplete one are not complete: their models are out of step.
        """
        parts = list(batches)
        without, with_point = zip(*(part.in_training_order for part in parts), strict=True)
        pairs = None
        if any(part.pairs is not None for part in parts):
            counted = [part.pairs or part.sizes for part in parts]
            gap = next((n for n, (whole, begun) in enumerate(counted) if whole < begun), len(parts))
            pairs = sum(whole for whole, _ in counted[: gap + 1]), sum(n for _, n in counted)
        return cls.of(np.concatenate(without), np.concatenate(with_point), pairs=pairs)

    @property
    def tied(self) -> bool:
        """Whether models without and with the point share a score."""
        return bool(((self.zeros > 0) & (self.ones > 0)).any())

    def orders(self, count: int) -> list[IntArray]:
        """Labels (1 with the point) from the highest score down, ties broken at random.

        Models with equal scores are indistinguishable to the attack: a random order has exactly the
        trade-off curve of the scores.  The random numbers are derived from the scores alone, so neither
        the order of rows nor names matter.  Without ties there is one order.
        """
        sizes = self.zeros + self.ones
        labels = np.repeat(
            np.tile([0, 1], len(sizes)), np.stack([self.zeros, self.ones], 1).ravel()
        )
        if not self.tied:
            return [labels]
        block = np.repeat(np.arange(len(sizes)), sizes)
        rng = seeded_by(self.zeros, self.ones)
        return [labels[np.lexsort((rng.random(len(labels)), block))] for _ in range(count)]

    @property
    def trials_h0(self) -> int:
        """N0: the number of models trained without the point."""
        return int(self.zeros.sum())

    @property
    def trials_h1(self) -> int:
        """N1: the number of models trained with the point."""
        return int(self.ones.sum())

    @property
    def sizes(self) -> tuple[int, int]:
        """The smaller and the larger number of models without and with the point."""
        return min(self.trials_h0, self.trials_h1), max(self.trials_h0, self.trials_h1)

    @property
    def by_hypothesis(self) -> tuple[FloatArray, FloatArray]:
        """The scores without and with the point, highest first."""
        return np.repeat(self.value, self.zeros), np.repeat(self.value, self.ones)

    @property
    def in_training_order(self) -> tuple[FloatArray, FloatArray]:
        """The scores without and with the point in the order of training; if unknown, highest first."""
        if self.arrival is None:
            return self.by_hypothesis
        without, with_point = self.arrival
        return self.value[without], self.value[with_point]

    @property
    def complete_pairs(self) -> tuple[FloatArray, FloatArray]:
        """The scores without and with the point of the leading complete pairs, in training order.

        Without numbers of models: as many as there are on both sides.
        """
        without, with_point = self.in_training_order
        size = (self.pairs or self.sizes)[0]
        return without[:size], with_point[:size]

    @property
    def incomplete(self) -> int:
        """How many pairs were begun behind the complete ones: one of the models may be missing."""
        return 0 if self.pairs is None else self.pairs[1] - self.pairs[0]

    @property
    def planned(self) -> bool:
        """Whether the numbers of models must have been fixed in advance: they differ, without pairs."""
        return self.pairs is None and self.trials_h0 != self.trials_h1

    @property
    def numbers(self) -> tuple[IntArray, IntArray]:
        """Numbers of the models without and with the point that give the same pairs in a file.

        Where no numbers do, they give fewer complete pairs and not fewer incomplete ones.
        """
        n0, n1 = self.trials_h0, self.trials_h1
        whole, begun = self.pairs or ((0, n0 + n1) if self.planned else (n0, n0))
        # Behind the complete pairs first the models that have no partner, then those that have one.
        both = n0 + n1 - whole - begun
        if not 0 <= both <= min(n0, n1) - whole:
            left = n0 + n1 - self.incomplete if self.incomplete else 0
            whole, both = min(whole, max(0, left) // 2), 0
        every = np.arange(n0 + n1 - whole - both)
        alone, others = np.s_[whole : n0 - both], np.s_[n0 - both : len(every) - both]
        return np.delete(every, others), np.delete(every, alone)

    def roc(self) -> tuple[FloatArray, FloatArray]:
        """False-positive and true-positive rates at every threshold, from (0, 0) to (1, 1)."""
        false = np.append(0, np.cumsum(self.zeros)) / self.trials_h0
        true = np.append(0, np.cumsum(self.ones)) / self.trials_h1
        return false, true

    def auc(self) -> float:
        """Area under the ROC curve; ties count half."""
        false, true = self.roc()
        return float(np.trapezoid(true, false))

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> FloatArray:
        """True-positive rate at false-positive rates, interpolated between thresholds."""
        false, true = self.roc()
        # Of thresholds with equal false positives keep the lowest: it has most true positives.
        last = np.append(np.diff(false) > 0, True)
        wanted = np.asarray(false_positive_rate, dtype=float)
        return np.asarray(np.interp(wanted, false[last], true[last]))

    def same_batch(self, other: BaseScores) -> bool:
        """Whether two batches of scores are identical, which cannot be a coincidence."""
        return len(self.value) >= DISTINCT and self.same_scores(other)

    def same_scores(self, other: BaseScores) -> bool:
        """Whether both have the same scores, in any order of training."""
        return self.grouped == other.grouped and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("value", "zeros", "ones")
        )


def seeded_by(*columns: IntArray) -> np.random.Generator:
    """Random numbers for breaking ties and shuffling, which follow from the data alone."""
    digest = sha256(b"".join(column.tobytes() for column in columns)).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


def pairs_of(
    without: ArrayLike, with_point: ArrayLike, *, from_zero: bool = False
) -> tuple[int, int]:
    """Numbers of complete and of begun pairs, from the numbers of the models on both sides.

    ``from_zero``: pairs are numbered from 0, and behind a number that is missing none is complete.

    Examples
    --------
    >>> pairs_of([0, 1, 2, 4], [0, 1, 4]), pairs_of([0, 2], [0, 2], from_zero=True)
    ((2, 4), (1, 2))
    """
    begun = np.union1d(without, with_point)
    whole = np.isin(begun, without) & np.isin(begun, with_point)
    if from_zero:
        whole &= begun == np.arange(len(begun))
    return int(np.argmin(np.append(whole, False))), len(begun)


def pairs_in(without: ArrayLike, with_point: ArrayLike) -> tuple[int, int] | None:
    """The same for numbers in a file; None unless each is once on a side, and some on both."""
    once = all(len(np.unique(side)) == np.size(side) for side in (without, with_point))
    return pairs_of(without, with_point) if once and np.isin(without, with_point).any() else None


def scores_of_base(scores: ArrayLike, hypothesis: int, label: str) -> FloatArray:
    """The scores of one base under a hypothesis as numbers; refuses none and NaN."""
    which = ("without", "with")[hypothesis]
    where = f"challenge base {_files.shown(label)}: "
    array = as_numbers(scores, where)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{where}expected scores of models {which} the point (hypothesis {hypothesis}), got "
            f"{'none' if array.size == 0 else f'shape {array.shape}'}."
        )
    if np.isnan(array).any():
        raise InputError(f"{where}expected numbers as scores, got nan {which} the point.")
    return array


def as_numbers(scores: ArrayLike, where: str = "") -> FloatArray:
    """Scores as numbers; refuses truth values."""
    if getattr(scores, "dtype", None) == np.bool_ or (
        isinstance(scores, list | tuple)
        and any(isinstance(score, bool | np.bool_) for score in scores)
    ):
        raise InputError(
            f"{where}expected numbers as scores, got truth values: decisions are counts "
            "(em.AttackCounts), and membership itself is no score."
        )
    try:
        return np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            f"{where}expected numbers as scores, got {_files.shown(scores)}."
        ) from None


def labels_of(names: Sequence[object] | None, size: int) -> tuple[str, ...]:
    """Distinct labels of bases, from 0 by default."""
    if size == 0:
        raise InputError("expected at least one challenge base, got none.")
    labels = tuple(str(i) for i in range(size)) if names is None else tuple(map(str, names))
    if len(labels) != size:
        raise InputError(f"expected {size} names, got {len(labels)}.")
    if len(set(labels)) < size:
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InputError(f"expected each challenge base once, got {_files.shown(twice)} twice.")
    return labels


def model_numbers(
    models: Models, bases: Sequence[BaseScores], labels: Sequence[str]
) -> tuple[tuple[IntArray, IntArray], ...] | None:
    """Validate model numbers: one for each score, without duplicates in a base."""
    if models is None:
        return None
    numbers = []
    for pair, base, label in zip(models, bases, labels, strict=True):
        without, with_point = (np.asarray(side, dtype=np.int64) for side in pair)
        sizes, where = (len(without), len(with_point)), f"challenge base {_files.shown(label)}"
        if sizes != (base.trials_h0, base.trials_h1):
            raise InputError(f"{where}: expected a model for each score, got {sizes}.")
        whole = np.concatenate([without, with_point])
        if len(np.unique(whole)) != len(whole) or whole.min() < 0:
            raise InputError(f"{where}: expected each model once, numbered from 0.")
        numbers.append((without, with_point))
    return tuple(numbers)
