"""What `estimate` is given: counts or scores, from files, stores, result folders or standard input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import epsilometer as em
from epsilometer import _files
from epsilometer.audit.loading import statistic_of
from epsilometer.cli import results
from epsilometer.cli.attack import read_losses
from epsilometer.cli.delivery import LOSSES, POSTERIOR
from epsilometer.cli.results import STDIN
from epsilometer.errors import InputError

DEFAULT_STATISTIC, DEFAULT_RATE = "logit", 0.1

COUNTS = frozenset({"false_positives", "trials_h0", "false_negatives", "trials_h1"})
"""Columns by which counts are known."""


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """How losses become scores, and counts for the published model."""

    statistic: str | None = None
    target_alpha: float | None = None
    variant: str | None = None

    @property
    def given(self) -> str | None:
        """The first of these options that was given, if any."""
        return next((name for name, value in vars(self).items() if value is not None), None)


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file: its label, and either counts or scores; losses too, where scores came from them."""

    label: str
    counts: em.AttackCounts | None = None
    scores: em.Scores | None = None
    losses: em.Losses | None = None
    design: Any = None

    @property
    def data(self) -> em.AttackCounts | em.Scores:
        """What the file holds, as the whole-curve model reads it."""
        found = self.counts if self.scores is None else self.scores
        assert found is not None  # one of them is always there
        return found


def is_posterior(file: str) -> bool:
    """Whether a file, or a folder, holds a posterior to go on from."""
    if file == STDIN:
        return False
    path = Path(file)
    if path.is_dir():
        return (path / POSTERIOR).exists()
    return path.suffix.lower() == ".nc"


def read_source(file: str, options: LossOptions) -> Source:
    """Read counts, losses or scores, whichever they are."""
    if file != STDIN:
        found = _not_text(Path(file), options)
        if found is not None:
            return found
    name, text = results.text_of(file)
    columns = _header(text)
    if "loss" in columns:
        return _made(em.Losses.parse_csv(text, name=name), name, options, None)
    if "score" in columns:
        scores = em.Scores.parse_csv(text, name=name)
        return Source(label=name, scores=_checked(scores, name))
    if len(columns) > 1 and not set(columns) & COUNTS:
        from epsilometer.attacks.losses import COLUMNS

        raise InputError(
            f"{name}: expected the columns of losses ({', '.join(COLUMNS)}), of scores "
            "(challenge_base, hypothesis, score; of canaries score, member) or of counts "
            f"(false_positives, trials_h0, ...), got {_files.shown(', '.join(columns))}."
        )
    return Source(label=name, counts=_counts(file, name, text))


def _not_text(path: Path, options: LossOptions) -> Source | None:
    """A result folder, a store or a Parquet file; None for a file of text."""
    from epsilometer.measurement.sqlite_store import is_store

    if path.is_dir():
        if not (path / LOSSES).exists():
            raise InputError(
                f"{path}: cannot be read: expected a file, or a folder with {POSTERIOR} or {LOSSES}."
            )
        return _of_losses(str(path / LOSSES), str(path), options)
    if path.suffix.lower() == ".parquet":
        if "loss" not in _files.read_parquet(path).column_names:
            return Source(label=path.name, scores=_checked(em.Scores.read(path), path.name))
    elif not is_store(path):
        return None
    return _of_losses(str(path), path.name, options)


def _counts(file: str, name: str, text: str) -> em.AttackCounts:
    if file == STDIN:
        return em.AttackCounts.parse(text, name=name)
    return em.AttackCounts.read(file)


def _header(text: str) -> list[str]:
    from epsilometer.model.score_tables import header_of

    return [] if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{") else header_of(text)


def _of_losses(file: str, label: str, options: LossOptions) -> Source:
    losses, design = read_losses(file, options.variant, None)
    return _made(losses, label, options, design)


def _made(losses: em.Losses, label: str, options: LossOptions, design: Any) -> Source:
    statistic = statistic_of(
        options.statistic or DEFAULT_STATISTIC, folder=Path(), place="--statistic"
    )
    try:
        scores = _checked(em.scores_of(losses, statistic), label)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(label) else f"{label}: {text}") from None
    return Source(label=label, scores=scores, losses=losses, design=design)


def _checked(scores: em.Scores, name: str) -> em.Scores:
    """Refuse what says nothing: only ties, or a single model a side in every base."""
    if all(base.trials_h0 == 1 and base.trials_h1 == 1 for base in scores.bases):
        raise InputError(
            f"{name}: expected several models a side, got one without the point and one with it "
            "in every base."
        )
    try:
        scores.check()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return scores


def counts_of(source: Source, options: LossOptions) -> em.AttackCounts:
    """Counts for the published model: those of the file, or of the attack at one target rate."""
    if source.counts is not None:
        return source.counts
    if source.losses is None:
        raise InputError(
            f"{source.label}: the published model needs counts or losses, got scores; "
            "`--model profile` reads scores."
        )
    statistic = statistic_of(
        options.statistic or DEFAULT_STATISTIC, folder=Path(), place="--statistic"
    )
    most = int(source.losses.replicate.max()) + 1
    design = source.design or em.MeasureMIAFast(replicates=max(most, 3))
    attacked = design.attack(source.losses, em.LikelihoodRatio(), statistic=statistic)
    counts: em.AttackCounts = attacked.counts(options.target_alpha or DEFAULT_RATE)
    return counts
