"""Where a proof comes from: which bases, thresholds and directions carry it, and when it was won."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer._arrays import FloatArray, IntArray
from epsilometer.proofs.bettors import BOTH, FALSE_NEGATIVES, FALSE_POSITIVES, Bettors
from epsilometer.proofs.outcomes import CUT, FIT_RATES, RANK_RATES

#: Parts that are named in a sentence, and in tables; points of the stored path.
NAMED, LISTED, POINTS = 2, 10, 200

#: Share of the capital below which a part is not mentioned.
LEAST_SHARE = 0.01

_DIRECTIONS = {
    FALSE_POSITIVES: "few false positives",
    FALSE_NEGATIVES: "few false negatives",
    BOTH: "few errors of both kinds",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Where the capital against a claim comes from.

    Attributes
    ----------
    epsilon
        The claim: the one that was tested, or the proven bound.
    bases
        Names of bases, and the logarithm by which each multiplied the capital; largest first.
    thresholds
        Thresholds and directions, and the share of the capital that each has won; largest first.
    path
        Logarithm of the capital after every pair; empty if all data are analysed at once.
    ordered
        Whether the path is in an order that was planned, so that its largest value counts, and bases and
        pairs behind it do not.
    """

    epsilon: float
    bases: tuple[tuple[str, float], ...]
    thresholds: tuple[tuple[str, float], ...]
    path: FloatArray = field(default_factory=lambda: np.empty(0))
    ordered: bool = False

    @property
    def sentence(self) -> str:
        """The bases and thresholds that carry most of it, without a full stop."""
        total = sum(max(won, 0.0) for _, won in self.bases)
        if not total > 0:
            return "no base speaks against it"
        bases = [(f"base {_files.shown(name)}", won / total) for name, won in self.bases if won > 0]
        where = _most(self.thresholds)
        alone = len(self.bases) == 1
        return f"mostly {where}" if alone else f"most of it from {_most(bases)}; mostly {where}"

    def described(self) -> dict[str, Any]:
        """As plain values for JSON."""
        at = self.plotted[0].tolist()
        return {
            "against": self.epsilon,
            "bases": [{"name": name, "log_capital": won} for name, won in self.bases[:LISTED]],
            "thresholds": [
                {"what": what, "share": part} for what, part in self.thresholds[:LISTED]
            ],
            "log_capital_after_pairs": [[n, float(self.path[n - 1])] for n in at],
        }

    @property
    def counted(self) -> tuple[int, float]:
        """The number of pairs and the log capital that count: the largest if planned, else the last."""
        walk = np.append(0.0, self.path)
        pairs = int(np.argmax(walk)) if self.ordered else len(self.path)
        return pairs, float(walk[pairs])

    @property
    def plotted(self) -> tuple[IntArray, FloatArray]:
        """Numbers of pairs, about `POINTS`, and the capital after each as a power of 10."""
        size = len(self.path)
        some = np.linspace(1, size, min(size, POINTS)).astype(np.int64)
        pairs = np.union1d(some, max(self.counted[0], 1)) if size else some
        return pairs, self.path[pairs - 1] / np.log(10)


def _most(parts: Sequence[tuple[str, float]]) -> str:
    named = [(what, share) for what, share in parts[:NAMED] if share >= LEAST_SHARE]
    if len(named) == 1 and named[0][1] > 1 - LEAST_SHARE:
        return named[0][0]
    return " and ".join(f"{what} ({100 * share:.0f} %)" for what, share in named)


def ranked(names: Iterable[str], values: Iterable[float]) -> tuple[tuple[str, float], ...]:
    """Names with their values, largest first."""
    pairs = zip(names, map(float, values), strict=True)
    return tuple(sorted(pairs, key=lambda pair: -pair[1]))


def thresholds_of(
    bettors: Bettors, used: IntArray, share: FloatArray
) -> tuple[tuple[str, float], ...]:
    """The thresholds and directions of bettors, with the shares of the capital that they hold."""
    found: dict[str, float] = {}
    for bettor, part in zip(used.tolist(), share.tolist(), strict=True):
        place, direction = int(bettors.placement[bettor]), int(bettors.direction[bettor])
        rate = (*RANK_RATES, *FIT_RATES, 0.0)[place]
        how = "counted" if place < len(RANK_RATES) else "fitted"
        thresholds = "thresholds" if direction == BOTH else "threshold"
        what = f"{_DIRECTIONS[direction]}, {how} {thresholds} at rate {rate:g}"
        if place == CUT:
            what = "the cut between models without and with the point"
        found[what] = found.get(what, 0.0) + part
    return tuple(row for row in ranked(found, found.values()) if row[1] >= LEAST_SHARE)
