"""Every estimator on the same data, side by side, each with what it assumes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray
from epsilometer._display import Plotted
from epsilometer.baselines.bases import best_interval, best_scores, pooled
from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES
from epsilometer.baselines.estimator import Kind, LowerEndOnly, check_significance
from epsilometer.baselines.guesses import OneRun, OneRunFdp
from epsilometer.baselines.one_run import check_fair_coin
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.profile.curve import EXTRAPOLATION
from epsilometer.inference.profile.posterior import ProfilePosterior
from epsilometer.model.counts import AttackCounts
from epsilometer.model.scores import BaseScores, Scores
from epsilometer.report.text import counted, plain

ABOUT_ALGORITHM = "the algorithm's epsilon"
ABOUT_ATTACK = "the strongest attack's epsilon (its lower end bounds the algorithm's)"
ABOUT_GAUSSIAN = (
    "epsilon of the most private Gaussian mechanism that allows such errors, not of the algorithm "
    "unless it is one"
)
ANY_RATES = (
    "attacks with any error rates between their strength and the algorithm's limit, not that any is "
    "the best"
)
SCORES_REVERSED = (
    "Members have lower scores than others: are the scores reversed? Bounds take higher for "
    "member, and say nothing here."
)
DEPEND = "depend on each other; rows that assume independent trials are"
TOO_SURE = "too sure (`epsilometer selftest LOSSES` measures it)."
NOT_ONE_RUN = (
    "expected canaries of one training run, each in by a fair coin, got scores of models that were "
    "trained separately, or of several bases."
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One estimator's answer; infinite where it has no upper end, NaN where it does not apply."""

    label: str
    kind: str
    about: str
    assumes: str
    low: float
    high: float
    bounded_above: bool = False
    """Whether this kind of answer has an upper end at all, be it infinite."""
    pooled: tuple[float, float] | None = None
    reason: str = ""
    """Why it does not apply; empty if it does."""

    @property
    def applies(self) -> bool:
        return not self.reason

    def described(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        found: dict[str, Any] = {
            "estimator": self.label,
            "kind": self.kind,
            "about": self.about,
            "assumes": self.assumes,
            "lower": self.low,
            "upper": self.high,
            "has_upper": self.bounded_above,
        }
        if self.pooled is not None:
            found |= {"pooled_lower": self.pooled[0], "pooled_upper": self.pooled[1]}
        if self.reason:
            found["does_not_apply"] = self.reason
        return dict(plain(found))


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Plotted, view="comparisons.COMPARISON"):
    """All rows, and what they were made from."""

    rows: tuple[Row, ...]
    delta: float
    significance: float
    source: str
    several: bool
    """Whether there were several challenge bases."""
    notes: tuple[str, ...] = ()
    """What a reader should know about these data."""


def compare_counts(
    counts: AttackCounts,
    *,
    delta: float,
    significance: float = 0.05,
    posteriors: Sequence[tuple[str, Posterior]] = (),
) -> Comparison:
    """Compare every estimator from counts; each end errs with probability ``significance``.

    Several bases: the largest ends, with the error shared among the bases, and those of all counts
    pooled.  Posteriors, with a name each, come first; they use all bases in their own way.
    """
    delta = _validate.delta(delta)
    both = _two_sided(significance)
    rows = [_posterior_row(name, posterior, both, ANY_RATES) for name, posterior in posteriors]
    together = None
    if len(counts) > 1:
        with suppress(InputError):  # not all bases can be pooled
            together = pooled(counts)
    for estimator in FROM_COUNTS:
        low, high, shared, reason = math.nan, math.nan, None, ""
        try:
            if isinstance(estimator, OneRun | OneRunFdp):
                check_fair_coin(counts.trials_h1, counts.trials_h0)
            low, high = best_interval(estimator, counts, delta, both)
            if together is not None:
                shared = best_interval(estimator, together, delta, both)
        except InputError as error:
            reason = str(error)
        bounded = not isinstance(estimator, LowerEndOnly)
        about = ABOUT_ATTACK if bounded else ABOUT_ALGORITHM
        more = {"bounded_above": bounded, "pooled": shared, "reason": reason}
        rows.append(_row(estimator, about, low, high, **more))
    return Comparison(
        rows=tuple(rows),
        delta=delta,
        significance=significance,
        source=counted(len(counts), "challenge base"),
        several=len(counts) > 1,
        notes=tuple(
            _notes_of_counts(counts, posteriors=bool(posteriors), pooled_too=together is not None)
        ),
    )


def compare_scores(
    scores: CanaryScoreAuditor | Scores,
    *,
    delta: float,
    significance: float = 0.05,
    posteriors: Sequence[tuple[str, ProfilePosterior]] = (),
    one_run: bool | None = None,
) -> Comparison:
    """Compare every estimator from scores; bounds err with probability ``significance``.

    Several bases: the largest bound of any, with the error shared among the bases; their scores are
    never pooled.  Posteriors of the whole curve, with a name each, come first.

    Parameters
    ----------
    one_run
        Whether the scores are of canaries in one training run, which one-run bounds are about.  Unless
        given, those of a :class:`CanaryScoreAuditor` are, and :class:`Scores` say it of themselves.
    """
    auditors = [scores] if isinstance(scores, CanaryScoreAuditor) else _auditors(scores)
    if one_run is None:
        one_run = isinstance(scores, CanaryScoreAuditor) or scores.one_run
    shared = 0 if isinstance(scores, CanaryScoreAuditor) else scores.shared_models
    delta = _validate.delta(delta)
    both = _two_sided(significance)
    rows = [
        _posterior_row(name, posterior, both, _assumed(posterior)) for name, posterior in posteriors
    ]
    for estimator in FROM_SCORES:
        low, reason = math.nan, ""
        try:
            if estimator.one_run and not (one_run and len(auditors) == 1):
                raise InputError(NOT_ONE_RUN)
            low = best_scores(estimator, auditors, delta, significance)
        except InputError as error:
            reason = str(error)
        rows.append(_row(estimator, ABOUT_ALGORITHM, low, math.inf, reason=reason))
    return Comparison(
        rows=tuple(rows),
        delta=delta,
        significance=significance,
        source=_scores_in_words(auditors, one_run=one_run, shared=shared),
        several=len(auditors) > 1,
        notes=tuple(_notes_of_scores(auditors, delta, [each for _, each in posteriors])),
    )


def _auditors(scores: Scores) -> list[CanaryScoreAuditor]:
    """The scores of each base, canaries of several runs as if of one.

    Ranks stand for scores, which need not be finite.
    """
    bases = [scores.all_runs] if scores.one_run else scores.bases
    return [CanaryScoreAuditor(*_ranks(base)) for base in bases]


def _ranks(base: BaseScores) -> tuple[FloatArray, FloatArray]:
    """Scores with the point and without it, counted from the lowest."""
    rank = np.arange(len(base.value), 0, -1, dtype=float)
    return np.repeat(rank, base.ones), np.repeat(rank, base.zeros)


def _scores_in_words(auditors: Sequence[CanaryScoreAuditor], *, one_run: bool, shared: int) -> str:
    members = sum(each.num_in for each in auditors)
    others = sum(each.num_out for each in auditors)
    if one_run:
        return f"scores of {members:,} members and {others:,} others"
    if shared:
        return f"{counted(len(auditors), 'point')} that share {shared:,} models"
    models = f"{members:,} models with the point and {others:,} without it"
    return f"{counted(len(auditors), 'challenge base')}: scores of {models}"


def _row(estimator: Any, about: str, low: float, high: float, **more: Any) -> Row:
    return Row(
        label=estimator.label,
        kind=str(estimator.kind),
        about=ABOUT_GAUSSIAN if estimator.gaussian else about,
        assumes=estimator.assumes,
        low=low,
        high=high,
        **more,
    )


def _notes_of_scores(
    bases: Sequence[CanaryScoreAuditor], delta: float, posteriors: Sequence[ProfilePosterior]
) -> Iterator[str]:
    # Nothing is extrapolated where nothing leaks; so the one that reaches farthest.
    farthest = max(posteriors, key=lambda each: each.extrapolated_below_delta, default=None)
    if farthest is not None and delta < farthest.extrapolated_below_delta:
        models = round(1 / farthest.finest_rate)
        yield (
            "The whole curve: "
            + EXTRAPOLATION.format(below=farthest.extrapolated_below_delta, models=models)
        )
    low = sum(each.members_rank_low() for each in bases)
    if low:
        where = "" if len(bases) == 1 else f"In {low:,} of {len(bases):,} bases: "
        yield where + SCORES_REVERSED


def _notes_of_counts(counts: AttackCounts, *, posteriors: bool, pooled_too: bool) -> Iterator[str]:
    if posteriors:
        yield "Credible intervals never reach down to 0, whatever the data."
    if counts.measured is None:
        yield f"Counts of cross-fed models {DEPEND} then {TOO_SURE}"
    elif counts.measured.cross_fed:
        yield f"These are counts of cross-fed models, which {DEPEND} {TOO_SURE}"
    if len(counts) > 1 and not pooled_too:
        yield "Not pooled: bases differ in the ratio of trials_h0 to trials_h1."
    reversed_ = int(np.sum(counts.false_positive_rates + counts.false_negative_rates > 1))
    if reversed_:
        yield (
            f"In {reversed_:,} of {len(counts):,} bases the attack was wrong more often than guessing: "
            "are columns exchanged? Ratio and one-run bounds say nothing there; others read the "
            "decisions the other way round."
        )


def _two_sided(significance: float) -> float:
    """Error of an interval whose ends err with ``significance`` each."""
    if not check_significance(significance) < 0.5:
        raise InputError(f"expected significance < 0.5, got significance={significance}.")
    return 2 * significance


def _assumed(posterior: ProfilePosterior) -> str:
    """What the model of the whole curve takes for granted, in few words."""
    model = posterior.model
    families = list(dict.fromkeys(each.curves.family.name for each in model.components))
    rates = {each.curves.rate for each in model.components}
    curve = f"a curve of the family {' or '.join(families)}"
    if len(rates) > 1:
        curve += ", mixed or not"
    elif rates != {1.0}:
        curve += f", sampled at rate {rates.pop():g}"
    strength = model.strength.fixed_value
    if strength is None:
        power = "attacks of any strength"
    elif strength == 1:
        power = "that the attack is the best possible"
    else:
        power = f"that the attack has strength {strength:g}"
    return f"independent scores, higher for members; {curve}; {power}"


def _posterior_row(
    name: str, posterior: Posterior | ProfilePosterior, both: float, assumes: str
) -> Row:
    low, high = posterior.credible_interval("epsilon", 1 - both)
    return Row(
        label=name,
        kind=str(Kind.CREDIBLE),
        about=ABOUT_ALGORITHM,
        assumes=assumes,
        low=low,
        high=high,
        bounded_above=True,
        reason="" if posterior.trustworthy else "it did not reach its accuracy",
    )
