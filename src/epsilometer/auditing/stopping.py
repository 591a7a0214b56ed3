"""Audits that stop by themselves: their goals, their interim analyses, and the description of the end.

The configuration fixes the order of bases and the sizes of the interim analyses, and every model has its
own random stream, so an audit that is interrupted and continued stops at the same base.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.proofs.proof import prove


class InterimAnalysis(NamedTuple):
    """The width of the interval, or the e-value, after a number of bases."""

    bases: int
    value: float
    reached: bool


#: The scores of all variants, or their posteriors; called only where they are needed.
Data = Callable[[], Sequence[Any]]


@dataclass(frozen=True, kw_only=True)
class UntilWidth:
    """Stop as soon as the interval of every variant is at most ``wanted`` wide."""

    wanted: float
    level: float

    # With fewer bases the interval is hardly ever narrow, and then by chance.
    first_size = 5

    def analyse(self, bases: int, scores: Data, answers: Data) -> InterimAnalysis:
        answered = answers()
        ends = [answer.credible_interval("epsilon", self.level) for answer in answered]
        width = max(high - low for low, high in ends)
        # An interval that did not reach its accuracy is no reason to stop.
        reached = width <= self.wanted and all(answer.accurate for answer in answered)
        return InterimAnalysis(bases, width, reached)

    def progress(self, now: InterimAnalysis) -> str:
        return f"width {now.value:.3g}, goal {self.wanted:g}"

    def outcome(self, last: InterimAnalysis) -> str:
        interval = f"the {100 * self.level:g} % interval"
        if last.reached:
            return f"{interval} is {last.value:.3g} wide (goal: at most {self.wanted:g})"
        return (
            f"{interval} is still {last.value:.3g} wide (goal: at most {self.wanted:g}); "
            "`epsilometer plan --pilot` or em.plan estimates how many more are needed"
        )

    why_valid = (
        "Credible intervals are not affected by interim analyses, which depend on the data only. The "
        "proof is anytime-valid; other bounds would need a correction for each analysis."
    )

    value_name = "width"

    @property
    def facts(self) -> dict[str, float]:
        return {"wanted_width": self.wanted, "level": self.level}


@dataclass(frozen=True, kw_only=True)
class UntilProven:
    """Stop as soon as the claim is refuted for every variant; the fields are arguments of `prove`."""

    claim: float
    delta: float
    error: float
    independent: bool = True

    first_size = 1

    def analyse(self, bases: int, scores: Data, answers: Data) -> InterimAnalysis:
        proofs = [prove(variant, **vars(self)) for variant in scores()]
        e_value = min(proof.e_value or 0.0 for proof in proofs)
        # A proof that is valid for one planned analysis only is no reason to stop.
        reached = all(proof.refuted and proof.any_time for proof in proofs)
        return InterimAnalysis(bases, e_value, reached)

    def progress(self, now: InterimAnalysis) -> str:
        return f"e-value {now.value:.3g} against the claim, refuted from {1 / self.error:g}"

    def outcome(self, last: InterimAnalysis) -> str:
        return f"the claim of {self.claim:g} is {'' if last.reached else 'not '}refuted"

    @property
    def why_valid(self) -> str:
        return (
            f"The proof is anytime-valid: its error probability is at most {100 * self.error:g} % "
            "whenever the audit stops. Interim analyses do not affect the posterior either."
        )

    value_name = "e_value"

    @property
    def facts(self) -> dict[str, float]:
        return {"claim": self.claim, "error": self.error}


#: Analyses all variants after a number of bases, and says in words how far it is and how it ended.
Goal = UntilWidth | UntilProven


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """The end of an audit."""

    goal: Goal
    analyses: tuple[InterimAnalysis, ...]
    most_bases: int

    @property
    def sentence(self) -> str:
        """How it ended, the number of interim analyses, and why they are valid."""
        last, goal = self.analyses[-1], self.goal
        count = len(self.analyses)
        times = "once" if count == 1 else f"{count} times"
        end = f"All {last.bases:,} challenge bases were used and"
        if last.reached:
            end = f"Stopped after {last.bases:,} of {self.most_bases:,} challenge bases:"
        return f"{end} {goal.outcome(last)}. The data were analysed {times}. {goal.why_valid}"

    def described(self) -> dict[str, Any]:
        """Plain values for the summary."""
        last, name = self.analyses[-1], self.goal.value_name
        return self.goal.facts | {
            "looks": [{"bases": each.bases, name: each.value} for each in self.analyses],
            "reached": last.reached,
            "bases_used": last.bases,
            "most_bases": self.most_bases,
            "sentence": self.sentence,
        }


def interim_sizes(most: int, first: int = UntilWidth.first_size) -> Iterator[int]:
    """Numbers of bases at interim analyses: about a quarter more each time, up to ``most``.

    Examples
    --------
    >>> list(interim_sizes(20))
    [5, 7, 9, 12, 15, 19, 20]
    """
    size = min(first, most)
    while size < most:
        yield size
        # A quarter more narrows the interval by about a tenth; fewer would make no difference.
        size = max(size + 2, math.ceil(1.25 * size))
    yield most


NOTHING_TO_REFUTE = (
    "the training promises nothing, so there is nothing to refute: the audit does not stop early."
)


def goal_of(
    config: Any, question: Any, *, until_width: float | None, until_proven: bool
) -> Goal | None:
    """The goal at which an audit stops, if any."""
    if until_width is None and not until_proven:
        return None
    if until_width is not None and until_proven:
        raise InputError("`until_width=` and `until_proven=` both stop the audit; choose one.")
    if config.model is None:
        raise InputError(
            "`until_width=` and `until_proven=` are for many models: proofs from canaries and pools are "
            "valid for one planned analysis, so fix the number of runs or models in advance."
        )
    if until_width is not None:
        wanted = _validate.positive("until_width", until_width)
        return UntilWidth(wanted=wanted, level=question.level)
    if config.claim is None:
        raise InputError("`until_proven=` needs a claimed epsilon: `claim=`.")
    if not math.isfinite(config.claim.epsilon):
        config.say(NOTHING_TO_REFUTE)
        return None
    for beyond in replace(config, deltas=(config.delta,)).beyond_reach(question):
        raise InputError(f"`until_proven=` would never stop this audit. {beyond}")
    return UntilProven(
        claim=config.claim.epsilon,
        delta=config.delta,
        error=question.error,
        independent=question.independent,
    )
