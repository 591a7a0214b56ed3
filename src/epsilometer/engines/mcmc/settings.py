"""Options of a sampler: the auxiliaries, the proposals, and what is compiled."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from epsilometer import _validate

COMPILED_PRIORS = ("half-normal", "exponential", "log-normal", "uniform")
"""Densities of epsilon and of the spread known to the kernels; those of the strength are Beta."""

COMPILED_LIKELIHOODS = ("binomial", "correlated", "correlated-published")
COMPILED_SCATTERS = ("normal", "uniform")


@dataclass(frozen=True, kw_only=True)
class UniformAuxiliaries:
    """Auxiliary error rates uniform on the unit square, as published."""

    informed: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class InformedAuxiliaries:
    """Auxiliary error rates concentrated where the counts put them.

    Binomial counts: the Beta posteriors of the rates, so that only the ring's indicator remains as
    weight, with a heavy tail added if a count is close to 0 or to all trials.  Correlated counts:
    logistic around the arcsine of the observed rates' roots.
    """

    informed: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class FixedRandomWalk:
    """Independent steps of fixed size on log epsilon, strength, tau and rho, as published.

    The paper's appendix gives variances 1e-2, 1e-4, 1e-6, 1e-6; these are standard deviations.
    """

    tuned: ClassVar[bool] = False

    log_epsilon_scale: float = 0.1
    strength_scale: float = 0.01
    within_correlation_scale: float = 0.001
    cross_correlation_scale: float = 0.001

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            object.__setattr__(self, name, _validate.positive(name, value))

    @property
    def scales(self) -> tuple[float, ...]:
        """Standard deviations of the steps, in the order of the parameters."""
        return tuple(asdict(self).values())


@dataclass(frozen=True, kw_only=True)
class TunedRandomWalk:
    """Steps of three lengths along a covariance learnt in warm-up and then frozen.

    Works on log epsilon, logit strength and logits of the correlations within their bounds; one
    proposal in ten draws the strength from its prior.  Between iterations there are a few moves
    without auxiliaries: of the parameters given the latents, and of the ring with its latents.
    """

    tuned: ClassVar[bool] = True
    scales: ClassVar[tuple[float, ...]] = (0.0,) * 4
    """None are set: steps are learnt."""
