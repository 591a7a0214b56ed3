"""The sampler for groups of dependent attacks: the full hierarchical model of appendix C.

Averages and members are part of the state, so any likelihood and either scatter will do; what is
compiled is in `group_mcmc_kernels.py`.  Steps are tuned in warm-up and then frozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import ContradictionError, InputError
from epsilometer.inference import group_mcmc_kernels as kernels
from epsilometer.inference import group_mcmc_shares as shares
from epsilometer.inference import mcmc_kernels
from epsilometer.inference.chain_runner import run_chains
from epsilometer.inference.diagnostics import diagnose
from epsilometer.inference.mcmc import McmcSettings, prior_code
from epsilometer.inference.provenance import Provenance
from epsilometer.inference.sample_posterior import SamplePosterior
from epsilometer.model import region
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import LARGEST_SPREAD, NormalScatter, ScatteredMembers
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Beta, Fixed

FloatArray = NDArray[np.float64]

COLUMNS = {
    "epsilon": kernels.EPSILON,
    "strength": kernels.STRENGTH,
    "within_correlation": kernels.TAU,
    "cross_correlation": kernels.RHO,
    "spread": kernels.SPREAD,
}

TARGET_ACCEPTANCE = 0.4
"""Near the best for walks in one dimension, .44, and in two, .35."""

FIRST_STEPS = {
    kernels.EPSILON: 0.2,
    kernels.STRENGTH: 0.1,
    kernels.TAU: 0.005,
    kernels.RHO: 0.005,
    kernels.SPREAD: 0.4,
    kernels.SLIDE: 0.1,
    kernels.MEMBER: 1.5,
    kernels.AVERAGE: 1.5,
    kernels.SCALE: 0.3,
}

STARTS = 200
"""Attempts at a start that has any likelihood."""


def estimate_group_mcmc(
    counts: AttackCounts,
    model: AuditModel,
    settings: McmcSettings,
    *,
    report: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    num_threads: int | None = None,
) -> SamplePosterior:
    """Sample the posterior of a model whose rows scatter around the averages of their groups.

    Parameters
    ----------
    settings
        ``num_auxiliary`` is the number of sweeps over all latents between two draws that are kept;
        the choices of auxiliaries and proposals do not apply, the walk is tuned.
    """
    dependence = model.dependence
    if not isinstance(dependence, ScatteredMembers):
        raise InputError("MCMC takes scattered members; the exact engine serves pooled groups.")
    if isinstance(dependence.spread, Fixed) and dependence.spread.value == 0:
        raise InputError(
            "MCMC expects spread > 0, got spread=0.0: members without scatter are one attack; "
            "the exact engine serves this limit."
        )
    problem = _Problem.of(counts, model)
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
        name: np.stack([chain.kept[:, COLUMNS[name]] for chain in chains])
        for name in model.parameters_of(counts)
    }
    rate = float(np.mean([chain.acceptance_rate for chain in chains]))
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=Provenance.now(
            engine="mcmc",
            settings=settings.to_dict() | {"sampler": "groups"},
            seconds=time.perf_counter() - started,
            seed=settings.seed,
        ),
        samples=samples,
        diagnostics=diagnose(samples, acceptance_rate=rate),
    )


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """Counts and model as the kernels take them."""

    counts: AttackCounts
    model: AuditModel
    rows: FloatArray
    sizes: NDArray[np.int64]
    pairs: FloatArray
    constants: FloatArray
    priors: tuple[FloatArray, FloatArray, FloatArray]
    free: NDArray[np.bool_]
    scatter: int

    @classmethod
    def of(cls, counts: AttackCounts, model: AuditModel) -> _Problem:
        dependence, likelihood = model.dependence, model.likelihood
        assert isinstance(dependence, ScatteredMembers)
        groups = counts.members
        rows = np.zeros((len(counts), kernels.NUM_COLUMNS))
        for column, values in (
            (kernels.X, counts.false_positives),
            (kernels.N0, counts.trials_h0),
            (kernels.Y, counts.false_negatives),
            (kernels.N1, counts.trials_h1),
        ):
            rows[:, column] = values
        for number, members in enumerate(groups):
            rows[members, kernels.GROUP] = number
        for column, errors, trials in (
            (kernels.WIDTH_X, counts.false_positives, counts.trials_h0),
            (kernels.WIDTH_Y, counts.false_negatives, counts.trials_h1),
        ):
            rate = (errors + 1) / (trials + 2)
            rows[:, column] = np.sqrt(rate * (1 - rate) / (trials + 3))
        constants = np.zeros(11)
        constants[mcmc_kernels.DELTA] = model.delta
        constants[mcmc_kernels.EPSILON_LOW] = likelihood.smallest_epsilon(counts)
        if isinstance(likelihood, CorrelatedNormal):
            low, high = likelihood.within_correlation_bounds(counts)
            constants[mcmc_kernels.TAU_LOW], constants[mcmc_kernels.TAU_HIGH] = low, high
            constants[mcmc_kernels.TAU_SCALE] = likelihood.within_correlation_scale
        strength = model.strength
        beta = (strength.a, strength.b) if isinstance(strength, Beta) else (1.0, 1.0)
        named = model.parameters_of(counts)
        pairs = np.unique(np.stack([counts.trials_h0, counts.trials_h1], axis=1), axis=0)
        return cls(
            counts=counts,
            model=model,
            rows=rows,
            sizes=np.array([len(members) for members in groups], dtype=np.int64),
            pairs=pairs.astype(float),
            constants=constants,
            priors=(
                np.array(prior_code(model.epsilon), dtype=float),
                np.array(beta, dtype=float),
                np.array(prior_code(dependence.spread), dtype=float),
            ),
            free=np.array([name in named for name in COLUMNS]),
            scatter=shares.NORMAL
            if isinstance(dependence.scatter, NormalScatter)
            else shares.UNIFORM,
        )


class _Chain:
    """One chain: its state, its steps, and what it has kept."""

    def __init__(self, problem: _Problem, rng: np.random.Generator, settings: McmcSettings) -> None:
        self._problem, self._rng, self._settings = problem, rng, settings
        self.kept = np.empty((settings.num_iterations, len(COLUMNS)))
        self._done = 0
        self._steps = np.array([FIRST_STEPS[number] for number in range(kernels.NUM_STEPS)])
        self._counted = np.zeros((2, kernels.NUM_STEPS))
        self._start()

    def _start(self) -> None:
        for _ in range(STARTS):
            if self._try_start():
                return
        raise ContradictionError(
            "no start was found at which the counts have any weight: check the prior, the fixed "
            "values and delta."
        )

    def _try_start(self) -> bool:
        """Rates around what was observed, and parameters that leave room for all of them."""
        problem, rng, model = self._problem, self._rng, self._problem.model
        counts, dependence = problem.counts, model.dependence
        assert isinstance(dependence, ScatteredMembers)
        alpha = rng.beta(counts.false_positives + 1, counts.trials_h0 - counts.false_positives + 1)
        beta = rng.beta(counts.false_negatives + 1, counts.trials_h1 - counts.false_negatives + 1)
        members = np.stack([alpha, beta], axis=1)
        averages = np.stack([members[rows].mean(axis=0) for rows in counts.members])
        largest = max(
            float((np.abs(members[rows] - centre)).max())
            for rows, centre in zip(counts.members, averages, strict=True)
        )
        prior = dependence.spread
        if isinstance(prior, Fixed):
            spread = prior.value
        else:
            spread = float(np.clip(largest * rng.uniform(0.7, 2.0), 1e-4, 0.9 * LARGEST_SPREAD))
            most = float(prior.upper_quantile(1e-6))
            spread = min(spread, most)
        if isinstance(model.epsilon, Fixed):
            epsilon = model.epsilon.value
        else:
            every = np.concatenate([members, averages])
            needed = region.critical_epsilon(every[:, 0], every[:, 1], model.delta).max()
            room = 1 + rng.exponential(0.3)
            epsilon = float(min(max(needed, 1e-3) * room + 1e-6, 500.0))
        strength = model.strength.value if isinstance(model.strength, Fixed) else rng.random()
        while not isinstance(model.strength, Fixed) and strength > 1e-9:
            inside = region.ring_contains(
                averages[:, 0], averages[:, 1], epsilon, model.delta, strength
            )
            if inside.all():
                break
            strength *= 0.7
        if (
            not region.ring_contains(
                averages[:, 0], averages[:, 1], epsilon, model.delta, strength
            ).all()
            or not region.contains(members[:, 0], members[:, 1], epsilon, model.delta).all()
        ):
            return False
        tau, rho = 0.0, 0.0
        self._parameters = np.array([epsilon, strength, tau, rho, spread])
        self._averages, self._members = averages, members
        self._share = np.array(
            [
                shares.log_kept(problem.scatter, centre[0], centre[1], epsilon, model.delta, spread)
                if size > 1
                else 0.0
                for centre, size in zip(averages, problem.sizes, strict=True)
            ]
        )
        scattered = dependence.scatter.log_density(
            (members - averages[problem.rows[:, kernels.GROUP].astype(int)]) / spread
        )
        return bool(np.isfinite(self._share).all() and np.isfinite(scattered).all())

    def advance(self, most: int) -> int:
        """Run at most so many iterations; in warm-up tune the steps after each block."""
        total = self._settings.num_warmup + self._settings.num_iterations
        warming = self._done < self._settings.num_warmup
        limit = self._settings.num_warmup if warming else total
        made = min(most if not warming else min(most, 50), limit - self._done)
        if made <= 0:
            return 0
        if warming:
            draws = np.empty((made, len(COLUMNS)))
        else:
            begin = self._done - self._settings.num_warmup
            draws = self.kept[begin : begin + made]
        counted = np.zeros((2, kernels.NUM_STEPS))
        problem = self._problem
        kernels.run(
            self._rng,
            draws,
            self._settings.num_auxiliary,
            self._parameters,
            self._averages,
            self._members,
            self._share,
            problem.rows,
            problem.sizes,
            problem.pairs,
            problem.constants,
            *problem.priors,
            problem.free,
            problem.scatter,
            isinstance(problem.model.likelihood, CorrelatedNormal),
            self._steps,
            counted[0],
            counted[1],
        )
        if warming:
            rate = counted[0] / np.maximum(counted[1], 1)
            gain = 3.0 / (1 + self._done / 200)
            self._steps *= np.exp(np.clip(gain * (rate - TARGET_ACCEPTANCE), -0.7, 0.7))
            self._steps = np.clip(self._steps, 1e-4, 5.0)
        else:
            self._counted += counted
        self._done += made
        return made

    @property
    def acceptance_rate(self) -> float:
        """Of all moves after warm-up."""
        return float(self._counted[0].sum() / max(self._counted[1].sum(), 1.0))
