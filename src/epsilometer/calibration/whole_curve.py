"""The whole-curve model on scores of known mechanisms: its intervals against the truth, run by run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from operator import add

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.calibration.attacks import draw_bases
from epsilometer.calibration.plan import ProfileCell
from epsilometer.errors import InputError

WHOLE_CURVE = "Epsilometer, whole curve"

DIGITS = 6
"""Decimals of interval ends that are kept: what threads change is far behind them."""


@dataclass(frozen=True)
class ProfileTally:
    """Of ``runs``: how many intervals lay wholly above the truth and wholly below it, and sums.

    They add up, so that runs can come in any order.
    """

    runs: int = 0
    above: int = 0
    below: int = 0
    sum_low: float = 0.0
    sum_median: float = 0.0
    sum_high: float = 0.0

    @classmethod
    def of(cls, quantiles: FloatArray, *, truth: float) -> ProfileTally:
        """The sums of quantiles of shape (runs, 3): lower end, median, upper end."""
        # Ends are rounded: one that is off by no more than that is not beyond the truth.
        slack = 10.0**-DIGITS
        low, median, high = np.round(quantiles, DIGITS).T
        return cls(
            runs=len(quantiles),
            above=int(np.sum(low > truth + slack)),
            below=int(np.sum(high < truth - slack)),
            sum_low=float(low.sum()),
            sum_median=float(median.sum()),
            sum_high=float(high.sum()),
        )

    def __add__(self, other: ProfileTally) -> ProfileTally:
        return ProfileTally(*map(add, astuple(self), astuple(other)))

    as_dict = asdict

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ProfileTally:
        """From a file, whose text is checked."""
        names = set(asdict(cls()))
        if set(data) != names or any(type(value) not in (int, float) for value in data.values()):
            raise InputError(f"expected a tally with {', '.join(sorted(names))}.")
        return cls(**data)  # type: ignore[arg-type]


def judge_profile(
    cell: ProfileCell, significance: float, runs: int, rng: np.random.Generator
) -> ProfileTally:
    """Audits of the cell's mechanism; either end of an interval errs with ``significance``."""
    from epsilometer.inference.profile.engine import ProfileSettings
    from epsilometer.model.families import families_of
    from epsilometer.model.mixtures import mixing_of
    from epsilometer.model.profile import ProfileModel

    model = ProfileModel(
        delta=cell.delta, mixing=mixing_of(cell.mixing), families=families_of(cell.family)
    )
    wanted, settings = [significance, 0.5, 1 - significance], ProfileSettings()
    found = np.empty((runs, len(wanted)))
    for run in range(runs):
        scores = draw_bases(
            cell.mechanism,
            power=cell.power,
            strengths=cell.strengths,
            bases=cell.bases,
            models=cell.models,
            rng=rng,
        )
        found[run] = settings.first_look(scores, model).quantile("epsilon", wanted)
    return ProfileTally.of(found, truth=cell.mechanism.epsilon(cell.delta))
