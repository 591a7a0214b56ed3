"""Scores of attacks, by challenge base: the data of the curve model.

Only the order of scores matters, so a base is stored as its distinct scores, highest first, with the
number of models without and with the point at each.  Counts at one threshold are a special case with
two scores.  `score_tables.py` parses files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from epsilometer import _columns, _files
from epsilometer._arrays import IntArray
from epsilometer._display import Plotted
from epsilometer.errors import InputError
from epsilometer.model import score_tables
from epsilometer.model.base_scores import (
    BaseScores,
    Models,
    as_numbers,
    labels_of,
    model_numbers,
    pairs_in,
    scores_of_base,
)
from epsilometer.model.counts import AttackCounts
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.model.score_tables import BASE, HYPOTHESIS, MEMBER, MODEL, REPLICATE, SCORE

Names = Sequence[object] | None
#: Standard deviations of the rank sum below which members have the lower scores: 3e-5 by chance.
LOWEST_RANK_Z = -4.0

REVERSED = (
    "Scores are lower for members than for non-members: is their sign reversed? Higher must look more "
    "like a member."
)


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

    Attributes
    ----------
    independent_noise
        Of canaries: whether proofs also say what follows if their noise is independent and normal.
    planned_order
        The order of the pairs of all bases, if it was fixed before they were trained; proofs follow it.

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
    independent_noise: bool = False
    planned_order: PlannedOrder | None = None
    known_flaws: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        without: Sequence[ArrayLike],
        with_point: Sequence[ArrayLike],
        names: Names = None,
        one_run: bool = False,
        dependent: bool = False,
        models: Models = None,
        fair_coins: bool = False,
    ) -> None:
        if len(without) != len(with_point):
            raise InputError(
                "expected scores without and with the point for equally many bases, got "
                f"{len(without)} and {len(with_point)}."
            )
        labels = labels_of(names, len(without))
        bases = [
            BaseScores.of(scores_of_base(zeros, 0, label), scores_of_base(ones, 1, label))
            for zeros, ones, label in zip(without, with_point, labels, strict=True)
        ]
        flags = {"one_run": one_run, "dependent": dependent, "fair_coins": fair_coins}
        self._set(bases, labels, models=models, **flags)

    def _set(
        self, bases: Iterable[BaseScores], names: Names, models: Models = None, **flags: bool
    ) -> Scores:
        kept = tuple(bases)
        labels = labels_of(names, len(kept))
        parts = {"bases": kept, "names": labels, "models": model_numbers(models, kept, labels)}
        for name, value in (parts | {flag: bool(flags[flag]) for flag in flags}).items():
            object.__setattr__(self, name, value)
        return self

    @classmethod
    def of_bases(cls, bases: Iterable[BaseScores], names: Names, **more: Any) -> Scores:
        """Build from validated bases and their names; ``more`` are the other parameters."""
        return object.__new__(cls)._set(bases, names, **more)

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
        (x, n0), (y, n1) = counts.by_hypothesis
        for zeros, ones in zip(np.stack([x, n0 - x], 1), np.stack([n1 - y, y], 1), strict=True):
            some = zeros + ones > 0
            value = np.array([1.0, 0.0])[some]
            bases.append(BaseScores(value=value, zeros=zeros[some], ones=ones[some], grouped=True))
        scores = cls.of_bases(bases, counts.names, dependent=counts.cross_fed)
        return scores.with_flaws(counts.flaws)

    @classmethod
    def of_rows(
        cls,
        challenge_base: Sequence[object],
        hypothesis: ArrayLike,
        score: ArrayLike,
        one_run: bool = False,
        model: ArrayLike | None = None,
        order: ArrayLike | None = None,
    ) -> Scores:
        """Build from one row per score: its base, 0 or 1 (trained with the point), its score.

        Rows are in the order in which the models were trained, unless ``order`` has numbers to sort them
        by, without NaN.  With ``model``, the number of each row's model, bases share models; ``one_run``
        then means that points were included by fair coins.
        """
        labels = [_files.label(base_name, BASE, "scores") for base_name in challenge_base]
        names = tuple(dict.fromkeys(labels))
        number = {name: index for index, name in enumerate(names)}
        base = np.array([number[label] for label in labels], dtype=np.int64)
        with_point, values = np.asarray(hypothesis), as_numbers(score)
        if not len(base) == len(with_point) == len(values):
            raise InputError("expected equally many bases, hypotheses and scores.")
        wrong = with_point[(with_point != 0) & (with_point != 1)]
        if len(wrong):
            raise InputError(f"expected hypothesis to be 0 or 1, got hypothesis={wrong[0]}.")
        side = 2 * base + with_point.astype(np.int64)
        place = np.arange(len(base)) if order is None or np.isnan(order).any() else order
        rows = np.lexsort((np.asarray(place), side))
        ends = np.cumsum(np.bincount(side, minlength=2 * len(names)))[:-1]
        parts = np.split(values[rows], ends)
        shared = None
        if model is not None:
            numbers = np.split(np.asarray(model)[rows], ends)
            shared = list(zip(numbers[0::2], numbers[1::2], strict=True))
        scores = cls(
            without=parts[0::2],
            with_point=parts[1::2],
            names=names,
            one_run=one_run and shared is None,
            models=shared,
            fair_coins=one_run and shared is not None,
        )
        if place is not order or one_run or shared is not None:
            return scores
        numbers = np.split(np.asarray(place)[rows], ends)
        return scores.with_pairs(map(pairs_in, numbers[0::2], numbers[1::2]))

    @classmethod
    def read(cls, source: str | PathLike[str]) -> Scores:
        """Read CSV, or Parquet if the name ends in .parquet; see `score_tables.py` for the columns."""
        return cls.of_rows(**score_tables.read(Path(source)))

    @classmethod
    def parse_csv(cls, text: str, *, name: str) -> Scores:
        """Read CSV text; ``name`` names the file in error messages."""
        rows = score_tables.parse_csv(text, name=name)
        try:
            return cls.of_rows(**rows)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    def __len__(self) -> int:
        """The number of challenge bases."""
        return len(self.bases)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scores):
            return NotImplemented
        mine, theirs = (
            (s.names, s.one_run, s.dependent, s.fair_coins, s.models is None) for s in (self, other)
        )
        return mine == theirs and all(map(BaseScores.same_scores, self.bases, other.bases))

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
    def largest_trials(self) -> int:
        """The largest number of models of any base, without or with the point."""
        return int(max(self.trials_h0.max(), self.trials_h1.max()))

    @property
    def shared_models(self) -> int:
        """The number of models that the bases share; 0 if every base has its own models."""
        numbers = [side for pair in self.models or () for side in pair]
        return len(np.unique(np.concatenate(numbers))) if numbers else 0

    @property
    def all_runs(self) -> BaseScores:
        """The canaries of all runs as if from one run, if every run has its own coins.

        A coin affects only its own run, so the runs together are one mechanism with more canaries.
        """
        return BaseScores.of_batches(self.bases)

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why these scores cannot be relied on, a sentence each: no verdict is judged from them."""
        return (*self.known_flaws, *((REVERSED,) if self._rank_z < LOWEST_RANK_Z else ()))

    def with_flaws(self, flaws: Iterable[str]) -> Scores:
        """The same scores, with what is known against them; sentences that are known are kept once."""
        return self._with(known_flaws=tuple(dict.fromkeys((*self.known_flaws, *flaws))))

    def assuming_independent_noise(self) -> Scores:
        """The same canaries; proofs also say what follows if their noise is independent and normal."""
        if not self.one_run:
            raise InputError(
                "expected scores of canaries of training runs (score, member), whose noise may be "
                "assumed to be independent; got others."
            )
        return self._with(independent_noise=True)

    def _with(self, **parts: Any) -> Scores:
        """The same scores but for some fields."""
        other = copy(self)
        for name, value in parts.items():
            object.__setattr__(other, name, value)
        return other

    @property
    def _rank_z(self) -> float:
        """Standardised rank sum over all bases: negative if members have the lower scores."""
        n0, n1 = self.trials_h0.astype(float), self.trials_h1.astype(float)
        above = np.array([base.auc() - 0.5 for base in self.bases]) * n0 * n1
        return float(above.sum() / np.sqrt((n0 * n1 * (n0 + n1 + 1) / 12).sum()))

    def check(self) -> None:
        """Refuse scores that carry no information: all tied, in every base."""
        if all(len(base.value) == 1 for base in self.bases):
            raise InputError("expected scores that differ, got only ties, which tell nothing.")

    def with_pairs(self, pairs: Iterable[tuple[int, int] | None]) -> Scores:
        """The same scores, with the numbers of complete and of begun pairs of each base."""
        found = zip(self.bases, pairs, strict=True)
        return self._with(bases=tuple(replace(base, pairs=pair) for base, pair in found))

    def in_planned_order(self, order: PlannedOrder | None) -> Scores:
        """The same scores, of pairs in an order that was fixed before they were trained."""
        return self._with(planned_order=order)

    def with_bases(self, bases: Iterable[BaseScores]) -> Scores:
        """Other scores under the same names; the identity of their models is dropped."""
        return self._with(bases=tuple(bases), models=None, fair_coins=False, planned_order=None)

    def take(self, rows: Iterable[int]) -> Scores:
        """Select bases, in the given order."""
        index = list(rows)
        return self._with(
            bases=tuple(self.bases[i] for i in index),
            names=labels_of([self.names[i] for i in index], len(index)),
            models=None if self.models is None else tuple(self.models[i] for i in index),
            planned_order=None,
        )

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
            where = f"challenge base {_files.shown(name)}"
            if len(bases) > 1 and any(base.grouped for base in bases):
                raise InputError(f"{where}: cannot add scores to counts.")
            if any(one.same_batch(other) for one, other in combinations(bases, 2)):
                raise InputError(
                    f"{where}: expected scores of new models, got the same scores twice."
                )
        if self.one_run:
            flat = [base for bases in parts.values() for base in bases]
            if any(one.same_batch(other) for one, other in combinations(flat, 2)):
                raise InputError(
                    "expected runs with separate coin flips, got the same scores twice."
                )
        merged = [b[0] if len(b) == 1 else BaseScores.of_batches(b) for b in parts.values()]
        # Canaries of a run mixed with separate models: neither kind of proof applies to both.
        kinds = {scores.one_run for scores in (self, *others)}
        dependent = len(kinds) > 1 or any(scores.dependent for scores in (self, *others))
        own = all(scores.independent_noise for scores in (self, *others))
        flags = {"one_run": kinds == {True}, "dependent": dependent, "independent_noise": own}
        together = Scores.of_bases(merged, list(parts), **flags)
        return together.with_flaws(
            flaw for scores in (self, *others) for flaw in scores.known_flaws
        )

    def to_csv(self) -> str:
        """CSV text that :meth:`parse_csv` reads back; canaries are marked by the column member.

        Dependent scores cannot be written: a reader of the file could not tell.
        """
        return _columns.csv_text(self._table())

    def write(self, target: str | PathLike[str]) -> None:
        """Write CSV or Parquet, by the ending of the name; replaces a file of that name.

        :meth:`read` gives the same scores back.
        """
        _columns.write(Path(target), self._table())

    def _table(self) -> dict[str, Any]:
        """The columns of a file."""
        if self.dependent:
            raise InputError("expected independent scores to write, got dependent ones.")
        _files.written_labels(self.names, BASE)
        sides = [side for base in self.bases for side in base.in_training_order]
        sizes = [len(side) for side in sides]
        which = np.repeat(np.arange(len(sides)), sizes)
        truth = MEMBER if self.one_run or self.fair_coins else HYPOTHESIS
        columns: dict[str, Any] = {
            BASE: [self.names[base] for base in (which // 2).tolist()],
            truth: which % 2,
            REPLICATE: np.concatenate([side for base in self.bases for side in base.numbers]),
            SCORE: np.concatenate(sides),
        }
        if self.models is not None:
            columns[MODEL] = np.concatenate([side for pair in self.models for side in pair])
        return columns
