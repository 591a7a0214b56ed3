"""What scores are of, in words: models of challenge bases, canaries of runs, points of a pool."""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.inference.profile.result import ProfileResult
from epsilometer.model.profile import INDEPENDENT_MODELS
from epsilometer.model.scores import Scores
from epsilometer.report.text import counted


@dataclass(frozen=True, kw_only=True)
class Units:
    """Words for bases and for what is scored in them."""

    base: str
    whole_base: str
    about: str
    scored: str
    without: str
    with_point: str
    shown: str
    worst: str
    worst_shows: str
    about_shown: str
    section: str
    note: str
    one_cannot_tell: str

    def bases(self, count: int) -> str:
        """So many bases."""
        return counted(count, self.whole_base)


MODELS = Units(
    base="base",
    whole_base="challenge base",
    about="record",
    scored="models",
    without="models without the point",
    with_point="models with the point",
    shown="shown (worst base)",
    worst="worst base",
    worst_shows="the worst base shows",
    about_shown="Shown: epsilon of the worst base, as far as these attacks reveal it.",
    section="Which records leak",
    note=(
        "A base's epsilon is what the attack on it saw: a record that leaks little here may leak more "
        "to a better attack. With the point and without it, models are counted apart."
    ),
    one_cannot_tell="one base cannot tell a weak attack from privacy",
)

CANARIES = Units(
    base="run",
    whole_base="training run",
    about="canaries",
    scored="canaries",
    without="canaries left out of training",
    with_point="canaries trained on",
    shown="shown (by canaries)",
    worst="run that shows most",
    worst_shows="its canaries show",
    about_shown="Shown: what the canaries reveal, in the run that shows most.",
    section="What each run shows",
    note=(
        "A run's epsilon is what its canaries reveal: other records may leak more, and so may these to "
        "a better score. Canaries that were trained on and those left out are counted apart."
    ),
    one_cannot_tell="one run cannot tell a weak canary from privacy",
)


POINTS = Units(
    base="point",
    whole_base="point",
    about="record",
    scored="models",
    without="models without the point",
    with_point="models with the point",
    shown="shown (worst point)",
    worst="worst point",
    worst_shows="the worst point shows",
    about_shown="Shown: epsilon of the worst point, as far as these attacks reveal it.",
    section="Which points leak",
    note=(
        "A point's epsilon is what the attack on it saw: a point that leaks little here may leak more "
        "to a better attack. All points were scored under the same models; those with the point and "
        "those without it are counted apart."
    ),
    one_cannot_tell="one point cannot tell a weak attack from privacy",
)


def units_of(scores: Scores) -> Units:
    """The words for these scores."""
    if scores.one_run:
        return CANARIES
    return MODELS if scores.models is None else POINTS


SHARED_ESTIMATE = (
    "Points share models; the estimate treats them as independent, so its interval can be too narrow "
    "(the calibration study has its coverage). What is proven does not assume it."
)

ONE_RUN = (
    "Each canary was put in by a fair coin of its own, and only the order of scores is used.",
    "Scores of canaries are taken as independent. Canaries of a run share one model and may disturb "
    "each other; the interval can then be too narrow. What is proven does not assume it: it holds "
    "however canaries depend on each other.",
    "Only these canaries were looked at. One run cannot say how much other records leak, nor tell a "
    "weak canary from privacy.",
)
"""What one run can say and cannot."""


ONE_RUN_SHORT = (
    "says how much these canaries leak, not how much other records do. The estimate takes canaries as "
    "independent; what is proven holds however they depend on each other."
)


SHARED_MODELS = (
    "Models were trained on random parts of one pool of records, so points share models; only the order "
    "of each point's scores is used.",
    SHARED_ESTIMATE,
)
"""What is assumed of points that share models."""


def assumptions(result: ProfileResult) -> list[str]:
    """What the answer rests on, a sentence each."""
    found = result.model.sentences
    own: tuple[str, ...]
    if result.scores.one_run:
        own = ONE_RUN
    elif result.scores.models is not None:
        own = SHARED_MODELS
    else:
        return found
    return [*own, *(sentence for sentence in found if sentence != INDEPENDENT_MODELS)]
