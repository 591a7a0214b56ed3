"""Scores of attacks, by challenge base: the data of the curve model.

Only the order of scores matters, so a base is stored as its distinct scores, highest first, with the
number of models without and with the point at each.  Counts at one threshold are a special case with
two scores.  `score_tables.py` parses files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _files
from epsilometer._arrays import FloatArray, IntArray
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.model import score_tables
from epsilometer.model.counts import AttackCounts
from epsilometer.model.score_tables import BASE, COLUMNS, HYPOTHESIS, MEMBER, MODEL

LOWEST_RANK_Z = -4.0
"""Standard deviations of the rank sum below which members have the lower scores: 3e-5 by chance."""

REVERSED = (
    "Scores are lower for members than for non-members: is their sign reversed? Higher must look more "
    "like a member."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseScores:
    """One challenge base: distinct scores, highest first, and the number of models with each.

    ``zeros`` counts models without the point, ``ones`` those with it.  ``grouped`` means that models in
    one entry need not have the same score: only their side of a threshold is known.  ``arrival`` is the
    index of each model's score, in the order in which models were trained, without and with the point;
    None if unknown.  Posteriors do not depend on it, proofs do.
    """

    value: FloatArray
    zeros: IntArray
    ones: IntArray
    grouped: bool = False
    arrival: tuple[IntArray, IntArray] | None = None

    @classmethod
    def of(cls, without: FloatArray, with_point: FloatArray) -> BaseScores:
        """Build from the scores themselves."""
        value, which = np.unique(-np.concatenate([without, with_point]), return_inverse=True)
        ones = np.bincount(which[len(without) :], minlength=len(value))
        zeros = np.bincount(which[: len(without)], minlength=len(value))
        base = cls(
            # Treat minus zero as zero.
            value=0.0 - value,
            zeros=zeros.astype(np.int64),
            ones=ones.astype(np.int64),
            arrival=(which[: len(without)], which[len(without) :]),
        )
        for column in (base.value, base.zeros, base.ones, which):
            column.flags.writeable = False
        return base

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
        digest = sha256(self.zeros.tobytes() + self.ones.tobytes()).digest()
        rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scores(Plotted, view="data.SCORES"):
    """Scores of models without and with the challenge point, for each challenge base.

    Higher looks more like a member.  Models of a base are assumed independent.

    Parameters
    ----------
    without, with_point
        For each base, the scores of its models without the point, and with it.  NaN is refused;
        infinite scores rank highest or lowest.
    names
        A distinct label for each base.  Default: its number, from 0.
    one_run
        Whether a base is one training run and its scores are of canaries included by coin flips;
        otherwise every score is of a separately trained model.
    dependent
        Whether scores of one base depend on each other: counts of cross-fed models, or a statistic that
        uses several models at once.  Nothing is proven from such scores.
    models
        If bases share models: for each base the numbers of its models without and with the point, in
        the order of their scores.  None if every base has its own models.
    fair_coins
        For shared models: whether each point was included in each model by its own fair coin.

    Examples
    --------
    >>> scores = Scores(without=[[0.1, 0.4, -0.3]], with_point=[[1.2, 0.3]])
    >>> len(scores), scores.trials_h0.tolist(), round(scores.bases[0].auc(), 4)
    (1, [3], 0.8333)
    """

    bases: tuple[BaseScores, ...]
    names: tuple[str, ...]
    one_run: bool = False
    dependent: bool = False
    models: tuple[tuple[IntArray, IntArray], ...] | None = None
    fair_coins: bool = False
    known_flaws: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        without: Sequence[ArrayLike],
        with_point: Sequence[ArrayLike],
        names: Sequence[object] | None = None,
        one_run: bool = False,
        dependent: bool = False,
        models: Sequence[tuple[ArrayLike, ArrayLike]] | None = None,
        fair_coins: bool = False,
    ) -> None:
        if len(without) != len(with_point):
            raise InputError(
                "expected scores without and with the point for equally many bases, got "
                f"{len(without)} and {len(with_point)}."
            )
        labels = _labels(names, len(without))
        object.__setattr__(self, "names", labels)
        object.__setattr__(self, "one_run", bool(one_run))
        object.__setattr__(self, "dependent", bool(dependent))
        object.__setattr__(
            self,
            "bases",
            tuple(
                BaseScores.of(_checked(zeros, 0, label), _checked(ones, 1, label))
                for zeros, ones, label in zip(without, with_point, labels, strict=True)
            ),
        )
        object.__setattr__(self, "models", _models(models, self.bases, labels))
        object.__setattr__(self, "fair_coins", bool(fair_coins))

    @classmethod
    def of_bases(
        cls,
        bases: Iterable[BaseScores],
        names: Sequence[object],
        *,
        one_run: bool = False,
        dependent: bool = False,
        models: Sequence[tuple[ArrayLike, ArrayLike]] | None = None,
        fair_coins: bool = False,
    ) -> Scores:
        """Build from validated bases and their names."""
        scores = object.__new__(cls)
        kept = tuple(bases)
        labels = _labels(names, len(kept))
        object.__setattr__(scores, "one_run", one_run)
        object.__setattr__(scores, "dependent", dependent)
        object.__setattr__(scores, "bases", kept)
        object.__setattr__(scores, "names", labels)
        object.__setattr__(scores, "models", _models(models, kept, labels))
        object.__setattr__(scores, "fair_coins", fair_coins)
        return scores

    @classmethod
    def of_canaries(cls, members: ArrayLike, others: ArrayLike) -> Scores:
        """One base of canaries: scores of those in the training data, and of the others."""
        return cls(without=[others], with_point=[members], names=["canaries"], one_run=True)

    @classmethod
    def of_counts(cls, counts: AttackCounts) -> Scores:
        """Error counts as scores with two values: called a member, or not.

        Examples
        --------
        >>> counts = AttackCounts(
        ...     false_positives=[1], trials_h0=10, false_negatives=[4], trials_h1=10
        ... )
        >>> Scores.of_counts(counts).bases[0].ones.tolist()
        [6, 4]
        """
        if counts.dependent:
            raise InputError(
                "expected independent counts for the curve model, got groups; use the count model, "
                "or one row per base."
            )
        bases = []
        columns = (counts.false_positives, counts.trials_h0, counts.false_negatives)
        for x, n0, y, n1 in zip(*(c.tolist() for c in (*columns, counts.trials_h1)), strict=True):
            zeros, ones = np.array([x, n0 - x]), np.array([n1 - y, y])
            some = zeros + ones > 0
            value = np.array([1.0, 0.0])[some]
            bases.append(BaseScores(value=value, zeros=zeros[some], ones=ones[some], grouped=True))
        cross_fed = counts.measured is not None and counts.measured.cross_fed
        return cls.of_bases(bases, counts.names, dependent=cross_fed).with_flaws(counts.flaws)

    @classmethod
    def of_rows(
        cls,
        challenge_base: Sequence[object],
        hypothesis: ArrayLike,
        score: ArrayLike,
        one_run: bool = False,
        model: ArrayLike | None = None,
    ) -> Scores:
        """Build from one row per score: its base, 0 or 1 (trained with the point), its score.

        Rows are in the order in which the models were trained.  With ``model``, the number of each
        row's model, bases share models; ``one_run`` then means that points were included by fair coins.
        """
        labels = [_files.label(base_name, BASE, "scores") for base_name in challenge_base]
        names = tuple(dict.fromkeys(labels))
        number = {name: index for index, name in enumerate(names)}
        base = np.array([number[label] for label in labels], dtype=np.int64)
        with_point, values = np.asarray(hypothesis), _numbers(score)
        if not len(base) == len(with_point) == len(values):
            raise InputError("expected equally many bases, hypotheses and scores.")
        wrong = with_point[(with_point != 0) & (with_point != 1)]
        if len(wrong):
            raise InputError(f"expected hypothesis to be 0 or 1, got hypothesis={wrong[0]}.")
        order = np.argsort(2 * base + with_point, kind="stable")
        sizes = np.bincount(2 * base + with_point.astype(np.int64), minlength=2 * len(names))
        parts = np.split(values[order], np.cumsum(sizes)[:-1])
        shared = None
        if model is not None:
            numbers = np.split(np.asarray(model)[order], np.cumsum(sizes)[:-1])
            shared = list(zip(numbers[0::2], numbers[1::2], strict=True))
        return cls(
            without=parts[0::2],
            with_point=parts[1::2],
            names=names,
            one_run=one_run and shared is None,
            models=shared,
            fair_coins=one_run and shared is not None,
        )

    @classmethod
    def read(cls, source: str | PathLike[str]) -> Scores:
        """Read CSV, or Parquet if the name ends in .parquet; see `score_tables.py` for the columns."""
        return cls.of_rows(*score_tables.read(Path(source)))

    @classmethod
    def parse_csv(cls, text: str, *, name: str) -> Scores:
        """Read CSV text; ``name`` names the file in error messages."""
        try:
            return cls.of_rows(*score_tables.parse_csv(text, name=name))
        except InputError as error:
            raise InputError(_named(str(error), name)) from None

    def __len__(self) -> int:
        """The number of challenge bases."""
        return len(self.bases)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scores):
            return NotImplemented
        mine, theirs = (
            (s.names, s.one_run, s.dependent, s.fair_coins, s.models is None) for s in (self, other)
        )
        return mine == theirs and all(
            np.array_equal(getattr(mine, column), getattr(theirs, column))
            for mine, theirs in zip(self.bases, other.bases, strict=True)
            for column in ("value", "zeros", "ones", "grouped")
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def trials_h0(self) -> IntArray:
        """N0 of each base."""
        return np.array([base.trials_h0 for base in self.bases], dtype=np.int64)

    @property
    def trials_h1(self) -> IntArray:
        """N1 of each base."""
        return np.array([base.trials_h1 for base in self.bases], dtype=np.int64)

    @property
    def shared_models(self) -> int:
        """The number of models that the bases share; 0 if every base has its own models."""
        if self.models is None:
            return 0
        return len(np.unique(np.concatenate([side for pair in self.models for side in pair])))

    @property
    def all_runs(self) -> BaseScores:
        """The canaries of all runs as if from one run.

        Anything that holds for the canaries of one run holds for these too: a coin affects only its own
        run, so the runs together are one mechanism with more canaries.  This requires new coin flips
        for every run.
        """
        sides = zip(*(base.in_training_order for base in self.bases), strict=True)
        return BaseScores.of(*(np.concatenate(side) for side in sides))

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why these scores cannot be relied on, a sentence each: no verdict is judged from them."""
        return (*self.known_flaws, *((REVERSED,) if self._rank_z < LOWEST_RANK_Z else ()))

    def with_flaws(self, flaws: Iterable[str]) -> Scores:
        """The same scores, with what is known against them; sentences that are known are kept once."""
        noted = copy(self)
        object.__setattr__(noted, "known_flaws", tuple(dict.fromkeys((*self.known_flaws, *flaws))))
        return noted

    @property
    def _rank_z(self) -> float:
        """Standardised rank sum over all bases: negative if members have the lower scores."""
        n0, n1 = self.trials_h0.astype(float), self.trials_h1.astype(float)
        above = np.array([base.auc() - 0.5 for base in self.bases]) * n0 * n1
        return float(above.sum() / np.sqrt((n0 * n1 * (n0 + n1 + 1) / 12).sum()))

    def check(self) -> None:
        """Refuse scores that carry no information: all tied, in every base."""
        if all(len(base.value) == 1 for base in self.bases):
            raise InputError(
                "expected scores that differ, got only ties, which carry no information."
            )

    def with_bases(self, bases: Iterable[BaseScores]) -> Scores:
        """Other scores under the same names; the identity of their models is dropped."""
        others = Scores.of_bases(bases, self.names, one_run=self.one_run, dependent=self.dependent)
        return others.with_flaws(self.known_flaws)

    def take(self, rows: Iterable[int]) -> Scores:
        """Select bases, in the given order."""
        index = list(rows)
        return Scores.of_bases(
            (self.bases[i] for i in index),
            [self.names[i] for i in index],
            one_run=self.one_run,
            dependent=self.dependent,
            models=None if self.models is None else [self.models[i] for i in index],
            fair_coins=self.fair_coins,
        ).with_flaws(self.known_flaws)

    def joined(self, *others: Scores) -> Scores:
        """These scores and others; bases with the same name become one base with more models."""
        if others and any(scores.models is not None for scores in (self, *others)):
            raise InputError(
                "expected bases with separate models to join, got points that share models; add the "
                "models to the pool's store instead."
            )
        parts: dict[str, list[BaseScores]] = {}
        for scores in (self, *others):
            for name, base in zip(scores.names, scores.bases, strict=True):
                parts.setdefault(name, []).append(base)
        for name, bases in parts.items():
            if len(bases) > 1 and any(base.grouped for base in bases):
                raise InputError(
                    f"challenge base {_files.shown(name)}: cannot add scores to counts."
                )
            if any(_same(one, other) for one, other in combinations(bases, 2)):
                raise InputError(
                    f"challenge base {_files.shown(name)}: expected scores of new models, got the same "
                    "scores twice."
                )
        if self.one_run:
            flat = [base for bases in parts.values() for base in bases]
            if any(_same(one, other) for one, other in combinations(flat, 2)):
                raise InputError(
                    "expected runs with separate coin flips, got the same scores twice."
                )
        merged = [
            bases[0]
            if len(bases) == 1
            else BaseScores.of(
                *(
                    np.concatenate([base.in_training_order[which] for base in bases])
                    for which in (0, 1)
                )
            )
            for bases in parts.values()
        ]
        # Canaries of a run mixed with separate models: neither kind of proof applies to both.
        kinds = {scores.one_run for scores in (self, *others)}
        dependent = len(kinds) > 1 or any(scores.dependent for scores in (self, *others))
        together = Scores.of_bases(
            merged, list(parts), one_run=kinds == {True}, dependent=dependent
        )
        return together.with_flaws(
            flaw for scores in (self, *others) for flaw in scores.known_flaws
        )

    def rows(self) -> Iterable[tuple[str, int, int, float]]:
        """Base, hypothesis, number within them and score of each model, as plain values."""
        for name, base in zip(self.names, self.bases, strict=True):
            for hypothesis, values in enumerate(base.in_training_order):
                for number, value in enumerate(values.tolist()):
                    yield name, hypothesis, number, value

    def to_csv(self) -> str:
        """CSV text that :meth:`parse_csv` reads back; canaries are marked by the column member.

        Dependent scores cannot be written: a reader of the file could not tell.
        """
        return _files.csv_text(*self._table())

    def write(self, target: str | PathLike[str]) -> None:
        """Write CSV or Parquet, by the ending of the name; replaces a file of that name.

        :meth:`read` gives the same scores back.
        """
        path = Path(target)
        kind = _files.ending(path, ".csv", ".parquet", bare=".csv")
        columns, rows = self._table()
        if kind == ".csv":
            _files.write_text(path, _files.csv_text(columns, rows))
        else:
            _files.replace(path, lambda place: score_tables.write_parquet(place, columns, rows))

    def _table(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Columns and rows of a file."""
        if self.dependent:
            raise InputError("expected independent scores to write, got dependent ones.")
        _files.written_labels(self.names, BASE)
        coins = self.one_run or self.fair_coins
        columns = tuple(MEMBER if coins and c == HYPOTHESIS else c for c in COLUMNS)
        if self.models is None:
            return columns, self.rows()
        numbers = (n for pair in self.models for side in pair for n in side.tolist())
        rows = ((*row, number) for row, number in zip(self.rows(), numbers, strict=True))
        return (*columns, MODEL), rows


DISTINCT = 10
"""Number of distinct scores above which two equal batches cannot be a coincidence."""


def _same(one: BaseScores, other: BaseScores) -> bool:
    """Whether two batches of a base are identical."""
    return len(one.value) >= DISTINCT and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("value", "zeros", "ones")
    )


def _labels(names: Sequence[object] | None, size: int) -> tuple[str, ...]:
    if size == 0:
        raise InputError("expected at least one challenge base, got none.")
    labels = tuple(str(i) for i in range(size)) if names is None else tuple(map(str, names))
    if len(labels) != size:
        raise InputError(f"expected {size} names, got {len(labels)}.")
    if len(set(labels)) < size:
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InputError(f"expected each challenge base once, got {_files.shown(twice)} twice.")
    return labels


def _models(
    models: Sequence[tuple[ArrayLike, ArrayLike]] | None,
    bases: Sequence[BaseScores],
    labels: Sequence[str],
) -> tuple[tuple[IntArray, IntArray], ...] | None:
    """Validate model numbers: one for each score, without duplicates in a base."""
    if models is None:
        return None
    numbers = []
    for pair, base, label in zip(models, bases, labels, strict=True):
        without, with_point = (np.asarray(side, dtype=np.int64) for side in pair)
        sizes = (len(without), len(with_point))
        if sizes != (base.trials_h0, base.trials_h1):
            raise InputError(
                f"challenge base {_files.shown(label)}: expected a model for each score, got {sizes}."
            )
        whole = np.concatenate([without, with_point])
        if len(np.unique(whole)) != len(whole) or whole.min() < 0:
            raise InputError(
                f"challenge base {_files.shown(label)}: expected each model once, numbered from 0."
            )
        numbers.append((without, with_point))
    return tuple(numbers)


def _checked(scores: ArrayLike, hypothesis: int, label: str) -> FloatArray:
    which = ("without", "with")[hypothesis]
    where = f"challenge base {_files.shown(label)}: "
    array = _numbers(scores, where)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{where}expected scores of models {which} the point (hypothesis {hypothesis}), got "
            f"{'none' if array.size == 0 else f'shape {array.shape}'}."
        )
    if np.isnan(array).any():
        raise InputError(f"{where}expected numbers as scores, got nan {which} the point.")
    return array


def _numbers(scores: ArrayLike, where: str = "") -> FloatArray:
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


def _named(text: str, name: str) -> str:
    return text if text.startswith(name) else f"{name}: {text}"
