"""A likelihood joins the exact engine through its own module and one registration: a toy example.

The toy is over-dispersed: counts are beta-binomial around the error rates, with a known concentration.
Everything needed to add it is in this file; the package itself is not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln

import epsilometer as em
from epsilometer._arrays import FloatArray, FloatPair
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact import treatments
from epsilometer.engines.exact.kernels import Kernel, PlaneKernel
from epsilometer.engines.exact.nuisance import NoNuisance
from epsilometer.errors import InputError
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts, counts_of
from epsilometer.model.likelihoods import Likelihood, Nuisance
from tests.engines.oracles import square_quantiles


def log_beta_binomial(k: ArrayLike, n: ArrayLike, rate: FloatArray, weight: float) -> FloatArray:
    """Log probability of k of n, if the rate varies like a Beta of the given weight."""
    k, n = np.asarray(k, dtype=float), np.asarray(n, dtype=float)
    a = np.maximum(weight * rate, 1e-12)
    b = np.maximum(weight * (1 - rate), 1e-12)
    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(choose + betaln(k + a, n - k + b) - betaln(a, b))


@dataclass(frozen=True, kw_only=True)
class OverDispersed(Likelihood):
    """X ~ BetaBinomial(N0, alpha) and Y ~ BetaBinomial(N1, beta), independent."""

    weight: float = 200.0
    name = "over-dispersed"
    description = ("Counts vary more than binomial ones.",)

    def log_density(
        self, counts: AttackCounts, alpha: ArrayLike, beta: ArrayLike, **nuisance: float
    ) -> FloatArray:
        x, y = (
            log_beta_binomial(count, trials, np.asarray(rate), self.weight)
            for (count, trials), rate in zip(counts.by_hypothesis, (alpha, beta), strict=True)
        )
        return x + y

    def sample_counts(
        self,
        counts: AttackCounts,
        rates: FloatPair,
        nuisance: Nuisance,
        *,
        rng: np.random.Generator,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found = []
        for rate, trials in zip(rates, (counts.trials_h0, counts.trials_h1), strict=True):
            own = np.clip(rate, 1e-9, 1 - 1e-9)
            drawn = rng.beta(self.weight * own, self.weight * (1 - own))
            found.append(rng.binomial(trials, drawn))
        return found[0], found[1]


@dataclass(frozen=True, kw_only=True)
class OverDispersedKernel(PlaneKernel):
    """The kernel needed for plane quadrature; fluxes would need more."""

    x: FloatArray
    n0: FloatArray
    y: FloatArray
    n1: FloatArray
    weight: FloatArray

    def observed(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        # Trials of a binomial with the same variance.
        worth = [n * (self.weight + 1) / (self.weight + n) for n in (self.n0, self.n1)]
        return self.x / self.n0, worth[0], self.y / self.n1, worth[1]

    def log_largest(self) -> FloatArray:
        return np.zeros(len(self))

    def log_angle_density(
        self, entries: NDArray[np.intp], theta: FloatArray, phi: FloatArray
    ) -> FloatArray:
        sides = []
        for k, n, angle in ((self.x, self.n0, theta), (self.y, self.n1, phi)):
            rate = np.sin(angle) ** 2
            jacobian = np.log(np.maximum(np.sin(2 * angle), 1e-300))
            logs = [
                log_beta_binomial(k[entry], n[entry], rate, float(self.weight[entry])) + jacobian
                for entry in entries
            ]
            sides.append(np.stack(logs))
        return np.asarray(sides[0][:, :, None] + sides[1][:, None, :])


def make_kernel(likelihood: OverDispersed, counts: AttackCounts, grid: Any) -> Kernel:
    columns = [getattr(counts, name).astype(float) for name in COLUMNS]
    weight = np.full(len(counts), likelihood.weight)
    return OverDispersedKernel(  # type: ignore[return-value]
        x=columns[0], n0=columns[1], y=columns[2], n1=columns[3], weight=weight
    )


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the likelihood, and undo it afterwards."""
    monkeypatch.setattr(treatments, "_TREATMENTS", dict(treatments._TREATMENTS))
    treatments.register(
        OverDispersed().name,
        treatments.Treatment(
            grid=lambda likelihood, counts, size: NoNuisance(), kernel=make_kernel, planar=True
        ),
    )


COUNTS = counts_of([10, 22], 100, [20, 15], 80)
PROBED = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


@pytest.mark.usefixtures("registered")
def test_the_toy_is_estimated_like_the_others() -> None:
    model = em.CountModel(delta=0.02, likelihood=OverDispersed(weight=60.0))
    posterior = estimate(COUNTS, model)
    assert posterior.trustworthy
    expected = square_quantiles(
        model.likelihood, COUNTS, 0.02, PROBED.tolist(), [(1.0, {})], size=500
    )
    # Points of the twin's grid are either inside or outside: about 0.02 in epsilon.
    np.testing.assert_allclose(
        posterior.quantile("epsilon", PROBED), expected, atol=0.03, rtol=0.01
    )
    # Control: binomial counts are more informative.
    binomial = estimate(COUNTS, em.CountModel(delta=0.02))
    gap = np.abs(binomial.quantile("epsilon", PROBED) - expected)
    assert gap.max() > 0.1
    assert len(em.checks.prior_sensitivity(posterior)) == 2
    assert em.checks.leave_one_out(posterior).reliable.all()
    check = em.checks.check_predictions(posterior, rng=np.random.default_rng(1))
    assert min(item.p_value for item in check.statistics) > 0.01


def test_what_is_not_registered_is_refused() -> None:
    model = em.CountModel(delta=0.02, likelihood=OverDispersed())
    with pytest.raises(
        InputError, match=r"known to the exact engine \(binomial, correlated-published, correlated"
    ):
        estimate(COUNTS, model)
