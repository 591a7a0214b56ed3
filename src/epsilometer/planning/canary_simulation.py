"""Simulated audits with canaries: scores of a known curve, the whole-curve posterior, the proof.

Each simulation has its own random stream, derived from the seed and its number, and the first canaries
of a run do not depend on the number of canaries: sizes are compared on the same random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.families import Gaussian
from epsilometer.model.family import Family
from epsilometer.model.mixtures import Curves
from epsilometer.model.scores import Scores
from epsilometer.planning.goals import Answer
from epsilometer.planning.simulation import stream

MOST_EXACT, MOST_COUNTED = 5_000, 50_000
"""Most canaries for which every score, and every curve of the model, is used.  Beyond, scores are counts
between fixed ranks, and curves that fewer canaries refute are left out."""

BLOCKS = 64
"""Blocks of ranks that become counts; they change the width of an interval by less than 1 %, which is
tested."""

RARE = 1e-6
"""Probability below which curves are left out of larger audits, which refute them even more."""


@dataclass(frozen=True, kw_only=True)
class AssumedCurve:
    """Ideal canaries with a known trade-off curve.

    Parameters
    ----------
    epsilon
        The true epsilon at the delta of the audit, above 0.
    family
        Family of the true curve, with continuous scores; default ``Gaussian()``.
    strength
        Share of the algorithm's leak that the canaries show, in (0, 1]; 1 is the best possible.

    Examples
    --------
    >>> round(AssumedCurve(epsilon=4.377178).leak(1e-5), 4)
    1.0
    """

    epsilon: float
    family: Family = field(default_factory=Gaussian)
    strength: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        if not _validate.unit_interval("strength", self.strength) > 0:
            raise InputError(
                f"expected 0 < strength <= 1 of canaries, got strength={self.strength}."
            )
        if not hasattr(self.family, "scores_at") or self.family.pieces:
            raise InputError(
                "expected a family of continuous scores, such as Gaussian() or "
                f"LaplaceCurves(), got family={self.family!r}."
            )

    def leak(self, delta: float) -> float:
        """The leak of the canaries' scores."""
        if delta == 0 and not np.isfinite(self.family.epsilon(1.0, 0.0)):
            raise InputError(f"expected delta > 0: a {self.family.name} curve has no epsilon at 0.")
        return self.strength * float(self.family.leak_of(self.epsilon, delta))

    def described(self) -> dict[str, object]:
        """The assumptions as plain values."""
        return {
            "epsilon": self.epsilon,
            "family": self.family.name,
            "strength": self.strength,
        }


class CanaryAnswer(NamedTuple):
    """The posterior of a simulated audit in numbers, and its proof."""

    answer: Answer
    proven: float


@dataclass(kw_only=True, eq=False)
class Canaries:
    """The settings of all simulations of a plan."""

    model: CurveModel
    truth: AssumedCurve
    runs: int
    level: float
    claim: float | None
    error: float
    seed: int
    _left: dict[int, CurveModel] = field(default_factory=dict)

    def draw(self, canaries: int, number: int) -> list[FloatPair]:
        """For each run of a simulated audit, the scores of canaries that are out and in."""
        half = canaries // (2 * self.runs)
        leak, family = self.truth.leak(self.model.delta), self.truth.family

        def side(run: int, inside: bool) -> FloatArray:
            rng = stream(self.seed, number, 2 * run + inside)
            return family.sample(leak, np.full(half, inside), rng=rng)

        return [(side(run, False), side(run, True)) for run in range(self.runs)]

    def proven(self, canaries: int, number: int) -> float:
        """The proven epsilon of a simulated audit."""
        return self._proven(self.draw(canaries, number))

    def _proven(self, drawn: list[FloatPair]) -> float:
        # As in `prove` for canaries: all runs together.
        outside, inside = (np.concatenate(side) for side in zip(*drawn, strict=True))
        auditor = CanaryScoreAuditor(inside, outside)
        return auditor.epsilon_one_run_fdp(self.error, self.model.delta)

    def simulate(self, canaries: int, number: int) -> CanaryAnswer:
        """One simulated audit."""
        drawn = self.draw(canaries, number)
        # The lowest resolution: its error is far smaller than the variation between audits.
        posterior = CurveSettings().estimate_quickly(*self._seen(drawn, canaries))
        low, high = posterior.credible_interval("epsilon", self.level)
        above = np.nan
        if self.claim is not None:
            above = posterior.probability_above("epsilon", self.claim)
        return CanaryAnswer(Answer(low, high, above), self._proven(drawn))

    def _seen(self, drawn: list[FloatPair], canaries: int) -> tuple[Scores, CurveModel]:
        """The input of the engine: many scores as counts, and the curves that are not refuted."""
        model = self._model(canaries)
        scores = Scores(
            without=[pair[0] for pair in drawn],
            with_point=[pair[1] for pair in drawn],
            one_run=True,
        )
        if canaries > MOST_EXACT and not any(family.pieces for family in model.families):
            # Piecewise curves are faster score by score.
            scores = scores.with_bases(counted(base) for base in scores.bases)
        return scores, model

    def _model(self, canaries: int) -> CurveModel:
        """The curves that smaller audits leave."""
        size = next((limit for limit in (MOST_COUNTED, MOST_EXACT) if canaries > limit), None)
        if size is None:
            return self.model
        if size not in self._left:
            fitting = 2 * self.runs * -(-size // (2 * self.runs))
            self._left[size] = left_of(*self._seen(self.draw(min(fitting, size), 0), size))
        return self._left[size]


@dataclass(frozen=True, kw_only=True)
class KeptCurves:
    """Of what a model assumes of mixtures, the curves that data have left, with their prior weights."""

    mixing: Any
    kept: frozenset[tuple[str, float]]
    name = "kept"
    words = ""

    def curves(self, family: Family) -> list[tuple[Curves, float]]:
        """The curves around a family that are left."""
        return [
            (curves, weight)
            for curves, weight in self.mixing.curves(family)
            if (family.name, curves.rate) in self.kept
        ]


def left_of(scores: Scores, model: CurveModel) -> CurveModel:
    """The model without curves that such scores refute."""
    posterior = CurveSettings().estimate_quickly(scores, model)
    kept = frozenset(
        (share.family, share.mixing) for share in posterior.families if share.probability >= RARE
    )
    left: Any = KeptCurves(mixing=model.mixing, kept=kept)
    families = tuple(family for family in model.families if left.curves(family))
    return replace(model, families=families, mixing=left) if families else model


def counted(base: BaseScores, blocks: int = BLOCKS) -> BaseScores:
    """Scores as counts between ranks fixed beforehand, which are closer where scores are extreme."""
    size = np.cumsum(base.zeros + base.ones)
    places = np.sin(np.linspace(0, np.pi / 2, blocks + 1)[1:]) ** 2 * size[-1]
    ends = np.unique(np.append(np.searchsorted(size, places[:-1]), len(size) - 1))
    zeros, ones = (
        np.diff(np.cumsum(counts)[ends], prepend=0) for counts in (base.zeros, base.ones)
    )
    return BaseScores(
        value=-np.arange(len(ends), dtype=float), zeros=zeros, ones=ones, grouped=True
    )
