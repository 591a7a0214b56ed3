"""A chain for independent attacks: its auxiliaries, its starting point, the tuning of its steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.engines.mcmc import densities, kernels
from epsilometer.engines.mcmc.cheap_moves import State
from epsilometer.engines.mcmc.densities import RHO, TAU, Rng, ring_mask, ring_of
from epsilometer.errors import ContradictionError
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.likelihoods import IndependentBinomial
from epsilometer.model.models import CountModel

if TYPE_CHECKING:
    from epsilometer.engines.mcmc.driver import McmcSettings

#: Between the optima of random walks in one and in many dimensions, .44 and .234.
TARGET_ACCEPTANCE = 0.3

#: Initial standard deviations of the unconstrained steps, until warm-up provides better ones.
FIRST_DEVIATIONS = (0.1, 0.3, 0.1, 0.3)

#: Counts this close to 0 or to all trials get informed auxiliaries with a heavy tail there.
TAIL_COUNTS = 3

#: Factor by which informed auxiliaries of correlated counts are wider than the likelihood.
WIDENING = 1.3

#: Candidates for a start, and draws from each base's Beta posteriors that score them.
CANDIDATES, DRAWS = 300, 1000

#: Scores are divided by this, so starts are spread about twice as wide as the posterior.
TEMPERATURE = 4.0

#: Selects epsilon and the strength.
EDGES = np.array([True, True, False, False])


#: Iterations between tuning steps: few, because the first step sizes are guesses.
WARMUP_BLOCK = 100


class AttackChain:
    """MCMC-DP-Est, as published or tuned: steps are tuned after each block of warm-up, then frozen."""

    def __init__(
        self, counts: AttackCounts, model: CountModel, settings: McmcSettings, rng: Rng
    ) -> None:
        self.settings, self.rng = settings, rng
        self.warm = np.zeros((settings.num_warmup, 4))
        self.kept = np.zeros((settings.num_iterations, 4))
        self.done = 0
        self.accepted, self.tried = np.zeros(2), np.zeros(2)
        informed = settings.auxiliaries.informed
        self.problem = densities.compile_model(counts, model, informed=informed)
        parameters, rates = draw_start(counts, model, rng=rng)
        self.state = State(parameters, np.column_stack([rates, np.zeros(len(counts))]))
        self.free = self.problem.free
        # Lengths of the steps of all free parameters, and of epsilon and the strength alone.
        self.log_lengths = np.zeros(2)
        self.covariance = np.diag(np.where(self.free, FIRST_DEVIATIONS, 0.0) ** 2)
        self._take_steps_from(self.covariance)
        # The prior mean of |tau|.
        self._place_auxiliaries(0.8 * self.problem.tau_scale)

    def advance(self, most: int) -> int:
        """Run at most ``most`` iterations, not past the end of a phase; return how many were run."""
        warming = self.done < len(self.warm)
        phase, begun = (self.warm, 0) if warming else (self.kept, len(self.warm))
        most = min(most, WARMUP_BLOCK) if warming else most
        draws = phase[self.done - begun : self.done - begun + most]
        if len(draws) == 0:
            return 0
        accepted, tried = np.zeros_like(self.accepted), np.zeros_like(self.tried)
        self.run(draws, accepted, tried)
        self.done += len(draws)
        if warming:
            self.tune(accepted, tried)
        else:
            self.accepted += accepted
            self.tried += tried
        return len(draws)

    def run(self, draws: FloatArray, accepted: FloatArray, tried: FloatArray) -> None:
        """Fill the rows of ``draws``; add up accepted and tried steps of each kind."""
        walk, lengths = self.settings.proposal, [math.exp(length) for length in self.log_lengths]
        factors = np.stack([a * factor for a, factor in zip(lengths, self.factors, strict=True)])
        proposal = kernels.Proposal(walk.tuned, np.array(walk.scales), factors)
        k = self.settings.num_auxiliary
        kernels.run(self.rng, self.problem, self.state, proposal, k, draws, accepted, tried)

    def tune(self, accepted: FloatArray, tried: FloatArray) -> None:
        """Learn the steps from the second half of the warm-up so far."""
        if not self.settings.proposal.tuned:
            return
        # Ever smaller changes, so that the lengths settle.
        gain = 2.0 * max(self.done / WARMUP_BLOCK, 1.0) ** -0.5
        rate = accepted / np.maximum(tried, 1)
        self.log_lengths += np.where(tried > 0, gain, 0.0) * (rate - TARGET_ACCEPTANCE)
        recent = self.warm[self.done // 2 : self.done]
        line = kernels.to_line(self.problem, recent)
        if self.done < 4 * WARMUP_BLOCK:
            return
        # 2.38 / sqrt(d) times the deviations is the optimal step for a normal in many dimensions.
        learnt = np.cov(line.T) * 2.38**2 / max(int(self.free.sum()), 1)
        # The initial guess, scaled down, counts as much as a hundred draws.
        weight = len(recent) / (len(recent) + 100)
        self._take_steps_from(weight * learnt + (1 - weight) * 0.01 * self.covariance)
        tau = recent[:, TAU]
        self._place_auxiliaries(float(tau.mean() + tau.std()))

    def _take_steps_from(self, covariance: FloatArray) -> None:
        self.factors = _cholesky(covariance, self.free), _cholesky(covariance, self.free & EDGES)

    def _place_auxiliaries(self, tau: float) -> None:
        """Set where auxiliaries are drawn; those of correlated counts for correlations near tau."""
        from scipy.special import betaln, xlog1py, xlogy

        rows = self.problem.rows
        rows["log_top"] = 0.0
        for side, count, trials in (("x", rows["x"], rows["n0"]), ("y", rows["y"], rows["n1"])):
            rest = trials - count
            nearest, farthest = np.minimum(count, rest), np.maximum(count, rest)
            nearer = np.where(count <= rest, -1.0, 1.0)
            rows[f"end_{side}"] = np.where(nearest > TAIL_COUNTS, 0.0, nearer)
            log_tail = betaln(nearest + 1, farthest + 1) - betaln(kernels.TAIL_POWER, farthest + 1)
            rows[f"log_tail_{side}"] = log_tail
            rows[f"centre_{side}"] = np.arcsin(np.sqrt((count + 0.5) / (trials + 1)))
            # The arcsine of a rate's root has this deviation; a logistic of scale 1 has pi / sqrt(3).
            deviation = np.sqrt((1 + (trials - 1) * max(tau, 0.0)) / (4 * trials))
            rows[f"scale_{side}"] = WIDENING * math.sqrt(3) / math.pi * deviation
            rate = count / trials
            rows["log_top"] += xlogy(count, rate) + xlog1py(rest, -rate)
        kernels.refresh_factors(self.problem, self.state.latents)


def _cholesky(covariance: FloatArray, free: BoolArray) -> FloatArray:
    """Lower Cholesky factor of the covariance among the free parameters, zero elsewhere."""
    factor = np.zeros_like(covariance)
    chosen = np.ix_(free, free)
    # A small multiple of the identity keeps it positive definite for a chain that has not moved.
    factor[chosen] = np.linalg.cholesky(covariance[chosen] + 1e-10 * np.eye(int(free.sum())))
    return factor


# --- starting points ------------------------------------------------------------------------------
#
# Candidates (epsilon, s) are scored by a crude likelihood, the share of each base's Beta posterior
# that falls in the ring over the ring's area, and one is drawn from the tempered scores.


def draw_start(
    counts: AttackCounts, model: CountModel, *, rng: Rng
) -> tuple[FloatArray, FloatArray]:
    """Draw (epsilon, s, tau, rho) and rates (alpha, beta) inside the ring, one row per base.

    Raises :class:`ContradictionError` if no start has any prior weight.
    """
    size, off_ends = (DRAWS, len(counts)), (1e-12, 1 - 1e-12)
    (x, n0), (y, n1) = counts.by_hypothesis
    alpha = np.clip(rng.beta(x + 1, n0 - x + 1, size=size), *off_ends)
    beta = np.clip(rng.beta(y + 1, n1 - y + 1, size=size), *off_ends)
    candidates = _candidates(alpha, beta, model, rng)
    scores = _scores(alpha, beta, candidates, model)
    if not np.any(scores > -np.inf):
        raise ContradictionError("no starting point: the prior of epsilon has no weight in range.")
    epsilon, strength = candidates[np.argmax(scores / TEMPERATURE + rng.gumbel(size=len(scores)))]
    parameters = np.array([epsilon, strength, 0.0, 0.0])
    nuisance = model.likelihood.sample_nuisance(counts, rng=rng)
    if nuisance:
        # Rho well within its bound.
        parameters[TAU] = nuisance["within_correlation"]
        parameters[RHO] = 0.5 * nuisance["cross_correlation"]
    ring = ring_of(epsilon, model.delta, strength)
    inside = ring_mask(ring, alpha, beta)
    points = region.sample_rings(epsilon, model.delta, strength, size=(4096,), rng=rng)
    drawn = np.stack(points, axis=1)
    drawn = drawn[ring_mask(ring, drawn[:, :1], drawn[:, 1:])[:, 0]]
    first, every = np.argmax(inside, axis=0), np.arange(len(counts))
    rates = np.stack([alpha[first, every], beta[first, every]], axis=1)
    missed = np.flatnonzero(~inside.any(axis=0))
    if len(missed):
        logs = IndependentBinomial().log_density(counts.take(missed), drawn[:, :1], drawn[:, 1:])
        rates[missed] = drawn[np.argmax(logs, axis=0)]
    return parameters, rates


def _candidates(alpha: FloatArray, beta: FloatArray, model: CountModel, rng: Rng) -> FloatArray:
    """Rows (epsilon, s): epsilon near what the latents need and from its prior, s from its prior."""
    if model.epsilon.fixed_value is not None:
        epsilon = np.full(CANDIDATES, model.epsilon.fixed_value)
    else:
        needed = region.critical_epsilon(alpha, beta, model.delta).max(axis=1)
        half = CANDIDATES // 2
        near = rng.choice(needed, size=half) * np.exp(rng.normal(0.2, 0.4, half))
        prior = model.epsilon.sample(CANDIDATES - half, rng=rng)
        epsilon = np.clip(np.concatenate([near, prior]), 1e-6, densities.LARGEST_START)
    strength = model.strength.sample(CANDIDATES, rng=rng)
    if model.strength.fixed_value is None:
        strength = np.clip(strength, 1e-6, 1 - 1e-9)
    return np.stack([epsilon, strength], axis=1)


def _scores(
    alpha: FloatArray, beta: FloatArray, candidates: FloatArray, model: CountModel
) -> FloatArray:
    scores = model.epsilon.log_density(candidates[:, 0])
    for i, (epsilon, strength) in enumerate(candidates):
        share = ring_mask(ring_of(epsilon, model.delta, strength), alpha, beta).mean(axis=0)
        log_area = float(region.log_ring_area(epsilon, model.delta, strength))
        # A ring that no draw hit must not score well for being narrow.
        density = np.log(np.maximum(share, 0.5 / DRAWS)) - log_area
        scores[i] += np.sum(np.where(share > 0, density, np.log(0.01 / DRAWS)))
    return scores
