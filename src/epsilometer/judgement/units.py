"""Words for the kind of scores: models of challenge bases, canaries of runs, points of a pool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epsilometer._text import counted
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import INDEPENDENT_MODELS
from epsilometer.model.scores import Scores

if TYPE_CHECKING:
    from epsilometer.judgement.curve_result import CurveResult


@dataclass(frozen=True, kw_only=True)
class Units:
    """Words for a base and for the things that are scored in it."""

    base: str
    whole_base: str
    scored: str
    without: str
    with_point: str
    shown: str
    worst: str
    about_shown: str
    section: str
    note: str
    one_cannot_tell: str

    def bases(self, count: int) -> str:
        """The number of bases with its noun."""
        return counted(count, self.whole_base)


def _scored_by_models(base: str, whole_base: str, *, section: str, note: str) -> Units:
    """Words for scores of models, without and with the point."""
    return Units(
        base=base,
        whole_base=whole_base,
        scored="models",
        without="models without the point",
        with_point="models with the point",
        shown=f"shown (worst {base})",
        worst=f"worst {base}",
        about_shown=(
            f"Shown: what the curve of the {base} that leaks most shows at error rates that were seen."
        ),
        section=section,
        note=note,
        one_cannot_tell=f"one {base} cannot distinguish a weak attack from privacy",
    )


MODELS = _scored_by_models(
    "base",
    "challenge base",
    section="Which records leak",
    note=(
        "A base's epsilon is what the attack on it revealed: a record that leaks little here may leak "
        "more to a better attack. Models without and with the point are counted separately."
    ),
)

POINTS = _scored_by_models(
    "point",
    "point",
    section="Which points leak",
    note=(
        "A point's epsilon is what the attack on it revealed: a point that leaks little here may leak "
        "more to a better attack. All points were scored under the same models; models without and "
        "with the point are counted separately."
    ),
)

CANARIES = Units(
    base="run",
    whole_base="training run",
    scored="canaries",
    without="canaries left out of training",
    with_point="canaries included in training",
    shown="shown (by canaries)",
    worst="run that shows most",
    about_shown="Shown: what the curve of the canaries shows at error rates that were seen, in the "
    "run that shows most.",
    section="What each run shows",
    note=(
        "A run's epsilon is what its canaries reveal: other records may leak more, and a better score "
        "may reveal more. Canaries left out and canaries included are counted separately."
    ),
    one_cannot_tell="one run cannot distinguish a weak canary from privacy",
)


def units_of(data: Scores | AttackCounts) -> Units:
    """The words for these scores, or for counts."""
    if isinstance(data, Scores) and data.one_run:
        return CANARIES
    return MODELS if isinstance(data, AttackCounts) or data.models is None else POINTS


def more(data: Scores | AttackCounts, times: float) -> str:
    """The advice to measure so many times as much of every base; about, unless ``times`` is whole."""
    units, now = units_of(data), int((data.trials_h0 + data.trials_h1).max())
    digit = 10 ** max(len(str(math.ceil(times * now))) - 2, 0) if times % 1 else 1
    wanted = digit * math.ceil(times * now / digit)
    verb = "use" if units is CANARIES else "train"
    return f"{verb} more {units.scored} per {units.base} ({wanted:,} instead of {now:,})"


SHARED_ESTIMATE = (
    "Points share models; the estimate treats them as independent, so its interval can be too narrow "
    "(the calibration study reports its coverage). The proof does not assume independence."
)

#: Assumptions and limits of one run.
ONE_RUN = (
    "Each canary was included by its own fair coin flip, and only the order of the scores is used.",
    "Canary scores are treated as independent. Canaries of a run share one model and may interfere "
    "with each other; the interval can then be too narrow. The proof does not assume independence: it "
    "holds for any dependence between canaries.",
    "Only these canaries were scored. One run cannot tell how much other records leak, nor distinguish "
    "a weak canary from privacy.",
)


ONE_RUN_SHORT = (
    "measures how much these canaries leak, not how much other records do. The estimate treats canaries "
    "as independent; the proof holds for any dependence between them."
)


#: Assumptions for points that share models.
SHARED_MODELS = (
    "Models were trained on random subsets of one pool of records, so points share models; only the "
    "order of each point's scores is used.",
    SHARED_ESTIMATE,
)


def assumptions(result: CurveResult) -> list[str]:
    """The assumptions of the estimate, one sentence each."""
    sentences: list[str] = result.model.sentences
    replacements: tuple[str, ...]
    if result.scores.one_run:
        replacements = ONE_RUN
    elif result.scores.models is not None:
        replacements = SHARED_MODELS
    else:
        return sentences
    return [*replacements, *(sentence for sentence in sentences if sentence != INDEPENDENT_MODELS)]
