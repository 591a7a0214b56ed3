"""Compare alternative models on the same counts: their evidence, and the epsilon each one gives.

The evidence of a model is the marginal likelihood: the probability of the counts before they were seen,
averaged over the priors.  It does not show that any of them is right: the predictive check does.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsilometer._arrays import OnMessage
from epsilometer._display import Displayed
from epsilometer.checks.predictive import CHECK_SEED, SURPRISING, check_predictions
from epsilometer.checks.warnings import bases_with_extreme_counts
from epsilometer.engines.exact.engine import estimate_on, estimate_quickly, make_surface
from epsilometer.engines.exact.groups import Surface
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.errors import ContradictionError, InputError
from epsilometer.model import dependence
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import CorrelatedCells, IndependentBinomial
from epsilometer.model.models import CountModel
from epsilometer.model.priors import Beta, Fixed
from epsilometer.posteriors.posterior import CountPosterior

#: Fixed strengths to compare.
COMPARED_STRENGTHS = (0.0, 0.5, 0.9, 1.0)

#: Compared by default; both are probabilities, of independent and of dependent decisions.
USUAL_LIKELIHOODS = (IndependentBinomial, CorrelatedCells)

#: Dependences to compare, for groups.
COMPARED_DEPENDENCES = (
    dependence.IndependentRows(),
    dependence.ScatteredMembers(scatter=dependence.NormalScatter()),
    dependence.ScatteredMembers(scatter=dependence.UniformScatter()),
    dependence.PooledGroups(),
)

#: Most distinct counts that take seconds, by whether the likelihood is bounded.
MOST_DISTINCT = {True: 1000, False: 60}


#: Standard deviation in counts: a normal density summed over whole numbers is 1 within 1.5 % above.
NARROWEST_NORMAL = 0.5

#: Kass and Raftery, Bayes factors, J. Am. Stat. Assoc. 90 (1995), p. 777, who use 2 log B.
SCALE = ((1.0, "hardly any"), (3.0, "positive"), (5.0, "strong"), (math.inf, "very strong"))


@dataclass(frozen=True, kw_only=True, eq=False)
class AlternativeModel:
    """The counts under one model.

    Attributes
    ----------
    label, own
        A short description of the model; whether it is the reference that others are compared with.
    posterior
        The posterior from the exact engine; None if not available.
    log_bayes_factor
        Log evidence minus that of the reference model; None if not available or not comparable.
    probability
        Posterior probability of the model, if all comparable ones are equally likely a priori.
    smallest_p_value
        The smallest p-value of the predictive check.
    reason
        Why it is not available or not comparable, or a caveat; empty otherwise.
    """

    label: str
    model: CountModel
    own: bool = False
    posterior: CountPosterior | None = None
    log_bayes_factor: float | None = None
    probability: float | None = None
    smallest_p_value: float | None = None
    reason: str = ""

    @property
    def log_evidence(self) -> float | None:
        """The log evidence; None if it is not available."""
        return None if self.posterior is None else self.posterior.log_evidence

    @property
    def comparable(self) -> bool:
        """Whether its evidence can be compared with that of the reference model."""
        return self.log_bayes_factor is not None

    @property
    def interpretation(self) -> str:
        """The Bayes factor as text: how strong it is, and whether for or against the model."""
        if self.own:
            return "the model used"
        if self.log_bayes_factor is None:
            return "not comparable" if self.posterior is not None else "not available"
        return interpret_bayes_factor(self.log_bayes_factor)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ModelComparison(Displayed, view="checks.MODELS"):
    """Alternative models of the same counts; the reference model comes first."""

    assumptions: tuple[AlternativeModel, ...]

    @property
    def own(self) -> AlternativeModel:
        """The reference model."""
        return self.assumptions[0]

    @property
    def best(self) -> AlternativeModel:
        """The comparable model with the largest evidence."""
        known = [each for each in self.assumptions if each.comparable]
        return max(known, key=lambda each: each.log_bayes_factor or 0.0)

    def sentences(self) -> list[str]:
        """Conclusions as sentences, without overstating them."""
        best = self.best
        sentences = ["No alternative model has notably larger evidence than the model used."]
        if (best.log_bayes_factor or 0.0) > SCALE[0][0]:
            sentences = [
                f"The counts support this model most: {best.label} (log Bayes factor "
                f"{best.log_bayes_factor:.1f} against the model used; {best.interpretation})."
            ]
        found = [each.posterior for each in self.assumptions if each.posterior is not None]
        medians = [posterior.median("epsilon") for posterior in found]
        if len(medians) > 1:
            sentences.append(
                f"Across these models the median of epsilon ranges from {min(medians):.2f} to "
                f"{max(medians):.2f}."
            )
        if best.smallest_p_value is not None and best.smallest_p_value < SURPRISING:
            sentences.append(
                f"The best model need not fit well: counts like these are also unlikely under "
                f"{best.label} (p-value {best.smallest_p_value:.3f} of the predictive check)."
            )
        sentences.append(
            "Evidence depends on the priors; it is described on the scale of Kass and Raftery (1995). "
            "A fixed strength that fits better does not justify assuming it."
        )
        return sentences


def interpret_bayes_factor(log_bayes_factor: float) -> str:
    """Describe the strength and direction of a Bayes factor on the scale of Kass and Raftery (1995).

    Examples
    --------
    >>> interpret_bayes_factor(3.5), interpret_bayes_factor(-0.2)
    ('strong, for it', 'hardly any, against it')
    """
    size = next(word for limit, word in SCALE if abs(log_bayes_factor) <= limit)
    return f"{size}, {'for' if log_bayes_factor > 0 else 'against'} it"


def compare_models(
    subject: CountPosterior | AttackCounts,
    models: Mapping[str, CountModel] | None = None,
    *,
    quick: bool = False,
    on_message: OnMessage | None = None,
) -> ModelComparison:
    """Estimate from the same counts under several models and compare their evidence.

    Parameters
    ----------
    subject
        A posterior, whose model is the reference; or counts, together with ``models``.
    models
        The models to compare, by label; for counts the first is the reference.  Default: binomial or
        correlated counts, with the strength free or fixed at 0, 0.5, 0.9 and 1; for groups, also
        other kinds of dependence.
    quick
        Solve correlated models without refinement, which leaves errors of a few tenths in their log
        evidence and no error estimate.
    on_message
        Called with a line of text from time to time, for a progress display.

    Returns
    -------
    ModelComparison
        The evidence always comes from the exact engine, whichever engine made the posterior.

    Notes
    -----
    Evidence is a probability of integer counts, except for correlated counts as published, where it is
    a density at integers.  At unit spacing the two are comparable, unless most bases have counts of 0
    or N, where that density is unbounded, or counts that vary by less than half a count.  For pooled
    groups it is the evidence of sums, which is not comparable with any other.

    Examples
    --------
    >>> counts = AttackCounts(
    ...     false_positives=[10, 45], trials_h0=100, false_negatives=[20, 50], trials_h1=100
    ... )
    >>> models = {"free": CountModel(delta=0.01)}
    >>> models["held"] = CountModel(delta=0.01, strength=Fixed(value=0.9))
    >>> [each.interpretation for each in compare_models(counts, models).assumptions]
    ['the model used', 'very strong, against it']
    """
    if isinstance(subject, CountPosterior):
        counts, own = subject.counts, subject.model
        named = {label_of(own, counts): own}
        named |= dict(models) if models is not None else alternatives(own, counts)
        # Chains have no evidence: run the exact engine for their model as for the others.
        known = {label_of(own, counts): subject} if subject.log_evidence is not None else {}
    else:
        counts, known = subject, {}
        named = dict(models or {})
        if not isinstance(subject, AttackCounts) or not named:
            raise InputError("expected a posterior, or counts and the models to compare.")
    surfaces: dict[Any, Surface] = {}  # models share one per likelihood
    assumptions: list[AlternativeModel] = []
    reference: CountPosterior | None = None
    for label, model in named.items():
        if on_message is not None:
            on_message(label)
        if not isinstance(model, CountModel):
            raise InputError(f"expected a CountModel for {label!r}, got {type(model).__name__}.")
        try:
            posterior = known.get(label) or _estimated(counts, model, surfaces, quick, on_message)
        except (InputError, ContradictionError) as error:
            if not assumptions:
                raise
            assumptions.append(AlternativeModel(label=label, model=model, reason=str(error)))
        else:
            reference = posterior if reference is None else reference
            assumptions.append(_assumption(label, posterior, reference, quick=quick))
    return ModelComparison(assumptions=_with_probabilities(assumptions))


def _estimated(
    counts: AttackCounts,
    model: CountModel,
    surfaces: dict[Any, Surface],
    quick: bool,
    on_message: OnMessage | None,
) -> GridPosterior:
    """The posterior under a model from the exact engine, with its evidence."""
    grouped = model.scatters(counts)
    key = model.likelihood, model.dependence if grouped else None, model.delta
    if key not in surfaces:
        surfaces[key] = make_surface(counts, model)
    if quick and model.likelihood.parameters and not grouped:
        return estimate_quickly(counts, model, surfaces[key])
    posterior = estimate_on(surfaces[key], counts, model, on_message=on_message)
    if posterior.surface is not None:
        surfaces[key] = posterior.surface.first()
    return posterior


def is_quick(counts: AttackCounts, model: CountModel) -> bool:
    """Whether the exact engine takes seconds, so that it can run as a side computation."""
    return len(counts.distinct()[0]) <= MOST_DISTINCT[model.likelihood.bounded]


def alternatives(own: CountModel, counts: AttackCounts) -> dict[str, CountModel]:
    """The models to compare with by default, by label."""
    models = []
    for kind in USUAL_LIKELIHOODS:
        with suppress(InputError):
            kind().check(counts)
            if kind().name != own.likelihood.name:
                models.append(replace(own, likelihood=kind()))
    if own.strength.fixed_value is not None:
        models.append(replace(own, strength=Beta()))
    models += [replace(own, strength=Fixed(value=value)) for value in COMPARED_STRENGTHS]
    if counts.dependent:
        models += [replace(own, dependence=dependence) for dependence in COMPARED_DEPENDENCES]
    return {label_of(model, counts): model for model in models if model != own}


def label_of(model: CountModel, counts: AttackCounts) -> str:
    """A short label: likelihood, strength and, for groups, their dependence."""
    held = model.strength.fixed_value
    parts = [model.likelihood.name]
    parts.append("strength free" if held is None else f"strength {held:g}")
    if counts.dependent:
        parts.append(model.dependence.label)
    return ", ".join(parts)


def _assumption(
    label: str, posterior: CountPosterior, reference: CountPosterior, *, quick: bool
) -> AlternativeModel:
    why_not = _not_comparable(reference, posterior)
    unfinished = quick and bool(posterior.model.likelihood.parameters)
    missed = not posterior.trustworthy and not unfinished
    assert reference.log_evidence is not None
    assert posterior.log_evidence is not None
    check = check_predictions(posterior, rng=np.random.default_rng(CHECK_SEED))
    return AlternativeModel(
        label=label,
        model=posterior.model,
        own=posterior is reference,
        posterior=posterior,
        log_bayes_factor=None if why_not else posterior.log_evidence - reference.log_evidence,
        smallest_p_value=min(item.p_value for item in check.statistics),
        reason=why_not or ("the exact engine did not reach its accuracy" if missed else ""),
    )


def _not_comparable(reference: CountPosterior, posterior: CountPosterior) -> str:
    """Why the evidence of a model is not comparable with the reference; empty if it is."""
    counts, models = posterior.counts, (reference.model, posterior.model)
    pooled = [counts.dependent and model.dependence.sums_only for model in models]
    if pooled[0] != pooled[1]:
        return "the evidence of pooled groups is of their sums, not of their members"
    bounded = [model.likelihood.bounded for model in models]
    if bounded[0] == bounded[1]:
        return ""
    normal = reference if bounded[1] else posterior
    if 2 * bases_with_extreme_counts(counts) > len(counts):
        return (
            "most bases have a count of 0 or of all trials, where the published density of "
            "correlated counts is unbounded"
        )
    if 2 * _narrow_bases(normal) > len(counts):
        return "most bases have counts that vary by less than half a count"
    return ""


def _narrow_bases(posterior: CountPosterior) -> int:
    """Number of bases with a count whose standard deviation is below half a count."""
    counts, tau = posterior.counts, posterior.mean("within_correlation")
    narrow = np.zeros(len(counts), dtype=bool)
    for errors, trials in counts.by_hypothesis:
        rate = (errors + 0.5) / (trials + 1)
        variance = trials * rate * (1 - rate) * np.maximum(1 + (trials - 1) * tau, 0.0)
        narrow |= variance < NARROWEST_NORMAL**2
    return int(narrow.sum())


def _with_probabilities(assumptions: list[AlternativeModel]) -> tuple[AlternativeModel, ...]:
    """Add the probabilities of the comparable models, equally likely a priori."""
    known = (assumption.log_bayes_factor for assumption in assumptions)
    factors = [factor for factor in known if factor is not None]
    total = float(np.logaddexp.reduce(factors))
    return tuple(
        assumption
        if assumption.log_bayes_factor is None
        else replace(assumption, probability=math.exp(assumption.log_bayes_factor - total))
        for assumption in assumptions
    )
