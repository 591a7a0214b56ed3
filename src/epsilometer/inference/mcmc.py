"""MCMC-DP-Est: the published sampler, and one that reaches the same posterior sooner.

Both are Algorithm 1 of the paper.  They differ in where auxiliary error rates come from and in how
parameters are proposed; those choices are small classes here, the loops are in `mcmc_kernels.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer import _validate
from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference import mcmc_kernels as kernels
from epsilometer.inference.chain_runner import run_chains
from epsilometer.inference.diagnostics import diagnose
from epsilometer.inference.provenance import Provenance
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal, IndependentBinomial
from epsilometer.model.priors import (
    Beta,
    EpsilonPrior,
    Exponential,
    Fixed,
    HalfNormal,
    LogNormal,
    Uniform,
)

FloatArray = NDArray[np.float64]

TARGET_ACCEPTANCE = 0.3
"""Between the optima of random walks in one and in many dimensions, .44 and .234."""

PRIOR_JUMP = 0.1
"""Share of proposals that draw the strength afresh from its prior, to hop between modes."""

TAIL_COUNTS = 3
"""Counts this close to 0 or to all trials get informed auxiliaries with a heavy tail there."""

WIDENING = 1.3
"""Informed auxiliaries of correlated counts are this much wider than the likelihood."""


CANDIDATES = 300
DRAWS = 1000
"""Draws from each base's Beta posteriors that score the candidates."""

TEMPERATURE = 4.0
"""Scores are divided by this, so starts spread about twice as wide as the posterior."""

LARGEST_EPSILON = 600.0


@dataclass(frozen=True, kw_only=True)
class UniformAuxiliaries:
    """Auxiliary error rates uniform on the unit square, as published."""


@dataclass(frozen=True, kw_only=True)
class InformedAuxiliaries:
    """Auxiliary error rates where the counts say they are.

    Binomial counts: the Beta posteriors of the rates, which leaves only the ring's indicator as
    weight, with a heavy tail added where a count is next to 0 or to all trials.  Correlated counts:
    logistic around the arcsine of the observed rates' roots.
    """


@dataclass(frozen=True, kw_only=True)
class FixedRandomWalk:
    """Independent steps of set size on log epsilon, strength, tau and rho, as published.

    The paper's appendix gives variances 1e-2, 1e-4, 1e-6, 1e-6; these are standard deviations.
    """

    log_epsilon_scale: float = 0.1
    strength_scale: float = 0.01
    within_correlation_scale: float = 0.001
    cross_correlation_scale: float = 0.001

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            object.__setattr__(self, name, _validate.positive(name, value))


@dataclass(frozen=True, kw_only=True)
class TunedRandomWalk:
    """Steps of three lengths along a covariance learnt in warm-up and then frozen.

    Works on log epsilon, logit strength and logits of the correlations within their bounds; one
    proposal in ten draws the strength from its prior.  Between iterations come a few moves that
    need no auxiliaries: of the parameters given the latents, and of the ring with its latents.
    """


@dataclass(frozen=True, kw_only=True)
class McmcSettings:
    """How long to sample, and how.

    Parameters
    ----------
    num_auxiliary
        K, the latent and its K - 1 auxiliaries, at least 2.
    num_iterations
        Draws kept from each chain, after warm-up.
    num_warmup
        Iterations thrown away before; all tuning happens in them.
    num_chains
        Independent chains from over-dispersed starts.
    seed
        Same seed, same draws, for any number of threads.
    auxiliaries, proposal
        Where auxiliaries come from and how parameters move.

    Examples
    --------
    >>> McmcSettings.published().num_auxiliary
    1000
    """

    num_auxiliary: int = 24
    num_iterations: int = 20_000
    num_warmup: int = 3_000
    num_chains: int = 4
    seed: int = 0
    auxiliaries: UniformAuxiliaries | InformedAuxiliaries = field(
        default_factory=InformedAuxiliaries
    )
    proposal: FixedRandomWalk | TunedRandomWalk = field(default_factory=TunedRandomWalk)

    def __post_init__(self) -> None:
        for name, least in (
            ("num_auxiliary", 2),
            ("num_iterations", 1),
            ("num_warmup", 0),
            ("num_chains", 1),
            ("seed", 0),
        ):
            value = _validate.whole_number(name, getattr(self, name), least=least)
            object.__setattr__(self, name, value)
        if not isinstance(self.auxiliaries, UniformAuxiliaries | InformedAuxiliaries):
            raise InputError(
                "expected UniformAuxiliaries or InformedAuxiliaries, "
                f"got auxiliaries={self.auxiliaries!r}."
            )
        if not isinstance(self.proposal, FixedRandomWalk | TunedRandomWalk):
            raise InputError(
                f"expected FixedRandomWalk or TunedRandomWalk, got proposal={self.proposal!r}."
            )

    @classmethod
    def published(cls, **overrides: Any) -> McmcSettings:
        """Return the paper's settings: one chain of 100,000 iterations, the first 10,000 discarded.

        K = 1000 uniform auxiliaries a base and the random walk of the appendix.  Any setting may be
        overridden by name.
        """
        settings = cls(
            num_auxiliary=1000,
            num_iterations=90_000,
            num_warmup=10_000,
            num_chains=1,
            auxiliaries=UniformAuxiliaries(),
            proposal=FixedRandomWalk(),
        )
        return replace(settings, **overrides)

    def to_dict(self) -> dict[str, object]:
        """Plain values for provenance, the seed apart."""
        values: dict[str, object] = {
            name: getattr(self, name)
            for name in ("num_auxiliary", "num_iterations", "num_warmup", "num_chains")
        }
        values["auxiliaries"] = type(self.auxiliaries).__name__
        values["proposal"] = {"name": type(self.proposal).__name__, **asdict(self.proposal)}
        return values


def estimate_mcmc(
    counts: AttackCounts,
    model: AuditModel,
    settings: McmcSettings | None = None,
    *,
    report: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    num_threads: int | None = None,
) -> SamplePosterior:
    """Return draws from the posterior of the model given the counts.

    Parameters
    ----------
    counts, model
        What was observed and what is assumed.
    settings
        Length and kind of the chains.
    report
        Called with a line of text as work proceeds.
    progress
        Called in the calling thread with iterations done and iterations in all, over all chains.
    num_threads
        Chains run at once; as many as there are processors unless told.  Draws do not depend on it.

    Returns
    -------
    SamplePosterior
        ``posterior.trustworthy`` says whether the chains converged; ``posterior.diagnostics`` has
        the figures.

    Raises
    ------
    InputError
        If nothing is free, or the strength is fixed at 1, where the ring has no area.
    ContradictionError
        If no starting point with posterior weight was found.

    Notes
    -----
    Exact for any number of auxiliaries; more of them make larger steps acceptable.  Epsilon above
    700, where e^-epsilon nears the end of double precision, is not visited.
    """
    settings = settings or McmcSettings()
    model.check(counts)
    if isinstance(model.strength, Fixed) and model.strength.value == 1:
        raise InputError(
            "MCMC expects strength < 1, got strength=1.0: the ring has no area there; "
            "the exact engine serves this limit."
        )
    if not model.parameters_of(counts):
        raise InputError("expected a parameter to estimate: epsilon and strength are both fixed.")
    if num_threads is not None:
        num_threads = _validate.whole_number("num_threads", num_threads)
    if model.scatters(counts):
        from epsilometer.inference.group_mcmc import estimate_group_mcmc

        return estimate_group_mcmc(
            counts, model, settings, report=report, progress=progress, num_threads=num_threads
        )
    problem = _Problem.of(counts, model, settings)
    if report:
        report("compiling")
    _Chain(problem, np.random.default_rng(0), replace(settings, num_warmup=1)).advance(2)
    started = time.perf_counter()
    if report:
        report(f"sampling {settings.num_chains} chains")
    chains = run_chains(
        lambda rng: _Chain(problem, rng, settings),
        chains=settings.num_chains,
        iterations=settings.num_warmup + settings.num_iterations,
        seed=settings.seed,
        progress=progress,
        num_threads=num_threads,
    )
    samples = {
        name: np.stack([chain.kept[:, _COLUMNS[name]] for chain in chains])
        for name in model.parameters_of(counts)
    }
    seconds = time.perf_counter() - started
    walked = sum(chain.walked for chain in chains)
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=Provenance.now(
            engine="mcmc", settings=settings.to_dict(), seconds=seconds, seed=settings.seed
        ),
        samples=samples,
        diagnostics=diagnose(
            samples,
            acceptance_rate=sum(chain.accepted for chain in chains) / max(walked, 1),
        ),
    )


_COLUMNS = {
    "epsilon": kernels.EPSILON,
    "strength": kernels.STRENGTH,
    "within_correlation": kernels.TAU,
    "cross_correlation": kernels.RHO,
}


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """Counts and model as the kernels take them."""

    counts: AttackCounts
    model: AuditModel
    scheme: int
    prior_code: int
    free: NDArray[np.bool_]
    bases: FloatArray
    sizes: FloatArray
    constants: FloatArray

    @classmethod
    def of(cls, counts: AttackCounts, model: AuditModel, settings: McmcSettings) -> _Problem:
        """Tabulate what the kernels need."""
        informed = isinstance(settings.auxiliaries, InformedAuxiliaries)
        likelihood = model.likelihood
        correlated = isinstance(likelihood, CorrelatedNormal)
        constants = np.zeros(11)
        constants[kernels.DELTA] = model.delta
        constants[kernels.EPSILON_LOW] = likelihood.smallest_epsilon(counts)
        code, constants[kernels.PRIOR_A], constants[kernels.PRIOR_B] = prior_code(model.epsilon)
        if isinstance(model.strength, Beta):
            constants[kernels.BETA_A], constants[kernels.BETA_B] = (
                model.strength.a,
                model.strength.b,
            )
        constants[kernels.PRIOR_JUMP] = PRIOR_JUMP
        sizes = np.zeros((0, 2))
        if isinstance(likelihood, CorrelatedNormal):
            constants[kernels.TAU_LOW], constants[kernels.TAU_HIGH] = (
                likelihood.within_correlation_bounds(counts)
            )
            constants[kernels.TAU_SCALE] = likelihood.within_correlation_scale
            pairs = np.stack([counts.trials_h0, counts.trials_h1], axis=1)
            sizes = np.unique(pairs, axis=0).astype(float)
        free = np.array([name in model.parameters_of(counts) for name in _COLUMNS])
        return cls(
            counts=counts,
            model=model,
            scheme=2 * int(correlated) + int(informed),
            prior_code=code,
            free=free,
            bases=_base_table(counts),
            sizes=sizes,
            constants=constants,
        )


def prior_code(prior: EpsilonPrior) -> tuple[int, float, float]:
    """A prior as the kernels know it; a fixed value has none that matters."""
    if isinstance(prior, HalfNormal):
        return kernels.HALF_NORMAL, prior.scale, 0.0
    if isinstance(prior, Exponential):
        return kernels.EXPONENTIAL, prior.mean, 0.0
    if isinstance(prior, LogNormal):
        return kernels.LOG_NORMAL, math.log(prior.median), prior.log_scale
    if isinstance(prior, Uniform):
        return kernels.UNIFORM, prior.upper, 0.0
    return kernels.UNIFORM, math.inf, 0.0


def _base_table(counts: AttackCounts) -> FloatArray:
    from scipy.special import betaln, xlog1py, xlogy

    table = np.zeros((len(counts), kernels.NUM_COLUMNS))
    k = kernels
    for count, trials, columns in (
        (counts.false_positives, counts.trials_h0, (k.X, k.N0, k.CENTRE_X, k.END_X, k.TAIL_X)),
        (counts.false_negatives, counts.trials_h1, (k.Y, k.N1, k.CENTRE_Y, k.END_Y, k.TAIL_Y)),
    ):
        rest = trials - count
        nearest = np.minimum(count, rest)
        end = np.where(nearest > TAIL_COUNTS, 0, np.where(count <= rest, -1, 1))
        tail = betaln(nearest + 1, trials - nearest + 1)
        tail = tail - betaln(k.TAIL_POWER, trials - nearest + 1)
        centre = np.arcsin(np.sqrt((count + 0.5) / (trials + 1)))
        for column, values in zip(columns, (count, trials, centre, end, tail), strict=True):
            table[:, column] = values
        rate = count / trials
        table[:, k.LOG_TOP] += xlogy(count, rate) + xlog1py(rest, -rate)
    return table


class _Chain:
    """One chain: starts itself, tunes itself through warm-up, then keeps its draws."""

    def __init__(self, problem: _Problem, rng: np.random.Generator, settings: McmcSettings) -> None:
        self.problem, self.rng, self.settings = problem, rng, settings
        self.bases = problem.bases.copy()
        start = _draw_start(problem.counts, problem.model, rng=rng)
        self.parameters = start.parameters
        self.latents = np.zeros((len(self.bases), 3))
        self.latents[:, 0], self.latents[:, 1] = start.alpha, start.beta
        self.tuned = isinstance(settings.proposal, TunedRandomWalk)
        self.scales = (
            np.array(list(asdict(settings.proposal).values()))
            if isinstance(settings.proposal, FixedRandomWalk)
            else np.zeros(4)
        )
        # Steps of all free parameters, and of epsilon and the strength alone.
        self.log_lengths = np.zeros(2)
        self.covariance = np.diag(np.where(problem.free, [0.1, 0.3, 0.1, 0.3], 0.0) ** 2)
        self.factors = self._factors(self.covariance)
        if isinstance(problem.model.likelihood, CorrelatedNormal):
            # The prior mean of |tau|.
            self._place_auxiliaries(0.8 * problem.model.likelihood.within_correlation_scale)
        kernels.refresh_factors(problem.scheme, self.bases, self.latents)
        self.warm = np.zeros((settings.num_warmup, 4))
        self.kept = np.zeros((settings.num_iterations, 4))
        self.done, self.accepted, self.walked = 0, 0, 0

    def advance(self, iterations: int) -> int:
        """Make up to so many iterations, not past the end of a phase; return how many were made."""
        settings = self.settings
        warming = self.done < settings.num_warmup
        out, at = (self.warm, self.done) if warming else (self.kept, self.done - len(self.warm))
        # Early in warm-up a short block: the first step sizes are guesses.
        made = min(iterations if not warming else min(iterations, 100), len(out) - at)
        if made == 0:
            return 0
        accepted, walked, edge_accepted, edge_walked = kernels.run_block(
            self.rng,
            made,
            settings.num_auxiliary,
            self.problem.scheme,
            self.tuned,
            self.problem.prior_code,
            self.problem.free,
            self.bases,
            self.problem.sizes,
            self.problem.constants,
            self.scales,
            math.exp(self.log_lengths[0]) * self.factors[0],
            math.exp(self.log_lengths[1]) * self.factors[1],
            self.parameters,
            self.latents,
            out[at : at + made],
        )
        self.done += made
        if warming:
            if self.tuned:
                self._tune(np.array([accepted, edge_accepted]), np.array([walked, edge_walked]))
        else:
            self.accepted += accepted + edge_accepted
            self.walked += walked + edge_walked
        return made

    def _factors(self, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Factors of the covariance of all free parameters, and of epsilon and the strength."""
        free = self.problem.free
        edges = free & np.array([True, True, False, False])
        return _cholesky(covariance, free), _cholesky(covariance, edges)

    def _tune(self, accepted: NDArray[np.int64], walked: NDArray[np.int64]) -> None:
        """Learn the steps from the later half of the warm-up so far."""
        blocks = max(self.done / 100, 1.0)
        acceptance = accepted / np.maximum(walked, 1)
        gain = np.where(walked > 0, 2.0 * blocks**-0.5, 0.0)
        self.log_lengths += gain * (acceptance - TARGET_ACCEPTANCE)
        recent = self.warm[self.done // 2 : self.done]
        if self.done < 400:
            return
        line = np.zeros((len(recent), 4))
        for row, parameters in zip(line, recent, strict=True):
            kernels.to_line(parameters, self.problem.constants, self.problem.sizes, row)
        learnt = np.cov(line.T) * 2.38**2 / max(int(self.problem.free.sum()), 1)
        weight = len(recent) / (len(recent) + 100)
        mixed = weight * learnt + (1 - weight) * 0.01 * self.covariance
        self.factors = self._factors(mixed)
        if isinstance(self.problem.model.likelihood, CorrelatedNormal):
            tau = recent[:, kernels.TAU]
            self._place_auxiliaries(float(tau.mean() + tau.std()))
            kernels.refresh_factors(self.problem.scheme, self.bases, self.latents)

    def _place_auxiliaries(self, tau: float) -> None:
        """Set the width of the informed auxiliaries for correlations near tau.

        The arcsine of a rate's root has standard deviation sqrt((1 + (N - 1) tau) / (4 N)), and a
        logistic of scale 1 has pi / sqrt(3).
        """
        for size, column in ((kernels.N0, kernels.SCALE_X), (kernels.N1, kernels.SCALE_Y)):
            trials = self.bases[:, size]
            inflation = 1 + (trials - 1) * max(tau, 0.0)
            self.bases[:, column] = (
                WIDENING * math.sqrt(3) / math.pi * np.sqrt(inflation / (4 * trials))
            )


def _cholesky(covariance: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """Lower factor of the covariance among the free parameters, zero elsewhere."""
    factor = np.zeros((4, 4))
    chosen = np.flatnonzero(free)
    if len(chosen) == 0:
        return factor
    block = covariance[np.ix_(chosen, chosen)]
    block = block + 1e-10 * np.eye(len(chosen))
    factor[np.ix_(chosen, chosen)] = np.linalg.cholesky(block)
    return factor


# --- starting points ---------------------------------------------------------------------------
#
# Candidates (epsilon, s) are scored by a crude likelihood, the share of each base's Beta posterior
# that falls in the ring over the ring's area, and one is drawn with the scores tempered.


@dataclass(frozen=True, kw_only=True)
class _Start:
    """(epsilon, s, tau, rho) and one (alpha, beta) a base inside the ring."""

    parameters: FloatArray
    alpha: FloatArray
    beta: FloatArray


def _draw_start(counts: AttackCounts, model: AuditModel, *, rng: np.random.Generator) -> _Start:
    """Draw a starting point; raise :class:`ContradictionError` if none has any prior weight."""
    alpha, beta = _posterior_rates(counts, rng)
    epsilon, strength = _candidates(alpha, beta, model, rng)
    scores = _scores(alpha, beta, epsilon, strength, model)
    if not np.any(scores > -np.inf):
        raise ContradictionError("no starting point: the prior of epsilon has no weight in reach.")
    chosen = int(np.argmax(scores / TEMPERATURE + rng.gumbel(size=len(scores))))
    parameters = np.array([epsilon[chosen], strength[chosen], 0.0, 0.0])
    if isinstance(model.likelihood, CorrelatedNormal):
        parameters[2:] = model.likelihood.sample_prior(counts, rng=rng)
        parameters[3] *= 0.5
    inside = _inside(alpha, beta, epsilon[chosen], strength[chosen], model.delta)
    ring = region.sample_ring(4096, epsilon[chosen], model.delta, strength[chosen], rng=rng)
    keep = _inside(*ring, epsilon[chosen], strength[chosen], model.delta)
    ring_alpha, ring_beta = ring[0][keep], ring[1][keep]
    first = np.argmax(inside, axis=0)
    latent_alpha = np.take_along_axis(alpha, first[None], axis=0)[0]
    latent_beta = np.take_along_axis(beta, first[None], axis=0)[0]
    for j in np.flatnonzero(~inside.any(axis=0)):
        one = AttackCounts(
            false_positives=[counts.false_positives[j]],
            trials_h0=[counts.trials_h0[j]],
            false_negatives=[counts.false_negatives[j]],
            trials_h1=[counts.trials_h1[j]],
        )
        logs = IndependentBinomial().log_density(one, ring_alpha[:, None], ring_beta[:, None])
        best = int(np.argmax(logs[:, 0]))
        latent_alpha[j], latent_beta[j] = ring_alpha[best], ring_beta[best]
    return _Start(parameters=parameters, alpha=latent_alpha, beta=latent_beta)


def _posterior_rates(
    counts: AttackCounts, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draws (draw, base) from the Beta posteriors of the rates, off 0 and 1."""
    size = (DRAWS, len(counts))
    x, n0 = counts.false_positives, counts.trials_h0
    y, n1 = counts.false_negatives, counts.trials_h1
    alpha = rng.beta(x + 1, n0 - x + 1, size=size)
    beta = rng.beta(y + 1, n1 - y + 1, size=size)
    return np.clip(alpha, 1e-12, 1 - 1e-12), np.clip(beta, 1e-12, 1 - 1e-12)


def _candidates(
    alpha: FloatArray, beta: FloatArray, model: AuditModel, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Values of epsilon near those the latents need and from the prior; strengths from theirs."""
    if isinstance(model.epsilon, Fixed):
        epsilon = np.full(CANDIDATES, model.epsilon.value)
    else:
        needed = region.critical_epsilon(alpha, beta, model.delta).max(axis=1)
        near = rng.choice(needed, size=CANDIDATES // 2) * np.exp(
            rng.normal(0.2, 0.4, CANDIDATES // 2)
        )
        prior = model.epsilon.sample(CANDIDATES - len(near), rng=rng)
        epsilon = np.clip(np.concatenate([near, prior]), 1e-6, LARGEST_EPSILON)
    if isinstance(model.strength, Fixed):
        strength = np.full(CANDIDATES, model.strength.value)
    else:
        strength = np.clip(model.strength.sample(CANDIDATES, rng=rng), 1e-6, 1 - 1e-9)
    return epsilon, strength


def _scores(
    alpha: FloatArray,
    beta: FloatArray,
    epsilon: FloatArray,
    strength: FloatArray,
    model: AuditModel,
) -> FloatArray:
    scores = np.empty(len(epsilon))
    for i, (e, s) in enumerate(zip(epsilon, strength, strict=True)):
        share = _inside(alpha, beta, e, s, model.delta).mean(axis=0)
        log_area = float(region.log_ring_area(e, model.delta, s))
        # A ring that no draw hit is not excused by being narrow.
        density = np.log(np.maximum(share, 0.5 / DRAWS)) - log_area
        scores[i] = np.sum(np.where(share > 0, density, np.log(0.01 / DRAWS)))
    if not isinstance(model.epsilon, Fixed):
        scores = scores + model.epsilon.log_density(epsilon)
    return scores


def _inside(
    alpha: FloatArray, beta: FloatArray, epsilon: float, strength: float, delta: float
) -> NDArray[np.bool_]:
    """Ring membership in the very form that the kernels use."""
    above = alpha + beta > 1
    a, b = np.where(above, 1 - alpha, alpha), np.where(above, 1 - beta, beta)
    low, high = np.minimum(a, b), np.maximum(a, b)
    edge, core = np.exp(-epsilon), np.exp(-strength * epsilon)
    return np.asarray(
        (low + edge * high >= edge * (1 - delta))
        & (low + core * high < core * (1 - strength * delta))
    )
