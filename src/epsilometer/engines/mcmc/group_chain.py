"""A chain for groups of dependent attacks: the full hierarchical model of appendix C.

Averages and members are part of the state, so it works for any likelihood and either scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.mcmc import densities
from epsilometer.engines.mcmc import group_kernels as kernels
from epsilometer.engines.mcmc.chains import Chain
from epsilometer.engines.mcmc.densities import LARGEST_START, Rng, all_in_ring, region_of, ring_of
from epsilometer.errors import ContradictionError
from epsilometer.model import region
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import LARGEST_SPREAD

if TYPE_CHECKING:
    from epsilometer.engines.mcmc.driver import McmcSettings

TARGET_ACCEPTANCE = 0.4
"""Near the optima for random walks in one dimension, .44, and in two, .35."""

FIRST_STEPS = (0.2, 0.1, 0.005, 0.005, 0.4, 0.1, 1.5, 1.5, 0.3)
"""Initial steps, in the order of the kernels; for members and averages in units of their own noise."""

STARTS = 200
"""Attempts to find a start with posterior weight; later ones move rates to where the prior has some."""


class GroupChain(Chain):
    """A random walk in sweeps over all averages, members and parameters."""

    warmup_block = 50

    def __init__(
        self, counts: AttackCounts, model: CountModel, settings: McmcSettings, rng: Rng
    ) -> None:
        super().__init__(
            settings, rng, width=len(densities.PARAMETERS), num_steps=kernels.NUM_STEPS
        )
        assert model.dependence.scatter is not None, "supports() refuses models without scatter"
        self.counts, self.model, self.scatter = counts, model, model.dependence.scatter
        self.problem = densities.compile_model(counts, model, columns=kernels.COLUMNS)
        rows = self.problem.rows
        for number, members in enumerate(counts.members):
            rows["group"][members] = number
        for side, count, trials in (("x", rows["x"], rows["n0"]), ("y", rows["y"], rows["n1"])):
            rate = (count + 1) / (trials + 2)
            rows[f"width_{side}"] = np.sqrt(rate * (1 - rate) / (trials + 3))
        self.steps = np.array(FIRST_STEPS)
        for attempt in range(STARTS):
            state = self._try_start(pulled=attempt >= STARTS // 2)
            if state is not None:
                self.state = state
                return
        raise ContradictionError(
            "no start was found at which the counts have any weight: check the prior, the fixed "
            "values and delta."
        )

    def run(self, draws: FloatArray, accepted: FloatArray, tried: FloatArray) -> None:
        """Fill the draws."""
        walk = kernels.Walk(self.steps, accepted, tried)
        kernels.run(self.rng, self.problem, self.state, walk, self.settings.num_sweeps, draws)

    def tune(self, accepted: FloatArray, tried: FloatArray) -> None:
        """Lengthen steps that are accepted too often, by less and less and at most by a factor of 2."""
        rate = accepted / np.maximum(tried, 1)
        gain = 3.0 / (1 + (self.done - 1) // self.warmup_block / 4)
        self.steps *= np.exp(np.clip(gain * (rate - TARGET_ACCEPTANCE), -0.7, 0.7))
        # If nothing, or everything, is accepted they would diverge.
        self.steps = np.clip(self.steps, 1e-4, 5.0)

    def _try_start(self, *, pulled: bool) -> kernels.State | None:
        """Rates near the observed ones, and parameters that are compatible with all of them."""
        rng, counts, model = self.rng, self.counts, self.model
        fixed = model.fixed_values(counts)
        rows = self.problem.rows
        alpha = rng.beta(rows["x"] + 1, rows["n0"] - rows["x"] + 1)
        beta = rng.beta(rows["y"] + 1, rows["n1"] - rows["y"] + 1)
        members = np.stack([alpha, beta], axis=1)
        if pulled:
            room = fixed.get("epsilon", min(model.epsilon.end, LARGEST_START) * rng.random())
            members = _pull(members, room, model.delta)
        averages = np.stack([members[group].mean(axis=0) for group in counts.members])
        deviations = members - averages[rows["group"]]
        if "spread" in fixed:
            spread = fixed["spread"]
        else:
            largest = float(np.abs(deviations).max())
            spread = float(np.clip(largest * rng.uniform(0.7, 2.0), 1e-4, 0.9 * LARGEST_SPREAD))
            spread = min(spread, float(model.priors_of(counts)["spread"].upper_quantile(1e-6)))
        if "epsilon" in fixed:
            epsilon = fixed["epsilon"]
        else:
            every = np.concatenate([members, averages])
            needed = region.critical_epsilon(every[:, 0], every[:, 1], model.delta).max()
            epsilon = max(float(needed), 1e-3) * (1 + rng.exponential(0.3)) + 1e-6
            epsilon = min(epsilon, LARGEST_START)
        strength = fixed["strength"] if "strength" in fixed else rng.random()
        ring = ring_of(epsilon, model.delta, strength)
        while "strength" not in fixed and strength > 1e-9 and not all_in_ring(ring, averages):
            strength *= 0.7
            ring = ring_of(epsilon, model.delta, strength)
        kept = kernels.kept_of(self.problem, averages, epsilon, spread)
        possible = (
            all_in_ring(ring, averages)
            and all_in_ring(region_of(epsilon, model.delta), members)
            and np.isfinite(self.scatter.log_density(deviations / spread)).all()
            and np.isfinite(model.epsilon.log_density(epsilon))
        )
        parameters = np.array([epsilon, strength, 0.0, 0.0, spread])
        return kernels.State(parameters, averages, members, kept) if possible else None


def _pull(rates: FloatArray, epsilon: float, delta: float) -> FloatArray:
    """Move rates towards alpha + beta = 1, which every region contains, until R(epsilon, delta) does."""
    to_diagonal = 0.5 * (1 - rates.sum(axis=1, keepdims=True))
    left, moved = np.ones_like(to_diagonal), rates
    # 0.8 ** 200 is negligible compared with 1.
    for _ in range(200):
        outside = region.critical_epsilon(moved[:, 0], moved[:, 1], delta) > epsilon
        left[outside] *= 0.8
        moved = rates + (1 - left) * to_diagonal
    return moved
