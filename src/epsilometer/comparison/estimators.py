"""Compare every estimator on the same data, each with its assumptions."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer._display import Plotted
from epsilometer._text import counted, plain
from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES, best_scores
from epsilometer.baselines.estimator import (
    CountEstimator,
    Kind,
    LowerEndOnly,
    best_interval,
    check_significance,
    pooled,
)
from epsilometer.baselines.one_run import OneRunBound, OneRunFdpBound, check_fair_coin
from epsilometer.engines.curve.over_delta import EXTRAPOLATION
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.estimate import estimate
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel, CurveModel
from epsilometer.model.scores import Scores
from epsilometer.model.strengths import FixedStrength
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.proofs.canaries import auditor_of
from epsilometer.proofs.proof import prove

PROVEN = "proven by betting"
ABOUT_ALGORITHM = "the algorithm's epsilon"
ABOUT_ATTACK = "the strongest attack's epsilon (its lower end bounds the algorithm's)"
ABOUT_GAUSSIAN = (
    "epsilon of the most private Gaussian mechanism that allows these error rates, not of the "
    "algorithm unless it is one"
)
ANY_RATES = (
    "attacks with any error rates between their strength and the algorithm's limit; none has to be "
    "the best possible"
)
DEPEND = "depend on each other; rows that assume independent trials are"
TOO_SURE = "overconfident (`epsilometer selftest LOSSES` measures by how much)."
NOT_ONE_RUN = (
    "expected canaries of one training run, each included by a fair coin flip, got scores of "
    "separately trained models or of several bases."
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Result of one estimator; infinite if it has no upper end, NaN if it does not apply."""

    label: str
    kind: str
    assumes: str
    low: float
    high: float = math.inf
    about: str = ABOUT_ALGORITHM
    #: Whether this kind of estimator has an upper end, finite or infinite.
    bounded_above: bool = False
    pooled: tuple[float, float] | None = None
    #: Why the estimator does not apply; empty if it does.
    reason: str = ""

    @property
    def applies(self) -> bool:
        return not self.reason

    def described(self) -> dict[str, Any]:
        """The row as plain values for JSON, which has no infinity."""
        names = {"estimator": "label", "kind": "kind", "about": "about", "assumes": "assumes"}
        names |= {"lower": "low", "upper": "high", "has_upper": "bounded_above"}
        fields = {key: getattr(self, name) for key, name in names.items()}
        if self.pooled is not None:
            fields |= {"pooled_lower": self.pooled[0], "pooled_upper": self.pooled[1]}
        if self.reason:
            fields["does_not_apply"] = self.reason
        return dict(plain(fields))


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Plotted, view="results.COMPARISON"):
    """Results of all estimators, and the data they were computed from."""

    rows: tuple[Row, ...]
    delta: float
    significance: float
    source: str
    #: Whether there were several challenge bases.
    several: bool
    #: Caveats about these data.
    notes: tuple[str, ...] = ()


#: Posteriors, each with its name.
Named = Sequence[tuple[str, Any]]


def posteriors_of(
    data: Scores | AttackCounts,
    model: CountModel | CurveModel,
    *,
    known: Any = None,
    on_message: OnMessage | None = None,
) -> Named:
    """The posterior of the model, ``known`` or estimated, and of scores also with strength 1."""
    found = estimate(data, model, on_message=on_message) if known is None else known
    fixed = model.strength.fixed_value
    strength = "" if fixed is None else f", strength {fixed:g}"
    if isinstance(model, CountModel):
        return [(f"Epsilometer, {model.likelihood.name}{strength}", found)]
    named = [(f"Epsilometer, curve model{strength}", found)]
    if fixed != 1:
        other = estimate(data, replace(model, strength=FixedStrength()), on_message=on_message)
        named.append(("Epsilometer, curve model, strength 1", other))
    return named


def compare(
    data: Scores | AttackCounts,
    *,
    delta: float,
    significance: float = 0.05,
    posteriors: Named = (),
    independent: bool = True,
) -> Comparison:
    """Compare every estimator that uses scores, or counts; ends have error probability ``significance``.

    With several bases, a row has the largest ends, with the error divided among the bases.  Counts are
    also pooled; scores of different bases never are.  Posteriors come first; they model all bases
    jointly.
    """
    delta = _validate.delta(delta)
    if not check_significance(significance) < 0.5:
        raise InputError(f"expected significance < 0.5, got significance={significance}.")
    both = 2 * significance  # of an interval, at its two ends
    rows = [_posterior_row(name, posterior, both) for name, posterior in posteriors]
    rows.append(_proven_row(data, delta, significance, independent=independent))
    if isinstance(data, AttackCounts):
        wanted = [data]
        if len(data) > 1:
            with suppress(InputError):  # not all bases can be pooled
                wanted.append(pooled(data))
        rows += [_of_counts(estimator, wanted, delta, both) for estimator in FROM_COUNTS]
        source, several = counted(len(data), "challenge base"), len(data) > 1
        notes = _notes_of_counts(data, posteriors=bool(posteriors), pooled_too=len(wanted) > 1)
    else:
        # Canaries of several runs are combined.
        auditors = [auditor_of(b) for b in ([data.all_runs] if data.one_run else data.bases)]
        one_run = data.one_run and len(auditors) == 1
        for estimator in FROM_SCORES:
            low, reason = math.nan, NOT_ONE_RUN
            if one_run or not estimator.one_run:
                low, reason = _tried(best_scores, estimator, auditors, delta, significance)
            rows.append(_row(estimator, ABOUT_ALGORITHM, low=low, reason=reason))
        source, several = _scores_in_words(data), len(auditors) > 1
        notes = _notes_of_scores(data, delta, [posterior for _, posterior in posteriors])
    return Comparison(
        rows=tuple(rows),
        delta=delta,
        significance=significance,
        source=source,
        several=several,
        notes=tuple(notes),
    )


def _of_counts(
    estimator: CountEstimator, wanted: Sequence[AttackCounts], delta: float, both: float
) -> Row:
    """The row of counts, and of the same pooled where they can be."""

    def intervals() -> list[tuple[float, float]]:
        if isinstance(estimator, OneRunBound | OneRunFdpBound):
            check_fair_coin(wanted[0].trials_h1, wanted[0].trials_h0)
        return [best_interval(estimator, each, delta, both) for each in wanted]

    found, reason = _tried(intervals, missing=[(math.nan, math.nan)])
    bounded = not isinstance(estimator, LowerEndOnly)
    about = ABOUT_ATTACK if bounded else ABOUT_ALGORITHM
    (low, high), *shared = found
    more: Any = {"bounded_above": bounded, "pooled": shared[0] if shared else None}
    return _row(estimator, about, low=low, high=high, reason=reason, **more)


def _tried(compute: Callable[..., Any], *given: Any, missing: Any = math.nan) -> tuple[Any, str]:
    """What is computed and no reason, or what is missing and why it does not apply."""
    try:
        return compute(*given), ""
    except InputError as error:
        return missing, str(error)


def _scores_in_words(scores: Scores) -> str:
    members, others = int(scores.trials_h1.sum()), int(scores.trials_h0.sum())
    if scores.one_run:
        return f"scores of {members:,} members and {others:,} non-members"
    if scores.models is not None:
        return f"{counted(len(scores), 'point')} that share {scores.shared_models:,} models"
    models = f"{members:,} models with the point and {others:,} without it"
    return f"{counted(len(scores), 'challenge base')}: scores of {models}"


def _row(estimator: Any, about: str, **more: Any) -> Row:
    return Row(
        label=estimator.label,
        kind=str(estimator.kind),
        about=ABOUT_GAUSSIAN if estimator.gaussian else about,
        assumes=estimator.assumes,
        **more,
    )


def _notes_of_scores(
    scores: Scores, delta: float, posteriors: Sequence[CurvePosterior]
) -> Iterator[str]:
    # Nothing is extrapolated if nothing leaks, so take the posterior with the largest limit.
    farthest = max(
        posteriors, key=lambda posterior: posterior.extrapolated_below_delta, default=None
    )
    if farthest is not None and delta < farthest.extrapolated_below_delta:
        models = round(1 / farthest.finest_rate)
        yield (
            "Curve model: "
            + EXTRAPOLATION.format(below=farthest.extrapolated_below_delta, models=models)
        )
    yield from scores.flaws


def _notes_of_counts(counts: AttackCounts, *, posteriors: bool, pooled_too: bool) -> Iterator[str]:
    if posteriors:
        yield "Credible intervals never reach 0, for any data."
    if counts.measured is None:
        yield f"Counts of cross-fed models {DEPEND} then {TOO_SURE}"
    elif counts.measured.cross_fed:
        yield f"These are counts of cross-fed models, which {DEPEND} {TOO_SURE}"
    if len(counts) > 1 and not pooled_too:
        yield "Counts were not pooled: bases differ in the ratio of trials_h0 to trials_h1."
    reversed_ = int(np.sum(counts.false_positive_rates + counts.false_negative_rates > 1))
    if reversed_:
        yield (
            f"In {reversed_:,} of {len(counts):,} bases the attack was wrong more often than guessing: "
            "are columns exchanged? Ratio and one-run bounds are 0 there; the others invert the "
            "decisions."
        )


def _assumed(model: CountModel | CurveModel) -> str:
    """Assumptions of a model in a few words."""
    if isinstance(model, CountModel):
        return ANY_RATES
    families = model.used
    rates = {component.curves.rate for component in model.components}
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


def _proven_row(
    data: Scores | AttackCounts, delta: float, significance: float, *, independent: bool
) -> Row:
    """What the same data prove; the bound of ``em.prove``."""
    compute = partial(prove, data, delta=delta, error=significance, independent=independent)
    proof, reason = _tried(compute, missing=None)
    return Row(
        label=PROVEN,
        kind=str(Kind.EXACT_BOUND),
        assumes="what `epsilometer prove` states" if proof is None else proof.assumes,
        low=math.nan if proof is None else proof.at_least,
        reason=reason,
    )


def _posterior_row(name: str, posterior: CountPosterior | CurvePosterior, both: float) -> Row:
    low, high = posterior.credible_interval("epsilon", 1 - both)
    return Row(
        label=name,
        kind=str(Kind.CREDIBLE),
        assumes=_assumed(posterior.model),
        low=low,
        high=high,
        bounded_above=True,
        reason="" if posterior.accurate else "it did not reach its tolerance",
    )
